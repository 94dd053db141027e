"""Errors and warnings of feasible sets, losses and solvers: the argument, what was found, and the remedy."""

from functools import partial

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.exact import RiskPart, solve_exact, solve_parts
from certeq.optimize.losses import Objective
from tests.blocks import Counted, small_tables_in_blocks
from tests.messages import messages
from tests.problems import returns

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(80)
A, Y = RNG.normal(size=(20, 3)), RNG.normal(size=20)
CVAR, EXP, ONES = ce.CVaR(0.1), ce.Entropic(1.0), np.ones((1, 3))
SIMPLEX, LOSS = ce.Simplex(), ce.LinearLoss(A)
NAN = np.where(np.arange(20)[:, None] + np.arange(3) == 5, np.nan, A)


def box(lower, upper, **rows):
    return partial(ce.Polyhedron, lower, upper, **rows)


SETS = {
    "negative_total": (lambda: ce.Simplex(-1.0), ValueError, "total", "not below 0", "-1"),
    "nan_total": (lambda: ce.Simplex(np.nan), ValueError, "total", "found NaN"),
    "totals": (lambda: ce.Simplex([1.0, 2.0]), TypeError, "total must be a finite number"),
    "text_total": (lambda: ce.Simplex("one"), TypeError, "total", "'one'"),
    "negative_radius": (lambda: ce.Ball(-1.0), ValueError, "radius", "-1"),
    "infinite_radius": (lambda: ce.L1Ball(np.inf), ValueError, "radius", "found inf"),
    "nan_center": (lambda: ce.Ball(1.0, center=[0.0, np.nan]), ValueError, "center", "nan at index 1"),
    "nan_upper": (lambda: ce.Box(0.0, [1.0, np.nan]), ValueError, "upper must be finite or inf", "nan at index 1"),
    "infinite_lower": (lambda: ce.Box(np.inf, np.inf), ValueError, "lower must be finite or -inf", "inf"),
    "sizes_of_bounds": (lambda: ce.Box([0.0, 0.0], [1.0] * 3), ValueError, "same size", "2 and 3"),
    "matrix_of_bounds": (lambda: ce.Box([[0.0]], 1.0), ValueError, "lower must be a number or a vector"),
    "complex_bound": (lambda: ce.Box(0j, 1.0), TypeError, "lower must hold real numbers"),
    "negative_short": (lambda: ce.LongShort(1.3, -0.3), ValueError, "short", "not below 0"),
    "sizes_of_blocks": (lambda: ce.Product([SIMPLEX], [2, 3]), ValueError, "one entry per domain", "2 for 1"),
    "no_blocks": (lambda: ce.Product([], []), ValueError, "at least one Domain"),
    "text_block": (lambda: ce.Product(["simplex"], [2]), TypeError, "domains[0] must be a Domain", "str"),
    "no_dimension": (box(0.0, 1.0), ValueError, "must know its dimension"),
    "dimensions": (box([0.0, 0], 1.0, C=ONES, c=1.0), ValueError, "must agree on d"),
    "no_right_side": (box(0.0, 1.0, C=ONES), ValueError, "C and c must be given together"),
    "no_left_side": (box([0.0], 1.0, b=[1.0]), ValueError, "A and b must be given together"),
    "two_right_sides": (box(0.0, 1.0, C=ONES, c=[1.0, 2.0]), ValueError, "one entry per row of C"),
    "nan_row": (box(0.0, 1.0, A=[[1.0, np.nan]], b=1.0), ValueError, "A must be finite", "nan at [0, 1]"),
    "complex_row": (box(0.0, 1.0, A=[[1j]], b=1.0), TypeError, "A must hold real numbers"),
    "crossed": (lambda: ce.Box(0.0, [1.0, 1, 1, -1]), ce.InfeasibleError, "lower 0.0 > upper -1.0 at index 3"),
    "caps": (lambda: ce.CappedSimplex(0, 0.2).validate(4), ce.InfeasibleError, "sum of upper bounds 0.8 < total 1.0"),
    "caps_of_x": (lambda: ce.CappedSimplex(0, 0.2).project(np.zeros(4)), ce.InfeasibleError, "0.8 < total 1.0"),
    "floors": (lambda: ce.CappedSimplex([0.5, 0.7], 1.0), ce.InfeasibleError, "sum of lower bounds 1.2 > total 1.0"),
    "cap_as_floor": (lambda: ce.CappedSimplex(0.4).project(np.zeros(3)), ce.InfeasibleError, "mean upper=0.4?"),
    "net_budget": (
        lambda: ce.LongShort(1.3, 0.3, upper=0.2).validate(4), ce.InfeasibleError, "0.8 < net budget (long - short)"
    ),
    "forced_long": (
        lambda: ce.LongShort(1.3, 0.3, [0.8, 0.8, -5], 5.0), ce.InfeasibleError, "force 1.6 long", "long = 1.3"
    ),
    "forced_short": (
        lambda: ce.LongShort(1.3, 0.3, -5.0, [-0.4, 5, 5]), ce.InfeasibleError, "force 0.4 short", "short = 0.3"
    ),
    "block": (
        lambda: ce.Product([SIMPLEX, ce.CappedSimplex(0, 0.1)], [2, 2]).validate(4), ce.InfeasibleError, "block 1"
    ),
    "row": (
        lambda: ce.Polyhedron(0.0, 0.2, C=np.ones((1, 4)), c=1.0).validate(4),
        ce.InfeasibleError, "C[0] theta lies in [0, 0.8]",
    ),
    "inequality": (
        lambda: ce.Polyhedron([0.0, 0], 1.0, A=[1.0, 1], b=-1.0).validate(2),
        ce.InfeasibleError, "A[0] theta lies in [0, 2]",
    ),
    "joint_rows": (
        lambda: ce.Polyhedron(-np.inf, [9.0, 0.25, 9.0], C=ONES, c=[1.0],
                              A=[[1.0, 0, 0], [-1.0, -1.0, 0], [0, 0, 1.0]], b=[0.5, -1.0, 7.0]).project(np.zeros(3)),
        ce.InfeasibleError, "A[0] theta <= 0.5", "A[1] theta <= -1", "theta[1] <= 0.25 (upper)", "violation",
    ),
    "equalities": (
        lambda: ce.Polyhedron(-np.inf, np.inf, C=[[1.0, 1], [2, 2], [1, -1]], c=[1.0, 3, 0]).validate(2),
        ce.InfeasibleError, "C[0] theta = 1; C[1] theta = 3.",
    ),
    "dimension": (lambda: ce.Box(0.0, [1.0, 2]).project(np.zeros(3)), ValueError, "dimension 2", "dimension 3"),
    "dimension_of_block": (
        lambda: ce.Product([ce.Box(0.0, [1.0, 2])], [3]).project(np.zeros(3)), ValueError, "block 0", "dimension 2"
    ),
    "point_outside": (lambda: SIMPLEX.support_gap([1.0, 1], [1.0, 2]), ValueError, "theta is 2.0, must be 1.0"),
    "ball_as_rows": (lambda: ce.Ball().as_polyhedron(3), TypeError, "polyhedron"),
    "l1_as_rows": (lambda: ce.L1Ball().as_polyhedron(3), TypeError, "polyhedron"),
    "long_short_as_rows": (lambda: ce.LongShort(1.3, 0.3).as_polyhedron(3), TypeError, "polyhedron", "split(d)"),
    "product_as_rows": (lambda: ce.Product([ce.Ball()], [3]).as_polyhedron(3), TypeError, "polyhedron"),
    "nan_tensor": (lambda: SIMPLEX.project(torch.tensor([1.0, torch.nan])), ValueError, "nan at [1]"),
    "complex_tensor": (lambda: SIMPLEX.project(torch.tensor([1.0 + 1j])), TypeError, "torch.complex64"),
    "tensor_of_no_dimension": (lambda: SIMPLEX.project(torch.tensor(1.0)), ValueError, "(..., d)"),
}  # fmt: skip

