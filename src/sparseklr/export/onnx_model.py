"""Export to an ONNX graph with skl2onnx, which also converts pipelines and parameter searches."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..baselines.half import HalfKLR
from ..baselines.import_vector import ImportVectorMachine
from ..baselines.thresholded import ThresholdedKLR
from ..compact_klr import CompactKLR
from ..sklr import SKLR
from ..sklr_cv import SKLRCV
from ..sparse_klr import SparseKLR
from .portable import FeatureScaling, PortableModel, category_codes, check_columns

if TYPE_CHECKING:
    from ..tables.features import TableFeatures
    from ..tables.reader import TableReader


class Baseline(ClassifierMixin, BaseEstimator):
    """Wrapper around a LogisticRegression or DummyClassifier, so that it is converted in double precision.

    skl2onnx converts these classes to models that compute in float32.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.classes_, self.n_features_in_ = model.classes_, model.n_features_in_


ESTIMATORS = (Baseline, SKLR, SKLRCV, SparseKLR, CompactKLR, ThresholdedKLR, ImportVectorMachine, HalfKLR)
_OLDEST_OPSET = 15  # the first opset in which the operator Shape has the attributes start and end


def to_onnx(model: Any, X: Any = None, *, dtype: Literal["float64", "float32"] = "float64") -> Any:
    """Return a fitted classifier as an ONNX model.

    The graph has two outputs, ``label`` (n,) and ``probabilities`` (n, n_classes). The classifier is
    converted to core ONNX operators; other steps of a pipeline may add operators of ``ai.onnx.ml``.

    Parameters
    ----------
    model : estimator or pipeline
        A fitted classifier of this package, a parameter search over such a classifier, or a pipeline whose
        last step is such a classifier and whose other steps skl2onnx can convert. The graph of a
        :func:`~sparseklr.tabular_pipeline` has one input of shape (n, 1) for each feature column. Inputs are
        numbers, with NaN for missing values, or strings, with the empty string for missing values. Dates are
        float64 numbers: the seconds between 1970-01-01 00:00 and the date, both without time zone. Columns
        with free text cannot be exported.
    X : DataFrame, default=None
        A few rows; required only for other pipelines that were fitted to columns of several types. The graph
        then has one input of shape (n, 1) for each column. Without ``X``, it has a single input ``X`` of
        shape (n, n_features).
    dtype : {"float64", "float32"}, default="float64"
        Type of the numbers in inputs and outputs. The classifier always computes in float64, because large
        terms of its sum may cancel. Its points are stored in the dtype of the training data, so that a model
        fitted to float32 data gives a smaller file.

    Returns
    -------
    onnx.ModelProto
        The ONNX model. To save it, write ``model.SerializeToString()`` to a file.

    Notes
    -----
    This function requires ``pip install 'sparseklr[onnx]'``. The graph computes squared distances as
    ``|x|^2 + |z|^2 - 2 x.z`` after the mean of the points has been subtracted. It computes the distances of
    the laplacian kernel feature by feature. Running the graph needs memory for one kernel value for each pair
    of a row and a point.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparseklr import SparseKLR
    >>> X, y = load_iris(return_X_y=True)
    >>> graph = to_onnx(SparseKLR().fit(X, y))
    >>> [output.name for output in graph.graph.output]
    ['label', 'probabilities']
    """
    skl2onnx = _skl2onnx()
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32'; got {dtype!r}.")
    check_is_fitted(model)
    if isinstance(model, Pipeline):  # skl2onnx does not support "passthrough"
        steps = [(name, step) for name, step in model.steps if step not in (None, "passthrough")]
        name, last = steps[-1]
        if isinstance(last, LogisticRegression | DummyClassifier):
            steps[-1] = name, Baseline(last)
        model = Pipeline(steps)
    register_converters()
    number = DoubleTensorType if dtype == "float64" else FloatTensorType
    if table := _reader(model):
        check_columns(model["features"], "ONNX")
        inputs = _table_inputs(table, number, StringTensorType, DoubleTensorType)
        model = Pipeline(model.steps[1:])
    elif X is None:
        inputs = [("X", number([None, model.n_features_in_]))]
    else:
        kinds = {name: StringTensorType if X[name].dtype.kind in "OSUT" else number for name in X.columns}
        inputs = [(str(name), kind([None, 1])) for name, kind in kinds.items()]
    options = {id(model): {"zipmap": False}}
    exported = skl2onnx.convert_sklearn(model, "sparseklr", inputs, options=options)
    _name_inputs(exported.graph, [name for name, _ in inputs])
    return exported


