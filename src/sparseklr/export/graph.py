"""A graph under construction, written as one writes NumPy: a call adds a node and returns its name."""

from __future__ import annotations

from typing import Any

import numpy as np


class Graph:
    """Adds nodes and constants to a container of skl2onnx."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container

    def __call__(self, operator: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """The name of the result of a node; inputs that are not names become constants."""
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

    # -- functions that ONNX does not have --------------------------------------------------------

    def clip(self, x: str, low: float, high: float) -> str:
        """``x`` within two numbers."""
        return self("Max", self("Min", x, np.array([high])), np.array([low]))

    def softplus(self, x: str) -> str:
        """``log(1 + e^x)``; the operator of that name is not implemented for float64 in onnxruntime."""
        small = self("Log", self("Add", self("Exp", self("Neg", self("Abs", x))), np.ones(1)))
        return self("Add", self("Max", x, np.zeros(1)), small)

    def interpolate(self, column: str, knots: np.ndarray, values: np.ndarray) -> str:
        """The function of (n, 1) that is linear between knots and constant outside: a sum of ramps."""
        ramps = self.clip(self("Div", self("Sub", column, knots[:-1]), np.diff(knots)), 0.0, 1.0)
        return self("Add", self("MatMul", ramps, np.diff(values)[:, None]), values[:1])

    def normal_quantile(self, p: str) -> str:
        """The inverse of the normal distribution function, for p within 1e-7 and 1 - 1e-7.

        Wichura (1988), "Algorithm AS 241: the percentage points of the normal distribution", Applied
        Statistics 37(3), 477-484: rational functions for the middle and for the tails, to 16 digits.
        """
        middle = self("Sub", p, np.array([0.5]))
        r = self("Sub", np.array([0.180625]), self("Mul", middle, middle))
        inner = self("Mul", middle, self._ratio(r, *_MIDDLE))
        tail = self("Sub", np.array([0.5]), self("Abs", middle))  # min(p, 1 - p)
        r = self("Sub", self("Sqrt", self("Neg", self("Log", tail))), np.array([1.6]))
        outer = self("Mul", self("Sign", middle), self._ratio(r, *_TAIL))
        near = self("LessOrEqual", self("Abs", middle), np.array([0.425]))
        return self("Where", near, inner, outer)

    def _ratio(self, x: str, above: list[float], below: list[float]) -> str:
        return self("Div", self._polynomial(x, above), self._polynomial(x, below))

    def _polynomial(self, x: str, coefficients: list[float]) -> str:
        """By Horner's rule; the highest power comes first."""
        total: Any = np.array(coefficients[:1])
        for coefficient in coefficients[1:]:
            total = self("Add", self("Mul", total, x), np.array([coefficient]))
        return total


# Coefficients of AS 241, numerator and denominator, highest power first.
_MIDDLE = (
    [
        2.5090809287301226727e3,
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080,
    ],
    [
        5.2264952788528545610e3,
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ],
)
_TAIL = (
    [
        7.74545014278341407640e-4,
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258,
        3.64784832476320460504,
        5.76949722146069140550,
        4.63033784615654529590,
        1.42343711074968357734,
    ],
    [
        1.05075007164441684324e-9,
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940,
        2.05319162663775882187,
        1.0,
    ],
)
