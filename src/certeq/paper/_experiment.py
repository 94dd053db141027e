"""What an experiment is made of: it gets a `Job`, it gives back an `Outcome` of tables, figures and claims.

A module of this package ends with its experiments: `EXPERIMENTS = (Experiment(name, title, where, run), ...)`.
`run(job)` computes; it neither prints, nor draws, nor writes files: `reproduce` does that for all of them alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Verdict = Literal["reproduced", "within noise", "not reproduced", "corrected", "not checked"]
Whose = Literal["paper", "again", "ours"]


@dataclass(frozen=True)
class ResultTable:
    """Rows under named columns; a cell is text, a number or None.

    Parameters
    ----------
    name : str
        Name of the file, without ending.
    title : str
        Caption.
    columns : tuple of str
        Heads of the columns.
    rows : tuple of tuple
        The cells.
    digits : int
        Digits shown; the CSV file keeps them all.

    See Also
    --------
    Outcome
        All that an experiment has to say.
    Figure
        Panels side by side.

    Examples
    --------
    >>> from certeq.paper import ResultTable
    >>> rows = (("CVaR", 0.0226),)
    >>> ResultTable("risks", "Risks by utility", ("Utility", "OCE"), rows).digits
    4
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | None, ...], ...]
    digits: int = 4


@dataclass(frozen=True)
class Series:
    """One curve, cloud, band or stack of a figure.

    Parameters
    ----------
    label : str
        Name in the legend.
    x : sequence of float or of str
        Positions.
    y : sequence of float
        Values.
    kind : {"line", "dashed", "points", "errorbars", "band", "stack", "bar"}
        How it is drawn.
    low, high : sequence of float, optional
        Ends of a band or of error bars.

    See Also
    --------
    Panel
        One pair of axes.
    Figure
        Panels side by side.

    Examples
    --------
    >>> from certeq.paper import Series
    >>> Series("CVaR", [1, 2, 3], [0.3, 0.2, 0.1]).kind
    'line'
    """

    label: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    kind: Literal["line", "dashed", "points", "errorbars", "band", "stack", "bar"] = "line"
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Parameters
    ----------
    series : tuple of Series
        What is drawn.
    title : str
        Title of the panel.
    x, y : str
        Labels of the axes.
    log_x, log_y : bool
        Whether an axis is logarithmic.

    See Also
    --------
    Figure
        Panels side by side.
    Series
        One curve of a figure.

    Examples
    --------
    >>> from certeq.paper import Panel, Series
    >>> Panel((Series("CVaR", [1, 2], [0.2, 0.1]),), x="iteration", log_y=True).log_x
    False
    """

    series: tuple[Series, ...]
    title: str = ""
    x: str = ""
    y: str = ""
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels side by side, drawn as PNG.

    Parameters
    ----------
    name : str
        Name of the file, without ending.
    title : str
        Caption.
    alt : str
        What is to be seen, in words.
    panels : tuple of Panel
        From left to right.

    See Also
    --------
    Panel
        One pair of axes.
    Series
        One curve of a figure.

    Examples
    --------
    >>> from certeq.paper import Figure, Panel, Series
    >>> panel = Panel((Series("CVaR", [1, 2], [0.2, 0.1]),))
    >>> Figure("gap", "The gap", "A falling line.", (panel,)).name
    'gap'
    """

    name: str
    title: str
    alt: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Claim:
    """A statement, what the paper prints, what came out here, and what that means.

    Not for opinions: what cannot be computed is "not checked". The rules of the verdicts are on every report. A verdict
    that rests on a test waits for all claims of the experiment.

    Parameters
    ----------
    text : str
        The statement.
    printed : str
        What the paper prints.
    ours : str
        What came out here.
    verdict : {"reproduced", "within noise", "not reproduced", "corrected", "not checked"}
        What that means.
    spread : str
        How much ``ours`` varies.
    why : str
        Reason of the verdict.
    rule : str
        The rule that was applied.
    whose : {"paper", "again", "ours"}
        "paper" for what it states; "again" for a statement of the paper under a second reading or in a second printing;
        "ours" for what the paper does not state.
    line : int, optional
        Line of the paper's source.
    quote : str
        Its words; a row of a table is its own quote.
    p : float, optional
        Probability of the test that the verdict rests on.
    favors : bool
        Whether the test speaks for the claim or against it.

    See Also
    --------
    Outcome
        All that an experiment has to say.
    ResultTable
        Rows under named columns.

    Examples
    --------
    >>> from certeq.paper import Claim
    >>> Claim("the quartic risk of 0 is 0", "0", "-0.4725", "not reproduced").verdict
    'not reproduced'
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
    """All that an experiment has to say.

    Parameters
    ----------
    tables : tuple of ResultTable
        Its tables.
    figures : tuple of Figure
        Its figures.
    claims : tuple of Claim
        Its claims with their verdicts.
    notes : tuple of str
        Plain sentences for the reader.
    numbers : mapping
        What tests and ``result.json`` may read.
    seeds : tuple of int
        Seeds that were used.
    synthetic : bool
        Whether synthetic data are part of it.

    See Also
    --------
    Result
        What became of an experiment.
    Claim
        A statement of the paper and its verdict.

    Examples
    --------
    >>> from certeq.paper import Outcome
    >>> Outcome(notes=("Nothing was random.",)).seeds
    ()
    """

    tables: tuple[ResultTable, ...] = ()
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    synthetic: bool = False

    @property
    def verdicts(self) -> dict[str, int]:
        """How many claims of the paper had which verdict; those that were not checked are no part of it."""
        counted = [claim.verdict for claim in self.claims if claim.whose == "paper"]
        return dict(Counter(verdict for verdict in counted if verdict != "not checked"))

    @property
    def not_checked(self) -> int:
        """How many claims of the paper could not be checked."""
        return sum(claim.verdict == "not checked" and claim.whose == "paper" for claim in self.claims)


class Job(Protocol):
    """What an experiment is told, and how it runs many pieces: in parallel, with progress, resumable."""

    quick: bool
    seeds: int
    sensitivity: bool

    def map(self, function: Callable[..., Any], items: Sequence[Mapping[str, Any]], vectors: bool = True) -> list[Any]:
        """`[function(**item) for item in items]`, over processes; answers are JSON values and kept for a resumed run.

        Without `vectors`, PyTorch uses no vector instructions beyond its baseline. `function` is a module-level
        function, each item a mapping of JSON values: together they are the key under which an answer is kept.
        """
        ...


@dataclass(frozen=True)
class Experiment:
    """One entry of ``certeq reproduce``: its name there, what it shows, and how it runs.

    Parameters
    ----------
    name : str
        Its name in ``certeq reproduce``.
    title : str
        What it shows.
    where : str
        The paper's table or figure.
    run : callable
        Takes a job, which runs its parts, and returns an `Outcome`.

    See Also
    --------
    reproduce
        Run the paper's experiments.
    Outcome
        All that an experiment has to say.

    Examples
    --------
    >>> from certeq.paper import Experiment, Outcome
    >>> Experiment("nothing", "Nothing at all", "nowhere", lambda job: Outcome()).name
    'nothing'
    """

    name: str
    title: str
    where: str
    run: Callable[[Job], Outcome]
