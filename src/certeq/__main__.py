"""``python -m certeq`` is the ``certeq`` command."""

from certeq.cli import main

if __name__ == "__main__":
    main()
