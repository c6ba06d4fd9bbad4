"""Speed compared with LIBSVM and other methods: CPU times of one thread, the smallest of alternating runs.

Features are in [0, 1], and the kernel is the RBF kernel with gamma = 0.5. The methods run in turn. ``--quick`` skips the long
measurements. ``--docs`` writes docs/speed.csv, docs/speed.md and docs/speed.png, and ``--page`` writes the page and the
figure from the stored docs/speed.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sparseklr import SKLR, _core
from sparseklr.dual import Settings, solve_dual
from sparseklr.export import to_onnx

from . import paper_reference
from .adapters import adapters, fit, points
from .common import load
from .numbers import aligned
from .sources import at_start, record

Row = dict[str, Any]
REGIMES = {"sparse": (1e4, 1e3), "less sparse": (1e4, 100.0), "dense": (100.0, 1.0)}
DOCS = Path(__file__).resolve().parents[1] / "docs"
COLUMNS = (
    *("table", "machine", "data and parameters", "points of the model", "`cache_size`", "rows", "method"),
    *(
        "seconds",
        "seconds for the largest subset",
        "ratio to SVC",
        "ratio to `solve_dual`",
        "ratio to the matrix product",
    ),
    *("points", "converged", "peak memory (MB)", "exponent"),
)  # of docs/speed.csv


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds and the result of a call; linear algebra uses one thread."""
    with threadpool_limits(1):
        start = time.process_time()
        result = action()
        return time.process_time() - start, result


def fits(names: list[str], repeats: int, methods: list[str] | None) -> list[Row]:
    """Return the fit times of all methods, which run in turn, and their ratios to SVC."""
    rows = []
    for name in names:
        X, y = load(name)
        for regime, (C, lam) in REGIMES.items():
            times: dict[str, list[float]] = {}
            facts: dict[str, tuple] = {}
            chosen = [a for a in adapters() if methods is None or a.name in methods]
            for repeat in range(repeats):
                for adapter in chosen:
                    slow = adapter.name in ("SparseKLR", "SVC calibrated", "Nystroem 600 + logistic")
                    if slow and (repeat or regime != "sparse"):
                        continue  # run slow methods only once
                    seconds, (model, converged) = timed(partial(fit, adapter, C, lam, X, y))
                    times.setdefault(adapter.name, []).append(seconds)
                    facts[adapter.name] = points(model), converged
            base = min(times["SVC"])
            for method, measured in times.items():
                kept, converged = facts[method]
                least = min(measured)
                rows.append(
                    {"table": "fits", "data and parameters": f"{name}, {regime} (C={C:g}, lam={lam:g})",
                     "method": method, "seconds": least, "ratio to SVC": least / base, "points": kept,
                     "converged": "yes" if converged else "NO"}
                )  # fmt: skip
    return rows


def paper(iterations: int) -> list[Row]:
    """Return the times of 10,000 iterations with the settings of the paper, here and in a literal implementation."""
    X, y01 = load("spambase")
    y, K = np.where(y01 == 1, 1.0, -1.0), rbf_kernel(X, gamma=0.5)
    ours, solution = timed(lambda: solve_dual(K, y, C=1e4, lam=100.0, **asdict(Settings.paper())))
    reference, (_, done) = timed(lambda: paper_reference.solve(K, y, 1e4, 100.0, max_iter=iterations))
    scaled = reference * solution.n_iter / done
    return [
        {"table": "paper", "method": "`solve_dual`", "seconds": ours, "ratio to `solve_dual`": 1.0},
        {"table": "paper", "method": "literal implementation in Python", "seconds": scaled, "ratio to `solve_dual`": scaled / ours},
    ]  # fmt: skip


