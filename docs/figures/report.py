"""Pictures of the reports that docs/guide/reports.rst makes, as a browser shows them.

``python -m docs.figures.report`` from the root writes docs/_static/report.png and report-walk.png; it needs Chromium.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from skfolio.datasets import load_sp500_dataset
from skfolio.optimization import EqualWeighted
from skfolio.preprocessing import prices_to_returns
from sklearn.model_selection import train_test_split

import certeq as ce
from certeq.portfolio import MinimumOCE
from certeq.report import Study, WalkStudy, fit_strategy, frontier, save, walk_forward
from tests.report.chromium import Chromium

STATIC = Path(__file__).resolve().parents[1] / "_static"


def studies() -> dict[str, Study | WalkStudy]:
    """The two of the page."""
    returns = prices_to_returns(load_sp500_dataset())
    train, test = train_test_split(returns, shuffle=False)
    model = MinimumOCE(ce.CVaR(alpha=0.05), max_weights=0.2)
    both = {"Least CVaR": model, "Equal weights": EqualWeighted()}
    fitted = tuple(fit_strategy(name, each, train) for name, each in both.items())
    recent = returns.loc["2005":]
    walks = tuple(walk_forward(name, each, recent, train_size=504, test_size=126) for name, each in both.items())
    return {
        "report": Study(
            title="Least CVaR on twenty stocks",
            source="S&P 500 data of skfolio",
            fitted_on=train,
            judged_on=test,
            strategies=fitted,
            focus="Least CVaR",
            frontier=frontier(model, train, points=10),
        ),
        "report-walk": WalkStudy("Least CVaR, fitted every half year", "S&P 500 data of skfolio", walks),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, Chromium() as browser:
        for name, study in studies().items():
            browser.open(save(study, Path(folder) / f"{name}.html"), width=1180, height=1180)
            browser.screenshot(STATIC / f"{name}.png")
