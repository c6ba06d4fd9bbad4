"""Tables and models of ``benchmarks.arena``, and the measurement of one model on one split."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import sparseklr
from paper.datasets import BENCHMARKS, load_benchmark
from sparseklr import CompactKLR, SparseKLR, baselines

TRAINING_FRACTION = (
    0.7  # fraction of the rows that are training rows, unless their number exceeds the maximum
)
TEST_ROWS = 5000  # maximum number of test rows
SMALLEST_PROBABILITY = 1e-15
WARNING_LENGTH = 120  # maximum length of a stored error message

# Each line is a stratum: sets with text columns, sets with more than two classes, other sets of data/arena, and
# the twelve sets of the paper. Each is sorted by name and divided alternately, beginning with CHOOSE: both halves then
# have the same mixture of types, numbers of classes and sizes. Do not edit: results of both halves are published.
STRATA = (
    ("abalone9-18", "breast", "car-good", "chess", "crx", "housevotes", "kr-vs-k-zero-one_vs_draw", "mushroom", "splice", "tic-tac-toe"),
    ("contraceptive", "hayes-roth", "iris", "led7digit", "segment", "tae", "vehicle", "vowel", "wine"),
    ("australian", "bands", "cleveland-0_vs_4", "ecoli1", "glass0", "haberman", "page-blocks0", "phoneme", "titanic", "winequality-red-4", "wisconsin-original", "yeast1"),
    ("banknote", "coil2000", "diabetes", "ionosphere", "magic", "monk2", "ring", "sonar", "spambase", "twonorm", "waveform", "wisconsin"),
)  # fmt: skip
CHOOSE = tuple(name for stratum in STRATA for name in stratum[0::2])  # sets on which a design may be chosen
REPORT = tuple(name for stratum in STRATA for name in stratum[1::2])  # sets on which it is evaluated
HALVES = {"choose": CHOOSE, "report": REPORT, "all": tuple(sorted(CHOOSE + REPORT))}

Maker = Callable[[list[str], int], BaseEstimator]
"""Makes an unfitted model from the names of the text columns and a seed."""


@lru_cache(maxsize=4)
def table(name: str, data: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the features (floats and, in text columns, strings) and the classes 0, 1, ... of a set.

    The twelve sets of the paper are the binary tasks of ``load_benchmark``; others are ``arena/<name>.csv.gz``.
    """
    if name in BENCHMARKS:
        found = load_benchmark(name, data_home=data)
        return pd.DataFrame(found.data, columns=found.feature_names), found.target
    cells = pd.read_csv(Path(data) / "arena" / f"{name}.csv.gz", dtype=str, keep_default_na=False)
    y = np.unique(cells.pop("target").to_numpy(dtype=str), return_inverse=True)[1]
    return pd.DataFrame({column: numbers_or_text(cells[column]) for column in cells}), y


def numbers_or_text(cells: pd.Series) -> pd.Series:
    """Return a column as floats, with NaN for missing cells; if a cell is not a number, return the strings."""
    numbers = pd.to_numeric(cells, errors="coerce").astype(float)
    return cells.astype(object) if (numbers.isna() & (cells != "")).any() else numbers


