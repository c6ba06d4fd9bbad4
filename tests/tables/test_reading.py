"""Reading columns: numbers, dates and text in common notations."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseklr.tables.cells import (
    FORMATS,
    ISO,
    TableError,
    TableWarning,
    detect_decimal,
    find_format,
    is_bound,
    most_frequent_unit,
    numbers_in_unit,
    parse_dates,
    parse_numbers,
)
from sparseklr.tables.reader import TableReader

pytestmark = pytest.mark.filterwarnings("ignore::sparseklr.tables.cells.TableWarning")


def tokens(*values: str) -> np.ndarray:
    return np.array(values, dtype=object)


def kinds(reader: TableReader) -> dict[str, str]:
    return {name: column.left_out or column.kind for name, column in reader.columns_.items()}


# -- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "decimal", "value", "unit"),
    [
        ("12", ".", 12, ""),
        ("-1.5e-3", ".", -0.0015, ""),
        ("$12.30", ".", 12.3, ""),
        ("-$5", ".", -5, ""),
        ("$-5", ".", -5, ""),
        ("1,234.5", ".", 1234.5, ""),
        ("1,234,567", ".", 1234567, ""),
        ("1.234,5", ",", 1234.5, ""),
        ("1.234", ",", 1234, ""),
        ("1,234", ",", 1.234, ""),
        ("1 234,5 €", ",", 1234.5, ""),
        ("1'234.50", ".", 1234.5, ""),
        ("1\u202f234", ".", 1234, ""),
        ("1,5", ".", 1.5, ""),  # no thousands: it can only be a decimal comma
        ("1.5", ",", 1.5, ""),
        ("5%", ".", 5, "%"),
        ("12 kg", ".", 12, "kg"),
        ("(3.5)", ".", -3.5, ""),
        ("\u22127", ".", -7, ""),
        ("TRUE", ".", 1, ""),
        (".5", ".", 0.5, ""),
        ("1.234,56-", ",", -1234.56, ""),
        ("450k", ".", 450_000, ""),
        ("$1.2M", ".", 1_200_000, ""),
        ("£1.2m", ".", 1_200_000, ""),
        ("USD 1.2 bn", ".", 1.2e9, "USD"),
        ("300 K", ".", 300, "K"),  # kelvin
        ("1.2m", ".", 1.2, "m"),
        *(
            (bad, ".", np.nan, "")
            for bad in ("n/k", "-", "1,23,456", "12 34", "12-13", "2-", "A12", "inf", "1.2.3")
        ),
        *((bad, ".", np.nan, "") for bad in ("--5", "2020-01-31", "12:30", "1e999", "0x1F", "$", "(", "()")),
    ],
)
def test_parse_numbers(token: str, decimal: str, value: float, unit: str) -> None:
    values, units = parse_numbers(tokens(token), decimal)
    np.testing.assert_array_equal(values, [value])
    assert units.tolist() == [unit]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.sampled_from(".,"))
def test_written_numbers_are_read_exactly(numbers: list[float], decimal: str) -> None:
    written = [repr(number) for number in numbers]
    found, _ = parse_numbers(tokens(*(text.replace(".", decimal) for text in written)), decimal)
    np.testing.assert_array_equal(found, numbers)


@given(st.integers(-(10**12), 10**12), st.sampled_from(".,"))
def test_thousands(number: int, decimal: str) -> None:
    group = "," if decimal == "." else "."
    token = f"{number:,}".replace(",", group) + f"{decimal}25"
    assert parse_numbers(tokens(token), decimal)[0] == float(f"{number}.25")


def test_detect_decimal() -> None:
    assert detect_decimal([tokens("3,14", "1,234"), tokens("a", "b")]) == ","
    assert detect_decimal([tokens("3.14", "1,234")]) == "."
    assert detect_decimal([tokens("0,123")]) == ","
    assert detect_decimal([tokens("1.234,5")]) == ","
    assert detect_decimal([tokens("1,234", "12", "x")]) is None


def test_units() -> None:
    values, units = parse_numbers(tokens("5%", "6%", "7", "8 kg"))
    assert most_frequent_unit(units, np.array([1, 1, 1, 1])) == "%"
    np.testing.assert_array_equal(numbers_in_unit(values, units, "%"), [5, 6, np.nan, np.nan])
    np.testing.assert_array_equal(numbers_in_unit(values, units, "kg"), [np.nan, np.nan, 7, 8])
    np.testing.assert_array_equal(numbers_in_unit(values, units, ""), [np.nan, np.nan, 7, np.nan])
    values, units = parse_numbers(tokens("1 year", "2 years", "10+ years", "< 1 year", "3 m", "3 ms"))
    assert most_frequent_unit(units, np.array([1, 5, 1, 1, 1, 1])) == "years"
    np.testing.assert_array_equal(numbers_in_unit(values, units, "years"), [1, 2, 10, 1, np.nan, np.nan])
    np.testing.assert_array_equal(numbers_in_unit(values, units, "m")[4:], [3, np.nan])
    assert is_bound("10+ years")
    values, units = parse_numbers(tokens("1 g/dL", "2 g/dl", "3 MW", "4 mW"))
    np.testing.assert_array_equal(numbers_in_unit(values, units, "g/dL"), [1, 2, np.nan, np.nan])
    np.testing.assert_array_equal(numbers_in_unit(values, units, "mW"), [np.nan, np.nan, np.nan, 4])
    values, units = parse_numbers(tokens("900 sq ft", "850 sqft", "1,200 sq. ft"))
    np.testing.assert_array_equal(numbers_in_unit(values, units, "sq ft"), [900, 850, 1200])


def test_currencies() -> None:
    """Amounts with a currency sign, with the code and with neither are numbers of one column."""
    written = ["$450k", "450,000", "USD 450000", "$1.2M"]
    frame = pd.DataFrame({"price": [written[k % 4] for k in range(100)], "x": np.arange(100) / 7})
    reader = TableReader().fit(frame)
    assert reader.report_ == []
    assert sorted(set(reader.transform(frame)["price"])) == [450_000, 1_200_000]
    frame.loc[::5, "price"] = "300 €"
    report = TableReader().fit(frame).report_
    expected = (
        "numbers in several currencies, € (20 values), $ (60 values), are not converted to one currency"
    )
    assert report == [f"column 'price': {expected}"]


def test_numbers_with_and_without_several_units() -> None:
    rooms = ["3 beds", "2 bd", "4"] * 20
    assert "several units, beds (20 values), bd (20 values)" in TableReader().fit(column(rooms)).report_[0]


def test_messages_about_units_and_spellings() -> None:
    frame = pd.DataFrame({"time": [f"{k}.5 ms" for k in range(99)] + ["1.2 s"]})
    frame["answer"] = ["Yes", "yes", "no", "NO", "No"] * 20
    report = TableReader().fit(frame).report_
    assert report == [
        "column 'time': 1 of 100 values is not a number in ms and is treated as missing: '1.2 s' (row 99)",
        "column 'answer': categories that differ only in case are merged: 'Yes' = 'yes', 'no' = 'NO' = 'No'",
    ]


# -- dates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_found(form: str) -> None:
    moments = pd.date_range("1999-01-01", periods=80, freq="173h13min")
    written = tokens(*(moment.strftime(form) for moment in moments))
    found, swapped = find_format(written, 0.9)
    assert swapped is None
    expected = parse_dates(written, form)
    assert not np.isnat(expected).any()
    np.testing.assert_array_equal(parse_dates(written, found or ""), expected)


def test_iso_dates_and_zones() -> None:
    written = tokens("2020-01-31", "2020-01-31T10:00:00", "2020-01-31 10:00:00+02:00", "2020", "31.1.2020")
    expected = ["2020-01-31", "2020-01-31T10:00", "2020-01-31T10:00", "NaT", "NaT"]
    np.testing.assert_array_equal(parse_dates(written, ISO), np.array(expected, dtype="datetime64[us]"))


@pytest.mark.parametrize("zone", ["Z", "+02:00", "-0930", " +05", " UTC", " CEST", ""])
def test_dates_are_read_in_local_time(zone: str) -> None:
    written = tokens(f"2020-01-31T23:30:00.5{zone}", f"2020-02-01 00:15{zone}")
    expected = np.array(["2020-01-31T23:30:00.5", "2020-02-01T00:15"], dtype="datetime64[us]")
    np.testing.assert_array_equal(parse_dates(written, ISO), expected)
    for form in ("%d/%m/%Y %H:%M %z", "%d/%m/%Y %H:%M"):
        np.testing.assert_array_equal(parse_dates(tokens(f"01/02/2020 00:15{zone}"), form), expected[1:])


def test_time_zone_does_not_change_the_values() -> None:
    days = pd.Series(pd.date_range("2020-01-01 00:30", periods=30, freq="17h"))
    zoned = days.dt.tz_localize("Asia/Tokyo")
    mixed = [f"{day.isoformat()}{'+09:00' if k % 2 else '-05:00'}" for k, day in enumerate(days)]
    frames = [pd.DataFrame({"when": column}) for column in (days, zoned, mixed, zoned.astype(object))]
    frames += [pl.from_pandas(frames[1]), pa.table(frames[1])]
    for frame in frames:
        reader = TableReader().fit(frame)
        for other in frames:
            np.testing.assert_array_equal(reader.transform(other)["when"], days)


def test_day_or_month() -> None:
    assert find_format(tokens("01/02/2020", "13/02/2020"), 0.9) == ("%d/%m/%Y", None)
    assert find_format(tokens("01/02/2020", "02/13/2020"), 0.9) == ("%m/%d/%Y", None)
    assert find_format(tokens("01/02/2020"), 0.9) == ("%m/%d/%Y", "%d/%m/%Y")
    assert find_format(tokens("Oslo", "Rome 2"), 0.9) == (None, None)
    reader = TableReader().fit(pd.DataFrame({"when": ["01/02/2020", "03/04/2021"]}))
    assert "but %d/%m/%Y is also possible" in reader.report_[0]
    reader = TableReader(date={"when": "%d/%m/%Y"}).fit(pd.DataFrame({"when": ["01/02/2020", "03/04/2021"]}))
    assert reader.report_ == []
    assert reader.columns_["when"].low == pd.Timestamp("2020-02-01").timestamp()


def test_dates_in_several_formats() -> None:
    days = pd.date_range("2019-12-30", periods=60, freq="D")
    forms = ["%d.%m.%Y", "%d.%m.%y", "%d %b %Y", "%Y-%m-%d"]
    written = [day.strftime(forms[k % 4]) for k, day in enumerate(days)]
    reader = TableReader().fit(pd.DataFrame({"when": written}))
    assert reader.columns_["when"].kind == "date"
    assert reader.report_[0].startswith("column 'when': dates in several formats: ")
    new = pd.DataFrame({"when": ["2.1.2020", "2.1.20", "2 Jan 2020", "2020-01-02"]})
    assert (reader.transform(new)["when"] == pd.Timestamp("2020-01-02")).all()


def test_day_and_month_are_not_mixed() -> None:
    american = [day.strftime("%m/%d/%Y") for day in pd.date_range("2020-01-13", periods=15)]
    british = [day.strftime("%d/%m/%Y") for day in pd.date_range("2021-01-13", periods=15)]
    assert find_format(tokens(*american, *british), 0.9) == (None, None)


# -- the kinds of columns -----------------------------------------------------------------------


def column(values: Any) -> pd.DataFrame:
    return pd.DataFrame({"c": values, "other": np.arange(len(values)) % 2})


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([f"{k}.5" for k in range(99)] + ["n/k"], "number"),
        (["12", "n/k", "13"] * 3 + [str(k) for k in range(20, 40)], "number"),
        (["1", "2", "A", "B"] * 25, "text"),
        (["01234", "10117", "80331"] * 30, "text"),
        (["0.5", "0.25", "1.5"] * 30, "number"),
        (["7", "8"] * 50 + ["007"], "number"),  # one of them does not make a code
        (["2020-01-31", "2020-02-01", "2020-02-01"] * 9, "date"),
        ([20200131, 20200201, 20200201] * 9, "date"),
        (["2020-01-31 10:30:00 UTC", "2020-02-01 08:15:00 UTC"] * 9, "date"),
        (["31/Jan/2020:10:30:00 +0000", "01/Feb/2020:08:15:00 +0000"] * 9, "date"),  # log of a web server
        (["5. März 2019", "24. Mai 2019", "1. Dezember 2020"] * 9, "date"),
        (["5. Mrz 2019", "24. Mai 2019", "1. Dez 2020"] * 9, "text"),
        (["Mrz 2019", "Mai 2019", "Dez 2020"] * 9, "date"),
        (["Jan-2015", "Feb-2015", "Dec-2016"] * 9, "date"),
        (["2015-01", "2015-02", "2016-12"] * 9, "date"),
        ([20200131, 20200231, 20200201] * 9, "number"),  # there is no such day
        (["yes", "no"] * 30, "text"),
        ([True, False] * 30, "number"),
        (["true", "false"] * 30, "number"),
        ([Decimal("1.5"), Decimal(2)] * 20, "number"),
        ([datetime.date(2020, 1, 31), datetime.date(2020, 3, 1)] * 20, "date"),
        (pd.to_timedelta([1, 2, 2] * 9, "h"), "number"),
        (pd.Categorical([1, 2, 2] * 9), "text"),
        (pd.array([1, 2, None] * 9, dtype="Int64"), "number"),
        (pd.date_range("2020-01-01", periods=30, tz="Europe/Oslo"), "date"),
        ([f"{k} kg" for k in range(7)] * 9, "number"),
        ([" ".join(["word"] * (k % 5 + 3)) + f" {k}" for k in range(60)], "text"),
    ],
)
def test_kind(values: Any, kind: str) -> None:
    assert kinds(TableReader().fit(column(values)))["c"] == kind


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (range(1000, 1030), "whole number"),
        (np.random.default_rng(0).permutation(30), "whole number"),
        ([str(k) for k in range(30)], "whole number"),
        ([10**k for k in range(25)], "whole number"),  # in order
        ([f"user{k}@example.org" for k in range(30)], "a different text"),
        ([f"{k:04d}" for k in range(30)], "a different text"),
        ([None] * 30, "empty in every row"),
        (["", "NA", "?"] * 10, "empty in every row"),
        ([3.5] * 30, "the same value"),
        (["web"] * 30, "the same value"),
    ],
)
def test_dropped_columns(values: Any, why: str) -> None:
    reader = TableReader().fit(column(values))
    assert why in kinds(reader)["c"]
    assert len(reader.report_) == 1
    assert why in reader.report_[0]
    assert reader.columns_["c"].identifies == ("different" in why or "whole" in why)
    assert list(reader.transform(column(values)).columns) == ["other"]


def test_columns_that_are_not_identifiers() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.integers(10**4, 10**6, 300), "x": rng.normal(size=300).round(2)})
    assert frame["income"].is_unique
    assert kinds(TableReader().fit(frame)) == {"income": "number", "x": "number"}
    assert (
        "whole number"
        in kinds(TableReader().fit(frame.rename(columns={"income": "customerId"})))["customerId"]
    )
    for name in ("EmployeeNumber", "Kundennummer", "account number"):
        reader = TableReader().fit(frame.rename(columns={"income": name}))
        assert "whole number" in kinds(reader)[name]
    assert kinds(TableReader().fit(frame[:10].assign(n=range(10))))["n"] == "number"  # too few rows to tell


def test_declared_kinds() -> None:
    frame = pd.DataFrame(
        {"zip": range(60), "code": ["01", "02", "30"] * 20, "day": ["1.2.2003", "x", ""] * 20}
    )
    given_kinds = TableReader(categorical=["zip"], number=["code"], date=["day"]).fit(frame)
    assert kinds(given_kinds) == {"zip": "text", "code": "number", "day": "date"}
    assert given_kinds.transform(frame)["code"].tolist() == [1, 2, 30] * 20
    with pytest.raises(TableError, match=r"date: there is no column 'dya'\. The columns are zip, code, day"):
        TableReader(date=["dya"]).fit(frame)
    with pytest.raises(TableError, match="drop: column 'zip' is already declared as text"):
        TableReader(categorical=["zip"], drop=["zip"]).fit(frame)
    with pytest.raises(
        TableError, match="column 'code': the dates do not match any known format; row 0 contains '01'"
    ):
        TableReader(date=["code"]).fit(frame)
    with pytest.raises(TypeError, match="sequence of column names; got 'zip'"):
        TableReader(drop="zip").fit(frame)
    with pytest.raises(ValueError, match=r"decimal must be .*; got ';'"):
        TableReader(decimal=";").fit(frame)


# -- the reader ---------------------------------------------------------------------------------


def messy(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "price": [f"${x:,.2f}" for x in np.exp(rng.normal(7, 1, n))],
            "share": [f"{x:.1f}%" for x in rng.random(n)],
            "when": pd.date_range("2020-01-01", periods=n).strftime("%d.%m.%Y"),
            "city": rng.choice([" Oslo", "Rome ", None], n),
            "zip": rng.choice(["01234", "80331"], n),
            "x": rng.normal(size=n),
        }
    )
    frame.loc[3, "price"], frame.loc[4, "when"], frame.loc[5, "x"] = "n/k", "unknown", np.inf
    return frame


def test_report_and_warnings() -> None:
    with pytest.warns(TableWarning) as caught:
        reader = TableReader().fit(messy())
    assert reader.report_ == [
        "column 'price': 1 of 60 values is not a number and is treated as missing: 'n/k' (row 3)",
        "column 'when': 1 of 60 values is not a date and is treated as missing: 'unknown' (row 4)",
        "column 'x': 1 of 60 values is not a number and is treated as missing: 'infinity' (row 5)",
    ]
    assert [str(warning.message) for warning in caught] == reader.report_
    assert all(warning.filename == __file__ for warning in caught)
    with pytest.warns(TableWarning) as caught:
        reader.transform(messy())
    assert [str(warning.message) for warning in caught] == reader.report_


def test_reading_twice_changes_nothing() -> None:
    reader = TableReader().fit(messy())
    once = reader.transform(messy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pd.testing.assert_frame_equal(reader.transform(once), once)
    assert [dtype.kind for dtype in once.dtypes][:3] == ["f", "f", "M"]
    assert set(once["city"].dropna()) == {"Oslo", "Rome"}
    with pytest.warns(
        TableWarning, match=r"'city': 60 of 60 values do not occur in the training data: 'Lima' \(row 0\)"
    ):
        reader.transform(once.assign(city="Lima"))


def test_polars_arrow_and_arrays() -> None:
    frame = messy()
    reader = TableReader().fit(pl.from_pandas(frame))
    assert kinds(reader) == kinds(TableReader().fit(frame))
    pd.testing.assert_frame_equal(
        reader.transform(pl.from_pandas(frame)), reader.transform(frame), check_dtype=False
    )
    array = np.array([[1.5, 2.0], [2.5, 3.0], [0.5, 3.0]])
    assert TableReader().fit(array).transform(array).columns.tolist() == ["x0", "x1"]
    with pytest.raises(TableError, match="two-dimensional"):
        TableReader().fit(np.zeros(3))


def test_order_of_columns_and_further_ones_do_not_matter() -> None:
    reader = TableReader().fit(messy())
    other = messy()[["x", "zip", "city", "when", "share", "price"]].assign(more=1)
    pd.testing.assert_frame_equal(reader.transform(other), reader.transform(messy()))
    with pytest.raises(TableError, match="columns of the model are missing: price, zip"):
        reader.transform(messy().drop(columns=["zip", "price"]))
    with pytest.raises(
        TableError, match="column 'x': none of the 60 values is a number; row 0 contains 'low'"
    ):
        reader.transform(messy().assign(x="low"))
    doubled = pd.concat([messy(), messy()[["x"]]], axis=1)
    with pytest.raises(TableError, match="several columns have the same name: x"):
        reader.fit(doubled)


def test_single_row_is_read_as_in_a_table() -> None:
    frame = messy().drop(columns="city")
    reader = TableReader().fit(frame)
    frame.loc[[6, 7, 8], ["price", "when", "x"]] = [["?!", "31.02.2016", -np.inf]] * 3
    together = reader.transform(frame)
    for row in range(10):
        pd.testing.assert_frame_equal(reader.transform(frame[row : row + 1]), together[row : row + 1])
    with pytest.warns(TableWarning, match=r"'when': 1 of 1 values is not a date .*: '31.02.2016' \(row 6\)"):
        reader.transform(frame[6:7])


def test_unreadable_column_is_an_error() -> None:
    reader, five = TableReader().fit(messy()), messy()[10:15]
    assert reader.transform(five[:4].assign(price="?!"))["price"].isna().all()
    with pytest.raises(TableError, match=r"'price': none of the 5 values is a number; row 10 contains '\?!'"):
        reader.transform(five.assign(price="?!"))
    with pytest.raises(TableError, match="'x': none of the 10 values is a number"):
        reader.transform(pd.concat([five, five]).assign(x=["inf", "low"] * 5))
    # what training counted as missing is missing, and says nothing about the column
    for name, token in {"price": "n/k", "when": "unknown", "x": np.inf}.items():
        assert reader.transform(five.assign(**{name: token}))[name].isna().all()
    assert reader.transform(five.assign(price=["n/k"] * 4 + ["?!"]))["price"].isna().all()


def test_tokens_for_missing_values() -> None:
    frame = pd.DataFrame({"n": [1.5, -9, 2.5], "t": ["1.5", "-9", "2.5"], "c": ["a", "none", "b"]})
    read = TableReader(na=["-9", "none"]).fit_transform(frame)
    assert read.isna().to_numpy().tolist() == [[False] * 3, [True] * 3, [False] * 3]
    assert TableReader().fit_transform(frame)["c"].tolist() == ["a", "none", "b"]


def test_another_decimal_sign_at_prediction() -> None:
    points = pd.DataFrame({"x": ["1.25", "2.5", "3.75", "1.5"], "y": [0, 1, 0, 1]})
    commas = points.assign(x=points["x"].str.replace(".", ","))
    reader = TableReader().fit(points)
    assert reader.transform(commas)["x"].tolist() == [1.25, 2.5, 3.75, 1.5]
    reader = TableReader().fit(commas)
    assert reader.decimal_ == ","
    assert reader.transform(commas[1:2].assign(x="1,234"))["x"].tolist() == [1.234]  # as in training


def test_seen_recognises_training_rows() -> None:
    frame = messy()
    reader = TableReader().fit(frame[:40])
    np.testing.assert_array_equal(reader.seen(frame), np.arange(60) < 40)
    np.testing.assert_array_equal(reader.seen(reader.transform(frame)), np.arange(60) < 40)


def test_training_ranges() -> None:
    reader = TableReader().fit(
        pd.DataFrame({"x": [3, 1, None, 2], "d": ["2020-01-01", "2020-01-03", "", ""]})
    )
    assert (reader.columns_["x"].low, reader.columns_["x"].high) == (1, 3)
    assert reader.columns_["d"].high - reader.columns_["d"].low == 2 * 86400
