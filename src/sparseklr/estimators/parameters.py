"""Checks of the parameters that estimators and paths share, and warnings of those without effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np

from .._sklearn import Interval, Options, StrOptions, validate_parameter_constraints
from .._warn import warn
from ..dual.solver import WorkingSet
from ..kernels import KERNELS_WITH_GAMMA, NAMED_KERNELS

POSITIVE = Interval(Real, 0.0, None, closed="neither")
NON_NEGATIVE = Interval(Real, 0.0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")

#: Of every kernel classifier.
KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions({*NAMED_KERNELS, "precomputed"}), callable],
    "gamma": [StrOptions({"scale", "auto"}), POSITIVE],
    "degree": [NON_NEGATIVE],
    "coef0": [Real],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "n_jobs": [Integral, None],
}
#: Of everything that solves the dual.
SOLVER_CONSTRAINTS: dict[str, list[Any]] = {
    "working_set": [StrOptions(set(get_args(WorkingSet)))],
    "tol": [POSITIVE],
    "max_iter": [COUNT, Options(Integral, {-1})],
    "bound": [POSITIVE, None],
    "cache_size": [StrOptions({"auto"}), POSITIVE],
}

# The kernels that a parameter belongs to. A callable or precomputed kernel has none of them.
_KERNELS_WITH = {
    "gamma": (*KERNELS_WITH_GAMMA, "loo"),
    "coef0": ("poly", "sigmoid"),
    "degree": ("poly",),
}


def check_parameters(constraints: Mapping[str, list[Any]], given: Mapping[str, Any], caller: str) -> None:
    """Raise, naming ``caller``, unless every given parameter satisfies its constraint."""
    validate_parameter_constraints(constraints, given, caller_name=caller)
    if given.get("n_jobs") == 0:
        raise ValueError("n_jobs must not be 0; use None or 1 for one thread, -1 for all.")


def has_gamma(kernel: Any) -> bool:
    """Whether a kernel has a width."""
    return isinstance(kernel, str) and kernel in _KERNELS_WITH["gamma"]


def unused_by_kernel(kernel: Any) -> dict[str, str]:
    """The kernel parameters that a kernel does not look at, each with the reason."""
    name = kernel if isinstance(kernel, str) else "a callable"
    reason = f"with kernel={name!r}" if isinstance(kernel, str) else "with a callable kernel"
    return {parameter: reason for parameter, kernels in _KERNELS_WITH.items() if name not in kernels}


def warn_of_unused(function: Callable[..., Any], given: Mapping[str, Any], unused: Mapping[str, str]) -> None:
    """Warn of the unused parameters that were given another value than the default of ``function``."""
    defaults = _defaults(function)
    for name, reason in unused.items():
        if given[name] != defaults[name]:
            warn(f"{name}={given[name]!r} has no effect {reason}.")


@cache
def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in signature(function).parameters.items()}


def prune_width(prune: Any) -> float:
    """``prune`` of :class:`~sparseklr.SparseKLR` as a number; True, of Python or NumPy, stands for 0.05."""
    return 0.05 if isinstance(prune, (bool, np.bool_)) and prune else float(prune)