def predictions(n_rows: int, repeats: int) -> list[Row]:
    """Return CPU times of decision values for rows of 20 features, with models of 16, 200 and 2000 points.

    All models use one thread. The matrix product of rows and points alone serves as a reference. It and ONNX use blocks
    of 8192 rows. With lam = 0, SKLR keeps every training row. SVC predicts a tenth of the rows; its
    time is multiplied by ten and scaled to the same number of points.
    """
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(n_rows, 20))
    rows = []
    for n_points in (16, 200, 2000):
        X, y = rng.normal(size=(n_points, 20)), np.arange(n_points) % 2
        ours = SKLR(1.0, lam=0, gamma=0.05, calibration=None, n_jobs=1).fit(X, y)
        svc = SVC(C=1.0, gamma=0.05).fit(X, y)

        def in_blocks(action: Callable[[np.ndarray], Any]) -> None:
            for start in range(0, n_rows, 8192):
                action(queries[start : start + 8192])

        svc_scale = 10 * n_points / len(svc.support_)
        works = {
            "matrix product alone": (partial(in_blocks, ours.support_vectors_.T.__rmatmul__), 1.0),
            "SKLR": (partial(ours.decision_function, queries), 1.0),
            "SVC": (partial(svc.decision_function, queries[::10].copy()), svc_scale),
        }
        if (session := onnx_session(ours)) is not None:
            name = session.get_inputs()[0].name
            run = partial(in_blocks, lambda rows, session=session, name=name: session.run(None, {name: rows}))
            works["SKLR as ONNX"] = run, 1.0
        seconds = {
            name: scale * min(timed(work)[0] for _ in range(repeats)) for name, (work, scale) in works.items()
        }
        rows += [
            {"table": "predictions", "points of the model": n_points, "method": method, "seconds": measured,
             "ratio to SVC": measured / seconds["SVC"],
             "ratio to the matrix product": measured / seconds["matrix product alone"]}
            for method, measured in seconds.items()
        ]  # fmt: skip
    return rows


def onnx_session(model: Any) -> Any:
    """Return an ONNX session of one thread; None if onnxruntime or skl2onnx is not installed."""
    try:
        import onnxruntime

        graph = to_onnx(model, dtype="float64").SerializeToString()
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


# Reads the peak memory of the process itself, because ru_maxrss also includes the peak memory of its parent.
MEMORY_SCRIPT = """
import sys, time
from pathlib import Path
import numpy as np
from sparseklr import SKLR
from benchmarks.common import load
X, y = load("magic")
SKLR(C=1e4, calibration=None, gamma=0.5).fit(X[::200], y[::200])
def status(name):
    return int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) / 1024
Path("/proc/self/clear_refs").write_text("5")  # reset the peak, which reading the data caused
before = status("VmRSS")
cache = sys.argv[1] if sys.argv[1] == "auto" else float(sys.argv[1])
start = time.process_time()
SKLR(C=1e4, lam=1e3, gamma=0.5, calibration=None, cache_size=cache, n_jobs=1).fit(X, y)
seconds = time.process_time() - start
print(seconds, status("VmHWM") - before)
"""


def memory() -> list[Row]:
    """Return the time and memory of fits to magic with the default cache and a cache of 256 MB.

    Each fit runs in its own process.
    """
    rows = []
    for cache in ("auto", "256"):
        run = subprocess.run(
            [sys.executable, "-c", MEMORY_SCRIPT, cache], capture_output=True, text=True, check=True,
            cwd=Path(__file__).resolve().parents[1], env=dict(os.environ),
        )  # fmt: skip
        seconds, extra = map(float, run.stdout.split())
        rows.append({"table": "memory", "`cache_size`": cache, "seconds": seconds, "peak memory (MB)": extra})
    return rows


def growth(sizes: list[int]) -> list[Row]:
    """Return the exponent with which the fit time grows with the number of rows, on subsets of magic."""
    X, y = load("magic")
    order = np.random.default_rng(0).permutation(len(y))
    seconds = []
    for n in sizes:
        part = order[:n]
        runs = [
            timed(lambda p=part: SKLR(1e4, lam=1e3, gamma=0.5, calibration=None).fit(X[p], y[p]))[0]
            for _ in range(3)
        ]
        seconds.append(min(runs))
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    return [
        {"table": "growth", "rows": f"{sizes[0]:,} to {sizes[-1]:,}", "seconds for the largest subset": seconds[-1], "exponent": exponent}
    ]  # fmt: skip


