"""The solvers for the threshold that other packages import, one for each shape of the data.

One vector in memory (`solve_vector`, or `value_of_vector` where no tilt is wanted, or `value_near` from a threshold
nearby), many rows at once (`solve_rows`, or
`solve_each` where compiled code can do it), one long sample read in blocks (`solve_long`; `solve_table` names a loss
that is not finite). `solve_vector` and `solve_each` return the tilt, the weights q_i = w_i u'(x_i - t*) that sum to 1;
the answers of the others make it on demand. `blindness_of` and `blindness_at` say where a utility does not see the risk
of losses as small as these. `warn_of_few_samples` says where a minimizer was chosen by too few samples.

A risk with more inner variables than t has `solve_risk`, or `solve_inner` where its inner minimum is at hand, and
`solve_long_risk`.
"""

from certeq.risk._breakpoints import bracket_by_breakpoints
from certeq.risk._compiled import AVAILABLE
from certeq.risk._distortion import SolvedInner, needs_sorting
from certeq.risk._estimate import warn_of_few_samples
from certeq.risk._inner import solve_inner, solve_risk
from certeq.risk._input import check_risk, check_utility
from certeq.risk._long import LongSolved, TiltKernel, solve_long, solve_table
from certeq.risk._long_inner import LongRisk, RiskTiltKernel, solve_long_inner, solve_long_risk
from certeq.risk._rows import SolvedRows, solve_rows
from certeq.risk._units import blindness_at, blindness_of, depends_on_unit, tilt_is_steep, warn_of_unit
from certeq.risk._vector import (
    SMALL,
    Solved,
    closed_density,
    furthest,
    rank_of,
    solve_each,
    solve_near,
    solve_vector,
    value_near,
    value_of_vector,
)

__all__ = [
    "AVAILABLE",
    "SMALL",
    "LongRisk",
    "LongSolved",
    "RiskTiltKernel",
    "Solved",
    "SolvedInner",
    "SolvedRows",
    "TiltKernel",
    "blindness_at",
    "blindness_of",
    "bracket_by_breakpoints",
    "check_risk",
    "check_utility",
    "closed_density",
    "depends_on_unit",
    "furthest",
    "needs_sorting",
    "rank_of",
    "solve_each",
    "solve_inner",
    "solve_long",
    "solve_long_inner",
    "solve_long_risk",
    "solve_near",
    "solve_risk",
    "solve_rows",
    "solve_table",
    "solve_vector",
    "tilt_is_steep",
    "value_near",
    "value_of_vector",
    "warn_of_few_samples",
    "warn_of_unit",
]
