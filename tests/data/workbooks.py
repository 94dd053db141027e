"""A writer of .xlsx files, by the standard and not by our reader: shared and inline texts, dates as styled numbers."""

import datetime
import zipfile
from xml.sax.saxutils import escape

import pandas as pd

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def letters(column):
    name = ""
    while column >= 0:
        name = chr(65 + column % 26) + name
        column = column // 26 - 1
    return name


def cell(value, row, column, texts, inline):
    place = f'r="{letters(column)}{row + 1}"'
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
    """``sheets`` are rows of cells by the name of the sheet."""
    texts = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        names = "".join(f'<sheet name="{escape(n)}" sheetId="{i}" r:id="rId{i}"/>' for i, n in enumerate(sheets, 1))
        book.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>{names}</sheets></workbook>'
        )
        links = "".join(
            f'<Relationship Id="rId{i}" Target="worksheets/sheet{i}.xml"/>' for i in range(1, len(sheets) + 1)
        )
        book.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{PACKAGE}">{links}</Relationships>')
        for i, rows in enumerate(sheets.values(), 1):
            body = "".join(
                f'<row r="{r + 1}">{"".join(cell(v, r, c, texts, inline) for c, v in enumerate(row))}</row>'
                for r, row in enumerate(rows)
            )
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