def register_converters() -> None:
    """Register the classifiers of this package with skl2onnx.

    After this call, ``skl2onnx.to_onnx`` can convert the classifiers, including those in pipelines and
    parameter searches. Its options ``zipmap`` and ``nocl`` are supported. :func:`to_onnx` calls this function
    itself.
    """
    skl2onnx = _skl2onnx()
    for estimator in ESTIMATORS:
        skl2onnx.update_registered_converter(
            estimator,
            f"Sparseklr{estimator.__name__}",
            _output_shapes,
            _convert,
            options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
        )

    if features := sys.modules.get("sparseklr.tables.features"):
        skl2onnx.update_registered_converter(
            features.TableFeatures, "SparseklrTableFeatures", _table_output_shape, _convert_table
        )


def _reader(model: Any) -> Any:
    """Return the TableReader that is the first step of a pipeline, or None."""
    reader = sys.modules.get("sparseklr.tables.reader")  # a pipeline has a TableReader only if it is imported
    first = model.steps[0][1] if isinstance(model, Pipeline) else None
    return first if reader is not None and isinstance(first, reader.TableReader) else None


def _name_inputs(graph: Any, names: list[str]) -> None:
    """Rename the inputs to the names of the columns, of which skl2onnx keeps only letters and digits."""
    new = {given.name: name for given, name in zip(graph.input, names, strict=True)}
    for given in graph.input:
        given.name = new[given.name]
    for node in graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]


def _skl2onnx() -> Any:
    try:
        import skl2onnx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'ONNX export needs skl2onnx: pip install "sparseklr[onnx]"', name="skl2onnx"
        ) from error
    return skl2onnx


def _output_shapes(operator: Any) -> None:
    """Set the shapes and types of the outputs of :func:`_convert` for skl2onnx."""
    from skl2onnx.common.data_types import DoubleTensorType
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    calculate_linear_classifier_output_shapes(operator)
    if isinstance(operator.inputs[0].type, DoubleTensorType):  # skl2onnx would use float32 here
        operator.outputs[1].type = DoubleTensorType(operator.outputs[1].type.shape)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Converter for skl2onnx: add the nodes that compute the label and the probabilities of a classifier."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import DoubleTensorType
    from skl2onnx.common.utils_classifier import get_label_classes

    if container.target_opset < _OLDEST_OPSET:
        raise RuntimeError(
            f"target_opset must be at least {_OLDEST_OPSET} for classifiers of sparseklr; "
            f"got {container.target_opset}."
        )
    fitted = operator.raw_operator
    model = PortableModel.of(fitted.model if isinstance(fitted, Baseline) else fitted)
    double = isinstance(operator.inputs[0].type, DoubleTensorType)
    g = Graph(scope, container)
    x = g("Cast", operator.inputs[0].full_name, to=TensorProto.DOUBLE)
    z = g("Cast", model.points, to=TensorProto.DOUBLE)
    x = _scaled(g, model.scaling, x)
    f = g("Add", g("MatMul", _kernel_values(g, model, x, z), model.coef.T.copy()), model.intercept)
    if model.margin is not None:
        f = _link(g, f, model.margin)

    if len(model.classes) == 2:
        scores = ranked = g("Concat", g("Sub", f, f), f, axis=1)
    else:
        ranked = f
        scores = f if model.scores == "softmax" else g("Neg", g.softplus(g("Neg", f)))
    classes = np.asarray(get_label_classes(scope, operator.raw_operator))
    classes = classes.astype(object) if classes.dtype.kind in "OSU" else classes.astype(np.int64)
    label, probabilities = (output.full_name for output in operator.outputs)
    g("Gather", classes, g("ArgMax", ranked, axis=1, keepdims=0), output=label)
    g(
        "Cast",
        g("Softmax", scores, axis=1),
        to=TensorProto.DOUBLE if double else TensorProto.FLOAT,
        output=probabilities,
    )


