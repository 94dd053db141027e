"""``certeq portfolio``: the weights of the library with a certificate, and files that are safe."""

import csv as csvs
import json
import os

import numpy as np
import pandas as pd
import pytest

import certeq as ce
from certeq.portfolio import MinimumOCE

NAMES = (
    "cvar", "entropic", "mean-variance", "monotone-mean-variance", "quartic", "leaky-cvar", "smooth-cvar", "evar",
    "hmcr p=3", "chi-square radius=0.2", "kl", "entropic radius=0.2", "wang shift=0.7", "proportional-hazard",
    "power-distortion", "0.5 cvar alpha=0.05 + 0.5 evar alpha=0.1",
)  # fmt: skip


def test_weights_are_those_of_the_library(certeq, prices, returns, csv):
    found = certeq.json("portfolio", csv(prices), "--alpha", 0.1, "--max-weight", 0.4)
    wanted = MinimumOCE(ce.CVaR(0.1), max_weights=0.4).fit(returns)
    np.testing.assert_allclose(list(found["weights"].values()), wanted.weights_, atol=1e-7)
    assert found["objective"] == pytest.approx(wanted.objective_, rel=1e-9)
    assert found["gap"] < 1e-10
    assert found["judged_on"] == "the same days"
    assert set(found["metrics"]) >= {"annualized_mean", "cvar", "cdar"}


@pytest.mark.parametrize("utility", NAMES)
def test_every_utility_and_its_report(certeq, prices, csv, utility):
    """With its defaults for daily returns; the report sweeps its parameter."""
    found = certeq.json("portfolio", csv(prices[-201:]), "-u", utility, "--report", "r.html")
    assert 0.0 <= found["gap"] <= 1e-7 * abs(found["objective"])
    assert sum(found["weights"].values()) == pytest.approx(1.0)
    assert "Optimality certificate" in (certeq.folder / "r.html").read_text()


def test_files_and_table(certeq, prices, csv):
    said = certeq("portfolio", csv(prices), "-o", "w.csv", "-r", "r.html", "--test-size", "0.25").out
    assert "optimality gap" in said
    assert "held out" in said
    rows = list(csvs.DictReader((certeq.folder / "w.csv").open()))
    assert [row["asset"] for row in rows] == list("ABCDEF")
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(1.0)
    assert "<!doctype html>" in (certeq.folder / "r.html").read_text()[:20]
    assert sorted(path.name for path in certeq.folder.iterdir()) == ["prices.csv", "r.html", "w.csv"]
    certeq("portfolio", csv(prices), "-o", "w.json", "--json")
    assert json.loads((certeq.folder / "w.json").read_text())["weights"].keys() == set("ABCDEF")


def test_bounds_constraints_and_returns_are_kept(certeq, prices, csv):
    bounds = ["--min-weight", "B=0.2", "--max-weight", "0.5", "--max-weight", "A=0.1", "--constraint", "C >= 0.3"]
    weights = certeq.json("portfolio", csv(prices), *bounds)["weights"]
    assert weights["A"] <= 0.1 + 1e-9
    assert weights["B"] >= 0.2 - 1e-9
    assert weights["C"] >= 0.3 - 1e-8
    assert max(weights.values()) <= 0.5 + 1e-9
    bound = certeq.json("portfolio", csv(prices))["metrics"]["annualized_mean"] + 0.001
    found = certeq.json("portfolio", csv(prices), "--min-return", bound)
    assert found["metrics"]["annualized_mean"] >= bound - 1e-8


# -- files that are not overwritten, and places that are checked before the work ---------------------------------------


def test_nothing_is_overwritten_unasked(certeq, prices, csv):
    target = certeq.folder / "w.csv"
    target.write_text("mine")
    assert "--force" in certeq.refused("portfolio", csv(prices), "-o", target)
    assert target.read_text() == "mine"
    certeq("portfolio", csv(prices), "-o", target, "--force")
    assert target.read_text().startswith("asset,weight")


@pytest.mark.parametrize(
    ("command", "option", "link"),
    [
        ("portfolio", "--output", None), ("portfolio", "--report", "symlink_to"), ("portfolio", "--report", None),
        ("compare", "--report", "hardlink_to"),
    ],
)  # fmt: skip
def test_the_prices_are_never_overwritten(certeq, prices, csv, command, option, link):
    path = csv(prices, "prices.csv" if option == "--output" else "prices.html")
    before, target = path.read_bytes(), path
    if link is not None:
        target = certeq.folder / "link.html"
        try:
            getattr(target, link)(path)
        except OSError:
            pytest.skip("this file system has no such links")
    said = certeq.refused(command, path, option, target, "--force", code=2)
    assert "is the file that is read; name another one." in said
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("option", "written", "suffix"),
    [("--groups", "--output", "csv"), ("--benchmark", "--report", "html"), ("--previous", "--output", "csv")],
)
def test_nothing_that_is_read_is_overwritten(certeq, option, written, suffix):
    other = certeq.folder / f"other.{suffix}"
    other.write_text("mine")
    said = certeq.refused("portfolio", "missing.csv", option, other.name, written, other, "--force", code=2)
    assert f"is the file that {option} reads; name another one." in said
    assert other.read_text() == "mine"


@pytest.mark.parametrize("command", ["portfolio", "compare"])
def test_places_are_checked_before_the_work(certeq, command):
    """Before the prices are read, which are missing."""
    (certeq.folder / "folder.html").mkdir()
    assert "does not exist" in certeq.refused(command, "missing.csv", "--report", "none/r.html")
    assert "is a directory" in certeq.refused(command, "missing.csv", "--report", "folder.html")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_named_before_the_work(certeq):
    (certeq.folder / "locked").mkdir(mode=0o500)
    for option, name in (("-o", "locked/w.csv"), ("--report", "locked/w.html")):
        assert certeq.refused("portfolio", "missing.csv", option, name) == f"error: {name}: Permission denied."


def test_formulas_do_not_reach_a_spreadsheet(certeq, prices, csv):
    for names in (
        ["=cmd()|A1", "+1", "-2", "@SUM(A1)", " =x", 'q"uo,te\nnew'],
        ["=1+1", "＝1+1", "＋1", "－1", "＠x", "a=1"],
    ):
        certeq("portfolio", csv(prices.set_axis(names, axis=1)), "-o", "w.csv", "--force")
        with (certeq.folder / "w.csv").open(newline="") as stream:
            rows = [row[0] for row in csvs.reader(stream)][1:]
        assert rows == [*(f"'{name}" for name in names[:5]), names[5]]


@pytest.mark.slow
def test_many_assets(certeq):
    rng = np.random.default_rng(0)
    returns = rng.normal(0.0003, 0.01, size=(60, 10_000)).round(5)
    names = [f"asset {i}" for i in range(10_000)]
    panel = pd.DataFrame(returns, index=pd.bdate_range("2024-01-01", periods=60, name="Date"), columns=names)
    panel.to_parquet(certeq.folder / "many.parquet")
    said = certeq("portfolio", "many.parquet", "--returns", "-u", "mv", "--max-weight", "0.01", "-o", "w.csv").out
    assert "more" in said
    assert len((certeq.folder / "w.csv").read_text().splitlines()) == 10_001