test_sets = messages(SETS)


# -- losses ------------------------------------------------------------------------------------------------------------


def jacobian(theta, xi):
    return xi @ theta, xi


def callable_loss(function, **more):
    return ce.CallableLoss(function, samples=A, **more)


TORCH = ce.TorchLoss
ONE_LOSS = lambda t, x: (np.where(x[:, 0] > 0, np.inf, 0.0), x)
LOSSES = {
    "nan": (lambda: ce.LinearLoss([[1.0, np.nan]]), ValueError, "A must be finite", "nan at [0, 1]"),
    "vector": (lambda: ce.LinearLoss([1.0, 2.0]), ValueError, "A must be a matrix, one row per sample"),
    "empty": (lambda: ce.LinearLoss(np.zeros((0, 3))), ValueError, "A is empty"),
    "text": (lambda: ce.LinearLoss([["a"]]), TypeError, "A must hold real numbers"),
    "no_y": (lambda: ce.SquaredLoss(A), ValueError, "y is missing"),
    "short_y": (lambda: ce.SquaredLoss(A, Y[:-1]), ValueError, "X has 20 rows, y has 19 entries"),
    "labels": (lambda: ce.LogisticLoss(A, Y), ValueError, "y must hold the labels -1 and 1"),
    "no_samples": (lambda: ce.CallableLoss(jacobian, samples=np.zeros((0, 2))), ValueError, "samples is empty"),
    "list_of_samples": (lambda: ce.CallableLoss(jacobian, samples=[1, 2]), TypeError, "an array or a tuple of arrays"),
    "smoothness": (lambda: ce.CallableLoss(jacobian, smoothness=-1.0), ValueError, "smoothness", "not below 0"),
    "function": (lambda: ce.CallableLoss(3), TypeError, "function must be callable"),
    "torch_function": (lambda: TORCH(3), TypeError, "function must be callable"),
    "holds_none": (lambda: ce.LinearLoss().losses(np.ones(2)), ValueError, "holds no samples"),
    "few_losses": (
        lambda: callable_loss(lambda t, x: (x[:2, 0], x)).losses(np.ones(3)), ValueError, "one loss per sample"
    ),
    "shape_of_jacobian": (
        lambda: callable_loss(lambda t, x: (x[:, 0], x.T)).gradient(np.ones(3), None, np.ones(20)),
        ValueError, "Jacobian of shape (20, 3)",
    ),
    "no_jacobian": (lambda: callable_loss(lambda t, x: x[:, 0]).losses(np.ones(3)), TypeError, "goes into TorchLoss"),
    "no_second": (
        lambda: callable_loss(jacobian).hessian_product(np.ones(3), None, np.ones(20), np.ones(3)),
        TypeError, "no second derivative",
    ),
    "no_gradient": (lambda: TORCH(lambda t, x: x[:, 0], samples=A).losses(np.ones(3)), ValueError, "has no gradient"),
    "one_torch_loss": (lambda: TORCH(lambda t, x: t.sum(), samples=A).losses(np.ones(3)), ValueError, "one loss per"),
    "pair": (lambda: ce.SquaredLoss().check_samples(A), TypeError, "must be a pair (X, y)"),
    "infinite_loss": (
        lambda: Objective(callable_loss(ONE_LOSS), CVAR).evaluate(np.ones(3)), ValueError, "finite", "inf for sample"
    ),
    "length_of_theta": (lambda: LOSS.losses(np.zeros(2)), ValueError, "2 columns, one per entry of theta", "(20, 3)"),
    "length_of_theta_squared": (lambda: ce.SquaredLoss(A, Y).losses(np.zeros(2)), ValueError, "2 columns", "(20, 3)"),
    "offset_entries": (lambda: ce.LinearLoss(A, offset=np.zeros(3)), ValueError, "offset", "20 entries", "found 3"),
    "offset_alone": (lambda: ce.LinearLoss(offset=1.0), ValueError, "offset belongs to the rows of A"),
    "nan_offset": (lambda: ce.LinearLoss(A, offset=NAN[:, 0]), ValueError, "offset must be finite"),
    "offset_of_samples": (
        lambda: ce.minimize(ce.LinearLoss(A, offset=Y), CVAR, domain=SIMPLEX, samples=A),
        ValueError, "samples must have 4 columns, the last an offset", "found 3",
    ),
    "hessian_theta": (lambda: ce.hessian(LOSS, EXP, np.zeros(2)), ValueError, "theta must have 3 entries"),
    "hessian_v": (lambda: ce.hessian_product(LOSS, EXP, np.zeros(3), np.zeros(2)), ValueError, "theta, 3; found 2"),
    "hessian_weights": (
        lambda: ce.hessian(LOSS, EXP, np.zeros(3), weights=[1, 2]), ValueError, "weights", "sample, 20; found 2"
    ),
    "hessian_kink": (lambda: ce.hessian(LOSS, CVAR, np.zeros(3)), ValueError, "kink at 0", "no Hessian"),
    "hessian_kink_of_sum": (
        lambda: ce.hessian_product(LOSS, 0.5 * CVAR + 0.5 * EXP, np.zeros(3), np.ones(3)), ValueError, "SmoothCVaR"
    ),
}  # fmt: skip

