"""The types that a model file may contain: their public names, stored attributes, and consistency checks.

Prediction passes arrays to compiled code of this package and of SciPy, which does not check their indices.
The author of a model file controls these arrays. The reader therefore calls the check of every object, which
raises an error unless the arrays are consistent. NumPy checks the arrays of most transformers of scikit-learn
when they are used. Transformers that index without checks have a check in this module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from ._utils.arrays import check_floats, check_indices, check_indices_below
from ._validation import check_parameters
from .compact.model import CompactModel
from .conformal import HeldOut
from .kernels import NAMED_KERNELS, Kernel
from .refit.posterior import Posterior
from .scaling import Scaling
from .shapley import Background

_FLOATS = (np.float64, np.float32)
MOST_JOBS = 1024  # largest number of threads in a model file


# -- parts of a model ---------------------------------------------------------------------------


def _need(holds: Any, what: str) -> None:
    """Raise an error with the message ``what`` unless ``holds`` is true."""
    if not holds:
        raise ValueError(what)


def _check_jobs(n_jobs: Any) -> None:
    """Raise an error for an implausible number of threads; a file must not start a million threads."""
    plausible = n_jobs is None or (_whole(n_jobs) and 0 < abs(n_jobs) <= MOST_JOBS)
    _need(plausible, f"n_jobs must be None or between 1 and {MOST_JOBS}, or negative; it is {n_jobs!r}")


def _whole(value: Any) -> bool:
    """Return whether a value is an integer."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_csr(name: str, X: Any, shape: tuple[int, ...]) -> None:
    """Raise an error unless X is a valid CSR matrix of the given shape."""
    _need(X.format == "csr" and X.shape == shape and len(shape) == 2, f"{name} must be CSR of shape {shape}")
    check_indices(X)
    check_floats(f"the entries of {name}", X.data, (None,), _FLOATS)


def _check_rows(name: str, X: Any, shape: tuple[int, int]) -> None:
    """Raise an error unless X contains valid rows, dense or CSR, of the given shape."""
    if sparse.issparse(X):
        check_csr(name, X, shape)
    else:
        check_floats(name, X, shape, _FLOATS)


def _check_number(name: str, value: Any, least: float = -np.inf) -> None:
    """Raise an error unless a value is a finite number of at least ``least``."""
    valid = isinstance(value, int | float) and np.isfinite(value) and value >= least
    _need(valid, f"{name} must be a finite number of at least {least:g}; it is {value!r}")


def _check_strings(name: str, values: Any) -> None:
    """Raise an error unless all values are strings."""
    _need(all(isinstance(value, str) for value in values), f"{name} must be text")


def _kernel(kernel: Kernel) -> None:
    """Check a kernel."""
    named = isinstance(kernel.name, str) and kernel.name in (*NAMED_KERNELS, "precomputed")
    _need(named, f"unknown kernel {kernel.name!r}")
    for name in ("gamma", "coef0", "degree"):
        _check_number(name, getattr(kernel, name))


def _posterior(one: Posterior) -> None:
    """Check the posterior distribution of an output."""
    n_points = one.points.shape[0]
    check_floats("L", one.L, (n_points, n_points))
    check_floats("factor", one.factor, (n_points + 1, n_points + 1))
    check_indices_below("places of a posterior", one.of_points, np.iinfo(np.intp).max)
    _check_number("C", one.C, 0.0)


def _background(background: Background) -> None:
    """Check the background rows of explanations."""
    n_rows, n_features = background.features.shape
    _check_rows("background", background.features, (n_rows, n_features))
    check_floats("weights of the background", background.weight, (n_rows,))
    _need(n_rows > 0 and (background.weight >= 0).all(), "the background must have rows and weights")


def _held_out(held_out: HeldOut) -> None:
    """Check held-out predictions."""
    n_rows = len(held_out.code)
    check_floats("held-out outputs", held_out.outputs, (n_rows, None), _FLOATS)
    check_floats("weights of held-out rows", held_out.weight, (n_rows,), _FLOATS)
    check_indices_below("classes of held-out rows", held_out.code, np.iinfo(np.int32).max)


def _check_held_out(model: Any) -> None:
    """Check that the held-out predictions of a model have the right outputs and classes."""
    held_out = vars(model).get("_held_out_")
    if held_out is not None:
        _need(isinstance(held_out, HeldOut), "the held-out rows have the wrong type")
        _need(held_out.outputs.shape[1] == _n_outputs(model), "held-out rows have the wrong outputs")
        check_indices_below("classes of held-out rows", held_out.code, len(model.classes_))


