"""Fit of a random estimator, with the checks that apply to all estimators."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from . import exact
from .findings import Findings, Stopped, snapshot
from .inputs import Data, Rng


class Trial:
    """A fit of an estimator, and the checks that apply to all estimators."""

    def __init__(self, rng: Rng, data: Data, findings: Findings, model: Any, tame: bool) -> None:
        self.rng, self.data, self.findings, self.model, self.tame = rng, data, findings, model, tame
        self.kernel_form = "named"
        self.rows: Any = data.contain(data.dense)
        self.new_rows: Any = None  # rows to predict; None means the queries of the data, in their container

    def precompute(self) -> None:
        """Sometimes pass the kernel as a matrix or a function instead of a name."""
        parameters = self.model.get_params(deep=False)
        if not isinstance(parameters.get("kernel"), str) or parameters["kernel"] == "auto":
            return
        if self.rng.random() > 0.2:
            return
        gamma = 0.5 if parameters["gamma"] in ("scale", "auto") else parameters["gamma"]
        values = (parameters["kernel"], gamma, parameters["coef0"], parameters["degree"])
        if not all(isinstance(value, Real) for value in values[1:]):  # the estimator must reject it
            return
        if self.rng.random() < 0.5:
            self.kernel_form = "precomputed"
            self.own = values
            with np.errstate(all="ignore"):
                K = exact.kernel(*values, self.data.dense, self.data.dense).astype(np.float64)
            self.rows = K
            self.model.set_params(kernel="precomputed", gamma="scale", coef0=0.0, degree=3)
        else:
            self.kernel_form = "callable"
            self.own = values
            self.model.set_params(kernel=_Callable(values), gamma="scale", coef0=0.0, degree=3)

    def fit(self) -> None:
        given = self.rows, self.data.given_labels, self.data.weight
        before = [snapshot(part) for part in given]
        self.findings.fits += 1
        with self.findings.watch("fit", tame=self.tame):
            if self.data.weight is None:
                self.model.fit(self.rows, self.data.given_labels)
            else:
                self.model.fit(self.rows, self.data.given_labels, sample_weight=self.data.weight)
        for name, part, old in zip(("X", "y", "sample_weight"), given, before, strict=True):
            if snapshot(part) != old:
                self.findings.add(f"fit changed {name}")

    def sound(self, estimate: float, error: float, fractions: float = 0.0) -> None:
        """Check the order of the losses of a model, unless the fit warned about a violation.

        The training loss must not exceed the estimate by more than two standard errors. The estimate must be
        below the training loss of the class fractions (or ``fractions`` if that is more), unless the model is
        constant.
        """
        if any("log-loss" in message or "class fractions" in message for message in self.findings.warned):
            return
        weight = self.weights()
        kept = weight > 0
        P = self.model.predict_proba(self.rows)[kept]
        fraction = weight[kept] / weight[kept].max() / (weight[kept] / weight[kept].max()).sum()
        codes = np.searchsorted(self.model.classes_, self.data.labels[kept])
        right = np.maximum(P[np.arange(len(codes)), codes], np.finfo(float).tiny)
        training = float(-fraction @ np.log(right))
        classes = np.bincount(codes, fraction)
        of_fractions = float(-classes @ np.log(np.maximum(classes, np.finfo(float).tiny)))
        if not training <= estimate + 2 * error + 1e-6:
            self.findings.add(
                f"training loss {training:.4g}, estimate {estimate:.4g} +- {error:.2g}, no warning"
            )
        of_fractions = max(of_fractions, fractions)
        if not estimate < of_fractions + 1e-9 and np.ptp(P, axis=0).max() > 1e-9:
            self.findings.add(f"estimate {estimate:.4g}, class fractions {of_fractions:.4g}, no warning")

    def predict(self) -> None:
        """Check that predictions are finite and consistent."""
        model, add = self.model, self.findings.add
        given = self.queries(self.data.queries(self.rng)) if self.new_rows is None else self.new_rows
        with self.findings.watch("predict", tame=self.tame):
            f, P, log_P, labels = (
                model.decision_function(given),
                model.predict_proba(given),
                model.predict_log_proba(given),
                model.predict(given),
            )
        for name, values in (("decision_function", f), ("predict_proba", P), ("predict_log_proba", log_P)):
            self.findings.finite(name, values)
        if not np.isfinite(P).all():
            return
        if np.abs(P.sum(axis=1) - 1).max() > 1e-12 or (P < 0).any():
            add(f"predict_proba: rows add up to {P.sum(axis=1).min()} ... {P.sum(axis=1).max()}")
        chosen = P[np.arange(len(P)), np.searchsorted(model.classes_, labels)]
        if (chosen < P.max(axis=1)).any():
            add(f"predict is not the argmax of predict_proba in {(chosen < P.max(axis=1)).sum()} rows")

    def queries(self, Q: np.ndarray) -> Any:
        if self.kernel_form == "precomputed":
            with np.errstate(all="ignore"):
                return exact.kernel(*self.own, Q, self.data.dense).astype(np.float64)
        return self.data.contain(Q)

    # -- the model from scratch --

    def kernel_values(self, Q: np.ndarray) -> np.ndarray:
        """Return kernel values between Q and the training rows, in extended precision."""
        if self.kernel_form == "named":
            kernel = self.model.kernel_
            values = (kernel.name, kernel.gamma, kernel.coef0, kernel.degree)
        else:
            values = self.own
        return exact.kernel(*values, Q, self.data.dense)

    def seen_kernel(self, kept: np.ndarray, *, double: bool = False) -> np.ndarray:
        """Return the kernel values that the model used between the training rows ``kept`` of positive weight.

        They have the precision of a row source, or double precision as in the baselines if ``double``.
        """
        if self.kernel_form == "precomputed":
            precomputed: np.ndarray = np.asarray(self.rows)[np.ix_(kept, kept)]
            return precomputed
        given = self.data.contain(self.data.dense[kept])
        rows = given.tocsr() if hasattr(given, "tocsr") else np.asarray(given)
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        kernel = self.model.kernel_
        gram: np.ndarray = kernel.matrix(rows, rows.astype(np.float64)) if double else kernel.gram(rows)
        return gram

    def kernel_error(self) -> float:
        """Return the largest error of the kernel values that the model used."""
        kept = self.weighted_rows()[0]
        K = self.kernel_values(self.data.dense)[np.ix_(kept, kept)]
        return float(np.abs(self.seen_kernel(kept).astype(exact.Wide) - K).max())

    def weights(self) -> np.ndarray:
        """Return the sample weights, multiplied by the class weights."""
        labels = self.data.labels
        weight = np.ones(len(labels)) if self.data.weight is None else self.data.weight
        factors = self.model.get_params(deep=False).get("class_weight")
        if factors is None:
            return weight
        rows = weight > 0
        present, codes = np.unique(labels[rows], return_inverse=True)
        by_class = compute_class_weight(factors, classes=present, y=labels[rows], sample_weight=weight[rows])
        weight = weight.copy()
        weight[rows] *= by_class[codes]
        return weight

    def weighted_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of positive weight, the index of each row among them (or -1), and their weights."""
        weight = self.weights()
        kept = np.flatnonzero(weight > 0)
        number = np.full(len(weight), -1)
        number[kept] = np.arange(len(kept))
        return kept, number, weight[kept]

    def merged_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Like :meth:`weighted_rows`, but equal rows of a class become one row with the sum of their weights.

        Rows of a precomputed kernel matrix are equal if they differ by at most 1e-10 sqrt(k(x, x) k(y, y)).
        The last array contains, for each merged row, the first equal row, whose kernel values are used.
        """
        kept, number, weight = self.weighted_rows()
        content = self.data.dense[kept]
        if self.kernel_form == "precomputed":
            K = self.rows[np.ix_(kept, kept)]
            size = np.sqrt(np.abs(K.diagonal()))
            with np.errstate(over="ignore"):
                same = [
                    (np.abs(K - row) <= 1e-10 * of_row * size).all(axis=1)
                    for row, of_row in zip(K, size, strict=True)
                ]
            content = np.argmax(same, axis=1)[:, None]  # the first equal row
            if (np.array(same) != (content == content.T)).any():  # this relation is not transitive
                raise Stopped
        content = content + 0.0  # -0.0 is 0.0
        _, original, point = np.unique(content, axis=0, return_index=True, return_inverse=True)
        point = point.ravel()
        labels = np.unique(self.data.labels[kept], return_inverse=True)[1]
        pairs = np.column_stack([point, labels])
        _, first, group = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        total = np.bincount(group.ravel(), weight)
        number[kept] = group.ravel()
        return kept[first], number, total, kept[original[point[first]]]


class _Callable:
    """A kernel as a callable, which accepts rows in any container."""

    def __init__(self, values: tuple[str, float, float, float]) -> None:
        self.values = values

    def __call__(self, A: Any, B: Any) -> np.ndarray:
        A, B = (rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows) for rows in (A, B))
        with np.errstate(all="ignore"):
            return exact.kernel(*self.values, A.astype(float), B.astype(float)).astype(np.float64)

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.values}"
