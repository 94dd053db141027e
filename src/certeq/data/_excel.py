"""One sheet of an .xlsx file as rows of cells: numbers, texts, dates. Nothing of formulas but their stored results."""

from __future__ import annotations

import re
import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LINKS = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}  # built-in formats of dates and times
_MOST = 1 << 30  # bytes that a sheet may unpack to
_EPOCH = datetime(1899, 12, 30)  # as Excel counts, which takes 1900 for a leap year


class NotExcel(ValueError):
    """The file is not an .xlsx workbook, or not this sheet of one."""


def read_sheet(path: Path, sheet: str | None = None) -> tuple[list[list[Any]], str, list[str]]:
    """The rows of a sheet (the first if None), its name, and the names of all sheets."""
    try:
        with zipfile.ZipFile(path) as book:
            if sum(entry.file_size for entry in book.infolist()) > _MOST:
                raise NotExcel(f"it unpacks to more than {_MOST >> 30} GiB")
            workbook = _tree(book, "xl/workbook.xml")
            sheets = {str(entry.get("name")): str(entry.get(f"{_LINKS}id")) for entry in workbook.iter(f"{_MAIN}sheet")}
            if not sheets:
                raise NotExcel("it has no sheets")
            wanted = next(iter(sheets)) if sheet is None else sheet
            if wanted not in sheets:
                raise NotExcel(f"there is no sheet {wanted!r}. There are: {', '.join(map(repr, sheets))}")
            links = _tree(book, "xl/_rels/workbook.xml.rels")
            target = next(str(link.get("Target")) for link in links if link.get("Id") == sheets[wanted])
            name = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
            shift = any(entry.get("date1904") in ("1", "true") for entry in workbook.iter(f"{_MAIN}workbookPr"))
            return _rows(_tree(book, name), _texts(book), _date_styles(book), shift), wanted, list(sheets)
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, StopIteration, IndexError, ValueError) as error:
        if isinstance(error, NotExcel):
            raise
        raise NotExcel(f"not a readable .xlsx workbook ({error})") from None


def _tree(book: zipfile.ZipFile, name: str) -> ElementTree.Element:
    return ElementTree.fromstring(book.read(name))


def _texts(book: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in book.namelist():
        return []
    return [_text_of(entry) for entry in _tree(book, "xl/sharedStrings.xml").iter(f"{_MAIN}si")]


def _text_of(entry: ElementTree.Element) -> str:
    return "".join(part.text or "" for part in entry.iter(f"{_MAIN}t"))


def _date_styles(book: zipfile.ZipFile) -> set[int]:
    """The styles of cells whose numbers are dates."""
    if "xl/styles.xml" not in book.namelist():
        return set()
    styles = _tree(book, "xl/styles.xml")
    own = {
        int(entry.get("numFmtId", 0)): re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", entry.get("formatCode", ""))
        for entry in styles.iter(f"{_MAIN}numFmt")
    }
    dates = _DATES | {key for key, code in own.items() if re.search("[dmyhDMYH]", code)}
    formats = styles.find(f"{_MAIN}cellXfs")
    return {
        i for i, entry in enumerate(formats if formats is not None else []) if int(entry.get("numFmtId", 0)) in dates
    }


def _rows(sheet: ElementTree.Element, texts: list[str], dates: set[int], shift: bool) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for row in sheet.iter(f"{_MAIN}row"):
        cells: list[Any] = []
        for cell in row.iter(f"{_MAIN}c"):
            column = _column(cell.get("r", ""), len(cells))
            cells += [None] * (column - len(cells))
            cells.append(_cell(cell, texts, dates, shift))
        rows.append(cells)
    width = max((len(cells) for cells in rows), default=0)
    rows = [cells + [None] * (width - len(cells)) for cells in rows]
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    return [cells for cells in rows if any(cell is not None for cell in cells)]


def _column(reference: str, following: int) -> int:
    letters = re.match("[A-Z]*", reference)
    if letters is None or not letters[0]:
        return following
    number = 0
    for letter in letters[0]:
        number = 26 * number + ord(letter) - 64
    return max(number - 1, following)


def _cell(cell: ElementTree.Element, texts: list[str], dates: set[int], shift: bool) -> Any:
    kind, value = cell.get("t", "n"), cell.find(f"{_MAIN}v")
    if kind == "inlineStr":
        return _text_of(cell)
    if value is None or value.text is None:
        return None
    if kind == "s":
        return texts[int(value.text)]
    if kind == "b":
        return value.text == "1"
    if kind in ("str", "e", "d"):
        return value.text
    number = float(value.text)
    if int(cell.get("s", 0)) in dates:
        seconds = round(number * 86400)  # days as floats are off by microseconds
        return _EPOCH + timedelta(days=1462 if shift else 0, seconds=seconds)
    return number
