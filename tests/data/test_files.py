"""Files as people have them: one table in every layout gives the same prices, by the command and in Python."""

import gzip
import json
import os

import numpy as np
import pandas as pd
import pytest

from certeq.data import BadData, read_losses, read_prices
from tests.data.workbooks import write_workbook

RNG = np.random.default_rng(11)
DAYS = pd.bdate_range("2021-01-04", periods=80)
MOVES = 1.0 + RNG.normal(0.0004, [0.01, 0.012, 0.02], (80, 3))
PRICES = pd.DataFrame((np.cumprod(MOVES, axis=0) * [950.0, 16.0, 32000.0]).round(2), DAYS, ["ABB", "Novo", "DAX 40"])
assert (PRICES["ABB"] > 1000).any()
assert (PRICES["ABB"] < 1000).any()


def plain(value):
    return repr(float(value))


def european(value):
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def text(write, separator=";", dates="%Y-%m-%d", quote=""):
    rows = [["Datum", *PRICES.columns]]
    rows += [[day.strftime(dates), *map(write, row)] for day, row in zip(DAYS, PRICES.to_numpy(), strict=True)]
    return "\n".join(separator.join(f"{quote}{cell}{quote}" for cell in row) for row in rows) + "\n"


def long(write, separator=",", more=False):
    lines = [separator.join(["ticker", "date", "close", *(["volume"] if more else [])])]
    for name in PRICES:
        lines += [
            separator.join([name, f"{day:%Y-%m-%d}", write(price), *(["77"] if more else [])])
            for day, price in PRICES[name].items()
        ]
    return "\n".join(lines) + "\n"


def vendor(blank_row=True, merged=False):
    fields = ["Close", "Open", "Volume"]
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
FILES = {
    "plain.csv": text(plain, ","),
    "tabs.csv": text(plain, "\t"),
    "european.csv": text(european),
    "european-dates.csv": text(european, dates="%d.%m.%Y"),
    "decimal-comma.csv": text(lambda value: f"{value:.2f}".replace(".", ",")),
    "quoted-comma.csv": text(lambda value: f"{value:.2f}".replace(".", ","), ",", quote='"'),
    "thousands.csv": text(lambda value: f"{value:,.2f}", ",", quote='"'),
    "swiss.csv": text(lambda value: f"{value:,.2f}".replace(",", "'")),
    "french.csv": text(lambda value: f"{value:,.2f}".replace(",", "\u202f").replace(".", ",")),
    "dollars.csv": text(lambda value: f"${value:,.2f}"),
    "euros.csv": text(lambda value: f"{european(value)} €"),
    "packed.csv.gz": gzip.compress(text(european).encode()),
    "long.csv": long(plain),
    "long-european.csv": long(european, ";"),
    "long-volume.csv": long(plain, more=True),
    "vendor.csv": vendor(),
    "vendor-two.csv": vendor(blank_row=False),
    "vendor-merged.csv": vendor(merged=True),
    "one-field.csv": "Price,Close,Close,Close\n" + text(plain, ",").replace("Datum", "Ticker"),
    "book.xlsx": {"Sheet1": GRID},
    "book-second.xlsx": {"notes": [["read", "me"]], "prices": GRID},
    "book-two.xlsx": {"Sheet1": TWO},
    "book-long.xlsx": {"Sheet1": LONG_GRID},
    "book-text.xlsx": {"S": [GRID[0], *([row[0], *map(european, row[1:])] for row in GRID[1:])]},
}
OPTIONS = {"book-second.xlsx": {"sheet": "prices"}}
DATED = PRICES.rename_axis("date").reset_index()
PARQUET = {
    "wide.parquet": PRICES,
    "column.parquet": DATED,
    "long.parquet": DATED.melt("date", var_name="asset", value_name="price"),
}


def written(name, folder):
    path = folder / name
    if name in PARQUET:
        PARQUET[name].to_parquet(path)
    elif isinstance(FILES[name], dict):
        write_workbook(path, FILES[name], inline="second" in name)
    elif isinstance(FILES[name], bytes):
        path.write_bytes(FILES[name])
    else:
        path.write_text(FILES[name], encoding="utf-8")
    return path


