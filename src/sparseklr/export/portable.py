"""Representation of a fitted model by arrays, on which all export formats are based; export to JSON."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import log_expit, softmax
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from .._base import KernelClassifier
from ..compact_klr import CompactKLR
from ..kernels import NAMED_KERNELS
from ..refit.calibration import SOFTMAX, Link, link
from ..scaling import Scaling
from ..sklr import SKLR
from ..sparse_klr import SparseKLR

Scaler = StandardScaler | MinMaxScaler | MaxAbsScaler | RobustScaler


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    r"""Map from the columns of X to the scaled features of a kernel model.

    Feature j is :math:`u_j = (x_{c_j} - a_j) s_j`, clipped to the interval from ``-clip`` to ``clip``. A
    feature with knots is instead a piecewise linear function of :math:`x_{c_j}`, which is constant outside
    the knots.

    Attributes
    ----------
    n_inputs : int
        Number of columns of X.
    columns : array of int (n_features,)
        The column :math:`c_j` of each feature.
    shift, scale : arrays (n_features,)
        The shifts :math:`a_j` and the scales :math:`s_j`.
    clip : float
        The clipping limit; infinity if features are not clipped.
    knots : dict of int to pair of arrays
        For each feature with knots, the ascending values of x at the knots and the corresponding values of u.
    """

    n_inputs: int
    columns: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    clip: float
    knots: dict[int, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def identity(cls, n_inputs: int) -> FeatureScaling:
        return cls(n_inputs, np.arange(n_inputs), np.zeros(n_inputs), np.ones(n_inputs), np.inf, {})

    @classmethod
    def of(cls, scaling: Scaling, n_inputs: int) -> FeatureScaling:
        """Return the scaling of a fitted model in this form."""
        scale = 1 / scaling.spread
        return cls(n_inputs, scaling.kept, scaling.centre, scale, scaling.clip, scaling.knots)

    @property
    def selects(self) -> bool:
        """Whether some columns of X are unused or reordered."""
        return not np.array_equal(self.columns, np.arange(self.n_inputs))

    @property
    def scales(self) -> bool:
        """Whether some features differ from their columns of X."""
        moved = self.shift.any() or (self.scale != 1).any()
        return bool(moved or np.isfinite(self.clip) or self.knots)

    def after(self, shift: np.ndarray, scale: np.ndarray) -> FeatureScaling:
        """Return the composition of the map ``(x - shift) * scale`` and this scaling."""
        shift, scale = shift[self.columns], scale[self.columns]
        knots = {j: (x / scale[j] + shift[j], u) for j, (x, u) in self.knots.items()}
        return replace(self, shift=shift + self.shift / scale, scale=scale * self.scale, knots=knots)

    def apply(self, X: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """Return the features of the rows of X, computed with numbers of the given dtype."""
        x = X.astype(dtype)[:, self.columns]
        u: np.ndarray = (x - self.shift.astype(dtype)) * self.scale.astype(dtype)
        u = np.clip(u, dtype(-self.clip), dtype(self.clip))
        for j, (knots, values) in self.knots.items():
            u[:, j] = np.interp(x[:, j], knots.astype(dtype), values.astype(dtype))
        return u

    def undo(self, u: np.ndarray) -> np.ndarray:
        """Return rows of X that have the given features; unused columns are 0.

        Features outside the range of a piecewise linear function are replaced by the closest value.
        """
        X = np.zeros((len(u), self.n_inputs))
        X[:, self.columns] = u / self.scale + self.shift
        for j, (knots, values) in self.knots.items():
            X[:, self.columns[j]] = np.interp(u[:, j], values, knots)
        return X


@dataclass(frozen=True, eq=False)
class TableInputs:
    """Features of a table whose columns contain numbers and categories.

    A column of numbers has NaN for missing values. A column of categories contains indices into the list of
    categories; an index outside the list means an unknown category. There are three kinds of features:
    numbers with imputed missing values, indicators of missing numbers, and functions of a category.

    Attributes
    ----------
    names : list of str
        Names of the columns.
    categories : list of list of str or None
        The categories of each column, in which "" means a missing value; None for a column of numbers.
    column : array of int (n_features,)
        The index of the column of each feature.
    fill : array (n_features,)
        The number that replaces missing numbers; NaN for the other two kinds of features.
    values : list of array or None
        The values of the feature for each category, followed by the value for an unknown category; None for
        the other two kinds of features.
    """

    names: list[str]
    categories: list[list[str] | None]
    column: np.ndarray
    fill: np.ndarray
    values: list[np.ndarray | None]

    @classmethod
    def of(cls, features: Any, names: list[str]) -> TableInputs:
        """Return the features of a fitted TableFeatures, which must not have dates or free text."""
        names = [name for name in names if name in {*features.numbers_, *features.categorical_}]
        place = {name: c for c, name in enumerate(names)}
        categories: list[list[str] | None] = [None] * len(names)
        column = [place[name] for name in (*features.numbers_, *features.missing_)]
        fill = [] if features.imputer_ is None else features.imputer_.statistics_.tolist()
        values: list[np.ndarray | None] = [None] * len(column)
        for k, name in enumerate(features.categorical_):
            codes = category_codes(features.one_hot_, k)
            categories[place[name]] = ["" if one is None else one for one in features.one_hot_.categories_[k]]
            column += [place[name]] * codes.shape[1]
            values += [*codes.T]
        fill += [np.nan] * (len(column) - len(fill))
        return cls(names, categories, np.array(column), np.array(fill), values)

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return the features of the rows of X."""
        columns = []
        for c, fill, values in zip(self.column, self.fill, self.values, strict=True):
            x = X[:, c]
            if values is not None:
                known = (x >= 0) & (x < len(values) - 1)
                columns.append(values[np.where(known, x, len(values) - 1).astype(int)])
            elif np.isnan(fill):
                columns.append(np.isnan(x).astype(float))
            else:
                columns.append(np.where(np.isnan(x), fill, x))
        return np.column_stack(columns)

    def plain(self) -> dict[str, Any]:
        """Return the attributes as dictionaries and lists, for JSON."""
        features = []
        for c, fill, values in zip(self.column.tolist(), self.fill.tolist(), self.values, strict=True):
            more = {} if np.isnan(fill) else {"fill": fill}
            features.append({"column": c, **more, **({} if values is None else {"values": values.tolist()})})
        return {"names": self.names, "categories": self.categories, "features": features}


