"""Results of ``sparseklr fit`` on 53 messy files.

One table is written with the defects that occur in practice. It has two columns of numbers, a category, a date and two
classes, with 400 training rows and 4000 test rows. ``sparseklr fit`` reads each file with ``--target y`` and, if a defect
requires it, one further option. The model is evaluated on rows with the same defects. ``python -m
benchmarks.messy_tables`` prints for each file the detected kinds of columns, the accuracy relative to the clean file, and
the messages. The test suite checks the same files.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sparseklr.cli import main as sparseklr

CLEAN = {"age": "number", "income": "number", "city": "text", "joined": "date"}
N_TRAIN = 400


@dataclass(frozen=True)
class Messy:
    """A messy file, and the expected outcome."""

    name: str
    spoil: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    write: Callable[[pd.DataFrame], bytes] = lambda frame: frame.to_csv(index=False).encode()
    kinds: dict[str, str] = field(default_factory=lambda: CLEAN)
    messages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()  # options of fit that evaluate does not have
    suffix: str = ".csv"
    worse: float = 0.015  # acceptable loss of accuracy
    error: tuple[str, ...] = ()  # parts of the expected error message, if the file cannot be read


@dataclass(frozen=True)
class Outcome:
    code: int
    stderr: str
    kinds: dict[str, str]
    accuracy: float


def clean_table(n: int = 4400) -> pd.DataFrame:
    """Return a table whose classes depend on all four columns."""
    rng = np.random.default_rng(7)
    age, income = rng.normal(45, 12, n).round(1), np.round(np.exp(rng.normal(10, 0.5, n)))
    city = rng.choice(["Oslo", "Rome", "Zürich"], n)
    joined = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), "D")
    f = np.sin((age - 45) / 10) + (np.log(income) - 10) + 0.8 * (city == "Rome")
    f += (joined - pd.Timestamp("2019-01-01")).to_numpy().astype("timedelta64[D]").astype(int) / 1000
    y = np.where(f + 0.15 * rng.normal(size=n) > np.median(f), "yes", "no")
    frame = {"age": age, "income": income.astype(int), "city": city, "joined": joined.strftime("%Y-%m-%d")}
    return pd.DataFrame({**frame, "y": y})


# -- ways to spoil a table ----------------------------------------------------------------------


def with_tokens(column: str, *tokens: str, every: int = 97) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that turns a column into text and replaces some values with tokens."""

    def spoil(frame: pd.DataFrame) -> pd.DataFrame:
        text = frame[column].astype(str).to_numpy().astype(object)
        for k, token in enumerate(tokens):
            text[10 + 13 * k :: every] = token
        return frame.assign(**{column: text})

    return spoil


