"""How fast is `certeq.torch`? Forward and backward against sqwash and pfhedge, a training step against the mean, a step
with ignored targets and class weights against one without, and threshold, tilt and rows against the plain `oce`.

Ratios are medians of ratios measured in turn, on one thread and in its own CPU time, so that what else the machine
does hits both sides alike.

    python benchmarks/bench_torch.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import certeq as ce
from certeq.torch import OCELoss, oce

SIZES = (64, 1024, 65536)
CLASSES = 5
STEP_LIMIT = 1.25
RISK_STEP_LIMIT = 1.4
MASK_LIMIT = 1.5
UTILITIES = {
    "Entropic(1)": ce.Entropic(1.0),
    "MeanVariance(0.5)": ce.MeanVariance(0.5),
    "MonotoneMeanVariance(2)": ce.MonotoneMeanVariance(2),
    "MonotoneMeanVariance(3)": ce.MonotoneMeanVariance(3),
    "Quartic": ce.Quartic(),
    "CVaR(0.05)": ce.CVaR(0.05),
    "LeakyCVaR(0.05)": ce.LeakyCVaR(0.05),
    "SmoothCVaR(0.05)": ce.SmoothCVaR(0.05),
}


def l2_smooth_cvar(alpha: float, c: float) -> ce.Utility:
    """The functional of sqwash's smooth superquantile, as a utility of one's own; c = nu/n^2."""

    def slope(x):
        return (1 + x / c).clip(0, 1 / alpha)

    def value(x):
        return x * slope(x) - 0.5 * c * (slope(x) - 1) ** 2

    def curvature(x):
        return ((1 + x / c > 0) & (1 + x / c < 1 / alpha)) / c

    return ce.utility(value, slope, curvature, name="l2_smooth_cvar")


def peers(n: int) -> list[tuple[str, str, float | None, Callable, Callable]]:
    """(functional, peer, wanted ratio at n = 1024, ours, theirs); what is not installed is left out."""
    found = []
    try:
        from sqwash import SuperquantileReducer, SuperquantileSmoothReducer
    except ImportError:
        pass
    else:
        hard = SuperquantileReducer(0.05)
        found.append(("CVaR", "sqwash", 2.0, lambda x: oce(x, ce.CVaR(0.05)), hard))
        if n <= 4096:  # theirs needs 2 n^2 numbers: 34 GB at n = 65536
            smooth, twin = SuperquantileSmoothReducer(0.05, 1.0), l2_smooth_cvar(0.05, 1.0 / n**2)
            found.append(("L2-smooth CVaR", "sqwash", 20.0, lambda x: oce(x, twin), smooth))
            found.append(("smooth CVaR", "sqwash", 20.0, lambda x: oce(x, ce.SmoothCVaR(0.05)), smooth))
    try:
        from pfhedge.nn import functional as pf
    except ImportError:
        pass
    else:
        quadratic = ce.MonotoneMeanVariance(2).scaled(0.25)
        found += [
            ("CVaR", "pfhedge", 1.0, lambda x: oce(x, ce.CVaR(0.05)), lambda x: pf.expected_shortfall(-x, 0.05)),
            ("entropic", "pfhedge", 1.0, lambda x: oce(x, ce.Entropic(1.0)), lambda x: pf.entropic_risk_measure(-x)),
            (
                "quadratic CVaR",
                "pfhedge",
                5.0,
                lambda x: oce(x, quadratic) - 0.125,
                lambda x: pf.quadratic_cvar(-x, 2.0),
            ),
        ]
    return found


def in_turn(actions: dict[str, Callable], rounds: int, repeat: int) -> dict[str, list[float]]:
    """Seconds of this thread per call of each action, measured round by round."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(rounds):
        for name, action in actions.items():
            begin = time.thread_time()
            for _ in range(repeat):
                action()
            times[name].append((time.thread_time() - begin) / repeat)
    return times


def ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def against_peers(quick: bool) -> list[dict]:
    rows = []
    for n in SIZES:
        for functional, peer, wanted, ours, theirs in peers(n):
            x = torch.randn(n, generator=torch.Generator().manual_seed(n)).requires_grad_()
            y = x.detach().clone().requires_grad_()
            actions = {"ours": lambda o=ours, x=x: o(x).backward(), "theirs": lambda f=theirs, y=y: f(y).backward()}
            times = in_turn(actions, 7 if quick else 31, 3 if n > 4096 else 10)
            row = {"what": functional, "against": peer, "n": n, "speedup": ratio(times["theirs"], times["ours"])}
            row |= {f"{k}_us": 1e6 * statistics.median(v) for k, v in times.items()}
            rows.append(row | {"wanted": wanted if n == 1024 else 1.0})
    return rows


