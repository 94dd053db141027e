"""How often returns come: what dates tell, what they do not, and the annual figures that follow."""

import numpy as np
import pandas as pd
import pytest

from certeq.data import Frequency, frequency_of
from certeq.report import intervals, measure
from tests.command import certeq

HOLIDAYS = pd.to_datetime(["2021-01-18", "2021-02-15", "2021-04-02", "2021-05-31", "2021-07-05", "2021-09-06"])
TRADED = pd.bdate_range("2020-12-01", "2021-12-31").difference(HOLIDAYS)


def bars(days, start, end, step):
    return pd.DatetimeIndex(
        np.concatenate([pd.date_range(day + pd.Timedelta(start), day + pd.Timedelta(end), freq=step) for day in days])
    )


def weekdays(kept, periods=700):
    days = pd.date_range("2020-01-01", periods=periods)
    return days[np.isin(days.day_of_week, kept)]


TOLD = {
    "trading days": (TRADED, 252, "day"),
    "eleven of them at Christmas": (pd.bdate_range("2021-12-20", periods=13).difference(["2021-12-24"]), 252, "day"),
    "weekdays without holidays": (pd.bdate_range("2020-01-01", periods=600), 252, "day"),
    "at the close": (TRADED + pd.Timedelta("16h"), 252, "day"),
    "midnight in Tokyo, in UTC": (TRADED.tz_localize("Asia/Tokyo").tz_convert("UTC"), 252, "day"),
    "Sunday to Thursday": (weekdays([6, 0, 1, 2, 3]), 252, "day"),
    "with a year missing": (TRADED.union(TRADED + pd.Timedelta("1092D")), 252, "day"),
    "every day": (pd.date_range("2020-01-01", periods=500), 365, "day"),
    "Fridays": (pd.date_range("2020-01-01", periods=60, freq="W-FRI"), 52, "week"),
    "Fridays, Thursdays on holidays": (
        pd.date_range("2020-01-03", periods=60, freq="W-FRI").map(
            lambda day: day - pd.Timedelta("1D") if day.week in (1, 15) else day
        ),
        52,
        "week",
    ),
    "every second week": (pd.date_range("2020-01-01", periods=60, freq="2W"), 26, "two-week period"),
    "every fourth week": (pd.date_range("2020-01-01", periods=60, freq="4W"), 13, "four-week period"),
    "middle and end of the month": (pd.date_range("2020-01-01", periods=60, freq="SME"), 24, "half-month"),
    "ends of months": (pd.date_range("2015-01-01", periods=60, freq="ME"), 12, "month"),
    "last weekdays of months": (pd.date_range("2015-01-01", periods=60, freq="BME"), 12, "month"),
    "starts of months": (pd.date_range("2015-01-01", periods=12, freq="MS"), 12, "month"),
    "months as periods": (pd.period_range("2015-01", periods=60, freq="M"), 12, "month"),
    "quarters": (pd.date_range("2005-01-01", periods=40, freq="BQE"), 4, "quarter"),
    "half-years": (pd.date_range("1990-01-01", periods=40, freq="6ME"), 2, "half-year"),
    "years": (pd.date_range("1970-01-01", periods=40, freq="YE"), 1, "year"),
    "5 minutes of a session": (bars(TRADED[:60], "9h35min", "16h", "5min"), 78 * 252, "5-minute bar"),
    "hours of a session": (bars(TRADED[:60], "9h30min", "16h", "h"), 7 * 252, "1-hour bar"),
    "around the clock": (pd.date_range("2021-01-01", periods=288 * 20, freq="5min"), 288 * 365, "5-minute bar"),
    "in reverse": (TRADED[::-1], 252, "day"),
}  # fmt: skip
RNG = np.random.default_rng(0)
UNTOLD = {
    "random days": (pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(1, 40, 60).cumsum(), "D"), "range from"),
    "a tenth of the days missing": (TRADED[RNG.random(len(TRADED)) > 0.12], "days a year"),
    "six days a week": (weekdays([0, 1, 2, 3, 4, 5]), "6 days of the week"),
    "5 minutes of one day": (bars(TRADED[:1], "9h35min", "16h", "5min"), "cover 1 day"),
    "5 minutes of four days": (bars(TRADED[:4], "9h35min", "16h", "5min"), "too few to see whether weekends count"),
    "ticks": (pd.to_datetime("2021-03-01") + pd.to_timedelta(np.sort(RNG.integers(0, 40 * 86400, 99)), "s"), "rows"),
    "two dates": (TRADED[:2], "too few"),
    "no dates": (pd.RangeIndex(100), "no dates"),
    "none": (None, "no dates"),
}  # fmt: skip


@pytest.mark.parametrize("case", TOLD)
def test_dates_tell_the_frequency(case):
    dates, year, period = TOLD[case]
    assert frequency_of(dates) == Frequency(year, period)