test_losses = messages(LOSSES)


# -- minimize ----------------------------------------------------------------------------------------------------------


def minimize(loss=LOSS, risk=CVAR, domain=SIMPLEX, **more):
    return partial(ce.minimize, loss, risk, domain=domain, **more)


SQUARED = ce.SquaredLoss(A, Y)
HUGE = 1e300 * A
TABLE = ce.LinearLoss(Counted(A))
MINIMIZE = {
    "method": (minimize(method="exacto"), ValueError, "Did you mean 'exact'?"),
    "option": (minimize(domain=ce.Free(), method="sg", iteration=3), ValueError, "mean 'iterations'"),
    "option_of_solver": (minimize(C=1), ValueError, "an option of method='exact' must be"),
    "option_of_sg": (minimize(iteration=3), ValueError, "an option of method='exact' must"),
    "loss": (minimize(SQUARED, method="exact"), ValueError, "loss must be linear for method='exact'"),
    "set": (minimize(domain=ce.Ball(1.0), method="exact"), ValueError, "domain must be a polyhedron"),
    "set_of_block": (
        minimize(domain=ce.Product([ce.L1Ball(0.4), ce.Ball(1.0)], sizes=[2, 1]), method="exact"),
        ValueError, "Ball(", "block 1 of a Product", "'sg'",
    ),
    "no_samples": (minimize(ce.LinearLoss()), ValueError, "samples is missing"),
    "stream": (minimize(ce.LinearLoss(), samples=iter([A]), method="exact"), ValueError, "needs method='sg'"),
    "kinks": (minimize(domain=ce.Free(), method="lbfgs"), ValueError, "utility must be smooth"),
    "set_of_lbfgs": (minimize(SQUARED, ce.Mean(), method="lbfgs"), ValueError, "domain must be Free()"),
    "ball_of_lbfgs": (minimize(SQUARED, ce.Mean(), ce.Ball(1.0), method="lbfgs"), ValueError, "domain must be Free()"),
    "lbfgs_samples": (
        minimize(ce.SquaredLoss(), ce.Mean(), ce.Free(), method="lbfgs"), ValueError, "holds no samples"
    ),
    "lbfgs_start": (
        minimize(callable_loss(print), ce.Mean(), ce.Free(), method="lbfgs"), ValueError, "theta0 is missing"
    ),
    "linear": (minimize(domain=ce.L1Ball(0.4), linear=np.zeros(6)), ValueError, "linear", "(3,); found (6,)"),
    "overflow": (minimize(ce.LinearLoss(HUGE)), OverflowError, "A holds losses as large as", "e+300", "larger unit"),
    "overflow_weights": (
        minimize(ce.LinearLoss(HUGE), weights=np.arange(1.0, 21.0)), OverflowError, "e+300", "larger unit"
    ),
    "blocks_weights": (minimize(TABLE, weights=np.ones(7)), ValueError, "weights", "per sample, 20; found shape (7,)"),
    "blocks_negative": (minimize(TABLE, weights=-np.ones(20)), ValueError, "weights", "non-negative", "minimum -1"),
    "blocks_losses": (lambda: TABLE.losses(np.ones(3)), TypeError, "never held as a whole"),
    "blocks_lbfgs": (minimize(TABLE, EXP, ce.Free(), method="lbfgs"), TypeError, "never held as a whole"),
    "blocks_tol": (minimize(TABLE, tol=0.0), ValueError, "tol must be a number above 0"),
    "blocks_nan": (minimize(ce.LinearLoss(Counted(NAN))), ValueError, "found nan at scenario 3, asset 2"),
    "blocks_sorted": (minimize(TABLE, ce.Wang(0.5)), TypeError, "Wang", "sorted"),
    "blocks_sg_sorted": (
        minimize(ce.LinearLoss(), ce.Wang(0.5), samples=Counted(A), method="sg", iterations=9), TypeError, "sorted"
    ),
}  # fmt: skip

