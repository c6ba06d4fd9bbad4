"""Command-line options: parsing, types, and the options that several commands share.

:func:`add_model` adds options for the parameters of the estimators, and :func:`make_estimator` creates an
estimator from the parsed options.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from .._utils.messages import listing

if TYPE_CHECKING:
    from ..compact_klr import CompactKLR
    from ..sparse_klr import SparseKLR


class CliError(Exception):
    """An error that the user can correct; the command line prints it in one line, without a traceback."""


def unknown(what: str, name: str, known: Iterable[str], plural: str) -> CliError:
    """Return the error for an unknown name, with the most similar known name as a suggestion."""
    known = list(known)
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    hint = f"; did you mean {by_lower[close[0]]!r}?" if close else "."
    return CliError(f"{what} {name!r}{hint} The {plural}: {listing(known)}.")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises a :class:`CliError` instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise CliError(f"{message} (see {self.prog} --help)")


def add_command(
    subparsers: Any, name: str, run: Callable[[Namespace], None], summary: str, examples: str
) -> Parser:
    """Add a command and return its parser, which has the option ``--debug`` and examples in its help."""
    parser: Parser = subparsers.add_parser(
        name,
        help=re.split("[.:]", summary[0].lower() + summary[1:])[0],
        description=textwrap.fill(summary, 80),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--debug", action="store_true", help="print the traceback if an error occurs")
    parser.set_defaults(run=run)
    return parser


# -- types of options -------------------------------------------------------------------------


def number(
    above: float | None = None, least: float | None = None, words: tuple[str, ...] = (), kind: type = float
) -> Any:
    """Return an option type: a number in a range, or one of ``words``; an integer if ``kind`` is int.

    The number must be larger than ``above``, or at least ``least``.
    """
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


def fraction(text: str) -> float:
    """Option type: a number between 0 and 1."""
    value: float = number(above=0)(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1; got {text!r}")
    return value


def jobs(text: str) -> int:
    """Option type: a number of threads, as for ``n_jobs`` in scikit-learn."""
    if not re.fullmatch("-?[0-9]+", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number of threads, or -1 for all cores; got {text!r}")
    return int(text)


def separator(text: str) -> str:
    """Option type: a single character, or the name of a separator such as "tab"."""
    found = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}.get(text, text)
    if len(found) != 1:
        raise argparse.ArgumentTypeError(
            f"expected a single character, tab, space, comma or semicolon; got {text!r}"
        )
    return found


def size(text: str) -> float:
    """Option type: a number of bytes, written as 500MB, 1GB or 2e9."""
    units = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    match = re.fullmatch(r"([\d.]+(?:e\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    try:
        value = float(match[1]) * units[match[2].upper()] if match else 0.0
    except ValueError:
        value = 0.0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"expected a size such as 500MB or 1GB; got {text!r}")
    return value


class Dates(argparse.Action):
    """Action that collects COL and COL=FORMAT in a dictionary of date formats by column.

    The format of COL alone is "", which means that it is detected.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        found = dict(getattr(namespace, self.dest))
        for value in values:
            name, sign, form = value.rpartition("=%")
            found[name if sign else value] = f"%{form}" if sign else ""
        setattr(namespace, self.dest, found)


# -- options shared by several commands --------------------------------------------------------------


MODEL_HELP = "file written by sparseklr fit"


def add_data(parser: Parser, target_help: str) -> None:
    """Add the argument DATA, and the options for its classes, its weights and its format."""
    parser.add_argument(
        "data", metavar="DATA", help="CSV, TSV, Parquet or svmlight (LIBSVM) file; - means standard input"
    )
    add_labels(parser, target_help)


def add_labels(parser: Parser, target_help: str) -> None:
    """Add the options for the classes, the weights and the format of DATA."""
    parser.add_argument("--target", metavar="COL", help=target_help)
    parser.add_argument(
        "--sample-weight-column", metavar="COL", help="column with non-negative weights of the rows"
    )
    add_reading(parser)


