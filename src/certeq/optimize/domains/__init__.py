"""Feasible sets: exact projection, membership, linear minimization and a start, on NumPy and PyTorch.

Every set is a small frozen `Domain`; every projection is also a pure function, ``project_<set>(x, ...)``, that skips
the checks and works on arrays and tensors alike.
"""

from __future__ import annotations

from ._balls import Ball, L1Ball, project_ball, project_l1_ball
from ._base import Domain, InfeasibleError, UnboundedError
from ._box import Box, Free, NonNegative, project_box
from ._budget import CappedSimplex, LongShort, Simplex, project_capped_simplex, project_long_short, project_simplex
from ._polyhedron import Polyhedron, Product

__all__ = [
    "Ball",
    "Box",
    "CappedSimplex",
    "Domain",
    "Free",
    "InfeasibleError",
    "L1Ball",
    "LongShort",
    "NonNegative",
    "Polyhedron",
    "Product",
    "Simplex",
    "UnboundedError",
    "project_ball",
    "project_box",
    "project_capped_simplex",
    "project_l1_ball",
    "project_long_short",
    "project_simplex",
]

# Pickles and tracebacks name this package, not the file that a class happens to be written in.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
