"""``certeq estimate``: the numbers of the library, from a file."""

import json

import numpy as np
import pandas as pd
import pytest

import certeq as ce

LOSSES = np.random.default_rng(3).normal(size=500)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "losses.csv"
    pd.DataFrame({"day": pd.date_range("2024-01-01", periods=500), "loss": LOSSES}).to_csv(path, index=False)
    return path


def test_gives_what_the_library_gives(certeq, file):
    found, wanted = certeq.json("estimate", file, "--alpha", 0.1), ce.estimate(LOSSES, ce.CVaR(0.1), dependence="auto")
    assert found["column"] == "loss"
    assert found["oce"] == pytest.approx(wanted.value, rel=1e-12)
    assert found["threshold"] == pytest.approx(wanted.threshold, rel=1e-12)
    assert found["interval"] == pytest.approx(wanted.interval(0.95), rel=1e-12)
    assert found["utility"]["expression"] == "CVaR(alpha=0.1)"


@pytest.mark.parametrize(
    ("options", "utility"),
    [
        (["-u", "entropic", "--beta", "0.5"], ce.Entropic(0.5)),
        (["-u", "mv"], ce.MeanVariance()),
        (["-u", "MMV", "--a", "3", "--scale", "2"], ce.MonotoneMeanVariance(3).scaled(2)),
        (["-u", "quartic", "--normalized"], ce.Quartic().normalized()),
        (["-u", "l-cvar", "--alpha", "0.2"], ce.LeakyCVaR(0.2)),
        (["-u", "Smooth_CVaR", "--tau", "0.3"], ce.SmoothCVaR(0.05, 0.3)),
    ],
)
def test_every_utility(certeq, file, options, utility):
    assert certeq.json("estimate", file, *options)["oce"] == pytest.approx(ce.oce(LOSSES, utility), rel=1e-9)


def test_table_parquet_gains_and_level(certeq, tmp_path):
    path = tmp_path / "gains.parquet"
    pd.DataFrame({"pnl": -LOSSES, "other": LOSSES}).to_parquet(path)
    said = certeq("estimate", path, "--column", "pnl", "--gains", "--level", "0.9").stdout
    assert f"{ce.oce(LOSSES, ce.CVaR(0.05)):.6g}" in said
    assert "90 % confidence interval" in said
    assert "gains, positive is good" in said
    assert f"{ce.threshold(LOSSES, ce.CVaR(0.05)):.6g}" in said


@pytest.mark.parametrize(
    "name",
    ["pnl", "PnL", "P&L", "p / l", "Daily P&L (USD)", "profit", "Profits", "return", "Returns_2", "dailyReturn",
     "log ret", "GAIN", "net gains", "Profit & Loss", "net income"],
)  # fmt: skip
def test_a_column_that_may_hold_gains_needs_a_sign(certeq, tmp_path, name):
    path = tmp_path / "some.csv"
    pd.DataFrame({name: LOSSES}).to_csv(path, index=False)
    said = certeq.refused("estimate", path)
    assert repr(name) in said
    assert "--gains" in said
    assert "--losses" in said
    losses, gains = (certeq.json("estimate", path, option) for option in ("--losses", "--gains"))
    assert losses["oce"] == pytest.approx(ce.oce(LOSSES, ce.CVaR(0.05)))
    assert gains["oce"] == pytest.approx(ce.oce(-LOSSES, ce.CVaR(0.05)))
    assert (losses["read_as"], gains["read_as"]) == ("losses", "gains")


@pytest.mark.parametrize(
    "name", ["loss", "value", "x", "returned", "bargains", "profitability", "RETAIL", "pl", "turn"]
)
def test_other_columns_are_read_as_losses(certeq, tmp_path, name):
    path = tmp_path / "some.csv"
    pd.DataFrame({name: LOSSES}).to_csv(path, index=False)
    rows = [line.split("│")[1:3] for line in certeq("estimate", path).stdout.splitlines() if line.startswith("│")]
    assert ["Read as", "losses, positive is bad"] in [[cell.strip() for cell in row] for row in rows]


def test_gains_and_losses_exclude_each_other(certeq, file):
    assert "--gains and --losses" in certeq.refused("estimate", file, "--gains", "--losses", code=2)


@pytest.mark.parametrize(("utility", "name"), [("cvar", "CVaR"), ("evar", "EVaR"), ("entropic", "OCE")])
def test_the_value_is_called_by_its_name(certeq, file, utility, name):
    rows = [line.split() for line in certeq("estimate", file, "-u", utility).stdout.splitlines()]
    assert [row[1] for row in rows if len(row) == 5 and row[1] in ("CVaR", "EVaR", "OCE")] == [name]


@pytest.mark.parametrize(("utility", "said"), [("cvar", True), ("entropic", False)])
def test_the_threshold_of_cvar_is_called_value_at_risk(certeq, file, utility, said):
    assert ("VaR (threshold t*)" in certeq("estimate", file, "-u", utility).stdout) is said


def test_warnings_are_told_apart_from_the_result(certeq, tmp_path):
    path = tmp_path / "few.csv"
    pd.DataFrame({"x": LOSSES[:12]}).to_csv(path, index=False)
    result = certeq("estimate", path, "--json")
    assert "Only 12 samples" in result.stderr
    assert "Only 12 samples" in json.loads(result.stdout)["warnings"][0]