def _check_background(model: Any, n_features: int) -> None:
    """Check that the background rows of a model have the right number of features."""
    background = vars(model).get("_background_")
    consistent = isinstance(background, Background) and background.features.shape[1] == n_features
    _need(background is None or consistent, "the background and the model have different features")


def _scaling(scaling: Scaling) -> None:
    """Check the scaling of the features."""
    n = len(scaling.kept)
    check_indices_below("kept", scaling.kept, np.iinfo(np.intp).max)
    check_floats("centre", scaling.centre, (n,))
    check_floats("spread", scaling.spread, (n,))
    _need((scaling.spread > 0).all() and scaling.clip > 0, "spread and clip must be positive")
    for j, (x, z) in scaling.knots.items():
        _need(_whole(j) and 0 <= j < n and len(x), f"knots of an unknown feature {j!r}")
        check_floats("knots", x, (None,))
        check_floats("knots", z, (len(x),))


# -- classifiers ----------------------------------------------------------------------------------


def _classifier(model: Any) -> bool:
    """Check parameters and classes; return False if the model is unfitted, as in a search or pipeline."""
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
        _need(len(model.feature_names_in_) == model.n_features_in_, "feature_names_in_ has the wrong length")
        _check_strings("feature_names_in_", model.feature_names_in_)
    if (reference := vars(model).get("_reference_")) is not None:
        check_indices_below("reference", reference, 10**6 + 1)
        _need(len(reference) and (np.diff(reference) >= 0).all(), "reference must ascend")
    return True


def _n_outputs(model: Any) -> int:
    """Return the number of decision values of a row."""
    return 1 if len(model.classes_) == 2 else len(model.classes_)


def _kernel_classifier(model: Any) -> None:
    """Check the attributes that SKLR and SparseKLR share."""
    if not _classifier(model):
        return
    n_outputs, n_points, n_features = _n_outputs(model), len(model.support_), model.n_features_in_
    _need(isinstance(model.kernel_, Kernel), "the kernel is missing")
    precomputed = model.kernel_.precomputed
    check_indices_below("support_", model.support_, n_features if precomputed else np.iinfo(np.intp).max)
    _check_rows(
        "support_vectors_", model.support_vectors_, (n_points, n_points if precomputed else n_features)
    )
    check_floats("dual_coef_", model.dual_coef_, (n_outputs, n_points))
    check_floats("intercept_", model.intercept_, (n_outputs,))
    check_indices_below("n_support_", model.n_support_, n_points + 1)
    _need(len(model.n_support_) == len(model.classes_), "n_support_ must have a number for each class")


def _sklr(model: Any) -> None:
    """Check a model of the class SKLR."""
    _kernel_classifier(model)
    if "dual_coef_" not in vars(model):
        return
    n_outputs = _n_outputs(model)
    _need(model.calibration_ in ("sigmoid", "link", None), "unknown calibration")
    _need(model.link_ in ("softmax", "one-vs-rest"), f"unknown link {model.link_!r}")
    if model.calibration_ == "sigmoid":
        check_floats("sigmoid_", model.sigmoid_, (n_outputs, 2))
    check_floats("lam_", model.lam_, (n_outputs,))


def _sparse_klr(model: Any) -> None:
    """Check a model of the class SparseKLR."""
    _kernel_classifier(model)
    if "dual_coef_" not in vars(model):
        return
    n_outputs, precomputed = _n_outputs(model), model.kernel_.precomputed
    _need(model.link_ in ("softmax", "one-vs-rest"), f"unknown link {model.link_!r}")
    n_features = model.n_features_in_
    if model.scaling_ is not None:
        _need(isinstance(model.scaling_, Scaling), "the scaling is missing")
        check_indices_below("kept", model.scaling_.kept, n_features)
        n_features = len(model.scaling_.kept)
    check_floats("relevance_", model.relevance_, (model.n_features_in_,))
    _check_background(model, n_features)
    _check_held_out(model)
    posteriors = vars(model).get("_posteriors_")
    if posteriors is None:
        return
    _need(len(posteriors) == n_outputs, "there must be a posterior for each output")
    for one in posteriors:
        _need(isinstance(one, Posterior), "a posterior has the wrong type")
        n = one.points.shape[0]
        _check_rows("points of a posterior", one.points, (n, n if precomputed else n_features))
    if (usual := vars(model).get("_usual_variances_")) is not None:
        _need(len(usual) == n_outputs, "there must be a usual variance for each output")
        for value in usual:
            _check_number("a usual variance", value, 0.0)


