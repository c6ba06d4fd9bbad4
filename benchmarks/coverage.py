"""Coverage and size of prediction sets, quality of probability intervals, and time of Shapley values.

``sets`` fits a model to random samples of 100, 200 and 400 rows of every table, and evaluates its prediction sets on
other rows. They are compared with split conformal prediction, which does not fit the model to a quarter of the training
rows, and with ``--mapie`` with cross-conformal prediction by MAPIE. ``--rules`` adds the jackknife+ and jackknife-minmax
rules, for two classes, in which the leave-one-out models are approximated by one Newton step. ``intervals`` measures
Venn-Abers intervals on synthetic data whose class probabilities are known. ``shapley`` measures the time and additivity
of Shapley values, and the time of shap's KernelExplainer if shap is installed::

    python -m benchmarks.coverage sets coverage.csv --draws 20
    python -m benchmarks.coverage summary coverage.csv
    python -m benchmarks.coverage intervals
    python -m benchmarks.coverage shapley
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular
from scipy.special import expit, log_expit
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from sparseklr import CompactKLR, SparseKLR
from sparseklr.datasets import make_ringnorm, make_twonorm, make_waveform, true_log_proba

from .arena_measure import HALVES, REPORT, maker, table
from .common import DATA, show

SIZES = 100, 200, 400
TEST_ROWS = 1500
COVERAGES = 0.9, 0.95
BELOW, ABOVE, BELOW_BY_CLASS = 0.015, 0.03, 0.025  # allowed deviations


def draw_rows(y: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return random training and test rows, or None if too few test rows remain.

    They are stratified if every class has two rows.
    """
    if n > 0.8 * len(y):
        return None
    rows, n_test = np.arange(len(y)), min(TEST_ROWS, len(y) - n)
    stratify = y if np.bincount(y).min() * n >= 2 * len(y) else None
    train, test = train_test_split(rows, train_size=n, test_size=n_test, stratify=stratify, random_state=seed)
    return (train, test) if len(np.unique(y[train])) > 1 else None


def split_conformal(
    made: Any, X: pd.DataFrame, y: np.ndarray, rows: np.ndarray, test: np.ndarray, seed: int
) -> Any:
    """Return p-values of split conformal prediction, calibrated on a quarter of the training rows."""
    fitted, held_out = train_test_split(rows, test_size=0.25, random_state=seed)
    if len(np.unique(y[fitted])) < 2:
        return None
    made.fit(X.iloc[fitted], y[fitted])
    p, p_test = made.predict_proba(X.iloc[held_out]), made.predict_proba(X.iloc[test])
    known = np.isin(y[held_out], made.classes_)
    true = np.where(
        known, p[np.arange(len(p)), np.searchsorted(made.classes_, y[held_out]) % p.shape[1]], 0.0
    )
    counts = (true[:, None, None] <= p_test).sum(axis=0)
    return (1 + counts) / (1 + len(held_out)), made.classes_


def mapie_sets(made: Any, X: Any, y: np.ndarray, rows: np.ndarray, test: np.ndarray, seed: int) -> Any:
    """Return prediction sets of MAPIE's cross-conformal classifier with 10 folds, which fits 11 models."""
    from mapie.classification import CrossConformalClassifier

    mapie = CrossConformalClassifier(made, confidence_level=list(COVERAGES), cv=10, random_state=seed)
    mapie.fit_conformalize(X.iloc[rows], y[rows])
    return mapie.predict_set(X.iloc[test])[1]


