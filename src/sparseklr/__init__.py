"""Sparse kernel logistic regression: classifiers whose probabilities depend on few points."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

__all__ = [
    "SKLR",
    "SKLRCV",
    "CompactKLR",
    "DecisionCurveDisplay",
    "ExplanationDisplay",
    "PrototypesDisplay",
    "ReliabilityDisplay",
    "ShapleyDisplay",
    "SparseKLR",
    "klr_path",
    "load",
    "probability_report",
    "save",
    "tabular_pipeline",
]

try:
    __version__ = version("sparseklr")
except PackageNotFoundError:  # the package is not installed
    __version__ = "0+unknown"

if TYPE_CHECKING:
    from .compact_klr import CompactKLR
    from .inspection import (
        DecisionCurveDisplay,
        ExplanationDisplay,
        PrototypesDisplay,
        ReliabilityDisplay,
        ShapleyDisplay,
        probability_report,
    )
    from .persistence import load, save
    from .sklr import SKLR, klr_path
    from .sklr_cv import SKLRCV
    from .sparse_klr import SparseKLR
    from .tables import tabular_pipeline
else:
    _MODULES = {
        "CompactKLR": "compact_klr",
        "SKLR": "sklr",
        "SKLRCV": "sklr_cv",
        "SparseKLR": "sparse_klr",
        "klr_path": "sklr",
        "load": "persistence",
        "save": "persistence",
        "tabular_pipeline": "tables",
    }
    _EXTRAS = {"tables": "tables"}  # optional dependencies ("extra") of a module

    def __getattr__(name: str) -> Any:
        """Load a public name or module on first use, so that ``sparseklr --help`` needs no scikit-learn."""
        if name in __all__:
            module = _MODULES.get(name, "inspection")
            try:
                globals()[name] = getattr(import_module(f".{module}", __name__), name)
            except ModuleNotFoundError as error:
                if module not in _EXTRAS:
                    raise
                missing = (error.name or "").partition(".")[0]
                raise ModuleNotFoundError(
                    f'sparseklr.{name} needs {missing}: pip install "sparseklr[{_EXTRAS[module]}]"',
                    name=error.name,
                ) from error
            return globals()[name]
        if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        modules = (module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
        return sorted({*globals(), *__all__, *modules})
