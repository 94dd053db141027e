"""Which constraint is to blame where no portfolio is left, in the caller's words."""

from __future__ import annotations

import re
from dataclasses import replace

from certeq.optimize.domains import InfeasibleError, UnboundedError
from certeq.portfolio._programme import Programme

_FEW = 60  # rows; above it the search for the conflict would take too many linear programmes


def blame(programme: Programme, error: InfeasibleError) -> str:
    """The smallest set of constraints that exclude each other; for a target return, what could be had instead."""
    if len(programme.c) + len(programme.b) > _FEW:
        return in_words(str(error), programme)
    core = _conflict(programme)
    names = [*core.equalities, *core.inequalities]
    if not names:
        return in_words(str(error), programme)
    for k, name in enumerate(programme.inequalities):
        if name.startswith("min_return") and name in names:
            try:
                least = float(programme.G[k] @ _without(programme, (), (k,)).domain().minimize_linear(programme.G[k]))
            except (InfeasibleError, UnboundedError):
                continue
            best = -(least + programme.minus_return()[1])
            return f"{name} is out of reach: the other constraints allow an expected return of {best:.6g} at most."
    within = "within min_weights and max_weights" + (" (and max_turnover)" if core.problem.turnover else "")
    if len(names) == 1:
        return f"{names[0]} cannot hold {within}."
    return f"These cannot hold together {within}: {'; '.join(names)}."


def _conflict(programme: Programme) -> Programme:
    """The rows that are left when every row is dropped without which the others still exclude each other."""
    core = programme
    for kind in ("G", "C"):
        k = 0
        while k < len(core.b if kind == "G" else core.c):
            fewer = _without(core, (), (k,)) if kind == "G" else _without(core, (k,), ())
            if _is_empty(fewer):
                core = fewer
            else:
                k += 1
    return core


def _without(programme: Programme, equal: tuple[int, ...], below: tuple[int, ...]) -> Programme:
    p = programme
    C = [i for i in range(len(p.c)) if i not in equal]
    G = [i for i in range(len(p.b)) if i not in below]
    return replace(
        p,
        C=p.C[C],
        c=p.c[C],
        G=p.G[G],
        b=p.b[G],
        equalities=tuple(p.equalities[i] for i in C),
        inequalities=tuple(p.inequalities[i] for i in G),
    )


def _is_empty(programme: Programme) -> bool:
    try:
        programme.domain().validate(len(programme.segments.asset))
    except InfeasibleError:
        return True
    return False


def in_words(message: str, programme: Programme) -> str:
    """A solver's message with the caller's names in place of the solver's indices."""

    def constraint(match: re.Match[str]) -> str:
        names = programme.equalities if match[1] == "C" else programme.inequalities
        place = int(match[2])
        return names[place] if place < len(names) else match[0]

    def asset(match: re.Match[str]) -> str:
        place = int(match[1])
        if place >= len(programme.segments.asset):
            return match[0]
        return programme.problem.assets.label(int(programme.segments.asset[place]))

    message = re.sub(r"\basset (\d+)", asset, message)
    return re.sub(r"\b([CGA])\[(\d+)\](?: theta)?(?: <?= [bc]\[\d+\])?", constraint, message)