def stepper(criterion: Callable, target: torch.Tensor | None = None) -> Callable[[], None]:
    """Forward, loss, backward and Adam step of a 32-16 network on a batch of 64: a regression, or the classes given."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 10, generator=generator), torch.randn(64, 1, generator=generator)
    y, outputs = (y, 1) if target is None else (target, CLASSES)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, outputs)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

    return step


def training_steps(quick: bool) -> list[dict]:
    """Whole steps of training under each utility, and two risks with a scale, against the mean."""
    base = torch.nn.MSELoss(reduction="none")
    # Made here: an earlier build, which --against measures too, does not have them.
    risks = {"EVaR(0.05)": ce.EVaR(0.05), "chi-square ball(0.5)": ce.MonotoneMeanVariance(2).ball(0.5)}
    actions = {"mean": stepper(torch.nn.MSELoss())}
    actions |= {name: stepper(OCELoss(risk, base)) for name, risk in (UTILITIES | risks).items()}
    times = in_turn(actions, 20 if quick else 100, 10)
    return [
        _slowdown(name, "mean, whole step", 64, taken, times["mean"], RISK_STEP_LIMIT if name in risks else STEP_LIMIT)
        for name, taken in times.items()
        if name != "mean"
    ]


def classes(ignored: bool) -> torch.Tensor:
    """64 targets, a third of them to be ignored if asked for."""
    generator = torch.Generator().manual_seed(1)
    target = torch.randint(CLASSES, (64,), generator=generator)
    return torch.where(torch.rand(64, generator=generator) < 1 / 3, -100, target) if ignored else target


def masked_steps(quick: bool) -> list[dict]:
    """Whole steps of training with ignored targets and class weights against steps with neither."""
    rows = []
    plain = torch.nn.CrossEntropyLoss(reduction="none")
    weighted = torch.nn.CrossEntropyLoss(weight=torch.arange(1.0, CLASSES + 1.0), reduction="none")
    for name, utility in UTILITIES.items():
        actions = {
            "neither": stepper(OCELoss(utility, plain), classes(False)),
            "ignored targets": stepper(OCELoss(utility, plain), classes(True)),
            "class weights": stepper(OCELoss(utility, weighted), classes(False)),
            "both": stepper(OCELoss(utility, weighted), classes(True)),
        }
        times = in_turn(actions, 20 if quick else 60, 10)
        rows += [
            _slowdown(f"{what}, {name}", "neither", 64, taken, times["neither"], MASK_LIMIT)
            for what, taken in times.items()
            if what != "neither"
        ]
    return rows


def reductions(quick: bool) -> list[dict]:
    """Threshold, tilt, kept dimensions and rows against the plain `oce` of as many losses; a sum against its parts."""
    return [row for n in (256, 65536) for row in _reductions_of(n, 5 if quick else 15, 3 if n > 4096 else 30)]


def _reductions_of(n: int, rounds: int, repeat: int) -> list[dict]:
    from certeq.torch import threshold, tilt  # builds that `--against` measures may not have them

    x = torch.randn(n, generator=torch.Generator().manual_seed(n))
    rows, of_numpy = [], ce.CVaR(np.float64(0.05))
    for name, utility in UTILITIES.items():
        others = {
            "threshold": (3.0, lambda u=utility: threshold(x, u)),
            "tilt": (3.0, lambda u=utility: tilt(x, u)),
            "keepdim": (3.0, lambda u=utility: oce(x, u, keepdim=True)),
            "rows of 256": (3.0, lambda u=utility: oce(x.reshape(-1, 256), u, dim=1)),
            "rows of 16": (10.0, lambda u=utility: oce(x.reshape(-1, 16), u, dim=1)),
        }
        if name == "CVaR(0.05)":
            others["alpha of NumPy"] = (1.1, lambda: oce(x, of_numpy))
        actions = {"oce": lambda u=utility: oce(x, u)} | {what: action for what, (_, action) in others.items()}
        times = in_turn(actions, rounds, repeat)
        rows += [
            _slowdown(f"{what}, {name}", "oce of the vector", n, times[what], times["oce"], wanted)
            for what, (wanted, _) in others.items()
        ]
    parts = ce.Entropic(1.0), ce.CVaR(0.05)
    mixed = 0.5 * parts[0] + 0.5 * parts[1]
    times = in_turn({"sum": lambda: oce(x, mixed), "parts": lambda: [oce(x, u) for u in parts]}, rounds, repeat)
    return [*rows, _slowdown("Entropic + CVaR", "its two parts", n, times["sum"], times["parts"], 3.0)]


def _slowdown(what: str, against: str, n: int, ours: list[float], theirs: list[float], wanted: float) -> dict:
    taken = {"ours_us": 1e6 * statistics.median(ours), "theirs_us": 1e6 * statistics.median(theirs)}
    return {"what": what, "against": against, "n": n, "slowdown": ratio(ours, theirs), "wanted": wanted} | taken


def run(quick: bool = False) -> list[dict]:
    """All measurements, one dictionary each; ``holds`` says whether the wanted ratio was met."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = against_peers(quick) + training_steps(quick) + masked_steps(quick) + reductions(quick)
    finally:
        torch.set_num_threads(threads)
    for row in rows:
        row["holds"] = row["speedup"] >= row["wanted"] if "speedup" in row else row["slowdown"] <= row["wanted"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", metavar="FILE", help="write the measurements there")
    options = parser.parse_args()
    rows = run(options.quick)
    print(f"{'what':<38} {'against':<17} {'n':>6} {'ours':>10} {'theirs':>10} {'ratio':>8}  wanted")
    for row in rows:
        found = f"{row['speedup']:.2f}x" if "speedup" in row else f"{row['slowdown']:.2f}"
        wanted = f">= {row['wanted']:g}x" if "speedup" in row else f"<= {row['wanted']:g}"
        name = f"{row['what']:<38} {row['against']:<17} {row['n']:>6}"
        taken = f"{row['ours_us']:>7.0f} us {row['theirs_us']:>7.0f} us"
        print(f"{name} {taken} {found:>8}  {wanted}{'' if row['holds'] else '   NOT MET'}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
