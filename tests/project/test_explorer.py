"""The explorer: its solver against the Python layer, and the page in a browser."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from sparseklr import SKLR, SparseKLR
from sparseklr.dual import solve_dual

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
HTML: str = runpy.run_path(str(ROOT / "docs" / "explorer" / "page.py"))["page"]()


def test_solver_is_current() -> None:
    fingerprint = runpy.run_path(str(ROOT / "wasm" / "build.py"))["fingerprint"]()
    first_line = HTML.split("<script>\n", 1)[1].split("\n", 1)[0]
    assert first_line.endswith(fingerprint), "cpp/ or wasm/ has changed: make explorer (needs emscripten)"
    assert len(HTML) < 500_000


# -- in a browser -----------------------------------------------------------------------------


@pytest.fixture
def open_page(open_file: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens the page, and waits for its solver."""
    path = tmp_path / "explorer.html"
    path.write_text(HTML, encoding="utf-8")

    def open_page(**look: Any) -> Any:
        page = open_file(path, **look)
        page.wait_for_function("window.explorer")
        return page

    return open_page


POINTS = "explorer.points.map(p => [p.x, p.y, p.label])"
SOLUTION = (
    "(s => [Array.from(s.alpha), Array.from(s.F), s.intercept, s.gap, s.primal])(explorer.model.solution)"
)


@pytest.mark.parametrize(
    ("preset", "C", "lam", "gamma"),
    [
        ("moons", 1e4, 1e3, 1.0),
        ("rings", 10.0, 0.0, 3.0),
        ("clouds", 100.0, 5.0, 0.3),
        ("chequers", 1e3, 1e4, 1),
    ],
)
def test_values_are_those_of_solve_dual(
    open_page: Any, preset: str, C: float, lam: float, gamma: float
) -> None:
    page = open_page()
    page.evaluate(f"explorer.replace(preset({preset!r}, 60))")
    page.evaluate(f"explorer.change({{C: {C}, lam: {lam}, gamma: {gamma}, tol: 1e-9, calibration: 'link'}})")
    points = np.array(page.evaluate(POINTS))
    alpha, F, intercept, gap, primal = map(np.array, page.evaluate(SOLUTION))
    expected = solve_dual(rbf_kernel(points[:, :2], gamma=gamma), points[:, 2], C=C, lam=lam, tol=1e-9)
    scale = max(1.0, lam)
    np.testing.assert_allclose((F + intercept) / scale, expected.decision / scale, atol=1e-6)
    np.testing.assert_allclose(alpha / C, expected.alpha / C, atol=1e-6)
    assert -1e-12 < gap / primal < 1e-6
    kept = page.evaluate("explorer.model.solution.kept")
    assert set(np.flatnonzero(alpha > 1e-6 * C)) <= set(kept)
    assert page.inner_text("#kept").startswith(str(len(kept)))


@pytest.mark.parametrize("calibration", ["refit", "link", "sigmoid"])
def test_probabilities_are_those_of_the_estimator(open_page: Any, calibration: str) -> None:
    """The probabilities agree up to the tolerance of the default fit, if both keep the same points."""
    page = open_page()
    C, lam = (5000, 1000) if calibration == "refit" else (10, 2)  # SparseKLR selects with a margin of 1000
    page.evaluate(f"explorer.change({{calibration: {calibration!r}, C: {C}, lam: {lam}, tol: 1e-9}})")
    points = np.array(page.evaluate(POINTS))
    places = np.random.default_rng(0).uniform(-1.5, 1.5, (50, 2))
    found = page.evaluate(
        "q => Array.from(explorer.model.decision(Float64Array.from(q)), f => explorer.model.probability(f))",
        places.ravel().tolist(),
    )
    same = {"kernel": "rbf", "scale": None, "relevance": "shared"}  # the page has no other kernel
    model: Any = SparseKLR(10.0, box=C / lam, prune=0, gamma=1.0, tol=1e-9, **same)
    if calibration != "refit":
        model = SKLR(C, lam=lam, gamma=1.0, tol=1e-9, calibration="link" if calibration == "link" else None)
    expected = model.fit(points[:, :2], points[:, 2]).predict_proba(places)[:, 1]
    # the page's refit adds 1e-6 to the diagonal of the kernel matrix
    np.testing.assert_allclose(found, expected, atol=2e-3 if calibration == "refit" else 1e-6)


def picture(page: Any) -> Any:
    return page.evaluate("document.querySelector('canvas').toDataURL()")


def place(page: Any, x: float, y: float) -> tuple[float, float]:
    """Position of a point of the plane on the screen."""
    box = page.locator("#plane").bounding_box()
    return box["x"] + (x / 4 + 0.5) * box["width"], box["y"] + (0.5 - y / 3) * box["height"]


