"""The rules of the verdicts: each exactly as it is stated on the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from certeq.paper._experiment import Claim
from certeq.paper._statistics import (
    LEVEL,
    MARGIN,
    RANKING_RUNS,
    ROW,
    RULES,
    ClaimEvidence,
    DifferenceInterval,
    agreed,
    controlled,
    needs_more_runs,
    of_differences,
    of_first_figure,
    of_likeness,
    of_row,
    paired,
    unchecked,
    with_evidence,
    with_more_runs,
    with_rank,
)
from tests.conftest import ROOT

SEEDS = 0.5 + 0.01 * np.random.default_rng(0).normal(size=(20, 1))


def judged(*ranked):
    """The verdicts of rows of one table."""
    claims = [with_rank(Claim("a row", "", "", one.verdict, rule=ROW), one) for one in ranked]
    return [claim.verdict for claim in controlled(claims)]


def difference(value, low, freedom=np.inf):
    """With that lower end of its 95 % interval."""
    return DifferenceInterval(value, (value - low) / 1.959963984540054, freedom)


@pytest.mark.parametrize(
    "printed, verdict",
    [
        (float(SEEDS.mean()), "reproduced"),
        (float(SEEDS.mean()) + 4e-5, "reproduced"),  # rounds to it
        (0.51, "within noise"),
        (float(SEEDS.max()), "within noise"),
        (float(SEEDS.min()), "within noise"),
        (0.6, "not reproduced"),
        (0.4, "not reproduced"),
    ],
)
def test_a_row_is_judged_by_its_rank_among_the_runs(printed, verdict):
    ranked = of_row([printed], SEEDS)
    assert judged(ranked) == [verdict]
    assert ranked.outside.tolist() == [verdict == "not reproduced"]
    if verdict == "not reproduced":
        assert ranked.p == pytest.approx(1 / 21)


def test_a_skewed_spread_does_not_reach_where_no_run_is():
    """Two deviations of this sample reach 0.03, which none of its runs comes near."""
    values = np.concatenate([np.full(17, 0.06), [0.2, 0.25, 0.3]])[:, None] + 1e-4 * np.arange(20)[:, None]
    assert values.mean() - 2 * values.std(ddof=1) < 0.03
    below = of_row([0.0285], np.concatenate([values[:17], values[:3]]))
    assert judged(below) == ["not reproduced"]


def test_a_long_tail_above_does_not_excuse_a_figure_below_all_runs():
    """By distance from the median the furthest run is further out than the printed figure; by rank nothing is."""
    mace = np.concatenate([np.linspace(0.04, 0.09, 76), [0.13, 0.14, 0.15, 0.16]])
    values = np.column_stack([mace, mace, mace])
    printed = [0.0285, 0.0367, 0.0283]
    assert judged(of_row(printed, values)) == ["within noise"]
    ranked = of_first_figure(printed, values)
    assert (*judged(ranked), ranked.p) == ("not reproduced", pytest.approx(2 / 81))
    assert judged(of_first_figure([0.17, 0.17, 0.17], values)) == ["not reproduced"]
    assert judged(of_first_figure([0.0421, 0.05, 0.05], values)) == ["within noise"]  # four runs are lower
    assert judged(of_first_figure(values.mean(axis=0), values)) == ["reproduced"]
    assert judged(of_first_figure(printed, values[:38])) == ["not checked"]
    assert judged(of_first_figure(printed, values[:39])) == ["not reproduced"]


def test_the_rank_of_a_figure_is_exchangeable_with_its_runs():
    drawn = np.random.default_rng(4).lognormal(size=(2000, 81, 1))
    called = np.mean([judged(of_first_figure(one[0], one[1:])) == ["not reproduced"] for one in drawn])
    assert called == pytest.approx(4 / 81, abs=0.015)  # the two lowest and the two highest of 81


def test_a_row_is_exchangeable_with_its_runs():
    """Of rows drawn from the same law as the runs, one in twenty-one is the furthest out, whatever the figures."""
    rng = np.random.default_rng(1)
    drawn = rng.lognormal(size=(2000, 21, 4)).cumsum(axis=2)
    called = np.mean([judged(of_row(one[0], one[1:])) == ["not reproduced"] for one in drawn])
    assert called == pytest.approx(1 / 21, abs=0.015)


def test_twenty_runs_cannot_tell_one_row_of_seven_from_chance_and_more_can():
    far, near = of_row([0.6], SEEDS), of_row([0.51], SEEDS)
    assert judged(far, *[near] * 6) == ["within noise"] * 7
    many = 0.5 + 0.01 * np.random.default_rng(5).normal(size=(RANKING_RUNS, 1))
    assert judged(of_row([0.6], many), *[near] * 6) == ["not reproduced"] + ["within noise"] * 6
    assert judged(*[of_row([0.6], many)] * 7) == ["not reproduced"] * 7  # the least p there can be is small enough


def test_more_runs_are_made_only_where_none_of_the_first_is_as_far_out():
    more = 0.5 + 0.01 * np.random.default_rng(6).normal(size=(RANKING_RUNS - 20, 1))
    assert needs_more_runs([0.6], SEEDS)
    assert with_more_runs([0.6], SEEDS, more).shape == (RANKING_RUNS, 1)
    assert with_more_runs([0.6], SEEDS, None).shape == (20, 1)
    for printed in (0.51, float(SEEDS.max()), float(SEEDS.mean())):
        assert not needs_more_runs([printed], SEEDS)
        assert with_more_runs([printed], SEEDS, more).shape == (20, 1)
    assert not needs_more_runs([0.6], SEEDS[:18])  # too few to begin with
    assert not needs_more_runs([0.6], np.concatenate([SEEDS, more]))  # enough


def test_rows_of_a_table_that_are_noise_are_rarely_called_not_reproduced():
    """Seven rows, of the law of their runs; 20 runs, and 140 where they are asked for."""
    rng, wrong = np.random.default_rng(7), 0
    for _ in range(400):
        table = rng.lognormal(size=(7, 1 + RANKING_RUNS, 4)).cumsum(axis=2)
        wrong += "not reproduced" in judged(*(of_row(x[0], with_more_runs(x[0], x[1:21], x[21:])) for x in table))
    assert 1 <= wrong <= 34  # 400 times 5 % is 20, and 3.2 deviations more


def test_every_figure_of_a_row_counts_and_few_runs_cannot_tell():
    both = np.hstack([SEEDS, SEEDS[::-1]])
    ranked = of_row([0.5, 0.6], both)
    assert judged(ranked) == ["not reproduced"]
    assert ranked.outside.tolist() == [False, True]
    assert judged(of_row([0.6], SEEDS[:18])) == ["not checked"]
    assert judged(of_row([0.6], SEEDS[:19])) == ["not reproduced"]
    with pytest.raises(ValueError, match="at least 2 runs, found 1"):
        of_row([0.5], SEEDS[:1])


def test_figures_that_most_runs_share_are_no_division_by_zero():
    values = np.array([[0.9]] * 18 + [[0.91], [0.92]])
    assert judged(of_row([0.5], values)) == ["not reproduced"]
    assert judged(of_row([0.91], values)) == ["within noise"]
    assert judged(of_row([0.5], np.full((20, 1), 0.9))) == ["not reproduced"]


@pytest.mark.parametrize(
    "parts, evidence",
    [
        ([((0.2, 0.1), 1.0)], "for"),
        ([((0.2, 0.1), -1.0)], "against"),
        ([((0.2, 0.1), 1.0), ((0.2, -0.1), 1.0)], "unsure for"),  # the weakest decides
        ([((0.2, 0.1), 1.0), ((-0.2, -0.25), 1.0)], "against"),
        ([((0.2, 0.1), 1.0), ((-0.2, -0.9), 1.0)], "unsure against"),
    ],
)
def test_better_needs_the_sign_of_all_and_the_weakest(parts, evidence):
    found = of_differences([(difference(*part), sign) for part, sign in parts])
    assert found.favors == evidence.endswith("for")
    assert (found.p < 0.05) == ("unsure" not in evidence)


def test_no_difference_at_all_is_known():
    assert of_differences([(paired(np.zeros(20)), 1.0)]) == ClaimEvidence(0.0, False)


@pytest.mark.parametrize(
    "parts, favors, sure",
    [
        ([(0.0, -0.01), (0.1, -0.019)], True, True),
        ([(0.0, -0.01), (0.0, -0.05)], True, False),  # a weak test does not make two things alike
        ([(0.0, -0.01), (-0.1, -0.12)], False, True),
    ],
)
def test_comparable_is_an_equivalence_test(parts, favors, sure):
    found = of_likeness([difference(*part) for part in parts], MARGIN)
    assert (found.favors, found.p < 0.05) == (favors, sure)


def claim(p, favors=True, whose="paper"):
    return with_evidence(Claim("c", "", "", "within noise", whose=whose), ClaimEvidence(p, favors))


def test_many_tests_are_judged_together():
    """Holm: the least p times 3, the next times 2; what is ours is a family of its own at 5 %."""
    every = [claim(0.2), claim(LEVEL / 3.1), claim(LEVEL / 2.1, False), claim(0.04, whose="ours")]
    assert [c.verdict for c in controlled(every)] == ["within noise", "reproduced", "not reproduced", "reproduced"]
    assert controlled([claim(LEVEL / 2.9), every[0], every[0]])[0].verdict == "within noise"
    assert "by Holm over 3 claims" in controlled(every)[0].why
    untested = Claim("c", "", "", "reproduced")
    assert controlled([untested, unchecked(claim(0.0), "no data")]) == [untested, unchecked(claim(0.0), "no data")]


def test_noise_alone_is_rarely_called_anything():
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(300):
        tests = [with_evidence(claim(0.0), of_differences([(paired(rng.normal(size=20)), 1.0)])) for _ in range(10)]
        wrong += any(c.verdict != "within noise" for c in controlled(tests))
    assert wrong <= 9  # 300 times 5 %/7 is 2


def test_a_verdict_that_moves_with_vector_instructions_is_within_noise_and_says_so():
    one, two = Claim("c", "1", "2", "reproduced", why="x"), Claim("c", "1", "3", "not reproduced")
    (same,), (moved,) = agreed([one], [one]), agreed([one], [two])
    assert same == one
    assert moved.verdict == "within noise"
    assert moved.why == "It moves: reproduced with vector instructions, not reproduced (3) without. x"


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
    assert same.p_above(-0.1) == 0.0
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


def test_the_rules_are_on_the_page_and_name_their_figures():
    """The page of the documentation takes them from here."""
    assert ".. rules::" in (Path(ROOT) / "docs" / "paper" / "index.rst").read_text()
    words = " ".join(rule for _, rule in RULES)
    for figure in (
        "1e-4",
        "p = (1 + runs as far out)/(1 + runs)",
        f"{RANKING_RUNS} are made",
        "margin of 0.02 (Sharpe ratio: 0.1)",
        "Holm",
    ):
        assert figure in words