def test_warns_of_units(certeq, file):
    assert "depends on units" in certeq("estimate", file, "-u", "mmv").stderr
    assert "depends on units" not in certeq("estimate", file, "-u", "mmv", "--scale", "1").stderr


def test_bad_usage(certeq, file):
    assert "did you mean 'entropic'" in certeq.refused("estimate", file, "-u", "entropc", code=2)
    assert "no parameter --beta" in certeq.refused("estimate", file, "--beta", "2", code=2)
    assert "Did you mean 0.05" in certeq.refused("estimate", file, "--alpha", "5", code=2)
    assert "--level" in certeq.refused("estimate", file, "--level", "95", code=2)
    twice = certeq.refused("estimate", file, "-u", "cvar alpha=0.05 alpha=0.1", code=2)
    assert "--utility" in twice
    assert "alpha is given twice: 0.05 and 0.1" in twice
    assert "alpha is given twice" in certeq.refused("estimate", file, "-u", "cvar alpha=0.05", "--alpha", "0.1", code=2)
    assert "alpha is given twice" in certeq.refused("estimate", file, "-u", "1 cvar alpha=0.05 alpha=0.1", code=2)
    assert "--alpha" in certeq.refused("estimate", file, "--alpa", "0.1", code=2)  # the nearest option is named


def test_bad_files(certeq, tmp_path):
    def given(text, name="bad.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    assert "no such file" in certeq.refused("estimate", tmp_path / "none.csv")
    assert "is a directory" in certeq.refused("estimate", tmp_path)
    assert "is empty" in certeq.refused("estimate", given(""))
    assert "no column of numbers" in certeq.refused("estimate", given("a,b\nx,y\n"))
    assert "2 columns of numbers" in certeq.refused("estimate", given("a,b\n1,2\n"))
    assert "Did you mean 'loss'" in certeq.refused("estimate", given("loss,b\n1,2\n"), "-c", "los")
    assert "empty in row 2" in certeq.refused("estimate", given("a,b\n1,2\n,3\n"), "-c", "a")
    assert "infinite in row 1" in certeq.refused("estimate", given("a\ninf\n"))
    assert "'oops' in row 2" in certeq.refused("estimate", given("a\n1\noops\n"), "-c", "a")
    assert "has no rows" in certeq.refused("estimate", given("a\n"), "-c", "a")
    assert "UTF-8" in certeq.refused("estimate", given("größe\n1\n".encode("latin-1")))
    assert "Parquet" in certeq.refused("estimate", given(b"PAR1 not really", "bad.parquet"))
    assert "Parquet" in certeq.refused("estimate", given(b"\0\1\2\3\n"))
    assert "'a' occurs twice" in certeq.refused("estimate", given("a,a\n1,2\n"), "-c", "a")


def test_losses_in_the_order_of_time(certeq, tmp_path):
    path = tmp_path / "walk.csv"
    sums = np.convolve(np.random.default_rng(0).normal(size=1009), np.ones(10), "valid")
    pd.DataFrame({"x": sums}).to_csv(path, index=False)
    auto, none, ten = (certeq.json("estimate", path, "--dependence", word) for word in ("auto", "none", "10"))
    assert auto["memory"] > 1
    assert none["memory"] == 0
    assert ten["memory"] == 4
    assert auto["stderr"] > 2 * none["stderr"]
    assert auto["oce"] == none["oce"]
    assert "depend on those before them" in none["warnings"][0]
    assert "pass --dependence auto" in none["warnings"][0]
    assert "pass --dependence auto" in certeq("estimate", path, "--dependence", "none").stderr
    assert not auto["warnings"]
    assert certeq.json("estimate", path) == auto
    assert "over about" in certeq("estimate", path).stdout
    assert "--dependence" in certeq.refused("estimate", path, "--dependence", "often", code=2)
    assert "number of losses, 1000; found" in certeq.refused("estimate", path, "--dependence", "1000", code=2)


@pytest.mark.parametrize("kind", ["csv", "parquet", "index.parquet"])
def test_dates_out_of_order_are_sorted(certeq, tmp_path, kind):
    sums = np.convolve(np.random.default_rng(0).normal(size=1009), np.ones(10), "valid")
    table = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=1000), "x": sums})

    def write(some, name):
        path = tmp_path / f"{name}.{kind}"
        if kind == "csv":
            some.to_csv(path, index=False)
        else:
            (some.set_index("day") if "index" in kind else some).to_parquet(path, index="index" in kind)
        return path

    ordered, shuffled = write(table, "a"), write(table.sample(frac=1.0, random_state=0), "b")
    wanted, found = certeq.json("estimate", ordered), certeq("estimate", shuffled, "--json")
    assert "dates were not in order" in found.stderr
    assert wanted["stderr"] == pytest.approx(json.loads(found.stdout)["stderr"])
    backwards = certeq("estimate", write(table[::-1], "c"), "--json")
    assert "order" not in backwards.stderr
    assert wanted["stderr"] == pytest.approx(json.loads(backwards.stdout)["stderr"])
    assert "order" not in certeq("estimate", shuffled, "--dependence", "none").stderr


def test_assumptions_are_printed(certeq, file):
    assert "no sample can show" in certeq.json("estimate", file, "-u", "entropic")["assumptions"]
    assert "Assumptions" in certeq("estimate", file, "-u", "entropic").stdout
    assert "Assumptions" not in certeq("estimate", file).stdout
