"""The way of the data through the modules, one picture per public call.

Each picture is a list of steps from top to bottom. A step is one module, or several side by side: all of them (blue),
or the one that fits the data (red). The text beside an arrow says what is passed on. A test checks that every module
exists (``tests/docs/test_architecture.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import look
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch


@dataclass(frozen=True)
class Module:
    """A module of the package, by its path under ``certeq``, and what it does here in a few words."""

    path: str
    does: str


@dataclass(frozen=True)
class Step:
    """Modules side by side, and what they pass on to the next step; where ``choice``, one of them is taken."""

    modules: tuple[Module, ...]
    passes: str = ""
    choice: bool = True


def step(path: str, does: str, passes: str = "") -> Step:
    """A step with one module."""
    return Step((Module(path, does),), passes, choice=False)


FLOWS: dict[str, tuple[Step, ...]] = {
    "oce": (
        step("risk/_api", "axes, data frames, weights", "array or table of losses"),
        step("_checks", "refuses NaN and wrong shapes by name", "float64 losses, weights"),
        step("utilities/forms", "u as atoms and kinks, kept with u", "Form"),
        Step(
            (
                Module("risk/_vector", "one vector, compiled"),
                Module("risk/_rows", "many short rows"),
                Module("risk/_long", "long samples, in blocks"),
            ),
            "Solved: value, t*, share of the jump",
        ),
        step("risk/_api", "the number, or one per row or column"),
    ),
    "estimate": (
        step("risk/_estimate", "one sample, weights", "losses"),
        Step(
            (
                Module("risk/_vector", "a vector in memory"),
                Module("risk/_long", "a mapped file or a Dask array"),
            ),
            "Solved: value, t*, share of the jump",
        ),
        step("risk/solvers", "the tilt, from Solved alone", "worst-case weights q"),
        step("risk/_inference", "influence function, bias, density at a kink", "standard error, bias, warnings"),
        step("risk/_estimate", "Estimate, with interval(level)"),
    ),
    "minimize": (
        step("optimize/minimize", "checks the problem, chooses the method", "loss, Form, feasible set"),
        Step(
            (
                Module("optimize/losses", "A theta, gradients"),
                Module("optimize/domains", "rows, bounds, projection"),
                Module("_table", "scenarios in memory or in blocks"),
            ),
            "rows, bounds, table of scenarios",
            choice=False,
        ),
        Step(
            (
                Module("optimize/exact", "oracle, descent; subproblems by optimize.qp"),
                Module("optimize/sg", "OCE-SG: batches, schedule, averages"),
                Module("optimize/lbfgs", "smooth losses"),
            ),
            "theta, tilt, multipliers",
        ),
        step("optimize/exact/_certificate", "lower bound from the answer alone", "gap"),
        step("optimize/solution", "Solution: theta, value, gap, status, trace"),
    ),
    "OCELoss": (
        step("torch/_loss", "losses per sample from the base loss", "tensor of losses"),
        step("torch/_functional", "dim, weight, reduction", "checked tensor"),
        Step(
            (
                Module("torch/_autograd", "CPU batch: risk.solvers, compiled"),
                Module("torch/_tensor", "devices, compile, vmap"),
                Module("torch/_ranks", "process groups: gather, then solve"),
            ),
            "value and tilt",
        ),
        step("torch/_autograd", "backward: the gradient is the tilt"),
    ),
    "MinimumOCE": (
        step("portfolio/_minimum_oce", "parameters in skfolio's words", "returns, prior"),
        step("portfolio/_inputs", "losses = - returns, groups, costs, fees", "scenarios and settings"),
        step("portfolio/_problem", "costs and l1 as linear segments", "scenarios, rows, bounds"),
        step("portfolio/_solve", "one solve, or a frontier with warm starts", "the same, with a start"),
        step("optimize/exact", "oracle, descent, certificate", "weights, proved gap"),
        step("portfolio/_solve", "every constraint checked in the user's terms", "checked weights"),
        step("portfolio/_results", "weights_, value_, gap_, frontier, contributions"),
    ),
}

WIDTH, HEIGHT, ACROSS, DOWN = 3.0, 0.62, 0.2, 0.5  # inches: a box, and the space between boxes


def draw(name: str) -> None:
    """Draw one flow."""
    flow = FLOWS[name]
    widest = max(len(each.modules) for each in flow)
    width = max(widest * WIDTH + (widest - 1) * ACROSS, 1.6 * WIDTH)  # an arrow's text needs space on its right
    height = len(flow) * HEIGHT + (len(flow) - 1) * DOWN
    figure = plt.figure(figsize=(width + 0.2, height + 0.2))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-0.1, width + 0.1), ylim=(-0.1, height + 0.1))
    axes.axis("off")
    top = height
    for i, each in enumerate(flow):
        span = len(each.modules) * WIDTH + (len(each.modules) - 1) * ACROSS
        for j, module in enumerate(each.modules):
            left = (width - span) / 2 + j * (WIDTH + ACROSS)
            shade = look.RUST if each.choice else look.BLUE
            box = FancyBboxPatch(
                (left, top - HEIGHT),
                WIDTH,
                HEIGHT,
                boxstyle="round,pad=0,rounding_size=0.06",
                facecolor=shade + "14",
                edgecolor=shade,
                lw=1.2,
            )
            axes.add_patch(box)
            middle = left + WIDTH / 2
            axes.text(middle, top - 0.2, module.path, ha="center", va="center", color=shade, weight="bold", size=9.5)
            axes.text(middle, top - 0.43, module.does, ha="center", va="center", color=look.INK, size=7.6)
        bottom = top - HEIGHT
        if i + 1 < len(flow):
            arrow = {"arrowstyle": "-|>", "color": look.MUTED, "lw": 1.2}
            axes.annotate("", (width / 2, bottom - DOWN + 0.03), (width / 2, bottom - 0.03), arrowprops=arrow)
            axes.text(width / 2 + 0.1, bottom - DOWN / 2, each.passes, va="center", color=look.MUTED, size=8)
        top = bottom - DOWN


def oce() -> None:
    """``ce.oce``."""
    draw("oce")


def estimate() -> None:
    """``ce.estimate``."""
    draw("estimate")


def minimize() -> None:
    """``ce.minimize``."""
    draw("minimize")


def oce_loss() -> None:
    """``certeq.torch.OCELoss``."""
    draw("OCELoss")


def minimum_oce() -> None:
    """``certeq.portfolio.MinimumOCE.fit``."""
    draw("MinimumOCE")
