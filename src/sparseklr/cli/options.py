"""Parsing: a parser whose errors are one line, the types of numbers, and options several commands share."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn

from .errors import CliError

FORMATS = ("csv", "tsv", "parquet", "svmlight")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises a :class:`CliError` instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        raise CliError(f"{message} (see {self.prog} --help)")


def add_command(
    subparsers: Any, name: str, run: Callable[[argparse.Namespace], None], summary: str, examples: str
) -> Parser:
    """The parser of a command, with ``--debug`` and examples at the end of its help."""
    parser: Parser = subparsers.add_parser(
        name,
        help=re.split("[.:]", summary[0].lower() + summary[1:])[0],
        description=textwrap.fill(summary, 80),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=run)
    return parser


def number(
    above: float | None = None, least: float | None = None, words: tuple[str, ...] = (), kind: type = float
) -> Any:
    """Type of an option: a number in a range, whole if ``kind=int``, or one of a few words."""
    bound = f" above {above:g}" if above is not None else f" of at least {least:g}"
    expected = " or ".join([f"a {'whole ' if kind is int else ''}number{bound}", *words])

    def parse(text: str) -> float | str:
        if text in words:
            return text
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        inside = value > above if above is not None else value >= (least or 0.0)
        if not inside or value == float("inf"):
            raise argparse.ArgumentTypeError(f"expected {expected}; got {text!r}")
        return value

    return parse


def share(text: str) -> float:
    """Type of an option: a number between 0 and 1."""
    value: float = number(above=0)(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1; got {text!r}")
    return value


def jobs(text: str) -> int:
    """Type of an option: a number of threads or processes, as ``n_jobs`` of scikit-learn."""
    if not re.fullmatch("-?[0-9]+", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number, or -1 for all cores; got {text!r}")
    return int(text)


def add_data(parser: Parser, target_help: str) -> None:
    """DATA, its labels and weights, and how to read it."""
    parser.add_argument(
        "data", metavar="DATA", help="CSV, TSV, Parquet or svmlight (LIBSVM) file; - is standard input"
    )
    add_labels(parser, target_help)


def add_labels(parser: Parser, target_help: str) -> None:
    """The labels and weights of DATA, and how to read it."""
    parser.add_argument("--target", metavar="COL", help=target_help)
    parser.add_argument("--sample-weight-column", metavar="COL", help="column of non-negative row weights")
    add_reading(parser)


def add_reading(parser: Parser) -> None:
    """How to read DATA; what is left out is found."""
    group = parser.add_argument_group("reading")
    group.add_argument("--format", choices=FORMATS, help="format of DATA; by default its suffix tells")
    group.add_argument(
        "--sep", type=separator, help="separator of a CSV file: a character, or tab; else found"
    )
    group.add_argument(
        "--decimal", metavar="SIGN", choices=(".", ","), help="decimal sign, a point or a comma; else found"
    )
    group.add_argument("--encoding", help="of a CSV file, such as latin-1; else found")
    group.add_argument(
        "--na",
        metavar="TOKEN",
        nargs="+",
        action="extend",
        default=[],
        help="further tokens for a missing value, beside NA, ? and the like; write --na=-9 with a sign",
    )


def separator(text: str) -> str:
    """Type of an option: a character, or its name."""
    found = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}.get(text, text)
    if len(found) != 1:
        raise argparse.ArgumentTypeError(f"expected one character, tab or space; got {text!r}")
    return found


class Dates(argparse.Action):
    """Collects COL and COL=FORMAT into a mapping of columns to formats, "" where it is to be found."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        found = dict(getattr(namespace, self.dest))
        for value in values:
            name, sign, form = value.rpartition("=%")
            found[name if sign else value] = f"%{form}" if sign else ""
        setattr(namespace, self.dest, found)


def add_output(parser: Parser, what: str, required: bool = True) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", required=required, help=what)
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")


def output_of(args: argparse.Namespace) -> Any:
    """The model's file, if it may be written."""
    from .files import check_output

    if args.output == "-" and args.json:
        raise CliError("--output - and --json both write to standard output; give one of them")
    return check_output(args.output, args.force)


def add_json(parser: Parser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print JSON, and nothing else, on standard output"
    )


def add_training(parser: Parser, kernel: str = "rbf") -> Any:
    """What fit and tune have in common; ``kernel`` says what its default is. Returns the model's options."""
    add_data(parser, "column of the classes (not for svmlight files, which hold them)")
    group = parser.add_argument_group("columns, whose kinds are found where nothing is given")
    for option, meaning in {
        "drop": "columns to leave out",
        "id": "columns that identify the rows: left out, and written by predict --id",
        "categorical": "columns that are categories whatever they look like",
        "number": "columns that are numbers whatever they look like",
    }.items():
        group.add_argument(f"--{option}", metavar="COL", nargs="+", action="extend", default=[], help=meaning)
    group.add_argument(
        "--date",
        metavar="COL",
        nargs="+",
        action=Dates,
        default={},
        help="columns of dates; COL=FORMAT gives the format, such as born=%%d/%%m/%%Y",
    )
    group.add_argument(
        "--scale",
        choices=("auto", "standard", "quantile", "squash"),
        default="auto",
        help="of numbers: mean and variance, ranks, or robust and bounded; auto compares them by the "
        "leave-one-out log-loss; quantile and squash know no row weights (default: auto)",
    )
    add_output(parser, "where the model goes, e.g. model.skops; - is standard output")
    group = parser.add_argument_group("model")
    group.add_argument(
        "--kernel",
        choices=("rbf", "linear", "poly", "laplacian", "sigmoid", "loo"),
        help=f"loo: rbf or laplacian, whichever is better (default: {kernel})",
    )
    group.add_argument("--degree", type=number(least=0), help="of the poly kernel (default: 3)")
    group.add_argument(
        "--calibration",
        choices=("refit", "sigmoid", "link", "none"),
        help="where probabilities come from (default: refit)",
    )
    group.add_argument(
        "--class-weight", choices=("balanced",), help="make the classes weigh the same, whatever their sizes"
    )
    parser.add_argument(
        "--test-size",
        metavar="SHARE",
        type=share,
        help="hold out this share of the rows, and measure the model on them",
    )
    seed = number(least=0, kind=int)
    parser.add_argument(
        "--seed", type=seed, default=0, help="of the held-out rows and the refit (default: 0)"
    )
    parser.add_argument("--jobs", type=jobs, default=1, help="threads; -1 for all cores (default: 1)")
    parser.add_argument(
        "--verbose",
        action=argparse.BooleanOptionalAction,
        help="show progress on standard error; by default on a terminal",
    )
    add_json(parser)
    return group
