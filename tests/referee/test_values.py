"""OCE, threshold and tilt of random samples and utilities, judged by the referee.

``REFEREE_SEED`` draws other cases in the slow run, ``REFEREE_SCALE`` makes it longer or shorter.
"""

from __future__ import annotations

import os

import pytest

from tests.referee.report import Report
from tests.referee.values import run

SEED = int(os.environ.get("REFEREE_SEED", "0"))
SCALE = float(os.environ.get("REFEREE_SCALE", "1"))


def test_two_thousand_samples():
    report = run(seed=20_263, samples=2_000, customs=9)
    assert not report.failed, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_a_hundred_thousand_samples(part):
    report: Report = run(SEED * 1000 + part, int(10_000 * SCALE), customs=60, rows=20, batches_each=3)
    print(report.summary())
    assert not report.failed, str(report)
