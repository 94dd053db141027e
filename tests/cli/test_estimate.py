"""``certeq estimate``: the numbers of the library, from a file."""

import json

import numpy as np
import pandas as pd
import pytest

import certeq as ce

LOSSES = np.random.default_rng(3).normal(size=500)
MOVING = np.convolve(np.random.default_rng(0).normal(size=1009), np.ones(10), "valid")  # each depends on nine before


@pytest.fixture
def file(csv):
    table = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=500), "loss": LOSSES})
    return csv(table, "losses.csv", index=False)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
@pytest.mark.parametrize(
    ("options", "risk"),
    [
        (["--alpha", "0.1"], ce.CVaR(0.1)),
        (["-u", "entropic", "--beta", "0.5"], ce.Entropic(0.5)),
        (["-u", "mv"], ce.MeanVariance()),
        (["-u", "MMV", "--a", "3", "--scale", "2"], ce.MonotoneMeanVariance(3.0).scaled(2.0)),
        (["-u", "monotone_mean_variance a=3 radius=0.1"], ce.MonotoneMeanVariance(3.0).ball(0.1)),
        (["-u", "quartic", "--normalized"], ce.Quartic().normalized()),
        (["-u", "l-cvar", "--alpha", "0.2"], ce.LeakyCVaR(0.2)),
        (["-u", "Smooth_CVaR", "--tau", "0.3"], ce.SmoothCVaR(0.05, 0.3)),
        (["-u", "evar", "--alpha", "0.1"], ce.EVaR(0.1)),
        (["-u", "hmcr p=3", "--alpha", "0.1"], ce.HMCR(3.0, 0.1)),
        (["-u", "chi-square radius=0.2"], ce.MonotoneMeanVariance(2).ball(0.2)),
        (["-u", "entropic radius=0.2"], ce.Entropic().ball(0.2)),
        (["-u", "wang shift=0.7"], ce.Wang(0.7)),
        (["-u", "0.5 cvar alpha=0.05 + 0.5 power k=4"], ce.Mixture([0.5, 0.5], [ce.CVaR(), ce.PowerDistortion(4.0)])),
        (["-u", "0.5 cvar + 0.5 evar alpha=0.1"], ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.EVaR(0.1)])),
    ],
    ids=str,
)
def test_gives_what_the_library_gives(certeq, file, options, risk):
    found, wanted = certeq.json("estimate", file, *options, "--dependence", "none"), ce.estimate(LOSSES, risk)
    assert found["column"] == "loss"
    assert found["oce"] == pytest.approx(wanted.value, rel=1e-12)
    assert found["interval"] == pytest.approx(wanted.interval(0.95), rel=1e-12)
    assert found["inner"] == pytest.approx(list(wanted.inner), rel=1e-12)
    assert found["utility"]["expression"] == repr(risk)
    assert f"{wanted.value:.6g}" in certeq("estimate", file, *options).out


def test_parquet_gains_and_level(certeq, tmp_path):
    path = tmp_path / "gains.parquet"
    pd.DataFrame({"pnl": -LOSSES, "other": LOSSES}).to_parquet(path)
    said = certeq("estimate", path, "--column", "pnl", "--gains", "--level", "0.9").out
    assert f"{ce.oce(LOSSES, ce.CVaR(0.05)):.6g}" in said
    assert f"{ce.threshold(LOSSES, ce.CVaR(0.05)):.6g}" in said
    assert "90 % confidence interval" in said
    assert "gains, positive is good" in said


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        *[(name, True) for name in (
            "pnl", "P&L", "p / l", "Daily P&L (USD)", "Profits", "Returns_2", "dailyReturn", "log ret", "net gains",
            "net income", "pnlUSD", "PnLDaily", "returnPct",
        )],
        *[(name, False) for name in ("loss", "x", "returned", "bargains", "profitability", "RETAIL", "pl", "turn")],
    ],
)  # fmt: skip
def test_a_column_that_may_hold_gains_needs_a_sign(certeq, csv, name, asked):
    path = csv(pd.DataFrame({name: LOSSES}), "some.csv", index=False)
    if asked:
        said = certeq.refused("estimate", path)
        assert all(part in said for part in (repr(name), "--gains", "--losses"))
    losses = certeq.json("estimate", path, *(["--losses"] if asked else []))
    gains = certeq.json("estimate", path, "--gains")
    assert losses["oce"] == pytest.approx(ce.oce(LOSSES, ce.CVaR(0.05)))
    assert gains["oce"] == pytest.approx(ce.oce(-LOSSES, ce.CVaR(0.05)))
    assert (losses["read_as"], gains["read_as"]) == ("losses", "gains")


@pytest.mark.parametrize(("utility", "name"), [("cvar", "CVaR"), ("evar", "EVaR"), ("entropic", "OCE")])
def test_the_value_and_the_threshold_have_names(certeq, file, utility, name):
    said = certeq("estimate", file, "-u", utility).out
    rows = [line.split() for line in said.splitlines()]
    assert [row[1] for row in rows if len(row) == 5 and row[1] in ("CVaR", "EVaR", "OCE")] == [name]
    assert ("VaR (threshold t*)" in said) is (utility == "cvar")
    assert ("Assumptions" in said) is (utility != "cvar")  # of tails that no sample can show


def test_warnings_are_told_apart_from_the_result(certeq, csv):
    result = certeq("estimate", csv(pd.DataFrame({"x": LOSSES[:12]}), index=False), "--json")
    assert "Only 12 samples" in result.err
    assert "Only 12 samples" in result.json()["warnings"][0]


def test_losses_in_the_order_of_time(certeq, csv):
    path = csv(pd.DataFrame({"x": MOVING}), index=False)
    auto, none, ten = (certeq.json("estimate", path, "--dependence", word) for word in ("auto", "none", "10"))
    assert auto["memory"] > 1
    assert (none["memory"], ten["memory"]) == (0, 4)
    assert auto["stderr"] > 2 * none["stderr"]
    assert auto["oce"] == none["oce"]
    assert "pass --dependence auto" in none["warnings"][0]
    assert not auto["warnings"]
    assert certeq.json("estimate", path) == auto


@pytest.mark.parametrize("kind", ["csv", "parquet", "index.parquet"])
def test_dates_out_of_order_are_sorted(certeq, tmp_path, kind):
    table = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=1000), "x": MOVING})

    def estimated(some, *options):
        path = tmp_path / f"some.{kind}"
        if kind == "csv":
            some.to_csv(path, index=False)
        else:
            (some.set_index("day") if "index" in kind else some).to_parquet(path, index="index" in kind)
        ended = certeq("estimate", path, "--json", *options)
        return json.loads(ended.out)["stderr"], "dates were not in order" in ended.err

    wanted, _ = estimated(table)
    assert estimated(table.sample(frac=1.0, random_state=0)) == (pytest.approx(wanted), True)
    assert estimated(table[::-1]) == (pytest.approx(wanted), False)
    assert not estimated(table.sample(frac=1.0, random_state=0), "--dependence", "none")[1]
