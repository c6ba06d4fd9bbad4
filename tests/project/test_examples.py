"""Every script of examples/ runs; the assertions are in the scripts."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.filterwarnings("error", "ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_runs(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("Agg")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr("sys.argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    plt.close("all")


def test_plots_state_their_lesson_first() -> None:
    scripts = sorted(EXAMPLES.glob("plot_*.py"))
    assert len(scripts) >= 12
    for script in scripts:
        lines = script.read_text().splitlines()
        assert lines[0].lstrip("r").startswith('"""'), script.name
        title, underline = lines[1], lines[2]
        assert len(title) == len(underline) > 0, script.name
        assert set(underline) == {"="}, script.name
        assert lines[3] == "", script.name
        assert "plt.show()" in lines, script.name
