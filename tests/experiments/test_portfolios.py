"""The portfolio experiments: rows without randomness equal the printed digits, and planted mistakes are found."""

import numpy as np
import pytest

pytest.importorskip("skfolio", reason="portfolios need the extra [portfolio]")
pytest.importorskip("joblib", reason="experiments need experiments/requirements.txt")
pytest.importorskip("matplotlib", reason="experiments need experiments/requirements.txt")

from experiments import cvar_solver, markets, portfolios
from experiments.common import RESULTS, Job, printed
from experiments.markets import ROWS, Fit, fit_benchmark, fit_exact, fit_printed_weights, fit_sg, judge_of
from experiments.verdicts import DifferenceInterval, controlled, digits
from tests.conftest import ftse_folder

pytestmark = pytest.mark.filterwarnings("ignore::certeq.risk.UnitWarning")  # of the paper's parameters


@pytest.fixture(params=["sp500", "ftse100"])
def market(request, monkeypatch):
    """Return each market in turn; the FTSE 100 only if its file is here, as tests do not download."""
    if request.param == "ftse100":
        folder = ftse_folder()
        if folder is None:
            pytest.skip("the FTSE 100 file of skfolio is not here")
        monkeypatch.setenv("SKFOLIO_DATA", folder)
    return request.param


def test_benchmarks_are_as_printed(market):
    fitted = {row: fit_benchmark(market=market, row=row) for row in portfolios.BENCHMARKS}
    claim = portfolios.benchmarks_claim(market, fitted)
    assert (claim.verdict, claim.quote) == ("reproduced", "Benchmark - HRP")
    for row in ("equal", "hrp"):
        assert np.round(fitted[row].figures(), 4).tolist() == list(printed(market)[row])
    swapped = {**fitted, "hrp": fitted["equal"]}
    assert portfolios.benchmarks_claim(market, swapped).verdict == "not reproduced"


def test_the_cvar_solver_is_as_printed(market):
    solver, exact = fit_benchmark(market=market, row="solver"), fit_exact(market=market, row="cvar")
    for fit in (solver, exact):
        assert np.round(fit.figures(cvar_solver.KEYS), 4).tolist() == list(printed(f"solver, {market}")["solver"])
    np.testing.assert_allclose(exact.weights, solver.weights, atol=1e-5)


def test_true_optima_of_the_sp500():
    """Another utility, alpha or beta in a row has another optimum."""
    values = {
        "entropic": -0.0010856083, "cvar": 0.0222484722, "leaky": -1.1276182340, "smooth": 0.1988192353,
        "mv": -0.0009150660, "mmv": -0.0010856511, "quartic": -0.4730477478, "mean": -0.0014111487,
    }  # fmt: skip
    for row, value in values.items():
        found = fit_exact(market="sp500", row=row)
        assert found.value == pytest.approx(value, abs=1e-10), row
        assert 0.0 <= found.gap < 1e-12


def test_the_protocol_of_the_paper():
    """15,000 steps from equal weights: the row that an independent implementation found, with M the training days."""
    found = fit_sg(market="sp500", row="mmv", steps=15_000, step=6234**-0.5)
    assert np.round(found.figures(), 4).tolist() == [0.1970, 0.0135, 0.0305, 0.0571, 0.1864, 0.9224, 1.3096]
    assert found.gap > 1e-4
    by_value, default = (fit_sg(market="sp500", row="mmv", steps=50, step=s) for s in (8312**-0.5, None))
    assert by_value.weights.tolist() == default.weights.tolist()  # M as the paper states it


def test_cvar_with_the_weights_as_printed():
    """The row that an independent implementation found; the corrected weights give another fourth digit."""
    found = fit_printed_weights(market="sp500", steps=15_000, step=6234**-0.5)
    assert np.round(found.figures(), 4).tolist() == [0.1260, 0.0099, 0.0239, 0.0486, 0.1548, 0.7704, 1.0765]


def test_cvar_by_oce_sg_converges(market):
    exact, found = fit_exact(market=market, row="cvar"), fit_sg(market=market, row="cvar", steps=5_000)
    first = cvar_solver.steps_until_close(found, exact.value)
    assert 500 < first < {"sp500": 4_000, "ftse100": 3_000}[market]
    assert 0.0 <= found.value - exact.value < 5e-5
    away = [np.abs(theta - exact.weights).sum() for _, theta in found.path]
    assert away[-1] < 0.2 * away[0]
    assert np.all(np.diff(away) < 1e-3)
    assert [found.path[k][0] for k in (0, -1)] == [0, 5_000]


def test_steps_until_close():
    def first(*values):
        fit = Fit(np.ones(1), {}, values=list(zip((25, 50, 75, 100), values, strict=True)))
        return cvar_solver.steps_until_close(fit, 0.0)

    assert [first(1.0, 5e-5, 0.5, 0.0), first(0, 0, 0, 0), first(0, 0, 0, 1.0)] == [100, 25, None]


def test_starts_are_drawn_from_the_simplex_and_seeded():
    one, same, two = (fit_sg(market="sp500", row="cvar", steps=25, start=seed).weights for seed in (0, 0, 1))
    assert one.tolist() == same.tolist() != two.tolist()
    assert (one.sum(), one.min() >= 0.0) == (pytest.approx(1.0), True)


# -- claims, and mistakes planted in them -----------------------------------------------------------------------------


def noisy(market="sp500", keys=markets.KEYS, runs=20):
    """Return runs around each printed row, as if the paper's protocol was the one run here."""
    rng, table = np.random.default_rng(0), printed(market)
    return {judge_of(row): table[row] + 1e-3 * rng.normal(size=(runs, len(keys))) for row in table if row in ROWS}