def _scaled(g: Graph, scaling: FeatureScaling, x: str) -> str:
    """Add the nodes for :meth:`FeatureScaling.apply`."""
    if scaling.selects:
        x = g("Gather", x, scaling.columns, axis=1)
    if not scaling.scales:
        return x
    u = g("Mul", g("Sub", x, scaling.shift), scaling.scale)
    if np.isfinite(scaling.clip):
        u = g.clip(u, -scaling.clip, scaling.clip)
    if not scaling.knots:
        return u
    ranked = np.array(list(scaling.knots))
    mapped = g.interpolate(g("Gather", x, ranked, axis=1), list(scaling.knots.values()))
    places = np.arange(len(scaling.columns))
    places[ranked] = len(places) + np.arange(len(ranked))
    return g("Gather", g("Concat", u, mapped, axis=1), places, axis=1)


def _kernel_values(g: Graph, model: PortableModel, x: str, z: str) -> str:
    """Add the nodes for the kernel values (n, n_points) between rows and points; return the output's name.

    A multiplication by a scalar must not precede or follow a MatMul, because onnxruntime fuses the two
    operators and rounds the scalar to float32. Therefore the points are multiplied by the vector gamma.
    """
    if model.kernel == "rbf":
        center = model.points.mean(axis=0)
        x, z = g("Sub", x, center), g("Sub", z, center)
        x_norm = g("ReduceSum", g("Mul", x, g("Mul", x, model.gamma)), np.array([1]), keepdims=1)
        z_norm = g("ReduceSum", g("Mul", z, g("Mul", z, model.gamma)), np.array([1]), keepdims=0)
        products = g("MatMul", x, g("Transpose", g("Mul", z, 2 * model.gamma), perm=[1, 0]))
        distances = g("Sub", g("Add", x_norm, z_norm), products)
        return g("Exp", g("Neg", g("Max", distances, np.zeros(1))))
    if model.kernel == "laplacian":
        return g("Exp", g("Neg", _sums_of_differences(g, model, x, z)))
    q = g("MatMul", x, g("Transpose", g("Mul", z, model.gamma), perm=[1, 0]))
    if model.kernel == "linear":
        return q
    q = g("Add", q, np.array([model.coef0]))
    if model.kernel == "poly":
        return g("Pow", q, np.array([model.degree]))
    if model.kernel == "sigmoid":
        return g("Tanh", q)
    raise ValueError(f"kernel {model.kernel!r} has no formula in ONNX.")


def _sums_of_differences(g: Graph, model: PortableModel, x: str, z: str) -> str:
    """Add the nodes for ``sum_j gamma_j |x_j - z_j|``, with a loop over features to save memory."""
    from onnx import TensorProto, helper, numpy_helper

    def value(name: str, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)

    m = len(model.points)
    nodes = [
        helper.make_node("Unsqueeze", ["x_j", "last"], ["column"]),
        helper.make_node("Sub", ["column", "z_j"], ["difference"]),
        helper.make_node("Abs", ["difference"], ["distance"]),
        helper.make_node("Mul", ["distance", "gamma_j"], ["weighted"]),
        helper.make_node("Add", ["sum", "weighted"], ["new_sum"]),
    ]
    inputs = [value("sum", [None, m]), value("x_j", [None]), value("z_j", [m]), value("gamma_j", [])]
    last = numpy_helper.from_array(np.array([1]), "last")
    body = helper.make_graph(nodes, "add_feature", inputs, [value("new_sum", [None, m])], [last])
    n_rows = g("Shape", x, start=0, end=1)
    start = g("Expand", np.zeros((1, m)), g("Concat", n_rows, np.array([1]), axis=0))
    by_feature = [g("Transpose", array, perm=[1, 0]) for array in (x, z)]
    return g("Scan", start, *by_feature, model.gamma, num_scan_inputs=3, body=body)


def _link(g: Graph, f: str, margin: np.ndarray) -> str:
    """Add the nodes for :func:`sparseklr.refit.calibration.link`."""
    above = g.softplus(g("Sub", f, margin))
    below = g.softplus(g("Sub", g("Neg", f), margin))
    return g("Add", g("Sub", above, below), g("Mul", f, np.array([1e-12])))


# -- tables -------------------------------------------------------------------------------------------
# The graph of a tabular_pipeline has one input for each column. It does not contain the parsing of cells by
# TableReader. Inputs are numbers, with NaN for missing values, or strings, with the empty string for missing
# values.


