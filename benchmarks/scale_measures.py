"""Measurements of benchmarks/scale.py, each of which runs in its own process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparseklr.datasets import (
    expected_log_loss,
    make_clusters,
    make_ringnorm,
    make_twonorm,
    make_waveform,
    true_log_proba,
)

CHUNK = 250_000  # number of rows drawn at once; each chunk has its own seed
TEST_ROWS = 200_000


# -- data --------------------------------------------------------------------------------------


def draw(name: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample as float32 and labels 0 and 1; for waveform, class 1 is the positive class."""
    if name == "waveform":
        X, y = make_waveform(n, random_state=seed)
        return X.astype(np.float32), (y == 1).astype(np.int64)
    make = {"ring": make_ringnorm, "twonorm": make_twonorm, "clusters": make_clusters}[name]
    X, y = make(n, random_state=seed)
    return X.astype(np.float32), y


def truth(name: str, X: np.ndarray) -> np.ndarray:
    log_proba = true_log_proba({"ring": "ringnorm"}.get(name, name), X)
    if name != "waveform":
        return log_proba
    return np.column_stack([np.logaddexp(log_proba[:, 0], log_proba[:, 2]), log_proba[:, 1]])


def chunks(name: str, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for seed, start in enumerate(range(0, n, CHUNK)):
        yield draw(name, min(CHUNK, n - start), seed)


def arrays(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    parts = list(chunks(name, n))
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def parquet_folder(folder: Path, name: str, n: int) -> Path:
    """Write Parquet files of a million rows each, unless they exist."""
    import pyarrow as pa
    from pyarrow import parquet

    target = folder / f"{name}-{n}"
    if target.is_dir():
        return target
    building = folder / f".{name}-{n}"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    writer, rows = None, 0
    for X, y in chunks(name, n):
        table = pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y})
        if writer is None:
            path = building / f"part-{rows // 1_000_000:04d}.parquet"
            writer = parquet.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
        rows += len(y)
        if rows % 1_000_000 == 0 or rows == n:
            writer.close()
            writer = None
    building.rename(target)
    return target


# -- measurements, each in a separate process ----------------------------------------------------


def peak_above(start: float) -> float:
    """Return the peak memory of this process in MB, minus ``start``."""
    return status("VmHWM") - start


def status(name: str) -> float:
    return int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) / 1024


