"""``python -m benchmarks.questions [NAME ...]``: measure, print, and write docs/results/NAME.json."""

import argparse
import time
from importlib import import_module

from ..store import store
from . import QUESTIONS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(QUESTIONS)} (default: all)")
    for name in parser.parse_args().names or QUESTIONS:
        module = import_module(f".{name}", __package__)
        start = time.perf_counter()
        rows = module.measure()
        store(name, f"python -m benchmarks.questions {name}", module.NOTE, module.COLUMNS, rows)
        print(f"{name}: {time.perf_counter() - start:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
