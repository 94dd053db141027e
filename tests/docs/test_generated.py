"""What the site generates while it is built: tables of figures, the paper's results, formulas, lists of names."""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytest.importorskip("sphinx", reason="the docs extra is not installed (make docs)")


def extension(name):
    spec = importlib.util.spec_from_file_location(f"certeq_docs_{name}", DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class TestReproduced:
    reproduced = extension("reproduced")

    @pytest.fixture
    def result(self, tmp_path):
        folder = tmp_path / "paper" / "results" / "table-one"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(
            json.dumps(
                {
                    "experiment": "table-one",
                    "title": "Risks_of | a panel",
                    "where": "Table 1",
                    "quick": True,
                    "seeds_asked": 3,
                    "work_seconds": 12.3,
                    "finished": "2026-01-02T03:04:05+00:00",
                    "claims": [
                        {
                            "text": "It *converges*",
                            "printed": "1",
                            "ours": "2",
                            "verdict": "not reproduced",
                            "why": "early",
                        }
                    ],
                    "notes": ["One | note."],
                    "tables": [{"name": "risks", "title": "Risks", "digits": 3}],
                    "figures": [{"name": "path", "title": "The path", "alt": "A line."}],
                }
            )
        )
        (folder / "risks.csv").write_text("Utility,OCE\nCVaR,0.0226123\n")
        (folder / "path.png").write_bytes(b"")
        return folder / "result.json"

    def test_an_experiment_becomes_a_section(self, result, tmp_path):
        text = "\n".join(self.reproduced.experiment(result, tmp_path))
        assert "certeq reproduce table-one --quick --seeds 3" in text
        assert "on 2026-01-02, 12 seconds of work" in text
        assert "A quick run" in text
        assert "- 0.0226\n" in text
        assert ".. figure:: /paper/results/table-one/path.png" in text
        assert "**not reproduced**: early" in text
        assert r"It \*converges\*" in text
        assert r"One \| note." in text

    def test_commit_and_command_of_the_run(self, result, tmp_path):
        (result.parents[1] / "run.json").write_text('{"command": "certeq reproduce", "commit": "0123456789abcdef"}')
        text = "\n".join(self.reproduced.experiment(result, tmp_path))
        assert "Made by ``certeq reproduce`` at commit ``0123456789abcdef``" in text

    def test_a_failure_is_told(self, result, tmp_path):
        found = json.loads(result.read_text()) | {"failure": "no data"}
        result.write_text(json.dumps(found))
        assert "It could not run: no data" in "\n".join(self.reproduced.experiment(result, tmp_path))

    def test_a_run_is_taken_without_what_is_large(self, result, tmp_path):
        spec = importlib.util.spec_from_file_location("certeq_docs_take", DOCS / "paper" / "take.py")
        taker = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(taker)
        (result.parent / "path.html").write_text("large")
        target = tmp_path / "taken"
        assert taker.take(result.parents[1], target, "certeq reproduce", "abc") == ["table-one"]
        names = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
        assert names == {"run.json", "table-one/result.json", "table-one/risks.csv", "table-one/path.png"}
        with pytest.raises(FileNotFoundError, match="holds no experiment"):
            taker.take(tmp_path / "nowhere", target, "", "")

    def test_nothing_yet(self):
        assert any("python docs/paper/take.py" in line for line in self.reproduced.empty())


class TestMeasured:
    measured = extension("measured")

    @pytest.mark.parametrize(
        "value, said", [(0.0103, "10.3 ms"), (2.5, "2.5 s"), (3e-5, "30 µs"), (float("nan"), "failed")]
    )
    def test_times(self, value, said):
        assert self.measured.seconds(value) == said.replace(" ", "\N{NO-BREAK SPACE}")

    @pytest.mark.parametrize("value, said", [(88.4, "88×"), (0.743, "0.74×"), (1.26, "1.3×")])
    def test_ratios(self, value, said):
        assert self.measured.ratio(value) == said

    def test_every_group_says_where_it_comes_from(self):
        groups = json.loads((DOCS / "_data" / "benchmarks.json").read_text())["groups"]
        assert {"core", "exact", "learn", "portfolio", "sg", "torch"} <= set(groups)
        for group in groups.values():
            assert group["command"].startswith("python -m benchmarks")
            assert {"cpu", "cores", "python", "packages", "date"} <= set(group["machine"])
            assert group["rows"]

    def test_every_column_of_the_page_exists(self):
        groups = json.loads((DOCS / "_data" / "benchmarks.json").read_text())["groups"]
        lines = (DOCS / "comparison.rst").read_text().splitlines()
        shown = 0
        for i, line in enumerate(lines):
            if line.startswith(".. measured:: "):
                columns = [self.measured._column(part)[0] for part in lines[i + 1].split(":columns:")[1].split(";")]
                keys = {key for row in groups[line.split(":: ")[1]]["rows"] for key in row}
                assert set(columns) <= keys
                shown += 1
        assert shown >= 7


class TestMathml:
    mathml = extension("mathml")

    @pytest.mark.parametrize(
        "formula", [r"\min_t\, t + \mathbb{E}[u(X-t)]", r"\big(x\big)", r"\theta_0, \dots, \theta_n"]
    )
    def test_formulas(self, formula):
        assert self.mathml.convert(formula, block=False).startswith("<math")


class TestDocstrings:
    docstrings = extension("docstrings")

    def test_bars_are_escaped_outside_literals(self):
        lines = ["|x| and ``|y|`` and :math:`|a +", "b|`", "", ">>> a | b", "", ".. math::", "", "   |z|", "", "|w|"]
        self.docstrings.escape_bars(lines)
        wanted = [
            r"\|x\| and ``|y|`` and :math:`|a +",
            "b|`",
            "",
            ">>> a | b",
            "",
            ".. math::",
            "",
            "   |z|",
            "",
            r"\|w\|",
        ]
        assert lines == wanted


def test_every_public_name_is_listed_in_the_reference():
    import certeq as ce

    pages = extension("api_pages")
    text = pages.page("certeq")
    for name in ce.__all__:
        assert f"\n   {name}\n" in text or name == "bounds"


@pytest.mark.parametrize("name", ["hero", "utilities"])
def test_pictures_are_drawn(name, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.syspath_prepend(str(DOCS / "figures"))
    with matplotlib.rc_context():
        names = runpy.run_path(str(DOCS / "figures" / f"{name}.py"))
        figure = names["draw"]() if "draw" in names else names["figure"]
        assert all(axis.has_data() for axis in figure.axes)
        figure.canvas.draw()
        plt.close("all")


def test_the_front_picture_is_committed():
    for name in ("hero.png", "hero-tall.png"):
        assert (DOCS / "_static" / name).read_bytes().startswith(b"\x89PNG")
