"""The portfolio experiments: what is deterministic equals the printed digits, what is not is measured and marked."""

import json
import socket
import warnings

import numpy as np
import pytest

pytest.importorskip("skfolio", reason="portfolios need the extra [portfolio]")
pytest.importorskip("matplotlib", reason="figures need the extra [paper]")
pytest.importorskip("threadpoolctl", reason="jobs need the extra [paper]")

from pathlib import Path

import threadpoolctl
from skfolio.datasets import _base as skfolio_data

from certeq.paper import _markets, cvar_solver, portfolios, reproduce
from certeq.paper._markets import (
    Market,
    fit_benchmark,
    fit_exact,
    fit_printed_weights,
    fit_sg,
    load_panel,
    log_spaced,
    synthetic_returns,
)
from certeq.paper._printed import CVAR_TABLES, PORTFOLIOS
from certeq.paper._run import LocalJob
from certeq.paper._statistics import HeldOut, controlled, wanted_sign
from certeq.risk import UnitWarning
from tests.conftest import SHARED

pytestmark = pytest.mark.filterwarnings("ignore::certeq.risk.UnitWarning")  # of the paper's parameters


def panel_items(key, monkeypatch):
    """The panel's key and digest for the pieces; FTSE only where its file is at hand, as tests do not download."""
    if key == "ftse100":
        if (SHARED / "data" / "ftse100_dataset.csv.gz").is_file():
            monkeypatch.setenv("SKFOLIO_DATA", str(SHARED / "data"))
        elif not (Path(skfolio_data.get_data_home()) / "ftse100_dataset.csv.gz").is_file():
            pytest.skip("the FTSE 100 file of skfolio is not at hand")
    return {"panel": key, "digest": load_panel(key).digest}


def figures(fit, keys=portfolios.KEYS):
    return np.array([fit["metrics"][key] for key in keys])


# -- the printed digits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("market", ["sp500", "ftse100"])
@pytest.mark.parametrize("row", ["equal", "hrp", "sharpe"])
def test_benchmarks_are_as_printed(market, row, monkeypatch):
    found = figures(fit_benchmark(**panel_items(market, monkeypatch), row=row))
    printed = np.array(PORTFOLIOS[market][row])
    if row == "sharpe":
        np.testing.assert_allclose(np.round(found, 4), printed, rtol=0, atol=1.0001e-4)
    else:
        assert np.round(found, 4).tolist() == printed.tolist()


@pytest.mark.parametrize("market", ["sp500", "ftse100"])
def test_the_cvar_solver_is_as_printed(market, monkeypatch):
    where = panel_items(market, monkeypatch)
    solver, exact = fit_benchmark(**where, row="solver"), fit_exact(**where, row="cvar")
    for fit in (solver, exact):
        assert np.round(figures(fit, cvar_solver.KEYS), 4).tolist() == list(CVAR_TABLES[market]["solver"])
    np.testing.assert_allclose(exact["weights"], solver["weights"], atol=1e-5)


@pytest.mark.parametrize(
    "row, value", [("cvar", 0.0222484722), ("mmv", -0.0010856511), ("quartic", -0.4730477477)], ids=str
)
def test_true_optima_of_the_sp500(row, value, monkeypatch):
    found = fit_exact(**panel_items("sp500", monkeypatch), row=row)
    assert found["value"] == pytest.approx(value, abs=1e-10)
    assert 0.0 <= found["gap"] < 1e-12


def test_the_protocol_of_the_paper(monkeypatch):
    """15,000 steps from equal weights: the row that an independent implementation found, with M the training days."""
    where = panel_items("sp500", monkeypatch)
    rest = {"row": "mmv", "start": None, "snapshots": False}
    found = fit_sg(**where, **rest, steps=15_000, step=6234**-0.5)
    assert np.round(figures(found), 4).tolist() == [0.1970, 0.0135, 0.0305, 0.0571, 0.1864, 0.9224, 1.3096]
    assert found["gap"] > 1e-4  # far from its optimum, as the report says
    stated = _markets.paper_step(load_panel("sp500"))
    assert stated == pytest.approx(8312**-0.5, rel=1e-15)  # M as the paper states it
    by_name, default = (fit_sg(**where, **rest, steps=50, step=step)["weights"] for step in (stated, None))
    assert by_name == default


