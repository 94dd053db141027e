"""Take the small files of a run of ``certeq reproduce`` into ``docs/paper/results``, from which the page is made.

certeq reproduce --out certeq-paper
python docs/paper/take.py certeq-paper
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SMALL = {".json", ".csv", ".png"}
SEEDS = {False: 20, True: 3}  # the defaults of a full and of a quick run


def results_of(run: Path) -> list[dict[str, Any]]:
    """What each experiment of a run wrote."""
    found = [json.loads(path.read_text()) for path in sorted(run.glob("*/result.json"))]
    if not found:
        raise FileNotFoundError(f"{run} holds no experiment: no */result.json in it.")
    return found


def command_of(results: list[dict[str, Any]]) -> str:
    """How it was called, from what the results record; a variable that was set is named, its value is left out."""
    names = sorted({name for result in results for name in result.get("environment", {})})
    words = [*(f"{name}=..." for name in names), "certeq reproduce"]
    first = results[0]
    words += ["--quick"] if first.get("quick") else []
    seeds = first.get("seeds_asked")
    words += [f"--seeds {seeds}"] if seeds is not None and seeds != SEEDS[bool(first.get("quick"))] else []
    return " ".join(words)


def commit_of(results: list[dict[str, Any]]) -> str:
    """The commit the run was made at, which need not be the present one; several if it was pieced together."""
    found = dict.fromkeys(str(result["commit"]) for result in results if result.get("commit"))
    return ", ".join(found) or "unknown"


def take(run: Path, target: Path, command: str, revision: str) -> list[str]:
    """Copy every experiment that has a result; what an earlier run left behind is taken away."""
    results_of(run)
    found = sorted(path.parent for path in run.glob("*/result.json"))
    if target.exists():
        shutil.rmtree(target)
    for folder in found:
        folder_taken = target / folder.name
        folder_taken.mkdir(parents=True)
        for path in sorted(folder.iterdir()):
            if path.suffix in SMALL:
                shutil.copyfile(path, folder_taken / path.name)
    (target / "run.json").write_text(json.dumps({"command": command, "commit": revision}, indent=1) + "\n")
    return [folder.name for folder in found]


def main() -> None:
    """Ask which run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder certeq reproduce wrote")
    parser.add_argument("--command", help="how it was called; by default as the results record it")
    options = parser.parse_args()
    results = results_of(options.run)
    command = options.command or command_of(results)
    print(*take(options.run, HERE / "results", command, commit_of(results)), sep="\n")


if __name__ == "__main__":
    main()