test_minimize = messages(MINIMIZE)


# -- the exact solver --------------------------------------------------------------------------------------------------

R = returns(60, 3)
HALVES = np.array([[1.0, 1, 0], [0, 0, 1.0]])
CYCLE = np.array([[1.0, -1, 0], [0, 1, -1], [-1, 0, 1]])


def exact(table=R, utility=CVAR, **rows):
    return partial(solve_exact, table, utility, **({"lower": 0.0, "C": np.ones(3), "c": 1.0} | rows))


def parts(*chosen, **more):
    return partial(solve_parts, list(chosen), **more)


def limited(*limits, loss=LOSS, risk=CVAR, domain=SIMPLEX, **more):
    return partial(ce.minimize, loss, risk, domain=domain, limits=list(limits), **more)


LIMIT = ce.Limit(LOSS, CVAR, 1.0)
SURE = np.column_stack([R[:, :2], R[:, 0] + 0.01])  # the third always loses more than the first
EXACT = {
    "nan": (exact(np.where(np.arange(180).reshape(60, 3) == 11, np.nan, R)), ValueError, "scenario 3, asset 2"),
    "complex": (exact(R + 0j), TypeError, "real numbers"),
    "vector": (partial(solve_exact, R[0], CVAR), ValueError, "scenarios x assets"),
    "lower": (exact(lower=np.zeros(2)), ValueError, "lower"),
    "infinite_lower": (exact(lower=np.inf), ValueError, "lower"),
    "nan_upper": (exact(upper=np.nan), ValueError, "upper"),
    "columns": (exact(C=np.ones(2)), ValueError, "3 columns"),
    "no_right_side": (partial(solve_exact, R, CVAR, C=np.ones(3)), ValueError, "go together"),
    "negative_weights": (exact(weights=-np.ones(60)), ValueError, "weights must not be negative"),
    "weights": (exact(weights=np.ones(3)), ValueError, "weights"),
    "linear": (exact(linear=np.full(3, np.nan)), ValueError, "linear"),
    "theta0": (exact(theta0=np.ones(2)), ValueError, "theta0"),
    "tol": (exact(tol=0.0), ValueError, "tol"),
    "max_iter": (exact(max_iter=0), ValueError, "max_iter"),
    "time_limit": (exact(time_limit=-1), ValueError, "time_limit"),
    "text": (exact(utility="cvar"), TypeError, "utility"),
    "number": (exact(utility=0.05), TypeError, "utility or risk"),
    "slopes": (exact(utility=0.2 * ce.Mean() + 0.3 * ce.Mean()), ValueError, "slopes"),
    "shape_of_squares": (exact(quadratic=[1.0, 2]), ValueError, "quadratic", "(3,), a diagonal, or (k, 3)"),
    "negative_squares": (exact(quadratic=[1.0, -2, 0]), ValueError, "quadratic must not be negative; found -2"),
    "nan_squares": (exact(quadratic=[1.0, np.nan, 0]), ValueError, "quadratic must be finite; found nan"),
    "caps": (exact(upper=0.3), ce.InfeasibleError, "sum of upper bounds 0.9 < budget 1"),
    "floors": (exact(lower=0.5), ce.InfeasibleError, "sum of lower bounds 1.5 > budget 1"),
    "crossed": (exact(lower=0.3, upper=0.2), ce.InfeasibleError, "lower[0] = 0.3 is above upper[0] = 0.2"),
    "groups": (exact(G=HALVES, b=[0.3, 0.3]), ce.InfeasibleError, "C[0], G[0], the bounds of asset 2"),
    "one_row": (exact(G=-HALVES, b=[-2.0, 0]), ce.InfeasibleError, "C[0] conflicts with the other", "above 1"),
    "twice": (exact(C=[[1.0] * 3, [2.0] * 3], c=[1.0, 3]), ce.InfeasibleError, "C[1] is a combination of C[0]"),
    "zero_equality": (exact(C=[[1.0] * 3, [0.0] * 3], c=[1.0, 3]), ce.InfeasibleError, "C[1] is zero but must equal 3"),
    "zero_row": (exact(G=np.zeros((1, 3)), b=[-1.0]), ce.InfeasibleError, "G[0] is zero"),
    "cycle": (exact(upper=1.0, G=CYCLE, b=[-0.1] * 3), ce.InfeasibleError, "G["),
    "unbounded": (exact(SURE, lower=None), ce.UnboundedError, "CVaR", "falls for ever", "of asset", "Add bounds"),
    "no_parts": (parts(), TypeError, "parts must be a list of RiskPart"),
    "part": (parts(RiskPart(A, CVAR), A), TypeError, "parts[1] must be a RiskPart"),
    "part_columns": (parts(RiskPart(A, CVAR), RiskPart(A[:, :2], CVAR)), ValueError, "parts[1].A", "3 columns", "2"),
    "part_offset": (parts(RiskPart(A, CVAR, offset=np.zeros(3))), ValueError, "parts[0].offset", "20 entries; found 3"),
    "part_weight": (parts(RiskPart(A, CVAR, -1.0)), ValueError, "parts[0].weight", "not below 0; found -1"),
    "no_weight": (parts(RiskPart(A, CVAR, 0.0)), ValueError, "only weights of 0"),
    "part_weights": (parts(RiskPart(A, CVAR, scenario_weights=-np.ones(20))), ValueError, "parts[0].scenario_weights"),
    "part_unbounded": (parts(RiskPart(A, CVAR, offset=Y), linear=[-9.0, 0, 0]), ce.UnboundedError, "CVaR"),
    "limits_of_sg": (limited(LIMIT, method="sg"), ValueError, "limits and several terms", "'exact'", "project"),
    "limits_of_lbfgs": (limited(LIMIT, method="lbfgs"), ValueError, "need method='exact'"),
    "limits": (minimize(limits=LIMIT), TypeError, "limits must be a list"),
    "limit": (limited((LOSS, CVAR, 1.0)), TypeError, "limits[0] must be a Limit"),
    "terms_and_risk": (minimize([ce.RiskTerm(LOSS, CVAR)]), TypeError, "utility must be left out"),
    "limit_columns": (limited(ce.Limit(ce.LinearLoss(A[:, :2]), CVAR, 1.0)), ValueError, "must have 3 columns"),
    "limit_and_ball": (limited(LIMIT, domain=ce.Ball()), ValueError, "polyhedron"),
    "limit_and_batch": (limited(LIMIT, batch=3), ValueError, "an option of method='exact' with limits"),
    "limit_level": (lambda: ce.Limit(LOSS, ce.RootMeanSquare(), 0.0), ValueError, "above 0 for a root mean square"),
    "limit_risk": (lambda: ce.Limit(LOSS, "cvar", 1.0), TypeError, "RootMeanSquare"),
    "limit_loss": (lambda: ce.Limit(SQUARED, CVAR, 1.0), ValueError, "linear"),
    "limit_samples": (lambda: ce.Limit(ce.LinearLoss(), CVAR, 1.0), ValueError, "hold its samples"),
    "limit_sorted": (limited(ce.Limit(TABLE, ce.Wang(0.5), 2.0)), TypeError, "Wang"),
    "limit_weights": (
        limited(ce.Limit(ce.LinearLoss(A[:5]), CVAR, 2.0), weights=np.ones(20)),
        ValueError, "found 20 for 5 samples of Limit(", "Pass weights of its own there",
    ),
}  # fmt: skip