def category_codes(one_hot: Any, k: int) -> np.ndarray:
    """Return the one-hot features of each category of the k-th column, then of an unknown category."""
    rows = np.array([[values[0] for values in one_hot.categories_]], dtype=object)
    rows = np.repeat(rows, len(one_hot.categories_[k]) + 1, axis=0)
    rows[:, k] = [*one_hot.categories_[k], "an unseen category"]
    sizes = []
    for j, values in enumerate(one_hot.categories_):
        rare = one_hot.infrequent_categories_[j]
        dropped = one_hot.drop_idx_ is not None and one_hot.drop_idx_[j] is not None
        sizes.append(len(values) - (0 if rare is None else len(rare) - 1) - int(dropped))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the unseen category and missing names
        encoded = one_hot.transform(rows)
    return np.asarray(encoded[:, sum(sizes[:k]) : sum(sizes[: k + 1])], dtype=np.float64)


def check_columns(features: Any, form: str) -> None:
    """Raise an error naming the columns of a table that a format cannot represent, if there are any."""
    dates = [] if form == "ONNX" else list(features.dates_)
    found = [f"{name!r} (date)" for name in dates] + [f"{name!r} (free text)" for name in features.text_]
    if not found:
        return
    without = " ".join([*dates, *features.text_])
    way = f"Fit the model without them (tabular_pipeline(drop=...), sparseklr fit --drop {without})"
    way += ", export it to ONNX" if not features.text_ else ""
    raise ValueError(
        f"These columns of the model cannot be exported to {form}: {', '.join(found)}. {way}, or use the "
        "model file in Python (sparseklr.load)."
    )


