"""The estimators need scikit-learn alone, and one clear line says so where it is missing."""

from __future__ import annotations

import subprocess
import sys

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
    done = run(code, "torch")
    assert done.stdout.strip() == "[0.5]", done.stderr


def test_a_missing_extra_is_named():
    line = "ImportError: certeq.learn needs scikit-learn: pip install 'certeq[learn]'"
    assert run("import certeq.learn", "sklearn").stderr.strip().splitlines()[-1] == line
