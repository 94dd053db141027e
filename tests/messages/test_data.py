"""What files are refused for: the file, the column, the row or date, what is there, and what to do."""

from __future__ import annotations

import gzip
import os
import tempfile
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from certeq.data import BadData, frequency_of, read_losses, read_prices
from tests.command import certeq
from tests.data.files import DAYS, GRID, PRICES, decimal_comma, long, read, text, vendor
from tests.messages import messages

losses = partial(read, reader=read_losses)
MOVES = PRICES.pct_change().iloc[1:]
DIFFERENT = vendor(fields=("A1", "A2", "A3"))


def with_cell(row, column, value, table=PRICES):
    table = table.astype(object) if isinstance(value, str) else table.copy()
    table.iloc[row, column] = value
    return table


def numbers(first, second):
    """Two columns of texts, the first texts in all rows of one and in the even rows of the other."""
    rows = [f"{day:%Y-%m-%d};{(first, second)[i % 2]};{(second, first)[i % 2]}" for i, day in enumerate(DAYS)]
    return "\n".join(["date;A;B", *rows])


def dated(dates, table=PRICES):
    return table[: len(dates)].set_axis(dates)


ISO = DAYS.strftime("%Y-%m-%d").tolist()
FILES = {
    "no file": (lambda: read_prices("no/such.csv"), "such.csv: no such file"),
    "a folder": (lambda: read_prices(tempfile.gettempdir()), "is a directory, not a file"),
    "an empty file": (lambda: read(""), "the file is empty"),
    "old Excel": (lambda: read(b"\xd0\xcf", name="old.xls"), ".xls files are not read; save it as .xlsx"),
    "broken Excel": (lambda: read(b"PK\x03\x04 no", name="b.xlsx"), "not a readable .xlsx"),
    "broken Parquet": (lambda: read(b"PAR1 no", name="b.parquet"), "not a readable Parquet file"),
    "broken gzip": (lambda: read(gzip.compress(text().encode())[:99], name="b.csv.gz"), "not a readable"),
    "binary": (lambda: read(b"a\0b\n1\n"), "neither CSV text nor Parquet"),
    "another encoding": (lambda: read("Datum;Börse\n".encode("latin-1") * 9), "not UTF-8", "Save it as"),
    "no sheet": (
        lambda: read({"a": GRID, "b": GRID}, name="b.xlsx", sheet="c"),
        "there is no sheet 'c'. There are: 'a', 'b'",
    ),
    "an empty sheet": (lambda: read({"a": []}, name="b.xlsx"), "the sheet is empty"),
    "a sheet of a CSV file": (lambda: read(text(), sheet="c"), "--sheet 'c' is for Excel files"),
    "a decimal comma between commas": (
        lambda: read("\n".join(["date,A,B", *(f"{day:%Y-%m-%d},1,{50 + i},2,5" for i, day in enumerate(DAYS))])),
        "row 1 of the data has 5 cells and the header 3", "decimal comma",
    ),
    "too wide for losses": (
        lambda: losses("date,loss\n" + "".join(f"2020-01-{i:02d},1,{i}\n" for i in range(1, 29)), "loss"),
        "row 1 of the data has 3 cells and the header 2",
    ),
    "an asset twice": (lambda: read("Date,A,A\n2020-01-01,1,2\n"), "'A' occurs twice", "distinct"),
}  # fmt: skip
if hasattr(os, "mkfifo"):
    FILES["a device"] = (lambda: read_losses(os.devnull), "is not a regular file")
