"""Size and prediction time of one model in each format."""

from __future__ import annotations

import io
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnxruntime
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import CompactKLR, SparseKLR, save
from sparseklr.export import to_c, to_json, to_onnx

from .rows import splits

NOTE = (
    "Each model is a pipeline of a `StandardScaler` and a classifier, fitted to 1,000 rows of "
    "spambase (57 features). File sizes are in kB. Times are medians over 50 calls of "
    "`predict_proba`, for one row and for 1,000 rows. An empty cell means that the time was not "
    "measured."
)
COLUMNS = ["model", "form", "kB", "one row (µs)", "1000 rows (ms)"]


def latency(predict: Callable[[np.ndarray], Any], X: np.ndarray) -> list[float]:
    def median(rows: np.ndarray) -> float:
        times = []
        for _ in range(50):
            start = time.perf_counter()
            predict(rows)
            times.append(time.perf_counter() - start)
        return float(np.median(times))

    return [1e6 * median(X[:1]), 1e3 * median(X[:1000])]


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    X, y, new, _ = next(splits("spambase", n_train=1000))
    new = np.resize(new, (1000, new.shape[1]))
    rows = []
    for label, classifier in (("`SparseKLR()`", SparseKLR()), ("`CompactKLR()`", CompactKLR())):
        model = make_pipeline(StandardScaler(), classifier).fit(X, y)
        with tempfile.TemporaryDirectory() as home:
            save(model, Path(home) / "model.sklr")
            size = (Path(home) / "model.sklr").stat().st_size
        rows.append([label, "`save`", size / 1000, *latency(model.predict_proba, new)])
        rows.append([label, "pickle", len(pickle.dumps(model)) / 1000, None, None])
        graph = to_onnx(model).SerializeToString()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(graph, options)
        rows.append(
            [
                label,
                "ONNX (`to_onnx`)",
                len(graph) / 1000,
                *latency(lambda x, s=session: s.run(None, {"X": x}), new),
            ]
        )
        rows.append([label, "C99 (`to_c`)", len(to_c(model)) / 1000, None, None])
        rows.append([label, "JSON (`to_json`)", len(to_json(model)) / 1000, None, None])
    svc = make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False)).fit(X, y)
    buffer = io.BytesIO()
    joblib.dump(svc, buffer)
    rows.append(["calibrated `SVC()`", "joblib", buffer.tell() / 1000, *latency(svc.predict_proba, new)])
    return rows
