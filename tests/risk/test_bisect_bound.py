"""What OCE-SB's answer may be above the exact one."""

import numpy as np
import pytest

import certeq as ce
from certeq.risk import bounds


def test_both_forms_are_one_number_and_other_words_are_refused():
    assert bounds.bisect_bound(0.1, 0.2, form="printed") == bounds.bisect_bound(0.1, 0.2) == pytest.approx(0.02)
    with pytest.raises(ValueError, match='form must be "corrected" or "printed"'):
        bounds.bisect_bound(0.1, 0.2, form="other")


@pytest.mark.parametrize("utility", [ce.Entropic(1.0), ce.Quartic(), ce.SmoothCVaR(0.1), ce.LeakyCVaR(0.1)])
def test_the_bound_holds(utility):
    x = np.random.default_rng(0).standard_normal(200)
    for delta, epsilon in ((0.1, 0.1), (1e-3, 1e-2)):
        above = ce.oce(x, utility, method="bisect", delta=delta, epsilon=epsilon) - ce.oce(x, utility)
        assert -1e-12 <= above <= bounds.bisect_bound(delta, epsilon) + 1e-12