def affine(scaler: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return ``shift`` and ``scale`` of a fitted scaler that maps x to ``(x - shift) * scale``."""
    if type(scaler).__name__ == "TableFeatures":
        n = len(scaler.get_feature_names_out())
        both = np.zeros(n), np.ones(n)
        if scaler.scaler_ is not None:
            for whole, part in zip(both, affine(scaler.scaler_), strict=True):
                whole[: len(part)] = part
        return both
    if not isinstance(scaler, Scaler) or getattr(scaler, "clip", False):
        raise ValueError(
            f"the step {scaler!r} of the pipeline cannot be exported to this format; expected a "
            "StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler that does not clip. to_onnx supports "
            "more steps."
        )
    zeros, ones = np.zeros(scaler.n_features_in_), np.ones(scaler.n_features_in_)
    if isinstance(scaler, MinMaxScaler):
        return -scaler.min_ / scaler.scale_, scaler.scale_
    shift = getattr(scaler, "mean_" if isinstance(scaler, StandardScaler) else "center_", None)
    if isinstance(scaler, StandardScaler) and not scaler.with_mean:
        shift = None
    return zeros if shift is None else shift, ones if scaler.scale_ is None else 1 / scaler.scale_


@dataclass(frozen=True, eq=False)
class PortableModel:
    r"""A kernel classifier represented by arrays of numbers.

    With scaled features u (see :class:`FeatureScaling`), the outputs of the model are

    .. math:: f_o(x) = \sum_b \beta_{ob} k(u, z_b) + c_o

    and the class probabilities are the softmax of scores that are computed from f. For two classes, there is
    one output, and the scores are 0 and f. For more classes, there is one output per class. The scores are
    then the outputs if ``scores="softmax"``. They are :math:`-\log(1 + e^{-f_o})` if
    ``scores="one-vs-rest"``, so that the probabilities are proportional to the sigmoids of the outputs.

    Attributes
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid"}
        The kernel function k. It is :math:`e^{-d}` with :math:`d = \sum_j \gamma_j (u_j - z_j)^2` for
        ``"rbf"``, and with :math:`d = \sum_j \gamma_j |u_j - z_j|` for ``"laplacian"``. Let
        :math:`q = \sum_j \gamma_j u_j z_j`, and let c be ``coef0``; then the kernel is q for ``"linear"``,
        :math:`(q + c)^{degree}` for ``"poly"``, and :math:`\tanh(q + c)` for ``"sigmoid"``.
    gamma : array (n_features,)
        The kernel coefficients :math:`\gamma_j`; all ones for the linear kernel.
    coef0, degree : float
        Further parameters of the kernel.
    points : array (n_points, n_features)
        The points :math:`z_b`, as scaled features, in the dtype of the training data. With the linear kernel,
        there is one point per output, the weighted sum of all points.
    coef : array (n_outputs, n_points)
        The coefficients :math:`\beta_{ob}`.
    intercept : array (n_outputs,)
        The intercepts :math:`c_o`.
    margin : array (n_outputs,) or None
        If given, :func:`~sparseklr.refit.calibration.link` with this margin is applied to the outputs before
        the scores are computed.
    classes : array (n_classes,)
        The classes.
    scores : {"one-vs-rest", "softmax"}
        The formula for the scores of more than two classes, as above.
    scaling : FeatureScaling
        The scaling of the features.
    table : TableInputs or None
        If given, the inputs are columns of a table, from which the row x is computed first.
    """

    kernel: str
    gamma: np.ndarray
    coef0: float
    degree: float
    points: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    margin: np.ndarray | None
    classes: np.ndarray
    scores: Link
    scaling: FeatureScaling
    table: TableInputs | None = None

    @classmethod
    def of(cls, model: Any) -> PortableModel:
        """Return the representation of a fitted classifier, or of a pipeline of scalers and a classifier."""
        if isinstance(model, cls):
            return model
        check_is_fitted(model)
        if isinstance(model, Pipeline):
            steps = [step for _, step in model.steps if step not in (None, "passthrough")]
            portable = cls.of(steps[-1])
            for step in reversed(steps[:-1]):
                kind = type(step).__name__
                if kind == "TableReader":  # the exported model takes the output of the TableReader as input
                    continue
                if kind == "TableFeatures":
                    check_columns(step, "C and JSON")
                portable = replace(portable, scaling=portable.scaling.after(*affine(step)))
                if kind == "TableFeatures" and (step.missing_ or step.categorical_):
                    names = [*step.numbers_, *step.categorical_]
                    if type(steps[0]).__name__ == "TableReader":  # use the order of the columns in the table
                        names = list(steps[0].get_feature_names_out())
                    portable = replace(portable, table=TableInputs.of(step, names))
            return portable
        if hasattr(model, "best_estimator_"):  # SKLRCV, GridSearchCV
            return cls.of(model.best_estimator_)
        if isinstance(model, CompactKLR):
            return cls._of_compact(model)._with_a_point()
        if isinstance(model, LogisticRegression | DummyClassifier):
            return cls._of_baseline(model)._with_a_point()
        if not isinstance(model, KernelClassifier):
            raise TypeError(
                "model must be a fitted classifier of sparseklr, a parameter search (such as GridSearchCV) "
                "over such a classifier, or a pipeline whose last step is such a classifier; got "
                f"{type(model).__name__}."
            )
        return cls._of_classifier(model)._with_a_point()

    @classmethod
    def _of_classifier(cls, model: KernelClassifier) -> PortableModel:
        kernel, calibration = model.kernel_, model.calibration_ if isinstance(model, SKLR) else None
        if kernel.name not in NAMED_KERNELS:
            raise ValueError(
                f"a model with kernel={model.kernel!r} cannot be exported, because its formula is unknown; "
                f"expected one of {', '.join(NAMED_KERNELS)}."
            )
        if calibration == "link" and len(model.classes_) > 2 and model.link_ == SOFTMAX:
            raise ValueError(
                "a model with calibration='link' and multi_class='softmax' cannot be exported, because its "
                "calibration depends on all outputs of a row. Use calibration='sigmoid'."
            )
        points, n_features = model.support_vectors_, model.n_features_in_
        gamma, scaling = np.full(n_features, kernel.gamma), FeatureScaling.identity(n_features)
        if isinstance(model, SparseKLR):
            points, gamma = model.scaling_.transform(points), model.relevance_[model.scaling_.kept]
            scaling = FeatureScaling.of(model.scaling_, n_features)
        points = points.toarray() if sparse.issparse(points) else points
        coef, intercept = model.dual_coef_, model.intercept_
        if calibration == "sigmoid":
            slope, offset = model.sigmoid_.T
            coef, intercept = coef * slope[:, None], intercept * slope + offset
        if kernel.name == "linear":  # a single weight vector for each output
            points, coef = coef @ points, np.eye(len(coef))
        return cls(
            kernel=str(kernel.name),
            gamma=gamma,
            coef0=kernel.coef0,
            degree=kernel.degree,
            points=points,
            coef=coef,
            intercept=intercept,
            margin=model.lam_ if calibration == "link" else None,
            classes=model.classes_,
            scores=model.link_,
            scaling=scaling,
        )

    @classmethod
    def _of_baseline(cls, model: Any) -> PortableModel:
        """Return the representation of a logistic regression, or of a model that predicts class fractions."""
        n = model.n_features_in_
        if isinstance(model, LogisticRegression):
            points, intercept = model.coef_, model.intercept_
        else:
            log_proba = np.log(model.class_prior_)
            intercept = log_proba if len(log_proba) > 2 else log_proba[1:] - log_proba[:1]
            points = np.zeros((0, n))
        return cls(
            kernel="linear",
            gamma=np.ones(n),
            coef0=0.0,
            degree=3.0,
            points=points,
            coef=np.eye(len(intercept))[:, : len(points)],
            intercept=intercept,
            margin=None,
            classes=model.classes_,
            scores=SOFTMAX,
            scaling=FeatureScaling.identity(n),
        )

    @classmethod
    def _of_compact(cls, model: CompactKLR) -> PortableModel:
        fitted = model.model_
        return cls(
            kernel="rbf",
            gamma=fitted.gamma,
            coef0=0.0,
            degree=3.0,
            points=fitted.points,
            coef=model.dual_coef_,
            intercept=model.intercept_,
            margin=None,
            classes=model.classes_,
            scores=model.link_,
            scaling=FeatureScaling.of(model.scaling_, model.n_features_in_),
        )

    def _with_a_point(self) -> PortableModel:
        """Return the model, with one point of coefficient 0 if it has no points, as C has no empty arrays."""
        if self.points.size:
            return self
        n = self.scaling.n_inputs
        return replace(
            self,
            gamma=np.ones(n),
            points=np.zeros((1, n)),
            coef=np.zeros((len(self.intercept), 1)),
            scaling=FeatureScaling.identity(n),
        )

    def predict_proba(self, X: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """Return the class probabilities by the formulas above, computed with numbers of the given dtype."""
        X = X if self.table is None else self.table.apply(X)
        u = self.scaling.apply(X, dtype)
        z, gamma = self.points.astype(dtype), self.gamma.astype(dtype)
        if self.kernel == "rbf":
            k = np.exp(-((u[:, None] - z) ** 2 @ gamma))
        elif self.kernel == "laplacian":
            k = np.exp(-(np.abs(u[:, None] - z) @ gamma))
        else:
            q = (u * gamma) @ z.T
            k = {
                "linear": lambda: q,
                "poly": lambda: (q + dtype(self.coef0)) ** dtype(self.degree),
                "sigmoid": lambda: np.tanh(q + dtype(self.coef0)),
            }[self.kernel]()
        f = k @ self.coef.T.astype(dtype) + self.intercept.astype(dtype)
        if self.margin is not None:
            margin: Any = self.margin.astype(dtype)
            f = link(f, margin)
        if len(self.classes) == 2:
            return np.asarray(softmax(np.hstack([np.zeros_like(f), f]), axis=1))
        return np.asarray(softmax(f if self.scores == "softmax" else log_expit(f), axis=1))


def to_json(model: Any) -> str:
    """Return a fitted classifier as JSON text.

    Parameters
    ----------
    model : estimator or pipeline
        A fitted classifier of this package, a parameter search over such a classifier, or a pipeline of
        scalers and such a classifier. The columns of a :func:`~sparseklr.tabular_pipeline` must be numbers or
        categories.

    Returns
    -------
    str
        A JSON object with the entries ``format`` ("sparseklr"), ``version`` (1), ``kernel``, ``gamma``,
        ``coef0``, ``degree``, ``points``, ``coef``, ``intercept``, ``margin``, ``classes``, ``scores`` and
        ``scaling``; for a table with missing values or categories also ``table``. The page "Exporting a
        model" of the documentation explains the entries and contains a reader in JavaScript. Numbers are
        written with all digits.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SparseKLR
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> text = to_json(SparseKLR().fit(X, y))
    >>> text[:60]
    '{"format": "sparseklr", "version": 1, "kernel": "rbf", "gamm'
    """
    portable = PortableModel.of(model)
    scaling = portable.scaling
    values = {
        **vars(portable),
        "scaling": {
            **vars(scaling),
            "clip": scaling.clip if np.isfinite(scaling.clip) else None,
            "knots": [scaling.knots.get(j) for j in range(len(scaling.columns))],
        },
    }
    del values["table"]
    if portable.table is not None:
        values["table"] = portable.table.plain()
    content = {"format": "sparseklr", "version": 1, **values}
    return json.dumps(content, default=np.ndarray.tolist, allow_nan=False)