test_exact = messages(EXACT)

REWARD = np.array([0.02, 0.01, 0.05])


def ratio(table=R, reward=REWARD, **more):
    return partial(ce.maximize_ratio, reward, ce.LinearLoss(table), CVAR, domain=SIMPLEX, **more)


def budget(table=R, risk=CVAR, shares=None, **more):
    return partial(ce.risk_budgeting, ce.LinearLoss(table), risk, shares, **more)


GAINS = np.column_stack([R[:, :2], np.full(60, -1.0)])
MADE_OF_EXACT = {
    "reward": (ratio(reward=-0.01 * np.ones(3)), ValueError, "reward must be positive somewhere", "-0.01 at most"),
    "sure_gain": (ratio(R - 1.0), ValueError, "the risk must be positive on the whole feasible set"),
    "sure_gain_at_start": (ratio(GAINS, theta0=[0.0, 1, 0]), ValueError, "risk must be positive on the whole"),
    "short_reward": (ratio(reward=REWARD[:2]), ValueError, "reward"),
    "budget_risk": (budget(risk=EXP), ValueError, "coherent"),
    "budget_zero": (budget(shares=[0.0, 1, 1]), ValueError, "budget must be positive; found 0"),
    "budget_start": (budget(theta0=np.zeros(3)), ValueError, "theta0 must be positive"),
    "budget_array": (lambda: ce.risk_budgeting(A, CVAR), TypeError, "LinearLoss"),
    "budget_gains": (budget(R - 1.0), ce.InfeasibleError, "not positive"),
    "budget_cash": (budget(GAINS), ce.InfeasibleError, "of asset 2"),
    "budget_blocks": (lambda: ce.risk_budgeting(TABLE, CVAR), TypeError, "in memory", "read in blocks"),
}

