"""Sparse kernel logistic regression: few points kept, probabilities one can act on."""

# ruff: noqa: F403, F405
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

__all__ = [
    "AccuracySparsityDisplay",
    "CompactKLR",
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

if TYPE_CHECKING:
    from ._api import *
else:

    def __getattr__(name: str) -> Any:
        """Load a public name or a public module on first use.

        ``sparseklr --help`` need not load scikit-learn; ``sparseklr.datasets`` needs no import of its own.
        """
        if name in __all__:
            api = import_module("._api", __name__)
            globals().update({public: getattr(api, public) for public in __all__})
            return globals()[name]
        if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        modules = (module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
        return sorted({*globals(), *__all__, *modules})