def _compact_klr(model: Any) -> None:
    """Check a model of the class CompactKLR."""
    if not _classifier(model):
        return
    n_outputs, n_points, n_features = _n_outputs(model), len(model.points_), model.n_features_in_
    complete = isinstance(model.model_, CompactModel) and isinstance(model.scaling_, Scaling)
    _need(complete, "the points or the scaling are missing")
    _need(model.model_.points.shape == (n_points, len(model.scaling_.kept)), "points have the wrong shape")
    _need(len(model.model_.coef) == n_outputs, "coefficients have the wrong shape")
    check_indices_below("kept", model.scaling_.kept, n_features)
    _check_background(model, len(model.scaling_.kept))
    _check_held_out(model)
    check_floats("points_", model.points_, (n_points, n_features))
    check_floats("dual_coef_", model.dual_coef_, (n_outputs, n_points))
    check_floats("intercept_", model.intercept_, (n_outputs,))
    check_floats("relevance_", model.relevance_, (n_features,))
    check_floats("feature_importances_", model.feature_importances_, (n_features,))
    _need(_whole(model.n_points_) and model.n_points_ == n_points, "n_points_ is not the number of points")


# -- tables -----------------------------------------------------------------------------------------


def _column(column: Any) -> None:
    """Check the description of a column of a table."""
    _need(column.kind in ("number", "date", "text"), f"unknown kind of column {column.kind!r}")
    _check_strings("a column", (column.left_out, column.unit, column.form))
    _check_strings("values of a column", (*(column.categories or ()), *column.unread))
    for value in (column.low, column.high):
        _need(value is None or isinstance(value, Real), "a range must be numbers")


def _table_reader(reader: Any) -> None:
    """Check the first step of ``tabular_pipeline``."""
    if "columns_" not in vars(reader):
        return
    _check_strings("names of columns", (*reader.columns_, *reader.feature_names_in_, *reader.report_))
    columns = reader.columns_.values()
    _need(all(type(column).__name__ == "Column" for column in columns), "a column has the wrong type")
    _need(reader.decimal_ in (".", ","), f"decimal_ must be '.' or ','; it is {reader.decimal_!r}")
    repeated, n_rows = (vars(reader).get(name, 0) for name in ("n_repeated_rows_", "n_rows_"))
    _need(_whole(repeated) and _whole(n_rows) and 0 <= repeated <= n_rows, "numbers of rows are inconsistent")
    prints = reader.row_fingerprints_
    valid = type(prints) is np.ndarray and prints.dtype == np.uint32 and prints.ndim == 1
    _need(valid, "row_fingerprints_ must be an array of 32-bit integers")


def _table_features(features: Any) -> None:
    """Check the second step of ``tabular_pipeline``."""
    if "scaler_" not in vars(features):
        return
    for name in ("numbers_", "missing_", "categorical_", "text_", "dates_"):
        _check_strings(name, getattr(features, name))
    for model in features.scores_:
        _need(hasattr(model, "decision_function"), f"{type(model).__name__} has no decision_function")
    for name in ("one_hot_", "imputer_", "scaler_"):
        part = getattr(features, name)
        _need(
            part is None or hasattr(part, "transform"), f"{name} is not a transformer: {type(part).__name__}"
        )


# -- scikit-learn -----------------------------------------------------------------------------------


def _vocabulary(vectorizer: Any) -> None:
    """Check the vocabulary, whose values become column indices of a CSR matrix."""
    if "vocabulary_" in vars(vectorizer):
        values = [*vectorizer.vocabulary_.values()]
        _need(all(map(_whole, values)) and sorted(values) == [*range(len(values))], "vocabulary_ has gaps")


def _one_hot(encoder: Any) -> None:
    """Check an encoder, whose codes become column indices of a CSR matrix after grouping and dropping."""
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
        if categories.dtype.kind not in "OUS":  # scikit-learn searches these categories by bisection
            _need(not (np.diff(categories) <= 0).any(), "categories_ must ascend")
        size = len(categories)
        if groups is not None or few is not None:
            check_indices_below("infrequent categories", few, size)
            check_indices_below("groups of categories", groups, size - len(few) + 1)
            _need(len(few) and len(groups) == size, "groups of categories differ in length")
            size -= len(few) - 1
        if drop is not None:
            _need(_whole(drop) and 0 <= drop < size, "the dropped category does not exist")
            size -= 1
        sizes.append(size)
    _need([*encoder._n_features_outs] == sizes, "the numbers of categories differ")


# -- the table ------------------------------------------------------------------------------------

