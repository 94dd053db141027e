"""Jobs that keep their answers, files that are whole, and a page that nothing can break out of."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra [paper]")
pytest.importorskip("threadpoolctl", reason="jobs need the extra [paper]")

from certeq.paper import EXPERIMENTS, Figure, Panel, ResultTable, Series, _output, _run, _sources, reproduce
from certeq.paper._figures import as_png
from certeq.paper._output import as_csv, as_markdown, check_shape
from certeq.paper._run import LocalJob
from certeq.paper._sources import reached, sources_digest
from certeq.paper._statistics import RULES
from certeq.report.page import in_page
from tests.conftest import ROOT
from tests.paper import toy

SEEDS = [{"seed": seed} for seed in range(4)]


# -- jobs -------------------------------------------------------------------------------------------------------------


def test_answers_come_in_order_and_as_json(tmp_path):
    seen = []
    with LocalJob(cache=tmp_path, jobs=1, progress=lambda done, total: seen.append((done, total))) as job:
        fresh = job.map(toy.spectrum, SEEDS)
    assert [each["seed"] for each in fresh] == [0, 1, 2, 3]
    assert fresh[2]["pair"] == [2, 3]  # a tuple is a list in JSON, fresh or kept
    assert seen[0] == (0, 4)
    assert seen[-1] == (4, 4)


def test_that_the_paper_chose_a_blind_unit_is_not_said_at_every_piece(recwarn):
    with LocalJob(jobs=1) as job:
        assert job.map(toy.faint, SEEDS) == [0.0, 1.0, 2.0, 3.0]
    assert not recwarn.list


def test_kept_answers_are_not_computed_again(tmp_path, monkeypatch):
    with LocalJob(cache=tmp_path, jobs=1) as job:
        fresh = job.map(toy.spectrum, SEEDS)
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda *_: pytest.fail("computed again"))
    with LocalJob(cache=tmp_path, jobs=1) as job:
        assert job.map(toy.spectrum, SEEDS) == fresh
        assert job.kept == 4
    with LocalJob(cache=tmp_path, jobs=1) as job, pytest.raises(pytest.fail.Exception):
        job.map(toy.spectrum, [{"seed": 0, "size": 59}])  # another question


def test_processes_give_the_same_bits_as_none(tmp_path):
    with LocalJob(jobs=1) as job:
        alone = job.map(toy.spectrum, SEEDS)
    with LocalJob(cache=tmp_path, jobs=2) as job:
        assert job.map(toy.spectrum, SEEDS) == alone


def test_a_damaged_answer_is_computed_again(tmp_path):
    with LocalJob(cache=tmp_path, jobs=1) as job:
        fresh = job.map(toy.spectrum, SEEDS)
    for path in list(tmp_path.rglob("*.json"))[:2]:
        path.write_text(path.read_text()[:30])
    with LocalJob(cache=tmp_path, jobs=1) as job:
        assert job.map(toy.spectrum, SEEDS) == fresh
        assert job.kept == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_piece_is_named_and_the_others_are_kept(tmp_path, jobs):
    with LocalJob(cache=tmp_path, jobs=jobs) as job, pytest.raises(ArithmeticError, match="three") as caught:
        job.map(toy.ill, [{"seed": seed} for seed in (0, 1, 3)])
    assert any('toy.ill for {"seed": 3}' in note for note in caught.value.__notes__)
    if jobs == 1:
        assert len(list(tmp_path.rglob("*.json"))) == 2


def test_what_a_job_refuses(tmp_path):
    with LocalJob(cache=tmp_path, jobs=1) as job:
        with pytest.raises(ValueError, match="top of a module"):
            job.map(lambda seed: seed, SEEDS)
        with pytest.raises(TypeError, match="JSON"):
            job.map(toy.ill, [{"seed": object()}])
        with pytest.raises(TypeError, match="finite"):
            job.map(toy.not_finite, [{"seed": 0}])
    with pytest.raises(ValueError, match="jobs"):
        LocalJob(jobs=0)
    with pytest.raises(ValueError, match="seeds"):
        LocalJob(seeds=0)


def test_a_digest_is_of_what_a_function_reaches_and_of_nothing_else(tmp_path, monkeypatch):
    source = """
    from functools import partial
    WIDTH = 3
    OTHER = 4
    class Box:
        \'\'\'Words.\'\'\'
        size = WIDTH
    def helper():
        \'\'\'Words.\'\'\'
        return Box().size
    def used(x):  # a comment
        return helper() + x
    def unused():
        return OTHER
    """.replace("\n    ", "\n")
    (tmp_path / "made_up_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    import made_up_module as made

    assert {name for _, name in reached("made_up_module", "used")} == {"used", "helper", "Box", "WIDTH"}
    before = sources_digest(made.used)
    for old, new, same in (
        ("# a comment", "", True),
        ("Words.", "Other words.", True),
        ("OTHER = 4", "OTHER = 5", True),
        ("WIDTH = 3", "WIDTH = 5", False),
        ("helper() + x", "helper() - x", False),
    ):
        (tmp_path / "made_up_module.py").write_text(source.replace(old, new))
        for cached in (_sources._digest, _sources._definitions, _sources._imports, _sources._tree):
            cached.cache_clear()
        assert (sources_digest(made.used) == before) is same, old
    data = tmp_path / "data" / "numbers.csv"
    data.parent.mkdir()
    data.write_text("1")
    monkeypatch.setattr(_sources, "DATA", data.parent)
    (tmp_path / "made_up_module.py").write_text("def used(x):\n    return open('data/numbers.csv')\n")
    found = []
    for number in "121":
        data.write_text(number)
        for cached in (_sources._digest, _sources._definitions, _sources._imports, _sources._tree):
            cached.cache_clear()
        found.append(sources_digest(made.used))
    assert found[0] == found[2] != found[1]  # a file of data counts with its contents
    assert ("certeq.paper._markets", "paper_step") in reached("certeq.paper.portfolios", "run")
    assert ("certeq.paper.errata._measures", "quartic") in reached("certeq.paper.errata", "run")


def test_without_vector_instructions_pieces_run_in_processes_of_their_own():
    with LocalJob(jobs=1) as job:
        assert job.map(toy.capability, [{"seed": 0}]) == [os.environ.get("ATEN_CPU_CAPABILITY")]
        assert job.map(toy.capability, [{"seed": 0}], vectors=False) == ["default"]


# -- tables and figures -----------------------------------------------------------------------------------------------


def test_csv_keeps_every_bit():
    values = (0.1 + 0.2, 1e-300, -0.0, np.float64(1 / 3))
    table = ResultTable("t", "T", ("name", "a", "b", "c", "d", "n", "none"), (('x,"y"', *values, 7, None),))
    head, row = csv.reader(as_csv(table).splitlines())
    assert head[0] == "name"
    assert row[0] == 'x,"y"'
    assert [float(cell).hex() for cell in row[1:5]] == [float(value).hex() for value in values]
    assert row[5:] == ["7", ""]


def test_markdown_is_for_reading():
    table = ResultTable("t", "T", ("who|what", "a", "b"), (("x", 0.12345, 3e-9), ("y", None, 0.0)), digits=3)
    assert as_markdown(table).splitlines() == [
        "| who\\|what | a | b |",
        "|:--|--:|--:|",
        "| x | 0.123 | 3.0e-09 |",
        "| y |  | 0.000 |",
    ]
    with pytest.raises(ValueError, match="row 0 of table 't' has 1 cells under 2"):
        check_shape(ResultTable("t", "T", ("a", "b"), (("x",),)))


def every_kind():
    names, x = ["one", "two"], [1.0, 10.0, 100.0]
    days = ["2020-01-01", "2020-06-01", "2021-01-01"]
    return Figure("f", "Costs $5", "All kinds.", (
        Panel(tuple(Series(f"asset {i}", names, [0.1, 0.2], "stack") for i in range(10)), "named stack"),
        Panel((Series("a", x, [1, 1, 1], "stack"), Series("all others", x, [2, 1, 0], "stack")), "areas", log_x=True),
        Panel((Series("a", names, [1, 2], "bar", [0.5, 1.5], [1.5, 2.5]), Series("b", names, [2, 1], "bar")), "bars"),
        Panel((Series("c", x, [1, 2, 3], "band", [0.5, 1, 2], [2, 3, 4]), Series("d", x, [3, 2, 1], "points")), "band",
              log_x=True, log_y=True),
        Panel((Series("e", days, [1, 2, 3]), Series("f", days, [3, 2, 1], "dashed")), "days"),
        Panel((Series("g", x, [1, 2, 3], "errorbars", [0.5, 1, 2], [2, 3, 4]),), "error bars", log_x=True, log_y=True),
    ))  # fmt: skip


def test_every_kind_of_series_is_drawn():
    figure = every_kind()
    png = as_png(figure)
    assert png.startswith(b"\x89PNG\r\n")
    assert len(png) > 20_000
    assert as_png(figure) == png


# -- the whole --------------------------------------------------------------------------------------------------------


def test_the_experiments_have_their_names():
    assert EXPERIMENTS[:4] == ("portfolio-sp500", "portfolio-ftse100", "portfolio-nasdaq", "cvar-solver")
    assert len(EXPERIMENTS) == len(set(EXPERIMENTS)) == 9
    for name in EXPERIMENTS[:4]:
        found = _run.find_experiment(name)
        assert found.name == name
        assert found.title
        assert found.where


def test_a_wrong_name_lists_the_right_ones(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'portfolio-nasdaq'") as caught:
        reproduce(["portfolio-nasdak"], out=tmp_path / "out")
    assert all(name in str(caught.value) for name in EXPERIMENTS)
    assert not (tmp_path / "out").exists()


def test_files_of_an_experiment(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    out = tmp_path / "out"
    calls = []
    (result,) = reproduce(["toy"], quick=True, seeds=2, out=out, jobs=1, progress=lambda *event: calls.append(event))
    assert result.failure is None
    assert calls[-1] == ("toy", 2, 2)
    names = {path.name for path in (out / "toy").iterdir()}
    assert names == {"eigenvalues.csv", "eigenvalues.md", "curve.png", "README.md", "result.json"}
    facts = json.loads((out / "toy" / "result.json").read_text())
    assert facts["seeds"] == [0, 1]
    assert facts["quick"] is True
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["verdicts"] == {"reproduced": 1, "not reproduced": 1}
    assert facts["not_checked"] == 1
    assert facts["sources"] == sources_digest(toy.run)
    assert facts["numbers"]["nothing"] is None
    assert facts["seconds"] > 0.0
    assert (
        "| they differ | paper |  | 2.0 | 1.0 | ± 0.1 | **not reproduced** | too far |  |"
        in (out / "toy/README.md").read_text()
    )


def test_the_page_joins_what_is_there_and_escapes_it(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    reproduce(["toy"], seeds=2, out=tmp_path, jobs=1)
    reproduce(["bad", "absent"], seeds=2, out=tmp_path, jobs=1)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "they &lt;script&gt;alert(1)&lt;/script&gt; agree" in page
    assert "<script" not in page
    assert "✗ not reproduced" in page
    assert "± 0.1" in page
    assert "Least &lt;eigenvalues&gt;" in page
    assert 'alt="Falls &quot;fast&quot;."' in page
    assert "data:image/png;base64," in page
    assert "ArithmeticError: three is too many" in page
    assert "absent is not part of this installation" in page
    assert "Not run yet: slow." in page
    for outside in ("http://", "https://", 'src="/', "@import"):
        assert outside not in page


def test_the_page_states_its_rules_and_counts_what_was_not_checked_apart(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    reproduce(["toy"], seeds=2, out=tmp_path, jobs=1)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    for kind, rule in RULES:
        assert in_page(kind) in page
        assert in_page(rule) in page
    for name, count in (("Reproduced", 1), ("Within noise", 0), ("Not reproduced", 1), ("Not checked", 1)):
        assert f"<dt>{name}</dt><dd>{count}</dd>" in page
    assert "– not checked" in page


def test_every_experiment_says_what_a_seed_is(tmp_path, monkeypatch):
    assert set(_run.SEEDING) == set(EXPERIMENTS)
    assert "does not apply" in _run.SEEDING["errata"]
    assert "at most 5" in _run.SEEDING["portfolio-nasdaq"]
    toy.register(monkeypatch)
    monkeypatch.setitem(_run.SEEDING, "toy", "matrices, one for each seed")
    reproduce(["toy"], seeds=2, out=tmp_path, jobs=1)
    assert json.loads((tmp_path / "toy/result.json").read_text())["seeds_are"] == "matrices, one for each seed"
    assert "matrices, one for each seed" in (tmp_path / "index.html").read_text()


def test_a_result_knows_its_commit_and_that_a_variable_was_set(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    monkeypatch.setenv("SKFOLIO_DATA", str(tmp_path / "secret-folder"))
    reproduce(["toy"], seeds=2, out=tmp_path / "out", jobs=1)
    text = (tmp_path / "out/toy/result.json").read_text()
    facts = json.loads(text)
    assert facts["environment"] == {"SKFOLIO_DATA": "set"}
    assert "secret-folder" not in text
    asked = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if asked.returncode == 0 and (ROOT / ".git").exists():
        assert facts["commit"].removesuffix("-dirty") == asked.stdout.strip()
        assert facts["commit"] in (tmp_path / "out/index.html").read_text()
    monkeypatch.delenv("SKFOLIO_DATA")
    reproduce(["toy"], seeds=2, out=tmp_path / "out", jobs=1)
    assert json.loads((tmp_path / "out/toy/result.json").read_text())["environment"] == {}


def test_without_git_there_is_no_commit(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _output.commit.__wrapped__() is None


def test_one_that_fails_does_not_stop_the_others(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    results = reproduce(["bad", "toy", "absent"], seeds=2, out=tmp_path, jobs=1)
    assert [(result.name, result.failure is None) for result in results] == [
        ("toy", True),
        ("bad", False),
        ("absent", False),
    ]


def test_same_seed_same_bytes(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    for name, jobs in (("one", 1), ("two", 2)):
        reproduce(["toy"], seeds=3, out=tmp_path / name, jobs=jobs)
    for file in ("eigenvalues.csv", "eigenvalues.md", "curve.png", "README.md"):
        assert (tmp_path / "one/toy" / file).read_bytes() == (tmp_path / "two/toy" / file).read_bytes()


def test_other_peoples_folders_are_left_alone(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    (tmp_path / "mine.txt").write_text("hello")
    with pytest.raises(FileExistsError, match="name another folder"):
        reproduce(["toy"], out=tmp_path, jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(NotADirectoryError, match="is a file"):
        reproduce(["toy"], out=tmp_path / "mine.txt", jobs=1)


def test_fresh_forgets(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    for fresh, kept in ((False, 0), (False, 2), (True, 0)):
        reproduce(["toy"], seeds=2, out=tmp_path, jobs=1, fresh=fresh)
        facts = json.loads((tmp_path / "toy/result.json").read_text())
        assert facts["pieces_kept_from_an_earlier_run"] == kept


# -- interruption -----------------------------------------------------------------------------------------------------


def program(folder, seeds):
    return [sys.executable, "-m", "tests.paper.toy", str(folder), "slow", str(seeds)]


def check_whole(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.name.endswith(".part") or not path.is_file():
            continue
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".html":
            assert path.read_text().endswith("</html>\n")
        elif path.suffix == ".png":
            assert path.read_bytes().endswith(b"IEND\xaeB`\x82")
        elif path.suffix in (".csv", ".md"):
            assert path.read_text().endswith("\n")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_run_leaves_whole_files_and_goes_on(tmp_path, monkeypatch):
    seeds, out = 12, tmp_path / "out"
    victim = subprocess.Popen(program(out, seeds), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kept = out / ".cache" / "tests.paper.toy.slow_spectrum"
    end = time.monotonic() + 60.0
    while len(list(kept.glob("*.json"))) < 3:
        assert victim.poll() is None, "ended before it could be killed"
        assert time.monotonic() < end, "no answer was kept"
        time.sleep(0.02)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait(10)
    done = len(list(kept.glob("*.json")))
    assert 3 <= done < seeds
    assert not (out / "slow" / "result.json").exists()
    check_whole(out)
    (kept / ".half.json.x.part").write_text('{"answer"')  # as a kill in the middle of a write would leave it

    again = subprocess.run(program(out, seeds), cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    facts = json.loads(again.stdout)
    assert facts["failure"] is None
    assert facts["kept"] >= done
    check_whole(out)
    assert not list(out.rglob("*.part"))
    whole = tmp_path / "whole"
    toy.register(monkeypatch)
    monkeypatch.setattr(toy.time, "sleep", lambda seconds: None)
    reproduce(["slow"], seeds=seeds, out=whole, jobs=1)  # processes give the same bits as none, as shown above
    assert (out / "slow/eigenvalues.csv").read_bytes() == (whole / "slow/eigenvalues.csv").read_bytes()