def add_reading(parser: Parser) -> None:
    """Add the options for the format of DATA; the command detects any setting that the user does not give."""
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--format",
        choices=("csv", "tsv", "parquet", "svmlight"),
        help="format of DATA (default: determined by the suffix of its name)",
    )
    group.add_argument(
        "--sep",
        type=separator,
        help="separator between the cells of a CSV file: a character, or tab (default: detected)",
    )
    group.add_argument(
        "--decimal",
        metavar="SIGN",
        choices=(".", ","),
        help="decimal sign, point or comma (default: detected)",
    )
    group.add_argument("--encoding", help="encoding of a CSV file, such as latin-1 (default: detected)")
    group.add_argument(
        "--na",
        metavar="TOKEN",
        nargs="+",
        action="extend",
        default=[],
        help="tokens that mean a missing value, in addition to NA, ? and similar ones; write a negative "
        "number as --na=-9",
    )


def add_output(parser: Parser, what: str, required: bool = True) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", required=required, help=what)
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")


def add_json(parser: Parser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print only the result, as JSON, on standard output"
    )


def print_json(**content: Any) -> None:
    """Print a JSON object on standard output."""
    import json

    print(json.dumps(content, indent=2))


def add_training(parser: Parser) -> Any:
    """Add the options for the data, the columns and the training, and return the group of model options."""
    add_data(parser, "column that contains the classes (svmlight files have a fixed place for them)")
    group = parser.add_argument_group("columns", "The types of columns that are not given here are detected.")
    for option, meaning in {
        "drop": "columns to ignore",
        "id": "columns that identify the rows; they are not used as features, but predict --id copies them "
        "to its output",
        "categorical": "columns to treat as categories",
        "number": "columns to treat as numbers",
    }.items():
        group.add_argument(f"--{option}", metavar="COL", nargs="+", action="extend", default=[], help=meaning)
    group.add_argument(
        "--date",
        metavar="COL",
        nargs="+",
        action=Dates,
        default={},
        help="columns to treat as dates; COL=FORMAT gives the format, such as born=%%d/%%m/%%Y",
    )
    add_output(
        parser,
        "model file to write (default: the name of DATA, with suffix .sklr); - means standard output",
        False,
    )
    group = parser.add_argument_group("model")
    group.add_argument(
        "--kernel",
        choices=("rbf", "linear", "poly", "laplacian", "sigmoid", "auto"),
        help="kernel function; auto chooses rbf or laplacian by the leave-one-out loss (default: auto)",
    )
    group.add_argument("--degree", type=number(least=0), help="degree of the poly kernel (default: 3)")
    group.add_argument("--class-weight", choices=("balanced",), help="give all classes the same total weight")
    parser.add_argument(
        "--test-size",
        metavar="FRACTION",
        type=fraction,
        help="fraction of the rows to set aside as test rows, on which the model is evaluated",
    )
    seed = number(least=0, kind=int)
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        help="random seed for the choice of test rows and for the fit (default: 0)",
    )
    parser.add_argument(
        "--jobs", type=jobs, default=1, help="number of threads; -1 for all cores (default: 1)"
    )
    parser.add_argument(
        "--verbose",
        action=argparse.BooleanOptionalAction,
        help="show progress on standard error (default: only on a terminal)",
    )
    add_json(parser)
    return group


