"""Command-line parsing: one-line errors, option types, and options shared by several commands.

:func:`add_model` adds the parameters of the estimators as options, and :func:`make_estimator` creates an
estimator from these options.
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
    """An error that the user can fix, shown as one line."""


def unknown(what: str, name: str, known: Iterable[str], plural: str) -> CliError:
    """The error for an unknown name, which suggests the closest known one."""
    known = list(known)
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    hint = f"; did you mean {by_lower[close[0]]!r}?" if close else "."
    return CliError(f"{what} {name!r}{hint} The {plural}: {listing(known)}.")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises a :class:`CliError` instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        raise CliError(f"{message} (see {self.prog} --help)")


def add_command(
    subparsers: Any, name: str, run: Callable[[Namespace], None], summary: str, examples: str
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
    parser.add_argument("--debug", action="store_true", help="show the traceback if there is an error")
    parser.set_defaults(run=run)
    return parser


# -- types of options -------------------------------------------------------------------------


def number(
    above: float | None = None, least: float | None = None, words: tuple[str, ...] = (), kind: type = float
) -> Any:
    """Option type: a number in a range, which must be whole if ``kind=int``, or one of the given words."""
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
    """Option type: a number of threads, like ``n_jobs`` of scikit-learn."""
    if not re.fullmatch("-?[0-9]+", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number, or -1 for all cores; got {text!r}")
    return int(text)


def separator(text: str) -> str:
    """Option type: a character, or its name."""
    found = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}.get(text, text)
    if len(found) != 1:
        raise argparse.ArgumentTypeError(f"expected one character, tab or space; got {text!r}")
    return found


def size(text: str) -> float:
    """Option type: bytes, as in 500MB, 1GB or 2e9."""
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
    """Collects COL and COL=FORMAT into a mapping of columns to formats, "" for detection."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        found = dict(getattr(namespace, self.dest))
        for value in values:
            name, sign, form = value.rpartition("=%")
            found[name if sign else value] = f"%{form}" if sign else ""
        setattr(namespace, self.dest, found)


# -- options shared by several commands --------------------------------------------------------------


MODEL_HELP = "file written by sparseklr fit"


def add_data(parser: Parser, target_help: str) -> None:
    """Add DATA and the options for its labels and weights, and for reading it."""
    parser.add_argument(
        "data", metavar="DATA", help="CSV, TSV, Parquet or svmlight (LIBSVM) file; - is standard input"
    )
    add_labels(parser, target_help)


def add_labels(parser: Parser, target_help: str) -> None:
    """Add the options for the labels and weights of DATA, and for reading it."""
    parser.add_argument("--target", metavar="COL", help=target_help)
    parser.add_argument("--sample-weight-column", metavar="COL", help="column of non-negative row weights")
    add_reading(parser)


def add_reading(parser: Parser) -> None:
    """Add the options that control how DATA is read; by default everything is detected."""
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--format",
        choices=("csv", "tsv", "parquet", "svmlight"),
        help="format of DATA (default: given by its suffix)",
    )
    group.add_argument(
        "--sep", type=separator, help="separator of a CSV file: a character, or tab (default: detected)"
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
        help="tokens for missing values besides NA, ? and the like; for a negative number write --na=-9",
    )


def add_output(parser: Parser, what: str, required: bool = True) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", required=required, help=what)
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")


def add_json(parser: Parser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print the result on standard output as JSON, and nothing else"
    )


def print_json(**content: Any) -> None:
    """Print a JSON object on standard output."""
    import json

    print(json.dumps(content, indent=2))


