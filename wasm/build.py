"""Compiles the core to WebAssembly for the explorer: ``make explorer``.

Needs emscripten (``apt-get install emscripten node-acorn``). The result is committed, so that only those who
change the core need it. Its first line contains a hash of the sources without comments, with which a test
checks that the result is current.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "docs/explorer/solver.js"
UNITS = [
    "wasm/solver.cpp",
    *(
        f"cpp/{name}.cpp"
        for name in (
            "compact_baseline",
            "compact_inner",
            "compact_rows",
            "decision",
            "isa",
            "points",
            "rows",
            "simd_baseline",
            "smo",
            "team",
        )
    ),
]
FLAGS = [
    "-std=c++20",
    "-O3",
    "-msimd128",
    "-fwasm-exceptions",
    "-Icpp",
    "-sMODULARIZE=1",
    "-sEXPORT_NAME=createSolver",
    "-sSINGLE_FILE=1",
    "-sALLOW_MEMORY_GROWTH=1",
    "-sFILESYSTEM=0",
    "-sENVIRONMENT=web",
    "-sEXPORTED_FUNCTIONS=_solve_dual,_refit,_evaluate,_malloc,_free",
]


def fingerprint() -> str:
    """Hash of what is compiled, and how; comments and white space do not count."""
    files = {ROOT / unit for unit in UNITS}
    unread = set(files)
    while unread:  # with what they include
        path = unread.pop()
        included = {ROOT / "cpp" / name for name in re.findall(r'#include "(\S+)"', path.read_text("utf-8"))}
        unread |= included - files
        files |= included
    texts = [re.sub(r"//.*", "", path.read_text("utf-8")).split() for path in sorted(files)]
    return hashlib.sha256(repr([FLAGS, texts]).encode()).hexdigest()


def main() -> None:
    # The linker's optimiser wants acorn, which Debian keeps here.
    environment = {"NODE_PATH": "/usr/share/nodejs", **os.environ}
    command = ["emcc", *FLAGS, *UNITS, "-o", str(OUTPUT)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    program = OUTPUT.read_text("utf-8")
    OUTPUT.write_text(f"// Made by wasm/build.py from sources {fingerprint()}\n{program}", "utf-8")
    print(f"{OUTPUT.relative_to(ROOT)}: {OUTPUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())