def fit_model(method: str, n_jobs: int) -> Callable[[Any, Any], Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.kernel_approximation import Nystroem, RBFSampler
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from sparseklr import CompactKLR

    def gamma(p: int) -> float:
        return 0.5 / p

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        p = X.shape[1]
        model = {
            "CompactKLR": lambda: CompactKLR(n_jobs=n_jobs),
            "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
            "Nystroem 300 + logistic": lambda: make_pipeline(
                StandardScaler(),
                Nystroem(gamma=gamma(p), n_components=300, random_state=0, n_jobs=n_jobs),
                LogisticRegression(C=100, max_iter=200),
            ),
            "RBFSampler 300 + SGD": lambda: make_pipeline(
                StandardScaler(),
                RBFSampler(gamma=gamma(p), n_components=300, random_state=0),
                SGDClassifier(loss="log_loss", alpha=1e-6, random_state=0),
            ),
        }[method]()
        return model.fit(X, y)

    return fit


def points_of(model: Any) -> int | None:
    return getattr(model, "n_points_", None)


def measure_million(name: str, method: str, n: int) -> dict[str, Any]:
    X, y = arrays(name, n)
    fresh, _ = draw(name, min(TEST_ROWS, n), 10**6)
    start = time.perf_counter()
    model = fit_model(method, -1)(X, y)
    seconds = time.perf_counter() - start
    true = truth(name, fresh)
    # baselines in float32 round small probabilities to zero
    log_proba = np.log(np.clip(model.predict_proba(fresh).astype(np.float64), 1e-12, 1.0))
    best = float(expected_log_loss(true, true).mean())
    loss = float(expected_log_loss(true, log_proba).mean())
    return {
        "seconds": seconds,
        "log_loss": loss,
        "bayes": best,
        "ratio": loss / best,
        "points": points_of(model),
    }


def measure_growth(name: str, n: int, folder: str) -> dict[str, Any]:
    import pandas as pd

    from sparseklr import CompactKLR
    from sparseklr.streaming import TableSource

    CompactKLR(n_points=2, C=10.0).fit(
        *draw(name, 2000, 0)
    )  # imports all libraries that are loaded on first use
    source = TableSource(parquet_folder(Path(folder), name, n), "y")
    Path("/proc/self/clear_refs").write_text("5")
    base, start = status("VmRSS"), time.perf_counter()
    model = CompactKLR(n_jobs=-1).fit_source(source)
    seconds = time.perf_counter() - start
    fresh, _ = draw(name, min(TEST_ROWS, n), 10**6)
    true = truth(name, fresh)
    log_proba = model.predict_log_proba(pd.DataFrame(fresh, columns=model.feature_names_in_))
    ratio = expected_log_loss(true, log_proba).mean() / expected_log_loss(true, true).mean()
    return {"seconds": seconds, "peak_mb": peak_above(base), "ratio": float(ratio), "points": model.n_points_}


def difference(model: Any, other: Any) -> float:
    """Return the largest difference between two models in points, coefficients and widths.

    Each difference is divided by the largest absolute value of the quantity.
    """
    if model.n_points_ != other.n_points_:
        return float("inf")
    pairs = [
        (getattr(model, a), getattr(other, a)) for a in ("points_", "dual_coef_", "intercept_", "relevance_")
    ]
    return float(max(np.abs(a - b).max() / np.abs(a).max() for a, b in pairs))


def measure_cluster(name: str, n: int, folder: str) -> dict[str, Any]:
    """Return the times of fits to files with threads and to a Dask data frame, and the difference of the models.

    The workers are idle while the estimator works on its sample. A first fit to a few rows loads all libraries.
    """
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from sparseklr import CompactKLR
    from sparseklr.streaming import TableSource

    path, few = parquet_folder(Path(folder), name, n), parquet_folder(Path(folder), "ring", 30_000)
    for part in (few, path):
        start = time.perf_counter()
        threads = CompactKLR(n_jobs=2).fit_source(TableSource(part, "y"))
        seconds = time.perf_counter() - start
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(_import)
        for part in (few, path):
            data = dd.read_parquet(part, split_row_groups=True)
            start = time.perf_counter()
            model = CompactKLR(n_jobs=2).fit(data.drop(columns="y"), data.y)
            on_cluster = time.perf_counter() - start
    return {"seconds": seconds, "on_cluster": on_cluster, "slower": on_cluster / seconds,
            "difference": difference(threads, model)}  # fmt: skip


def _import() -> None:
    import sparseklr.compact_klr  # noqa: F401


def measure_dead_worker(name: str, n: int, folder: str) -> dict[str, Any]:
    """Return the difference between a fit during which one of two workers is killed and an undisturbed fit."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from sparseklr import CompactKLR
    from sparseklr.streaming import gauss_newton

    path = parquet_folder(Path(folder), name, n)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(_import)
        data = dd.read_parquet(path)
        expected = CompactKLR().fit(data.drop(columns="y"), data.y)
        victim = next(iter(client.run(os.getpid).values()))
        calls, original = [], gauss_newton.RowsObjective.__call__

        def deadly(self: Any, model: Any) -> Any:
            calls.append(self.blocks.n_rows)
            if calls.count(n) == 2:
                os.kill(victim, signal.SIGKILL)
            return original(self, model)

        gauss_newton.RowsObjective.__call__ = deadly  # type: ignore[method-assign]
        start = time.perf_counter()
        model = CompactKLR().fit(data.drop(columns="y"), data.y)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "difference": difference(expected, model), "killed": calls.count(n) >= 2}


KILLED = """
import sys
from sparseklr import CompactKLR
from sparseklr.streaming import TableSource, checkpoint
save, saved = checkpoint.Checkpoint.save, []
def announce(self, state):
    save(self, state)
    saved.append(1)
    print(len(saved), flush=True)
checkpoint.Checkpoint.save = announce
CompactKLR(n_jobs=-1).fit_source(TableSource(sys.argv[1], "y"), checkpoint=sys.argv[2])
"""


def measure_killed_fit(name: str, n: int, folder: str) -> dict[str, Any]:
    """Return the difference between a fit that is killed and resumed from its checkpoint, and an undisturbed fit."""
    from sparseklr import CompactKLR
    from sparseklr.streaming import TableSource

    path = parquet_folder(Path(folder), name, n)
    expected = CompactKLR(n_jobs=-1).fit_source(TableSource(path, "y"))
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "fit.npz"
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), str(file)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip() == "3":
                    process.send_signal(signal.SIGKILL)
        assert file.exists()
        model = CompactKLR(n_jobs=-1).fit_source(TableSource(path, "y"), checkpoint=file)
    return {"difference": difference(expected, model)}


def measure_predict(name: str, n: int, folder: str) -> dict[str, Any]:
    """Return the speed and memory of ``sparseklr predict`` on all rows, with a model fitted to 10^5 rows."""
    path = parquet_folder(Path(folder), name, n)
    small = parquet_folder(Path(folder), name, min(n, 100_000))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        model, out = f"{scratch}/model.sklr", f"{scratch}/out.parquet"
        run = [sys.executable, "-m", "sparseklr"]
        subprocess.run(
            [*run, "fit", f"{small}/*.parquet", "--target", "y", "--model", "compact", "-o", model],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        start = time.perf_counter()
        process = subprocess.Popen([*run, "predict", model, f"{path}/*.parquet", "-o", out])
        peak = 0.0
        while process.poll() is None:
            try:
                text = Path(f"/proc/{process.pid}/status").read_text()
                peak = max(peak, int(text.split("VmHWM:")[1].split()[0]) / 1024)
            except (OSError, IndexError):
                pass
            time.sleep(0.02)
        seconds = time.perf_counter() - start
        if process.returncode:
            raise RuntimeError("predict failed")
    return {"seconds": seconds, "rows_per_second": n / seconds, "peak_mb": peak}


MEASURES = {
    "million": measure_million,
    "growth": measure_growth,
    "cluster": measure_cluster,
    "dead worker": measure_dead_worker,
    "killed fit": measure_killed_fit,
    "predict": measure_predict,
}
