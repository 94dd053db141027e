"""What a release rests on: workflows, versions, flags for compilers, addresses, deprecations with a date."""

from __future__ import annotations

import importlib.util
import re
import tomllib
import types
from pathlib import Path

import pytest

from . import oldest, release

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
checkout = pytest.mark.skipif(not WORKFLOWS, reason="not a checkout: .github is not there")


@pytest.fixture
def setup(monkeypatch):
    """The functions of setup.py, which reads files of its folder."""
    if not (ROOT / "src").is_dir():
        pytest.skip("not a checkout: the compiled file's source is not there")
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("certeq_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_requirement_has_a_lower_bound_and_only_one():
    assert {"numpy", "scipy", "pandas", "skfolio", "dask", "typer"} <= set(oldest.pins())


@pytest.mark.parametrize("text, same", [("2.0", "2.0.0"), ("2.13.0", "2.13.0+cpu"), ("13", "13.0")])
def test_versions_are_compared_as_numbers(text, same):
    assert oldest.release(text) == oldest.release(same)


def test_a_release_needs_one_version_everywhere():
    assert any("the tag is v99.0.0" in line for line in release.problems("v99.0.0"))
    left = release.problems(f"v{PROJECT['version']}")
    assert all("unreleased" in line for line in left)  # the changelog gets its date with the release


@checkout
def test_workflows_state_their_rights_and_pin_what_they_use():
    assert set(WORKFLOWS) == {"docs", "release", "tests", "wheels"}
    for name, text in WORKFLOWS.items():
        assert re.search(r"^permissions: \{\}$", text, flags=re.MULTILINE), name
        for used in re.findall(r"uses: (\S+)", text):
            assert used.startswith("./") or re.search(r"@[0-9a-f]{40}$", used), f"{name}: {used}"


@checkout
def test_the_matrix_has_every_python_that_is_declared():
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: (\[.*\])", WORKFLOWS["tests"])[1]) == declared


@pytest.mark.parametrize(
    "said, name",
    [
        ("Apple clang version 17.0.0", "clang"),
        ("gcc (Debian 12.2.0) 12.2.0\nCopyright (C) 2022 Free Software Foundation, Inc.", "gcc"),
        ("a compiler nobody knows", "other"),
        (None, "other"),
    ],
)
def test_flags_are_those_of_the_compiler(setup, tmp_path, said, name):
    script = tmp_path / "compiler"
    if said is not None:
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
        script.chmod(0o755)
    assert setup.compiler_name(types.SimpleNamespace(compiler_type="unix", compiler=[str(script)])) == name
    assert setup.compiler_name(types.SimpleNamespace(compiler_type="msvc")) == "msvc"
    assert not any("fast" in flag for flags in setup.FLAGS.values() for flag in flags)  # no flag may change a result


def test_addresses_are_those_of_the_workflow_that_builds(setup):
    assert setup.project_urls({}) == {}
    found = setup.project_urls({"GITHUB_REPOSITORY": "Some-One/certeq", "GITHUB_SERVER_URL": "https://github.com"})
    assert found["Source"] == "https://github.com/Some-One/certeq"
    assert found["Documentation"] == "https://some-one.github.io/certeq/"
    assert set(found) == {"Source", "Documentation", "Issues", "Changelog"}


def test_links_of_the_readme_lead_somewhere_from_a_package_index(setup):
    text = (ROOT / "README.md").read_text()
    assert setup.long_description({}) == text
    shown = setup.long_description({"GITHUB_REPOSITORY": "some/certeq", "GITHUB_SHA": "abc123"})
    assert "](https://github.com/some/certeq/raw/abc123/docs/_static/hero.png)" in shown
    links, absolute = (re.findall(r"(?<=\]\()[^)]+", each) for each in (text, shown))
    assert len(links) == len(absolute) > 5
    for link in links:
        path = link.partition("#")[0]
        assert not path or path.startswith("https://") or (ROOT / path).exists(), link
    assert all(re.match("#|https://", link) for link in absolute)