@pytest.mark.parametrize("case", UNTOLD)
def test_what_dates_do_not_tell_is_refused_and_says_what_to_pass(case):
    dates, reason = UNTOLD[case]
    with pytest.raises(ValueError, match=rf"periods_per_year must be given.*{reason}.*252 is usual"):
        frequency_of(dates)
    assert frequency_of(dates, 37).periods_per_year == 37.0


def test_what_is_asked_for_wins_and_keeps_the_name_where_it_agrees():
    assert frequency_of(TRADED, 260) == Frequency(260, "day")
    assert frequency_of(TRADED, 12) == Frequency(12, "period")  # "a day" only for days
    assert frequency_of(None, 12) == Frequency(12, "month")
    assert "look daily" in frequency_of(TRADED, 12).contradiction(TRADED)
    assert frequency_of(TRADED, 250).contradiction(TRADED) is None


@pytest.mark.parametrize(("freq", "year"), [("ME", 12), ("W-FRI", 52), ("BQE", 4), ("B", 252), ("D", 365)])
def test_annual_figures_follow_the_dates(freq, year):
    returns = pd.Series(
        np.random.default_rng(1).normal(0.004, 0.03, 90), pd.date_range("2001-01-01", periods=90, freq=freq)
    )
    found = measure(returns)
    assert found["annualized_mean"] == pytest.approx(year * returns.mean(), rel=1e-12)
    assert found["annualized_sharpe_ratio"] == pytest.approx(np.sqrt(year) * returns.mean() / returns.std(), rel=1e-12)
    assert found["cvar"] == measure(returns.to_numpy(), 1)["cvar"]  # per period, whatever the period is
    low, high = intervals(returns, replicates=20)["annualized_mean"]
    assert low < year * returns.mean() < high
    with pytest.raises(ValueError, match="periods_per_year must be given.*no dates"):
        measure(returns.to_numpy())


@pytest.mark.parametrize(("freq", "year", "period"), [("ME", 12, "month"), ("5min", 288 * 365, "5-minute bar")])
def test_the_command_and_its_report_say_the_right_period(tmp_path, freq, year, period):
    pytest.importorskip("skfolio")
    rows = 3000 if freq == "5min" else 150
    moves = np.random.default_rng(2).normal(0.001, [0.02, 0.03, 0.04], (rows, 3))
    dates = pd.date_range("2004-01-01", periods=rows, freq=freq)
    prices = pd.DataFrame(100.0 * np.cumprod(1.0 + moves, axis=0), dates, ["A", "B", "C"])
    path, page = tmp_path / "prices.csv", tmp_path / "report.html"
    prices.to_csv(path)
    found = certeq("portfolio", path, "--json").json()
    returns = prices.pct_change().iloc[1:] @ np.array([found["weights"][name] for name in prices])
    assert (found["periods_per_year"], found["period"]) == (year, period)
    assert found["metrics"]["annualized_mean"] == pytest.approx(year * returns.mean(), rel=1e-9)
    shown = certeq("portfolio", path, "--report", page).out
    assert f"% a {period}, Sharpe" in shown.replace("\n", " ")
    assert "a day" not in shown + page.read_text().split("<script")[0]
    assert f"{year} {period}s a year" in page.read_text()
    least = 0.5 * (returns.mean() + prices.pct_change().mean().max())  # binds
    bound = certeq("portfolio", path, "--json", "--min-return", year * least).json()
    assert bound["metrics"]["annualized_mean"] == pytest.approx(year * least, rel=1e-6)
    given = certeq("portfolio", path, "--json", "--periods-per-year", 100).json()
    assert given["metrics"]["annualized_mean"] == pytest.approx(100 * returns.mean(), rel=1e-9)
    assert given["period"] == "period"


def test_portfolios_of_minimum_oce_are_annualized_by_their_dates():
    pytest.importorskip("skfolio")
    from certeq.portfolio import MinimumOCE

    X = np.random.default_rng(0).normal(0.004, [0.03, 0.04], (120, 2))
    months = pd.DataFrame(X, pd.date_range("2010-01-01", periods=120, freq="ME"), ["A", "B"])
    model = MinimumOCE().fit(months)
    whole = model.predict(months)
    assert whole.annualized_mean == pytest.approx(12 * whole.mean)
    assert model.predict(months[:2]).annualization_factor == 12  # too short to tell; the fit was not
    assert model.efficient_frontier(months, n=3).population(months)[0].annualization_factor == 12
    assert MinimumOCE(efficient_frontier_size=3).fit(months).predict(months)[1].annualization_factor == 12
    mine = MinimumOCE(portfolio_params={"annualization_factor": 13.0}).fit(months).predict(months)
    assert mine.annualization_factor == 13.0
    assert MinimumOCE().fit(X).predict(X).annualization_factor == 252.0
    odd = months.set_axis(pd.to_datetime("2020-01-01") + pd.to_timedelta(np.cumsum(RNG.integers(1, 40, 120)), "D"))
    model = MinimumOCE().fit(odd)
    with pytest.warns(UserWarning, match="annualization_factor must be given"):
        model.predict(odd)
