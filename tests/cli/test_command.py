"""The command as a whole: help, completion, exit codes, missing extras, and what it does not import."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import certeq as ce
from certeq.cli._options import CHOICES, RISKS, find, parse
from certeq.cli._utilities import braille


def run(*arguments, **environment):
    command = [sys.executable, "-m", "certeq", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


def test_help_has_examples(certeq):
    assert "compare" in certeq("--help").stdout
    for name in ("estimate", "portfolio", "compare", "utilities"):
        said = certeq(name, "--help").stdout
        assert f"Examples:\n    certeq {name}" in said
    assert "--scale 0.02" in certeq("portfolio", "--help").stdout


def test_utilities_are_listed_and_drawn(certeq):
    said = certeq("utilities").stdout
    for key in CHOICES | RISKS:
        assert key in said
    assert any(0x2800 < ord(char) < 0x2900 for char in said)
    found = certeq.json("utilities")
    assert [row["name"] for row in found] == list(CHOICES | RISKS)
    assert [row["name"] for row in found if row["coherent"]] == ["cvar", *RISKS]


def test_names_in_every_spelling():
    assert find("CVaR").key == "cvar"
    assert find("monotone_mean_variance").key == find("MMV").key == "monotone-mean-variance"


def test_defaults_of_every_choice_can_be_swept():
    for choice in (CHOICES | RISKS).values():
        for _, given in choice.cases(choice.daily):
            assert np.isfinite(ce.oce(np.arange(5.0), choice.build(given, normalized=True)))


def test_parameters_within_the_name():
    choice, given = parse("wang shift=0.5")
    assert choice.build(given) == ce.Wang(0.5)
    choice, given = parse("mmv a=3 radius=0.1")
    assert choice.build(given) == ce.MonotoneMeanVariance(3.0).ball(0.1)
    choice, given = parse("0.5 cvar alpha=0.05 + 0.5 power k=4")
    assert choice.build(given) == ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.PowerDistortion(4.0)])
    for wrong, said in (
        ("wang shift", "NAME=NUMBER"),
        ("0.5 cvar + x evar", "a mixture is written"),
        ("0.5", "mixture"),
    ):
        with pytest.raises(ValueError, match=said):
            parse(wrong)


def test_braille():
    assert len(braille(np.array([0.0, 1.0]), 1, 0.0, 1.0)) == 1
    flat = braille(np.zeros(4), 2, 0.0, 1.0)
    assert flat == ["⠀⠀", "⣀⣀"]


def test_whole_process_on_a_poor_terminal():
    done = run("utilities", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert json.loads(run("utilities", "--json").stdout)[0]["name"] == "cvar"
    assert run("utilitees").returncode == 2
    assert "utilities" in run("utilitees").stderr  # the nearest command


def test_completion():
    script = run("--show-completion", "bash", SHELL="/bin/bash")
    if script.returncode:
        pytest.skip("this shell has no completion")
    assert "certeq" in script.stdout
    words = run(_CERTEQ_COMPLETE="complete_bash", COMP_WORDS="certeq estimate --utility sm", COMP_CWORD="3")
    assert "smooth-cvar" in words.stdout


@pytest.mark.parametrize(("missing", "extra", "arguments"), [
    ("typer", "certeq[cli]", ["utilities"]),
    ("rich", "certeq[cli]", ["utilities"]),
    ("skfolio", "certeq[portfolio]", ["portfolio"]),
    ("pandas", "certeq[cli]", ["estimate", "pyproject.toml"]),
])  # fmt: skip
def test_a_missing_extra_is_one_line_that_names_it(tmp_path, missing, extra, arguments):
    code = f"import sys; sys.modules[{missing!r}] = None; from certeq.cli import main; main({arguments!r})"
    (tmp_path / "pyproject.toml").write_text("a\n1\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 1
    assert extra in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_the_version_is_told_without_extras():
    missing = "import sys; sys.modules['typer'] = sys.modules['rich'] = None; "
    code = f"{missing}from certeq.cli import main; main(['--version'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("certeq ")
    assert done.stdout == run("--version").stdout


def test_experiments_are_listed_with_what_they_show(certeq):
    from certeq.paper import EXPERIMENTS

    lines = certeq("reproduce", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert re.fullmatch(r"errata +Errata, each with a check", lines[-1])
    rows = certeq.json("reproduce", "--list")
    assert [row["name"] for row in rows] == list(EXPERIMENTS)
    assert all(row["title"] and row["where"] for row in rows)


def test_help_is_quick():
    code = (
        "import sys\nfrom certeq.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = 'numpy', 'scipy', 'pandas', 'skfolio', 'plotly', 'torch', 'sklearn', 'rich.table', 'certeq.data'\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),  # what was found is in the words of typer where it says so, which depends on its version
    [
        (("portfolio", "--alpha", "abc"), "(found )?'abc'"),
        (("portfolio", "--min-return", "5%"), r"(found '5%'|'5%' is not a valid float)\. 5 % is 0\.05\."),
        (("compare", "--test-size", "25"), r"(found '25'|25\.0 is not in the range 0\.01<=x<=0\.9)\. 25 % is 0\.25\."),
        (("compare", "--test-size", "-1"), r"(found '-1'|-1\.0 is not in the range 0\.01<=x<=0\.9)\."),
        (("reproduce", "--seeds", "0"), "(found '0'|0 is not in the range x>=1)"),
        (("compare", "--also", "foo"), "Invalid value for --also: there is no utility 'foo'"),
        (("compare", "--also", "cvar alpha=2"), "Invalid value for --also: alpha must be"),
        (("portfolio", "-u", "cvar alfa=0.1"), r"Did you mean 'alpha'\?"),
    ],
)
def test_bad_usage_says_what_was_found(certeq, arguments, said):
    assert re.search(said, " ".join(certeq.refused(*arguments, code=2).replace("│", " ").split()))