def run(*arguments):
    cli = pytest.importorskip("typer.testing")
    from certeq.cli._app import app

    return cli.CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize("name", [*FILES, *PARQUET])
def test_the_same_prices_to_the_last_digit(name, tmp_path):
    found = read_prices(written(name, tmp_path), **OPTIONS.get(name, {}))
    assert list(found.prices.columns) == list(PRICES.columns)
    assert (found.prices.index == DAYS).all()
    assert np.array_equal(found.prices.to_numpy(), PRICES.to_numpy())
    assert np.array_equal(found.returns.to_numpy(), PRICES.pct_change().iloc[1:].to_numpy())
    assert found.frequency.periods_per_year == 252


@pytest.mark.parametrize("name", [*FILES, *PARQUET])
def test_the_command_reads_what_python_reads(name, tmp_path):
    pytest.importorskip("skfolio")
    options = ["--alpha=0.2"] + [f"--{key}={value}" for key, value in OPTIONS.get(name, {}).items()]
    found = run("portfolio", written(name, tmp_path), "--json", *options)
    assert found.exit_code == 0, found.stderr
    plain = run("portfolio", written("plain.csv", tmp_path), "--json", "--alpha=0.2")
    assert json.loads(found.stdout)["weights"] == json.loads(plain.stdout)["weights"]
    assert json.loads(found.stdout)["metrics"] == json.loads(plain.stdout)["metrics"]
    assert json.loads(found.stdout)["notes"] == read_prices(tmp_path / name, **OPTIONS.get(name, {})).notes


def test_guesses_are_shown(tmp_path):
    def notes(name):
        return " ".join(read_prices(written(name, tmp_path), **OPTIONS.get(name, {})).notes)

    assert notes("plain.csv") == ""
    assert "decimal comma" in notes("european.csv")
    assert "separators of thousands" in notes("european.csv")
    assert "decimal comma" not in notes("thousands.csv")
    assert "currency signs ($)" in notes("dollars.csv")
    assert "'ticker' names the assets and 'close'" in notes("long-volume.csv")
    assert "'Close' of 3 assets taken" in notes("vendor.csv")
    assert "note: numbers have a decimal comma" in repr(read_prices(tmp_path / "european.csv"))
    assert "decimal comma" in run("portfolio", tmp_path / "european.csv").stderr


def test_fields_and_columns_can_be_chosen(tmp_path):
    path = written("vendor.csv", tmp_path)
    assert np.array_equal(read_prices(path, field="open").prices.to_numpy(), (PRICES + 1).to_numpy())
    path = written("long-volume.csv", tmp_path)
    volumes = read_prices(path, value_column="volume").prices
    assert (volumes == 77).all().all()
    path.write_text(path.read_text().replace("close", "mid"))
    with pytest.raises(BadData, match=r"2 columns of numbers \('mid', 'volume'\); say which with --value-column"):
        read_prices(path)
    assert np.array_equal(
        read_prices(path, asset_column="ticker", value_column="mid").prices.to_numpy(), PRICES.to_numpy()
    )


def test_percent_signs_are_hundredths(tmp_path):
    moves = PRICES.pct_change().iloc[1:].round(6)
    path = tmp_path / "returns.csv"
    for point in (".", ","):
        rows = [["date", *moves]]
        for day, row in zip(moves.index, moves.to_numpy(), strict=True):
            rows.append([f"{day:%Y-%m-%d}", *(f"{100 * move:.4f} %".replace(".", point) for move in row)])
        path.write_text("\n".join(map(";".join, rows)))
        found = read_prices(path, returns=True)
        assert np.array_equal(found.returns.to_numpy(), moves.to_numpy())
        assert "percent signs" in " ".join(found.notes)
        assert found.prices is None