test_made_of_exact = messages(MADE_OF_EXACT)


# -- OCE-SG ------------------------------------------------------------------------------------------------------------


def sg(loss=LOSS, risk=CVAR, domain=SIMPLEX, **more):
    return partial(ce.minimize, loss, risk, domain=domain, method="sg", **({"iterations": 5} | more))


def stream(samples, **more):
    return sg(ce.LinearLoss(), samples=samples, theta0=np.full(3, 1 / 3), **({"step": 1} | more))


OUT = np.array([1.0, 1.0, 0.0])
SG = {
    "regime": (sg(regime="convexx"), ValueError, "regime must be one of", "'convexx'", "Did you mean 'convex'?"),
    "average": (sg(average="lst"), ValueError, "Did you mean 'last'?"),
    "batch": (sg(batch="ful"), ValueError, "Did you mean 'full'?"),
    "batch_0": (sg(batch=0), ValueError, "batch must be a whole number of at least 1; found 0"),
    "batch_function": (sg(batch=lambda k: 0), ValueError, "step and batch must be above 0"),
    "negative_step": (sg(step=-1.0), ValueError, "step must be a finite number above 0"),
    "text_step": (sg(step="x"), ValueError, "step must be one of 'adaptive', 'theory'; found 'x'"),
    "list_of_steps": (sg(step=[0.1]), TypeError, "step must be a finite number above 0"),
    "nan_step": (sg(step=lambda k: float("nan")), ValueError, "step and batch must be above 0"),
    "iterations": (sg(iterations=0), ValueError, "iterations must be a whole number of at least 1"),
    "half_iterations": (sg(iterations=1.5), TypeError, "iterations must be a whole number"),
    "time_limit": (sg(time_limit=0), ValueError, "time_limit must be a number above 0"),
    "rng": (sg(rng="seed"), TypeError, "rng must be a seed"),
    "theta0": (sg(theta0=[1.0, 0.0]), ValueError, "theta0 must have 3 entries"),
    "theta0_outside": (sg(theta0=OUT), ValueError, "theta0 must lie in Simplex"),
    "nan_theta0": (sg(theta0=OUT * [1, np.nan, 1]), ValueError, "theta0 must be finite; found nan at [1]"),
    "checkpoint_every": (sg(checkpoint_every=3), ValueError, "checkpoint_every is given but checkpoint is not"),
    "checkpoint": (sg(checkpoint=3), TypeError, "checkpoint must be a path; found 3"),
    "callback": (sg(callback=3), TypeError, "callback must be callable"),
    "domain_class": (sg(domain=ce.Simplex), TypeError, "write Simplex() rather than Simplex"),
    "utility_class": (sg(risk=ce.CVaR), TypeError, "utility must be an instance; write CVaR() rather than CVaR"),
    "array": (sg(A), TypeError, "loss must be a Loss; found ndarray"),
    "no_samples": (sg(ce.LinearLoss()), ValueError, "samples is missing"),
    "no_smoothness": (
        sg(callable_loss(jacobian), domain=ce.Free(), theta0=np.zeros(3), step="theory"),
        ValueError, "regime='nonconvex' takes 1/L_OCE",
    ),
    "no_curvature": (sg(regime="strongly_convex", step="theory"), ValueError, "'strongly_convex' takes 1/L_OCE"),
    "no_smooth_risk": (sg(risk=ce.EVaR(0.1), step="theory", regime="nonconvex"), ValueError, "L_OCE"),
    "no_theory": (
        stream(iter([A]), step="theory"), ValueError, "step is missing", "D = 1.41421, M = inf"
    ),
    "weights_of_stream": (stream(iter([A]), weights=np.ones(3)), ValueError, "weights belong to a fixed set"),
    "negative_weights": (sg(weights=-np.ones(20)), ValueError, "weights must not be negative"),
    "replace_and_weights": (
        sg(weights=np.ones(20), replace=False, batch=9), ValueError, "weights need batches drawn with replacement"
    ),
    "empty_batch": (stream(lambda rng, m: np.zeros((0, 3))), ValueError, "empty batch"),
    "large_batch": (stream(lambda rng, m: np.zeros((9, 3))), ValueError, "returned 9"),
    "list_batch": (stream(lambda rng, m: [1]), TypeError, "sampler returned must"),
    "columns_of_batch": (
        stream(lambda rng, m: np.zeros((m, 2))), ValueError, "A must have 3 columns", "(1, 2)", "as long as theta0"
    ),
    "vector_batch": (
        stream(lambda rng, m: np.zeros(m)), ValueError, "the sampler returned", "must be a matrix", "shape (1,)"
    ),
    "shapes_of_chunks": (
        stream(iter([np.zeros((1, 3)), np.zeros((1, 2))]), batch=2), ValueError, "one shape", "(3,) and then (2,)"
    ),
    "end_of_stream": (stream(iter([A[:2]])), ValueError, "samples ended after 1 used"),
    "empty_chunk": (stream(iter([A[:0]])), ValueError, "gave an empty chunk"),
    "full_batch_of_stream": (stream(iter([A]), batch="full"), ValueError, "has no last one"),
    "no_start": (sg(ce.LinearLoss(), samples=iter([A]), step=1), ValueError, "theta0 is missing"),
    "long_step": (
        sg(ce.SquaredLoss(A, Y), ce.Mean(), ce.Free(), batch="full", step=1e3, iterations=500, log_every=10**6),
        ValueError, "at iteration ", "the step is too long",
    ),
    "nan_gradient": (
        sg(callable_loss(lambda t, x: (x @ t, np.nan * x)), EXP, batch=5, step=0.1, theta0=np.full(3, 1 / 3)),
        ValueError, "at iteration 1 entry 0 of the gradient is nan", "jacobian",
    ),
}  # fmt: skip

test_sg = messages(SG)


def test_only_the_rows_at_fault_are_named():
    call = SETS["joint_rows"][0]
    with pytest.raises(ce.InfeasibleError) as caught:
        call()
    assert "A[2]" not in str(caught.value)
    assert "C[0]" not in str(caught.value)
    with small_tables_in_blocks(), pytest.raises(ce.UnboundedError, match="falls for ever"):
        ce.minimize(TABLE, ce.Mean(), domain=ce.NonNegative())
