"""Models as ONNX graphs, by a converter for skl2onnx: pipelines and searches come with it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..estimators.cv import SparseKLRCV
from ..estimators.sparse_klr import SparseKLR
from ..rivals.half import HalfKLR
from ..rivals.import_vector import ImportVectorMachine
from ..rivals.thresholded import ThresholdedKLR
from .portable import PortableModel
from .scaling import FeatureScaling

ESTIMATORS = (SparseKLR, SparseKLRCV, ThresholdedKLR, ImportVectorMachine, HalfKLR)
_OLDEST_OPSET = 15  # Shape of a part


def to_onnx(model: Any, X: Any = None, *, dtype: Literal["float64", "float32"] = "float64") -> Any:
    """A fitted classifier as an ONNX model.

    The graph has two outputs, ``label`` (n,) and ``probabilities`` (n, n_classes). A classifier becomes core
    operators of ONNX; other steps of a pipeline may add operators of ``ai.onnx.ml``.

    Parameters
    ----------
    model : estimator or pipeline
        A fitted classifier of this package, a search over one, or a pipeline that ends in one and whose
        other steps skl2onnx can convert.
    X : DataFrame, default=None
        Some rows, for models that were fitted to columns of several types. The graph then has one input
        (n, 1) for each column, numbers or strings; otherwise a single input ``X`` (n, n_features).
    dtype : {"float64", "float32"}, default="float64"
        Type of the numbers that go in and come out. The classifier computes in float64 either way, because
        the terms of its sum are large and cancel (on data that is not scaled, float32 sums were seen to
        change a probability by 0.07). Its points are stored as they were given to ``fit``: a model that
        was fitted to float32 makes a smaller file.

    Returns
    -------
    onnx.ModelProto
        ``model.SerializeToString()`` is what goes into a file.

    Notes
    -----
    Needs the extra ``onnx``. Squared distances are computed as ``|x|^2 + |z|^2 - 2 x.z`` after subtracting
    the mean of the points, as in the compiled core; those of the laplacian kernel feature by feature. The
    memory needed is that of the kernel values, rows times points. Direct differences for all kernels were
    tried: on 2000 rows, 400 points and 57 features they take ten times as long and 365 MB.

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
    if isinstance(model, Pipeline):  # skl2onnx does not know "passthrough"
        model = Pipeline([(name, step) for name, step in model.steps if step not in (None, "passthrough")])
    register_converters()
    number = DoubleTensorType if dtype == "float64" else FloatTensorType
    if X is None:
        inputs = [("X", number([None, model.n_features_in_]))]
    else:
        kinds = {name: StringTensorType if X[name].dtype.kind in "OSUT" else number for name in X.columns}
        inputs = [(str(name), kind([None, 1])) for name, kind in kinds.items()]
    options = {id(model): {"zipmap": False}}
    return skl2onnx.convert_sklearn(model, "sparseklr", inputs, options=options)


def register_converters() -> None:
    """Make the classifiers of this package known to skl2onnx.

    Afterwards ``skl2onnx.to_onnx`` converts them, alone and in pipelines and searches, with its options
    ``zipmap`` and ``nocl``. :func:`to_onnx` calls this by itself.
    """
    skl2onnx = _skl2onnx()
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    for estimator in ESTIMATORS:
        skl2onnx.update_registered_converter(
            estimator,
            f"Sparseklr{estimator.__name__}",
            calculate_linear_classifier_output_shapes,
            _convert,
            options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
        )


def _skl2onnx() -> Any:
    try:
        import skl2onnx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'ONNX export needs skl2onnx: pip install "sparseklr[onnx]"', name="skl2onnx"
        ) from error
    return skl2onnx