def test_dragging_a_point_changes_the_model(open_page: Any) -> None:
    page = open_page()
    first = page.evaluate("explorer.model.solution.kept[0]")
    x, y, label = page.evaluate(POINTS)[first]
    before, drawn = page.evaluate(SOLUTION), picture(page)
    page.mouse.move(*place(page, x, y))
    page.mouse.down()
    page.mouse.move(*place(page, 1.2, 1.1), steps=5)
    page.wait_for_function(f"Math.abs(explorer.points[{first}].x - 1.2) < 0.02")
    page.mouse.up()
    page.wait_for_timeout(300)
    after = page.evaluate(SOLUTION)
    assert after[0] != before[0]
    assert picture(page) != drawn
    assert page.evaluate(POINTS)[first][2] == label
    assert len(page.evaluate(POINTS)) == 60
    assert not page.locator("#actions").is_visible()


def test_points_are_added_labelled_and_removed(open_page: Any) -> None:
    page = open_page()
    page.click("#clear")
    assert "both classes" in page.inner_text("#message")
    for label, x in (("-1", -1.0), ("1", 1.0)):
        page.check(f"[name=label][value='{label}']", force=True)
        page.mouse.click(*place(page, x, 0.5))
    np.testing.assert_allclose(page.evaluate(POINTS), [[-1, 0.5, -1], [1, 0.5, 1]], atol=0.02)
    assert not page.locator("#message").is_visible()
    assert page.inner_text("#kept").split()[0] == "2"
    page.mouse.click(*place(page, 1.0, 0.5))  # selects it
    page.click("#switch")
    assert [label for *_, label in page.evaluate(POINTS)] == [-1, -1]
    assert "other class" in page.inner_text("#message")
    page.mouse.click(*place(page, 1.0, 0.5))
    page.click("#remove")
    assert len(page.evaluate(POINTS)) == 1


def test_keys(open_page: Any) -> None:
    page = open_page()
    page.focus("#plane")
    page.keyboard.press("n")
    before = page.evaluate("({...explorer.selected})")
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", " "):
        page.keyboard.press(key)
    after = page.evaluate("({...explorer.selected})")
    moved = np.array([after["x"] - before["x"], after["y"] - before["y"]])
    np.testing.assert_allclose(moved, [0.08, 0.04], atol=1e-9)
    assert after["label"] == -before["label"]
    page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert len(page.evaluate(POINTS)) == 60
    assert page.evaluate("explorer.selected") is None


def test_sliders_change_the_model(open_page: Any) -> None:
    """A larger margin keeps fewer points (until the box C / lam is small); at 0 all are kept."""
    page = open_page()
    kept = {}
    for value in ("0", "20", "50"):
        page.fill("#lam", value)
        kept[value] = int(page.inner_text("#kept").split()[0])
    assert kept["0"] == 60
    assert kept["0"] > kept["20"] > kept["50"]
    for slider in ("C", "gamma", "refit"):
        before = picture(page)
        page.fill(f"#{slider}", "0.5")
        assert picture(page) != before, slider
        assert page.inner_text(f"#{slider}-value") == "3.16"
    page.click("#auto")
    assert page.evaluate("explorer.settings.lam") == pytest.approx(10**0.5 / 10)
    page.click("#play")
    page.wait_for_function("explorer.settings.lam > 1")
    page.click("#play")
    stopped = page.evaluate("explorer.settings.lam")
    assert 1 < stopped <= 1e5


def test_python_program_keeps_the_same_points(open_page: Any) -> None:
    page = open_page()
    page.evaluate("explorer.change({calibration: 'sigmoid', tol: 1e-9})")
    program = page.text_content("#python")
    names: dict[str, Any] = {}
    exec(program.replace("gamma=1,", "gamma=1, tol=1e-9,"), names)
    assert len(names["model"].support_) == page.evaluate("explorer.model.solution.kept.length")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_layout(open_page: Any, width: int, scheme: str) -> None:
    """No element is wider than the screen; on a phone, the plane stays visible beside the sliders."""
    page = open_page(width=width, scheme=scheme, touch=width < 500)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#gamma").scroll_into_view_if_needed()
    assert page.evaluate("document.querySelector('canvas').getBoundingClientRect().bottom") > 100
    x, y, _ = page.evaluate(POINTS)[0]
    page.evaluate("scrollTo(0, 0)")
    tap = page.touchscreen.tap if width < 500 else page.mouse.click
    tap(*place(page, x, y))
    assert page.locator("#switch").is_visible()
    assert len(page.evaluate(POINTS)) == 60


def test_two_hundred_points_refit(open_page: Any, record_property: Any) -> None:
    """The median time is reported, not tested."""
    page = open_page()
    page.evaluate("explorer.replace(preset('moons', 200))")
    times = page.evaluate(
        """() => Array.from({length: 21}, (_, k) => {
          explorer.points[0].x += 0.01 * (k % 2 ? 1 : -1);
          explorer.update(true);
          return explorer.model.ms;
        })"""
    )
    record_property("median_ms", float(np.median(times)))
    print(f"200 points: median {np.median(times):.1f} ms, largest {max(times):.1f} ms")
    assert page.evaluate("explorer.model.solution.converged")
    assert page.evaluate("explorer.model.relativeGap") < 1e-4


def test_page_is_safe_and_complete() -> None:
    ids = re.findall(r'\sid="([^"]+)"', HTML)
    assert len(ids) == len(set(ids))
    assert not re.search(r"<script src|@import|https?://(?!www\.w3\.org)", HTML.split("<script>")[0])
