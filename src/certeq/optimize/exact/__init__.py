"""The exact solver: OCE of linear losses over a polyhedron, to rounding, with a proved gap."""

from certeq.optimize.exact._problem import ExactResult
from certeq.optimize.exact._solve import PanelResult, solve_exact, solve_panel

__all__ = ["ExactResult", "PanelResult", "solve_exact", "solve_panel"]