def written(column: str, form: Callable[[Any], str]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that writes the values of a column in another notation."""
    return lambda frame: frame.assign(**{column: [form(value) for value in frame[column]]})


def both(*spoils: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def spoil(frame: pd.DataFrame) -> pd.DataFrame:
        for one in spoils:
            frame = one(frame)
        return frame

    return spoil


def with_holes(frame: pd.DataFrame) -> pd.DataFrame:
    rng, frame = np.random.default_rng(len(frame)), frame.astype(object)
    for name, token in zip(("age", "income", "city", "joined"), ("", "NA", "?", "n/a"), strict=True):
        frame.loc[frame.index[rng.random(len(frame)) < 0.01], name] = token
    return frame


def with_identifiers(frame: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(len(frame))
    numbers, names = rng.permutation(len(frame)) + 70001, [f"c{k:06x}" for k in rng.permutation(1 << 18)]
    return frame.assign(customer_id=numbers, token=names[: len(frame)])


def with_useless(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(comment="", source="web")


def with_comments(frame: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(len(frame))
    words = np.array(
        ["late", "paid", "asked", "twice", "for", "a", "refund", "called", "again", "no", "answer"]
    )
    return frame.assign(comment=[" ".join(rng.choice(words, 7)) for _ in range(len(frame))])


def in_two_units(frame: pd.DataFrame) -> pd.DataFrame:
    """Write every third age in months."""
    ages = [f"{12 * v:.0f} months" if k % 3 == 0 else f"{v:.0f} years" for k, v in enumerate(frame["age"])]
    return frame.assign(age=ages)


def in_mixed_case(frame: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(len(frame))
    forms = rng.choice(3, len(frame), p=[0.6, 0.2, 0.2])
    cities = [(c, c.upper(), c.lower())[k] for c, k in zip(frame["city"], forms, strict=True)]
    return frame.assign(city=cities)


CODES = {"Oslo": "01234", "Rome": "00501", "Zürich": "80331"}
german_date = written("joined", lambda day: pd.Timestamp(day).strftime("%d.%m.%Y"))


# -- ways to write one --------------------------------------------------------------------------


def csv(encoding: str = "utf-8", **options: Any) -> Callable[[pd.DataFrame], bytes]:
    return lambda frame: frame.to_csv(**{"index": False, **options}).encode(encoding)


def r_table(frame: pd.DataFrame) -> bytes:
    """Write the table as R's write.table does: the column of row names has no header."""
    lines = frame.set_axis([f"r{k}" for k in range(len(frame))]).to_csv(quoting=2).splitlines()
    return "\n".join([lines[0].removeprefix('"",'), *lines[1:]]).encode()


def trailing(frame: pd.DataFrame) -> bytes:
    lines = frame.to_csv(index=False).splitlines()
    return "\n".join(f"{line}," for line in lines).encode()


def padded(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False).replace(",", "  ,  ").encode()


def parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.assign(
        joined=pd.to_datetime(frame["joined"]).dt.date, city=frame["city"].astype("category")
    ).to_parquet(buffer)
    return buffer.getvalue()


def ragged(frame: pd.DataFrame) -> bytes:
    lines = frame.to_csv(index=False).splitlines()
    lines[8] += ",7"
    return "\n".join(lines).encode()


MESSY = [
    Messy("clean"),
    Messy("semicolons", write=csv(sep=";"), messages=("';' separated",)),
    Messy("semicolons, decimal commas", write=csv(sep=";", decimal=","), messages=("';' separated, decimal comma",)),
    Messy("tabs in a .csv", write=csv(sep="\t"), messages=("tab separated",)),
    Messy("bars", write=csv(sep="|"), messages=("'|' separated",)),
    Messy("Windows encoding", write=csv("cp1252"), messages=("windows-1252",)),
    Messy("UTF-16", write=csv("utf-16"), messages=("utf-16",)),
    Messy("byte order mark", write=csv("utf-8-sig")),
    Messy("gzip, quoted cells", write=lambda frame: gzip.compress(frame.to_csv(index=False, quoting=1).encode()), suffix=".csv.gz"),
    Messy("bzip2 without a suffix of its own", write=lambda frame: bz2.compress(frame.to_csv(index=False).encode())),
    Messy("Parquet with dates and categories", write=parquet, suffix=".parquet"),
    Messy("index without a name", write=csv(index=True), messages=("column 1 has no name and is ignored",)),
    Messy("names of rows as R writes them", write=r_table, messages=("column 1 has no name and is ignored",)),
    Messy("separators at the ends of rows", write=trailing, messages=("column 6 has no name and is ignored",)),
    Messy("spaces around cells and names", write=padded),
    Messy(
        "one odd token among numbers",
        both(with_tokens("age", "n/k", every=10**6), with_tokens("income", "-", every=10**6)),
        messages=("column 'age': 1 of 400 values is not a number and is treated as missing: 'n/k' (row 11)", "column 'income': 1 of 400 values"),
    ),
    Messy("money", written("income", lambda value: f"${value:,.2f}")),
    Messy("money of mixed form", with_tokens("income", "$21,300", "21,300", "21300 €", every=101), messages=("column 'income': numbers in several currencies, $ (4 values), € (4 values), are not converted to one currency",)),
    Messy("percent signs", written("age", lambda value: f"{value}%")),
    Messy("one percent sign among numbers", with_tokens("age", "5%", every=10**6), messages=("column 'age': 1 of 400 values is not a number and is treated as missing: '5%' (row 11)",)),
    Messy("units", written("age", lambda value: f"{value} yr")),
    Messy("negative numbers in brackets", both(lambda frame: frame.assign(age=frame["age"] - 45), written("age", lambda value: f"({-value:.1f})" if value < 0 else f"{value:.1f}"))),
    Messy("missing values in every column", with_holes),
    Messy("a custom token for missing values", with_tokens("age", "-999", every=151), options=("--na=-999",)),
    Messy("German dates", german_date),
    Messy("a token among dates", both(german_date, with_tokens("joined", "unknown", every=10**6)), messages=("column 'joined': 1 of 400 values is not a date and is treated as missing: 'unknown' (row 11)",)),
    Messy("days as whole numbers", written("joined", lambda day: day.replace("-", ""))),
    Messy("codes with leading zeros", written("city", CODES.__getitem__)),
    Messy("identifiers", with_identifiers, messages=("column 'customer_id' is dropped", "column 'token' is dropped")),
    Messy("empty and constant columns", with_useless, messages=("column 'comment' is dropped: empty in every row", "column 'source' is dropped: the same value")),
    Messy("free text", with_comments, kinds={**CLEAN, "comment": "text"}),
    Messy(
        "nearly everything at once",
        both(with_identifiers, with_useless, german_date, with_tokens("joined", "unknown", every=10**6), written("income", lambda value: f"{value:,} €".replace(",", "."))),
        csv("cp1252", sep=";", decimal=",", index=True),
        messages=("';' separated, decimal comma, windows-1252", "column 1 has no name", "column 'customer_id' is dropped", "column 'token' is dropped", "column 'comment' is dropped", "column 'source' is dropped", "column 'joined': 1 of 400 values"),
    ),
    Messy("units with a slash and a power", written("age", lambda value: f"{value} kg/m2")),
    Messy("units with a superscript", written("age", lambda value: f"{value} kg/m²")),
    Messy("mmol/L", written("age", lambda value: f"{value} mmol/L")),
    Messy("km/h", written("income", lambda value: f"{value} km/h")),
    Messy("square feet", written("income", lambda value: f"{value:,} sq ft")),
    Messy("m2, decimal commas", written("age", lambda value: f"{value} m2".replace(".", ",")), csv(sep=";"), messages=("decimal comma",)),
    Messy("currency codes", written("income", lambda value: f"USD {value:,.2f}")),
    Messy("powers of ten in the unit", written("age", lambda value: f"{value} x10^9/L")),
    Messy("upper bounds", written("age", lambda value: "65+" if value > 65 else f"{value}"), messages=("column 'age': 9 of 400 values are bounds and are read as numbers: '65+'",), worse=0.05),
    Messy("detection limits", written("age", lambda value: "<30" if value < 30 else f"{value}"), messages=("column 'age': 45 of 400 values are bounds and are read as numbers: '<30'",), worse=0.05),
    Messy("two units", in_two_units, kinds={**CLEAN, "age": "text"}, messages=("column 'age' contains numbers in several units",), worse=0.2),
    Messy("two units, one declared", in_two_units, declared=("--number", "age"), messages=("column 'age': 134 of 400 values are not numbers in years and are treated as missing",), worse=0.2),
    Messy("categories in mixed case", in_mixed_case, messages=("column 'city': categories that differ only in case are merged", "'Oslo' = ", "'Rome' = ", "'Zürich' = ")),
    Messy("a sentinel below", with_tokens("age", "-99", every=40), messages=("column 'age': -99 in 10 rows is far from the other values",), worse=0.05),
    Messy("a sentinel above", with_tokens("age", "999", every=40), messages=("column 'age': 999 in 10 rows is far from the other values",), worse=0.05),
    Messy("a row with too many cells", write=ragged, error=("row 8 has 6 cells; expected 5",)),
    Messy("a column named twice", write=lambda frame: frame.to_csv(index=False).replace("income", "age", 1).encode(), error=("several columns have the same name: age",)),
    Messy("no header", write=lambda frame: frame[["age", "income"]].to_csv(index=False, header=False).encode(), error=("the first row contains numbers", "Add a header")),
    Messy("the wrong encoding given", write=csv("cp1252"), options=("--encoding", "utf-8"), error=("cannot be decoded as utf-8", "row")),
    Messy("a spreadsheet", write=lambda frame: b"PK\x03\x04" + bytes(100), error=("looks like a spreadsheet",)),
    Messy("cut in the middle of a gzip file", write=lambda frame: gzip.compress(frame.to_csv().encode())[:3000], suffix=".csv.gz", error=("truncated or damaged",)),
]  # fmt: skip


def run(messy: Messy, folder: Path, *options: str) -> Outcome:
    """Write the file, fit a model, and evaluate it on rows with the same defects."""
    frame = clean_table()
    paths = {}
    for part, rows in (("train", frame[:N_TRAIN]), ("test", frame[N_TRAIN:])):
        paths[part] = str(folder / f"{part}{messy.suffix}")
        Path(paths[part]).write_bytes(messy.write(messy.spoil(rows.reset_index(drop=True))))
    model = str(folder / "model.sklr")
    code, out, err = _call(
        "fit",
        paths["train"],
        "--target",
        "y",
        "-o",
        model,
        "--json",
        "--force",
        *messy.options,
        *messy.declared,
        *options,
    )
    if code:
        return Outcome(code, err, {}, np.nan)
    kinds = json.loads(out)["columns"]
    code, out, _ = _call("evaluate", model, paths["test"], "--json", *messy.options)
    return Outcome(code, err, kinds, json.loads(out)["accuracy"] if not code else np.nan)


def _call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = sparseklr(list(argv))
    return code, out.getvalue(), err.getvalue()


def as_expected(messy: Messy, found: Outcome) -> bool:
    """Return whether the kinds are right and every expected message was printed, or the right error."""
    if messy.error:
        return found.code == 2 and all(words in found.stderr for words in messy.error)
    return found.kinds == messy.kinds and all(words in found.stderr for words in messy.messages)


def main() -> None:
    clean, n_right = np.nan, 0
    print("| file | kinds found | accuracy | relative to clean | messages |\n|---|---|---:|---:|---|")
    for messy in MESSY:
        with tempfile.TemporaryDirectory() as folder:
            found = run(messy, Path(folder))
            n_right += as_expected(messy, found)
            messages = [
                line.removeprefix("sparseklr: ").replace(f"{folder}/", "")
                for line in found.stderr.splitlines()
            ]
        clean = found.accuracy if messy.name == "clean" else clean
        kinds = (
            "as clean"
            if found.kinds == CLEAN
            else ", ".join(f"{k}: {v}" for k, v in found.kinds.items() if k not in CLEAN)
        )
        accuracy = f"{found.accuracy:.1%} | {100 * (found.accuracy - clean):+.1f}" if found.kinds else "- | -"
        print(
            f"| {messy.name} | {kinds if found.kinds else f'exit code {found.code}'} | {accuracy} | {' / '.join(messages)} |",
            flush=True,
        )
    print(f"\n{n_right} of {len(MESSY)} files: the right kinds and messages, or the right error")


if __name__ == "__main__":
    main()
