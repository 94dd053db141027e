"""Files written whole or not at all, and never over somebody's work unasked."""

from __future__ import annotations

from pathlib import Path

from certeq._files import check_folder, write_bytes


def check_writable(path: str | Path, *, force: bool = False) -> Path:
    """Refuse early what `write_text` would refuse after the work is done; returns the path.

    Not a reservation: somebody else may take the name before the work is done.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from certeq.report import check_writable
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> check_writable(folder / "new.html").name
    'new.html'
    >>> check_writable(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    IsADirectoryError: ... is a directory; name a file.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory; name a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the directory {target.parent} does not exist.")
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists already; choose another name, or pass --force to replace it.")
    check_folder(target)
    return target


def write_text(path: str | Path, text: str, *, force: bool = False) -> Path:
    """Write UTF-8 text atomically: readers see the old file or the whole new one, whatever happens in between.

    Without ``force`` an existing file stays, even one that appeared while the work was going on.

    Not for large or binary data: the whole text is held in memory.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from certeq.report import write_text
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_text(folder / "note.txt", "kept whole").read_text()
    'kept whole'
    >>> write_text(folder / "note.txt", "again")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    FileExistsError: ... exists already; choose another name, or pass --force to replace it.
    """
    target = check_writable(path, force=force)
    try:
        write_bytes(target, text.encode(), replace=force)
    except FileExistsError:
        raise FileExistsError(f"{target} appeared while the work was going on; pass --force to replace it.") from None
    return target
