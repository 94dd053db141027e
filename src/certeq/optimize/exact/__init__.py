"""The exact solver: OCE of linear losses over a polyhedron, to rounding, with a proved gap."""

from certeq.optimize.exact.result import ExactResult
from certeq.optimize.exact.solve import solve_exact

__all__ = ["ExactResult", "solve_exact"]
