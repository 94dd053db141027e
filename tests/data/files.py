"""One table of prices in the layouts and formats in which people keep it, and a writer of .xlsx files."""

from __future__ import annotations

import datetime
import gzip
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

from certeq.data import BadData, read_prices

DAYS = pd.bdate_range("2021-01-04", periods=80)
MOVES = 1.0 + np.random.default_rng(11).normal(0.0004, [0.01, 0.012, 0.02], (80, 3))
# Prices on both sides of 1,000, so that only some of them have a separator of thousands.
PRICES = pd.DataFrame((np.cumprod(MOVES, axis=0) * [950.0, 16.0, 32000.0]).round(2), DAYS, ["ABB", "Novo", "DAX 40"])


def plain(value):
    return repr(float(value))


def european(value):
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def decimal_comma(value):
    return f"{value:.2f}".replace(".", ",")


def text(write=plain, separator=",", dates="%Y-%m-%d", quote="", table=PRICES):
    """Return a wide table as text, each number as `write` writes it."""
    rows = [["Datum", *table.columns]]
    rows += [[f"{day:{dates}}", *map(write, row)] for day, row in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join(separator.join(f"{quote}{cell}{quote}" for cell in row) for row in rows) + "\n"


def long(write=plain, separator=",", more=False):
    """Return a long table as text: a row for each asset and date, with a column of volumes if `more`."""
    lines = [separator.join(["ticker", "date", "close", *(["volume"] if more else [])])]
    for name in PRICES:
        for day, price in PRICES[name].items():
            lines.append(separator.join([name, f"{day:%Y-%m-%d}", write(price), *(["77"] if more else [])]))
    return "\n".join(lines) + "\n"


def vendor(blank_row=True, merged=False, fields=("Close", "Open", "Volume")):
    """Return a table under two rows of headings, fields above assets, as vendors of data write it."""
    upper = [field if not merged or i == 0 else "" for field in fields for i in range(3)]
    lines = [["Price", *upper], ["Ticker", *list(PRICES.columns) * 3]]
    if blank_row:
        lines.append(["Date", *[""] * 9])
    for day, row in zip(DAYS, PRICES.to_numpy(), strict=True):
        lines.append([f"{day:%Y-%m-%d}", *map(repr, row.tolist()), *map(repr, (row + 1).tolist()), "5", "6", "7"])
    return "\n".join(map(",".join, lines)) + "\n"


GRID = [["Date", *PRICES.columns], *([day, *row] for day, row in zip(DAYS, PRICES.to_numpy().tolist(), strict=True))]
TWO = [[None, "Close", None, None, "High", None, None], ["Ticker", *list(PRICES.columns) * 2]]
TWO += [[day, *row, *(2.0 * value for value in row)] for day, *row in GRID[1:]]
LONG_GRID = [["date", "name", "price"], *([day, name, p] for name in PRICES for day, p in PRICES[name].items())]
DATED = PRICES.rename_axis("date").reset_index()
LAYOUTS = {
    "plain.csv": text(),
    "tabs.csv": text(separator="\t"),
    "european.csv": text(european, ";"),
    "european-dates.csv": text(european, ";", dates="%d.%m.%Y"),
    "decimal-comma.csv": text(decimal_comma, ";"),
    "quoted-comma.csv": text(decimal_comma, quote='"'),
    "thousands.csv": text(lambda value: f"{value:,.2f}", quote='"'),
    "swiss.csv": text(lambda value: f"{value:,.2f}".replace(",", "'"), ";"),
    "french.csv": text(lambda value: f"{value:,.2f}".replace(",", "\u202f").replace(".", ","), ";"),
    "dollars.csv": text(lambda value: f"${value:,.2f}", ";"),
    "euros.csv": text(lambda value: f"{european(value)} €", ";"),
    "packed.csv.gz": gzip.compress(text(european, ";").encode()),
    "unicode.csv": text(european, "\t").encode("utf-16"),
    "big-endian.csv": ("\ufeff" + text(european, "\t")).encode("utf-16-be"),
    "packed-unicode.csv.gz": gzip.compress(text(european, ";").encode("utf-16")),
    "long.csv": long(),
    "long-european.csv": long(european, ";"),
    "long-volume.csv": long(more=True),
    "vendor.csv": vendor(),
    "vendor-two.csv": vendor(blank_row=False),
    "vendor-merged.csv": vendor(merged=True),
    "one-field.csv": "Price,Close,Close,Close\n" + text().replace("Datum", "Ticker"),
    "book.xlsx": {"Sheet1": GRID},
    "book-second.xlsx": {"notes": [["read", "me"]], "prices": GRID},
    "book-two.xlsx": {"Sheet1": TWO},
    "book-long.xlsx": {"Sheet1": LONG_GRID},
    "book-text.xlsx": {"S": [GRID[0], *([row[0], *map(european, row[1:])] for row in GRID[1:])]},
    "wide.parquet": PRICES,
    "column.parquet": DATED,
    "long.parquet": DATED.melt("date", var_name="asset", value_name="price"),
}
OPTIONS = {"book-second.xlsx": {"sheet": "prices"}}


def written(content: Any, path: Path) -> Path:
    """Write text, bytes, sheets of a workbook, or a table to a file."""
    if isinstance(content, dict):
        write_workbook(path, content, inline="second" in path.name)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    elif path.suffix == ".parquet":
        content.to_parquet(path)
    else:
        content.to_csv(path, index_label="Date")
    return path


def read(content: Any, *args: Any, name: str = "table.csv", reader: Any = read_prices, **options: Any) -> Any:
    """Return what a reader makes of a file with this content; what it refuses must begin with the path of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(content, Path(folder, name))
        try:
            return reader(path, *args, **options)
        except BadData as error:
            if not str(error).startswith(f"{path}: "):
                raise AssertionError(f"the message does not begin with the path: {error}") from error
            raise


# -- workbooks, written by the standard and not by our reader: shared and inline texts, dates as styled numbers --------

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def cell(value, row, column, texts, inline):
    place = f'r="{chr(65 + column)}{row + 1}"'
    if value is None or value != value:
        return ""
    if isinstance(value, (pd.Timestamp, datetime.datetime)):
        days = (value - pd.Timestamp("1899-12-30")).total_seconds() / 86400
        return f'<c {place} s="1"><v>{days!r}</v></c>'
    if isinstance(value, str):
        if inline:
            return f'<c {place} t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        texts.append(value)
        return f'<c {place} t="s"><v>{len(texts) - 1}</v></c>'
    return f"<c {place}><v>{float(value)!r}</v></c>"


def write_workbook(path, sheets, inline=False):
    """Write rows of cells by the name of the sheet; at most 26 columns."""
    texts: list[str] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        names = "".join(f'<sheet name="{escape(n)}" sheetId="{i}" r:id="rId{i}"/>' for i, n in enumerate(sheets, 1))
        book.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>{names}</sheets></workbook>'
        )
        links = (f'<Relationship Id="rId{i + 1}" Target="worksheets/sheet{i + 1}.xml"/>' for i in range(len(sheets)))
        book.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{PACKAGE}">{"".join(links)}</Relationships>'
        )
        for i, rows in enumerate(sheets.values(), 1):
            lines = ("".join(cell(v, r, c, texts, inline) for c, v in enumerate(row)) for r, row in enumerate(rows))
            body = "".join(f'<row r="{r + 1}">{line}</row>' for r, line in enumerate(lines))
            book.writestr(
                f"xl/worksheets/sheet{i}.xml", f'<worksheet xmlns="{MAIN}"><sheetData>{body}</sheetData></worksheet>'
            )
        book.writestr(
            "xl/styles.xml",
            f'<styleSheet xmlns="{MAIN}"><numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/></numFmts>'
            '<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs></styleSheet>',
        )
        shared = "".join(f"<si><t>{escape(text)}</t></si>" for text in texts)
        book.writestr("xl/sharedStrings.xml", f'<sst xmlns="{MAIN}">{shared}</sst>')
