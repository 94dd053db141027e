"""What an experiment is made of, and how its results are written.

A module of this package ends with ``EXPERIMENTS = (Experiment(name, title, where, run), ...)``. ``run(job)`` returns an
`Outcome` of tables, pictures and claims; `write_outcome` stores them.
"""

from __future__ import annotations

import csv
import json
import math
import platform
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypedDict

import joblib
import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tqdm import tqdm

from certeq.risk import UnitWarning

Verdict = Literal["reproduced", "within noise", "not reproduced", "corrected", "undecided", "not checked"]
Whose = Literal["paper", "again"]
Cell = str | float | int | None

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
LIBRARIES = ("certeq", "numpy", "scipy", "pandas", "scikit-learn", "skfolio", "torch")
COLORS = ("#0072b2", "#d55e00", "#008a63", "#b35a8c", "#cf8d00", "#3b9edb", "#8a7f00", "#5b4db0")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=COLORS),
    "grid.color": "#e8ebef",
    "legend.frameon": False,
    "legend.fontsize": 7.5,
}
matplotlib.rcParams.update(STYLE)


@dataclass(frozen=True)
class Table:
    """Rows under named columns; CSV files keep all digits, pages show ``digits``."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int = 4

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {number} of table {self.name!r} has {len(row)} cells under {len(self.columns)} columns."
                )


@dataclass(frozen=True)
class Picture:
    """A figure of matplotlib, made with ``Figure(layout="constrained")``, and its description in words."""

    name: str
    title: str
    alt: str
    figure: Figure


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, what it prints, what was found here, and the verdict.

    ``whose`` is "again" for a statement of the paper in a second reading or a second printing; those are counted apart.
    ``p`` is the p-value of a test, and ``favors`` its direction; `verdicts.controlled` turns both into the verdict.
    """

    text: str
    printed: str
    ours: str
    verdict: Verdict
    spread: str = ""
    why: str = ""
    rule: str = ""
    whose: Whose = "paper"
    line: int | None = None
    quote: str = ""
    p: float | None = None
    favors: bool = True


@dataclass(frozen=True)
class Outcome:
    """Everything that an experiment found."""

    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()

    @property
    def verdicts(self) -> dict[str, int]:
        """Count the claims of the paper by verdict."""
        return dict(Counter(claim.verdict for claim in self.claims if claim.whose == "paper"))