def divide(y: np.ndarray, split: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return stratified random training and test rows, which are the same for all models."""
    n_train = min(rows, int(TRAINING_FRACTION * len(y)))
    n_test = min(TEST_ROWS, len(y) - n_train)
    return train_test_split(
        np.arange(len(y)), train_size=n_train, test_size=n_test, stratify=y, random_state=1000 * seed + split
    )


def numeric(text: Sequence[str]) -> ColumnTransformer:
    """Return a transformer that imputes missing values by medians and one-hot encodes categories."""
    return ColumnTransformer(
        [("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), list(text))],
        remainder=SimpleImputer(strategy="median"),
    )


def scaled(model: BaseEstimator) -> Maker:
    return lambda text, seed: make_pipeline(numeric(text), StandardScaler(), seeded(model, seed))


def unscaled(model: BaseEstimator) -> Maker:
    return lambda text, seed: make_pipeline(numeric(text), seeded(model, seed))


def seeded(model: BaseEstimator, seed: int) -> BaseEstimator:
    """Return a copy of a model; baselines get the seed of the split, our models keep their default seed."""
    model = clone(model)
    if "random_state" in model.get_params() and not type(model).__module__.startswith("sparseklr"):
        model.set_params(random_state=seed)
    return model


def catboost(text: list[str], seed: int) -> BaseEstimator:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        cat_features=text, random_seed=seed, thread_count=1, verbose=0, allow_writing_files=False
    )


def lightgbm(text: list[str], seed: int) -> BaseEstimator:
    from lightgbm import LGBMClassifier

    return make_pipeline(numeric(text), LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1))


def pytabkit(name: str, **parameters: Any) -> Maker:
    """Return a model of pytabkit with the defaults of its authors, tuned for the log-loss on a fifth of the rows."""

    def make(text: list[str], seed: int) -> BaseEstimator:
        import pytabkit

        model = getattr(pytabkit, name)(
            device="cpu",
            random_state=seed,
            n_threads=1,
            verbosity=0,
            val_metric_name="cross_entropy",
            **parameters,
        )
        return make_pipeline(numeric(text), model)

    return make


MODELS: dict[str, Maker] = {
    "SparseKLR": scaled(SparseKLR()),
    "CompactKLR": scaled(CompactKLR()),
    "logistic": scaled(LogisticRegression(max_iter=1000)),
    "SVC": scaled(CalibratedClassifierCV(SVC(), ensemble=False)),
    "forest": unscaled(RandomForestClassifier()),
    "HistGradientBoosting": unscaled(HistGradientBoostingClassifier()),
    "CatBoost": catboost,  # this model and the following ones need sparseklr[arena]
    "LightGBM": lightgbm,
    "RealMLP": pytabkit("RealMLP_TD_Classifier", use_ls=False),  # label smoothing increases the log-loss
    "xRFM": pytabkit("XRFM_D_Classifier"),
}


def maker(model: str) -> Maker:
    """Return the function that creates a model, given its name in ``MODELS`` or an expression.

    An expression, such as ``SparseKLR(gamma='auto')``, may use the public names of sparseklr and its baselines.
    """
    if model in MODELS:
        return MODELS[model]
    names = {name: getattr(module, name) for module in (sparseklr, baselines) for name in module.__all__}
    return scaled(eval(model, {**names, "np": np}))


def log_loss(y: np.ndarray, p: np.ndarray) -> float:
    """Return the mean of -log p of the true class, where p is at least ``SMALLEST_PROBABILITY``."""
    if not np.isfinite(p).all():
        raise ValueError("probabilities are not finite")
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], SMALLEST_PROBABILITY)).mean())


def auc(y: np.ndarray, p: np.ndarray) -> float:
    """Return the area under the ROC curve; with several classes, the weighted mean of one-vs-rest areas."""
    if p.shape[1] == 2:
        return float(roc_auc_score(y, p[:, 1]))
    classes, counts = np.unique(y, return_counts=True)
    return float(np.average([roc_auc_score(y == k, p[:, k]) for k in classes], weights=counts))


def points(model: Any) -> int | None:
    """Return the number of points that a fitted model keeps; None if it is not a sum over points."""
    if hasattr(model, "calibrated_classifiers_"):
        return sum(len(part.estimator.support_) for part in model.calibrated_classifiers_)
    kept = getattr(model, "n_points_", None)
    return int(kept) if kept is not None else len(model.support_) if hasattr(model, "support_") else None


def own_estimate(model: Any) -> float | None:
    """Return the model's own estimate of its log-loss: leave-one-out, or on validation rows."""
    model = getattr(model, "best_estimator_", model)
    names = "validation_log_loss_", "loo_log_loss_"
    found = [value for name in names if (value := getattr(model, name, None)) is not None]
    return float(found[0]) if found else None


COLUMNS = ("set", "split", "model", "seed", "rows", "n_train", "n_test", "n_classes", "log_loss", "accuracy", "auc",
           "train_log_loss", "estimate", "base_log_loss", "train_base_log_loss", "points", "seconds", "cpu_seconds",
           "warnings", "error", "sources")  # fmt: skip
Key = tuple[str, int, str, int, int]
"""The first five columns: they identify a measurement."""


def measure(key: Key, model: str, data: str) -> dict[str, Any]:
    """Return one row of results, measured with one thread.

    ``key`` contains the label of the model, and ``model`` is its name in ``MODELS`` or an expression.

    ``base_log_loss`` is the test loss of the class fractions of the training rows, ``train_base_log_loss`` their
    loss on the training rows. An exception of the model becomes the text in ``error``.
    """
    name, split, _, seed, rows = key
    X, y = table(name, data)
    train, test = divide(y, split, rows, seed)
    n_classes = int(y.max()) + 1
    fractions = np.bincount(y[train], minlength=n_classes) / len(train)
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    row.update(zip(COLUMNS[:5], key, strict=True))
    row.update(n_train=len(train), n_test=len(test), n_classes=n_classes)
    row["base_log_loss"] = log_loss(y[test], np.tile(fractions, (len(test), 1)))
    row["train_base_log_loss"] = log_loss(y[train], np.tile(fractions, (len(train), 1)))
    text = [column for column in X if X[column].dtype == object]
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        try:
            made = maker(model)(text, 1000 * seed + split)
            start, cpu = time.perf_counter(), time.process_time()
            made.fit(X.iloc[train], y[train])
            row.update(seconds=time.perf_counter() - start, cpu_seconds=time.process_time() - cpu)
            row.update(evaluate(made, X, y, train, test, n_classes))
        except Exception as error:  # the row reports the error, and the run continues
            row["error"] = short(error)
    row["warnings"] = " | ".join(dict.fromkeys(short(w.message) for w in caught))
    return row


def evaluate(
    model: Any, X: pd.DataFrame, y: np.ndarray, train: np.ndarray, test: np.ndarray, n_classes: int
) -> dict[str, Any]:
    """Return the losses, accuracy, AUC and number of points of a fitted model."""
    p, p_train = (np.zeros((len(part), n_classes)) for part in (test, train))
    # a class without training rows has probability 0
    p[:, model.classes_] = model.predict_proba(X.iloc[test])
    p_train[:, model.classes_] = model.predict_proba(X.iloc[train])
    last = model[-1] if hasattr(model, "steps") else model
    kept, estimate = points(last), own_estimate(last)
    return {
        "log_loss": log_loss(y[test], p),
        "accuracy": float(np.mean(np.ravel(model.predict(X.iloc[test])) == y[test])),
        "auc": auc(y[test], p),
        "train_log_loss": log_loss(y[train], p_train),
        "estimate": "" if estimate is None else estimate,
        "points": "" if kept is None else kept,
    }


def short(problem: Warning | Exception | str) -> str:
    """Return the type of an exception and the beginning of its message, on one line."""
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}"[:WARNING_LENGTH]