def test_another_alpha_or_beta(monkeypatch):
    where = {**panel_items("sp500", monkeypatch), "steps": 25, "start": None, "snapshots": False}
    same, other = (fit_sg(**where, row="cvar", parameter=alpha)["weights"] for alpha in (0.05, 0.2))
    assert same == fit_sg(**where, row="cvar")["weights"]
    assert same != other
    with pytest.raises(ValueError, match="'quartic' has neither alpha nor beta; found parameter 2"):
        fit_sg(**where, row="quartic", parameter=2.0)


def test_cvar_with_the_weights_as_printed(monkeypatch):
    """The row an independent implementation found with them; the corrected weights give another fourth digit."""
    monkeypatch.setattr(_markets, "paper_step", lambda data: len(data.train) ** -0.5)
    found = fit_printed_weights(**panel_items("sp500", monkeypatch), steps=15_000)
    assert np.round(figures(found), 4).tolist() == [0.1260, 0.0099, 0.0239, 0.0486, 0.1548, 0.7704, 1.0765]


@pytest.mark.parametrize("market, before", [("sp500", 4_000), ("ftse100", 3_000)])
def test_cvar_by_oce_sg_is_within_a_ten_thousandth(market, before, monkeypatch):
    where = panel_items(market, monkeypatch)
    exact = fit_exact(**where, row="cvar")
    found = fit_sg(**where, row="cvar", steps=5_000, start=None, snapshots=True)
    first = cvar_solver.steps_until_close(found, exact["value"])
    assert first is not None
    assert 500 < first < before
    assert 0.0 <= found["value"] - exact["value"] < 5e-5
    away = np.abs(np.array(found["snapshots"]) - exact["weights"]).sum(axis=1)
    assert away[-1] < 0.2 * away[0]
    assert np.all(np.diff(away) < 1e-3)  # the composition settles, step by step
    assert found["snapshot_steps"][0] == 0
    assert found["snapshot_steps"][-1] == 5_000


def test_steps_until_close():
    fit = {"steps": [25, 50, 75, 100], "values": [1.0, 0.00005, 0.5, 0.0]}
    assert cvar_solver.steps_until_close(fit, 0.0) == 100
    assert cvar_solver.steps_until_close({**fit, "values": [0.0] * 4}, 0.0) == 25
    assert cvar_solver.steps_until_close({**fit, "values": [1.0] * 4}, 0.0) is None


def test_snapshots_are_at_logged_steps():
    assert all(step % 25 == 0 and step > 0 for step in log_spaced(15_000))
    assert max(log_spaced(15_000)) == 15_000


def test_starts_are_drawn_from_the_simplex_and_seeded(monkeypatch):
    where = panel_items("sp500", monkeypatch)
    one, same, two = (
        fit_sg(**where, row="cvar", steps=25, start=seed, snapshots=False)["weights"] for seed in (0, 0, 1)
    )
    assert one == same
    assert one != two
    assert sum(one) == pytest.approx(1.0)
    assert min(one) >= 0.0


# -- data that is not to be had ---------------------------------------------------------------------------------------


def test_the_synthetic_panel_is_seeded_heavy_tailed_and_the_same_on_any_number_of_threads():
    panel = load_panel("nasdaq-synthetic")
    assert panel.train.shape == (1020, 1455)
    assert panel.test.shape == (341, 1455)
    with threadpoolctl.threadpool_limits(limits=1):
        again = synthetic_returns(1361, 1455, seed=1455)
    assert np.array_equal(again.to_numpy()[:1020], panel.train.to_numpy())
    market = panel.train.to_numpy().mean(axis=1)
    scaled = (market - market.mean()) / market.std()
    assert (scaled**4).mean() > 4.0
    assert again.to_numpy().min() > -1.0


def test_a_panel_that_changed_is_refused():
    with pytest.raises(ValueError, match="changed while the work was going on"):
        fit_exact(panel="sp500", digest="another", row="cvar")


@pytest.fixture
def small_markets(monkeypatch):
    """No file to be had at all, and panels small enough to run everything on."""

    def nothing(market):
        raise OSError("no network")

    small = {key: Market(key, m.title, m.loader, (240, 6), m.seed) for key, m in _markets.MARKETS.items()}
    monkeypatch.setattr(_markets, "_real_returns", nothing)
    for key, market in small.items():
        monkeypatch.setitem(_markets.MARKETS, key, market)
    monkeypatch.setattr(_markets, "QUICK_STEPS", {})
    load_panel.cache_clear()
    _markets.find_panel.cache_clear()
    yield
    load_panel.cache_clear()
    _markets.find_panel.cache_clear()


