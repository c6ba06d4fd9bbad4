"""Loading and saving of model files; prediction, evaluation and explanation with a loaded model."""

from __future__ import annotations

import math
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, roc_auc_score

from ..conformal import HeldOutProbabilities
from ..explanations import Explanation, decision_name
from ..inspection.reliability import kept_points, prediction_summary
from ..persistence import load_with_metadata, save
from ..tables.cells import read_cells
from ..tables.columns import Column
from .files import read_bytes, source_name, writing
from .options import CliError
from .reading import Dataset

FAR = "unlike the training rows"


@dataclass(frozen=True)
class FamiliaritySettings:
    """Criteria for calling a row unfamiliar, that is, unlike the training rows."""

    least: float = 0.01  # a row with a smaller familiarity is unfamiliar
    few: float = 0.05  # no message is printed up to this fraction of unfamiliar rows
    too_large: float = 1e20  # a scaled feature beyond this value, which no date reaches, overflows


SETTINGS = FamiliaritySettings()


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model and the metadata of its file.

    If the model is a pipeline for tables, its first step is a TableReader, which converts the cells of a file
    to numbers, dates and text. The methods of this class expect rows that :func:`~.reading.read_for_model`
    has already converted.
    """

    name: str  # name of the model file, for messages
    fitted: Any  # the fitted pipeline or estimator
    metadata: dict[str, Any]

    @classmethod
    def load(cls, path: str) -> Model:
        """Return the model in a file; an error is raised if the file contains anything unexpected."""
        return cls(source_name(path), *load_with_metadata(read_bytes(path), source_name(path)))

    @property
    def reader(self) -> Any:
        """The TableReader of the pipeline; None if the model does not have one."""
        return getattr(self.fitted, "named_steps", {}).get("read")

    @property
    def predictor(self) -> Any:
        """The pipeline without its TableReader."""
        return self.fitted if self.reader is None else self.fitted[1:]

    @property
    def estimator(self) -> Any:
        """The last step of the pipeline; if this step is a parameter search, its best estimator."""
        last = self.fitted[-1] if hasattr(self.fitted, "steps") else self.fitted
        return getattr(last, "best_estimator_", last)

    @property
    def classes(self) -> list[Any]:
        return list(self.fitted.classes_.tolist())

    @property
    def target(self) -> str | None:
        return self.metadata.get("target")

    @property
    def svmlight(self) -> dict[str, Any] | None:
        """Options with which the svmlight training file was read; None if the model was fitted to a table."""
        return self.metadata.get("svmlight")

    # -- reading ------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, Column]:
        """The columns that the model needs, by name."""
        if self.reader is not None:
            return {name: self.reader.columns_[name] for name in self.reader.get_feature_names_out()}
        if not hasattr(self.fitted, "feature_names_in_"):
            raise CliError(
                f"{self.name}: the model has no column names, because it was fitted to an array; fit it to a "
                "data frame"
            )
        return {name: Column("number") for name in self.fitted.feature_names_in_}

    @property
    def decimal(self) -> str:
        return "." if self.reader is None else self.reader.decimal_

    @property
    def na(self) -> list[str]:
        return [] if self.reader is None else list(self.reader.na)

    def n_training_rows(self, X: Any) -> int:
        """Return the number of rows of X that equal a training row, or 0 if such coincidences are expected.

        In a table with few distinct values, new rows often equal training rows. The expected fraction of such
        rows is estimated by the fraction of training rows that have a duplicate. The count is returned only
        if the observed fraction exceeds the expected fraction by more than three standard errors; X then
        probably contains training rows.
        """
        if self.reader is None:
            return 0
        seen = self.reader.seen(X)
        n_training = getattr(self.reader, "n_rows_", 1)  # earlier releases did not store this attribute
        expected = getattr(self.reader, "n_repeated_rows_", 0) / n_training
        error = math.sqrt(expected * (1 - expected) * (1 / len(seen) + 1 / n_training))
        return int(seen.sum()) if seen.mean() > expected + 3 * error else 0

    # -- predictions --------------------------------------------------------------------------

    def predict_proba(self, rows: Dataset) -> np.ndarray:
        with self._naming_large_cells(rows):
            return self.predictor.predict_proba(rows.X)

    def predict(self, rows: Dataset) -> np.ndarray:
        with self._naming_large_cells(rows):
            return self.predictor.predict(rows.X)

    def measure(self, rows: Dataset) -> dict[str, Any]:
        """Return the measures of :meth:`measure_predictions` on labelled rows."""
        return self.measure_predictions(rows.y, self.predict_proba(rows), self.predict(rows), rows.weight)

    def measure_predictions(self, y: Any, prob: np.ndarray, predicted: Any, weight: Any) -> dict[str, Any]:
        """Return measures of given predictions, and the number of points of the model.

        The measures are those of :func:`prediction_summary`, the ROC AUC and the confusion matrix.
        """
        n_points, points_fraction = kept_points(self.estimator)
        confusion = confusion_matrix(y, predicted, labels=self.classes, sample_weight=weight)
        return {
            **prediction_summary(y, prob, predicted, self.fitted.classes_, weight),
            "roc_auc": _roc_auc(y, prob, self.classes, weight),
            "n_points": n_points,
            "points_fraction": points_fraction,
            "classes": self.classes,
            "confusion": confusion.tolist(),
        }

    def features(self, X: Any) -> Any:
        """Return the features of rows, which are the input of the estimator."""
        return self.predictor[:-1].transform(X) if self._transforms else X

    @property
    def _transforms(self) -> bool:
        """Whether the pipeline has steps between the TableReader and the estimator."""
        return len(getattr(self.predictor, "steps", ())) > 1

    @contextmanager
    def _naming_large_cells(self, rows: Dataset) -> Iterator[None]:
        """Replace the error of a failed prediction with one that names the cell, if a cell is too large."""
        try:
            yield
        except ValueError as error:
            features = self.features(rows.X)
            if rows.svmlight is None:
                features = np.asarray(features)
            row, j = divmod(int(abs(features).argmax()), features.shape[1])
            if not abs(features[row, j]) > SETTINGS.too_large:
                raise
            if rows.svmlight is not None:
                cell = f"the value {rows.X[row, j]:g} of feature {j + rows.svmlight['one_based']}"
            else:
                names = self.predictor[:-1].get_feature_names_out() if self._transforms else rows.X.columns
                name = names[j]
                cell = f"the value {rows.X[name].iloc[row]} in column {name!r}"
            raise CliError(
                f"{rows.name}: row {rows.number(row)}: {cell} is too far from the training rows for a "
                "prediction; correct the value, or remove the row"
            ) from error

    # -- unfamiliar rows ----------------------------------------------------------------------

    def familiarity(self, X: Any) -> np.ndarray:
        """Return the familiarity of each row; NaN for models that do not have it.

        The familiarity of a row is the fraction of the training rows that the points of the model represent
        no better than this row.
        """
        try:
            return self.estimator.familiarity(self.features(X))
        except (AttributeError, ValueError):
            return np.full(X.shape[0], np.nan)

    def unfamiliar(self, rows: Dataset) -> list[str]:
        """Return for each row the reasons why it is unlike the training rows, or "" if it is familiar.

        A row is unfamiliar if its familiarity is below 0.01, if a column of the model is missing, or if a
        cell contains a value that the TableReader calls strange, such as a new category.
        """
        reasons: list[list[str]] = [[f"{name} is missing" for name in rows.missing] for _ in range(len(rows))]
        if self.reader is not None:
            for row_reasons, strange in zip(reasons, self.reader.strange(rows.X), strict=True):
                row_reasons += [text for text in strange.split("; ") if text and text not in row_reasons]
        for row in np.flatnonzero(self.familiarity(rows.X) < SETTINGS.least):
            reasons[row].append(FAR)
        return ["; ".join(row_reasons) for row_reasons in reasons]

    # -- explanations -------------------------------------------------------------------------

    def predict_p_values(self, rows: Dataset) -> np.ndarray:
        """Return conformal p-values (n_rows, n_classes); raise an error if the model cannot provide them."""
        if held_out := self.metadata.get("held_out"):
            log_proba = np.log(np.maximum(self.predict_proba(rows), 1e-300))
            return HeldOutProbabilities(**held_out).p_values(log_proba, by_class=False)
        if not hasattr(self.estimator, "predict_p_values"):
            raise CliError(
                f"{self.name}: this model does not provide prediction sets; fit it with --model sparse or "
                "--model compact"
            )
        with self._naming_large_cells(rows):
            return self.estimator.predict_p_values(self.features(rows.X))

    def columns_explained(self, rows: Dataset, row: int, label: Any) -> dict[str, Any] | None:
        """Return the Shapley values of the columns for one row and a class, the largest absolute value first.

        The entry ``base`` is the mean decision value of the training rows. Together with the contributions,
        it adds up to the decision value of the row. The result is None if Shapley values are not available
        for the model.
        """
        query = rows.take(np.array([row]))
        features = getattr(self.fitted, "named_steps", {}).get("features")
        groups = None if features is None else features.column_groups()
        try:
            names, data, values, base = self._by_columns(self.features(query.X), label, groups)
        except (TypeError, ValueError):  # no Shapley values for this kind of model or kernel
            return None
        if rows.svmlight is not None:
            names = [f"feature {j + rows.svmlight['one_based']}" for j in range(len(names))]
        cells: dict[str, Any] = {}
        if rows.table is not None:
            cells = cells_of(rows.table.frame.iloc[[row]][[*{*names} & {*rows.table.frame.columns}]])
        strongest = np.argsort(-np.abs(values), kind="stable")
        return {
            "base": base,
            "contributions": [
                {
                    "column": names[j],
                    "cell": cells[names[j]][0] if names[j] in cells else f"{data[j]:.4g}",
                    "contribution": float(values[j]),
                }
                for j in strongest
            ],
        }

    @property
    def is_linear(self) -> bool:
        """Whether the model is a logistic regression, which does not have points."""
        return isinstance(self.estimator, LogisticRegression)

    def _by_points(self, X: Any) -> Explanation:
        if not self.is_linear:
            return self.estimator.explain(X)
        outputs = self.estimator.decision_function(X)
        return Explanation(np.zeros((*outputs.shape, 0)), outputs, None, None, self.estimator.classes_)

    def _by_columns(
        self, X: Any, label: Any, groups: dict[str, list[int]] | None
    ) -> tuple[list[str], np.ndarray, np.ndarray, float]:
        """Return names, values and Shapley values of the columns for one row.

        The last result is the base value, the mean log-odds over the reference rows.
        """
        if not self.is_linear:
            found = self.estimator.explain(X, by="features", groups=groups)
            _, values, base = found.of_row(0, label)
            return list(found.feature_names), found.data[0], values, base
        # the Shapley values of a linear function are its terms minus the means of these terms
        mean = self.metadata.get("mean_features")
        if mean is None or groups is None:
            raise ValueError("the means of the training features are unknown")
        coef, intercept = self.estimator.coef_, self.estimator.intercept_
        if len(coef) == 1:  # the log-odds of the second class
            coef, intercept = np.vstack([-coef, coef]), np.append(-intercept, intercept)
        k = self.classes.index(label)
        terms = coef[k] * (np.asarray(X)[0] - mean)
        values = np.array([terms[columns].sum() for columns in groups.values()])
        return list(groups), np.full(len(groups), np.nan), values, float(coef[k] @ mean + intercept[k])

    def explain(self, rows: Dataset, row: int, label: Any, n_points: int, by: str) -> dict[str, Any]:
        """Return an explanation of the decision value of a class for one row, as a dictionary.

        It contains the contributions of the columns and of ``n_points`` points of the model: the points most
        similar to the row (``by="similarity"``), or the points with the largest contributions. The entry
        ``log_odds`` is the decision value, and ``unit`` its name.
        """
        query = rows.take(np.array([row]))
        with self._naming_large_cells(query):
            explanation = self._by_points(self.features(query.X)).of_row(0, label)
        chosen = explanation.nearest(n_points) if by == "similarity" else explanation.strongest(n_points)
        others = np.delete(explanation.contributions, chosen)
        kept = self.metadata.get("points") or {}
        kept_rows, kept_classes = kept.get("rows"), kept.get("classes")
        cells = None
        if rows.table is not None and "cells" in kept:
            found = cells_of(rows.table.frame.iloc[[row]][list(kept["cells"])])
            cells = {name: values[0] for name, values in found.items()}
        label = explanation.label
        return {
            "row": row + 1,
            "class": label.item() if hasattr(label, "item") else label,
            "probability": float(self.predict_proba(query)[0, self.classes.index(label)]),
            "unfamiliar": self.unfamiliar(query)[0],
            "log_odds": explanation.log_odds,
            "unit": decision_name(self.classes),
            "columns": self.columns_explained(rows, row, label),
            "intercept": explanation.intercept,
            "cells": cells,
            "points": [
                {
                    "row": None if kept_rows is None else kept_rows[k],
                    "class": None if kept_classes is None else kept_classes[k],
                    "contribution": float(explanation.contributions[k]),
                    "distance": None if explanation.distance is None else float(explanation.distance[k]),
                    "cells": {name: values[k] for name, values in kept["cells"].items()} if cells else None,
                }
                for k in chosen
            ],
            "others": {
                "n_points": len(others),
                "for": float(others[others > 0].sum()),
                "against": float(others[others < 0].sum()),
            },
        }


def count_reasons(reasons: list[str]) -> Counter[str]:
    """Return the number of rows for each reason why rows are unfamiliar."""
    return Counter(reason for found in reasons for reason in found.split("; ") if reason)


def unfamiliar_note(reasons: list[str], flagged: bool) -> list[str]:
    """Return a list with one message if more than a few rows are unfamiliar, otherwise an empty list."""
    n = sum(map(bool, reasons))
    if n <= SETTINGS.few * len(reasons):
        return []
    counts = count_reasons(reasons)
    shown = ", ".join(f"{reason} ({count})" for reason, count in counts.most_common(3))
    more = ", ..." if len(counts) > 3 else ""
    hint = "" if flagged else "; --flag marks them"
    return [f"{n} of {len(reasons)} rows ({n / len(reasons):.0%}) are unfamiliar: {shown}{more}{hint}"]


def _roc_auc(y: Any, prob: np.ndarray, classes: list[Any], weight: Any) -> float | None:
    """Return the area under the ROC curve, or None if y lacks a class.

    With more than two classes, it is the mean over the one-vs-rest problems.
    """
    if len(np.unique(np.asarray(y))) < len(classes):
        return None
    if len(classes) == 2:
        return float(roc_auc_score(y == classes[1], prob[:, 1], sample_weight=weight))
    return float(roc_auc_score(y, prob, multi_class="ovr", labels=classes, sample_weight=weight))


# -- files ------------------------------------------------------------------------------------


def save_model(output: Path, fitted: Any, rows: Dataset | None, args: Namespace, **more: Any) -> None:
    """Write a model file, which replaces an existing file only if it is complete.

    ``rows`` are the training rows; None if they were read in blocks.
    """
    metadata = {
        "target": args.target,
        "id": list(args.id),
        "svmlight": None if rows is None else rows.svmlight,
        "points": {} if rows is None else _kept_rows(fitted, rows),
        **more,
    }
    with writing(output) as temporary:
        save(fitted, temporary, metadata=metadata)


def _kept_rows(pipeline: Any, rows: Dataset) -> dict[str, Any]:
    """Return the training rows that a sparse model keeps, with their original cells, for explanations."""
    support = getattr(pipeline[-1], "support_", None)
    if support is None:
        return {}
    assert rows.y is not None
    points: dict[str, Any] = {"classes": rows.y[support].tolist()}
    if rows.table is not None:
        frame = rows.X[pipeline["read"].get_feature_names_out()].iloc[support]
        points |= {"rows": frame.index.tolist(), "cells": cells_of(frame, rows.table.na)}
    return points


def cells_of(frame: Any, na: Any = ()) -> dict[str, list[str]]:
    """Return the cells of each column of a table as text; a missing value is ""."""
    columns = {name: read_cells(frame[name], name, na) for name in frame.columns}
    return {name: cells.spread(cells.tokens, "").tolist() for name, cells in columns.items()}