def add_model(parser: Parser, group: Any) -> None:
    """Add the options for estimator parameters, except those that :func:`add_training` adds to ``group``."""
    group.add_argument(
        "--model",
        choices=("sparse", "compact", "linear"),
        help="sparse keeps some of the training rows (SparseKLR); compact fits the locations of a few points "
        "(CompactKLR); linear is a logistic regression (default: all are compared on validation rows; for "
        "svmlight files, sparse)",
    )
    group.add_argument(
        "--C",
        type=number(above=0),
        help="weight of the likelihood relative to the penalty; smaller values regularise more (default: "
        "chosen by the leave-one-out or validation loss)",
    )
    group.add_argument(
        "--gamma",
        type=number(above=0, words=("scale", "auto")),
        help="kernel coefficient: a number; scale, which is 1 / (number of features * variance); or auto, "
        "which chooses it by the leave-one-out loss (default: scale)",
    )
    group.add_argument(
        "--box",
        type=number(above=0),
        help="C of the support vector machine whose approximation selects the rows; a larger value usually "
        "selects fewer rows (default: 10)",
    )
    group = parser.add_argument_group("compact model")
    group.add_argument(
        "--n-points",
        type=number(least=1, words=("auto",), kind=int),
        help="number of points; auto chooses it on validation rows (default: auto)",
    )
    group.add_argument(
        "--max-points",
        type=number(least=1, kind=int),
        help="largest number of points that auto tries (default: 512)",
    )
    group.add_argument(
        "--relevance",
        choices=("features", "shared", "sparse"),
        help="features: one kernel coefficient per feature; shared: one for all features; sparse: one per "
        "feature, and irrelevant features are dropped (default: features)",
    )
    group = parser.add_argument_group(
        "many rows",
        "With --model compact, DATA may be a folder or a pattern such as 'part-*.parquet'. The rows\n"
        "are then read in blocks, so that they need not fit into memory. Each of the following\n"
        "options also makes sparseklr read in blocks. Every cell must then be a number, and CSV files\n"
        "must use commas and decimal points unless --sep and --decimal are given. Tables with text,\n"
        "dates or missing values must be in a single file that fits into memory.",
    )
    group.add_argument(
        "--memory",
        metavar="SIZE",
        type=size,
        help="memory limit for a fit that reads in blocks (default: 1GB); the model differs slightly from a "
        "fit to the whole table",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a Dask scheduler; its workers must be able to read the files",
    )
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="file in which the state of the fit is saved, and from which an interrupted fit resumes",
    )


# The options that are parameters of each model. For an option that is not given, the estimator's default
# holds.
PARAMETERS = {
    "sparse": ("kernel", "degree", "C", "gamma", "box"),
    "compact": ("C", "n_points", "max_points", "relevance"),
    "linear": (),
}


def make_estimator(args: Namespace, model: str = "sparse", **more: Any) -> SparseKLR | CompactKLR:
    """Return an unfitted SparseKLR or CompactKLR with the parameters given by the options."""
    from ..compact_klr import CompactKLR
    from ..sparse_klr import SparseKLR

    known = dict.fromkeys(name for names in PARAMETERS.values() for name in names)
    given = {name: getattr(args, name) for name in known if getattr(args, name, None) is not None}
    kind = {"sparse": SparseKLR, "compact": CompactKLR}[model]
    return kind(class_weight=args.class_weight, random_state=args.seed, n_jobs=args.jobs, **given, **more)


def model_of_options(args: Namespace) -> str | None:
    """Return the name of the model that the options determine; None if all models are to be compared.

    Without ``--model``, an option that is a parameter of only some models determines the model.
    """
    known = dict.fromkeys(name for names in PARAMETERS.values() for name in names)
    given = [name for name in known if getattr(args, name, None) is not None]
    if args.model is None and not given:
        return None
    able = [model for model, names in PARAMETERS.items() if {*given} <= {*names}]
    model = args.model or (able or ["sparse"])[0]
    for name in given:
        if name not in PARAMETERS[model]:
            raise CliError(f"--{name.replace('_', '-')} is not an option of --model {model}")
    return str(model)


def shows_progress(args: Namespace) -> int:
    """Return the parameter ``verbose`` of the estimator: 1 if progress is shown, otherwise 0."""
    return int(sys.stderr.isatty() if args.verbose is None else args.verbose)
