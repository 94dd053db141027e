"""Rows without redundancy: equalities that are independent, and no pair of inequalities that is one in disguise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains import InfeasibleError
from certeq.optimize.exact.problem import Polyhedron

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """The same set with fewer rows, and where each came from.

    ``equal[i]`` is (k, -1) for a row C[k] and (i, k) for the pair G[i] = -G[k]; ``kept`` are rows of G.
    """

    polyhedron: Polyhedron
    equal: list[tuple[int, int]]
    kept: NDArray[np.intp]

    def equality_name(self, row: int) -> str:
        """What the caller calls an equality row."""
        first, second = self.equal[row]
        return f"C[{first}]" if second < 0 else f"G[{first}] with G[{second}]"

    def multipliers(self, y: Vector, z: Vector, given: Polyhedron) -> tuple[Vector, Vector]:
        """Multipliers of the caller's rows; one that was dropped gets 0."""
        of_c, of_g = np.zeros(len(given.c)), np.zeros(len(given.b))
        of_g[self.kept] = z
        for price, (first, second) in zip(y, self.equal, strict=True):
            if second < 0:
                of_c[first] = price
            else:  # y belongs to -y (g.v - b), and G v <= b carries +z
                length = float(np.linalg.norm(given.G[first]) / np.linalg.norm(given.G[second]))
                of_g[first], of_g[second] = max(-price, 0.0), max(price, 0.0) * length
        return of_c, of_g


def presolve_rows(given: Polyhedron) -> Rows:
    """Drop rows that say nothing, join pairs, keep independent equalities; raises where two contradict each other.

    An interior point method needs an inside, which  g.v <= b  with  -g.v <= -b  does not have.
    """
    if not len(given.b) and len(given.c) == 1 and np.any(given.C):
        return Rows(given, [(0, -1)], np.zeros(0, dtype=np.intp))  # the usual case: bounds and a budget
    pairs = _pairs(given)
    single = np.setdiff1d(np.flatnonzero(given.b < np.inf), np.ravel(np.array(pairs, dtype=np.intp)))
    single = single[np.any(given.G[single] != 0.0, axis=1)]
    origin = [(i, -1) for i in range(len(given.c))] + pairs
    first = [i for i, _ in pairs]
    C, c = np.vstack([given.C, given.G[first]]), np.append(given.c, given.b[first])
    names = [f"C[{i}]" if k < 0 else f"G[{i}] with G[{k}]" for i, k in origin]
    kept = _independent(C, c, names)
    single = _not_settled(given, single, C[kept], c[kept])
    polyhedron = Polyhedron(given.lower, given.upper, C[kept], c[kept], given.G[single], given.b[single])
    return Rows(polyhedron, [origin[i] for i in kept], single)


def _not_settled(q: Polyhedron, rows: NDArray[np.intp], C: Vector, c: Vector) -> NDArray[np.intp]:
    """The inequalities that the equalities do not settle; those that they contradict are kept, to be complained of.

    Where the equalities fix  g.v  to b there is no inside, and the multipliers of both may run off together.
    """
    if not len(rows) or not len(c):
        return rows
    lengths = np.linalg.norm(q.G[rows], axis=1)
    combination = np.linalg.lstsq(C.T, q.G[rows].T, rcond=None)[0]
    rest = np.linalg.norm(q.G[rows] - combination.T @ C, axis=1)
    room = q.b[rows] - combination.T @ c
    size = np.abs(combination).T @ np.abs(c) + np.abs(q.b[rows])
    settled = (rest <= 1e-13 * lengths * C.shape[1]) & (room >= -1e-12 * size)
    return np.asarray(rows[~settled], dtype=np.intp)


def _pairs(q: Polyhedron) -> list[tuple[int, int]]:
    lengths = np.linalg.norm(q.G, axis=1)
    usable = (lengths > 0.0) & (q.b < np.inf)
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for i in np.flatnonzero(usable):
        for k in np.flatnonzero(usable[i + 1 :]) + i + 1:
            same = np.all(q.G[i] * lengths[k] == -q.G[k] * lengths[i]) and q.b[i] * lengths[k] == -q.b[k] * lengths[i]
            if same and not {int(i), int(k)} & taken:
                pairs.append((int(i), int(k)))
                taken |= {int(i), int(k)}
    return pairs


def _independent(C: Vector, c: Vector, names: list[str]) -> list[int]:
    """Indices of rows that do not follow from earlier ones, by Gram-Schmidt."""
    norms = np.linalg.norm(C, axis=1)
    kept: list[int] = []
    basis = np.zeros((0, C.shape[1] + 1))
    for i in range(len(c)):
        if norms[i] == 0.0:
            if c[i] != 0.0:
                raise InfeasibleError(f"{names[i]} is zero but must equal {c[i]:g}: the constraints are infeasible.")
            continue
        full = np.append(C[i], c[i]) / norms[i]
        rest = full.copy()
        for _ in range(2):  # twice is enough for orthogonality to rounding
            rest -= (rest[:-1] @ basis[:, :-1].T) @ basis
        size = float(np.linalg.norm(rest[:-1]))
        if size > 1e-10:
            basis = np.vstack([basis, rest / size])
            kept.append(i)
        elif abs(rest[-1]) > 1e-9 * (1.0 + abs(full[-1])):
            coefficients = np.linalg.lstsq(C[kept].T, C[i], rcond=None)[0]
            others = [names[k] for k, weight in zip(kept, coefficients, strict=True) if abs(weight) > 1e-9]
            raise InfeasibleError(
                f"The constraints are infeasible: {names[i]} is a combination of {', '.join(others)}, but its right "
                f"side is {c[i]:g} where they imply {float(coefficients @ c[kept]):g}."
            )
    return kept