NUMBERS = {
    "thousands or not": (lambda: read(numbers("1,234", "1,235")), "'1,234' may be 1234 or 1.234", "--decimal"),
    "both decimal signs": (
        lambda: read(numbers("1,5", "2.75")), "'1,5' has a decimal comma and '2.75' a decimal point",
    ),
    "both with thousands": (lambda: read(numbers("1,234.5", "1.234,5")), "has a decimal comma and"),
    "no number": (lambda: read(numbers("1,50", "n.v.")), "holds 'n.v.' on 2021-01-05, which is not a number"),
    "two points": (lambda: read(numbers("1,50", "1.5.0")), "holds '1.5.0'"),
    "groups of two": (lambda: read(numbers("1,50", "12,34,56")), "holds '12,34,56'"),
    "a point where commas were given": (
        lambda: read(text(decimal_comma, ";").replace("946,", "946.", 1), decimal=","),
        "column 'ABB' holds '946.23' on 2021-01-05, which is not a number",
    ),
}  # fmt: skip
TABLES = {
    "no heading": (
        lambda: read(text().split("\n", 1)[1]),
        "first row begins with the date 2021-01-04; add a row with the names",
    ),
    "a heading alone": (lambda: read("Date,A\n"), "no rows below the header"),
    "one column": (lambda: read("Date\n2020-01-01\n"), "found one column only", "dates come first"),
    "three rows of headings": (
        lambda: read("a,b,c\nd,e,f\ng,h,i\n2021-01-04,1,2\n"), "found 3 rows of headings; at most 2 are read",
    ),
    "one heading and a field": (
        lambda: read(text(), field="Close"), "--field 'Close' is for two rows of headings; found one",
    ),
    "no known field": (lambda: read(DIFFERENT), "two rows of headings hold 'A1', 'A2', 'A3'", "with --field"),
    "no such field": (lambda: read(vendor(), field="Low"), "there is no field 'Low'", "'Close'", "--field"),
    "an asset twice under a field": (
        lambda: read(vendor().replace("Novo", "ABB")), "the column 'ABB' occurs twice",
    ),
    "no such asset column": (
        lambda: read(long(), asset_column="tickr"),
        "--asset-column: there is no column 'tickr'", "Did you mean 'ticker'", "'date'",
    ),
    "no such value column": (
        lambda: read(long(), value_column="mid"), "--value-column: there is no column 'mid'",
    ),
    "several columns of names": (
        lambda: read(long(more=True).replace("77", "x"), value_column="close"),
        "found 2 columns of names; say which with --asset-column",
    ),
    "several columns of values": (
        lambda: read(long(more=True).replace("close", "mid")),
        "2 columns of numbers ('mid', 'volume')", "--value-column",
    ),
    "a long table with its dates in the index": (
        lambda: read(PRICES, name="p.parquet", value_column="ABB"), "found them in the index",
    ),
    "an asset without a name": (
        lambda: read("ticker,date,close\n" + long().split("\n", 1)[1].replace("ABB", "", 1)),
        "column 'ticker' is empty in row 1",
    ),
    "an asset twice on a day": (
        lambda: read(long() + "ABB,2021-01-04,5.0\n"),
        "'ABB' occurs more than once on 2021-01-04 (1 repetition(s) in all)",
    ),
    "a date twice": (
        lambda: read(dated([*ISO[:5], ISO[4], *ISO[6:]])),
        "the date 2021-01-08 occurs more than once (1 repetition(s) in all)", "--asset-column",
    ),
    "no date": (
        lambda: read(dated([*ISO[:-1], "soon"])),
        "row 80 of the data starts with 'soon', which is not a date", "1 such row", "2024-01-31",
    ),
    "no such day": (lambda: read(dated([*DAYS.strftime("%d/%m/%Y")[:-1], "31/02/2021"])), "'31/02/2021'"),
    "numbers for dates": (lambda: read(dated(range(80))), "found numbers (0, ...)"),
    "days as Excel counts them": (
        lambda: read(dated((DAYS - pd.Timestamp("1899-12-30")).days)),
        "As Excel counts days, 44200 is 2021-01-04: format those cells as dates",
    ),
    "day or month": (
        lambda: read(dated([f"{month:02d}/01/2020" for month in range(1, 13)])),
        "'01/01/2020' may have the day or the month in front",
    ),
    "two digits of a year": (
        lambda: read(dated(pd.date_range("2015-01-31", periods=80, freq="ME").strftime("%b-%y")), periods_per_year=12),
        "'Jan-15' has no year of four digits",
    ),
    "a text": (
        lambda: read(with_cell(3, 0, "n.v.")),
        "column 'ABB' holds 'n.v.' on 2021-01-07, which is not a number.", "(1 such cells",
    ),
    "a number with a text": (
        lambda: read(with_cell(3, 0, "12 x")), "holds '12 x' on 2021-01-07", "Write numbers as 1234.5",
    ),
    "true and false": (lambda: read(PRICES > 1000), "column 'ABB' holds true and false"),
    "a price of 0": (
        lambda: read(with_cell(slice(10, 12), 1, 0.0)),
        "the price of 'Novo' is 0 on 2021-01-18", "above 0 (2 are not)", "Leave a missing price empty",
    ),
    "a negative price": (lambda: read(with_cell(10, 1, -3.0)), "the price of 'Novo' is -3 on 2021-01-18"),
    "an infinite price": (lambda: read(with_cell(10, 1, np.inf)), "'Novo' is infinite on 2021-01-18"),
    "too few assets": (
        lambda: read(PRICES[["ABB"]], least_assets=2),
        "found 1 asset(s) with data; a portfolio needs at least 2",
    ),
    "one row": (lambda: read(PRICES[:1]), "found 1 row(s) of data; returns need at least 2"),
    "few rows": (lambda: read(PRICES[:10]), "only 9 returns remain; at least 10 are needed"),
    "a late start": (
        lambda: read(with_cell(slice(0, -3), 2, np.nan)),
        "only 3 row(s) remain from 2021-04-21 on, when 'DAX 40' has its first value; leave that asset out",
    ),
    "returns for prices": (lambda: read(MOVES), "these look like returns, not prices", "--returns", "returns=True"),
    "percentages for prices": (lambda: read(100 * MOVES), "returns in per cent", "divide them by 100"),
    "gross returns for prices": (lambda: read(1 + MOVES), "gross returns 1 + r", "subtract 1", "--returns"),
    "prices for returns": (lambda: read(PRICES, returns=True), "these look like prices", "leave out --returns"),
    "percentages for returns": (
        lambda: read(with_cell(7, 1, -1.5, MOVES), returns=True),
        "the return of 'Novo' is -1.5 on 2021-01-14", "a loss of more than 100 %", "Divide them by 100",
    ),
    "a gap in returns": (
        lambda: read(with_cell(slice(7, 9), 1, np.nan, MOVES), returns=True),
        "the return of 'Novo' is missing on 2021-01-14 (2 in all)", "give prices, or fill it",
    ),
    "a change of currency": (
        lambda: read(with_cell(slice(40, None), 1, 2000.0)),
        "the price of 'Novo' went from ", " to 2000 on 2021-03-01: a change of currency or unit?",
    ),
    "irregular dates": (
        lambda: read(dated(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(80) ** 2, "D"))),
        "--periods-per-year (periods_per_year= in Python) must be given", "rows a year",
    ),
}  # fmt: skip
LOSSES = {
    "another column of numbers": (
        lambda: losses("id;loss\n1;2,5\n2;3,5\n"),
        "found 1 column of numbers, and 'loss' may be numbers as well; say which with --column", "'id', 'loss'",
    ),
    "two columns of numbers": (lambda: losses("a,b\n1,2\n"), "found 2 columns of numbers", "--column"),
    "a column of texts": (
        lambda: losses("name;loss\na1;1,5\n"), "no column of numbers, and 'loss' may be numbers",
    ),
    "no such column": (lambda: losses("loss\n1\n", "lost"), "no column 'lost'. Did you mean 'loss'"),
    "no names": (
        lambda: losses("0.5\n1.5\n"), "first row holds '0.5', where the names of the columns belong", "--column",
    ),
    "thousands or not in one column": (
        lambda: losses("loss\n1,234\n2,345\n"), "'1,234' may be 1234 or 1.234: pass --decimal",
    ),
    "thousands or not in two": (
        lambda: losses("loss;n\n1,200;x\n1,201;x\n", "loss"), "'1,200' may be 1200 or 1.200: pass --decimal",
    ),
    "points where commas were given": (
        lambda: losses("loss\n0.5\n12.25\n", decimal=","),
        "column 'loss' holds '0.5' in row 1, which is not a number",
    ),
    "a point among commas": (
        lambda: losses("id;loss\n1;0,5\n2;12.55\n", "loss", decimal=","), "column 'loss' holds '12.55' in row 2",
    ),
    "a text among losses": (lambda: losses("loss,n\n1,1\nn/k,2\n", "loss"), "holds 'n/k' in row 2"),
    "an empty cell": (
        lambda: losses("loss,n\n1,1\n,2\n", "loss"), "column 'loss' is empty in row 2 (1 such row(s))",
    ),
    "an infinite loss": (lambda: losses("loss,n\n1,1\n-inf,2\n", "loss"), "'loss' is infinite in row 2"),
    "no rows": (lambda: losses("loss,n\n", "loss"), "column 'loss' has no rows"),
    "dates for losses": (
        lambda: losses(pd.DataFrame({"when": DAYS}), "when", name="l.parquet"),
        "column 'when' holds dates or times, not losses",
    ),
    "truths for losses": (
        lambda: losses(pd.DataFrame({"late": [True]}), "late", name="l.parquet"), "holds true and false",
    ),
}  # fmt: skip
MESSAGES: dict[str, tuple[Any, ...]] = {
    name: (call, BadData, *parts)
    for table in (FILES, NUMBERS, TABLES, LOSSES)
    for name, (call, *parts) in table.items()
}
MESSAGES |= {
    "a decimal sign": (lambda: read(text(), decimal=";"), ValueError, "decimal must be one of", "';'"),
    "a decimal sign of losses": (lambda: losses("loss\n1\n", decimal=";"), ValueError, "decimal must be one of", "';'"),
    "a frequency": (lambda: frequency_of(DAYS, -1), ValueError, "periods_per_year must be", "found -1"),
    "no frequency": (lambda: frequency_of(DAYS, 0), ValueError, "periods_per_year must be", "found 0"),
    "a frequency that is no number": (lambda: frequency_of(DAYS, np.nan), ValueError, "found NaN"),
    "an infinite frequency": (lambda: frequency_of(DAYS, np.inf), ValueError, "found inf"),
}
test_message = messages(MESSAGES)


def test_many_files_are_refused_by_the_name_of_the_one(tmp_path):
    pytest.importorskip("dask.dataframe")
    parquet = pd.DataFrame({"loss": pd.to_datetime(["2020-01-01"])}).to_parquet
    cases = [
        ("b.csv", lambda path: path.write_text(""), "b.csv: the file is empty"),
        ("b.csv", lambda path: path.write_text("loss,m\n1,2\n"), "its columns are 'loss', 'm', unlike those of a.csv"),
        ("b.csv", lambda path: path.write_text("loss,n\n1.0,2\n,3\n"), "b.csv: column 'loss' is empty in row 2"),
        ("b.csv", lambda path: path.write_text('loss,n\n"1,5",2\n'), "b.csv: column 'loss'"),
        ("b.parquet", parquet, "b.parquet: column 'loss' holds dates or times"),
    ]
    for number, (name, write, part) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        table = pd.DataFrame({"loss": [1.5, 2.5], "n": [1, 2]})
        if name.endswith("csv"):
            table.to_csv(folder / "a.csv", index=False)
        else:
            table[["loss"]].to_parquet(folder / "a.parquet")
        write(folder / name)
        assert part in " ".join(certeq("estimate", folder, "-c", "loss", code=1).err.split())
