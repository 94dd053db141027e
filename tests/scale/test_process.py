"""What only a process of its own can show: its peak memory, what it imports, a package that is not there."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("dask.array", reason="needs the extra [dask]")

import certeq as ce
from certeq.scale import open_npy


def test_a_mapped_file_is_never_in_memory_as_a_whole(tmp_path):
    code = """if True:
        import resource, sys
        import certeq as ce
        from certeq.scale import open_npy
        def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        z = open_npy(sys.argv[1], 200_000)
        ce.oce(z[:1000], ce.Quartic())
        before = peak()
        print(ce.oce(z, ce.CVaR(0.05)), ce.oce(z, ce.Quartic()), peak() - before)
    """
    losses = np.random.default_rng(12).standard_normal(6_000_000)
    path = tmp_path / "losses.npy"
    np.save(path, losses)
    found = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    cvar, quartic, more = map(float, found.stdout.split())
    assert [cvar, quartic] == pytest.approx([ce.oce(losses, u) for u in (ce.CVaR(0.05), ce.Quartic())], rel=1e-12)
    assert more < 36.0, f"{more:.0f} MB more for a file of 48 MB"
    assert open_npy(path, 7).chunks[0][:2] == (7, 7)


def test_certeq_imports_no_dask_until_it_meets_some():
    code = (
        "import sys, certeq; assert not {'dask', 'pandas', 'torch'} & set(sys.modules);"
        "import dask.array as da; assert 'certeq.scale' not in sys.modules;"
        "print(certeq.oce(da.arange(4, chunks=2), certeq.CVaR(0.25)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "3.0"


def test_a_missing_extra_is_one_clear_line():
    code = "import sys; sys.modules['dask'] = None; sys.modules['dask.array'] = None; import certeq.scale"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stderr.strip().splitlines()[-1] == "ImportError: certeq.scale needs Dask: pip install 'certeq[dask]'"