class _Graph:
    """Adds to a graph under construction; every method returns the name of its result."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container

    def constant(self, values: np.ndarray) -> str:
        from onnx import TensorProto, numpy_helper

        name = self.scope.get_unique_variable_name("constant")
        if values.dtype == object:
            self.container.add_initializer(name, TensorProto.STRING, values.shape, values.tolist())
        else:
            self.container.add_initializer(name, None, None, numpy_helper.from_array(values, name))
        return name

    def __call__(self, operator: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """A node; inputs that are not names become constants."""
        names = [given if isinstance(given, str) else self.constant(given) for given in inputs]
        output = output or self.scope.get_unique_variable_name(operator.lower())
        name = self.scope.get_unique_operator_name(operator)
        self.container.add_node(operator, names, output, name=name, **attributes)
        return output


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """The converter that skl2onnx calls: label and probabilities of one of our classifiers."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import DoubleTensorType
    from skl2onnx.common.utils_classifier import get_label_classes

    if container.target_opset < _OLDEST_OPSET:
        raise RuntimeError(
            f"target_opset must be at least {_OLDEST_OPSET} for classifiers of sparseklr; "
            f"got {container.target_opset}."
        )
    model = PortableModel.of(operator.raw_operator)
    double = isinstance(operator.inputs[0].type, DoubleTensorType)
    g = _Graph(scope, container)
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
        scores = f if model.scores == "softmax" else g("Neg", _softplus(g, g("Neg", f)))
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


def _scaled(g: _Graph, scaling: FeatureScaling, x: str) -> str:
    """:meth:`FeatureScaling.apply`."""
    if scaling.selects:
        x = g("Gather", x, scaling.columns, axis=1)
    if not scaling.scales:
        return x
    u = g("Mul", g("Sub", x, scaling.shift), scaling.scale)
    if np.isfinite(scaling.clip):
        u = g("Max", g("Min", u, np.array([scaling.clip])), np.array([-scaling.clip]))
    if not scaling.knots:
        return u
    # A function that is linear between knots is a sum of ramps, one for each interval.
    mapped, places = [], np.arange(len(scaling.columns))
    for j, (knots, values) in scaling.knots.items():
        column = g("Gather", x, np.array([j]), axis=1)
        ramps = g("Div", g("Sub", column, knots[:-1]), np.diff(knots))
        ramps = g("Max", g("Min", ramps, np.ones(1)), np.zeros(1))
        mapped.append(g("Add", g("MatMul", ramps, np.diff(values)[:, None]), values[:1]))
        places[j] = len(scaling.columns) + len(mapped) - 1
    return g("Gather", g("Concat", u, *mapped, axis=1), places, axis=1)


def _kernel_values(g: _Graph, model: PortableModel, x: str, z: str) -> str:
    """Values of the kernel between rows and points, (n, n_points).

    No product by a scalar may stand before or after a MatMul: onnxruntime fuses the two and rounds the scalar
    to float32. Hence gamma is a vector here, and on the side of the points, which are constant.
    """
    if model.kernel == "rbf":
        center = model.points.mean(axis=0)
        x, z = g("Sub", x, center), g("Sub", z, center)
        of_x = g("ReduceSum", g("Mul", x, g("Mul", x, model.gamma)), np.array([1]), keepdims=1)
        of_z = g("ReduceSum", g("Mul", z, g("Mul", z, model.gamma)), np.array([1]), keepdims=0)
        products = g("MatMul", x, g("Transpose", g("Mul", z, 2 * model.gamma), perm=[1, 0]))
        distances = g("Sub", g("Add", of_x, of_z), products)
        return g("Exp", g("Neg", g("Max", distances, np.zeros(1))))
    if model.kernel == "laplacian":
        return g("Exp", g("Neg", _sums_of_differences(g, model, x, z)))
    q = g("MatMul", x, g("Transpose", g("Mul", z, model.gamma), perm=[1, 0]))
    if model.kernel == "linear":
        return q
    q = g("Add", q, np.array([model.coef0]))
    return g("Pow", q, np.array([model.degree])) if model.kernel == "poly" else g("Tanh", q)


def _sums_of_differences(g: _Graph, model: PortableModel, x: str, z: str) -> str:
    """``sum_j gamma_j |x_j - z_j|``, one feature after the other: the memory is that of the result."""
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


def _link(g: _Graph, f: str, margin: np.ndarray) -> str:
    """:func:`sparseklr.probability.calibration.link`."""
    above = _softplus(g, g("Sub", f, margin))
    below = _softplus(g, g("Sub", g("Neg", f), margin))
    return g("Add", g("Sub", above, below), g("Mul", f, np.array([1e-12])))


def _softplus(g: _Graph, x: str) -> str:
    """``log(1 + e^x)``; the operator of that name is not implemented for float64 in onnxruntime."""
    small = g("Log", g("Add", g("Exp", g("Neg", g("Abs", x))), np.ones(1)))
    return g("Add", g("Max", x, np.zeros(1)), small)
