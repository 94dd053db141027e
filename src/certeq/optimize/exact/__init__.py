"""The exact solver: the risk of linear losses over a polyhedron, to rounding, with a proved gap."""

from certeq.optimize.exact._panel import PanelResult, solve_panel
from certeq.optimize.exact._parts import RiskPart, solve_parts
from certeq.optimize.exact._problem import ExactResult, PartResult
from certeq.optimize.exact._solve import solve_exact

__all__ = ["ExactResult", "PanelResult", "PartResult", "RiskPart", "solve_exact", "solve_panel", "solve_parts"]
