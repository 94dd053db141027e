"""The rules of the verdicts, each as it is stated on the report."""

import numpy as np
import pytest

pytest.importorskip("joblib", reason="experiments need experiments/requirements.txt")
pytest.importorskip("matplotlib", reason="experiments need experiments/requirements.txt")

from experiments.common import Claim
from experiments.verdicts import (
    LEVEL,
    MARGIN,
    ClaimEvidence,
    DifferenceInterval,
    controlled,
    jackknife,
    of_differences,
    of_likeness,
    of_table,
    paired,
    slope,
    unchecked,
    with_evidence,
)

RUNS = 0.5 + 0.01 * np.random.default_rng(0).normal(size=(40, 2))
MEDIAN, MEAN = np.median(RUNS, axis=0), RUNS.mean(axis=0)


def judged(printed, values, **options):
    """Return the verdict on one row, as a table of its own."""
    return of_table({"row": printed}, {"row": values}, **options)["row"]


def difference(value, low, freedom=np.inf):
    """Return a difference with this lower end of its 95% interval."""
    return DifferenceInterval(value, (value - low) / 1.959963984540054, freedom)


@pytest.mark.parametrize(
    "printed, verdict",
    [
        (MEAN, "reproduced"),
        (MEAN + 4e-5, "reproduced"),  # rounds to it
        (MEDIAN + 0.002, "within noise"),
        ((0.6, 0.6), "not reproduced"),
        ((0.4, 0.4), "not reproduced"),
        ((0.6, 0.4), "not reproduced"),
    ],
)
def test_a_row_is_judged_from_both_sides(printed, verdict):
    assert judged(printed, RUNS).verdict == verdict


def test_a_run_bad_in_one_figure_does_not_excuse_a_row_too_good_in_another():
    """The runs have a long tail above; the printed row lies below all of them."""
    mace = np.concatenate([np.linspace(0.04, 0.09, 76), [0.13, 0.14, 0.15, 0.16]])
    values = np.column_stack([mace, mace, mace])
    found = judged((0.0285, 0.0367, 0.0283), values)
    assert (found.verdict, found.outside.tolist()) == ("not reproduced", [True] * 3)


def test_figures_that_no_run_reaches_are_never_within_noise():
    """One row of seven is off: seven rows of 20 runs have no power against one, and the row is undecided."""
    rng = np.random.default_rng(1)
    runs = {name: rng.normal(size=(20, 4)) for name in "abcdefg"}
    printed = {name: np.median(values, axis=0) + 0.1 for name, values in runs.items()}
    found = of_table(printed | {"a": [9.0, 0.0, 0.0, 0.0]}, runs)
    assert found["a"].verdict == "undecided"
    assert {found[name].verdict for name in "bcdefg"} == {"within noise"}
    found = of_table({name: [9.0] * 4 for name in runs}, runs)
    assert {one.verdict for one in found.values()} == {"not reproduced"}
    assert found["a"].p == pytest.approx(1 / 20_001)


def test_a_table_of_noise_is_rejected_in_one_of_twenty():
    rng = np.random.default_rng(3)
    p = []
    for _ in range(300):
        drawn = rng.lognormal(size=(5, 21, 4)).cumsum(axis=2)
        p.append(of_table(dict(enumerate(drawn[:, 0])), dict(enumerate(drawn[:, 1:])))[0].p)
    assert 4 <= np.sum(np.array(p) <= 0.05) <= 30  # 15 expected, four deviations of 3.8
    assert np.mean(p) == pytest.approx(0.5, abs=0.07)


def test_no_power_or_no_parameters_is_undecided():
    assert judged((0.6, 0.6), RUNS[:10]).verdict == "undecided"
    assert judged(MEDIAN + 0.002, RUNS[:10]).verdict == "undecided"
    assert judged(MEDIAN + 0.002, RUNS, unstated={"row"}).verdict == "undecided"
    assert judged((0.6, 0.6), RUNS, unstated={"row"}).verdict == "undecided"
    assert judged(MEAN, RUNS, unstated={"row"}).verdict == "reproduced"
    rows = of_table({"a": (0.6, 0.6), "b": MEDIAN}, {"a": RUNS, "b": RUNS}, unstated={"a"})
    assert rows["b"].verdict == "within noise"  # the other row takes no part in the test
    with pytest.raises(ValueError, match=r"'row' needs values of at least 2 runs x 2 figures"):
        judged((0.5, 0.5), RUNS[:, :1])


def test_differences_and_likeness():
    up, down = difference(0.1, 0.05), difference(-0.1, -0.15)
    assert of_differences([(up, 1.0)]).favors
    assert of_differences([(down, -1.0)]).favors
    assert not of_differences([(up, 1.0), (down, 1.0)]).favors
    assert of_differences([(difference(0.0, 0.0), 1.0)]) == ClaimEvidence(0.0, False)
    assert of_likeness([difference(0.0, -0.001)], MARGIN).favors
    assert not of_likeness([difference(0.0, -0.001), difference(-0.1, -0.11)], MARGIN).favors
    assert of_likeness([difference(0.0, -1.0)], MARGIN).p > 0.05


def test_holm():
    """Three claims of the paper at LEVEL; what is not significant is undecided; repeated claims are apart."""
    blank = Claim("", "", "", "undecided")
    sure, against, unsure = (
        with_evidence(blank, ClaimEvidence(p, favors))
        for p, favors in ((LEVEL / 4, True), (LEVEL / 4, False), (LEVEL * 1.01, True))
    )
    assert [c.verdict for c in controlled([sure, against, unsure])] == ["reproduced", "not reproduced", "undecided"]
    assert controlled([sure] * 5)[0].verdict == "undecided"
    again = with_evidence(Claim("", "", "", "undecided", whose="again"), ClaimEvidence(0.04, True))
    assert controlled([again, unsure])[0].verdict == "reproduced"
    assert controlled([unchecked(sure, "No data.")])[0].verdict == "not checked"


def test_paired_differences_and_slopes():
    rng = np.random.default_rng(2)
    values = rng.normal(0.1, 1.0, size=30)
    from scipy.stats import ttest_1samp

    assert paired(values).p == pytest.approx(ttest_1samp(values, 0.0).pvalue)
    x = np.array([1.0, 10.0, 100.0])
    assert slope(x, 3.0 * x**-0.7) == pytest.approx(-0.7)
    # The slope of the mean of lognormal errors, drawn again and again, has the deviation that the jackknife states.
    draws = x**-0.7 * np.exp(0.2 * rng.normal(size=(400, 30, 3)))
    spread = np.std([slope(x, one.mean(axis=0)) for one in draws])
    assert np.mean([jackknife(x, one) for one in draws]) == pytest.approx(spread, rel=0.1)
