"""Invariants of fitted models: what must hold of their arrays before prediction may use them.

Prediction hands arrays to compiled code, of this package and of SciPy, which reads where they point. Whoever
writes a model file decides what the arrays are, so each class that a file may hold has a function here that
raises unless its arrays fit together. A class is trusted only with such a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from .._arrays import check_floats, check_indices_below
from ..compact.objective import CompactModel
from ..compact.scaling import Scaling
from ..data import check_indices
from ..estimators.dual_model import DualModel
from ..estimators.parameters import check_parameters
from ..kernels import NAMED_KERNELS, Kernel
from ..probability.uncertainty import Posterior

_MOST_JOBS = 1024
_FLOATS = (np.float64, np.float32)


def check_fitted_arrays(model: Any, from_file: bool = True) -> None:
    """Raise unless every part of a model satisfies the invariants of its class.

    A model ``from_file`` must not hold anything that waits to be computed: a file holds results.

    Parts of classes that are not in ``CHECKS`` are scikit-learn's and skrub's. What they hold is checked by
    NumPy when it is used, with the exceptions that ``CHECKS`` names; sparse matrices are checked everywhere.
    """
    for part in _parts(model):
        if sparse.issparse(part):
            _check_csr("a sparse matrix", part, part.shape)
        held = getattr(part, "__dict__", {})
        if "n_jobs" in held:
            _check_jobs(held["n_jobs"])
        _need(not (from_file and held.get("_waiting")), "a part waits to be computed")
        cls = type(part)
        if check := CHECKS.get(f"{cls.__module__}.{cls.__qualname__}"):
            try:
                check(part)
            except (AttributeError, TypeError, LookupError) as error:  # parts are missing, or of another kind
                raise ValueError(f"{cls.__name__}: {error}") from error


def _parts(model: Any) -> Iterator[Any]:
    """The model, and whatever can be reached from it."""
    waiting, seen = [model], {}
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, str | bytes | Real | None | type):
            continue
        seen[id(part)] = part
        yield part
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        elif not sparse.issparse(part):
            waiting += vars(part).values() if hasattr(part, "__dict__") else []


# -- parts --------------------------------------------------------------------------------------


def _need(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_jobs(n_jobs: Any) -> None:
    sane = n_jobs is None or (_whole(n_jobs) and 0 < abs(n_jobs) <= _MOST_JOBS)
    _need(sane, f"n_jobs must be None or between 1 and {_MOST_JOBS}, or negative; it is {n_jobs!r}")


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check_csr(name: str, X: Any, shape: tuple[int, ...]) -> None:
    _need(X.format == "csr" and X.shape == shape and len(shape) == 2, f"{name} must be CSR of shape {shape}")
    check_indices(X)
    check_floats(f"the entries of {name}", X.data, (None,), _FLOATS)


def _check_rows(name: str, X: Any, shape: tuple[int, int]) -> None:
    """Points of a model: dense or CSR."""
    if sparse.issparse(X):
        _check_csr(name, X, shape)
    else:
        check_floats(name, X, shape, _FLOATS)


def _check_number(name: str, value: Any, least: float = -np.inf) -> None:
    _need(isinstance(value, int | float) and np.isfinite(value) and value >= least, f"{name} is {value!r}")


def _check_strings(name: str, values: Any) -> None:
    _need(all(isinstance(value, str) for value in values), f"{name} must be text")


def _kernel(kernel: Kernel) -> None:
    named = isinstance(kernel.name, str) and kernel.name in (*NAMED_KERNELS, "precomputed")
    _need(named or callable(kernel.name), f"kernel {kernel.name!r} is not known")
    for name in ("gamma", "coef0", "degree"):
        _check_number(name, getattr(kernel, name))


def _dual_model(model: DualModel) -> None:
    check_floats("coef of the dual model", model.coef, (None, None))
    n_outputs, n_points = model.coef.shape
    _need(model.points.shape[0] == n_points, "points and coefficients of the dual model differ in number")
    check_floats("intercept of the dual model", model.intercept, (n_outputs,))
    check_floats("margins of the dual model", model.margins, (n_outputs,))
    check_indices_below("support of the dual model", model.support, model.n_samples)
    _need(len(model.support) == n_points, "support and coefficients of the dual model differ in number")


def _posterior(one: Posterior) -> None:
    n_points = one.points.shape[0]
    check_floats("L", one.L, (n_points, n_points))
    check_floats("factor", one.factor, (n_points + 1, n_points + 1))
    for name in ("C", "usual"):
        _check_number(name, getattr(one, name), 0.0)


def _scaling(scaling: Scaling) -> None:
    n = len(scaling.kept)
    check_indices_below("kept", scaling.kept, np.iinfo(np.intp).max)
    check_floats("centre", scaling.centre, (n,))
    check_floats("spread", scaling.spread, (n,))
    _need((scaling.spread > 0).all() and scaling.clip > 0, "spread and clip must be positive")
    for j, (x, z) in scaling.knots.items():
        _need(_whole(j) and 0 <= j < n and len(x), f"there are knots of a feature {j!r}")
        check_floats("knots", x, (None,))
        check_floats("knots", z, (len(x),))


# -- classifiers ----------------------------------------------------------------------------------


def _classifier(model: Any) -> bool:
    """Parameters and classes; whether it is fitted. A part of a model, such as a prototype, may not be."""
    constraints = type(model)._parameter_constraints
    given = {name: value for name, value in vars(model).items() if name in constraints}
    check_parameters(constraints, given, type(model).__name__)
    if set(vars(model)) <= set(constraints):
        return False
    classes = model.classes_
    _need(type(classes) is np.ndarray and classes.ndim == 1 and len(classes) > 1, "classes_ must be an array")
    labels = classes.tolist()
    _need(
        all(isinstance(label, str | bytes | Real) for label in labels) and len({*labels}) == len(labels),
        "classes_ must be distinct labels",
    )
    _need(
        _whole(model.n_features_in_) and model.n_features_in_ > 0, "n_features_in_ must be a positive number"
    )
    if "feature_names_in_" in vars(model):
        _need(len(model.feature_names_in_) == model.n_features_in_, "feature_names_in_ has another length")
        _check_strings("feature_names_in_", model.feature_names_in_)
    if (reference := vars(model).get("_reference")) is not None:
        check_indices_below("reference", reference, 10**6 + 1)
        _need(len(reference) and (np.diff(reference) >= 0).all(), "reference must ascend")
    return True


def _n_outputs(model: Any) -> int:
    return 1 if len(model.classes_) == 2 else len(model.classes_)


def _kernel_classifier(model: Any) -> None:
    if not _classifier(model):
        return
    n_outputs, n_points, n_features = _n_outputs(model), len(model.support_), model.n_features_in_
    _need(isinstance(model._kernel, Kernel), "there is no kernel")
    precomputed = model._kernel.precomputed
    check_indices_below("support_", model.support_, n_features if precomputed else np.iinfo(np.intp).max)
    _check_rows(
        "support_vectors_", model.support_vectors_, (n_points, n_points if precomputed else n_features)
    )
    check_floats("dual_coef_", model.dual_coef_, (n_outputs, n_points))
    check_floats("intercept_", model.intercept_, (n_outputs,))
    check_indices_below("n_support_", model.n_support_, n_points + 1)
    _need(len(model.n_support_) == len(model.classes_), "n_support_ must have a number for each class")


def _sparse_klr(model: Any) -> None:
    _kernel_classifier(model)
    if "dual_coef_" not in vars(model):
        return
    n_outputs, n_features = _n_outputs(model), model.n_features_in_
    precomputed = model._kernel.precomputed
    _need(model._calibration in ("refit", "sigmoid", "link", None), "the calibration is not known")
    _need("_unfinished" not in vars(model), "the fit was interrupted")
    if model._calibration == "sigmoid":
        check_floats("the sigmoids", model._platt, (n_outputs, 2))
    margins = np.asarray(model.lam_)
    check_floats("lam_", margins, (n_outputs,) if margins.ndim else ())
    of_points = [("dual_model_", vars(model)["dual_model_"])] if "dual_model_" in vars(model) else []
    _need(all(isinstance(one, DualModel) for _, one in of_points), "dual_model_ is of another kind")
    _need(all(len(one.coef) == n_outputs for _, one in of_points), "dual_model_ has other outputs")
    if posteriors := vars(model).get("_posteriors"):
        _need(len(posteriors) == n_outputs, "there must be a posterior for each output")
        _need(all(isinstance(one, Posterior) for one in posteriors), "a posterior is of another kind")
        of_points += [("points of a posterior", one) for one in posteriors]
    for name, one in of_points:
        n = one.points.shape[0]
        _check_rows(name, one.points, (n, n if precomputed else n_features))


def _compact_klr(model: Any) -> None:
    if not _classifier(model):
        return
    n_outputs, n_points, n_features = _n_outputs(model), len(model.points_), model.n_features_in_
    _need(isinstance(model._model, CompactModel) and isinstance(model._scaling, Scaling), "parts are missing")
    _need(model._model.points.shape == (n_points, len(model._scaling.kept)), "the points have other features")
    _need(len(model._model.coef) == n_outputs, "the coefficients have other outputs")
    check_indices_below("kept", model._scaling.kept, n_features)
    check_floats("points_", model.points_, (n_points, n_features))
    check_floats("dual_coef_", model.dual_coef_, (n_outputs, n_points))
    check_floats("intercept_", model.intercept_, (n_outputs,))
    check_floats("relevance_", model.relevance_, (n_features,))
    check_floats("feature_importances_", model.feature_importances_, (n_features,))
    _need(_whole(model.n_points_) and model.n_points_ == n_points, "n_points_ is not the number of points")


# -- tables -----------------------------------------------------------------------------------------


def _column(column: Any) -> None:
    _need(column.kind in ("number", "date", "text"), f"there is a column of kind {column.kind!r}")
    _check_strings("a column", (column.left_out, column.unit, column.form))
    _check_strings("values of a column", (*(column.categories or ()), *column.unread))
    for value in (column.low, column.high):
        _need(value is None or isinstance(value, Real), "a range must be numbers")


def _table_reader(reader: Any) -> None:
    if "columns_" not in vars(reader):
        return
    _check_strings("names of columns", (*reader.columns_, *reader.feature_names_in_, *reader.report_))
    _need(
        all(type(one).__name__ == "Column" for one in reader.columns_.values()), "a column is of another kind"
    )
    _need(reader.decimal_ in (".", ","), f"decimal_ is {reader.decimal_!r}")
    repeated, n_rows = (vars(reader).get(name, 0) for name in ("n_repeated_rows_", "n_rows_"))
    _need(_whole(repeated) and _whole(n_rows) and 0 <= repeated <= n_rows, "the numbers of rows do not fit")
    prints = reader.row_fingerprints_
    _need(type(prints) is np.ndarray and prints.dtype == np.uint32 and prints.ndim == 1, "row_fingerprints_")


def _table_features(features: Any) -> None:
    if "scale_" not in vars(features):
        return
    for name in ("numbers_", "holes_", "categorical_", "text_"):
        _check_strings(name, getattr(features, name))
    for name in ("encoder_", "imputer_", "scaler_"):
        part = getattr(features, name)
        _need(part is None or hasattr(part, "transform"), f"{name} is a {type(part).__name__}")


# -- scikit-learn -----------------------------------------------------------------------------------


def _vocabulary(vectorizer: Any) -> None:
    """Its values become column indices of a CSR matrix."""
    if "vocabulary_" in vars(vectorizer):
        values = [*vectorizer.vocabulary_.values()]
        _need(all(map(_whole, values)) and sorted(values) == [*range(len(values))], "vocabulary_ has gaps")


def _one_hot(encoder: Any) -> None:
    """The codes of a feature, after grouping and dropping, become column indices of a CSR matrix."""
    if "categories_" not in vars(encoder):
        return
    n_features, none = len(encoder.categories_), [None] * len(encoder.categories_)
    grouped = encoder._infrequent_enabled
    rare = encoder._infrequent_indices if grouped else none
    group_of = encoder._default_to_infrequent_mappings if grouped else none
    dropped = none if encoder._drop_idx_after_grouping is None else encoder._drop_idx_after_grouping
    _need({len(rare), len(group_of), len(dropped)} == {n_features}, "parts of the encoder differ in length")
    sizes = []
    for categories, few, groups, drop in zip(encoder.categories_, rare, group_of, dropped, strict=True):
        _need(type(categories) is np.ndarray and categories.ndim == 1, "categories_ must be arrays")
        if categories.dtype.kind not in "OUS":  # found by bisection
            _need(not (np.diff(categories) <= 0).any(), "categories_ must ascend")
        size = len(categories)
        if groups is not None or few is not None:
            check_indices_below("infrequent categories", few, size)
            check_indices_below("groups of categories", groups, size - len(few) + 1)
            _need(len(few) and len(groups) == size, "groups of categories differ in length")
            size -= len(few) - 1
        if drop is not None:
            _need(_whole(drop) and 0 <= drop < size, "the dropped category is not there")
            size -= 1
        sizes.append(size)
    _need([*encoder._n_features_outs] == sizes, "the numbers of categories differ")


def _refused(model: Any) -> None:
    raise ValueError(f"{type(model).__name__} reads its arrays without checks")


_OWN: dict[str, Callable[[Any], None]] = {
    "compact.objective.CompactModel": CompactModel.check,
    "compact.scaling.Scaling": _scaling,
    "estimators.compact_klr.CompactKLR": _compact_klr,
    "estimators.dual_model.DualModel": _dual_model,
    "estimators.sparse_klr.SparseKLR": _sparse_klr,
    "kernels.Kernel": _kernel,
    "probability.uncertainty.Posterior": _posterior,
    "baselines.half.HalfKLR": _kernel_classifier,
    "baselines.import_vector.ImportVectorMachine": _kernel_classifier,
    "baselines.thresholded.ThresholdedKLR": _kernel_classifier,
    "tabular.columns.Column": _column,
    "tabular.features.TableFeatures": _table_features,
    "tabular.reader.TableReader": _table_reader,
}
#: The classes of this package that a model file may hold.
OWN = frozenset(f"sparseklr.{name}" for name in _OWN)
_LIBSVM = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
#: By the full name of a class.
CHECKS = {
    **{f"sparseklr.{name}": check for name, check in _OWN.items()},
    "sklearn.preprocessing._encoders.OneHotEncoder": _one_hot,
    "sklearn.feature_extraction._dict_vectorizer.DictVectorizer": _vocabulary,
    "sklearn.feature_extraction.text.CountVectorizer": _vocabulary,
    "sklearn.feature_extraction.text.TfidfVectorizer": _vocabulary,
    **dict.fromkeys((f"sklearn.svm._classes.{name}" for name in _LIBSVM), _refused),
}