_KERNEL_CLASSIFIER = """classes_ support_ support_vectors_ dual_coef_ intercept_ n_support_ kernel_ n_iter_
    converged_ n_samples_fit_"""
# For each name in model files: the module of the class, the stored attributes (in addition to the parameters
# of the constructor), and the check.
_OWN: dict[str, tuple[str, str, Callable[[Any], None]]] = {
    "SKLR": (
        "sklr",
        f"{_KERNEL_CLASSIFIER} lam_ gamma_ kkt_violation_ dual_gap_ calibration_ link_ sigmoid_",
        _sklr,
    ),
    "SparseKLR": (
        "sparse_klr",
        f"""{_KERNEL_CLASSIFIER} n_selected_ gamma_ kkt_violation_ dual_gap_ C_ slope_ link_ scaling_
        relevance_ n_observations_ loo_log_loss_ loo_decision_function_ search_results_ validation_log_loss_
        _posteriors_ _usual_variances_ _reference_ _background_ _held_out_""",
        _sparse_klr,
    ),
    "CompactKLR": (
        "compact_klr",
        """classes_ points_ dual_coef_ intercept_ relevance_ feature_importances_ n_points_ C_ shrinkage_
        gradient_norm_ n_iter_ validation_log_loss_ search_results_ model_ scaling_ _reference_ _kind_
        _background_ _held_out_""",
        _compact_klr,
    ),
    "HalfKLR": (
        "baselines.half",
        f"{_KERNEL_CLASSIFIER} objective_path_ fixed_point_residual_",
        _kernel_classifier,
    ),
    "ImportVectorMachine": (
        "baselines.import_vector",
        f"{_KERNEL_CLASSIFIER} selection_ objective_path_",
        _kernel_classifier,
    ),
    "ThresholdedKLR": ("baselines.thresholded", f"{_KERNEL_CLASSIFIER} threshold_", _kernel_classifier),
    "TableReader": (
        "tables.reader",
        "columns_ decimal_ report_ row_fingerprints_ n_rows_ n_repeated_rows_",
        _table_reader,
    ),
    "TableFeatures": (
        "tables.features",
        "numbers_ missing_ dates_ categorical_ text_ one_hot_ scores_ imputer_ scaler_",
        _table_features,
    ),
    "TabularPipeline": ("tables.pipeline", "", lambda pipeline: None),
    "Kernel": ("kernels", "", _kernel),
    "Posterior": ("refit.posterior", "", _posterior),
    "HeldOut": ("conformal", "", _held_out),
    "Background": ("shapley", "", _background),
    "CompactModel": ("compact.model", "", CompactModel.check),
    "Scaling": ("scaling", "", _scaling),
    "Column": ("tables.columns", "", _column),
}
_SCIKIT_LEARN = {
    "dummy.DummyClassifier": "_strategy sparse_output_ n_outputs_ classes_ n_classes_ class_prior_",
    "linear_model.LogisticRegression": "classes_ coef_ intercept_ n_iter_",
    "pipeline.Pipeline": "",
    "pipeline.FeatureUnion": "",
    "compose.ColumnTransformer": """_columns _transformer_to_input_indices _remainder sparse_output_
        transformers_ output_indices_""",
    "preprocessing.StandardScaler": "n_samples_seen_ mean_ var_ scale_",
    "preprocessing.MinMaxScaler": "n_samples_seen_ scale_ min_ data_min_ data_max_ data_range_",
    "preprocessing.MaxAbsScaler": "n_samples_seen_ max_abs_ scale_",
    "preprocessing.RobustScaler": "center_ scale_",
    "preprocessing.QuantileTransformer": "n_quantiles_ references_ quantiles_",
    "preprocessing.PowerTransformer": "lambdas_ _scaler",
    "preprocessing.Normalizer": "",
    "preprocessing.Binarizer": "",
    "preprocessing.PolynomialFeatures": "_min_degree _max_degree n_output_features_ _n_out_full",
    "preprocessing.KBinsDiscretizer": "bin_edges_ n_bins_ _encoder",
    "preprocessing.FunctionTransformer": "",
    "preprocessing.OneHotEncoder": """categories_ drop_idx_ _infrequent_enabled _infrequent_indices
        _default_to_infrequent_mappings _drop_idx_after_grouping _n_features_outs""",
    "preprocessing.OrdinalEncoder": """categories_ _infrequent_enabled _infrequent_indices
        _default_to_infrequent_mappings _missing_indices""",
    "impute.SimpleImputer": "_fit_dtype _fill_dtype indicator_ statistics_",
    "impute.MissingIndicator": "_precomputed _n_features features_",
    "decomposition.PCA": """_fit_svd_solver mean_ noise_variance_ n_samples_ n_components_ components_
        explained_variance_ explained_variance_ratio_ singular_values_""",
    "decomposition.TruncatedSVD": """components_ explained_variance_ explained_variance_ratio_
        singular_values_""",
    "feature_selection.VarianceThreshold": "variances_",
    "feature_extraction.DictVectorizer": "feature_names_ vocabulary_",
    "feature_extraction.text.CountVectorizer": "fixed_vocabulary_ _stop_words_id vocabulary_",
    "feature_extraction.text.TfidfVectorizer": "fixed_vocabulary_ _stop_words_id vocabulary_ _tfidf",
    "feature_extraction.text.TfidfTransformer": "idf_",
}
_THIRD_PARTY_CHECKS: dict[str, Callable[[Any], None]] = {
    "OneHotEncoder": _one_hot,
    "DictVectorizer": _vocabulary,
    "CountVectorizer": _vocabulary,
    "TfidfVectorizer": _vocabulary,
}
_OF_ANY_ESTIMATOR = ("n_features_in_", "feature_names_in_", "_sklearn_output_config")
# Attributes that only ``fit`` uses.
NOT_STORED = frozenset(
    {"_sklearn_version", "_metadata_request", "_skl_callbacks", "_callbacks", "_training_rows_"}
)
# Attributes that are computed on first use from the training rows, which are not stored.
COMPUTED_LATER = ("_reference_", "_usual_variances_", "_background_")