def judged(spread):
    ours = {row: Fit(np.ones(1), dict(zip(markets.KEYS, values[0], strict=True))) for row, values in spread.items()}
    claims = portfolios.row_claims("sp500", spread, ours)
    return {claim.quote: claim.verdict for claim in controlled(claims)}


def test_rows_without_a_stated_parameter_are_undecided_and_the_others_within_noise():
    assert judged(noisy()) == {
        "Entropic Risk": "undecided", "CVaR Risk": "undecided", "Leaky CVaR Risk": "undecided",
        "Smooth CVaR Risk": "within noise", "MV Risk": "undecided", "Mono-MV Risk": "within noise",
        "Quartic Risk": "within noise",
    }  # fmt: skip


@pytest.mark.parametrize("runs, verdict", [(20, "undecided"), (140, "not reproduced")])
@pytest.mark.parametrize(
    "row, quote", [("mmv", "Mono-MV Risk"), ("quartic", "Quartic Risk"), ("mean", "Smooth CVaR Risk")]
)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_planted_row_is_never_within_noise(row, quote, factor, runs, verdict):
    """20 runs of one row in three cannot give a joint p of 5%."""
    spread = noisy(runs=runs)
    before = judged(spread)
    spread[row] = spread[row] * factor
    assert {name: found for name, found in judged(spread).items() if found != before[name]} == {quote: verdict}


def test_printed_figures_that_no_run_reaches_are_not_within_noise():
    spread, fit = noisy("solver, ftse100", cvar_solver.KEYS), Fit(np.ones(1), {})
    market = cvar_solver.Solved("ftse100", None, {}, fit, fit, fit, spread, False)
    assert [claim.verdict for claim in cvar_solver.row_claims(market)] == ["undecided", "undecided", "within noise"]
    spread["mean"][:, 1] += 0.1
    assert cvar_solver.row_claims(market)[2].verdict == "undecided"  # one figure in four of one row


def test_the_runs_of_another_risk_are_found():
    """The row of one allocation with the utility of another: seven figures of the printed table tell them apart."""
    spread = noisy()
    spread["mmv"], spread["quartic"] = spread["quartic"], spread["mmv"]
    assert judged(spread)["Mono-MV Risk"] == judged(spread)["Quartic Risk"] == "not reproduced"


def test_outperforming_is_judged_on_the_rows_printed_above_the_benchmark():
    def said(value, error):
        one = {key: DifferenceInterval(value, error, np.inf) for key in portfolios.NAMES}
        differences = {(row, other): one for row in portfolios.OCES for other in portfolios.BENCHMARKS}
        return {claim.text: claim for claim in controlled(portfolios.outperform_claims(differences))}

    name = "OCE portfolios outperform HRP in return"
    found = [said(0.1, 0.01)[name], said(0.1, 0.09)[name], said(-0.1, 0.01)[name]]
    assert [claim.verdict for claim in found] == ["reproduced", "undecided", "not reproduced"]
    assert (found[0].line, found[0].printed[:14]) == (505, "6 pairs higher")
    refuted = said(0.1, 0.01)["OCE portfolios outperform Maximum Sharpe in Sharpe ratio"]  # printed: no row above it
    assert (refuted.verdict, refuted.printed) == ("not reproduced", "0 of 7 higher")


def test_a_quick_run_judges_only_what_has_no_steps_and_the_markets_that_are_here(monkeypatch):
    monkeypatch.setattr(markets, "_done", {})
    for module in (markets, portfolios, cvar_solver):
        monkeypatch.setattr(module, "steps_of", lambda row, quick: 100)

    def load(market, loaded=markets.load):
        if market == "ftse100":
            raise OSError("no prices")
        return loaded(market)

    monkeypatch.setattr(markets, "load", load)
    job = Job(quick=True, seeds=3, processes=1)
    found, solver = portfolios.run("sp500", job), cvar_solver.run(job)
    for outcome in (found, solver):
        assert outcome.claims[0].verdict == "reproduced"
        assert {claim.verdict for claim in outcome.claims[1:]} == {"not checked"}
        assert all(claim.line and claim.quote for claim in outcome.claims)
    assert [table.name for table in found.tables] == ["portfolios", "starts", "differences"]
    assert [picture.name for picture in found.pictures] == ["cumulative-returns", "composition", "convergence"]
    cells = {row[:2]: row for row in found.tables[0].rows}
    assert cells["CVaR", "printed"][2:9] == printed("sp500")["cvar"]
    assert cells["CVaR", "true optimum"][-2] < 1e-12
    assert found.seeds == (0, 1, 2)
    assert [picture.name for picture in solver.pictures] == ["value", "composition-sp500"]
    ftse = [claim.printed for claim in solver.claims if claim.why == "Not run: no prices"]
    assert ftse == [digits(figures) for figures in printed("solver, ftse100").values()]
    assert solver.numbers["sp500"]["oce_sg_cvar"] >= solver.numbers["sp500"]["exact_cvar"] - 1e-12


def test_the_printed_rows_are_those_of_the_stored_results():
    rows = (*portfolios.BENCHMARKS, *portfolios.OCES)
    for market in ("sp500", "ftse100"):
        lines = (RESULTS / f"portfolio-{market}" / "portfolios.csv").read_text().splitlines()
        stored = [tuple(line.split(",")) for line in lines if ",printed," in line]
        expected = [(ROWS[row].title, *printed(market)[row]) for row in rows]
        assert [(row[0], *map(float, row[2:9])) for row in stored] == expected


def test_the_nasdaq_is_not_checked():
    assert {claim.verdict for claim in portfolios.run_nasdaq(Job()).claims} == {"not checked"}
