"""The supplement: which pages, in which order, and links that stay within the document."""

import importlib.util

import pytest

from tests.conftest import ROOT

bs4 = pytest.importorskip("bs4", reason="the supplement needs the extra [docs]")


@pytest.fixture
def supplement():
    spec = importlib.util.spec_from_file_location("certeq_docs_supplement", ROOT / "docs" / "supplement.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path):
    pages = {
        "theory/proofs": '<h1>Proofs</h1><a href="errata.html#units">u</a><a href="../api/x.html">api</a>',
        "theory/errata": '<h1>Errata</h1><h2 id="units">Units<a class="headerlink" href="#units">#</a></h2>',
        "theory/bibliography": '<h1>Bibliography</h1><a href="https://doi.org/1">doi</a>',
        "paper/index": '<h1>Results</h1><a href="bounds.html">b</a><img src="../_images/a.png">',
        "paper/bounds": "<h1>Bounds</h1>",
        "start/index": "<h1>Start</h1>",
    }
    for name, text in pages.items():
        path = tmp_path / f"{name}.html"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'<html><nav>menu</nav><article class="bd-article">{text}</article></html>')
    return tmp_path


def test_theory_first_then_results_then_the_bibliography(supplement, site):
    assert supplement.pages(site) == [
        "theory/proofs",
        "theory/errata",
        "paper/index",
        "paper/bounds",
        "theory/bibliography",
    ]


def test_links_stay_within_the_document(supplement, site):
    text = supplement.document(site)
    assert '<a href="#theory/errata--units">u</a>' in text
    assert 'id="theory/errata--units"' in text
    assert '<a href="#paper/bounds">b</a>' in text
    assert "api" in text
    assert "api/x.html" not in text
    assert '<a href="https://doi.org/1">doi</a>' in text
    assert (site / "_images" / "a.png").as_uri() in text
    assert "menu" not in text
    assert "headerlink" not in text
    assert "make supplement" in text


def test_a_formula_is_drawn_on_its_line(supplement):
    pytest.importorskip("ziamath", reason="the supplement draws formulas by it")
    formula = bs4.BeautifulSoup("<math><mi>x</mi></math>", "html.parser").find("math")
    picture = supplement.drawn(formula)
    assert picture["src"].startswith("data:image/svg+xml;base64,")
    assert "vertical-align" in picture["style"]
