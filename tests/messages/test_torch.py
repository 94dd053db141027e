"""Errors of PyTorch losses: the argument, what was found, and the remedy."""

import pytest

import certeq as ce
from tests.messages import messages

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - needs PyTorch

from certeq.torch import OCESG, GrowingBatchSampler, MemoryOCELoss, OCELoss, oce, threshold, tilt  # noqa: E402

U = ce.CVaR(0.5)
X, P = torch.zeros(3), torch.zeros(2, requires_grad=True)
RATE = torch.tensor(2.0, requires_grad=True)
KINKED_BALL = (0.5 * ce.Entropic() + 0.5 * ce.CVaR(0.2)).ball(0.2)
SCORES, CLASSES = torch.zeros(4, 5, 3), torch.tensor([[0, 1, 2], [-100] * 3, [3, 4, 0], [1, 1, -100]])


def kinked_gradient():
    x = torch.randn(9, requires_grad=True)
    torch.autograd.grad(oce(x, KINKED_BALL), x, create_graph=True)


def cross_entropy(**options):
    return nn.CrossEntropyLoss(reduction="none", **options)


def left_range():
    criterion = OCELoss(ce.CVaR(nn.Parameter(torch.tensor(0.1))))
    criterion.load_state_dict({"utility_alpha": torch.tensor(1.7)}, assign=True)
    criterion(X)


def resume(**options):
    state = OCESG([P], schedule=lambda k: 0.5**k, project=ce.Simplex()).state_dict()
    OCESG([P], **options).load_state_dict(state)


def other_groups():
    OCESG([P]).load_state_dict(OCESG([{"params": [P]}, {"params": [P.detach().clone()]}]).state_dict())


def silent(input, target):
    return ((input - target) ** 2).mean()


GROUP = ("process_group", '"world"')
STARTED = ("torch.distributed is not initialized", "init_process_group first")

