"""The built site in a browser: ``make docs-test``. Skipped where ``make docs`` has not been run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
PAGES = [
    "index.html",
    "quickstart.html",
    "coming-from-svc.html",
    "coming-from-boosting.html",
    "guide/parameters.html",
    "guide/size.html",
    "method/refit.html",
    "method/smo.html",
    "gallery/index.html",
    "api/generated/sparseklr.SparseKLR.html",
    "architecture.html",
    "reproduction.html",
    "explorer.html",
]
pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make docs")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open pages; they must cause no errors and request nothing from other hosts."""
    complaints: list[str] = []
    elsewhere: list[str] = []
    pages: list[Any] = []

    def visit(page: str, width: int = 1280, scheme: str = "light") -> Any:
        opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        opened.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.on(
            "request", lambda r: None if r.url.startswith((address, "data:")) else elsewhere.append(r.url)
        )
        opened.goto(address + page)
        opened.wait_for_load_state("networkidle")
        pages.append(opened)
        return opened

    yield visit
    for page in pages:
        page.close()
    assert not complaints
    assert not elsewhere


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["desktop", "phone"])
def test_pages_fit_the_screen_without_errors(page: str, width: int, scheme: str, visit: Callable) -> None:
    opened = visit(page, width, scheme)
    assert opened.title()
    assert opened.evaluate("document.scrollingElement.scrollWidth") <= width
    colour = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) for part in colour.strip("rgba()").split(",")[:3])
    assert (red + green + blue < 3 * 80) == (scheme == "dark")


def test_formulas_are_drawn(visit: Callable) -> None:
    opened = visit("method/dual.html")
    boxes = opened.evaluate(
        "[...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)"
    )
    assert len(boxes) > 5
    assert min(boxes) > 5


def test_search_works_without_a_network(visit: Callable) -> None:
    opened = visit("search.html?q=pruning")
    opened.wait_for_selector("#search-results li")
    assert "Pruning" in opened.inner_text("#search-results")


def test_the_explorer_is_embedded(visit: Callable) -> None:
    opened = visit("explorer.html")
    opened.locator("iframe.explorer").scroll_into_view_if_needed()
    frame = next(frame for frame in opened.frames if "explorer-page" in frame.url)
    frame.wait_for_function("window.explorer")
    opened.wait_for_timeout(300)
    height = opened.locator("iframe.explorer").bounding_box()["height"]
    assert height >= frame.evaluate("document.body.offsetHeight")  # the sliders at its end show


@pytest.mark.parametrize(
    "page", ["benchmarks.html", "arena.html", "guide/size.html", "compact.html", "coming-from-boosting.html"]
)
def test_tables_need_no_scroll_bar_on_a_desktop(page: str, visit: Callable) -> None:
    wide = """[...document.querySelectorAll('article table')]
        .filter(table => table.scrollWidth > table.clientWidth + 1).length"""
    assert visit(page).evaluate(wide) == 0


def test_titles_stay_in_the_cards_of_the_gallery(visit: Callable) -> None:
    outside = """[...document.querySelectorAll('.sphx-glr-thumbcontainer')].filter(card =>
        [...card.querySelectorAll('*')].some(part =>
            part.getBoundingClientRect().right > card.getBoundingClientRect().right + 1)).length"""
    for width in (1280, 390):
        assert visit("gallery/index.html", width).evaluate(outside) == 0


def test_published_versions_have_a_menu(browser: Any, tmp_path: Path) -> None:
    for name in ("0.1", "0.2"):
        (tmp_path / name).symlink_to(SITE)
    (tmp_path / "versions.json").write_text('["0.2", "0.1"]')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"http://127.0.0.1:{server.server_port}/0.2/guide/size.html")
    page.wait_for_selector(".version select").select_option("0.1")
    page.wait_for_url("**/0.1/guide/size.html")
    page.close()
    server.shutdown()