def add_training(parser: Parser) -> Any:
    """Add the options for data, columns and training; return the group of model options."""
    add_data(parser, "column of the classes (not for svmlight files, which contain them)")
    group = parser.add_argument_group("columns", "Column types are detected unless given.")
    for option, meaning in {
        "drop": "columns to ignore",
        "id": "columns that identify the rows; they are not used as features, and predict --id writes them",
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
        "model file to write (default: the name of DATA, with suffix .sklr); - is standard output",
        False,
    )
    group = parser.add_argument_group("model")
    group.add_argument(
        "--kernel",
        choices=("rbf", "linear", "poly", "laplacian", "sigmoid", "auto"),
        help="kernel function; auto chooses rbf or laplacian by leave-one-out (default: auto)",
    )
    group.add_argument("--degree", type=number(least=0), help="degree of the poly kernel (default: 3)")
    group.add_argument("--class-weight", choices=("balanced",), help="give all classes the same total weight")
    parser.add_argument(
        "--test-size",
        metavar="FRACTION",
        type=fraction,
        help="fraction of the rows to hold out for evaluating the model",
    )
    seed = number(least=0, kind=int)
    parser.add_argument(
        "--seed", type=seed, default=0, help="random seed for the test split and the fit (default: 0)"
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
    """Add the estimator parameters that :func:`add_training` does not add."""
    group.add_argument(
        "--model",
        choices=("sparse", "compact", "linear"),
        help="sparse selects some of the rows (SparseKLR); compact fits the positions of a few points "
        "(CompactKLR); linear is a logistic regression (default: the best on validation rows; sparse for "
        "svmlight files)",
    )
    group.add_argument(
        "--C",
        type=number(above=0),
        help="weight of the likelihood; smaller values regularise more (default: chosen by leave-one-out, "
        "or on validation rows)",
    )
    group.add_argument(
        "--gamma",
        type=number(above=0, words=("scale", "auto")),
        help="kernel width: a number, scale, or auto, which chooses it by leave-one-out (default: scale)",
    )
    group.add_argument(
        "--box", type=number(above=0), help="bound on the dual variables in the selection (default: 10)"
    )
    group = parser.add_argument_group("compact model")
    group.add_argument(
        "--n-points",
        type=number(least=1, words=("auto",), kind=int),
        help="number of points (default: auto, chosen on validation rows)",
    )
    group.add_argument(
        "--max-points", type=number(least=1, kind=int), help="largest number of points to try (default: 512)"
    )
    group.add_argument(
        "--relevance",
        choices=("features", "shared", "sparse"),
        help="one kernel width per feature, one for all features, or one per feature with "
        "irrelevant features dropped (default: features)",
    )
    group = parser.add_argument_group(
        "many rows",
        "With --model compact, DATA may be a folder or a pattern such as 'part-*.parquet'. The rows\n"
        "are then read in blocks; the following options have the same effect. Every cell must be a\n"
        "number; CSV files must use commas and decimal points unless --sep and --decimal are given.\n"
        "Text, dates and missing values require a single file, which is read as a whole.",
    )
    group.add_argument(
        "--memory",
        metavar="SIZE",
        type=size,
        help="memory limit for out-of-core fitting (default: 1GB). Setting it forces out-of-core "
        "fitting even for a single file; the model then differs slightly",
    )
    group.add_argument(
        "--scheduler", metavar="ADDRESS", help="address of a Dask scheduler whose workers can read the files"
    )
    group.add_argument("--checkpoint", metavar="FILE", help="file from which an interrupted fit resumes")


# Options that are parameters of only one estimator; an option that is not given leaves the default.
PARAMETERS = {
    "sparse": ("kernel", "degree", "C", "gamma", "box"),
    "compact": ("C", "n_points", "max_points", "relevance"),
    "linear": (),
}


def make_estimator(args: Namespace, model: str = "sparse", **more: Any) -> SparseKLR | CompactKLR:
    """Create a SparseKLR or CompactKLR with the given options."""
    from ..compact_klr import CompactKLR
    from ..sparse_klr import SparseKLR

    known = dict.fromkeys(name for names in PARAMETERS.values() for name in names)
    given = {name: getattr(args, name) for name in known if getattr(args, name, None) is not None}
    kind = {"sparse": SparseKLR, "compact": CompactKLR}[model]
    return kind(class_weight=args.class_weight, random_state=args.seed, n_jobs=args.jobs, **given, **more)


def model_of_options(args: Namespace) -> str | None:
    """The model that ``--model`` or an option of only some models determines; None to compare models."""
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
    """The parameter ``verbose`` of the estimator."""
    return int(sys.stderr.isatty() if args.verbose is None else args.verbose)
