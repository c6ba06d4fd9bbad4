"""The command ``sparseklr``: fit, show, predict, evaluate, explain, report and export on your files.

Each command has a function ``add_COMMAND(subparsers)`` that adds its parser and sets the function that runs
it. The modules import heavy packages only inside that function, so that ``sparseklr --help`` is fast.
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

# The module of each command, with a function add_COMMAND.
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
    """The parser of the whole command line."""
    parser = Parser(
        prog="sparseklr",
        description="Sparse kernel logistic regression: classifiers that keep a few training points and give "
        "probabilities you can act on.",
        epilog="sparseklr COMMAND --help shows the options of a command, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"sparseklr {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        getattr(import_module(f".{module}", __name__), f"add_{name}")(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after a one-line error, or 130 if interrupted."""
    return run_command_line("sparseklr", make_parser, argv)


def run_command_line(
    program: str, make_parser: Callable[[], Parser], argv: Sequence[str] | None = None
) -> int:
    """Call ``args.run`` with the parsed arguments; ``program`` is the prefix of warnings and errors."""
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
    except BrokenPipeError:  # the reader, such as head, stopped early
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
    """Describe an error in one line."""
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
