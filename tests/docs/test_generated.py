"""What the site generates while it is built: tables of figures, the paper's results, formulas, lists of names."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytest.importorskip("sphinx", reason="the docs extra is not installed (make docs)")
sys.path.insert(0, str(DOCS / "_ext"))  # as docs/conf.py does: extensions import one another


def extension(name, folder="_ext"):
    spec = importlib.util.spec_from_file_location(f"certeq_docs_{name}", DOCS / folder / f"{name}.py")
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
        claim = {"text": "It *converges*", "printed": "1", "ours": "2", "verdict": "not reproduced", "why": "early"}
        found = {
            "experiment": "table-one", "title": "Risks_of | a panel", "where": "Table 1", "quick": True,
            "seeds_asked": 3, "seconds": 12.3, "finished": "2026-01-02T03:04:05+00:00",
            "claims": [claim | {"whose": "paper", "line": 12, "quote": "it converges"}], "notes": ["One | note."],
            "tables": [{"name": "risks", "title": "Risks", "digits": 3}],
            "figures": [{"name": "path", "title": "The path", "alt": "A line."}],
        }  # fmt: skip
        (folder / "result.json").write_text(json.dumps(found))
        (folder / "risks.csv").write_text("Utility,OCE\nCVaR,0.0226123\n")
        (folder / "path.png").write_bytes(b"")
        return folder / "result.json"

    def test_an_experiment_becomes_a_section(self, result, tmp_path):
        text = "\n".join(self.reproduced.experiment(result, tmp_path))
        for part in (
            "python -m experiments table-one --quick --seeds 3", "on 2026-01-02, 12 seconds", "A quick run",
            "- 0.0226\n", ".. figure:: /paper/results/table-one/path.png", "**not reproduced**: early",
            r"It \*converges\* (line 12: “it converges”)", r"One \| note.",
        ):  # fmt: skip
            assert part in text

    def full(self, result, **changes):
        found = json.loads(result.read_text()) | {"quick": False, "seeds_asked": 20, "commit": "0123456789ab"} | changes
        result.write_text(json.dumps(found))
        return found

    def test_commit_and_command_of_the_run(self, result, tmp_path):
        self.full(result)
        text = "\n".join(self.reproduced.experiment(result, tmp_path))
        assert "at commit ``0123456789ab``" in text
        assert "quick run" not in text

    def test_the_summary_counts_the_claims_of_the_paper_apart(self, result):
        found = self.full(result)
        again = found["claims"][0] | {"whose": "again", "verdict": "undecided"}
        lines = self.reproduced.summary([found | {"claims": [*found["claims"], again]}])
        for title, counts in (("**All claims of the paper**", "001000"), (self.reproduced.WHOSE["again"], "000010")):
            at = lines.index(f"      * - {title}")
            assert "".join(line.split("- ")[1] for line in lines[at + 1 : at + 7]) == counts


class TestMeasured:
    measured = extension("measured")

    def test_every_group_says_where_it_comes_from(self):
        groups = json.loads((DOCS / "_data" / "benchmarks.json").read_text())["groups"]
        assert {"core", "exact", "learn", "portfolio", "sg", "torch"} <= set(groups)
        for group in groups.values():
            assert group["command"].startswith("python -m benchmarks")
            assert {"cpu", "cores", "python", "packages", "date"} <= set(group["machine"])
            assert group["rows"]

    def tables(self):
        """(group, columns, only) of every table of the page."""
        text = (DOCS / "comparison.rst").read_text()
        for name, options in re.findall(r"^\.\. measured:: (\w+)\n((?:   .*\n)+)", text, flags=re.MULTILINE):
            columns = re.search(r":columns:((?:.|\n)*?)(?=\n   :|\Z)", options.rstrip()).group(1)
            only = re.search(r":only: (.*)", options)
            yield name, " ".join(columns.split()), only.group(1) if only else ""

    def test_every_column_of_the_page_exists_and_ratios_name_both_sides(self):
        groups = json.loads((DOCS / "_data" / "benchmarks.json").read_text())["groups"]
        shown = list(self.tables())
        assert self.measured.select([{"n": 1}, {"n": 5, "a": 1}, {"n": 5}], "a; n=largest") == [{"n": 5, "a": 1}]
        assert {name for name, _, _ in shown} == set(groups)
        for name, columns, only in shown:
            rows = self.measured.select(groups[name]["rows"], only)
            assert rows, name
            keys = {key for row in rows for key in row}
            assert {self.measured._column(part)[0] for part in columns.split(";")} <= keys, name
            assert " as Theirs" not in columns or " as Against" in columns, f"{name}: against what?"

    def test_the_summary_is_that_of_the_readme(self):
        groups = json.loads((DOCS / "_data" / "benchmarks.json").read_text())["groups"]
        rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [\d.]+ m?s \| ([^|]+?) [\d.]+ m?s \| ([\d.]+) times (\w+) \|$",
                          (DOCS.parent / "README.md").read_text(), flags=re.MULTILINE)  # fmt: skip
        assert len(rows) == len(self.measured.HEADLINES) == 6
        for (task, other, number, way), line in zip(rows, self.measured.HEADLINES, strict=True):
            assert (task, other.strip("`")) == (line.task, line.other)
            assert self.measured.faster(*line.times(groups)) == f"{number}× {way}"


class TestMathml:
    mathml = extension("mathml")

    def test_formulas(self):
        for formula in (r"\min_t\, t + \mathbb{E}[u(X-t)]", r"\big(x\big)", r"\theta_0, \dots, \theta_n"):
            assert self.mathml.convert(formula, block=False).startswith("<math")
        bar = self.mathml.convert(r"\bar\theta", block=False)  # above its letter
        assert "<mover>" in bar
        assert "accent" not in bar

    def test_without_braces_an_argument_is_one_digit(self):
        for formula, braced in {
            r"\frac12 x": r"\frac{1}{2} x",
            r"\tfrac12 + 2": r"\tfrac{1}{2} + 2",
            r"\frac1m \sum_i": r"\frac{1}{m} \sum_i",
            r"\frac1\epsilon B": r"\frac{1}{\epsilon} B",
            r"\sqrt25 + x^23": r"\sqrt{2}5 + x^{2}3",
        }.items():
            assert self.mathml.convert(formula, block=False) == self.mathml.convert(braced, block=False)


class TestDocstrings:
    docstrings = extension("docstrings")

    def test_bars_are_escaped_outside_literals(self):
        before = ["|x| and ``|y|`` and :math:`|a +", "b|`", "", ">>> a | b", "", ".. math::", "", "   |z|", "", "|w|"]
        lines = before.copy()
        self.docstrings.escape_bars(lines)
        changed = {0: r"\|x\| and ``|y|`` and :math:`|a +", 9: r"\|w\|"}
        assert lines == [changed.get(number, line) for number, line in enumerate(before)]


def test_the_changelog_becomes_a_page():
    changelog = extension("changelog")
    text = "# Changelog\n\nHead.\n\n## 0.1 (today)\n\n### Added\n- a `b**2`, 2 * c\n  and so on\n"
    assert changelog.as_rst(text).split("\n") == [
        "", "0.1 (today)", "-----------", "", "",
        "Added", "^^^^^", "", "- a ``b**2``, 2 \\* c", "  and so on", "",
    ]  # fmt: skip
    version = re.search(r'^version = "(.*)"', (DOCS.parent / "pyproject.toml").read_text(), flags=re.MULTILINE)[1]
    assert f"\n{version} (" in changelog.as_rst((DOCS.parent / "CHANGELOG.md").read_text())


def test_every_public_name_is_listed_in_the_reference():
    import certeq as ce

    pages = extension("api_pages")
    text = pages.page("certeq")
    for name in ce.__all__:
        assert f"\n   {name}\n" in text or name == "bounds"


@pytest.mark.parametrize("name", ["hero", "utilities", "benchmarks", "minimization", "portfolio", "scikit_learn"])
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
