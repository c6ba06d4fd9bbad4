"""The tables of :func:`sparseklr.tabular_pipeline` in ONNX: an input for each column, features out of them.

What :class:`~sparseklr.tabular.TableReader` reads out of messy cells is not part of the graph: it takes
numbers as numbers, NaN where they are missing, and categories as strings, empty where they are missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tabular import TableFeatures, TableReader
from .graph import Graph

_MISSING = ""  # a missing category


def input_types(reader: TableReader, number: Any, text: Any) -> list[tuple[str, Any]]:
    """Names and types of the graph's inputs: the columns that are features."""
    names = reader.get_feature_names_out()
    kinds = {name: reader.columns_[name].kind for name in names}
    if dates := [name for name, kind in kinds.items() if kind == "date"]:
        raise ValueError(_cannot("dates", dates))
    return [(str(name), (number if kinds[name] == "number" else text)([None, 1])) for name in names]


def output_shape(operator: Any) -> None:
    """Tells skl2onnx what :func:`convert` makes."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    single = any(isinstance(given.type, FloatTensorType) for given in operator.inputs)
    kind = FloatTensorType if single else DoubleTensorType
    n_features = len(operator.raw_operator.get_feature_names_out())
    operator.outputs[0].type = kind([None, n_features])


def convert(scope: Any, operator: Any, container: Any) -> None:
    """The converter of TableFeatures: scaled numbers, where they are missing, and categories."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import FloatTensorType

    features: TableFeatures = operator.raw_operator
    few = features.categorical_
    if free := [name for name in features.text_ if name not in few]:
        raise ValueError(_cannot("free text", free))
    single = isinstance(operator.outputs[0].type, FloatTensorType)
    g = Graph(scope, container)
    columns = {given.raw_name: given.full_name for given in operator.inputs}
    numbers = {name: g("Cast", columns[name], to=TensorProto.DOUBLE) for name in features.numbers_}
    parts = []
    if features.imputer_ is not None:
        x = g("Concat", *numbers.values(), axis=1)
        median = features.imputer_.statistics_
        if single:  # as the numbers are rounded, so that the two are equal where they were
            median = _rounded(median)
        x = g("Where", g("IsNaN", x), median, x)
        parts.append(_SCALES[features.scale_](g, features.scaler_, x, single))
    parts += [g("Cast", g("IsNaN", numbers[name]), to=TensorProto.DOUBLE) for name in features.holes_]
    if features.encoder_ is not None:
        one_hot = features.encoder_.named_transformers_["categories"]
        for k, name in enumerate(few):
            codes = _codes(one_hot, k)
            known = {
                _MISSING if value is None else value: i for i, value in enumerate(one_hot.categories_[k])
            }
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


def _codes(one_hot: Any, k: int) -> np.ndarray:
    """What an encoder makes of each category of its k-th column, and, last, of one it has not seen."""
    import warnings

    rows = np.array([[values[0] for values in one_hot.categories_]], dtype=object)
    rows = np.repeat(rows, len(one_hot.categories_[k]) + 1, axis=0)
    rows[:, k] = [*one_hot.categories_[k], "a category that nobody has seen"]
    sizes = []
    for j, values in enumerate(one_hot.categories_):
        rare = one_hot.infrequent_categories_[j]
        dropped = one_hot.drop_idx_ is not None and one_hot.drop_idx_[j] is not None
        sizes.append(len(values) - (0 if rare is None else len(rare) - 1) - int(dropped))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the category that nobody has seen, and of missing names
        made = one_hot.transform(rows)
    return np.asarray(made[:, sum(sizes[:k]) : sum(sizes[: k + 1])], dtype=np.float64)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Numbers as float32 has them."""
    return values.astype(np.float32).astype(np.float64)


# -- scales -----------------------------------------------------------------------------------


def _standard(g: Graph, scaler: Any, x: str, single: bool) -> str:
    return g("Div", g("Sub", x, scaler.mean_), scaler.scale_)


def _squash(g: Graph, scaler: Any, x: str, single: bool) -> str:
    """skrub's SquashingScaler: each column shifted and scaled, then ``z / sqrt(1 + (z / m)^2)``."""
    n, m = scaler.n_features_in_, float(scaler.max_absolute_value)
    shift, scale = np.zeros(n), np.zeros(n)
    if scaler.robust_scaler_ is not None:
        shift[scaler.robust_cols_], scale[scaler.robust_cols_] = (
            scaler.robust_scaler_.center_,
            1 / scaler.robust_scaler_.scale_,
        )
    if scaler.minmax_scaler_ is not None:
        shift[scaler.minmax_cols_], scale[scaler.minmax_cols_] = (
            scaler.minmax_scaler_.median_,
            scaler.minmax_scaler_.scale_,
        )
    z = g("Mul", g("Sub", x, shift), scale)
    share = g("Div", z, np.array([m]))
    return g("Div", z, g("Sqrt", g("Add", g("Mul", share, share), np.ones(1))))


def _quantile(g: Graph, scaler: Any, x: str, single: bool) -> str:
    """scikit-learn's QuantileTransformer to the normal distribution.

    The rank is linear between quantiles; at a value that is several of them it is the middle of these. The
    first and the last quantile, give or take 1e-7, have the ranks 0 and 1. Knots are rounded as the input is,
    so that equal numbers stay equal; of those that rounding makes equal, the most frequent one has the say.
    """
    from onnx import TensorProto

    columns = []
    for j, quantiles in enumerate(scaler.quantiles_.T):
        values, first, count = np.unique(quantiles, return_index=True, return_counts=True)
        last = first + count - 1
        knots, start = np.unique(_rounded(values) if single else values, return_index=True)
        groups = np.split(np.arange(len(values)), start[1:])
        frequent = np.array([group[np.argmax(count[group])] for group in groups])
        below = scaler.references_[first[start]]  # the rank just below a knot, at it and just above it
        at = (scaler.references_[first[frequent]] + scaler.references_[last[frequent]]) / 2
        above = scaler.references_[[last[group[-1]] for group in groups]]
        column = g("Gather", x, np.array([j]), axis=1)
        if len(knots) > 1:
            ramps = g.clip(g("Div", g("Sub", column, knots[:-1]), np.diff(knots)), 0.0, 1.0)
            rank = g("MatMul", ramps, (below[1:] - above[:-1])[:, None])
            for operator, jump in (("GreaterOrEqual", at - below), ("Greater", above - at)):
                passed = g("Cast", g(operator, column, knots), to=TensorProto.DOUBLE)
                rank = g("Add", rank, g("MatMul", passed, jump[:, None]))
            rank = g("Add", rank, below[:1])
        else:
            rank = column
        for operator, end, offset, value in (
            ("Greater", knots[-1], 1e-7, 1.0),
            ("Less", knots[0], -1e-7, 0.0),
        ):
            beyond = g(operator, g("Add", column, np.array([offset])), np.array([end]))
            rank = g("Where", beyond, np.array([value]), rank)
        columns.append(rank)
    ranks = g.clip(g("Concat", *columns, axis=1), 1e-7, 1 - 1e-7)
    return g.normal_quantile(ranks)


_SCALES: dict[Any, Any] = {"standard": _standard, "squash": _squash, "quantile": _quantile}


def _cannot(kind: str, names: list[str]) -> str:
    return (
        f"{kind} cannot be exported: columns {', '.join(map(repr, names))}. Fit the model without them "
        "(tabular_pipeline(drop=...), sparseklr fit --drop)."
    )
