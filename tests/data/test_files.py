"""Files as people have them: one table in every layout gives the same prices, and a column the same losses."""

import gzip

import numpy as np
import pandas as pd
import pytest

from certeq.data import read_losses, read_prices
from tests.command import certeq
from tests.data.files import DAYS, LAYOUTS, OPTIONS, PRICES, decimal_comma, european, long, read, text, vendor, written


def losses(content, column=None, **options):
    return read(content, column, reader=read_losses, **options)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_same_prices_to_the_last_digit(name):
    found = read(LAYOUTS[name], name=name, **OPTIONS.get(name, {}))
    assert list(found.prices.columns) == list(PRICES.columns)
    assert (found.prices.index == DAYS).all()
    assert np.array_equal(found.prices.to_numpy(), PRICES.to_numpy())
    assert np.array_equal(found.returns.to_numpy(), PRICES.pct_change().iloc[1:].to_numpy())
    assert found.frequency.periods_per_year == 252
    assert found.source == name


def test_the_command_reads_what_python_reads(tmp_path):
    pytest.importorskip("skfolio")
    plain, european = (
        certeq("portfolio", written(LAYOUTS[name], tmp_path / name), "--json").json()
        for name in ("plain.csv", "european.csv")
    )
    assert plain["weights"] == european["weights"]
    assert set(read_prices(tmp_path / "european.csv").notes) <= set(european["notes"])


def test_guesses_are_noted():
    def notes(name):
        return " ".join(read(LAYOUTS[name], name=name).notes)

    assert notes("plain.csv") == ""
    assert "decimal comma" in notes("european.csv")
    assert "separators of thousands" in notes("european.csv")
    assert "decimal comma" not in notes("thousands.csv")
    assert "currency signs ($)" in notes("dollars.csv")
    assert "'ticker' names the assets and 'close'" in notes("long-volume.csv")
    assert "'Close' of 3 assets taken" in notes("vendor.csv")
    assert "two rows of headings: the assets are 'ABB', 'Novo', 'DAX 40'; 'Close' not used" in notes("one-field.csv")
    shown = repr(read(LAYOUTS["european.csv"]))
    assert shown.startswith("PriceData(table.csv: 79 returns of 3 assets, 252 days a year, 2021-01-05 to 2021-04-23)")
    assert "\n  note: numbers have a decimal comma" in shown


def test_fields_and_columns_can_be_chosen():
    assert np.array_equal(read(vendor(), field="open").prices.to_numpy(), (PRICES + 1).to_numpy())
    adjusted = vendor(fields=("Open", "Adj Close", "Close"))  # preferred to the plain close
    assert np.array_equal(read(adjusted).prices.to_numpy(), (PRICES + 1).to_numpy())
    assert (read(long(more=True), value_column="volume").prices == 77).all().all()
    mid = long(more=True).replace("close", "mid")
    found = read(mid, asset_column="ticker", value_column="mid").prices
    assert np.array_equal(found.to_numpy(), PRICES.to_numpy())


def test_names_of_assets_may_be_numbers():
    assert list(read(PRICES.set_axis(range(3), axis=1)).prices.columns) == ["0", "1", "2"]
    assert list(read(PRICES.set_axis([700, 941, 5], axis=1)).prices.columns) == ["700", "941", "5"]


def test_percent_signs_are_hundredths():
    moves = PRICES.pct_change().iloc[1:].round(6)
    for point in (".", ","):
        shown = text(lambda move, point=point: f"{100 * move:.4f} %".replace(".", point), ";", table=moves)
        found = read(shown, returns=True)
        assert np.array_equal(found.returns.to_numpy(), moves.to_numpy())
        assert "percent signs" in " ".join(found.notes)
        assert found.prices is None


def test_points_that_may_separate_thousands_are_noted():
    whole = "\n".join(["date;A;B", *(f"{day:%Y-%m-%d};1.{800 + i};{32 + i}" for i, day in enumerate(DAYS))])
    found = read(whole)
    assert found.prices["A"].iloc[0] == 1.8
    assert "'1.800' was read with a decimal point; if it separates thousands pass --decimal ','." in found.notes
    assert read(whole, decimal=",").prices["A"].iloc[0] == 1800.0
    assert read(whole.replace(";1.8", ";0.8")).notes == []


def test_the_decimal_sign_can_be_given():
    thousandths = "\n".join(["date;A", *(f"{day:%Y-%m-%d};1,{300 + i}" for i, day in enumerate(DAYS))])
    assert read(thousandths, decimal=",").prices["A"].iloc[0] == 1.3
    assert read(thousandths, decimal=".").prices["A"].iloc[0] == 1300.0
    whole = "\n".join(["date;A", *(f"{day:%Y-%m-%d};{300 + i}" for i, day in enumerate(DAYS))])
    assert read(whole, decimal=",").prices["A"].iloc[1] == 301.0


