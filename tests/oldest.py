"""`make test-oldest`: the lower bounds of pyproject.toml as pins, so that what is declared is what is tested.

Every requirement of the package and of its extras for users is pinned to its bound; tools for tests come as they are.
PyTorch alone keeps the pin of constraints.txt: its older builds without accelerator libraries are not on the package
index, and the others are gigabytes.

    python -m tests.oldest              # the pins, for pip's -c
    python -m tests.oldest --installed  # fails where this environment has anything else
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("test", "lint", "bench", "docs", "release", "all")  # all but those for users
KEPT = ("torch",)


def pins() -> dict[str, str]:
    """The oldest version of each package that pyproject.toml allows, by name; ValueError if extras disagree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for name in extras if name not in TOOLS for line in extras[name])]
    found: dict[str, str] = {}
    for line in wanted:
        if line.startswith("certeq["):
            continue
        match = re.fullmatch(r"([A-Za-z0-9-]+)(?:\[[\w,]+\])?>=([\d.]+)(?:,<\d+)?", line)
        if match is None:
            raise ValueError(f"{line!r} states no lower bound as name>=version.")
        name, bound = match[1], match[2]
        if found.setdefault(name, bound) != bound:
            raise ValueError(f"{name} has two lower bounds: {found[name]} and {bound}.")
    for name in KEPT:
        found[name] = re.search(rf"^{name}==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)[1]  # type: ignore[index]
    return found


def release(text: str) -> tuple[int, ...]:
    """2.0 and 2.0.0 are one version; what follows the numbers (+cpu) is a build of it."""
    numbers = [int(part) for part in re.match(r"[\d.]+", text)[0].strip(".").split(".")]  # type: ignore[index]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def main() -> int:
    """Print the pins, or compare them with what is installed."""
    if "--installed" not in sys.argv:
        print("\n".join(f"{name}=={bound}" for name, bound in pins().items()))
        return 0
    wrong = [
        f"{name} {version(name)} (declared {bound})"
        for name, bound in pins().items()
        if release(version(name)) != release(bound)
    ]
    print(f"not the oldest: {', '.join(wrong)}" if wrong else f"{len(pins())} packages at their lower bounds")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
