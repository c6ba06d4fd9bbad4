"""Export to a C header with constants and three functions, which needs only ``<math.h>`` and no heap."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from .._utils.messages import warn
from .portable import FeatureScaling, PortableModel, TableInputs

_TEMPLATE = """\
/* A kernel classifier written by sparseklr: {n_points} points, {n_features} features, {n_classes} classes.
 *
 * C99. Needs only <math.h> and allocates no memory. Each source file that includes this header has its own
 * copy of the constants.
 *
 *     {real} x[{NAME}_N_FEATURES] = {{...}}, proba[{NAME}_N_CLASSES];
 *     {name}_predict_proba(x, proba);
 *     printf("{placeholder}\\n", {name}_classes[{name}_predict(x)]);
 */
#ifndef {NAME}_H
#define {NAME}_H

#include <math.h>

#define {NAME}_N_FEATURES {n_features}
#define {NAME}_N_POINTS {n_points}
#define {NAME}_N_OUTPUTS {n_outputs}
#define {NAME}_N_CLASSES {n_classes}

{constants}
{features}
/* Two classes: the log-odds of the second class. More classes: one value for each class. */
static inline void {name}_decision_function(const {real} x[{NAME}_N_FEATURES], {real} f[{NAME}_N_OUTPUTS])
{{
    int b, j, o;
{prepare}    for (o = 0; o < {NAME}_N_OUTPUTS; ++o) f[o] = {name}_intercept[o];
    for (b = 0; b < {NAME}_N_POINTS; ++b) {{
        {real} sum = 0;
        for (j = 0; j < {n_used}; ++j) {term}
        sum = {kernel};
        for (o = 0; o < {NAME}_N_OUTPUTS; ++o) f[o] += {name}_coef[o][b] * sum;
    }}
{link}}}

/* The probabilities of the classes, which sum to one. */
static inline void {name}_predict_proba(const {real} x[{NAME}_N_FEATURES], {real} proba[{NAME}_N_CLASSES])
{{
    int c;
    {real} f[{NAME}_N_OUTPUTS], largest, total = 0;
    {name}_decision_function(x, f);
{scores}
    largest = proba[0];
    for (c = 1; c < {NAME}_N_CLASSES; ++c) if (proba[c] > largest) largest = proba[c];
    for (c = 0; c < {NAME}_N_CLASSES; ++c) total += proba[c] = exp{f}(proba[c] - largest);
    for (c = 0; c < {NAME}_N_CLASSES; ++c) proba[c] /= total;
}}

/* The index of the most probable class in {name}_classes. */
static inline int {name}_predict(const {real} x[{NAME}_N_FEATURES])
{{
    {real} f[{NAME}_N_OUTPUTS];
{predict}
}}

#endif
"""

# C code for FeatureScaling.apply
_FEATURES = """
/* The scaled features u of a row x. */
static inline void {name}_features(const {real} x[{n_inputs}], {real} u[{n_used}])
{{
    int j;
    for (j = 0; j < {n_used}; ++j) {{
        const {real} v = x[{column}];
{knots}        u[j] = (v - {name}_shift[j]) * {name}_scale[j];
{clip}    }}
}}
"""
# C code for TableInputs.apply
_TABLE = """
/* The features t of a row x of a table with the columns {columns} */
static inline void {name}_table(const {real} x[{NAME}_N_FEATURES], {real} t[{n}])
{{
    int j;
    for (j = 0; j < {n}; ++j) {{
        const {real} v = x[{name}_table_column[j]];
        const int first = {name}_table_codes[j], last = {name}_table_codes[j + 1] - 1;
        if (first <= last) /* v is the index of a category (ignoring case); others mean an unknown one */
            t[j] = {name}_table_values[v >= 0 && v < last - first ? first + (int)v : last];
        else if ({name}_table_filled[j]) t[j] = v != v ? {name}_table_fill[j] : v;
        else t[j] = v != v; /* 1 if the value is missing (NaN), otherwise 0 */
    }}
}}
"""
_KNOTS = """\
        const int first = {name}_knots[j], last = {name}_knots[j + 1] - 1;
        if (first <= last) {{ /* linear between knots, constant outside */
            int k = first;
            while (k < last && v > {name}_knots_x[k + 1]) ++k;
            if (k == last || v <= {name}_knots_x[first]) u[j] = {name}_knots_u[k];
            else u[j] = {name}_knots_u[k] + ({name}_knots_u[k + 1] - {name}_knots_u[k])
                * ((v - {name}_knots_x[k]) / ({name}_knots_x[k + 1] - {name}_knots_x[k]));
            continue;
        }}
