"""Feasible sets: exact projection, membership, linear minimisation and a start, on NumPy and PyTorch.

Every set is a small frozen `Domain`; every projection is also a pure function, ``project_<set>(x, ...)``, that skips
the checks and works on arrays and tensors alike.
"""

from __future__ import annotations

from ._ball import Ball, project_ball
from ._base import Domain
from ._box import Box, Free, NonNegative, project_box
from ._capped_simplex import CappedSimplex, project_capped_simplex
from ._errors import InfeasibleError, UnboundedError
from ._l1_ball import L1Ball, project_l1_ball
from ._long_short import LongShort, project_long_short
from ._polyhedron import Polyhedron
from ._product import Product
from ._simplex import Simplex, project_simplex

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
