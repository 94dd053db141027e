"""The tests of `certeq.torch` are skipped if PyTorch is missing."""

import pytest

pytest.importorskip("torch")