@dataclass(frozen=True)
class Job:
    """How an experiment runs: in full or quick, over how many seeds, in how many processes."""

    quick: bool = False
    seeds: int = 3
    processes: int | None = None

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, found {self.seeds}.")

    def map(self, function: Callable[..., Any], items: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Return ``[function(**item) for item in items]``, computed in processes of one thread each."""
        every = list(items)
        processes = min(self.processes or joblib.cpu_count(), len(every))
        label = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        if processes < 2:
            return [_without_unit_warnings(function, item) for item in tqdm(every, label, leave=False, mininterval=1)]
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            work = joblib.Parallel(processes, return_as="generator")(
                joblib.delayed(_without_unit_warnings)(function, item) for item in every
            )
            return list(tqdm(work, label, total=len(every), leave=False, mininterval=1))


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper: its name, what it shows, where it is printed, and the function that runs it."""

    name: str
    title: str
    where: str
    run: Callable[[Job], Outcome]


class Quoted(TypedDict):
    """The fields of a claim that say where the paper makes it."""

    line: int
    quote: str


def quoted(key: str) -> Quoted:
    """Return the line and words of a claim: "uncertainty", or a row of a table such as "heart/CVaR".

    The words of a row are those it begins with.
    """
    try:
        line, quote = _quotes()[key]
    except KeyError:
        raise KeyError(f"no quote {key!r} in quotes.csv.") from None
    return {"line": line, "quote": quote}


def row_of(table: str, row: str) -> Quoted:
    """Return the line of a row of a table, and the words it begins with."""
    return quoted(f"{table}/{row}")


def printed(table: str) -> dict[str, tuple[float, ...]]:
    """Return the figures of a printed table by row, in the order of the paper.

    Tables: "sp500", "ftse100", "nasdaq", the same after "solver, ", "heart", "breast-cancer" and "uncertainty".
    """
    found: dict[str, tuple[float, ...]] = {}
    for entry in entries("printed.csv"):
        if entry["table"] == table:
            found[entry["row"]] = (*found.get(entry["row"], ()), float(entry["value"]))
    if not found:
        raise KeyError(f"no table {table!r} in printed.csv.")
    return found


@cache
def _quotes() -> dict[str, tuple[int, str]]:
    return {entry["key"]: (int(entry["line"]), entry["quote"]) for entry in entries("quotes.csv")}


def entries(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file of this folder."""
    with (HERE / name).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def band(axes: Axes, x: Any, mean: Any, reach: Any, label: str, floor: Any = None) -> None:
    """Draw a curve and the band within ``reach`` of it, which ``floor`` keeps above 0 on logarithmic axes."""
    low = np.subtract(mean, reach) if floor is None else np.maximum(np.subtract(mean, reach), floor)
    (line,) = axes.plot(x, mean, label=label, linewidth=1.6)
    axes.fill_between(x, low, np.add(mean, reach), color=line.get_color(), alpha=0.2, linewidth=0)


def write_outcome(folder: Path, experiment: Experiment, outcome: Outcome, job: Job, seconds: float) -> None:
    """Write tables as CSV, pictures as PNG and the rest as ``result.json``.

    An earlier result is replaced once all files are written: a failure leaves it as it was.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as name:
        _write(Path(name), experiment, outcome, job, seconds)
        for path in folder.iterdir():
            if path.name == "result.json" or path.suffix in (".csv", ".png"):
                path.unlink()
        for path in Path(name).iterdir():
            path.replace(folder / path.name)


def _write(folder: Path, experiment: Experiment, outcome: Outcome, job: Job, seconds: float) -> None:
    for table in outcome.tables:
        with (folder / f"{table.name}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(table.columns)
            writer.writerows([_exact(cell) for cell in row] for row in table.rows)
    for picture in outcome.pictures:
        picture.figure.savefig(folder / f"{picture.name}.png", dpi=130, metadata={"Software": None})
    result = {
        **_circumstances(experiment, job, seconds),
        "seeds": list(outcome.seeds),
        "verdicts": outcome.verdicts,
        "claims": [asdict(claim) for claim in outcome.claims],
        "notes": list(outcome.notes),
        "numbers": outcome.numbers,
        "tables": [{"name": t.name, "title": t.title, "digits": t.digits} for t in outcome.tables],
        "figures": [{"name": p.name, "title": p.title, "alt": p.alt} for p in outcome.pictures],
    }
    text = json.dumps(_plain(result), indent=1, allow_nan=False)
    (folder / "result.json").write_text(text + "\n", encoding="utf-8")


def _circumstances(experiment: Experiment, job: Job, seconds: float) -> dict[str, Any]:
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "where": experiment.where,
        "quick": job.quick,
        "seeds_asked": job.seeds,
        "seconds": round(seconds, 1),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions,
        "commit": commit(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


@cache
def commit() -> str | None:
    """Return the commit of the code at the first call, with "-dirty" if files differ, or None without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip() or None
    return None


def _plain(data: Any) -> Any:
    """Convert to JSON values; a number that is not finite becomes null."""
    if hasattr(data, "tolist"):
        return _plain(data.tolist())
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [_plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _exact(cell: Cell) -> str:
    if cell is None:
        return ""
    return repr(float(cell)) if isinstance(cell, float) else str(cell)  # repr of a NumPy scalar would include its type


def _without_unit_warnings(function: Callable[..., Any], item: Mapping[str, Any]) -> Any:
    """Call with the paper's parameters, whether or not they suit the unit of the losses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnitWarning)
        try:
            return function(**item)
        except Exception as error:
            error.add_note(f"(in {function.__module__}.{function.__name__}, {dict(item)!s:.200})")
            raise
