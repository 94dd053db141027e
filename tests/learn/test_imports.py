"""What needs what: the linear estimators no torch, and one clear line where an extra is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import certeq.learn

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ImportError("No module named " + name)
sys.meta_path.insert(0, Missing())
{code}
"""


def run(code, *missing):
    script = WITHOUT.format(missing=missing, code=code)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_linear_estimators_need_no_torch():
    code = "from certeq.learn import OCERegressor; print(OCERegressor().fit([[0], [1]], [0, 1]).predict([[0.5]]))"
    done = run(code, "torch", "skorch", "uncertainty_toolbox")
    assert done.stdout.strip() == "[0.5]", done.stderr


CALIBRATE = "from certeq.learn import calibration; calibration([1.0], [1.0], [1.0])"
LINES = {
    "sklearn": ("import certeq.learn", "certeq.learn needs scikit-learn: pip install 'certeq[learn]'"),
    "skorch": (
        "certeq.learn.MVERegressor",
        "certeq.learn.MVERegressor needs PyTorch and skorch: pip install 'certeq[learn]'",
    ),
    "uncertainty_toolbox": (CALIBRATE, "calibration needs uncertainty-toolbox: pip install 'certeq[uq]'"),
}


@pytest.mark.parametrize("missing", LINES)
def test_a_missing_extra_is_named(missing):
    code, line = LINES[missing]
    assert run(f"import certeq.learn; {code}", missing).stderr.strip().splitlines()[-1] == f"ImportError: {line}"


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        certeq.learn.Nothing