def test_a_separator_at_the_end_of_every_row_does_no_harm():
    rows = "".join(f"{day:%Y-%m-%d};1{i};2{i};\n" for i, day in enumerate(DAYS))
    assert read("date;A;B\n" + rows).prices["A"].iloc[3] == 13.0


# -- dates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d %B %Y", "%Y-%m-%d 16:00:00+01:00"])
def test_forms_of_dates(form):
    found = read(PRICES.set_axis(PRICES.index.strftime(form))).returns.index
    assert [day.date() for day in found] == [day.date() for day in DAYS[1:]]


@pytest.mark.parametrize("name", ["zoned.csv", "zoned.parquet"])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Europe/Berlin", "UTC"])  # one of them with a change of clocks
def test_dates_with_zones_keep_their_day(name, zone):
    assert (read(PRICES.set_axis(DAYS.tz_localize(zone)), name=name).prices.index == DAYS).all()


def test_an_hour_that_occurs_twice_is_read_by_the_common_clock():
    hours = pd.date_range("2024-10-26", periods=80, freq="h", tz="Europe/Berlin")
    found = read(PRICES.set_axis(hours), periods_per_year=8760).prices
    assert (found.index == hours.tz_convert("UTC").tz_localize(None)).all()


# -- a column of losses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["l.parquet", "l.xlsx", "l.csv.gz", "l.csv"])
def test_losses_from_every_format(name):
    values = np.random.default_rng(11).normal(size=50).round(3)
    lines = ("loss\n" + "\n".join(map(repr, values.tolist()))).encode()
    late = {"when": pd.date_range("2020-01-01", periods=50), "late": values > 0}
    content = {
        "l.parquet": pd.DataFrame({"loss": values, **late}),
        "l.xlsx": {"S": [["loss", "name"], *([value, "a"] for value in values)]},
        "l.csv.gz": gzip.compress(lines),
        "l.csv": lines,
    }[name]
    found = losses(content, name=name)
    assert np.array_equal(found.values, values)
    assert (found.column, found.source, found.notes) == ("loss", name, [])


def test_decimal_commas_of_losses():
    semicolons = "id;loss\n" + "".join(f"{i};{i % 7},{i % 10}\n" for i in range(100))
    found = losses(semicolons, "loss")
    assert np.array_equal(found.values, [float(f"{i % 7}.{i % 10}") for i in range(100)])
    assert found.notes[0].startswith("numbers have a decimal comma")
    assert losses('loss\n"0,5"\n"1.200,25"\n').values.tolist() == [0.5, 1200.25]
    for decimal in (None, ","):  # a comma in a file of one column separates nothing
        assert losses("loss\n0,5\n1,25\n-3,125\n", decimal=decimal).values.tolist() == [0.5, 1.25, -3.125]
    assert losses("loss\n1,234\n2,345\n", decimal=",").values.tolist() == [1.234, 2.345]
    assert losses("loss;n\n1,200;x\n", "loss", decimal=".").values.tolist() == [1200.0]


def test_the_column_of_losses_is_found_where_there_is_no_other():
    assert losses("name,loss\n" + "".join(f"a{i},{i}.5\n" for i in range(30))).column == "loss"
    assert losses("0.5\n1.5\n2.5\n", "0.5").values.tolist() == [1.5, 2.5]  # stated to be a name
    assert losses("0\n1.5\n2.5\n").values.tolist() == [1.5, 2.5]  # as pandas names a series without a name


def test_losses_in_the_order_of_their_dates():
    rows = "date,loss\n2024-01-03,3\n2024-01-01,1\n2024-01-02,2\n"
    assert losses(rows, "loss").values.tolist() == [3.0, 1.0, 2.0]
    found = losses(rows, "loss", in_order=True)
    assert found.values.tolist() == [1.0, 2.0, 3.0]
    assert "not in order" in found.notes[0]
    backwards = losses("date,loss\n2024-01-02,2\n2024-01-01,1\n", "loss", in_order=True)
    assert (backwards.values.tolist(), backwards.notes) == ([1.0, 2.0], [])
    assert losses("name,loss\nb,2\na,1\n", "loss", in_order=True).values.tolist() == [2.0, 1.0]  # there are no dates


def test_blank_lines_among_losses_are_noted():
    found = losses("loss\n1\n\n2\n  \n3\n4\n\n\n")
    assert found.values.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert found.notes == ["2 blank line(s) skipped, the first in row 2 of the data."]
    assert losses("loss\r\n1\r\n2\r\n\r\n").notes == []  # a blank end is normal


def test_the_decimal_sign_that_is_given_agrees():
    assert np.array_equal(read(text(decimal_comma, ";"), decimal=",").prices.to_numpy(), PRICES.to_numpy())
    assert np.array_equal(read(text(european, ";"), decimal=",").prices.to_numpy(), PRICES.to_numpy())