@pytest.mark.parametrize(
    ("cells", "match"),
    [
        (["1,234", "1,235"], r"'1,234' may be 1234 or 1.234: pass --decimal"),
        (["1,5", "2.75"], r"'1,5' has a decimal comma and '2.75' a decimal point"),
        (["1,234.5", "1.234,5"], "has a decimal comma and"),
        (["1,50", "n.v."], "holds 'n.v.' on 2021-01-05, which is not a number"),
        (["1,50", "1.5.0"], "holds '1.5.0'"),
        (["1,50", "12,34,56"], "holds '12,34,56'"),
    ],
)
def test_numbers_that_cannot_be_told_are_refused(tmp_path, cells, match):
    path = tmp_path / "odd.csv"
    lines = [f"{day:%Y-%m-%d};{cells[i % len(cells)]};{cells[-1 - i % len(cells)]}" for i, day in enumerate(DAYS)]
    path.write_text("\n".join(["date;A;B", *lines]))
    with pytest.raises(BadData, match=r"odd\.csv: .*" + match):
        read_prices(path)


def test_points_that_may_separate_thousands_are_noted(tmp_path):
    path = tmp_path / "whole.csv"
    path.write_text("\n".join(["date;A;B", *(f"{day:%Y-%m-%d};1.{800 + i};{32 + i}" for i, day in enumerate(DAYS))]))
    found = read_prices(path)
    assert found.prices["A"].iloc[0] == 1.8
    assert "'1.800' was read with a decimal point; if it separates thousands pass --decimal ','." in found.notes
    assert read_prices(path, decimal=",").prices["A"].iloc[0] == 1800.0
    path.write_text(path.read_text().replace(";1.8", ";0.8"))
    assert read_prices(path).notes == []


def test_decimal_commas_between_commas_are_refused(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(["date,A,B", *(f"{day:%Y-%m-%d},1,{50 + i},2,5" for i, day in enumerate(DAYS))]))
    with pytest.raises(BadData, match="wide.csv: row 1 of the data has 5 cells and the header 3.*decimal comma"):
        read_prices(path)
    path.write_text("date,loss\n" + "".join(f"2020-01-{i:02d},1,{i}\n" for i in range(1, 29)))
    with pytest.raises(BadData, match="row 1 of the data has 3 cells and the header 2"):
        read_losses(path, "loss")  # pandas would take the dates for an index, and the last digit for the loss
    assert "3 cells and the header 2" in run("estimate", tmp_path / "*.csv", "-c", "loss").stderr
    path.write_text("date;A;B\n" + "".join(f"{day:%Y-%m-%d};1{i};2{i};\n" for i, day in enumerate(DAYS)))
    assert read_prices(path).prices["A"].iloc[3] == 13.0  # a separator at the end of every row does no harm


@pytest.mark.parametrize("decimal", [None, ","])
def test_commas_in_a_file_of_one_column_are_decimal(tmp_path, decimal):
    path = tmp_path / "one.csv"
    path.write_text("loss\n0,5\n1,25\n-3,125\n")
    assert read_losses(path, decimal=decimal).values.tolist() == [0.5, 1.25, -3.125]
    path.write_text("loss\n1,234\n2,345\n")
    if decimal is None:
        with pytest.raises(BadData, match="'1,234' may be 1234 or 1.234: pass --decimal"):
            read_losses(path)
    else:
        assert read_losses(path, decimal=decimal).values.tolist() == [1.234, 2.345]


