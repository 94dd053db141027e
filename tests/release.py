"""One version everywhere: what the workflow of a release runs before it builds anything.

python -m tests.release v0.2.0
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(tag: str) -> list[str]:
    """What is not ready for a release of that tag."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(r"^## (\S+) \((.+)\)$", changelog, flags=re.MULTILINE)
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, the version in pyproject.toml {version}.")
    if citation is None or citation[1] != version:
        found.append(f"CITATION.cff does not name version {version}.")
    if heading is None or heading[1] != version:
        found.append(f"the first heading of CHANGELOG.md is not that of {version}.")
    elif not re.fullmatch(r"\d{4}-\d{2}-\d{2}", heading[2]):
        found.append(f"CHANGELOG.md calls {version} {heading[2]!r}; a release has its date there.")
    return found


if __name__ == "__main__":
    wrong = problems(sys.argv[1] if len(sys.argv) > 1 else "")
    print("\n".join(wrong) or "one version everywhere")
    raise SystemExit(bool(wrong))