"""
_CLIP = """\
        if (u[j] > {clip}) u[j] = {clip};
        if (u[j] < -{clip}) u[j] = -{clip};
"""


def to_c(model: Any, *, name: str = "model", dtype: Literal["double", "float"] = "double") -> str:
    """Return a fitted classifier as a C99 header.

    The header defines the functions ``NAME_predict_proba``, ``NAME_predict`` and ``NAME_decision_function``
    and the array ``NAME_classes``. It needs only ``<math.h>`` and allocates no memory.

    Parameters
    ----------
    model : estimator or pipeline
        A fitted classifier of this package, a parameter search over such a classifier, or a pipeline of
        scalers and such a classifier.
    name : str, default="model"
        Prefix of all identifiers in the header.
    dtype : {"double", "float"}, default="double"
        Type of all numbers and of the arithmetic. With ``"float"``, ``to_c`` computes the probabilities at up
        to 200 points of the model in both precisions, and warns if they differ by more than 1e-4. Such
        differences arise if large coefficients cancel; scaling the features before the fit helps.

    Returns
    -------
    str
        The text of the header.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SparseKLR
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> header = to_c(SparseKLR().fit(X, y), name="moons")
    >>> "moons_predict_proba" in header
    True
    """
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be a C identifier that begins with a letter; got {name!r}.")
    if dtype not in ("double", "float"):
        raise ValueError(f"dtype must be 'double' or 'float'; got {dtype!r}.")
    portable = PortableModel.of(model)
    if dtype == "float":
        _warn_if_float_is_not_enough(portable)
    return _header(portable, name, dtype)


def _header(model: PortableModel, name: str, real: str) -> str:
    f = "f" if real == "float" else ""
    NAME = name.upper()

    def array(label: str, values: np.ndarray) -> str:
        shape = "".join(f"[{n}]" for n in values.shape)
        return f"static const {real} {name}_{label}{shape} = {_braces(values, f)};"

    constants = [
        array("points", model.points),
        array("coef", model.coef),
        array("intercept", model.intercept),
    ]
    same_gamma = bool((model.gamma == model.gamma[0]).all())
    gamma = _number(model.gamma[0], f) if same_gamma else f"{name}_gamma[j]"
    if not same_gamma:
        constants.append(array("gamma", model.gamma))
    table, call, x = _table(model.table, name, real, array, constants)
    features, prepare = _features(model.scaling, name, real, array, constants, x)
    features, prepare = table + features, call + prepare
    if model.margin is not None:
        constants.append(array("margin", model.margin))
    classes, placeholder = _classes(model.classes)
    constants.append(f"static const {classes[0]} {name}_classes[{NAME}_N_CLASSES] = {{{classes[1]}}};")

    point = f"{name}_points[b][j]"
    outside, inside = (f"{gamma} * ", "") if same_gamma else ("", f"{gamma} * ")
    sum_ = "sum" if gamma == f"1.0{f}" else f"{outside}sum"
    terms = {
        "rbf": f"sum += {inside}(u[j] - {point}) * (u[j] - {point});",
        "laplacian": f"sum += {inside}fabs{f}(u[j] - {point});",
    }
    coef0 = f" + {_number(model.coef0, f)}" if model.coef0 else ""
    kernels = {
        "rbf": f"exp{f}(-({sum_}))",
        "laplacian": f"exp{f}(-({sum_}))",
        "linear": sum_,
        "poly": f"pow{f}({sum_}{coef0}, {_number(model.degree, f)})",
        "sigmoid": f"tanh{f}({sum_}{coef0})",
    }
    two = len(model.classes) == 2
    link = (
        f"    for (o = 0; o < {NAME}_N_OUTPUTS; ++o) {{\n"
        f"        /* log(1 + e^(f - margin)) - log(1 + e^(-f - margin)) */\n"
        f"        const {real} up = f[o] - {name}_margin[o], down = -f[o] - {name}_margin[o];\n"
        f"        f[o] = (up > 0 ? up : 0) + log1p{f}(exp{f}(-fabs{f}(up)))\n"
        f"             - (down > 0 ? down : 0) - log1p{f}(exp{f}(-fabs{f}(down)))\n"
        f"             + {_number(1e-12, f)} * f[o];\n"
        "    }\n"
    )
    if two:
        scores = "    proba[0] = 0;\n    proba[1] = f[0];"
        predict = f"    {name}_decision_function(x, f);\n    return f[0] > 0;"
    else:
        score = "f[c]"
        if model.scores == "one-vs-rest":  # log sigmoid(f)
            score = f"(f[c] < 0 ? f[c] : 0) - log1p{f}(exp{f}(-fabs{f}(f[c])))"
        scores = f"    for (c = 0; c < {NAME}_N_CLASSES; ++c) proba[c] = {score};"
        predict = (
            f"    int c, best = 0;\n    {name}_decision_function(x, f);\n"
            f"    for (c = 1; c < {NAME}_N_CLASSES; ++c) if (f[c] > f[best]) best = c;\n    return best;"
        )
    return _TEMPLATE.format(
        name=name,
        NAME=NAME,
        real=real,
        f=f,
        n_points=len(model.points),
        n_features=model.scaling.n_inputs if model.table is None else len(model.table.names),
        n_outputs=len(model.intercept),
        n_classes=len(model.classes),
        placeholder=placeholder,
        constants="\n".join(constants),
        features=features,
        prepare=prepare,
        n_used=model.points.shape[1],
        term=terms.get(model.kernel, f"sum += {inside}u[j] * {point};"),
        kernel=kernels[model.kernel],
        link=link if model.margin is not None else "",
        scores=scores,
        predict=predict,
    )


def _features(
    scaling: FeatureScaling,
    name: str,
    real: str,
    array: Callable[[str, np.ndarray], str],
    constants: list[str],
    x: str,
) -> tuple[str, str]:
    """Return the C function that scales the features, and its call; append its constants to ``constants``."""
    if not (scaling.selects or scaling.scales):
        return "", f"    const {real} *u = {x};\n"
    n_used, f = len(scaling.columns), "f" if real == "float" else ""

    def integers(label: str, values: np.ndarray) -> str:
        return _integers(f"{name}_{label}", values)

    constants += [array("shift", scaling.shift), array("scale", scaling.scale)]
    if scaling.selects:
        constants.append(integers("columns", scaling.columns))
    if scaling.knots:
        pairs = [scaling.knots.get(j, (np.empty(0), np.empty(0))) for j in range(n_used)]
        constants.append(integers("knots", np.cumsum([0, *(len(x) for x, _ in pairs)])))
        constants.append(array("knots_x", np.concatenate([x for x, _ in pairs])))
        constants.append(array("knots_u", np.concatenate([u for _, u in pairs])))
    code = _FEATURES.format(
        name=name,
        NAME=name.upper(),
        real=real,
        n_used=n_used,
        n_inputs=scaling.n_inputs,
        column=f"{name}_columns[j]" if scaling.selects else "j",
        knots=_KNOTS.format(name=name) if scaling.knots else "",
        clip=_CLIP.format(clip=_number(scaling.clip, f)) if np.isfinite(scaling.clip) else "",
    )
    return code, f"    {real} u[{n_used}];\n    {name}_features({x}, u);\n"


def _table(
    table: TableInputs | None,
    name: str,
    real: str,
    array: Callable[[str, np.ndarray], str],
    constants: list[str],
) -> tuple[str, str, str]:
    """Return the C function for the features of a table, its call, and the name of the array of features.

    The constants of the function are appended to ``constants``.
    """
    if table is None:
        return "", "", "x"
    n = len(table.column)
    values = [np.empty(0) if one is None else one for one in table.values]
    filled = ~np.isnan(table.fill)
    constants += [
        _integers(f"{name}_table_column", table.column),
        _integers(f"{name}_table_codes", np.cumsum([0, *map(len, values)])),
        _integers(f"{name}_table_filled", filled.astype(int)),
        array("table_fill", np.where(filled, table.fill, 0.0)),
        array("table_values", np.concatenate([*values, np.zeros(1)])),
    ]
    for c, categories in enumerate(table.categories):
        if categories is not None:
            quoted = ", ".join(map(_quoted, categories))
            label = f"{name}_categories_{c}[{len(categories)}]"
            constants.append(f"static const char *const {label} = {{{quoted}}}; /* of x[{c}] */")
    columns = [
        f"x[{c}] {_comment(label)}" + (f", an index of {name}_categories_{c}" if categories else "")
        for c, (label, categories) in enumerate(zip(table.names, table.categories, strict=True))
    ]
    code = _TABLE.format(name=name, NAME=name.upper(), real=real, n=n, columns="; ".join(columns))
    return code, f"    {real} t[{n}];\n    {name}_table(x, t);\n", "t"


def _integers(label: str, values: np.ndarray) -> str:
    return f"static const int {label}[{len(values)}] = {{{', '.join(map(str, values))}}};"


def _comment(text: str) -> str:
    """Return text in which special characters are replaced, so that it cannot end a C comment."""
    return re.sub(r"[^\w .,-]", "_", text, flags=re.ASCII)


def _number(value: float, suffix: str) -> str:
    """Return a number in C notation, with all its digits."""
    text = repr(float(value)) if not suffix else str(np.float32(value))
    if not np.isfinite(float(text)):
        raise ValueError(
            f"the number {value!r} exceeds the range of a C float; export the model with dtype='double'."
        )
    return text + suffix


def _braces(values: np.ndarray, suffix: str) -> str:
    if values.ndim == 1:
        return "{" + ", ".join(_number(value, suffix) for value in values) + "}"
    return "{\n    " + ",\n    ".join(_braces(row, suffix) for row in values) + "\n}"


def _classes(classes: np.ndarray) -> tuple[tuple[str, str], str]:
    """Return the C type and the values of the array of classes, and the printf placeholder of a class."""
    if classes.dtype.kind in "biu":
        return ("long long", ", ".join(str(int(label)) for label in classes)), "%lld"
    if classes.dtype.kind == "f":
        return ("double", ", ".join(_number(label, "") for label in classes)), "%g"
    return ("char *const", ", ".join(_quoted(str(label)) for label in classes)), "%s"


def _quoted(text: str) -> str:
    """Return a C string literal, in which bytes other than printable ASCII are octal escapes."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


def _warn_if_float_is_not_enough(model: PortableModel, tolerance: float = 1e-4) -> None:
    """Warn if single precision changes a probability at a point of the model by more than the tolerance."""
    sample = np.linspace(0, len(model.points) - 1, min(200, len(model.points))).astype(int)
    model = replace(model, table=None)
    X = model.scaling.undo(model.points[sample])
    with np.errstate(over="ignore"):
        difference = np.abs(model.predict_proba(X, np.float32) - model.predict_proba(X)).max(initial=0)
    if not difference <= tolerance:
        warn(
            f"dtype='float': single precision changes a predicted probability by {difference:.1g}. Scale the "
            "features before the fit, or export the model with dtype='double'.",
        )
