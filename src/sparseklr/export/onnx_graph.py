"""Models as ONNX graphs, by a converter for skl2onnx: pipelines and searches come with it."""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..baselines.half import HalfKLR
from ..baselines.import_vector import ImportVectorMachine
from ..baselines.thresholded import ThresholdedKLR
from ..estimators.compact_klr import CompactKLR
from ..estimators.cv import SparseKLRCV
from ..estimators.sparse_klr import SparseKLR
from .graph import Graph
from .portable import PortableModel
from .scaling import FeatureScaling

ESTIMATORS = (SparseKLR, SparseKLRCV, CompactKLR, ThresholdedKLR, ImportVectorMachine, HalfKLR)
_OLDEST_OPSET = 15  # Shape of a part


def to_onnx(model: Any, X: Any = None, *, dtype: Literal["float64", "float32"] = "float64") -> Any:
    """A fitted classifier as an ONNX model.

    The graph has two outputs, ``label`` (n,) and ``probabilities`` (n, n_classes). A classifier becomes core
    operators of ONNX; other steps of a pipeline may add operators of ``ai.onnx.ml``.

    Parameters
    ----------
    model : estimator or pipeline
        A fitted classifier of this package, a search over one, or a pipeline that ends in one and whose
        other steps skl2onnx can convert. Of a :func:`~sparseklr.tabular_pipeline` the graph has one input
        (n, 1) for each column that is a feature: numbers, NaN where they are missing, or strings, empty
        where they are missing. Dates and free text cannot be exported.
    X : DataFrame, default=None
        Some rows, for other pipelines that were fitted to columns of several types. The graph then has one
        input (n, 1) for each column, numbers or strings; otherwise a single input ``X`` (n, n_features).
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
    if table := _reader(model):
        from . import table_graph

        inputs = table_graph.input_types(table, number, StringTensorType)
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

    if "sparseklr.tabular" in sys.modules:
        from . import table_graph

        skl2onnx.update_registered_converter(
            table_graph.TableFeatures,
            "SparseklrTableFeatures",
            table_graph.output_shape,
            table_graph.convert,
        )


def _reader(model: Any) -> Any:
    """The TableReader that a pipeline begins with; None if it does not."""
    tabular = sys.modules.get("sparseklr.tabular")  # what nobody has loaded is in no pipeline
    first = model.steps[0][1] if isinstance(model, Pipeline) else None
    return first if tabular is not None and isinstance(first, tabular.TableReader) else None


def _name_inputs(graph: Any, names: list[str]) -> None:
    """Give inputs the names of the columns, of which skl2onnx keeps letters and digits only."""
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
    """:meth:`FeatureScaling.apply`."""
    if scaling.selects:
        x = g("Gather", x, scaling.columns, axis=1)
    if not scaling.scales:
        return x
    u = g("Mul", g("Sub", x, scaling.shift), scaling.scale)
    if np.isfinite(scaling.clip):
        u = g.clip(u, -scaling.clip, scaling.clip)
    if not scaling.knots:
        return u
    mapped: list[str] = []
    places = np.arange(len(scaling.columns))
    for j, (knots, values) in scaling.knots.items():
        places[j] = len(scaling.columns) + len(mapped)
        mapped.append(g.interpolate(g("Gather", x, np.array([j]), axis=1), knots, values))
    return g("Gather", g("Concat", u, *mapped, axis=1), places, axis=1)


def _kernel_values(g: Graph, model: PortableModel, x: str, z: str) -> str:
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


def _sums_of_differences(g: Graph, model: PortableModel, x: str, z: str) -> str:
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


def _link(g: Graph, f: str, margin: np.ndarray) -> str:
    """:func:`sparseklr.probability.calibration.link`."""
    above = g.softplus(g("Sub", f, margin))
    below = g.softplus(g("Sub", g("Neg", f), margin))
    return g("Add", g("Sub", above, below), g("Mul", f, np.array([1e-12])))