@dataclass(frozen=True)
class StoredType:
    """A class whose objects a model file may contain."""

    name: str  # name in model files
    cls: type
    parameters: frozenset[str]  # arguments of the constructor
    attributes: frozenset[str]  # further attributes of an object
    check: Callable[[Any], None] | None

    def parts(self, part: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parameters and attributes of an object, including attributes computed on first use."""
        if self.check and "_training_rows_" in vars(part):
            self.check(part)  # check before compiled code computes the missing attributes
            for name in COMPUTED_LATER:
                getattr(part, name, None)
        state = {name: value for name, value in (part.__getstate__() or {}).items() if name not in NOT_STORED}
        if unknown := state.keys() - self.parameters - self.attributes:
            raise ValueError(f"{self.name}.{min(unknown)}")
        parameters = {name: value for name, value in state.items() if name in self.parameters}
        return parameters, {name: value for name, value in state.items() if name not in self.parameters}

    def make(self, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
        """Return an object with the given parameters and attributes; raise an error if it is inconsistent."""
        for given, known in ((parameters, self.parameters), (attributes, self.attributes)):
            if unknown := given.keys() - known:
                raise ValueError(f"{self.name} has an unknown attribute {min(unknown)!r}")
        if "n_jobs" in parameters:
            _check_jobs(parameters["n_jobs"])
        try:
            made = self.cls(**parameters)
            vars(made).update(attributes)
            if self.check:
                self.check(made)
        except (AttributeError, TypeError, LookupError) as error:  # missing attributes, or wrong types
            raise ValueError(f"{self.name}: {error}") from error
        return made


def _places() -> Iterator[tuple[str, tuple[str, str, Callable[[Any], None] | None]]]:
    """Yield the name of each type in model files, with its import path, stored attributes and check."""
    for name, (module, attributes, check) in _OWN.items():
        yield name, (f"sparseklr.{module}.{name}", attributes, check)
    for path, attributes in _SCIKIT_LEARN.items():
        cls = path.rpartition(".")[2]
        yield f"sklearn.{path}", (f"sklearn.{path}", attributes, _THIRD_PARTY_CHECKS.get(cls))


_PLACES = dict(_places())
#: The names of all types.
NAMES = tuple(_PLACES)


@cache
def stored_type(name: str) -> StoredType:
    """Return the type with the given name, a key of ``NAMES``; the library of the type is imported."""
    place, attributes, check = _PLACES[name]
    module, _, attribute = place.rpartition(".")
    cls: Any = getattr(import_module(module), attribute)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(cls).parameters.values()
    parameters = frozenset(one.name for one in given if one.kind not in variadic)
    return StoredType(name, cls, parameters, frozenset(attributes.split()) | {*_OF_ANY_ESTIMATOR}, check)


def type_of(part: Any) -> StoredType | None:
    """Return the type of an object; None if a model file must not contain it."""
    named = type(part).__name__.lstrip("_")
    for name in NAMES:
        if name.rpartition(".")[2] == named and stored_type(name).cls is type(part):
            return stored_type(name)
    return None