def test_without_its_file_a_market_is_synthetic_and_says_so(small_markets, tmp_path):
    with LocalJob(quick=True, seeds=2, cache=tmp_path, jobs=1) as job:
        found = portfolios.run("nasdaq", job)
        again = portfolios.run("nasdaq", job)
    assert found.synthetic
    assert found.notes[0].startswith("SYNTHETIC DATA")
    assert "no network" in found.notes[0]
    assert len([claim for claim in found.claims if "row by OCE-SG" in claim.text or "Benchmarks" in claim.text]) == 8
    assert {claim.verdict for claim in found.claims} == {"not checked"}
    assert all("Synthetic data" in claim.why for claim in found.claims)
    main = found.tables[0]
    by = {(row[0], row[1]): row for row in main.rows}
    assert ("CVaR", "printed") in by
    assert by["CVaR", "true optimum"][-2] < 1e-12
    for title in ("CVaR", "Entropic", "Quartic"):
        assert by[title, "OCE-SG, 1,000 steps"][10] >= 0.0
    assert found == again


def test_cvar_against_solvers_on_three_small_markets(small_markets, tmp_path):
    with LocalJob(quick=True, seeds=2, cache=tmp_path, jobs=1) as job:
        found = cvar_solver.run(job)
    assert found.synthetic
    assert {claim.verdict for claim in found.claims} == {"not checked"}
    texts = [claim.text for claim in found.claims]
    assert sum("outperforms CVaR on Return" in text for text in texts) == 3  # S&P: both variants; FTSE: Smooth CVaR
    assert sum("converges to the solver's CVaR" in text for text in texts) == 3
    assert {figure.name for figure in found.figures} == {
        "value",
        "composition-sp500",
        "composition-ftse100",
        "composition-nasdaq",
    }
    for market in ("sp500", "ftse100", "nasdaq"):
        numbers = found.numbers[market]
        assert numbers["certified_gap"] < 1e-12
        assert numbers["solver_cvar"] == pytest.approx(numbers["exact_cvar"], abs=1e-6)
        assert numbers["oce_sg_cvar"] >= numbers["exact_cvar"] - 1e-12


@pytest.fixture
def one_small_market(small_markets, monkeypatch):
    """The S&P 500 is there, small; the files of the others are not to be had. The markets that were asked for."""
    asked = []

    def loader(key):
        def load():
            asked.append((key, socket.getdefaulttimeout()))
            if key != "sp500":
                raise OSError("no network")

        return load

    for key, market in _markets.MARKETS.items():
        monkeypatch.setattr(f"skfolio.datasets.{market.loader}", loader(key))
    monkeypatch.setattr(_markets, "_real_returns", lambda market: synthetic_returns(240, 6, seed=market.seed))
    return asked


def test_a_market_without_data_is_left_out_and_named(one_small_market, tmp_path):
    names = ("portfolio-sp500", "portfolio-nasdaq", "cvar-solver")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnitWarning)  # nobody who runs it could change the paper's parameters
        sp500, nasdaq, solver = reproduce(names, quick=True, out=tmp_path, jobs=1)
    assert one_small_market == [("sp500", 5.0), ("nasdaq", 5.0), ("ftse100", 5.0)]  # each once, and not for long
    assert socket.getdefaulttimeout() is None
    assert sp500.left_out == ()
    assert not sp500.outcome.synthetic
    assert nasdaq.outcome is None
    assert nasdaq.failure is None
    reason = "Nasdaq, whose file skfolio neither finds (SKFOLIO_DATA) nor can download (no network)"
    assert nasdaq.left_out == (reason,)
    assert [words.split(",")[0] for words in solver.left_out] == ["FTSE 100", "Nasdaq"]
    assert set(solver.outcome.numbers) == {"sp500"}
    assert not solver.outcome.synthetic
    kept = {name: json.loads((tmp_path / name / "result.json").read_text()) for name in names}
    assert kept["portfolio-nasdaq"]["left_out"] == [reason]
    assert "claims" not in kept["portfolio-nasdaq"]
    assert kept["cvar-solver"]["left_out"] == list(solver.left_out)
    page = (tmp_path / "index.html").read_text()
    assert page.count(f"Left out: {reason}.") == 2
    assert "could not run" not in page
    assert "SYNTHETIC" not in page
    assert list(_markets.MARKETS) == ["sp500", "ftse100", "nasdaq"]


