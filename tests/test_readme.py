"""The README: its first screen, its quickstarts with their output, its numbers, and the commands it names."""

import contextlib
import io
import json
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
# A snippet and the output under it.
QUICKSTARTS = re.findall(r"### (.+?)\n.*?```python\n(.*?)```\n\n```\n(.*?)```", TEXT, flags=re.DOTALL)
NUMBER = re.compile(r"-?\d+\.\d+")


def test_the_first_screen():
    first = "\n".join(TEXT.splitlines()[:60])
    assert "certeq is a Python library for risk measures" in first
    assert "docs/_static/hero.png" in first
    assert "pip install certeq" in first
    reasons = re.search(r"## Why certeq\n\n(.*?)\n## ", first + "\n## ", flags=re.DOTALL)[1]
    bullets = re.split(r"^- ", reasons, flags=re.MULTILINE)[1:]
    assert len(bullets) == 4
    for bullet in bullets:
        assert re.search(r"\d", bullet)
    for reader in ("a quant", "an ML engineer", "a researcher"):
        anchor = re.search(rf"\| {reader} \| \[(.+?)\]\(#(.+?)\)", first)
        assert anchor[2] == anchor[1].lower().replace(" ", "-")
        assert anchor[1] in [title for title, _, _ in QUICKSTARTS]


@pytest.mark.parametrize(("title", "code", "output"), QUICKSTARTS, ids=[title for title, _, _ in QUICKSTARTS])
def test_quickstarts_print_what_is_shown(title, code, output):
    if "torch" in code:
        pytest.importorskip("torch").set_num_threads(1)  # on busy cores threads wait for each other
    if "skfolio" in code:
        pytest.importorskip("skfolio")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as said:
        warnings.simplefilter("error", UserWarning)  # a front page shows no doubts
        exec(compile(code, title, "exec"), {})
    found = said.getvalue()
    assert NUMBER.sub("#", found) == NUMBER.sub("#", output)
    shown = [float(number) for number in NUMBER.findall(output)]
    # A unit of the last digit: training in single precision is not the same to the last bit everywhere.
    steps = [10.0 ** -len(number.split(".")[1]) for number in NUMBER.findall(output)]
    for number, value, step in zip(NUMBER.findall(found), shown, steps, strict=True):
        assert abs(float(number) - value) <= step * 1.01, found


def test_every_quickstart_is_found():
    titles = ["Portfolio optimization", "Training on the worst cases", "Estimating risk"]
    assert [title for title, _, _ in QUICKSTARTS] == titles


def test_benchmarks_are_those_that_were_measured():
    groups = json.loads((ROOT / "docs" / "_data" / "benchmarks.json").read_text())["groups"]
    portfolio = groups["portfolio"]["rows"]
    walk = next(row for row in portfolio if row["case"].startswith("walk-forward") and "CVaR" in row["utility"])
    frontier = next(row for row in portfolio if row["peer"].startswith("skfolio") and "frontier" in row["case"])
    assert f"{walk['ratio']:.1f} times faster" in TEXT
    assert f"{frontier['ratio']:.0f} times faster" in TEXT
    rows = groups["exact"]["rows"]
    exact = next(row for row in rows if row["case"] == "S&P 500 6234x20" and row["peer"] == "skfolio")
    assert f"{exact['ratio']:.0f} times faster" in TEXT
    assert sum("times slower" in line for line in TEXT.splitlines()) == 3


@pytest.mark.slow
def test_the_picture_shows_what_its_caption_says(monkeypatch):
    pytest.importorskip("skfolio")
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "figures"))
    import hero

    equal, least = map(hero.facts, hero.walked())
    caption = re.search(r"\*Twenty S&P 500.*?\*", TEXT, flags=re.DOTALL)[0]
    for found, drawdown in ((equal, "48 %"), (least, "36 %")):
        assert f"{found['cvar']:.2f} %" in caption
        assert f"{found['drawdown']:.0f} %" == drawdown
        assert f"{found['return']:.1f} %" in caption
        assert f"{found['wealth']:.1f}" in caption


def test_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([\w-]+)`", TEXT):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    assert {"run", "test", "lint", "bench", "dist"} <= set(re.findall(r"`make ([\w-]+)`", TEXT))
    run = (ROOT / ".ci" / "run").read_text()
    assert "make test" in run
    assert "make lint" in run


def test_torch_is_pinned_exactly():
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()
