"""What a release rests on: workflows, versions, flags for compilers, deprecations with a date."""

from __future__ import annotations

import importlib.util
import re
import tomllib
import types
import warnings
from pathlib import Path

import pytest

import certeq
from certeq._deprecated import renamed_argument, warn_deprecated

from . import oldest, release

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(certeq.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_requirement_has_a_lower_bound_and_only_one():
    assert {"numpy", "scipy", "pandas", "skfolio", "dask", "typer"} <= set(oldest.pins())


@pytest.mark.parametrize("text, same", [("2.0", "2.0.0"), ("2.13.0", "2.13.0+cpu"), ("13", "13.0")])
def test_versions_are_compared_as_numbers(text, same):
    assert oldest.release(text) == oldest.release(same)


def test_a_release_needs_one_version_everywhere():
    assert any("the tag is v99.0.0" in line for line in release.problems("v99.0.0"))
    left = release.problems(f"v{PROJECT['version']}")
    assert all("unreleased" in line for line in left)  # the changelog gets its date with the release


def test_workflows_state_their_rights_and_pin_what_they_use():
    if not WORKFLOWS:
        pytest.skip("not a checkout: .github is not there")
    assert {path.stem for path in WORKFLOWS} == {"docs", "release", "tests", "wheels"}
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        assert re.search(r"^permissions: \{\}$", text, flags=re.MULTILINE), path.name
        for used in re.findall(r"uses: (\S+)", text):
            assert used.startswith("./") or re.search(r"@[0-9a-f]{40}$", used), f"{path.name}: {used}"


def test_the_matrix_has_every_python_that_is_declared():
    if not WORKFLOWS:
        pytest.skip("not a checkout: .github is not there")
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: (\[.*\])", text)[1]) == declared


def test_flags_are_those_of_the_compiler(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    if not (ROOT / "src").is_dir():
        pytest.skip("not a checkout: the compiled file's source is not there")
    setup = _setup()
    assert setup.compiler_name(types.SimpleNamespace(compiler_type="msvc")) == "msvc"
    for said, name in (
        ("Apple clang version 17.0.0", "clang"),
        ("gcc (Debian 12.2.0) 12.2.0\nCopyright (C) 2022 Free Software Foundation, Inc.", "gcc"),
        ("a compiler nobody knows", "other"),
    ):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
        script.chmod(0o755)
        compiler = types.SimpleNamespace(compiler_type="unix", compiler=[str(script)])
        assert setup.compiler_name(compiler) == name
    missing = types.SimpleNamespace(compiler_type="unix", compiler=[str(tmp_path / "no-such-compiler")])
    assert setup.compiler_name(missing) == "other"
    assert not any("fast" in flag for flags in setup.FLAGS.values() for flag in flags)  # no flag may change a result


def test_addresses_are_those_of_the_workflow_that_builds(monkeypatch):
    monkeypatch.chdir(ROOT)
    if not (ROOT / "src").is_dir():
        pytest.skip("not a checkout: the compiled file's source is not there")
    assert _setup().project_urls({}) == {}
    found = _setup().project_urls({"GITHUB_REPOSITORY": "Some-One/certeq", "GITHUB_SERVER_URL": "https://github.com"})
    assert found["Source"] == "https://github.com/Some-One/certeq"
    assert found["Documentation"] == "https://some-one.github.io/certeq/"
    assert set(found) == {"Source", "Documentation", "Issues", "Changelog"}


def test_links_of_the_readme_lead_somewhere_from_a_package_index(monkeypatch):
    monkeypatch.chdir(ROOT)
    if not (ROOT / "src").is_dir():
        pytest.skip("not a checkout: the compiled file's source is not there")
    text = (ROOT / "README.md").read_text()
    assert _setup().long_description({}) == text
    told = _setup().long_description({"GITHUB_REPOSITORY": "some/certeq", "GITHUB_SHA": "abc123"})
    assert "](https://github.com/some/certeq/raw/abc123/docs/_static/hero.png)" in told
    links = re.findall(r"(?<=\]\()[^)]+", text)
    assert links
    for link in links:
        path = link.partition("#")[0]
        assert not path or path.startswith("https://") or (ROOT / path).exists(), link
    assert all(re.match("#|https://", link) for link in re.findall(r"(?<=\]\()[^)]+", told))
    assert len(re.findall(r"\]\(", told)) == len(links)


def _setup():
    spec = importlib.util.spec_from_file_location("certeq_setup", ROOT / "setup.py")
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    return setup


def test_deprecated_names_warn_at_the_callers_line():
    with pytest.warns(FutureWarning, match="old is deprecated since 0.1 and will be removed in 9.0; use new") as caught:
        warn_deprecated("old", instead="new", since="0.1", removed_in="9.0", stacklevel=1)
    assert caught[0].filename == __file__


def test_a_renamed_argument_works_and_warns():
    @renamed_argument("old", "new", since="0.1", removed_in="9.0")
    def double(new):
        return 2 * new

    with pytest.warns(FutureWarning, match=r"double\(old=\) .* use new=") as caught:
        assert double(old=3) == 6
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert double(3) == double(new=3) == 6
    with pytest.raises(TypeError, match="old is its old name, and both were given"):
        double(old=1, new=2)


def test_nothing_deprecated_outlives_its_version():
    now = oldest.release(PROJECT["version"])
    for path in SOURCE.rglob("*.py"):
        code = re.sub(r">>> .*|\.\.\. .*", "", path.read_text(encoding="utf-8"))
        for version in re.findall(r'removed_in="([\d.]+)"', code):
            assert oldest.release(version) > now, f"{path.name}: something was to be removed in {version}"