def test_the_command_names_what_is_left_out(one_small_market, tmp_path):
    typer = pytest.importorskip("typer.testing", reason="the command needs the extra [cli]")
    from certeq.cli._app import app

    def certeq(*arguments):
        return typer.CliRunner().invoke(
            app, ["reproduce", *arguments, "--quick", "--jobs", "1", "--out", str(tmp_path)]
        )

    found = certeq("cvar-solver", "portfolio-nasdaq")
    assert found.exit_code == 0
    assert "no data" in found.stdout
    words = " ".join(found.stdout.split())  # a narrow table breaks the name
    assert "cvar-solver" in words
    assert "part)" in words
    told = " ".join(found.stderr.split())
    assert "warning: left out of portfolio-nasdaq and cvar-solver: Nasdaq, whose file" in told
    assert "warning: left out of cvar-solver: FTSE 100, whose file" in told
    assert told.count("warning: ") == 2
    nothing = certeq("portfolio-nasdaq")
    assert nothing.exit_code == 1
    assert "error: nothing was run: the data of no market asked for are there." in nothing.stderr
    (only,) = json.loads(certeq("portfolio-nasdaq", "--json").stdout)["experiments"]
    assert only["left_out"][0].startswith("Nasdaq, ")


# -- claims -----------------------------------------------------------------------------------------------------------


class Asked:
    """As much of a job as the number of starts depends on."""

    def __init__(self, seeds, quick=False):
        self.seeds, self.quick = seeds, quick


def test_seeds_are_starts_and_capped_where_one_is_dear():
    small, large = load_panel("sp500"), load_panel("nasdaq-synthetic")
    assert [_markets.starts_of(small, Asked(n)) for n in (1, 2, 20, 50)] == [2, 2, 20, 50]
    assert _markets.starts_of(large, Asked(20)) == 2
    real = _markets.ReturnsPanel("nasdaq", large.train, large.test, large.digest)
    assert _markets.starts_of(real, Asked(20)) == 5
    assert _markets.starts_of(real, Asked(20, quick=True)) == 2


def test_a_row_is_judged_by_its_rank_among_the_starts_and_nothing_else():
    printed = np.array(PORTFOLIOS["sp500"]["mv"])
    noise = np.random.default_rng(0).normal(size=(20, 7))
    fit = {"metrics": dict(zip(portfolios.KEYS, printed, strict=True)), "value": 1.0}  # equal weights: as printed
    for values, verdict in ((1.1 * printed + 1e-3 * noise, "not reproduced"), (printed + 1e-3 * noise, "within noise")):
        (claim,) = controlled(
            [portfolios.row_claim("sp500", "mv", {"mv": values}, {}, {"mv": fit}, {"mv": {"value": 0.9}})]
        )
        assert claim.verdict == verdict
        assert claim.quote == "MV Risk"
        assert (claim.line, claim.whose) == (1178, "paper")


def test_the_printed_smooth_cvar_is_judged_as_the_risk_neutral_portfolio_that_it_is():
    neutral = np.array(PORTFOLIOS["sp500"]["smooth"]) + 1e-3 * np.random.default_rng(0).normal(size=(20, 7))
    fit = {"metrics": dict(zip(portfolios.KEYS, neutral[0], strict=True)), "value": 1.0}
    claim = portfolios.row_claim("sp500", "smooth", {"mean": neutral}, {}, {"mean": fit}, {"mean": {"value": 0.9}})
    assert claim.verdict == "within noise"
    assert "risk neutral" in claim.why


def test_a_paired_bootstrap_of_the_held_out_days():
    panel = load_panel("sp500")
    even, first = np.full(20, 0.05), np.eye(20)[0]
    held_out = HeldOut(panel, ("annualized_mean", "cdar"))
    same = held_out.less(even, even)["cdar"]
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    one, two = held_out.less(even, first), held_out.less(first, even)
    for key in one:
        assert one[key].low <= one[key].floor <= one[key].ceiling <= one[key].high
        assert (one[key].value, one[key].low) == pytest.approx((-two[key].value, -two[key].high))
    assert one["annualized_mean"].value == pytest.approx(252 * (panel.held_out(even) - panel.held_out(first)).mean())
    assert (wanted_sign("annualized_mean"), wanted_sign("cdar")) == (1.0, -1.0)


