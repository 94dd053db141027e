"""``certeq estimate`` on folders and patterns: the numbers of one long column."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")

import certeq as ce

LOSSES = np.random.default_rng(5).normal(size=6_000)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "parts"
    path.mkdir()
    for i, part in enumerate(np.array_split(LOSSES, 4)):
        pd.DataFrame({"loss": part, "name": "a"}).to_parquet(path / f"part-{i}.parquet")
    return path


def test_a_pattern_a_folder_and_gains(certeq, folder):
    wanted = ce.estimate(LOSSES, ce.CVaR(0.1))
    for given in (folder / "*.parquet", folder):
        found = certeq.json("estimate", given, "--column", "loss", "--alpha", 0.1)
        assert found["n"] == 6_000
        for name in ("oce", "threshold", "stderr", "bias"):
            assert found[name] == pytest.approx(getattr(wanted, {"oce": "value"}.get(name, name)), rel=1e-12)
    gains = certeq.json("estimate", folder / "*.parquet", "--gains")  # the only column of numbers
    assert gains["read_as"] == "gains"
    assert gains["oce"] == pytest.approx(ce.oce(-LOSSES, ce.CVaR(0.05)), rel=1e-12)


def test_csv_and_units(certeq, tmp_path):
    for i, part in enumerate(np.array_split(LOSSES, 3)):
        pd.DataFrame({"loss": part, "other": part}).to_csv(tmp_path / f"{i}.csv", index=False, sep=";")
    result = certeq("estimate", tmp_path / "*.csv", "-c", "loss", "-u", "quartic", "--json")
    assert result.json()["oce"] == pytest.approx(ce.oce(LOSSES, ce.Quartic()), rel=1e-12)
    assert "their standard deviation is" in result.err


def test_refusals_name_the_file(certeq, folder, tmp_path):
    assert "no column 'los'. Did you mean 'loss'?" in certeq.refused("estimate", folder, "-c", "los")
    assert "no file has such a name" in certeq.refused("estimate", tmp_path / "*.pq", "-c", "loss")
    said = certeq.refused("estimate", folder, "-c", "name")
    assert "part-0.parquet: column 'name' holds 'a' in row 1" in said or "must hold numbers" in said
    bad = pd.DataFrame({"loss": [1.0, np.nan], "name": "a"})
    bad.to_parquet(folder / "part-9.parquet")
    said = certeq.refused("estimate", folder, "-c", "loss")
    assert "part-9.parquet: column 'loss' is empty in row 2" in said
    bad.to_csv(folder / "more.csv")
    assert "both CSV and Parquet" in certeq.refused("estimate", folder, "-c", "loss")


def written(folder, cells, heading="id;loss"):
    folder.mkdir()
    for i, part in enumerate(np.array_split(np.array(cells, dtype=object), 3)):
        lines = [heading, *(cell if ";" not in heading else f"{k};{cell}" for k, cell in enumerate(part))]
        (folder / f"{i}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_numbers_as_people_write_them(certeq, tmp_path):
    """A folder is read like one file: decimal commas, thousands, signs."""
    losses = (1000.0 * LOSSES[:900]).round(2)
    wanted = ce.oce(losses, ce.CVaR(0.05))
    european = [f"{loss:,.2f}".translate(str.maketrans(",.", ".,")) for loss in losses]
    folder = written(tmp_path / "commas", european)
    assert "'loss' may be numbers as well; say which" in certeq.refused("estimate", folder)
    for more in ((), ("--decimal", ",")):
        result = certeq("estimate", folder, "-c", "loss", "--json", *more)
        assert result.json()["oce"] == pytest.approx(wanted, rel=1e-14)
        assert ("numbers have a decimal comma" in result.err) == (not more)
        assert "Insufficient" not in result.err  # a warning of Dask
    american = written(tmp_path / "signs", [f'"${loss:,.2f}"' for loss in losses], "loss")
    assert certeq.json("estimate", american)["oce"] == pytest.approx(wanted, rel=1e-14)
    either = written(tmp_path / "either", [f"{1 + k % 9},{100 + k % 800}" for k in range(90)])
    assert "pass --decimal" in certeq.refused("estimate", either, "-c", "loss")
    whole = [1000 * (1 + k % 9) + 100 + k % 800 for k in range(90)]
    assert certeq.json("estimate", either, "-c", "loss", "--decimal", ".")["oce"] == ce.oce(whole, ce.CVaR(0.05))


def test_cells_that_are_no_numbers(certeq, tmp_path):
    folder = written(tmp_path / "parts", [f"{k},5" for k in range(89)] + ["12.55"])
    assert "2.csv: column 'loss' holds '12.55' in row 30" in certeq.refused("estimate", folder, "-c", "loss")
    mixed = written(tmp_path / "mixed", ["1.5"] * 60 + ['"1,5"'] * 30, "loss")
    said = certeq.refused("estimate", mixed)
    assert "2.csv: column 'loss': numbers have a decimal comma" in said
    assert "must be written alike" in said
    (mixed / "3.csv").write_bytes("loss\n1.5\n".encode("utf-16"))
    assert "3.csv: of many files each must be UTF-8 text; this one is UTF-16" in certeq.refused("estimate", mixed)


@pytest.mark.slow
def test_a_cluster_by_its_address(certeq, folder):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        found = certeq.json("estimate", folder / "*.parquet", "-c", "loss", "--cluster", cluster.scheduler_address)
    assert found["oce"] == pytest.approx(ce.oce(LOSSES, ce.CVaR(0.05)), rel=1e-12)
    said = certeq.refused("estimate", folder, "-c", "loss", "--cluster", "tcp://127.0.0.1:9")
    assert "no Dask scheduler answers there" in said
