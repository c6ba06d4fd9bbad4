"""The command ``sparseklr``: fit, tune, show, predict, evaluate, explain, report and export on files of your
own.

Each command is a module with ``add_parser(subparsers)``, whose parser names a function by
``set_defaults(run=...)``. These modules load nothing heavy before that function runs, so that
``sparseklr --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from .. import __version__
from .._words import printable
from .errors import CliError
from .options import Parser

COMMANDS = (
    "fit",
    "tune",
    "show",
    "predict",
    "evaluate",
    "explain",
    "report",
    "export",
)
EXTRA = ("rich", "skops", "skrub", "pandas", "pyarrow")  # of sparseklr[cli]


def make_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="sparseklr",
        description="Sparse kernel logistic regression: classifiers that keep few training points and give "
        "probabilities one can act on.",
        epilog="sparseklr COMMAND --help has the options of a command, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"sparseklr {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f".{name}", __name__).add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns 0 if done, 2 after an error, which is one line, 130 if interrupted."""
    return run_command_line("sparseklr", make_parser, argv)


def run_command_line(
    program: str, make_parser: Callable[[], Parser], argv: Sequence[str] | None = None
) -> int:
    """Run the function that the parsed arguments name in ``run``; warnings and errors are lines that begin
    with ``program``.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # characters that a terminal cannot show become question marks
            stream.reconfigure(errors="replace")
    try:
        args = make_parser().parse_args(argv)
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, program)
            args.run(args)
            sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        return _stop(program, "interrupted", code=130)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if "--debug" in argv:
            traceback.print_exc()
        return _stop(program, f"error: {_explain(error)}", code=2)


def _stop(program: str, text: str, code: int) -> int:
    print(printable(f"{program}: {text}"), file=sys.stderr)
    return code


def _explain(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").split(".")[0]) in EXTRA:
        return f'this command needs {package}: pip install "sparseklr[cli]"'
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    text = " ".join(str(error).split())
    if isinstance(error, (CliError, ValueError, FileNotFoundError)):
        return text
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _show_warning(program: str, message: Warning | str, *place: Any, **more: Any) -> None:
    print(printable(f"{program}: warning: {' '.join(str(message).split())}"), file=sys.stderr)
