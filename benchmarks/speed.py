"""Speed compared with LIBSVM and other methods: ratios of medians within one run.

Features are in [0, 1], and the kernel is rbf with gamma = 0.5. The methods run in turn. ``--quick`` skips the long
measurements; ``--docs`` writes docs/speed.csv, docs/speed.md and docs/speed.png.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
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
from .common import load, show
from .numbers import aligned
from .sources import at_start, record

Row = dict[str, Any]
REGIMES = {"sparse": (1e4, 1e3), "less sparse": (1e4, 100.0), "dense": (100.0, 1.0)}
DOCS = Path(__file__).resolve().parents[1] / "docs"


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


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
                    facts[adapter.name] = points(model), converged, adapter.threads
            base = float(np.median(times["SVC"]))
            for method, measured in times.items():
                kept, converged, threads = facts[method]
                median = float(np.median(measured))
                rows.append(
                    {"work": f"fit {name}, {regime} (C={C:g}, lam={lam:g})", "method": method, "seconds": median,
                     "ratio to SVC": median / base, "points": kept, "threads": threads,
                     "converged": "yes" if converged else "NO"}
                )  # fmt: skip
    return rows


def paper(iterations: int) -> list[Row]:
    """Return the times of 10,000 iterations with the settings of the paper, here and in a literal implementation."""
    X, y01 = load("spambase")
    y, K = np.where(y01 == 1, 1.0, -1.0), rbf_kernel(X, gamma=0.5)
    ours, solution = timed(lambda: solve_dual(K, y, C=1e4, lam=100.0, **Settings.paper()))
    reference, (_, done) = timed(lambda: paper_reference.solve(K, y, 1e4, 100.0, max_iter=iterations))
    scaled = reference * solution.n_iter / done
    common = {
        "work": "10,000 iterations of the paper's algorithm, spambase",
        "points": len(solution.support),
        "threads": "1",
    }
    return [
        common | {"method": "solve_dual", "seconds": ours, "ratio to SVC": "", "converged": "capped"},
        common | {"method": f"literal reference ({done} its.)", "seconds": scaled, "ratio to SVC": f"{scaled / ours:.0f} x ours", "converged": "capped"},
    ]  # fmt: skip


def predictions(n_rows: int, repeats: int) -> list[Row]:
    """Return CPU times of decision values for rows of 20 features, with models of 16, 200 and 2000 points.

    All models use one thread. The bound is the time of the matrix product of rows and points alone. The matrix product
    and ONNX use blocks of 8192 rows. With lam = 0, SKLR keeps every training row. SVC predicts a tenth of the rows; its
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
            "bound: matrix product": (partial(in_blocks, ours.support_vectors_.T.__rmatmul__), 1.0),
            "SKLR": (partial(ours.decision_function, queries), 1.0),
            "SVC": (partial(svc.decision_function, queries[::10].copy()), svc_scale),
        }
        if (session := onnx_session(ours)) is not None:
            name = session.get_inputs()[0].name
            run = partial(in_blocks, lambda rows, session=session, name=name: session.run(None, {name: rows}))
            works["SKLR as ONNX"] = run, 1.0
        with threadpool_limits(1):
            seconds = {
                name: scale * min(cpu(work) for _ in range(repeats)) for name, (work, scale) in works.items()
            }
        rows += [
            {"work": f"predict {n_rows:,} x 20, {n_points} points", "method": method, "seconds": measured,
             "ratio to SVC": measured / seconds["SVC"], "points": n_points, "threads": "1",
             "converged": f"{measured / seconds['bound: matrix product']:.2f} x bound"}
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


def cpu(action: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    action()
    return time.process_time() - start


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
Path("/proc/self/clear_refs").write_text("5")  # reset the peak caused by reading the data before =
status("VmRSS") cache = sys.argv[1] if sys.argv[1] == "auto" else float(sys.argv[1]) start =
time.perf_counter() SKLR(C=1e4, lam=1e3, gamma=0.5, calibration=None, cache_size=cache, n_jobs=-1).fit(X, y)
seconds = time.perf_counter() - start print(seconds, status("VmHWM") - before, X.nbytes / 2**20)
"""


def memory() -> list[Row]:
    """Return the time and memory of fits to magic with the default cache and a cache of 64 MB.

    Each fit runs in its own process.
    """
    rows, base = [], 0.0
    for cache in ("auto", "64"):
        run = subprocess.run(
            [sys.executable, "-c", MEMORY_SCRIPT, cache], capture_output=True, text=True, check=True,
            cwd=Path(__file__).resolve().parents[1], env=dict(os.environ),
        )  # fmt: skip
        seconds, extra, data = map(float, run.stdout.split())
        base = base or seconds
        rows.append(
            {"work": f"fit magic, cache_size={cache}: {extra:.0f} MB above the interpreter, data {data:.1f} MB",
             "method": "SKLR", "seconds": seconds, "ratio to SVC": f"{seconds / base:.2f} x auto",
             "points": "", "threads": "all", "converged": "yes"}
        )  # fmt: skip
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
        seconds.append(float(np.median(runs)))
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    work = f"growth on magic, n = {', '.join(map(str, sizes))}"
    return [{"work": work, "method": "SKLR", "seconds": seconds[-1], "ratio to SVC": f"exponent {exponent:.2f}",
             "points": "", "threads": "1", "converged": "yes"}]  # fmt: skip


def csr(n: int) -> list[Row]:
    """Return the times on random sparse data with 5000 features, 0.5% non-zeros and labels of a noisy linear rule."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, 5000), density=0.005, format="csr", rng=rng)
    f = X @ rng.normal(size=5000)
    y = (f + 0.3 * f.std() * rng.normal(size=n) > 0).astype(int)
    work = f"fit CSR {n} x 5000, 0.5% non-zeros (C=1e4, lam=1e3)"
    ours, model = timed(lambda: SKLR(1e4, lam=1e3, gamma=0.5, calibration=None, n_jobs=-1).fit(X, y))
    theirs, svc = timed(lambda: SVC(C=10, gamma=0.5, cache_size=4000).fit(X, y))
    return [
        {"work": work, "method": method, "seconds": seconds, "ratio to SVC": seconds / theirs, "points": len(m.support_),
         "threads": threads, "converged": "yes"}
        for method, seconds, m, threads in (("SKLR", ours, model, "all"), ("SVC", theirs, svc, "1"))
    ]  # fmt: skip


PAGE = """# Speed

This page compares fit and prediction times with scikit-learn's `SVC` (LIBSVM) and other methods. In short, `SKLR` is usually
faster than `SVC`, and `SparseKLR` takes about as long as a calibrated `SVC`, or less. Features are scaled to [0, 1], and the kernel
is rbf with gamma = 0.5. The methods run in turn. Times are medians of three runs; `SparseKLR`, the calibrated SVC and Nystroem
run once. A ratio below 1 means faster than `SVC`. *Points* are the training rows that a model keeps. In the column *converged*, *capped* means that
the run was stopped after a fixed number of iterations. Prediction times are CPU times of one thread; their last column compares
them with the time of the matrix product of rows and points in OpenBLAS. `make bench` repeats the measurements; `python -m benchmarks.speed --docs`
writes this page.

Machine: {machine}.
"""


def machine() -> str:
    """Return the processor, the instruction set of the core, and the versions of the libraries that are compared."""
    info = Path("/proc/cpuinfo")
    names = [
        line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
    ]
    found = [
        names[0] if names else platform.processor(),
        f"{os.cpu_count()} cores",
        f"loops {_core.instruction_set}",
    ]
    for library in (
        "sparseklr",
        "numpy",
        "scikit-learn",
        "scikit-learn-intelex",
        "thundersvm",
        "onnxruntime",
    ):
        try:
            found.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            found.append(f"{library} not installed")
    return ", ".join(found)


def write_docs(rows: list[Row]) -> None:
    """Write the results to docs/ as a CSV file, a page and a figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = list(rows[0])
    with open(DOCS / "speed.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines = [
        PAGE.format(machine=machine()),
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
    ]
    lines += ["| " + " | ".join(row) + " |" for row in aligned([[row[c] for c in columns] for row in rows])]
    lines += ["", "![Fit time relative to SVC](speed.png)", ""]
    (DOCS / "speed.md").write_text("\n".join(lines))

    fitted = [
        row
        for row in rows
        if row["work"].startswith("fit ")
        and isinstance(row["ratio to SVC"], float)
        and "CSR" not in row["work"]
    ]
    works = list(dict.fromkeys(row["work"] for row in fitted))
    methods = [r for r in dict.fromkeys(row["method"] for row in fitted) if r != "SVC"]
    figure, axes = plt.subplots(figsize=(9, 0.55 * len(works) + 1.5), layout="constrained")
    for k, method in enumerate(methods):
        ratio = {row["work"]: row["ratio to SVC"] for row in fitted if row["method"] == method}
        where = np.arange(len(works)) + 0.8 * (k - (len(methods) - 1) / 2) / len(methods)
        widths = [ratio.get(w, np.nan) - 1 for w in works]
        axes.barh(where, widths, 0.8 / len(methods), left=1, label=method)
    axes.axvline(1, color="black", linewidth=1)
    axes.set(xscale="log", xlabel="fit time divided by the fit time of SVC", yticks=range(len(works)),
             yticklabels=[w.removeprefix("fit ") for w in works])  # fmt: skip
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
        "--repeats", type=int, default=3, help="number of runs of each fit, of which the median is reported"
    )
    parser.add_argument("--methods", nargs="*", help="names of methods (default: all; --quick: SVC)")
    arguments = parser.parse_args()
    quick = arguments.quick
    methods = arguments.methods or (["SVC"] if quick else None)
    methods = methods and ["SKLR", *methods]
    sets = ["spambase", "ring"] if quick else ["spambase", "ring", "magic"]
    parts = [
        partial(fits, sets, arguments.repeats, methods),
        partial(paper, 300 if quick else 3000),
        partial(predictions, 100_000 if quick else 1_000_000, 3),
        memory,
        partial(growth, [1000, 2000, 4000] if quick else [2000, 4000, 8000, 16000]),
        partial(csr, 5000 if quick else 20_000),
    ]
    print(machine())
    at_start("speed")
    rows: list[Row] = []
    for part in parts:
        found = part()
        rows += found
        for row in found:
            print(*(row[column] for column in rows[0]), sep=" | ", flush=True)
    show("Speed", list(rows[0]), [[row[column] for column in rows[0]] for row in rows])
    if arguments.docs:
        write_docs(rows)
        record("speed")


if __name__ == "__main__":
    main()
