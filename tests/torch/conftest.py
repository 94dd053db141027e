"""Fixtures of the tests of `certeq.torch`, which are skipped where PyTorch is missing."""

import pytest

from tests.torch.cases import EVERY, PLAIN

pytest.importorskip("torch")


@pytest.fixture(params=list(EVERY))
def utility(request):
    return EVERY[request.param]


@pytest.fixture(params=list(PLAIN))
def plain(request):
    return PLAIN[request.param]