def jackknife_rules(
    model: Any, rows: np.ndarray, labels: np.ndarray, test: np.ndarray
) -> dict[str, np.ndarray]:
    """Return p-values of the jackknife rules, with leave-one-out models from one Newton step."""
    posterior, n = model._posteriors_[0], len(rows)

    def whitened(X: np.ndarray) -> np.ndarray:
        A = np.ones((len(posterior.L) + 1, len(X)))
        if len(posterior.L):
            K = model.kernel_.matrix(X, posterior.points)
            A[:-1] = solve_triangular(posterior.L, K.T, lower=True)
        return solve_triangular(posterior.factor, A, lower=True)

    at_rows, at_test = whitened(rows), whitened(test)
    p = expit(model.decision_function(rows))
    influence = p * (1 - p) * (at_rows**2).sum(axis=0)
    step = (p - labels) / np.maximum(1 - influence, 1e-3)
    without = model.decision_function(test)[:, None] + (at_test.T @ at_rows) * step  # (n_test, n)
    sign = np.array([-1, 1])
    true = log_expit(sign[labels] * model.loo_decision_function_)
    plus = [(true <= log_expit(s * without)).sum(axis=1) for s in sign]
    plain = [(true <= log_expit(s * model.decision_function(test))[:, None]).sum(axis=1) for s in sign]
    most = [(true <= log_expit(s * without).max(axis=1)[:, None]).sum(axis=1) for s in sign]
    return {
        "jackknife+": (1 + np.column_stack(plus)) / (n + 1),
        "minmax": (1 + np.column_stack(most)) / (n + 1),
        # the level times 1 - d / (2 n), where d is the effective number of parameters
        "parameters": (1 + np.column_stack(plain)) / (n + 1) / (1 - influence.sum() / (2 * n)),
    }


