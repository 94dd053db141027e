"""``certeq portfolio``: weights with a certificate, files that are safe, and refusals that say what would do."""

import csv as csvs
import json

import numpy as np
import pytest

import certeq as ce


def test_weights_are_those_of_the_library(certeq, prices, csv):
    from certeq.portfolio import MinimumOCE

    found = certeq.json("portfolio", csv(prices), "--alpha", 0.1, "--max-weight", 0.4)
    wanted = MinimumOCE(ce.CVaR(0.1), max_weights=0.4).fit(prices.pct_change().dropna())
    np.testing.assert_allclose(list(found["weights"].values()), wanted.weights_, atol=1e-7)
    assert found["objective"] == pytest.approx(wanted.objective_, rel=1e-9)
    assert found["gap"] < 1e-10
    assert found["judged_on"] == "the same days"
    assert set(found["metrics"]) >= {"annualized_mean", "cvar", "cdar"}


def test_files_and_table(certeq, prices, csv):
    said = certeq("portfolio", csv(prices), "-o", "w.csv", "-r", "r.html", "--test-size", "0.25").stdout
    assert "optimality gap" in said
    assert "held out" in said
    rows = list(csvs.DictReader((certeq.folder / "w.csv").open()))
    assert [row["asset"] for row in rows] == list("ABCDEF")
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(1.0)
    assert "<!doctype html>" in (certeq.folder / "r.html").read_text()[:20]
    certeq("portfolio", csv(prices), "-o", "w.json", "--json")
    assert json.loads((certeq.folder / "w.json").read_text())["weights"].keys() == set("ABCDEF")


def test_a_place_that_cannot_be_written_is_named_before_the_work(certeq, prices, csv, monkeypatch):
    from certeq import _files
    from certeq.cli import _portfolio

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(_files, "_open_draft", refuse)
    monkeypatch.setattr(_portfolio, "load_panel", lambda *_, **__: pytest.fail("the work had begun"))
    for option, name in (("-o", "w.csv"), ("--report", "w.html")):
        said = certeq.refused("portfolio", csv(prices), option, name)
        assert said == f"error: {name}: Permission denied."


def test_nothing_is_overwritten_unasked(certeq, prices, csv):
    target = certeq.folder / "w.csv"
    target.write_text("mine")
    assert "--force" in certeq.refused("portfolio", csv(prices), "-o", target)
    assert target.read_text() == "mine"
    certeq("portfolio", csv(prices), "-o", target, "--force")
    assert target.read_text().startswith("asset,weight")
    assert sorted(path.name for path in certeq.folder.iterdir()) == ["prices.csv", "w.csv"]  # no leavings
    assert "does not exist" in certeq.refused("portfolio", csv(prices), "-o", "nowhere/w.csv")
    assert "must end in" in certeq.refused("portfolio", csv(prices), "-o", "w.xlsx", code=2)


def test_the_prices_are_never_overwritten(certeq, prices, csv):
    path = csv(prices)
    before = path.read_bytes()
    said = certeq.refused("portfolio", path, "--output", path, "--force", code=2)
    assert "is the file that is read; name another one." in said
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", ["portfolio", "compare"])
@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to", None])
def test_no_report_overwrites_the_prices(certeq, prices, csv, command, link):
    path = csv(prices, "prices.html")
    before, target = path.read_bytes(), path
    if link is not None:
        target = certeq.folder / "link.html"
        try:
            getattr(target, link)(path)
        except OSError:
            pytest.skip("this file system has no such links")
    said = certeq.refused(command, path, "--report", target, "--force", code=2)
    assert "is the file that is read; name another one." in said
    assert path.read_bytes() == before


@pytest.mark.parametrize("option", ["--groups", "--benchmark", "--previous"])
@pytest.mark.parametrize(("written", "suffix"), [("--output", "csv"), ("--report", "html")])
def test_nothing_that_is_read_is_overwritten(certeq, prices, csv, monkeypatch, option, written, suffix):
    from certeq.cli import _portfolio

    monkeypatch.setattr(_portfolio, "load_panel", lambda *_, **__: pytest.fail("the work had begun"))
    other = certeq.folder / f"other.{suffix}"
    other.write_text("mine")
    said = certeq.refused("portfolio", csv(prices), option, other.name, written, other, "--force", code=2)
    assert f"is the file that {option} reads; name another one." in said
    assert other.read_text() == "mine"