def _table_inputs(reader: TableReader, number: Any, text: Any, date: Any) -> list[tuple[str, Any]]:
    """Return the names and types of the inputs of the graph, one for each feature column."""
    kinds = {"number": number, "text": text, "date": date}
    names = reader.get_feature_names_out()
    return [(str(name), kinds[reader.columns_[name].kind]([None, 1])) for name in names]


def _table_output_shape(operator: Any) -> None:
    """Set the output shape of :func:`_convert_table` for skl2onnx."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    single = any(isinstance(given.type, FloatTensorType) for given in operator.inputs)
    kind = FloatTensorType if single else DoubleTensorType
    n_features = len(operator.raw_operator.get_feature_names_out())
    operator.outputs[0].type = kind([None, n_features])


def _convert_table(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes for TableFeatures: scaled numbers, missing-value indicators and categories."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import FloatTensorType

    features: TableFeatures = operator.raw_operator
    single = isinstance(operator.outputs[0].type, FloatTensorType)
    g = Graph(scope, container)
    columns = {given.raw_name: given.full_name for given in operator.inputs}
    quantities = (*features.numbers_, *features.dates_)
    numbers = {name: g("Cast", columns[name], to=TensorProto.DOUBLE) for name in quantities}
    parts = []
    if features.imputer_ is not None:
        dates = [_date_parts(g, numbers[name], chosen) for name, chosen in features.dates_.items()]
        x = g("Concat", *(numbers[name] for name in features.numbers_), *dates, axis=1)
        median = features.imputer_.statistics_
        if single:  # round the medians like the inputs, so that equal numbers remain equal
            n = len(features.numbers_)
            median = np.append(_rounded(median[:n]), median[n:])
        x = g("Where", g("IsNaN", x), median, x)
        scaler: Any = features.scaler_
        parts.append(g("Div", g("Sub", x, scaler.mean_), scaler.scale_))
    parts += [g("Cast", g("IsNaN", numbers[name]), to=TensorProto.DOUBLE) for name in features.missing_]
    if features.one_hot_ is not None:
        one_hot = features.one_hot_
        for k, name in enumerate(features.categorical_):
            codes = category_codes(one_hot, k)
            known = _spellings(["" if value is None else value for value in one_hot.categories_[k]])
            index = g(
                "LabelEncoder",
                columns[name],
                op_domain="ai.onnx.ml",
                op_version=2,
                keys_strings=list(known),
                values_int64s=list(known.values()),
                default_int64=len(codes) - 1,
            )
            parts.append(g("Gather", codes, g("Squeeze", index, np.array([1])), axis=0))
    g(
        "Cast",
        g("Concat", *parts, axis=1),
        to=TensorProto.FLOAT if single else TensorProto.DOUBLE,
        output=operator.outputs[0].full_name,
    )


def _spellings(categories: list[str]) -> dict[str, int]:
    """Map spellings of each category to its index: as given, lower case, upper case, and capitalised.


    ``TableReader`` also ignores case, unless two categories differ only in case. ONNX has no operator that
    ignores case independently of the locale.
    """
    index = {category: i for i, category in enumerate(categories)}
    folded = [category.casefold() for category in categories]
    for i, category in enumerate(categories):
        if folded.count(folded[i]) == 1:
            for change in (str.lower, str.upper, str.capitalize, str.title):
                index.setdefault(change(category), i)
    return index


def _rounded(values: np.ndarray) -> np.ndarray:
    """Return numbers rounded to float32, as float64."""
    return values.astype(np.float32).astype(np.float64)


def _date_parts(g: Graph, seconds: str, parts: list[str]) -> str:
    """Add the nodes for :func:`sparseklr.tables.features.date_parts`, from seconds since 1970.

    Days are counted from 0000-03-01, so that a leap day is the last day of its year, and years are counted in
    eras of 400 years (H. Hinnant, "chrono-compatible low-level date algorithms", civil_from_days).
    """
    from onnx import TensorProto

    def floor(x: str, divisor: float) -> str:
        return g("Floor", g("Div", x, np.array([divisor])))

    def less(x: str, divisor: float) -> str:  # remainder of the division
        return g("Sub", x, g("Mul", floor(x, divisor), np.array([divisor])))

    def plus(x: str, constant: float, factor: float = 1.0) -> str:
        return g("Add", g("Mul", x, np.array([factor])), np.array([constant]))

    days = floor(seconds, 86400.0)
    shifted = plus(days, 719468.0)
    of_era = less(shifted, 146097.0)
    leaps = g(
        "Sub",
        g("Add", of_era, floor(of_era, 36524.0)),
        g("Add", floor(of_era, 1460.0), floor(of_era, 146096.0)),
    )
    year = floor(leaps, 365.0)  # year of the era
    start = g("Sub", g("Add", plus(year, 0.0, 365.0), floor(year, 4.0)), floor(year, 100.0))
    of_year = g("Sub", of_era, start)
    march = floor(plus(of_year, 2.0, 5.0), 153.0)  # months since March
    late = g("Cast", g("Greater", march, np.array([9.5])), to=TensorProto.DOUBLE)  # January and February
    month = g("Sub", plus(march, 3.0), plus(late, 0.0, 12.0))
    found = {
        "year": lambda: g("Add", g("Add", year, plus(floor(shifted, 146097.0), 0.0, 400.0)), late),
        "month": lambda: month,
        "day": lambda: g("Sub", plus(of_year, 1.0), floor(plus(march, 2.0, 153.0), 5.0)),
        "weekday": lambda: plus(less(plus(days, 3.0), 7.0), 1.0),
        "hour": lambda: floor(less(seconds, 86400.0), 3600.0),
        "total_seconds": lambda: seconds,
    }
    return g("Concat", *(found[part]() for part in parts), axis=1)


# -- graphs -------------------------------------------------------------------------------------------


class Graph:
    """Builder of a graph. A call adds a node for an operator and returns the name of the node's output."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container

    def __call__(self, operator: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """Add a node and return the name of its output; inputs that are arrays become constants."""
        names = [given if isinstance(given, str) else self.constant(given) for given in inputs]
        output = output or self.scope.get_unique_variable_name(operator.lower())
        name = self.scope.get_unique_operator_name(operator)
        self.container.add_node(operator, names, output, name=name, **attributes)
        return output

    def constant(self, values: np.ndarray) -> str:
        from onnx import TensorProto, numpy_helper

        name = self.scope.get_unique_variable_name("constant")
        if values.dtype == object:
            self.container.add_initializer(name, TensorProto.STRING, values.shape, values.tolist())
        else:
            self.container.add_initializer(name, None, None, numpy_helper.from_array(values, name))
        return name

    # -- functions that ONNX lacks ----------------------------------------------------------------

    def clip(self, x: str, low: float, high: float) -> str:
        """Add the nodes that clip ``x`` to an interval."""
        return self("Max", self("Min", x, np.array([high])), np.array([low]))

    def softplus(self, x: str) -> str:
        """Add the nodes for ``log(1 + e^x)``, because onnxruntime does not implement Softplus for float64."""
        small = self("Log", self("Add", self("Exp", self("Neg", self("Abs", x))), np.ones(1)))
        return self("Add", self("Max", x, np.zeros(1)), small)

    def interpolate(self, x: str, tables: Sequence[tuple[np.ndarray, np.ndarray]]) -> str:
        """Add the nodes that apply a piecewise linear function to each column of ``x``.

        Each function is constant outside its knots. It is the sum of ramps
        ``values[0] + sum_i diff(values)_i clip((x - knot_i) / width_i, 0, 1)``. The arrays of all functions
        are padded to the same number of ramps.
        """
        n_ramps = max(len(knots) for knots, _ in tables) - 1
        lower, inverse, rise = np.zeros((3, len(tables), n_ramps))
        for j, (knots, values) in enumerate(tables):
            part = j, slice(len(knots) - 1)
            lower[part], inverse[part], rise[part] = knots[:-1], 1 / np.diff(knots), np.diff(values)
        ramps = self("Mul", self("Sub", self("Unsqueeze", x, np.array([2])), lower), inverse)
        ramps = self("Clip", ramps, np.array(0.0), np.array(1.0))
        total = self("ReduceSum", self("Mul", ramps, rise), np.array([2]), keepdims=0)
        return self("Add", total, np.array([values[0] for _, values in tables]))
