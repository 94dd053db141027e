"""The speed that is promised, as ratios within one run."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_linear_estimators_keep_up():
    pytest.importorskip("cvxpy")
    from benchmarks import bench_learn

    for row in bench_learn.run():
        if row["wanted"]:
            assert row["ratio"] <= float(row["wanted"].removeprefix("<= ")), row