def test_formulas_do_not_reach_a_spreadsheet(certeq, prices, csv):
    names = ["=cmd()|A1", "+1", "-2", "@SUM(A1)", " =x", 'q"uo,te\nnew']
    certeq("portfolio", csv(prices.set_axis(names, axis=1)), "-o", "w.csv")
    with (certeq.folder / "w.csv").open(newline="") as stream:
        rows = list(csvs.reader(stream))[1:]
    assert [row[0] for row in rows] == ["'=cmd()|A1", "'+1", "'-2", "'@SUM(A1)", "' =x", 'q"uo,te\nnew']


def test_names_are_not_markup_on_the_terminal(certeq, prices, csv):
    names = ["[red]A[/red]", "[bold", "C[/]", "\x1b[31mD", "<b>E</b>", "F\nG"]
    said = certeq("portfolio", csv(prices.set_axis(names, axis=1)), "--min-weight", "0.1").stdout
    assert "[red]A[/red]" in said
    assert "\x1b" not in said
    assert "F G" in said


def test_bounds_by_name(certeq, prices, csv):
    low, high = ["--min-weight", "B=0.2"], ["--max-weight", "0.5", "--max-weight", "A=0.1"]
    weights = certeq.json("portfolio", csv(prices), *low, *high)["weights"]
    assert weights["A"] <= 0.1 + 1e-9
    assert weights["B"] >= 0.2 - 1e-9
    assert max(weights.values()) <= 0.5 + 1e-9


def test_constraint_and_least_return(certeq, prices, csv):
    weights = certeq.json("portfolio", csv(prices), "--constraint", "C >= 0.3")["weights"]
    assert weights["C"] >= 0.3 - 1e-8
    free = certeq.json("portfolio", csv(prices))
    bound = free["metrics"]["annualized_mean"] + 0.001
    found = certeq.json("portfolio", csv(prices), "--min-return", bound)
    assert found["metrics"]["annualized_mean"] >= bound - 1e-8


def test_infeasible_bounds_say_which(certeq, prices, csv):
    path = csv(prices)
    assert "at least 0.1667" in certeq.refused("portfolio", path, "--max-weight", "0.1")
    assert "at most 0.1667" in certeq.refused("portfolio", path, "--min-weight", "0.2")
    said = certeq.refused("portfolio", path, "--min-weight", "A=0.4", "--max-weight", "A=0.3")
    assert "0.4 exceeds --max-weight 0.3 for 'A'" in said
    assert "there is no asset 'AA'. Did you mean 'A'?" in certeq.refused("portfolio", path, "--max-weight", "AA=1")
    assert "NAME=NUMBER" in certeq.refused("portfolio", path, "--max-weight", "lots", code=2)
    certeq.refused("portfolio", path, "--constraint", "Q >= 0.3")
    certeq.refused("portfolio", path, "--constraint", "A >= 2")
    certeq.refused("portfolio", path, "--min-return", "99")


def test_bad_files_are_refused_in_one_line(certeq, prices, csv):
    assert "pass --returns" in certeq.refused("portfolio", csv(prices.pct_change().dropna()))
    assert "no such file" in certeq.refused("portfolio", "missing.csv")
    assert "did you mean 'cvar'" in certeq.refused("portfolio", csv(prices), "-u", "cvarr", code=2)


@pytest.mark.slow
def test_many_assets(certeq, csv):
    import pandas as pd

    rng = np.random.default_rng(0)
    returns = rng.normal(0.0003, 0.01, size=(60, 10_000)).round(5)
    names = [f"asset {i}" for i in range(10_000)]
    panel = pd.DataFrame(returns, index=pd.bdate_range("2024-01-01", periods=60, name="Date"), columns=names)
    panel.to_parquet(certeq.folder / "many.parquet")
    said = certeq("portfolio", "many.parquet", "--returns", "-u", "mv", "--max-weight", "0.01", "-o", "w.csv").stdout
    assert "more" in said
    assert len((certeq.folder / "w.csv").read_text().splitlines()) == 10_001
