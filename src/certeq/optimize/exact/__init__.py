"""The exact solver: the risk of linear losses over a polyhedron, to rounding, with a proved gap."""

from certeq.optimize.exact._panel import PanelResult, solve_panel
from certeq.optimize.exact._problem import ExactResult
from certeq.optimize.exact._solve import solve_exact

__all__ = ["ExactResult", "PanelResult", "solve_exact", "solve_panel"]
