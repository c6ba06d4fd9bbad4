"""Log-loss, time and other results of models with default parameters on the 43 tables of ``data`` and ``data/arena``.

A run appends one row to a CSV file for each data set, split and model as soon as it is measured; the same command
resumes an interrupted run. A model is a name in ``MODELS`` or an expression with the public names of sparseklr. To
measure the effect of a change, run the benchmark before and after the change with two files, and compare the files::

    python -m benchmarks.arena run before.csv --model SparseKLR --half choose
    python -m benchmarks.arena run after.csv --model "SparseKLR(gamma='auto')" --label SparseKLR --half choose
    python -m benchmarks.arena compare before.csv after.csv
    python -m benchmarks.arena summary before.csv after.csv --reference CatBoost

The data sets are divided into two halves (`arena_measure.py`). Designs are chosen on the half ``choose`` and evaluated
on the half ``report``.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

import sparseklr

from .arena_measure import COLUMNS, HALVES, MODELS, Key, maker, measure
from .arena_page import write
from .arena_report import compare_files, read, summarise, violations
from .common import DATA
from .sources import at_start


def stored(path: Path, retry: bool = False) -> set[Key]:
    """Return the keys of the measurements in a file; ``retry`` omits those that raised an error."""
    if not path.exists():
        return set()
    rows = read([path])
    if retry:
        rows = rows[rows["error"] == ""]
    return {
        (str(row.set), int(row.split), str(row.model), int(row.seed), int(row.rows))
        for row in rows.itertuples()
    }


def append(path: Path, row: dict[str, Any]) -> None:
    """Append a row in a single write, so that lines of concurrent runs are not mixed."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "x", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(COLUMNS)
        except FileExistsError:  # another run has created the file
            pass
    with open(path, newline="") as file:
        columns = next(csv.reader(file))
    line = io.StringIO()
    csv.DictWriter(line, columns, extrasaction="ignore", lineterminator="\n").writerow(row)
    with open(path, "ab", buffering=0) as file:
        file.write(line.getvalue().encode())


def tasks(
    sets: Iterable[str], splits: int, models: dict[str, str], seed: int, rows: int
) -> Iterator[tuple[Key, str]]:
    """Yield the key and model of each measurement; the first splits of all sets come before the second splits."""
    sets = list(sets)
    for label, model in models.items():
        for split in range(splits):
            for name in sets:
                yield (name, split, label, seed, rows), model


def run(
    path: Path,
    models: dict[str, str],
    sets: Sequence[str] = HALVES["all"],
    splits: int = 3,
    rows: int = 1500,
    seed: int = 0,
    jobs: int = 2,
    data: str = str(DATA),
    retry: bool = False,
) -> int:
    """Measure the rows that are missing in the file, in ``jobs`` processes; return the number of new rows.

    Each process uses one thread. ``models`` maps labels to names in ``MODELS`` or to expressions.
    """
    for model in models.values():
        maker(model)([], 0)  # an invalid expression or a missing package raises an error here, before the run
    known = stored(path, retry)
    todo = [(key, model) for key, model in tasks(sets, splits, models, seed, rows) if key not in known]
    print(
        f"{len(todo)} fits to measure, {len(known)} are already in {path}; sparseklr in {os.path.dirname(sparseklr.__file__)}"
    )
    start, sources = time.perf_counter(), at_start("arena")
    with parallel_config(backend="loky", inner_max_num_threads=1):
        measured = Parallel(n_jobs=jobs, return_as="generator_unordered")(
            delayed(measure)(key, model, data) for key, model in todo
        )
        for done, row in enumerate(measured, start=1):
            append(path, {**row, "sources": sources})
            left = (time.perf_counter() - start) / done * (len(todo) - done)
            outcome = row["error"] or f"{row['log_loss']:.4f} {row['seconds']:7.2f} s"
            print(f"{done}/{len(todo)} {left / 60:.0f} min left: {row['model']} {row['set']} {row['split']} {outcome}", flush=True)  # fmt: skip
    return len(todo)


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m benchmarks.arena",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = found.add_subparsers(dest="command", required=True)

    one = commands.add_parser("run", help="measure models and store the results")
    one.add_argument("file", type=Path, help="CSV file of results, extended if it exists")
    one.add_argument(
        "--model", action="append", help=f"{', '.join(MODELS)} or an expression; may be repeated"
    )
    one.add_argument(
        "--label", action="append", help="name of the model in the file; give one for each --model"
    )
    one.add_argument("--half", choices=list(HALVES), default="all")
    one.add_argument("--sets", nargs="+", help="instead of a half")
    one.add_argument("--splits", type=int, default=3)
    one.add_argument("--rows", type=int, default=1500, help="maximum number of training rows (default: 1500)")
    one.add_argument("--seed", type=int, default=0, help="seed of the splits")
    one.add_argument("--jobs", type=int, default=2, help="number of processes, each with one thread")
    one.add_argument("--data", default=str(DATA), help="folder of the tables (default: SPARSEKLR_DATA)")
    one.add_argument("--retry", action="store_true", help="repeat fits that raised an error")

    two = commands.add_parser("compare", help="compare two stored runs, or two models")
    two.add_argument("a", type=Path)
    two.add_argument("b", type=Path)
    two.add_argument("--model-a", help="label in the first file (default: every label that both files have)")
    two.add_argument("--model-b", help="label in the second file (default: the same as --model-a)")
    two.add_argument("--brief", action="store_true", help="print only the totals, not every set")

    three = commands.add_parser("summary", help="summarise all models of stored runs")
    three.add_argument("files", type=Path, nargs="+")
    three.add_argument("--models", nargs="+", help="labels (default: all)")
    three.add_argument(
        "--reference",
        help="model whose loss is the denominator of ratios (default: CatBoost, or the first model)",
    )

    four = commands.add_parser(
        "violations",
        help="list fits whose training loss, estimated loss and baseline loss are in the wrong order",
    )
    four.add_argument("files", type=Path, nargs="+")
    five = commands.add_parser(
        "page", help="write docs/results/arena.csv, and the pages that are generated from it"
    )
    five.add_argument("files", type=Path, nargs="+")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser().parse_args(arguments)
    if given.command == "compare":
        compare_files(given.a, given.b, given.model_a, given.model_b, given.brief)
    elif given.command == "summary":
        summarise(read(given.files), given.models, given.reference)
    elif given.command == "violations":
        violations(read(given.files))
    elif given.command == "page":
        write(read(given.files))
    else:
        models = given.model or [name for name in MODELS if name not in ("CatBoost", "LightGBM")]
        labels = given.label or models
        if len(labels) != len(models) or len(set(labels)) != len(labels):
            parser().error(f"{len(models)} models need {len(models)} different labels; got {labels}")
        sets = given.sets or HALVES[given.half]
        run(given.file, dict(zip(labels, models, strict=True)), sets, given.splits, given.rows, given.seed,
            given.jobs, given.data, given.retry)  # fmt: skip


if __name__ == "__main__":
    main()
