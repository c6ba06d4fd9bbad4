"""Command line ``sparseklr`` with the subcommands fit, show, predict, evaluate, explain, report and export.

Each subcommand COMMAND has a function ``add_COMMAND(subparsers)``, which adds a parser, and a function
``run_COMMAND(args)``, which executes the subcommand. Only the second function imports large packages such as
pandas, so that ``sparseklr --help`` is fast.
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
from .._utils.messages import printable
from .options import CliError, Parser

# The module in which each subcommand is defined.
COMMANDS = {
    "fit": "fit",
    "show": "show",
    "predict": "predict",
    "evaluate": "predict",
    "explain": "predict",
    "report": "show",
    "export": "show",
}
EXTRA = ("rich", "pandas", "pyarrow")  # packages installed by sparseklr[cli]


def make_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="sparseklr",
        description="Sparse kernel logistic regression: classifiers that keep only a few training rows and "
        "predict probabilities you can act on.",
        epilog="sparseklr COMMAND --help shows the options of a command, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"sparseklr {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        getattr(import_module(f".{module}", __name__), f"add_{name}")(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, or 2 after an error, or 130 after an interrupt."""
    return run_command_line("sparseklr", make_parser, argv)


def run_command_line(
    program: str, make_parser: Callable[[], Parser], argv: Sequence[str] | None = None
) -> int:
    """Parse the arguments, call the function of the subcommand, and return the exit code.

    Each error or warning is printed on one line, with the prefix ``program``.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # print a question mark for characters the terminal cannot show
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
    except BrokenPipeError:  # the program that reads the output, such as head, stopped early
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
    """Return a description of an error in one line."""
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").split(".")[0]) in EXTRA:
        return f'this command needs {package}: pip install "sparseklr[cli]"'
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    text = " ".join(str(error).split())
    if isinstance(error, (CliError, ValueError, FileNotFoundError)):
        return text
    return f"{type(error).__name__}: {text} (--debug shows the traceback)"


def _show_warning(program: str, message: Warning | str, *place: Any, **more: Any) -> None:
    print(printable(f"{program}: warning: {' '.join(str(message).split())}"), file=sys.stderr)