def csr(n: int) -> list[Row]:
    """Return the times on random sparse data with 5000 features, 0.5% non-zeros and labels of a noisy linear rule."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, 5000), density=0.005, format="csr", rng=rng)
    f = X @ rng.normal(size=5000)
    y = (f + 0.3 * f.std() * rng.normal(size=n) > 0).astype(int)
    work = f"CSR matrix, {n:,} x 5,000 (C=10000, lam=1000)"
    ours, model = timed(lambda: SKLR(1e4, lam=1e3, gamma=0.5, calibration=None, n_jobs=1).fit(X, y))
    theirs, svc = timed(lambda: SVC(C=10, gamma=0.5, cache_size=4000).fit(X, y))
    return [
        {"table": "fits", "data and parameters": work, "method": method, "seconds": seconds,
         "ratio to SVC": seconds / theirs, "points": len(m.support_), "converged": "yes"}
        for method, seconds, m in (("SKLR", ours, model), ("SVC", theirs, svc))
    ]  # fmt: skip


PAGE = """# Speed

This page compares the fit and prediction times of sparseklr with those of scikit-learn's `SVC` (LIBSVM) and other methods.
All times are CPU seconds of one thread. A ratio below 1 means that the method is faster than the reference named
in the column header. For the fit times of larger data sets, see [](guide/size.md).

`make bench` repeats the measurements, and `python -m benchmarks.speed --docs` also writes this page.

Machine: {machine}

## Fits

The features are scaled to [0, 1], and the kernel is the RBF kernel with gamma = 0.5. The parameters in the first column are those of
`SKLR`. The corresponding `SVC` has the parameter C / lam and a cache of 4,000 MB. `SparseKLR` uses its default parameters, so it
scales the features and chooses the kernel itself. *SVC intelex* is the `SVC` of scikit-learn-intelex, *SVC calibrated* is
`CalibratedClassifierCV(SVC(), ensemble=False)`, and *Nystroem* is a logistic regression on 600 features of a Nystroem
approximation. The last data set is a random sparse matrix in CSR format with 0.5% non-zero values.

Most methods were run several times in turn, and the shortest time is reported. `SparseKLR`, the calibrated SVC, Nystroem and
the methods on the sparse matrix were run only once. *Points* are the training rows that the model keeps or, for Nystroem, the
training rows on which the approximation is based.

{fits}

![Fit time relative to SVC](speed.png)

## Predictions

The table shows how long `decision_function` takes on a million rows with 20 features, for models with 16, 200 and 2,000 points. The
matrix product of the rows and the points, computed by OpenBLAS in blocks of 8,192 rows, serves as a reference. The times of
`SVC` are extrapolated from a tenth of the rows.

{predictions}

## The paper's algorithm

The table compares two implementations of the paper's algorithm over 10,000 iterations on the data set spambase, with
C = 10,000 and lam = 100: `solve_dual` and a literal implementation in Python. The literal implementation follows the text
of the paper step by step; its time is extrapolated from its first 1,000 iterations.

{paper}

## Size of the kernel cache

The table shows the time and the peak memory needed to fit `SKLR` to the data set magic, with C = 10,000 and lam = 1,000. The memory
in use before the fit, which includes the data, is subtracted.

{memory}

## Growth with the number of rows

`SKLR` was fitted to subsets of the data set magic, with C = 10,000 and lam = 1,000. The fit time is approximately proportional
to a power of the number of rows, with the following exponent:

