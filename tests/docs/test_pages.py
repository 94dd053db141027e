"""Every Python block on every page runs, in the order it is read, and prints what the page says it prints."""

from __future__ import annotations

import csv
import doctest
import re
import textwrap
import warnings
from pathlib import Path

import pytest

import certeq

DOCS = Path(__file__).resolve().parents[2] / "docs"
GENERATED = {"api", "gallery", "_build", "examples"}
PAGES = sorted(
    path for path in DOCS.rglob("*.rst") if not GENERATED & set(path.relative_to(DOCS).parts) and path.stem != "README"
)
NEEDS = {
    **{"torch": "torch", "skfolio": "skfolio", "dask": "dask", "learn": "sklearn", "skorch": "skorch"},
    **{"portfolio": "skfolio", "report": "plotly", "paper": "skfolio"},
}
_FLAGS = doctest.NORMALIZE_WHITESPACE
_PARSER = doctest.DocTestParser()


def blocks(text: str) -> list[tuple[int, str, str]]:
    """(line, kind, source) of what is to be run: "code" for code-blocks, "session" for prompts, "sketch" if not run."""
    lines = text.split("\n")
    found = []
    i = 0
    while i < len(lines):
        line = lines[i]
        indent = len(line) - len(line.lstrip())
        if re.match(r"\s*\.\. code-block:: python\s*$", line):
            start, body, options = i + 1, [], []
            i += 1
            while i < len(lines) and (not lines[i].strip() or len(lines[i]) - len(lines[i].lstrip()) > indent):
                (options if re.match(r"\s*:[\w-]+:", lines[i]) and not body else body).append(lines[i])
                i += 1
            kind = "sketch" if any("not-run" in option for option in options) else "code"
            found.append((start, kind, textwrap.dedent("\n".join(body)).strip("\n") + "\n"))
            continue
        if line.lstrip().startswith(">>> "):
            start, body = i + 1, []
            while i < len(lines) and lines[i].strip():
                body.append(lines[i][indent:])
                i += 1
                if i < len(lines) and re.match(r":\w+:", lines[i]):  # the next field of a field list
                    break
            found.append((start, "session", "\n".join(body) + "\n"))
            continue
        i += 1
    return found


def run(path: Path) -> list[str]:
    """What went wrong, block by block; one namespace for the page, as for its reader."""
    names: dict = {"__name__": "__page__"}
    complaints: list[str] = []
    for line, kind, source in blocks(path.read_text()):
        where = f"{path.name}:{line}"
        if kind == "session":
            runner = doctest.DocTestRunner(optionflags=_FLAGS, verbose=False)
            test = doctest.DocTest(_PARSER.get_examples(source, where), names, where, str(path), line - 1, source)
            runner.run(test, out=complaints.append, clear_globs=False)
            names = test.globs
        else:
            compiled = compile("\n" * line + source, str(path), "exec")
            if kind == "code":
                exec(compiled, names)
    return complaints


def test_there_are_pages():
    names = {path.relative_to(DOCS).as_posix() for path in PAGES}
    assert {"index.rst", "start/quant.rst", "guide/which_risk.rst", "theory/errata.rst", "comparison.rst"} <= names


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_page_runs(path, tmp_path, monkeypatch):
    text = path.read_text()
    for word, package in NEEDS.items():
        if re.search(rf"(import|from) (certeq\.)?{word}", text):
            module = pytest.importorskip(package)
            if word == "torch":
                module.set_num_threads(1)  # small networks: threads would only wait for each other
    monkeypatch.chdir(tmp_path)  # pages may write files
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        complaints = run(path)
    assert not complaints, "\n".join(complaints)


def test_a_wrong_output_is_noticed(tmp_path):
    page = tmp_path / "page.rst"
    page.write_text("Title\n=====\n\n>>> 1 + 1\n3\n")
    assert run(page)
    page.write_text("Title\n=====\n\n.. code-block:: python\n\n   1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        run(page)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_lines_fit(path):
    """Lines can be read; on a laptop 84 characters of code fit between the sidebars, and longer lines are cut."""
    sessions = [(kind == "session", line) for _, kind, text in blocks(path.read_text()) for line in text.split("\n")]
    printed = {line for session, line in sessions if session}
    assert [line for line in path.read_text().split("\n") if len(line) > 120 and line not in printed] == []
    if path.parent.name in ("docs", "start", "guide"):
        code = [
            re.sub(r" +# doctest:.*", "", line)
            for session, line in sessions
            if not session or line.startswith((">>> ", "... "))
        ]
        assert [line for line in code if len(line) > 84] == []


def test_every_erratum_on_the_page_names_its_check():
    page = (DOCS / "theory" / "errata.rst").read_text()
    with (DOCS.parent / "experiments" / "errata.csv").open(newline="") as stream:
        statements = [(entry["line"], entry["name"]) for entry in csv.DictReader(stream)]
    named = re.findall(r"^:Line: (\d+), .*\n:Check: ``([a-z-]+)``$", page, flags=re.MULTILINE)
    assert sorted(named) == sorted(statements)


def test_what_docstrings_refer_to_is_in_the_bibliography():
    """Title, and identifier where a docstring gives one."""
    page = " ".join((DOCS / "theory" / "bibliography.rst").read_text().split()).lower()
    found = 0
    for path in sorted(Path(certeq.__file__).parent.rglob("*.py")):
        for section in re.findall(
            r"\n    References\n    -{10}\n(.*?)\n    (?:Examples\n|\"\"\")", path.read_text(), re.DOTALL
        ):
            for entry in section.strip().split("\n\n"):
                text = " ".join(entry.split())
                title = re.search(r"\((?:\d{4}|manuscript)\), (.*?)(?:, doi:|, arXiv:|, fourth|\.$)", text)
                assert title, f"{path.name}: {text}"
                parts = [title[1], *re.findall(r"(?:doi|arXiv):\S+[^.\s]", text)]
                assert [part for part in parts if part.lower() not in page] == [], path.name
                found += 1
    assert found >= 20


def test_no_literal_of_the_changelog_is_broken_over_two_lines():
    """The page that is made of it reads one line at a time."""
    lines = (DOCS.parent / "CHANGELOG.md").read_text().split("\n")
    assert [line for line in lines if line.count("`") % 2] == []
