"""The public names, frozen: a change here is a change for users."""

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

import sparseklr

NAMES = """
CompactKLR DecisionCurveDisplay ExplanationDisplay PrototypesDisplay
ReliabilityDisplay ShapleyDisplay SKLR SKLRCV SparseKLR klr_path load probability_report save tabular_pipeline
"""
FOLDERS = "dual baselines inspection datasets tables streaming export"


def test_public_names() -> None:
    assert sorted(sparseklr.__all__) == sorted(NAMES.split())
    assert all(getattr(sparseklr, name).__doc__ for name in sparseklr.__all__)


@pytest.mark.slow
def test_every_public_module_is_an_attribute() -> None:
    modules = [module.name for module in pkgutil.iter_modules(sparseklr.__path__) if module.name[0] != "_"]
    assert modules
    assert set(modules) <= set(dir(sparseklr))
    for name in modules:  # as where nothing has loaded it before
        assert sparseklr.__getattr__(name) is import_module(f"sparseklr.{name}")
    script = "import sparseklr; print(len(sparseklr.datasets.__all__))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "6\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sparseklr.nothing  # noqa: B018


def test_import_loads_nothing_heavy() -> None:
    script = "import sparseklr, sys; print([name for name in ('numpy', 'sklearn') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("folder", FOLDERS.split())
def test_a_folder_describes_and_exports_its_contents(folder) -> None:
    module = import_module(f"sparseklr.{folder}")
    assert len(module.__doc__.strip().splitlines()) >= 3
    assert all(hasattr(module, name) for name in module.__all__)