def test_decimal_points_where_commas_were_said_are_refused(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("loss\n0.5\n12.25\n")
    with pytest.raises(BadData, match="column 'loss' holds '0.5' in row 1, which is not a number"):
        read_losses(path, decimal=",")


def test_the_decimal_sign_can_be_said(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("\n".join(["date;A", *(f"{day:%Y-%m-%d};1,{300 + i}" for i, day in enumerate(DAYS))]))
    assert read_prices(path, decimal=",").prices["A"].iloc[0] == 1.3
    assert read_prices(path, decimal=".").prices["A"].iloc[0] == 1300.0
    path.write_text("\n".join(["date;A", *(f"{day:%Y-%m-%d};{300 + i}" for i, day in enumerate(DAYS))]))
    assert read_prices(path, decimal=",").prices["A"].iloc[1] == 301.0
    with pytest.raises(ValueError, match="decimal must be one of"):
        read_prices(path, decimal=";")
    assert run("portfolio", path, "--decimal", ";").exit_code == 2


def test_what_cannot_be_read_is_refused_by_its_name(tmp_path):
    def refused(name, content, match, **options):
        path = tmp_path / name
        path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
        with pytest.raises(BadData, match=match) as error:
            read_prices(path, **options)
        assert str(error.value).startswith(str(path))

    refused("old.xls", b"\xd0\xcf\x11\xe0", r"\.xls files are not read; save it as \.xlsx")
    refused("broken.xlsx", b"PK\x03\x04 not really", "not a readable .xlsx")
    refused("cut.csv.gz", FILES["packed.csv.gz"][:200], "gzip|CSV")
    refused("twice.csv", FILES["long.csv"] + "ABB,2021-01-04,5.0\n", "'ABB' occurs more than once on 2021-01-04")
    refused(
        "fields.csv",
        vendor().replace("Close", "A1").replace("Open", "A2").replace("Volume", "A3"),
        "say which with --field",
    )
    refused("none.csv", vendor(), "there is no field 'Low'", field="Low")
    refused("single.csv", FILES["plain.csv"], "--field 'Close' is for two rows", field="Close")
    refused("column.csv", FILES["long.csv"], "--value-column: there is no column 'mid'", value_column="mid")
    write_workbook(tmp_path / "book.xlsx", {"a": GRID, "b": GRID})
    with pytest.raises(BadData, match=r"there is no sheet 'c'\. There are: 'a', 'b'"):
        read_prices(tmp_path / "book.xlsx", sheet="c")


# -- a column of losses -----------------------------------------------------------------------------------------------


def test_the_loss_column_is_never_guessed_where_another_could_be_meant(tmp_path):
    path = tmp_path / "losses.csv"
    path.write_text("id;loss\n" + "".join(f"{i};{i % 7},{i % 10}\n" for i in range(100)))
    with pytest.raises(BadData, match=r"found 1 column of numbers, and 'loss' may be numbers as well; say which"):
        read_losses(path)
    found = read_losses(path, "loss")
    assert np.array_equal(found.values, [float(f"{i % 7}.{i % 10}") for i in range(100)])
    assert "decimal comma" in found.notes[0]
    refused = run("estimate", path)
    assert refused.exit_code == 1
    assert "say which with --column" in refused.stderr
    assert json.loads(run("estimate", path, "-c", "loss", "--json").stdout)["oce"] == pytest.approx(6.6, abs=0.5)
    path.write_text("name;loss\n" + "".join(f"a{i};{i},5\n" for i in range(30)))
    with pytest.raises(BadData, match="no column of numbers, and 'loss' may be numbers"):
        read_losses(path)
    path.write_text("name,loss\n" + "".join(f"a{i},{i}.5\n" for i in range(30)))
    assert read_losses(path).column == "loss"
    path.write_text("loss;n\n" + "".join(f"1,{200 + i};x\n" for i in range(30)))
    with pytest.raises(BadData, match="'1,200' may be 1200 or 1.200: pass --decimal"):
        read_losses(path, "loss")
    assert read_losses(path, "loss", decimal=".").values[0] == 1200.0


def test_losses_from_other_formats(tmp_path):
    values = RNG.normal(size=50).round(3)
    wanted = pd.DataFrame({"loss": values, "when": pd.date_range("2020-01-01", periods=50), "late": values > 0})
    wanted.to_parquet(tmp_path / "l.parquet")
    write_workbook(tmp_path / "l.xlsx", {"S": [["loss", "name"], *([value, "a"] for value in values)]})
    (tmp_path / "l.csv.gz").write_bytes(gzip.compress(("loss\n" + "\n".join(map(repr, values.tolist()))).encode()))
    for name in ("l.parquet", "l.xlsx", "l.csv.gz"):
        assert np.array_equal(read_losses(tmp_path / name).values, values), name
    for column, what in (("when", "dates or times"), ("late", "true and false")):
        with pytest.raises(BadData, match=f"l.parquet: column '{column}' holds {what}"):
            read_losses(tmp_path / "l.parquet", column)


def test_many_files_are_refused_by_the_name_of_the_one(tmp_path):
    pytest.importorskip("dask.dataframe")

    def folder(name, **files):
        (tmp_path / name).mkdir()
        for key, content in {"a.csv": "loss,n\n1.5,1\n2.5,2\n", **files}.items():
            (tmp_path / name / key).write_text(content)
        return tmp_path / name

    def said(path, *more):
        found = run("estimate", path, "-c", "loss", *more)
        assert found.exit_code == 1, found.stdout
        return found.stderr

    assert "b.csv: the file is empty" in said(folder("empty", **{"b.csv": ""}))
    assert "b.csv: its columns are 'loss', 'm', unlike those of a.csv" in said(
        folder("other", **{"b.csv": "loss,m\n1,2\n"})
    )
    assert "b.csv: column 'loss' is empty in row 2" in said(folder("gap", **{"b.csv": "loss,n\n1.0,2\n,3\n"}))
    assert "b.csv: column 'loss'" in said(folder("comma", **{"b.csv": 'loss,n\n"1,5",2\n"2,5",3\n'}))
    (tmp_path / "dates").mkdir()
    pd.DataFrame({"loss": [1.0, 2.0]}).to_parquet(tmp_path / "dates" / "a.parquet")
    pd.DataFrame({"loss": pd.to_datetime(["2020-01-01"])}).to_parquet(tmp_path / "dates" / "b.parquet")
    assert "b.parquet: column 'loss' holds dates or times" in said(tmp_path / "dates")
    packed = folder("packed")
    (packed / "a.csv").unlink()
    for name in "xy":
        (packed / f"{name}.csv.gz").write_bytes(
            gzip.compress(b"loss,n\n" + b"".join(b"%d.5,1\n" % i for i in range(40)))
        )
    assert json.loads(run("estimate", packed, "-c", "loss", "--json").stdout)["n"] == 80


def test_texts_of_utf_16_are_read(tmp_path):
    for name, order in (("little.csv", "utf-16"), ("big.csv", "utf-16-be")):
        content = text(european, separator="\t")
        (tmp_path / name).write_bytes(("\ufeff" * (order != "utf-16") + content).encode(order))
        assert read_prices(tmp_path / name).prices.equals(PRICES.rename_axis(None)), name
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text(european).encode("utf-16")))
    assert read_prices(tmp_path / "packed.csv.gz").prices.equals(PRICES.rename_axis(None))


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC"])
def test_dates_with_zones_keep_their_day(tmp_path, zone):
    zoned = PRICES.set_axis(DAYS.tz_localize(zone))
    zoned.to_csv(tmp_path / "zoned.csv")
    zoned.to_parquet(tmp_path / "zoned.parquet")
    for name in ("zoned.csv", "zoned.parquet"):
        assert (read_prices(tmp_path / name).prices.index == DAYS).all(), name


