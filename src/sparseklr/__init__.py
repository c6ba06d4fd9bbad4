"""Sparse kernel logistic regression: few points kept, probabilities one can act on."""

# ruff: noqa: F403, F405
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

__all__ = [
    "AccuracySparsityDisplay",
    "HalfKLR",
    "ImportVectorMachine",
    "KLRPath",
    "PathInterrupted",
    "ProbabilityReport",
    "ReliabilityDisplay",
    "Settings",
    "Solution",
    "SolveInterrupted",
    "SparseKLR",
    "SparseKLRCV",
    "Status",
    "ThresholdedKLR",
    "expected_calibration_error",
    "half_klr_path",
    "klr_path",
    "lam_for_nu",
    "nu_bar",
    "probability_report",
    "saturation_bound",
    "solve_dual",
]

try:
    __version__ = version("sparseklr")
except PackageNotFoundError:  # run from the sources
    __version__ = "0+unknown"

# Rooms of the house, each loaded when it is first named: ``sparseklr.datasets`` needs no import of its own.
_SUBPACKAGES = (
    "cli",
    "data",
    "datasets",
    "dual",
    "estimators",
    "experiments",
    "inspection",
    "kernels",
    "probability",
    "progress",
    "rivals",
)

if TYPE_CHECKING:
    from ._api import *
else:

    def __getattr__(name: str) -> Any:
        """Load the public names on first use, so that ``sparseklr --help`` need not load scikit-learn."""
        from importlib import import_module

        if name in _SUBPACKAGES:
            return import_module(f".{name}", __name__)
        if name in __all__:
            api = import_module("._api", __name__)
            globals().update({public: getattr(api, public) for public in __all__})
            return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_SUBPACKAGES})
