"""The rules of the verdicts: each exactly as it is stated on the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from certeq.paper._experiment import Claim
from certeq.paper._statistics import MARGIN, RULES, of_difference, of_likeness, of_row, paired, unchecked, weakest
from tests.conftest import ROOT

# Mean 0.5, standard deviation 0.01 over five seeds.
SEEDS = 0.5 + 0.01 * np.array([-1.0, -1.0, 0.0, 1.0, 1.0])[:, None]


@pytest.mark.parametrize(
    "printed, verdict",
    [
        (0.5, "reproduced"),
        (0.50005, "reproduced"),  # rounds to it
        (0.5002, "within noise"),
        (0.52, "within noise"),
        (0.48, "within noise"),
        (0.52004, "within noise"),  # printed digits are known to half the last of them
        (0.5201, "not reproduced"),
        (0.4799, "not reproduced"),
    ],
)
def test_a_row_is_within_noise_up_to_two_standard_deviations_from_the_mean_over_seeds(printed, verdict):
    found, beyond = of_row([printed], SEEDS)
    assert found == verdict
    assert beyond.tolist() == [verdict == "not reproduced"]


def test_the_nearest_seed_does_not_count():
    values = np.array([[0.50], [0.50], [0.50], [0.50], [0.60]])  # mean 0.52, deviation 0.0447
    assert of_row([0.62], values)[0] == "not reproduced"  # though 0.60 is near


def test_every_figure_of_a_row_counts():
    both = np.hstack([SEEDS, SEEDS])
    found, beyond = of_row([0.5, 0.6], both)
    assert found == "not reproduced"
    assert beyond.tolist() == [False, True]
    with pytest.raises(ValueError, match="at least 2 seeds, found 1"):
        of_row([0.5], SEEDS[:1])


@pytest.mark.parametrize(
    "difference, sign, verdict",
    [
        ((0.2, 0.1, 0.3), 1.0, "reproduced"),
        ((0.2, -0.1, 0.5), 1.0, "within noise"),
        ((-0.2, -0.5, 0.1), 1.0, "not reproduced"),
        ((-0.2, -0.3, -0.1), -1.0, "reproduced"),
        ((-0.2, -0.5, 0.1), -1.0, "within noise"),
        ((0.2, -0.1, 0.5), -1.0, "not reproduced"),
        ((0.0, 0.0, 0.0), 1.0, "not reproduced"),
    ],
)
def test_better_needs_the_sign_and_the_interval(difference, sign, verdict):
    assert of_difference(*difference, sign) == verdict


def test_the_weakest_difference_decides():
    assert weakest(["reproduced", "within noise"]) == "within noise"
    assert weakest(["within noise", "not reproduced", "reproduced"]) == "not reproduced"


@pytest.mark.parametrize(
    "intervals, verdict",
    [
        ([(-0.01, 0.01), (-0.019, 0.2)], "reproduced"),
        ([(-0.01, 0.01), (-0.05, 0.05)], "within noise"),  # a weak test does not make two things alike
        ([(-0.01, 0.01), (-0.05, -0.021)], "not reproduced"),
    ],
)
def test_comparable_is_an_equivalence_test(intervals, verdict):
    assert of_likeness(intervals, MARGIN) == verdict


def test_paired_test_is_scipy_s():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=12), rng.normal(0.5, 1.0, size=12)
    found, theirs = paired(a - b), ttest_rel(a, b)
    assert (found.value, found.deviation, found.count) == pytest.approx(((a - b).mean(), (a - b).std(ddof=1), 12))
    assert found.p == pytest.approx(theirs.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert (found.floor, found.ceiling) == pytest.approx(tuple(theirs.confidence_interval(0.90)))
    below = ttest_1samp(a - b, -MARGIN, alternative="greater").pvalue
    assert (found.floor > -MARGIN) == (below < 0.05)
    wide = paired(a - b, overlap=3 / 7)
    assert wide.p > found.p
    assert wide.high - wide.low == pytest.approx((found.high - found.low) * np.sqrt(1 + 12 * 3 / 7))


def test_paired_without_spread():
    same = paired(np.zeros(5))
    assert (same.value, same.p, same.low, same.high) == (0.0, 1.0, 0.0, 0.0)
    assert paired(np.full(5, 0.1)).p == 0.0
    with pytest.raises(ValueError, match="at least 2 differences"):
        paired(np.zeros(1))


def test_what_is_not_checked_keeps_its_figures():
    claim = unchecked(Claim("it is so", "1", "2", "reproduced", "± 3"), "no data")
    assert (claim.verdict, claim.printed, claim.ours, claim.spread, claim.why) == (
        "not checked",
        "1",
        "2",
        "± 3",
        "no data",
    )


def test_the_rules_are_stated_in_the_documentation_too():
    page = " ".join((Path(ROOT) / "docs" / "paper" / "index.rst").read_text().split())
    for kind, _ in RULES:
        assert kind in page
    for figure in ("1e-4", "2 standard deviations", "95 % interval", "margin of 0.02 (Sharpe ratio: 0.1)", "90 %"):
        assert figure in page
        assert any(figure in rule for _, rule in RULES)
