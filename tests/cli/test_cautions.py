"""Cautions of the command: small losses, few rows, splits."""

import numpy as np
import pytest


def test_portfolio_says_that_a_utility_sees_nothing(certeq, prices):
    prices.to_csv("prices.csv")
    found = certeq("portfolio", "prices.csv", "-u", "entropic", "--beta", "1")
    assert "hardly sees the risk" in found.stderr
    scale = found.stderr.split("--scale ")[-1].split(")")[0]
    again = certeq("portfolio", "prices.csv", "-u", "entropic", "--beta", "1", "--scale", scale)
    assert "hardly sees" not in again.stderr
    assert "hardly sees" not in certeq("portfolio", "prices.csv", "-u", "quartic").stderr


def test_estimate_says_it_with_a_number(certeq, prices):
    moves = prices.pct_change().iloc[1:]
    moves.to_csv("moves.csv", index=False)
    found = certeq("estimate", "moves.csv", "-c", "A", "--gains", "-u", "quartic")
    assert "hardly sees the risk" in found.stderr
    assert "depends on units" not in found.stderr  # said already, with a number
    scale = found.stderr.split("--scale ")[-1].split(")")[0]
    assert "hardly sees" not in certeq("estimate", "moves.csv", "-c", "A", "-u", "quartic", "--scale", scale).stderr


@pytest.mark.parametrize("alpha", ["95", "99"])
def test_a_confidence_level_in_percent_is_refused(certeq, prices, alpha):
    prices.to_csv("prices.csv")
    tail = f"{1 - float(alpha) / 100:.6g}"
    assert f"Did you mean {tail}" in certeq.refused("portfolio", "prices.csv", "--alpha", alpha, code=2)


def test_a_confidence_level_is_noted_once(certeq, prices):
    prices.to_csv("prices.csv")
    found = certeq("portfolio", "prices.csv", "--alpha", "0.95")
    assert found.stderr.count("mean of the worst 95 %") == 1


def test_few_rows_are_noted(certeq, prices):
    prices.iloc[:60].to_csv("few.csv")
    found = certeq("compare", "few.csv", "--no-report")
    assert "15 days are held out" in found.stderr
    assert "are 2.2 of them" in found.stderr
    prices.iloc[:20].to_csv("fewer.csv")
    assert any("0.95 of them" in note for note in certeq.json("portfolio", "fewer.csv")["notes"])
    prices.to_csv("many.csv")
    assert "held out:" not in certeq("compare", "many.csv", "--no-report").stderr


@pytest.mark.parametrize(("factor", "said"), [(0.1, "1 for 10"), (0.5, "1 for 2"), (0.08, "not adjusted")])
def test_a_fall_like_a_split_is_noted(certeq, prices, factor, said):
    split = prices.copy()
    split.iloc[200:, 2] *= factor
    split.to_csv("split.csv")
    found = certeq("portfolio", "split.csv")
    assert "'C' falls by" in found.stderr
    assert "2020-10-07" in found.stderr
    assert said in found.stderr
    prices.to_csv("prices.csv")
    assert "falls by" not in certeq("portfolio", "prices.csv").stderr
    assert np.isfinite(certeq.json("portfolio", "split.csv")["gap"])
