"""Take the small files of a run of ``certeq reproduce`` into ``docs/paper/results``, from which the page is made.

certeq reproduce --out certeq-paper
python docs/paper/take.py certeq-paper
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SMALL = {".json", ".csv", ".png"}


def commit() -> str:
    """The commit this tree is at, and whether it has been changed since."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=HERE, capture_output=True, text=True
    )
    return asked.stdout.strip() or "unknown"


def take(run: Path, target: Path, command: str, revision: str) -> list[str]:
    """Copy every experiment that has a result; what an earlier run left behind is taken away."""
    found = sorted(path.parent for path in run.glob("*/result.json"))
    if not found:
        raise FileNotFoundError(f"{run} holds no experiment: no */result.json in it.")
    if target.exists():
        shutil.rmtree(target)
    for folder in found:
        place = target / folder.name
        place.mkdir(parents=True)
        for path in sorted(folder.iterdir()):
            if path.suffix in SMALL:
                shutil.copyfile(path, place / path.name)
    (target / "run.json").write_text(json.dumps({"command": command, "commit": revision}, indent=1) + "\n")
    return [folder.name for folder in found]


def main() -> None:
    """Ask which run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder certeq reproduce wrote")
    parser.add_argument("--command", default="certeq reproduce", help="how it was called")
    options = parser.parse_args()
    print(*take(options.run, HERE / "results", options.command, commit()), sep="\n")


if __name__ == "__main__":
    main()
