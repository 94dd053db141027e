"""A quadratic plus hinges over a polyhedron: the problem of one step, and the nearest point of a polyhedron."""

from certeq.optimize.qp._solve import solve_rescaled, solve_subproblem
from certeq.optimize.qp._subproblem import Multipliers, Partition, Subproblem, SubSolution

__all__ = ["Multipliers", "Partition", "SubSolution", "Subproblem", "solve_rescaled", "solve_subproblem"]
