"""Every script of the gallery runs, draws, and its own assertions hold."""

import ast
import importlib
import importlib.util
import io
import re
import runpy
import warnings
from pathlib import Path

import pytest

import certeq as ce

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/plot_*.py"))
SLOW = {"plot_torchrun.py", "plot_sample_complexity.py"}  # starts processes of its own; runs hundreds of problems
# What a package needs beyond what its script imports by name.
BEHIND = {"certeq.learn": ("sklearn",), "certeq.torch": ("torch",)}


def needed(source: str) -> set[str]:
    """The packages without which a script cannot run."""
    found = {"matplotlib"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).split(".")[0])
    return found | {package for word, packages in BEHIND.items() if word in source for package in packages}


def marked(script: Path) -> object:
    return pytest.param(script, id=script.stem, marks=pytest.mark.slow if script.name in SLOW else ())


@pytest.mark.parametrize("script", [marked(script) for script in SCRIPTS])
def test_script_runs_and_draws(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in sorted(needed(script.read_text(encoding="utf-8"))):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{script.name} needs {package}, which is not installed")
    import matplotlib as mpl

    mpl.use("Agg", force=True)
    import matplotlib.pyplot as plt

    monkeypatch.chdir(EXAMPLES)
    plt.close("all")
    with mpl.rc_context(), warnings.catch_warnings():
        # A page must not show a reader a warning or a failed solver that its prose says nothing of.
        warnings.filterwarnings("error", category=RuntimeWarning)
        warnings.filterwarnings("error", category=ce.ReliabilityWarning)
        warnings.filterwarnings("error", category=ce.UnitWarning)
        warnings.filterwarnings("error", message="CVaR\\(alpha")
        warnings.filterwarnings("error", message=".*converge.*")
        warnings.filterwarnings("ignore", message=".*non-interactive.*")  # plt.show() without a screen
        runpy.run_path(str(script), run_name="__main__")
        figures = [plt.figure(number) for number in plt.get_fignums()]
        assert len(figures) == 1, f"{script.name} should end in one picture; it made {len(figures)}"
        assert all(axes.has_data() for axes in figures[0].axes), "an empty panel"
        assert any(axes.get_ylabel() for axes in figures[0].axes)
        buffer = io.BytesIO()
        figures[0].savefig(buffer, dpi=40)  # drawing finds what building does not: glyphs, layout
        assert buffer.tell() > 2000
    plt.close("all")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_is_a_page(script: Path) -> None:
    source = script.read_text(encoding="utf-8")
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree) or ""
    title, rule, blank, *rest = docstring.splitlines()
    assert (rule, blank) == ("=" * len(title), ""), "a title with its rule, then a paragraph"
    assert len(" ".join(rest)) > 100, "say what the page teaches"
    # sphinx-gallery takes and closes the figures after each block: one must be begun and finished in the same.
    blocks = [block for block in source.split("\n# %%") if "plt.show()" in block or "plt.subplots" in block]
    assert len(blocks) == 1
    assert blocks[0].index("plt.subplots") < blocks[0].index("plt.show()")
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree)), "state a fact and check it"
    assert not re.search(r"certeq(\.\w+)*\._", source), "the public names only"


def test_every_script_has_its_place_among_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx_gallery", reason="the docs extra is not installed (make docs)")
    monkeypatch.syspath_prepend(str(EXAMPLES.parent / "_ext"))
    panels = importlib.import_module("panels")
    listed = {f"{topic}/plot_{name}.py" for topic, names in panels.TOPICS.items() for name in names}
    assert {script.relative_to(EXAMPLES).as_posix() for script in SCRIPTS} == listed
    assert set(panels.PANELS) <= {name for names in panels.TOPICS.values() for name in names}
    for folder in (".", *panels.TOPICS):
        assert (EXAMPLES / folder / "GALLERY_HEADER.rst").is_file()
    sources = [script.read_text(encoding="utf-8") for script in SCRIPTS]
    titles = [(ast.get_docstring(ast.parse(source)) or "").split("\n")[0] for source in sources]
    assert len(set(titles)) == len(titles)