def test_outperforming_is_judged_on_the_rows_printed_above_the_benchmark():
    from certeq.paper._statistics import DifferenceInterval

    def said(value, error, **better):
        one = {key: DifferenceInterval(value, error, np.inf) for key in portfolios.NAMES}
        table = {(row, "protocol", other): one for row in portfolios.OCES for other in portfolios.BENCHMARKS}
        claims = portfolios.outperform_claims("sp500", table, portfolios.BENCHMARKS)
        return {claim.text: claim for claim in controlled(claims)}

    clear, close, worse = said(0.1, 0.01), said(0.1, 0.09), said(-0.1, 0.01)
    name = "OCE portfolios outperform HRP in return"
    assert [found[name].verdict for found in (clear, close, worse)] == ["reproduced", "within noise", "not reproduced"]
    assert clear[name].printed.startswith("6 pairs higher")
    assert clear[name].line == 505
    assert "OCE portfolios outperform Equal weights in Sortino ratio" in clear
    refuted = clear["OCE portfolios outperform Maximum Sharpe in Sharpe ratio"]  # printed: no row above it
    assert (refuted.verdict, refuted.printed) == ("not reproduced", "0 of 7 higher")
    assert "own table refutes it" in refuted.why


def test_falling_and_rising_markets_are_judged_by_the_risks_named_for_them():
    from certeq.paper._statistics import DifferenceInterval

    def one(good):
        return {key: DifferenceInterval(0.1 if good else -0.1, 0.01, np.inf) for key in portfolios.NAMES}

    table = {(r, "protocol", o): one(r == "cvar") for r in portfolios.OCES for o in portfolios.BENCHMARKS}
    falling = controlled(portfolios.direction_claims("nasdaq", table, portfolios.BENCHMARKS, True))
    rising = controlled(portfolios.direction_claims("ftse100", table, portfolios.BENCHMARKS, False))
    assert [claim.verdict for claim in falling] == ["reproduced"] * 3
    assert [claim.verdict for claim in rising] == ["not reproduced"] * 3
    assert "own table has the opposite in 2 of 15 pairs" in rising[1].why


def test_the_sensitivity_table_varies_step_parameter_and_start():
    asked = []

    class Once:
        quick, seeds = False, 2

        def map(self, function, items, vectors=True):
            assert function is fit_sg
            asked.extend(items)
            return [{"metrics": dict.fromkeys(portfolios.KEYS, 0.1)} for _ in items]

    table = portfolios.sensitivity_table(Once(), "sp500", load_panel("sp500"))
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(table.rows) == len(asked) == (4 * 4 + 3) * 3 * 3  # four rows with four parameters, three without
    assert {item["step"] for item in asked} == {None, 6234**-0.5, 15_000**-0.5}
    assert {item["start"] for item in asked} == {None, 0, 1}
    assert "smooth" not in {item["row"] for item in asked}  # as printed it is the risk-neutral row
    assert {item["parameter"] for item in asked if item["row"] == "cvar"} == set(_markets.ALPHAS)


# -- the whole experiment ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_sp500_experiment_as_a_whole(tmp_path):
    with LocalJob(quick=True, seeds=3, cache=tmp_path, jobs=1) as job:
        found = portfolios.run("sp500", job)
    assert not found.synthetic
    assert found.claims[0].verdict == "reproduced"  # the benchmarks
    rows = [claim for claim in found.claims if "row by OCE-SG" in claim.text]
    assert {claim.verdict for claim in rows} == {"not checked"}  # too few steps in a quick run
    for name in ("HRP", "Equal weights", "Maximum Sharpe"):
        assert any(f"outperform {name} in return" in claim.text for claim in found.claims)
        assert any(f"comparable to {name}" in claim.text for claim in found.claims)
    assert {claim.verdict for claim in found.claims[1:]} == {"not checked"}  # a quick run judges what it can, no more
    assert found.seeds == (0, 1, 2)