def test_an_hour_that_occurs_twice_is_read_by_the_common_clock(tmp_path):
    hours = pd.date_range("2024-10-26", periods=80, freq="h", tz="Europe/Berlin")
    PRICES.set_axis(hours).to_csv(tmp_path / "hours.csv")
    found = read_prices(tmp_path / "hours.csv", periods_per_year=8760).prices
    assert (found.index == hours.tz_convert("UTC").tz_localize(None)).all()


def test_a_first_row_of_data_is_no_heading(tmp_path):
    (tmp_path / "bare.csv").write_text(text(plain).split("\n", 1)[1])
    with pytest.raises(BadData, match="first row begins with the date 2021-01-04; add a row with the names"):
        read_prices(tmp_path / "bare.csv")
    (tmp_path / "losses.csv").write_text("0.5\n1.5\n2.5\n")
    with pytest.raises(BadData, match="first row holds '0.5', where the names of the columns belong"):
        read_losses(tmp_path / "losses.csv")
    assert read_losses(tmp_path / "losses.csv", "0.5").values.tolist() == [1.5, 2.5]  # said to be a name
    (tmp_path / "series.csv").write_text("0\n1.5\n2.5\n")  # as pandas names a series without a name
    assert read_losses(tmp_path / "series.csv").values.tolist() == [1.5, 2.5]


