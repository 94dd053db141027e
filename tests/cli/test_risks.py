"""The commands under risks with more inner variables than t, and under distortions."""

import json

import numpy as np
import pytest

import certeq as ce

ASKED = [
    (["-u", "evar", "--alpha", "0.1"], ce.EVaR(0.1)),
    (["-u", "hmcr p=3", "--alpha", "0.1"], ce.HMCR(3.0, 0.1)),
    (["-u", "chi-square radius=0.2"], ce.MonotoneMeanVariance(2).ball(0.2)),
    (["-u", "entropic radius=0.2"], ce.Entropic().ball(0.2)),
    (["-u", "wang shift=0.7"], ce.Wang(0.7)),
    (["-u", "0.5 cvar alpha=0.05 + 0.5 evar alpha=0.1"], ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.EVaR(0.1)])),
]


@pytest.mark.parametrize(
    ("options", "risk"), ASKED, ids=lambda item: repr(item) if isinstance(item, ce.utilities.Risk) else ""
)
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # of one sample that carries the risk: told, too
def test_estimate(certeq, tmp_path, options, risk):
    losses = np.random.default_rng(0).standard_t(5, 300)
    path = tmp_path / "losses.csv"
    path.write_text("loss\n" + "\n".join(map(repr, losses.tolist())))
    found = certeq.json("estimate", path, *options, "--dependence", "none")
    wanted = ce.estimate(losses, risk)
    assert found["oce"] == wanted.value
    assert found["interval"] == list(wanted.interval(0.95))
    assert found["inner"] == list(wanted.inner)
    assert "Threshold" in certeq("estimate", path, *options).stdout


@pytest.mark.parametrize("options", [options for options, _ in ASKED], ids=" ".join)
def test_portfolio_and_its_report(certeq, prices, csv, tmp_path, options):
    page = tmp_path / "report.html"
    found = certeq.json("portfolio", csv(prices), *options, "--report", page)
    assert 0.0 <= found["gap"] <= 1e-7 * abs(found["objective"])
    assert sum(found["weights"].values()) == pytest.approx(1.0)
    assert "Optimality certificate" in page.read_text()


def test_compare(certeq, prices, csv):
    arguments = ["--also", "evar", "--also", "wang shift=1", "--also", "0.5 cvar alpha=0.1 + 0.5 wang shift=0.5"]
    found = certeq.json("compare", csv(prices), *arguments, "--focus", "wang", "--no-report")
    names = [row["name"] for row in found["strategies"]]
    assert names[7:10] == ["EVaR", "Wang", "Mixture"]
    assert found["strategies"][8]["utility"] == "Wang(shift=1.0)"
    assert not any(row["failure"] for row in found["strategies"][:10])
    assert json.dumps(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wang shift", "NAME=NUMBER"),
        ("wang shift=-1", "shift"),
        ("wang alpha=0.1", "no parameter --alpha"),
        ("evar scale=2", "no parameter --scale"),
        ("0.5 cvar + 0.6 evar", "sum to 1"),
        ("wand shift=1", "did you mean"),
    ],
)
def test_what_is_refused(certeq, prices, csv, text, said):
    result = certeq("portfolio", csv(prices), "-u", text, code=2)
    assert said in " ".join(result.stderr.replace("│", " ").split())
