"""`python -m experiments`: results are written, a failure neither stops the others nor deletes stored results."""

import json
import re
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("joblib", reason="experiments need experiments/requirements.txt")
pytest.importorskip("matplotlib", reason="experiments need experiments/requirements.txt")

from matplotlib.figure import Figure

from experiments import __main__ as main
from experiments.common import HERE, RESULTS, Claim, Experiment, Job, Outcome, Picture, Table, entries, printed, quoted
from experiments.verdicts import digits


def square(number):
    if number < 0:
        raise ValueError("negative")
    return number * number


def found(job):
    squares = job.map(square, [{"number": k} for k in range(job.seeds)])
    rows = tuple((k, float(value)) for k, value in enumerate(squares))
    claims = (Claim("a", "1", "2", "reproduced"), Claim("b", "1", "2", "undecided", whose="again"))
    picture = Picture("line", "A line", "A straight line.", Figure(layout="constrained"))
    table = Table("squares", "Squares", ("k", "square"), rows)
    return Outcome((table,), (picture,), claims, ("A note.",), {"x": np.float64(np.nan), "y": np.arange(2)}, (0, 1))


def broken(job):
    job.map(square, [{"number": -1}])


def unwritable(job):
    return replace(found(job), numbers={"x": object()})  # found last, when the tables are written


@pytest.fixture
def toy(monkeypatch):
    module, functions = types.ModuleType("experiments.toy"), {"bad": broken, "late": unwritable, "good": found}
    module.EXPERIMENTS = tuple(Experiment(name, name, "Table 1", run) for name, run in functions.items())
    monkeypatch.setitem(sys.modules, "experiments.toy", module)
    monkeypatch.setattr(main, "MODULES", dict.fromkeys(functions, "toy"))


def test_a_failure_does_not_stop_the_others_or_delete_stored_results(toy, tmp_path, capsys):
    for name in ("bad", "late"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "squares.csv").write_text("stored")
    assert main.main(["--quick", "--output", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "without new results:\n  bad: ValueError: negative\n  late: TypeError: " in said.err
    assert "reproduced      a: printed 1, here 2" in said.out
    for name in ("bad", "late"):
        assert [(path.name, path.read_text()) for path in (tmp_path / name).iterdir()] == [("squares.csv", "stored")]
    good = json.loads((tmp_path / "good" / "result.json").read_text())
    assert (good["verdicts"], good["quick"], good["seeds_asked"]) == ({"reproduced": 1}, True, main.QUICK_SEEDS)
    assert good["numbers"] == {"x": None, "y": [0, 1]}
    assert (tmp_path / "good" / "squares.csv").read_text() == "k,square\n0,0.0\n1,1.0\n2,4.0\n"
    assert (tmp_path / "good" / "line.png").read_bytes().startswith(b"\x89PNG")


def test_a_new_result_replaces_the_old_one(toy, tmp_path):
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "old.csv").write_text("x\n")
    assert main.main(["good", "--seeds", "2", "--output", str(tmp_path)]) == 0
    assert sorted(path.name for path in (tmp_path / "good").iterdir()) == ["line.png", "result.json", "squares.csv"]


@pytest.mark.parametrize("arguments", [["other"], ["--seeds", "0"]])
def test_wrong_arguments(toy, arguments, capsys):
    with pytest.raises(SystemExit):
        main.main(arguments)
    assert "no experiment 'other'" in (said := capsys.readouterr().err) or "at least 1; found 0" in said


def test_processes_return_items_in_order():
    assert Job(processes=2).map(square, [{"number": k} for k in range(5)]) == [0, 1, 4, 9, 16]


def test_every_experiment_has_its_module_and_a_stored_result():
    for name in main.MODULES:
        assert main.find(name).name == name
        assert not json.loads((RESULTS / name / "result.json").read_text())["quick"]
    for path in HERE.glob("*.py"):  # public names of certeq only
        assert not re.search(r"certeq[a-z.]*\._|import _|\bce\._", path.read_text()), path.name


def test_the_printed_rows_are_those_of_the_stored_claims():
    """Benchmarks are in other tests; no result has the Nasdaq's portfolios, which are fixed by a weighted sum."""
    results = [json.loads(path.read_text()) for path in RESULTS.glob("*/result.json")]
    said = {(claim["line"], claim["printed"]) for result in results for claim in result["claims"]}
    elsewhere = {"hrp", "equal", "sharpe", "Logistic regression", "SVC", "Random forest"}
    for table in {entry["table"] for entry in entries("printed.csv")} - {"nasdaq"}:
        for row in printed(table).keys() - elsewhere:
            key = f"{table}/{row}"
            assert (quoted(key)["line"], digits(printed(table)[row])) in said, key
    nasdaq = np.ravel(list(printed("nasdaq").values()))
    assert np.arange(1, 71) @ nasdaq == pytest.approx(-351.8893, abs=1e-9)