def test_dates_that_say_too_little_are_refused(tmp_path):
    months = pd.date_range("2015-01-31", periods=80, freq="ME")
    PRICES.set_axis(months.strftime("%b-%y")).to_csv(tmp_path / "months.csv")
    with pytest.raises(BadData, match="'Jan-15' has no year of four digits"):
        read_prices(tmp_path / "months.csv", periods_per_year=12)
    PRICES.set_axis((DAYS - pd.Timestamp("1899-12-30")).days).to_csv(tmp_path / "serial.csv")
    with pytest.raises(BadData, match="As Excel counts days, 44200 is 2021-01-04: format those cells as dates"):
        read_prices(tmp_path / "serial.csv")


def test_the_only_column_may_have_decimal_commas(tmp_path):
    (tmp_path / "losses.csv").write_text('loss\n"0,5"\n"1.200,25"\n')
    found = read_losses(tmp_path / "losses.csv")
    assert found.values.tolist() == [0.5, 1200.25]
    assert found.notes[0].startswith("numbers have a decimal comma")


def test_a_number_of_the_other_decimal_sign_is_refused(tmp_path):
    (tmp_path / "losses.csv").write_text("id;loss\n1;0,5\n2;12.55\n")
    with pytest.raises(BadData, match="column 'loss' holds '12.55' in row 2"):
        read_losses(tmp_path / "losses.csv", "loss", decimal=",")
    cells = text(lambda value: f"{value:.2f}".replace(".", ",")).split("\n")
    cells[5] = cells[5].replace(",", ".")
    (tmp_path / "prices.csv").write_text("\n".join(cells))
    with pytest.raises(BadData, match="column 'ABB' holds '.*' on 2021-01-08, which is not a number"):
        read_prices(tmp_path / "prices.csv", decimal=",")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_among_losses_are_noted_and_counted(tmp_path, end):
    path = tmp_path / "losses.csv"

    def write(*lines):
        path.write_bytes(end.join(["loss", *lines]).encode())

    write("1", "", "2", "  ", "3", "4", "", "")
    found = read_losses(path)
    assert found.values.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert found.notes == ["2 blank line(s) skipped, the first in row 2 of the data."]
    write("1", "2", "", "")  # a blank end is normal
    assert read_losses(path).notes == []
    write("1", "", "2", "", "n/k", "5")
    with pytest.raises(BadData, match="holds 'n/k' in row 5,"):
        read_losses(path)
    write("1", "", "2", '""', "", "5")
    with pytest.raises(BadData, match="is empty in row 4 "):
        read_losses(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_blank_lines_count_in_messages_on_other_files(tmp_path, encoding):
    lines = text(plain, separator="\t").split("\n")
    lines[40] = "soon" + lines[40][10:]
    lines[5:5] = ["", ""]
    (tmp_path / "prices.csv").write_bytes("\n".join(lines).encode(encoding))
    with pytest.raises(BadData, match="row 42 of the data starts with 'soon'"):
        read_prices(tmp_path / "prices.csv")
    with gzip.open(tmp_path / "prices.csv.gz", "wb") as stream:
        stream.write("\n".join(lines).encode(encoding))
    with pytest.raises(BadData, match="row 42 of the data starts with 'soon'"):
        read_prices(tmp_path / "prices.csv.gz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices of POSIX")
@pytest.mark.parametrize("read", [read_losses, read_prices])
def test_pipes_and_devices_are_refused(tmp_path, read):
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", os.devnull):
        with pytest.raises(BadData, match="is not a regular file"):
            read(path)
