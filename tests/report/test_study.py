"""Studies of dates of every kind, of the past, and of a day or two."""

import re
from dataclasses import replace

import pytest

from certeq.report import Strategy, render

from .conftest import Page, study


@pytest.fixture(scope="module")
def whole():
    return study(["A", "B", "C"], days=300)


def test_what_was_held_out(whole):
    assert replace(whole, judged_on=whole.fitted_on.copy()).in_sample
    earlier = replace(whole, fitted_on=whole.judged_on, judged_on=whole.fitted_on)
    assert not earlier.in_sample  # the past, which the fit did not see either


def test_dates_may_be_periods_or_have_a_time_zone(whole):
    for kind in (lambda table: table.to_period("D"), lambda table: table.tz_localize("Europe/Paris")):
        other = replace(whole, fitted_on=kind(whole.fitted_on), judged_on=kind(whole.judged_on), periods_per_year=252)
        assert other.frequency.period == "day"
        assert "<figure" in render(other)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("rows", [1, 2])
def test_a_figure_that_one_day_does_not_have_is_not_nan(whole, rows):
    judged = whole.judged_on.iloc[:rows]
    index = Strategy("IDX", None, returns=judged["A"].to_numpy())
    said = Page(render(replace(whole, judged_on=judged, strategies=(*whole.strategies, index)))).said
    assert not re.search(r"\bnan\b", said)
    assert ("Sharpe, held out n/a" in said) == (rows == 1)


def test_days_without_a_loss(whole):
    assert "<figure" in render(replace(whole, fitted_on=whole.fitted_on.abs()))
