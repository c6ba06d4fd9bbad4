"""S-KLR with several classes in a single softmax problem, compared with one-vs-rest.

The data are nine tables of the arena, digits, waveform data with three classes, 4000 rows with 20 classes, and 3000 rows
with 26 classes. Features are standardised, categories are one-hot encoded, and 70% of the rows are training rows. The
results of both models are the number of points, the fit time without calibration (median CPU seconds of alternating
fits), the relative duality gap at the default tolerance, and the log-loss with the default calibration. Only ratios
within a run are meaningful.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from sparseklr import SKLR

from .arena_measure import table
from .common import DATA, show

ARENA = "vehicle", "vowel", "segment", "led7digit", "splice", "wine", "iris", "tae", "contraceptive"
OTHERS = "digits", "waveform3", "classes20", "classes26"


def waveform(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample of Breiman's waveform: noisy mixtures of two of three triangular waves with 21 features."""
    rng = np.random.default_rng(seed)
    triangles = np.maximum(6 - np.abs(np.arange(1, 22) - np.array([[7], [15], [11]])), 0)
    y, u = rng.integers(0, 3, n), rng.uniform(size=(n, 1))
    first, second = np.array([0, 0, 1])[y], np.array([1, 2, 2])[y]
    return u * triangles[first] + (1 - u) * triangles[second] + rng.normal(size=(n, 21)), y


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the standardised features and the labels of a set."""
    if name in ARENA:
        features, y = table(name, str(DATA))
        codes = make_column_transformer(
            (OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude=np.number)),
            remainder="passthrough",
        )
        return make_pipeline(codes, StandardScaler()).fit_transform(features), np.asarray(y)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    elif name == "waveform3":
        X, y = waveform(3000)
    else:
        n, n_classes = {"classes20": (4000, 20), "classes26": (3000, 26)}[name]
        X, y = make_classification(
            n, 20, n_informative=10, n_classes=n_classes, n_clusters_per_class=1, random_state=0
        )
    return StandardScaler().fit_transform(X), y


def seconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def measure(name: str, seed: int, repeats: int) -> tuple[int, list[tuple[int, float, float, float]]]:
    """Return the number of training rows, and the results of the softmax problem and of one-vs-rest."""
    X, y = data(name)
    train, test, label, truth = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    found = []
    with threadpool_limits(1):
        models = [SKLR(multi_class=kind, calibration=None, n_jobs=1) for kind in ("softmax", "ovr")]
        times = [[seconds(model, train, label) for model in models] for _ in range(repeats)]
        for model, spent in zip(models, np.median(times, axis=0), strict=True):
            calibrated = SKLR(multi_class=model.multi_class, n_jobs=1).fit(train, label)
            loss = log_loss(truth, calibrated.predict_proba(test), labels=calibrated.classes_)
            found.append((len(model.support_), float(spent), loss, model.dual_gap_))
    return len(label), found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="seed of the split into training and test rows")
    parser.add_argument("--sets", nargs="+", default=[*ARENA, *OTHERS])
    arguments = parser.parse_args()
    rows, ratios = [], []
    for name in arguments.sets:
        n_train, found = measure(name, arguments.seed, arguments.repeats)
        ratio = [a / b for a, b in zip(*(one[:3] for one in found), strict=True)]
        ratios.append(ratio)
        cells = [f"{a:.3g} / {b:.3g}" for a, b in zip(*found, strict=True)]
        rows.append([name, str(n_train), *cells, *(f"{r:.2f}" for r in ratio)])
    mean = np.exp(np.mean(np.log(ratios), axis=0))
    rows.append(["geometric mean", *5 * [""], *(f"{r:.2f}" for r in mean)])
    columns = ["set", "rows", "points", "seconds", "log-loss", "gap", "points", "time", "log-loss"]
    show("SKLR: softmax / one-vs-rest", columns, rows)


if __name__ == "__main__":
    main()