MESSAGES = {
    # Losses
    "integers": (lambda: oce(torch.arange(4), U), TypeError, "losses must be floating", "torch.int64", ".float()"),
    "bools": (lambda: oce(torch.tensor([True]), U), TypeError, "losses must be floating", "torch.bool"),
    "complex": (lambda: oce(torch.zeros(2, dtype=torch.cfloat), U), TypeError, "losses must be floating", "complex64"),
    "list": (lambda: oce([1.0, 2.0], U), TypeError, "losses must be a torch tensor", "list", "certeq.oce"),
    "empty": (lambda: oce(torch.zeros(0, 3), U), ValueError, "losses is empty", "(0, 3)"),
    "sparse": (lambda: oce(torch.ones(3).to_sparse(), U), TypeError, "losses", "layout", ".to_dense()"),
    "inf": (lambda: oce(torch.tensor([0, torch.inf]), U), ValueError, "losses", "+inf at index 1", "allow_inf=True"),
    "inf_in_a_row": (lambda: oce(torch.tensor([[0, torch.inf]]), U, dim=1), ValueError, "+inf at index (0, 1)"),
    # Weights
    "weight_of_another_shape": (lambda: oce(X, U, weight=torch.ones(2)), ValueError, "weight", "(3,)", "(2,)"),
    "weight_per_sample": (
        lambda: oce(torch.zeros(2, 3), U, weight=torch.ones(2), dim=1),
        ValueError,
        "weight",
        "(2, 3)",
        "one per sample",
    ),
    "negative_weight": (
        lambda: oce(X, U, weight=torch.tensor([1.0, -1.0, 1.0])),
        ValueError,
        "weight",
        "-1.0 at index 1",
    ),
    "nan_weight": (
        lambda: tilt(X, U, weight=torch.tensor([1.0, torch.nan, 1])),
        ValueError,
        "weight",
        "nan at index 1",
    ),
    "no_weight": (lambda: oce(X, U, weight=torch.zeros(3)), ValueError, "weight sums to 0"),
    "no_weight_in_a_row": (
        lambda: oce(torch.zeros(2, 3), U, weight=torch.tensor([[1, 1, 1], [0, 0, 0]]), dim=1),
        ValueError,
        "weight sums to 0",
        "index 1 of the other dimensions",
    ),
    "weight_list": (lambda: oce(X, U, weight=[1.0] * 3), TypeError, "weight must be a torch tensor", "list"),
    "complex_weight": (
        lambda: tilt(X, U, weight=torch.zeros(3, dtype=torch.cfloat)),
        TypeError,
        "weight",
        "mask",
        "complex64",
    ),
    "weight_of_a_criterion": (
        lambda: OCELoss(U, cross_entropy())(SCORES, CLASSES, weight=torch.ones(3)),
        ValueError,
        "weight",
        "(4, 3)",
        "(3,)",
    ),
    "weight_list_of_a_criterion": (
        lambda: OCELoss(U, cross_entropy())(SCORES, CLASSES, weight=[1.0]),
        TypeError,
        "weight",
        "list",
    ),
    "all_ignored": (
        lambda: OCELoss(U, cross_entropy())(SCORES, torch.full((4, 3), -100)),
        ValueError,
        "weight sums to 0",
        "a target that is not ignored",
    ),
    "a_row_ignored": (
        lambda: OCELoss(U, cross_entropy(), dim=1)(SCORES, CLASSES),
        ValueError,
        "weight sums to 0",
        "index 1",
    ),
    "memory_without_weight": (lambda: MemoryOCELoss(U)(X, weight=X > 0), ValueError, "weight sums to 0"),
    # Dimensions
    "dim_too_large": (lambda: oce(X, U, dim=2), IndexError, "dim", "losses, which have 1", "found 2"),
    "dim_twice": (lambda: oce(torch.zeros(3, 2), U, dim=(0, -2)), ValueError, "dim", "twice", "(0, -2)"),
    **{
        f"dim_{dim}": (lambda dim=dim: oce(X, U, dim=dim), TypeError, "dim must be a whole number", f"found {dim!r}")
        for dim in (0.5, "a", (0, 0.5), True)
    },
    # Risks
    "class": (lambda: oce(X, ce.CVaR), TypeError, "utility must be an instance", "CVaR()"),
    "name": (lambda: OCELoss("cvar"), TypeError, "utility must be a certeq Utility", "'cvar'"),
    "slopes_below_1": (lambda: OCELoss(0.2 * ce.Mean()), ValueError, "1 must lie strictly between"),
    "parameter_out_of_range": (left_range, ValueError, "alpha", "1.7"),
    "another_utility": (lambda: setattr(OCELoss(U), "utility", "cvar"), TypeError, "utility must be a certeq Utility"),
    "learned_ball": (lambda: oce(X, ce.Entropic(RATE).ball(0.1)), TypeError, "cannot be learned", "Pass its number"),
    "transformed_ball": (
        lambda: torch.func.grad(lambda z: oce(z, ce.EVaR(0.1)))(X),
        NotImplementedError,
        "torch.func",
        "EVaR(alpha=0.1)",
    ),
    "second_derivatives": (kinked_gradient, NotImplementedError, "has no second derivatives", "has kinks"),
    "threshold_of_a_distortion": (lambda: threshold(X, ce.Wang(0.1)), TypeError, "no finite number of inner variables"),
    **{
        f"learned_{function.__name__}_{name}": (
            lambda function=function, u=u: function([1.0, 2.0], u),
            TypeError,
            "requires a gradient",
            "certeq.torch.oce",
        )
        for function in (ce.oce, ce.estimate, ce.tilt)
        for name, u in (
            ("term", 0.5 * ce.Mean() + 0.5 * ce.Entropic(RATE)),
            ("normalized", ce.Entropic(RATE).normalized()),
            ("plain", ce.Entropic(RATE)),
        )
    },
    # Bases
    "base_that_reduces": (lambda: OCELoss(U, nn.MSELoss()), ValueError, "base", "'mean'", "reduction='none'"),
    "base_that_is_a_class": (
        lambda: OCELoss(U, nn.MSELoss),
        TypeError,
        "base",
        "the class MSELoss",
        "reduction='none'",
    ),
    "base_that_is_a_name": (lambda: OCELoss(U, "mse"), TypeError, "base", "'mse'", "base(input, target)"),
    "base_that_returns_a_number": (
        lambda: OCELoss(U, silent)(X, X),
        ValueError,
        "base",
        "silent returned a single number",
        "reduction='none'",
    ),
    "no_base": (lambda: OCELoss(U)(X, X), TypeError, "target", "no base", "base="),
    "no_target": (
        lambda: OCELoss(U, nn.MSELoss(reduction="none"))(X),
        TypeError,
        "MSELoss needs a target",
        "criterion(input, target)",
    ),
    "smoothing_without_a_class": (
        lambda: OCELoss(U, cross_entropy(weight=torch.tensor([1.0, 0.0]), label_smoothing=0.1)),
        ValueError,
        "label_smoothing",
        "index 1",
        "small weight",
    ),
    # Memory, optimizer and sampler
    "memory_of_a_ball": (lambda: MemoryOCELoss(ce.EVaR(0.1)), TypeError, "utility must be a Utility", "OCELoss"),
    "memory_of_none": (lambda: MemoryOCELoss(U, memory=0), ValueError, "memory must be a whole number", "0"),
    "schedule": (lambda: OCESG([P], schedule="1/k^2"), ValueError, "schedule", '"constant"', "'1/k^2'"),
    "project": (lambda: OCESG([P], project=3), TypeError, "project", "found 3"),
    "lr": (lambda: OCESG([P], lr=-1.0), ValueError, "lr must be a finite number above 0", "-1"),
    "state_with_a_schedule": (
        lambda: resume(project=ce.Simplex()),
        ValueError,
        "a schedule that is a function",
        "schedule=",
    ),
    "state_with_a_projection": (
        lambda: resume(schedule=lambda k: 1.0),
        ValueError,
        "a project that is a function",
        "OCESG with project=",
    ),
    "state_of_other_groups": (other_groups, ValueError, "parameter group"),
    "no_data": (lambda: GrowingBatchSampler([], 3), ValueError, "data is empty"),
    "no_steps": (lambda: GrowingBatchSampler([1], 0), ValueError, "steps must be a whole number", "0"),
    "no_samples": (
        lambda: list(GrowingBatchSampler([1], 1, size=lambda k: 0)),
        ValueError,
        "size",
        "at least 1",
        "step 1",
    ),
    # Process groups
    **{
        f"group_{bad}": (
            lambda bad=bad: OCELoss(U, process_group=bad),
            TypeError,
            *GROUP,
            "found " + type(bad).__name__,
        )
        for bad in ("gloo", 3, True)
    },
    "group_of_a_call": (lambda: oce(X, U, process_group="gloo"), TypeError, *GROUP, "'gloo'"),
    **{
        f"{call.__name__}_before_the_group": (
            lambda call=call: call(X, U, process_group="world"),
            RuntimeError,
            *STARTED,
        )
        for call in (oce, threshold, tilt)
    },
    "criterion_before_the_group": (lambda: OCELoss(U, process_group="world")(X), RuntimeError, *STARTED),
}

test_message = messages(MESSAGES)