{growth}
"""


def machine() -> str:
    """Return sentences with the processor, the instruction set of the core, and the versions of the libraries."""
    info = Path("/proc/cpuinfo")
    names = [
        line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
    ]
    processor = names[0] if names else platform.processor()
    software = []
    for library in (
        "sparseklr",
        "numpy",
        "scikit-learn",
        "scikit-learn-intelex",
        "thundersvm",
        "onnxruntime",
    ):
        with contextlib.suppress(PackageNotFoundError):
            software.append(f"{library} {version(library)}")
    return (
        f"{processor}, {os.cpu_count()} cores; the compiled loops use {_core.instruction_set} instructions. "
        f"Software: {', '.join(software)}."
    )


def write_csv(rows: list[Row]) -> None:
    """Write the results to docs/speed.csv; a cell is empty if its column does not belong to the table of its row."""
    with open(DOCS / "speed.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv() -> list[Row]:
    """Return the rows of docs/speed.csv without empty cells, and with numbers as numbers."""
    with open(DOCS / "speed.csv", newline="") as file:
        return [
            {column: number(cell) for column, cell in row.items() if cell} for row in csv.DictReader(file)
        ]


def number(cell: str) -> int | float | str:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(cell)
    return cell


def table(rows: list[Row]) -> str:
    """Return rows that have the same columns as a Markdown table."""
    columns = [column for column in rows[0] if column != "table"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    cells = aligned([[row[column] for column in columns] for row in rows])
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in cells)])


def write_page() -> None:
    """Write docs/speed.md and docs/speed.png from docs/speed.csv."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = read_csv()
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row["table"], []).append(row)
    found = parts.pop("machine")[0]["machine"]
    page = PAGE.format(machine=found, **{name: table(part) for name, part in parts.items()})
    (DOCS / "speed.md").write_text(page)

    fitted = [row for row in parts["fits"] if "CSR" not in row["data and parameters"]]
    works = list(dict.fromkeys(row["data and parameters"] for row in fitted))
    methods = [r for r in dict.fromkeys(row["method"] for row in fitted) if r != "SVC"]
    figure, axes = plt.subplots(figsize=(9, 0.55 * len(works) + 1.5), layout="constrained")
    for k, method in enumerate(methods):
        ratio = {row["data and parameters"]: row["ratio to SVC"] for row in fitted if row["method"] == method}
        where = np.arange(len(works)) + 0.8 * (k - (len(methods) - 1) / 2) / len(methods)
        widths = [ratio.get(w, np.nan) - 1 for w in works]
        axes.barh(where, widths, 0.8 / len(methods), left=1, label=method)
    axes.axvline(1, color="black", linewidth=1)
    axes.set(xscale="log", xlabel="fit time divided by the fit time of SVC", yticks=range(len(works)),
             yticklabels=works)  # fmt: skip
    axes.set_xticks([0.1, 0.2, 0.5, 1, 2, 5, 10], ["0.1", "0.2", "0.5", "1", "2", "5", "10"])
    axes.minorticks_off()
    axes.invert_yaxis()
    axes.legend(fontsize="small", ncols=2, loc="upper center", bbox_to_anchor=(0.4, -0.12))
    figure.savefig(DOCS / "speed.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--docs", action="store_true", help="write the results under docs/")
    parser.add_argument(
        "--page", action="store_true", help="write the page and the figure from docs/speed.csv"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="number of runs of each fit, of which the fastest is reported"
    )
    parser.add_argument("--methods", nargs="*", help="names of methods (default: all; --quick: SVC)")
    arguments = parser.parse_args()
    if arguments.page:
        return write_page()
    quick = arguments.quick
    methods = arguments.methods or (["SVC"] if quick else None)
    methods = methods and ["SKLR", *methods]
    sets = ["spambase", "ring"] if quick else ["spambase", "ring", "magic"]
    parts = [
        partial(fits, sets, arguments.repeats, methods),
        partial(paper, 300 if quick else 1000),
        partial(predictions, 100_000 if quick else 1_000_000, 2),
        memory,
        partial(growth, [1000, 2000, 4000] if quick else [2000, 4000, 8000, 16000]),
        partial(csr, 5000 if quick else 10_000),
    ]
    print(machine())
    at_start("speed")
    rows: list[Row] = [{"table": "machine", "machine": machine()}]
    for part in parts:
        found = part()
        rows += found
        print(table(found), flush=True)
    if arguments.docs:
        write_csv(rows)
        write_page()
        record("speed")


if __name__ == "__main__":
    main()
