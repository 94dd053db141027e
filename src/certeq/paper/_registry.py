"""The experiments by name, in the order of the report; their modules are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module

from certeq.paper._experiment import Experiment

_MODULES = {
    "portfolio-sp500": "portfolios",
    "portfolio-ftse100": "portfolios",
    "portfolio-nasdaq": "portfolios",
    "cvar-solver": "cvar_solver",
    "classification-breast-cancer": "classification",
    "classification-heart": "classification",
    "uncertainty": "uncertainty",
    "entropic-estimation": "entropic_estimation",
    "entropic-optimisation": "entropic_optimisation",
    "convergence": "convergence",
    "bounds": "bounds",
    "errata": "errata",
}
EXPERIMENTS = tuple(_MODULES)
"""The names `reproduce` takes, in the order of the report: the paper's tables and figures, and its errata.

Not the experiments themselves: their modules are imported when they are asked for, and may need an extra.

Examples
--------
>>> from certeq.paper import EXPERIMENTS
>>> EXPERIMENTS[0], EXPERIMENTS[-1]
('portfolio-sp500', 'errata')
"""
_STARTS = "random starts of OCE-SG, one for each seed"
_DEAR = "on more than 500 assets at most 5 (2 on synthetic data or in a quick run), as each takes half a minute"
_TABLE = "initial weights on the paper's split, and as many further splits"
# What --seeds N does in each experiment; where a spread is needed, N = 1 counts as 2.
SEEDING = {
    "portfolio-sp500": _STARTS,
    "portfolio-ftse100": _STARTS,
    "portfolio-nasdaq": f"{_STARTS}; {_DEAR}",
    "cvar-solver": f"{_STARTS}; on Nasdaq as in portfolio-nasdaq; none in a quick run, which does not judge rows",
    "classification-breast-cancer": _TABLE,
    "classification-heart": _TABLE,
    "uncertainty": "seeds of every network on the paper's data set, and as many further data sets",
    "entropic-estimation": "repetitions of the whole experiment",
    "entropic-optimisation": "five runs of OCE-SG for each seed; the figure shows the paper's 20, or all if fewer",
    "convergence": "two runs of OCE-SG for each seed, schedule and regime",
    "bounds": "repetitions of what is simulated; the other rows are exact sums without randomness",
    "errata": "does not apply: each check has a fixed seed, as its answer is yes or no and has no spread",
}


def check_names(names: Iterable[str] | None) -> tuple[str, ...]:
    """The experiments asked for, in the order of the report and each once; all of them if none is named."""
    if isinstance(names, str):
        names = (names,)
    wanted = tuple(names or ())
    for name in wanted:
        if name not in _MODULES:
            close = get_close_matches(str(name).lower(), EXPERIMENTS, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise ValueError(f"there is no experiment {name!r}; {hint}There are: {', '.join(EXPERIMENTS)}.")
    return tuple(name for name in EXPERIMENTS if name in wanted) if wanted else EXPERIMENTS


def find_experiment(name: str) -> Experiment:
    """The experiment of that name; ImportError, in one line, where its module or an extra it needs is missing."""
    (name,) = check_names((name,))
    where = f"certeq.paper.{_MODULES[name]}"
    try:
        module = import_module(where)
    except ModuleNotFoundError as error:
        if error.name == where:
            raise ImportError(f"{name} is not part of this installation: {where} is missing.", name=where) from None
        raise ImportError(f"{name} needs {error.name}: pip install 'certeq[paper]'.", name=error.name) from error
    for experiment in module.EXPERIMENTS:
        if experiment.name == name:
            found: Experiment = experiment
            return found
    raise ImportError(f"{where} has no experiment {name!r}.", name=where)
