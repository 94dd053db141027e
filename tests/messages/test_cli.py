"""Errors and notes of the command: the option, what was found, and the remedy.

A row is a command, its exit code, and parts of what it writes to standard error: 2 for bad usage, 1 for bad data, 0
where it only notes something.
"""

import shlex

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import panel
from tests.command import certeq

PANEL = panel()
RETURNS = PANEL.pct_change().dropna()
LOSSES = pd.DataFrame({"loss": np.random.default_rng(3).normal(size=500), "b": "x"})
F = PANEL[["F"]]


def split_at(factor):
    table = PANEL.copy()
    table.iloc[200:, 2] *= factor
    return table


FILES = {
    "p.csv": PANEL,
    "returns.csv": RETURNS,
    "losses.csv": LOSSES,
    "pnl.csv": pd.DataFrame({"daily P&L": LOSSES["loss"]}),
    "few.csv": PANEL[:60],
    "fewer.csv": PANEL[:20],
    "fewest.csv": PANEL[:12],
    "split.csv": split_at(0.1),
    "halved.csv": split_at(0.5),
    "calm.csv": np.exp(np.log(PANEL) * 1e-3),
    "named.csv": PANEL.rename(columns={"A": "AAPL", "B": "MSFT"}),
    "index.csv": F,
    "late.csv": F[50:],
    "long_gap.csv": F.mask(np.arange(401)[:, None] // 15 == 7),
    "many_gaps.csv": F[::5],
    "gap.csv": RETURNS[["F"]].drop(RETURNS.index[7]),
    "no_heading.csv": "A,0.5\nB,0.5\n",
    "twice.csv": "asset,weight\nA,0.5\nA,0.5\n",
    "no_weight.csv": "asset,weight\nA,0.5\nB,\n",
    "half.csv": "asset,weight\nA,half\n",
    "part.csv": "asset,name,part\nA,x,0.5\n",
    "alone.csv": "asset\nA\n",
    "percent.csv": "asset,weight\nA,50\nB,50\n",
    "comma.csv": "asset,weight\nA,0,5\n",
    "endless.csv": "asset,weight\nA,inf\n",
    "sectors.csv": "asset,sector\naapl,calm\nMSFT,calm\nNVDA,calm\n",
    "held.csv": "asset,weight\naapl,0.5\nMSFT,0.5\nNVDA,0\n",
    "twice.json": '{"weights": {"A": 0.5, "A": 0.5}}',
    "list.json": "[1]",
}
WALK = "--refit-every 60 --train-size 100"
MOST = f"{252 * RETURNS.mean().max():.4g} a year"
MESSAGES = {
    # risks and their parameters
    "no such utility": ("estimate losses.csv -u entropc", 2, "did you mean 'entropic'"),
    "no such risk": ("portfolio p.csv -u 'wand shift=1'", 2, "did you mean"),
    "a parameter of another": ("estimate losses.csv -u cvar --beta 2", 2, "no parameter --beta"),
    "no parameter": ("portfolio -u 'wang alpha=0.1'", 2, "no parameter --alpha"),
    "no scale": ("portfolio -u 'evar scale=2'", 2, "no parameter --scale"),
    "a nearby parameter": ("portfolio -u 'cvar alfa=0.1'", 2, "Did you mean 'alpha'?"),
    "no number": ("portfolio -u 'wang shift'", 2, "NAME=NUMBER"),
    "a negative shift": ("portfolio -u 'wang shift=-1'", 2, "shift"),
    "a number alone": ("portfolio -u 0.5", 2, "mixture"),
    "half a mixture": ("portfolio -u '0.5 cvar + x evar'", 2, "a mixture is written"),
    "weights of a mixture": ("portfolio -u '0.5 cvar + 0.6 evar'", 2, "sum to 1"),
    "alpha twice": ("estimate losses.csv -u 'cvar alpha=0.05 alpha=0.1'", 2, "--utility", "twice: 0.05 and 0.1"),
    "alpha and --alpha": ("estimate losses.csv -u 'cvar alpha=0.05' --alpha 0.1", 2, "alpha is given twice"),
    "--beta twice": ("estimate losses.csv -u entropic --beta 1 --beta 2", 2, "beta is given twice: 1 and 2"),
    "alpha twice in a mixture": ("estimate losses.csv -u '1 cvar alpha=0.05 alpha=0.1'", 2, "alpha is given twice"),
    "alpha in per cent": ("estimate losses.csv --alpha 5", 2, "Did you mean 0.05"),
    "a level for alpha": ("portfolio p.csv --alpha 95", 2, "Did you mean 0.05"),
    "a larger level": ("portfolio p.csv --alpha 99", 2, "Did you mean 0.01"),
    "alpha of 0.95": ("portfolio p.csv --alpha 0.95", 0, "mean of the worst 95 %"),
    # estimates
    "a level in per cent": ("estimate losses.csv --level 95", 2, "--level"),
    "a nearby option": ("estimate losses.csv --alpa 0.1", 2, "--alpha"),
    "gains and losses": ("estimate losses.csv --gains --losses", 2, "--gains and --losses"),
    "no sign": ("estimate pnl.csv", 1, "'daily P&L'", "--gains", "--losses"),
    "no such file": ("estimate none.csv", 1, "none.csv", "no such file"),
    "no such column": ("estimate losses.csv -c los", 1, "Did you mean 'loss'"),
    "a sheet": ("estimate losses.csv -c loss --sheet One", 1, "--sheet 'One'"),
    "dependence in words": ("estimate losses.csv --dependence often", 2, "--dependence"),
    "too long a dependence": ("estimate losses.csv --dependence 500", 2, "number of losses, 500; found"),
    "units": ("estimate losses.csv -u mmv", 0, "depends on units"),
    "gains that are too small": ("estimate returns.csv -c A --gains -u quartic", 0, "hardly sees the risk", "--scale "),
    # the data of a portfolio
    "returns for prices": ("portfolio returns.csv", 1, "pass --returns"),
    "no file of prices": ("portfolio missing.csv", 1, "no such file"),
    "a sheet of a CSV file": ("portfolio p.csv --sheet One", 1, "--sheet 'One' is for Excel files"),
    "too few returns": ("compare fewest.csv --no-report --test-size 0.5", 1, "too few"),
    "few rows": ("compare few.csv --no-report", 0, "15 days are held out", "are 2.2 of them"),
    "a split": ("portfolio split.csv", 0, "'C' falls by", "2020-10-07", "1 for 10"),
    "a small split": ("portfolio halved.csv", 0, "'C' falls by", "1 for 2"),
    "small losses": ("portfolio p.csv -u entropic --beta 1", 0, "hardly sees the risk", "--scale "),
    # bounds and constraints
    "no number of a weight": ("portfolio p.csv --max-weight abc", 2, "--max-weight: must be a number", "'abc'"),
    "a weight in words": ("portfolio p.csv --max-weight lots", 2, "NAME=NUMBER"),
    "a weight of NaN": ("portfolio p.csv --max-weight nan", 2, "--max-weight: must be finite; found 'nan'"),
    "no number of an asset": ("portfolio p.csv --min-weight A=x", 2, "--min-weight: must be a number", "'A=x'"),
    "a weight with a sign": ("portfolio p.csv --max-weight 20%", 2, "found '20%'. 20 % is 0.2."),
    "a weight in per cent": (
        "portfolio p.csv --max-weight 20 --max-weight A=0.1", 0, "--max-weight 20 limits nothing", "20 % is 0.2.",
    ),
    "a weight twice": ("portfolio p.csv --max-weight A=.1 --max-weight A=.9", 2, "A is given twice: 0.1 and 0.9"),
    "a minimum twice": ("portfolio p.csv --min-weight A=.1 --min-weight A=.1", 2, "A is given twice: 0.1 and 0.1"),
    "no such asset": ("portfolio p.csv --max-weight AA=1", 1, "there is no asset 'AA'. Did you mean 'A'?"),
    "maxima too low": ("portfolio p.csv --max-weight 0.1", 1, "at least 0.1667"),
    "maxima of a comparison": ("compare p.csv --max-weight 0.1 --no-report", 1, "at least 0.1667"),
    "minima too high": ("portfolio p.csv --min-weight 0.2", 1, "at most 0.1667"),
    "crossed bounds": (
        "portfolio p.csv --min-weight A=0.4 --max-weight A=0.3", 1, "0.4 exceeds --max-weight 0.3 for 'A'",
    ),
    "no such group": ("portfolio p.csv --constraint 'Q >= 0.9'", 1, "error: --constraint: there is no", "'Q'"),
    "no such group of a walk": (f"portfolio p.csv --constraint 'Q >= 0.9' {WALK}", 1, "error: --constraint: there is"),
    "no constraint": ("portfolio p.csv --constraint 'A >>> 3'", 2, "--constraint: one of <=, >= and ==", "'A >>> 3'"),
    "a constraint in per cent": ("portfolio p.csv --constraint 'A >= 5%'", 2, "write 0.05 for 5 %", "'A >= 5%'"),
    "a constraint out of reach": ("portfolio p.csv --constraint 'A >= 2'", 1, "--constraint", "A >= 2"),
    "constraints that clash": ("portfolio p.csv --constraint 'A >= 0.9' --max-weight 0.5", 1, "--constraint"),
    "no number of a budget": ("portfolio p.csv --budget nan", 2, "--budget: must be a finite number; found NaN"),
    # returns, limits and ratios
    "a return in per cent": ("portfolio p.csv --min-return 5%", 2, "'5%'", "5 % is 0.05."),
    "a return of NaN": ("portfolio p.csv --min-return nan", 2, "--min-return: must be a finite number; found NaN"),
    "a return out of reach": ("portfolio p.csv --min-return 10", 1, "--min-return 10 a year", MOST, "10 % is 0.1."),
    "a return of a walk": (f"portfolio p.csv --min-return 9 {WALK}", 1, "--min-return 9 a year is out of reach"),
    "no such objective": ("portfolio p.csv --objective risc", 2, "must be one of risk"),
    "a rate without a ratio": ("portfolio p.csv --risk-free-rate 0.1", 2, "belongs to --objective"),
    "an endless rate": ("portfolio missing.csv --risk-free-rate inf", 2, "--risk-free-rate: must be a finite number"),
    "a rate out of reach": (
        "portfolio p.csv --objective ratio --risk-free-rate 2", 1, "--risk-free-rate, 2 a year", MOST, "2 % is 0.02.",
    ),
    "no aversion": ("portfolio missing.csv --risk-aversion 0", 2, "--risk-aversion: must be", "above 0; found 0.0"),
    "a risk out of reach": ("portfolio p.csv --max-risk 1e-6", 1, "--max-risk, CVaR", "out of reach"),
    "a limit on nothing known": ("portfolio p.csv --max-risk cvr=0.1", 2, "'cvr'; did you mean 'cvar'"),
    "no number of a limit": ("portfolio p.csv --max-risk cvar=x", 2, "--max-risk: must be a number", "'cvar=x'"),
    "a limit of NaN": ("portfolio p.csv --max-risk nan", 2, "--max-risk: must be a number", "'nan'"),
    "a limit without an equals sign": ("portfolio p.csv --max-risk 'hmcr p=3:2=0.1'", 2, "after a colon"),
    "a limit twice": (
        "portfolio p.csv --max-risk cvar=.02 --max-risk cvar:0.05=.03", 2, "CVaR(alpha=0.05) is given twice",
    ),
    "a limit in per cent": ("portfolio p.csv --max-risk 2", 0, "--max-risk 2 limits nothing", "2 % is 0.02."),
    "tracking nothing": ("portfolio p.csv --max-tracking-error 0.1", 2, "needs a --benchmark"),
    "a negative tracking error": (
        "portfolio missing.csv --benchmark A --max-tracking-error -1", 2, "--max-tracking-error: must be", "-1.0",
    ),
    "a tracking error out of reach": (
        "portfolio p.csv --benchmark F --max-tracking-error 1e-6", 1, "1e-06 a year is 6.29941e-08 a day, and per day",
    ),
    "a tracking error of a walk": (
        f"portfolio p.csv --benchmark F --max-tracking-error 1e-6 {WALK}", 1, "--max-tracking-error 1e-06 a year is",
    ),
    # groups, holdings, costs, benchmarks
    "a group of nothing": ("portfolio p.csv --groups Q=calm", 1, "no asset 'Q'"),
    "no file of groups": ("portfolio p.csv --groups nowhere.csv", 1, "--groups"),
    "groups without headings": (
        "portfolio p.csv --groups no_heading.csv", 1, "first row holds the asset 'A'", "Add a row of headings",
    ),
    "groups of other names": (
        "portfolio named.csv --groups sectors.csv", 0, "--groups sectors.csv: 'aapl', 'NVDA' are no", "'AAPL'",
    ),
    "holdings of other names": (
        "portfolio named.csv --previous held.csv --costs 0.001", 0, "--previous held.csv: 'aapl' is no", "'AAPL'",
    ),
    "holdings without headings": ("portfolio p.csv --previous no_heading.csv", 1, "first row holds the asset 'A'"),
    "an asset held twice": ("portfolio p.csv --previous twice.csv", 1, "row 2 of the data, 'A', occurs twice"),
    "an asset held twice in JSON": ("portfolio p.csv --previous twice.json", 1, "'A' occurs twice"),
    "an asset without a weight": ("portfolio p.csv --previous no_weight.csv", 1, "row 2", "'B'", "write 0"),
    "a weight that is a word": ("portfolio p.csv --previous half.csv", 1, "row 1", "'A'", "found 'half'"),
    "no column of weights": ("portfolio p.csv --previous part.csv", 1, "called weight", "'asset', 'name', 'part'"),
    "one column of holdings": ("portfolio p.csv --previous alone.csv", 1, "two columns", "'asset' alone"),
    "holdings in per cent": ("portfolio p.csv --previous percent.csv", 1, "fractions", "a sum of 100"),
    "holdings with commas": ("portfolio p.csv --previous comma.csv", 1, "3 cells and the header 2"),
    "an endless holding": ("portfolio p.csv --previous endless.csv", 1, "finite", "inf for 'A'"),
    "no holdings": ("portfolio p.csv --previous list.json", 1, "under 'weights'"),
    "turnover of nothing": ("portfolio p.csv --max-turnover 0.1", 2, "needs what is held"),
    "negative costs": ("portfolio p.csv --costs -0.1", 2, "--costs: must not be below 0; found '-0.1'"),
    "negative costs of an asset": ("portfolio p.csv --costs A=-1", 2, "--costs: must not be below 0; found 'A=-1'"),
    "costs twice": ("portfolio p.csv --costs 0.001 --costs 0.002", 2, "all assets is given twice: 0.001 and 0.002"),
    "costs in per cent": ("portfolio p.csv --costs 0.2", 0, "before costs", "--costs 0.2 is 20 % of a trade"),
    "no such benchmark": ("portfolio p.csv --benchmark f", 1, "no such column or file"),
    "a late benchmark": ("portfolio p.csv --benchmark late.csv", 1, "has no return on 5"),
    "a benchmark of many": ("portfolio p.csv --benchmark p.csv", 1, "one column of prices"),
    "a long gap of a benchmark": ("portfolio p.csv --benchmark long_gap.csv", 1, "has no return on", "Give a price"),
    "many gaps of a benchmark": ("portfolio p.csv --benchmark many_gaps.csv", 1, "has no return on", "Give a price"),
    "a gap in returns": (
        "portfolio returns.csv --returns --benchmark gap.csv", 1, "on 1 of the 400 dates", "Give a return",
    ),
    # walks, comparisons, files that are written
    "a walk and a split": ("portfolio --refit-every 5 --test-size 0.1", 2, "leave out --test-size"),
    "a length without a walk": ("portfolio --train-size 5", 2, "belongs to --refit-every"),
    "no length of a walk": ("portfolio p.csv --refit-every 5", 1, "--train-size must be at least"),
    "periods of a year": ("portfolio --periods-per-year 0", 2, "--periods-per-year: must be", "found 0.0"),
    "endless periods": ("compare --periods-per-year inf", 2, "--periods-per-year: must be"),
    "no test size": ("compare --test-size 25", 2, "25", "25 % is 0.25."),
    "a negative test size": ("compare --test-size -1", 2, "-1"),
    "no strategy to add": ("compare --also foo", 2, "Invalid value for --also: there is no utility 'foo'"),
    "a bad strategy to add": ("compare --also 'cvar alpha=2'", 2, "Invalid value for --also: alpha must be"),
    "no such focus": ("compare p.csv --focus quartik", 2, "did you mean 'quartic'"),
    "a weight of NaN in all": ("compare missing.csv --max-weight nan", 2, "--max-weight: must be a finite number"),
    "a report and none": ("compare p.csv --report a.html --no-report", 2, "--no-report"),
    "a comparison of small losses": ("compare calm.csv --no-report", 0, "hardly sees"),
    "a report of another kind": ("portfolio p.csv --report .", 2, "'.' must end in .html"),
    "weights of another kind": ("portfolio p.csv -o w.xlsx", 2, "must end in"),
    "no such folder": ("portfolio p.csv -o nowhere/w.csv", 1, "does not exist"),
    "a word for a number": ("portfolio --alpha abc", 2, "'abc'"),
}  # fmt: skip
# In the words of the parameters, these would help nobody at a terminal.
OF_PYTHON = ("linear_constraints", "max_weights", "min_weights", "unknown_names", "risk_limits", "min_return")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("messages")
    for name, content in FILES.items():
        if isinstance(content, str):
            (path / name).write_text(content)
        else:
            content.to_csv(path / name, index=name not in ("losses.csv", "pnl.csv"))
    return path


@pytest.mark.parametrize("name", MESSAGES)
def test_message(folder, monkeypatch, name):
    command, code, *parts = MESSAGES[name]
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "160")
    ended = certeq(*shlex.split(command), code=code)
    text = " ".join(ended.err.replace("│", " ").split())
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in: {text}"
    assert not any(word in text for word in OF_PYTHON), text
    assert code == 0 or ended.out == ""
    assert code != 1 or ended.err.strip().splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    "command",
    [
        "portfolio p.csv -u quartic --scale 0.02 --max-weight 0.5 --min-weight 0.01",
        "portfolio p.csv --max-weight 1 --max-risk quartic=2 --costs 0.01",
        "compare p.csv --no-report --max-weight 0.5",
        "estimate losses.csv -c loss -u mmv --scale 1",
    ],
)
def test_nothing_is_noted_without_a_reason(folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    said = certeq(*shlex.split(command)).err
    for words in ("hardly sees", "limits nothing", "fractions", "falls by", "held out:", "depends on units", "--scale"):
        assert words not in said


@pytest.mark.parametrize("command", ["portfolio p.csv -u entropic --beta 1", "estimate returns.csv -c A -u quartic"])
def test_the_scale_that_is_proposed_will_do(folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    scale = certeq(*shlex.split(command)).err.split("--scale ")[-1].split(")")[0]
    assert "hardly sees" not in certeq(*shlex.split(command), "--scale", scale).err
