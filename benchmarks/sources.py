"""Check that no stored result is older than the code it measures.

    python -m benchmarks.sources              prints the outdated results; part of ``make lint``
    python -m benchmarks.sources --strict     also fails if there are any; ``make lint-figures``
    python -m benchmarks.sources --measured NAME    records that NAME was measured with the present code

``docs/results/sources.json`` contains a hash of the sources for every result. The script that stores a result writes
the hash. A result without a hash counts as outdated. The hash ignores everything that cannot change a measurement:
comments, docstrings, strings with blanks such as messages, type annotations, and the layout of the code.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "results" / "sources.json"
MIXED = "several versions of the code"

CORE = ("cpp/*.cpp", "cpp/*.hpp", "bindings/*.cpp", "bindings/*.hpp")
PACKAGE = "src/sparseklr/"
SHARED = (
    *CORE,
    *(
        f"{PACKAGE}{name}.py"
        for name in ("_base", "_mixins", "_validation", "kernels", "samples", "scaling", "weights")
    ),
)
SPARSE = (
    *SHARED,
    f"{PACKAGE}sparse_klr.py",
    *(f"{PACKAGE}{name}/*.py" for name in ("dual", "refit", "compact")),
)
COMPACT = (*SHARED, f"{PACKAGE}compact_klr.py", f"{PACKAGE}compact/*.py")
PAPER = (*SHARED, f"{PACKAGE}sklr*.py", f"{PACKAGE}dual/*.py")
STREAMING = (*COMPACT, f"{PACKAGE}streaming/*.py")
MODELS = (*SPARSE, *COMPACT)


class Figure(NamedTuple):
    """The command that measures a stored result again, and the source files on which the result depends."""

    command: str
    sources: tuple[str, ...]


def question(name: str, *sources: str) -> Figure:
    return Figure(f"python -m benchmarks.questions {name}", (f"benchmarks/questions/{name}.py", *sources))


REPRODUCTION = Figure(
    "python -m paper -o NEW.sqlite in all modes, and python -m benchmarks.reproduction NEW.sqlite",
    ("paper/methods.py", "paper/protocol.py", *PAPER, *MODELS, f"{PACKAGE}baselines/*.py"),
)
FIGURES = {
    "arena": Figure(
        "python -m benchmarks.arena run NEW.csv --splits 2 --model SparseKLR --model CompactKLR, "
        "and python -m benchmarks.arena page docs/results/arena.csv NEW.csv",
        ("benchmarks/arena_measure.py", *MODELS),
    ),
    "front": Figure("python -m benchmarks.front_picture", ("benchmarks/front_picture.py", *SPARSE)),
    "migration": Figure("python -m benchmarks.migration", ("benchmarks/migration.py", *MODELS)),
    "compact": Figure(
        "python -m benchmarks.compact quality noise multiclass sparse-gp time predict --again",
        ("benchmarks/compact.py", *MODELS),
    ),
    "speed": Figure(
        "python -m benchmarks.speed --docs",
        ("benchmarks/speed.py", "benchmarks/adapters.py", *PAPER, *SPARSE),
    ),
    "scale": Figure(
        "python -m benchmarks.scale all --docs, with a new --folder",
        ("benchmarks/scale.py", "benchmarks/scale_measures.py", *STREAMING),
    ),
    "sparsity": Figure("python -m benchmarks.sparsity", ("benchmarks/sparsity.py", *PAPER)),
    "paper_kernel": Figure("python -m benchmarks.paper_kernel", ("benchmarks/paper_kernel.py", *PAPER)),
    **{f"reproduction{part}": REPRODUCTION for part in ("", "_accuracy", "_fraction", "_best", "_sparsest")},
    "parameters": question("parameters", *SPARSE),
    "scaling": question("scaling", *MODELS),
    "size": question("size", *SPARSE, *STREAMING),
    "limits": question("limits", *MODELS),
    "weights": question("weights", *MODELS),
    "thresholds": question("thresholds", *MODELS),
    "far": question("far", *MODELS),
    "diagnostics": question("diagnostics", *SPARSE),
    "explaining": question("explaining", *COMPACT),
    "serving": question("serving", *MODELS, f"{PACKAGE}export/*.py"),
    "determinism": question("determinism", *MODELS),
}


def fingerprint(name: str, root: Path = ROOT) -> str:
    """Return the hash of everything that result ``name`` depends on; it does not depend on the names of the files."""
    files = {path for pattern in FIGURES[name].sources for path in root.glob(pattern)}
    return digest(" ".join(sorted(map(file_digest, files))))


@cache
def file_digest(path: Path) -> str:
    text = path.read_text("utf-8")
    return digest(json.dumps(meaning(ast.parse(text))) if path.suffix == ".py" else cpp_meaning(text))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def meaning(node: Any) -> Any:
    """Return a syntax tree as nested lists, without the parts that cannot change a measurement.

    Empty fields are omitted, because releases of Python differ in them.
    """
    if isinstance(node, list):
        return [meaning(part) for part in node if not is_inert(part)]
    if not isinstance(node, ast.AST):
        prose = isinstance(node, str) and re.search(r"\s", node)
        return "text" if prose else repr(node)
    fields = {
        name: value for name, value in ast.iter_fields(node) if name not in ("annotation", "returns", "kind")
    }
    return [
        type(node).__name__,
        *([name, meaning(value)] for name, value in fields.items() if value not in (None, [])),
    ]


def is_inert(node: Any) -> bool:
    """Return whether a statement is a docstring or is only for type checkers."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.ImportFrom):
        return node.module in ("__future__", "typing", "collections.abc")
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def cpp_meaning(text: str) -> str:
    """Return C++ code without comments and blanks."""
    return re.sub(r"//[^\n]*|/\*.*?\*/|\s+", "", text, flags=re.S)


def at_start(name: str) -> str:
    """Return the hash of the sources when this process first needed it: files may be edited during a run of hours."""
    return _AT_START.setdefault(name, fingerprint(name))


_AT_START: dict[str, str] = {}


def record(name: str, measured: Iterable[str] = ()) -> None:
    """Store the hashes of the sources with which a result was measured, by default the hash of this process."""
    found = set(measured) or {at_start(name)}
    known = recorded()
    known[name] = found.pop() if len(found) == 1 else MIXED
    RECORD.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", "utf-8")


def recorded() -> dict[str, str]:
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}


def outdated() -> list[str]:
    """Return the names of the results that were measured with other sources than the present ones."""
    known = recorded()
    return [name for name in FIGURES if known.get(name) != fingerprint(name)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--strict", action="store_true", help="fail if a result is outdated")
    parser.add_argument("--measured", nargs="+", metavar="NAME", choices=list(FIGURES), default=[])
    given = parser.parse_args()
    for name in given.measured:
        record(name)
    if not (names := outdated()):
        return
    print(
        f"{len(names)} of {len(FIGURES)} stored results were measured with other code than the present code; the following commands measure them again:"
    )
    for name in names:
        print(f"  {name}: {FIGURES[name].command}")
    if given.strict:
        sys.exit(1)


if __name__ == "__main__":
    main()
