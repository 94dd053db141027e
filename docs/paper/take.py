"""Take the small files of a run of ``certeq reproduce`` into ``docs/paper/results``, from which the pages are made.

certeq reproduce uncertainty --out certeq-paper
python docs/paper/take.py certeq-paper

Only the experiments of the run are replaced; the others stay, as does one whose market's data were not there. A run
that was made with uncommitted changes is refused, as nobody could repeat it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent
SMALL = {".json", ".csv", ".png"}


def take(run: Path, target: Path) -> list[str]:
    """Copy every experiment of the run that has a result, in place of what an earlier run left of it."""
    read = {path.parent: json.loads(path.read_text()) for path in sorted(run.glob("*/result.json"))}
    found = {folder: result for folder, result in read.items() if "claims" in result or not result.get("left_out")}
    if not found:
        raise FileNotFoundError(f"{run} holds no experiment: no */result.json in it.")
    for folder, result in found.items():
        commit = str(result.get("commit"))
        if result.get("failure") or result.get("quick") or commit == "None" or commit.endswith("-dirty"):
            raise ValueError(
                f"{folder.name} must be a full run at a commit without changes; found "
                f"{result.get('failure') or ('a quick run' if result.get('quick') else f'commit {commit}')}."
            )
    for folder in found:
        taken = target / folder.name
        shutil.rmtree(taken, ignore_errors=True)
        taken.mkdir(parents=True)
        for path in sorted(folder.iterdir()):
            if path.suffix in SMALL:
                shutil.copyfile(path, taken / path.name)
    return [folder.name for folder in found]


def main() -> None:
    """Ask which run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder certeq reproduce wrote")
    print(*take(parser.parse_args().run, HERE / "results"), sep="\n")


if __name__ == "__main__":
    main()
