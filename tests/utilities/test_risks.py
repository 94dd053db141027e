"""Risks with more inner variables than t: nesting, and what their inner minimum says of them."""

import math

import numpy as np

import certeq as ce

U = ce.utility(lambda x: np.logaddexp(0.0, x) + 0.5 * np.maximum(x, 0.0))


def test_inner_variables_of_balls():
    for risk in (ce.EVaR(0.05), ce.Quartic().ball(0.2), ce.HMCR(2, 0.1), U.ball(3.0)):
        inner = risk.inner()
        assert inner is risk.inner()
        assert (inner.low.tolist(), inner.high.tolist()) == ([-np.inf, 0.0], [np.inf, np.inf])
        (term,) = inner.terms
        assert (term.t, term.s) == (0, 1)
        assert term.weight > 0.0
    for u in (ce.CVaR(0.1), 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)):  # their divergence is 0 or infinite: no s is needed
        assert len(u.ball(3.0).inner().cost) == 1


def test_they_nest_and_mixtures_are_opened_up():
    inside = ce.Mixture((0.25, 0.75), (ce.EVaR(0.1), U.ball(0.1)))
    outside = ce.Mixture([0.5, 0.5], [inside, ce.HMCR(3, 0.2)])
    assert outside.weights == (0.125, 0.375, 0.5)
    assert outside.risks == (*inside.risks, ce.HMCR(3, 0.2))
    inner = outside.inner()
    assert [(term.t, term.s) for term in inner.terms] == [(0, 1), (2, 3), (4, 5)]
    np.testing.assert_allclose(inner.cost[::2], outside.weights)
    outside.set_params(risk_0__alpha=0.2)
    assert outside.risks[0] == ce.EVaR(0.2)
    assert inside.risks[0] == ce.EVaR(0.1)
    assert math.isclose(outside.inner().cost[1], 0.125 * math.log(5.0))
    outside.set_params(weights=(0.25, 0.25, 0.5), risk_2=inside)
    assert len(outside.risks) == 4