def quality(sets: np.ndarray, classes: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the coverage, also of each class with 50 test rows, and the sizes of prediction sets."""
    inside = np.zeros(len(y), dtype=bool)
    for k, label in enumerate(classes):
        inside[y == label] = sets[y == label, k]
    by_class = {int(label): inside[y == label].mean() for label in classes if (y == label).sum() >= 50}
    size = sets.sum(axis=1)
    return {
        "coverage": inside.mean(),
        "by_class": json.dumps({label: round(float(value), 4) for label, value in by_class.items()}),
        "size": size.mean(),
        "empty": np.mean(size == 0),
        "full": np.mean(size == sets.shape[1]),
    }


def least_by_class(cells: pd.Series) -> float:
    """Return the smallest of the coverages of the classes, which are means over the samples; NaN if unknown."""
    return float(pd.DataFrame([json.loads(cell) for cell in cells]).mean().min())


def measure(
    model: str, name: str, n: int, seed: int, *, rules: bool, mapie: bool
) -> Iterator[dict[str, Any]]:
    """Yield the quality of the prediction sets of each method for one sample of n rows."""
    X, y = table(name, str(DATA))
    if (drawn := draw_rows(y, n, seed)) is None:
        return
    train, test = drawn
    text = [column for column in X if X[column].dtype == object]
    key = {"set": name, "model": model, "n": n, "draw": seed}
    start = time.process_time()
    made = maker(model)(text, 0).fit(X.iloc[train], y[train])
    seconds = time.process_time() - start
    rows, last = made[:-1].transform(X.iloc[test]), made[-1]
    p_values = {
        "ours": (last.predict_p_values(rows), made.classes_),
        "ours by class": (last.predict_p_values(rows, by_class=True), made.classes_),
        "split": split_conformal(maker(model)(text, 0), X, y, train, test, seed),
    }
    if rules and len(made.classes_) == 2 and isinstance(last, SparseKLR):
        labels = np.searchsorted(made.classes_, y[train])
        found = jackknife_rules(last, made[:-1].transform(X.iloc[train]), labels, rows)
        p_values.update({rule: (values, made.classes_) for rule, values in found.items()})
    for method, both in p_values.items():
        for coverage in COVERAGES if both is not None else ():
            result = quality(both[0] > 1 - coverage, both[1], y[test])
            yield {**key, "method": method, "target": coverage, "seconds": seconds, **result}
    if mapie:
        start = time.process_time()
        sets = mapie_sets(maker(model)(text, 0), X, y, train, test, seed)
        seconds = time.process_time() - start
        for k, coverage in enumerate(COVERAGES):
            result = quality(sets[:, :, k], made.classes_, y[test])
            yield {**key, "method": "MAPIE", "target": coverage, "seconds": seconds, **result}


def run_sets(arguments: argparse.Namespace) -> None:
    path = arguments.path
    done = pd.read_csv(path)[["set", "model", "n", "draw"]].drop_duplicates() if path.exists() else None
    known = set() if done is None else set(done.itertuples(index=False, name=None))
    for draw in range(arguments.draws):
        for name in arguments.sets:
            for n in arguments.sizes:
                if (name, arguments.model, n, draw) in known:
                    continue
                with warnings.catch_warnings(), threadpool_limits(1):
                    warnings.simplefilter("ignore")
                    found = list(
                        measure(arguments.model, name, n, draw, rules=arguments.rules, mapie=arguments.mapie)
                    )
                if found:
                    pd.DataFrame(found).to_csv(path, mode="a", header=not path.exists(), index=False)


def run_summary(arguments: argparse.Namespace) -> None:
    """Print means over samples and data sets; deviations of the coverage are in percentage points."""
    results = pd.read_csv(arguments.path)
    if arguments.half == "report":
        results = results[results["set"].isin(REPORT)]
    lines = []
    for key, part in results.groupby(["model", "target", "n", "method"]):
        by_set = part.groupby("set")[["coverage", "size", "seconds"]].mean()
        least = part.groupby("set")["by_class"].agg(least_by_class)
        off = by_set["coverage"] - key[1]
        below, above = int((off < -BELOW).sum()), int((off > ABOVE).sum())
        by_class = int((least - key[1] < -BELOW_BY_CLASS).sum())
        numbers = [100 * off.mean(), 100 * off.min(), 100 * off.max(), off.idxmin()]
        lines.append(
            [
                *key,
                len(by_set),
                *numbers,
                below,
                above,
                by_class,
                by_set["size"].mean(),
                by_set["seconds"].mean(),
            ]
        )
    columns = [
        "model",
        "target",
        "rows",
        "method",
        "sets",
        "mean",
        "least",
        "most",
        "least on",
        "below",
        "above",
    ]
    show("Coverage minus target, in points", [*columns, "below by class", "size", "seconds"], lines)
    wide = results.pivot_table(index=["model", "set", "n", "target", "draw"], columns="method", values="size")
    for other in ("split", "MAPIE"):
        if other in wide:
            both = wide[["ours", other]].dropna().groupby(["model", "n", "target"]).mean()
            print(f"size of ours relative to {other}:", (both["ours"] / both[other]).round(3).to_dict())


MERGES: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "clipped": np.clip,
    "minimax": lambda p, lower, upper: upper / (1 - lower + upper),
    "middle": lambda p, lower, upper: (lower + upper) / 2,
    "geometric": lambda p, lower, upper: np.sqrt(p * upper / (1 - lower + upper)),
}
"""Formulas that merge the probability p and the ends of its interval; the results are then normalised to sum to one."""


def run_intervals(arguments: argparse.Namespace) -> None:
    """Print the widths and coverages of intervals, and log-losses of merged probabilities relative to plain ones.

    ``rows`` is the fraction of rows whose true probability is inside the interval. ``rates`` is the fraction of rows for
    which the interval contains the mean true probability of all rows with the same prediction, estimated by isotonic
    regression on all test rows.
    """
    lines = []
    for make, name in ((make_ringnorm, "ringnorm"), (make_twonorm, "twonorm"), (make_waveform, "waveform")):
        X_test, y_test = make(4000, random_state=999)
        true = np.exp(true_log_proba(name, X_test))
        for model in (SparseKLR(), CompactKLR()):
            for n in SIZES:
                found = []
                for draw in range(arguments.draws):
                    model.fit(*make(n, random_state=draw))
                    p, (lower, upper) = model.predict_proba(X_test), model.predict_interval(X_test)
                    rates = np.column_stack([
                        IsotonicRegression().fit(score, t).predict(score)
                        for score, t in zip(p.T, true.T, strict=True)
                    ])  # fmt: skip
                    inside = [((lower <= t) & (t <= upper)).mean() for t in (true, rates)]
                    merged = [merge(p, lower, upper) for merge in MERGES.values()]
                    loss, *others = (log_loss(y_test, q / q.sum(axis=1, keepdims=True)) for q in (p, *merged))
                    found.append([(upper - lower).mean(), *inside, loss, *(other / loss for other in others)])
                lines.append([name, type(model).__name__, n, *np.mean(found, axis=0)])
    columns = ["data", "model", "training rows", "width", "rows", "rates", "plain", *MERGES]
    show("Venn-Abers intervals", columns, lines)


def compare_with_shap(
    model: CompactKLR, X: np.ndarray, exact: np.ndarray, seconds: float, n_samples: int
) -> None:
    """Print the time and error of shap's KernelExplainer with the same background rows, if shap is installed."""
    try:
        import shap
    except ImportError:
        print("shap is not installed: pip install sparseklr[guarantees]")
        return
    background = np.zeros((len(model._background_.weight), X.shape[1]))
    background[:, model.scaling_.kept] = model.scaling_.inverse(model._background_.features)
    data = shap.kmeans(background, len(background))
    data.data, data.weights = background, model._background_.weight
    explainer = shap.KernelExplainer(model.decision_function, data)
    start = time.process_time()
    found = explainer.shap_values(X, nsamples=n_samples, l1_reg=False, silent=True)
    each = (time.process_time() - start) / len(X)
    error = np.abs(found - exact).max()
    print(f"KernelExplainer, {n_samples} samples: {each:.2f} s per row, error {error:.1e}, "
          f"{each / seconds:.0f} times the time")  # fmt: skip


def run_shapley(arguments: argparse.Namespace) -> None:
    """Print the time of Shapley values for 1000 rows, 27 points and 100 background rows, and their additivity.

    The time is compared with shap's KernelExplainer. With 12 features, KernelExplainer evaluates all 4094 subsets and is
    exact too; with 20 features, it samples subsets.
    """
    for n_features, samples in ((12, (4094,)), (20, (500, 2000))):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, n_features))
        model = CompactKLR(n_points=27).fit(X, X[:, 0] * X[:, 1] + X[:, 2] > 0)
        with threadpool_limits(1):
            model.explain(X[:1], by="features")  # the first call computes the background
            start = time.process_time()
            exact = model.explain(X[:1000], by="features")
            seconds = (time.process_time() - start) / 1000
            print(f"{n_features} features, {model.n_points_} points: {seconds:.1e} s of one core per row")
            for n_samples in samples:
                compare_with_shap(model, X[:2], exact.values[:2], seconds, n_samples)
    worst = 0.0
    for name in HALVES["all"]:
        X, y = table(name, str(DATA))
        text = [column for column in X if X[column].dtype == object]
        rows = np.random.default_rng(0).permutation(len(y))[:300]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = maker(arguments.model)(text, 0).fit(X.iloc[rows], y[rows])
        Z = made[:-1].transform(X.iloc[rows[:50]])
        found = made[-1].explain(Z, by="features")
        difference = found.values.sum(axis=1) + found.base_values - made[-1].decision_function(Z)
        worst = max(worst, float(np.abs(difference).max()))
    print(f"largest difference of sums from decision values, 43 sets: {worst:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    sets = commands.add_parser("sets")
    sets.set_defaults(run=run_sets)
    sets.add_argument("path", type=Path)
    sets.add_argument("--model", default="SparseKLR")
    sets.add_argument("--draws", type=int, default=20)
    sets.add_argument("--sets", nargs="*", default=HALVES["all"])
    sets.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    sets.add_argument("--rules", action="store_true", help="also jackknife+ and jackknife-minmax")
    sets.add_argument("--mapie", action="store_true", help="also MAPIE")
    summary = commands.add_parser("summary")
    summary.set_defaults(run=run_summary)
    summary.add_argument("path", type=Path)
    summary.add_argument("--half", choices=("all", "report"), default="all")
    intervals = commands.add_parser("intervals")
    intervals.set_defaults(run=run_intervals)
    intervals.add_argument("--draws", type=int, default=5)
    shapley = commands.add_parser("shapley")
    shapley.set_defaults(run=run_shapley)
    shapley.add_argument("--model", default="SparseKLR")
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
