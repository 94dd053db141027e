"""One PDF of the theory, its proofs, the errata, every result and the bibliography, from the pages of ``make docs``.

make supplement

No TeX: formulas are the pages' own MathML, drawn by ziamath; the document is laid out by WeasyPrint.
"""

from __future__ import annotations

import argparse
import base64
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Tag

HERE = Path(__file__).resolve().parent
FIRST = ("theory/index", "theory/proofs", "theory/rates", "theory/errata", "paper/index")
LAST = ("theory/bibliography",)
SIZE = {"inline": 12.0, "block": 13.0}  # pixels
NUMBER = re.compile(r"[-+−]?[\d.,]+(e[-+]?\d+)?%?")  # which no line break is to cut in two
WIDE = 9  # columns, above which a table is set smaller
STYLE = """
@page { size: A4; margin: 20mm 17mm; @bottom-center { content: counter(page); font: 8pt sans-serif; color: #555; } }
body { font: 9.5pt/1.45 "DejaVu Serif", serif; color: #111; }
h1 { font: bold 17pt sans-serif; margin: 0 0 10pt; string-set: part content(); }
h2 { font: bold 12.5pt sans-serif; margin: 16pt 0 5pt; } h3 { font: bold 10.5pt sans-serif; margin: 11pt 0 3pt; }
section.page { break-before: page; }
p, li, dd, td { orphans: 2; widows: 2; } a { color: #003d73; text-decoration: none; }
pre { font-size: 7.5pt; background: #f4f4f4; padding: 5pt; white-space: pre-wrap; }
code { font-size: 8pt; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 6.4pt; line-height: 1.3; margin: 5pt 0 10pt; }
td, th { border-bottom: .4pt solid #bbb; padding: 2pt 3pt; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; } td.number { white-space: nowrap; } th { overflow-wrap: normal; }
table.wide { font-size: 5.6pt; } table.wide td, table.wide th { padding: 2pt 1.5pt; }
td p, th p { margin: 0; } thead { background: #eee; }
img.drawn { max-width: 100%; max-height: 230mm; } figure { margin: 8pt 0; break-inside: avoid; }
figcaption { font-size: 8pt; color: #444; }
div.math { text-align: center; margin: 6pt 0; break-inside: avoid; } img.formula { max-width: 100%; }
dl.field-list dt { font-weight: bold; } dl.field-list dd { margin: 0 0 3pt 12pt; }
.rubric { font: bold 8.5pt sans-serif; margin: 9pt 0 2pt; } .title-page p { font-size: 10pt; }
ol.contents { font-size: 10pt; }
"""


def pages(html: Path) -> list[str]:
    """The pages in their order; the experiments are those the page of results lists."""
    listed = re.findall(r'href="([a-z0-9-]+)\.html"', (html / "paper" / "index.html").read_text(encoding="utf-8"))
    names = [*FIRST, *(f"paper/{name}" for name in dict.fromkeys(listed)), *LAST]
    return [name for name in names if (html / f"{name}.html").is_file()]


def body(html: Path, name: str, known: list[str]) -> Tag:
    """The article of one page: formulas drawn, pictures by their files, links within the document."""
    page = html / f"{name}.html"
    article = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").select_one("article.bd-article")
    if article is None:
        raise ValueError(f"{page} has no article; build the pages with make docs.")
    for unwanted in article.select("a.headerlink, button, nav, .toctree-wrapper, script, .prev-next-footer"):
        unwanted.decompose()
    for picture in article.find_all("img"):
        picture["src"] = (page.parent / str(picture["src"])).resolve().as_uri()
        picture["class"] = "drawn"
    for formula in article.find_all("math"):
        formula.replace_with(drawn(formula))
    for cell in article.find_all("td"):
        if NUMBER.fullmatch(cell.get_text(strip=True)):
            cell["class"] = "number"
    for table in article.find_all("table"):
        if max((len(row.find_all(["td", "th"])) for row in table.find_all("tr")), default=0) > WIDE:
            table["class"] = "wide"
    for part in article.find_all(id=True):
        part["id"] = f"{name}--{part['id']}"
    for link in article.find_all("a", href=True):
        _redirect(link, page, html, known)
    article["id"] = name
    return article


def drawn(formula: Tag) -> Tag:
    """A formula as a picture of outlines, on the line of the text around it."""
    import ziamath

    ziamath.config.svg2 = False  # outlines in every formula: references between pictures would have to be unique
    block = formula.get("display") == "block"
    picture = ziamath.Math(str(formula), size=SIZE["block" if block else "inline"])
    data = base64.b64encode(picture.svg().encode()).decode()
    style = "" if block else f"vertical-align: {picture.getyofst() - 1.0:.2f}px"
    return Tag(name="img", attrs={"src": f"data:image/svg+xml;base64,{data}", "class": "formula", "style": style})


def _redirect(link: Tag, page: Path, html: Path, known: list[str]) -> None:
    """To the place in this document, if the page is part of it; a link to another page of the site is plain text."""
    href = str(link["href"])
    if re.match(r"[a-z]+:", href):
        return
    where, _, part = href.partition("#")
    target = (page.parent / where).resolve() if where else page
    name = (
        target.relative_to(html.resolve()).with_suffix("").as_posix() if target.is_relative_to(html.resolve()) else ""
    )
    if name in known:
        link["href"] = f"#{name}--{part}" if part else f"#{name}"
    else:
        link.unwrap()


def document(html: Path) -> str:
    """The whole, as one page of HTML."""
    names = pages(html)
    articles = {name: body(html, name, names) for name in names}
    titles = {name: _title(article) for name, article in articles.items()}
    contents = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in titles.items())
    front = (
        '<section class="title-page"><h1>Optimized certainty equivalents: theory, proofs, errata and results</h1>'
        "<p>A supplement to <i>Optimized Certainty Equivalent Risk Minimization Using Samples: Algorithms, Convergence "
        "Rates, and Applications</i> by Sumedh Gupte, Prashanth L. A. and Sanjay P. Bhat. Lines are those of its "
        f"source.</p><p>certeq {version('certeq')}; made by <code>make supplement</code>.</p>"
        f'<ol class="contents">{contents}</ol></section>'
    )
    parts = "".join(f'<section class="page">{article}</section>' for article in articles.values())
    return f'<html lang="en"><head><meta charset="utf-8"><title>certeq</title></head><body>{front}{parts}</body></html>'


def _title(article: Tag) -> str:
    heading = article.find("h1")
    return heading.get_text().strip() if heading else ""


def main() -> None:
    """Print the pages to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("html", type=Path, nargs="?", default=HERE / "_build" / "html", help="the pages of make docs")
    parser.add_argument("--out", type=Path, default=HERE / "_build" / "certeq-supplement.pdf")
    options = parser.parse_args()
    from weasyprint import CSS, HTML

    layout: Any = HTML(string=document(options.html), base_url=options.html.resolve().as_uri())
    layout.write_pdf(options.out, stylesheets=[CSS(string=STYLE)])
    print(f"{options.out} is up to date")


if __name__ == "__main__":
    main()
