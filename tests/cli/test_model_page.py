"""The page of ``sparseklr report MODEL DATA``: its content, and its decisions in a browser."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparseklr import SparseKLR, probability_report, save
from sparseklr.cli import main
from sparseklr.persistence import load_with_metadata

pytestmark = pytest.mark.slow

UNSAFE = "<i>no</i>"  # a class whose name is no plain text


def rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n)).round(3)
    city = rng.choice(["Oslo", "Rome", "Bern"], n)
    y = np.where(x + (city == "Rome") + rng.normal(size=n) > z, "yes", UNSAFE)
    return pd.DataFrame({"x": x, "z": z, "city": city, "y": y})


def run(*argv: Any, code: int = 0) -> None:
    assert main([str(arg) for arg in argv]) == code


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("page")
    rows(150, 0).to_csv(home / "train.csv", index=False)
    test = rows(120, 1)
    test.loc[5, ["x", "city"]] = [40.0, "Atlantis"]
    test.to_csv(home / "test.csv", index=False)
    for name, C in (("one", 100), ("two", 1)):
        argv = ("fit", home / "train.csv", "--target", "y", "--model", "sparse", "--C", C)
        run(*argv, "-o", home / f"{name}.sklr")
    run("report", home / "one.sklr", home / "test.csv", "-o", home / "one.html")
    run("report", home / "one.sklr", home / "two.sklr", home / "test.csv", "-o", home / "both.html")
    return home


def data_of(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])


# -- content ----------------------------------------------------------------------------------


def test_page_contains_predictions_and_is_self_contained(home: Path, capsys: Any) -> None:
    text, found = (home / "one.html").read_text(encoding="utf-8"), data_of(home / "one.html")
    assert not re.search('(?:src|href)="(?!#)', text)
    assert UNSAFE not in text
    run("predict", home / "one.sklr", home / "test.csv", "-o", home / "p.csv", "--force")
    predicted = pd.read_csv(home / "p.csv")
    np.testing.assert_allclose(found["models"][0]["prob"], predicted.iloc[:, 1:], rtol=1e-4)
    truth = pd.read_csv(home / "test.csv")["y"]
    assert [found["classes"][k] for k in found["y"]] == truth.tolist()
    for k in range(2):
        calibration = found["models"][0]["calibration"][k]
        assert sum(calibration["counts"]) == sum(row[0] for row in calibration["bins"]) == 120
    assert sum(found["models"][0]["familiarity"]) == 120
    for word in ("kept row", "city is new", "x is high", "leave-one-out log-loss", "fitted to", "150 rows"):
        assert word in text
    assert "identical to training rows" not in text  # none of them was in the training


def test_several_models_and_training_rows(home: Path, tmp_path: Path, capsys: Any) -> None:
    both = (home / "both.html").read_text(encoding="utf-8")
    assert both.count('<th scope="col">one.sklr</th>') >= 1
    assert len(data_of(home / "both.html")["models"]) == 2
    run("report", home / "one.sklr", home / "train.csv", "-o", tmp_path / "seen.html")
    assert (
        "150 of the 150 rows are identical to training rows of one.sklr"
        in (tmp_path / "seen.html").read_text()
    )
    frame = rows(80, 3)
    frame["y"] = np.where(frame["x"] > 0, "a", "b")
    frame.to_csv(tmp_path / "other.csv", index=False)
    run("fit", tmp_path / "other.csv", "--target", "y", "--model", "sparse", "-o", tmp_path / "other.sklr")
    capsys.readouterr()
    run(
        "report",
        home / "one.sklr",
        tmp_path / "other.sklr",
        home / "test.csv",
        "-o",
        tmp_path / "x.html",
        code=2,
    )
    assert "classes" in capsys.readouterr().err
    run("report", home / "one.sklr", home / "one.sklr", home / "test.csv", "-o", tmp_path / "x.html", code=2)
    assert "given twice" in capsys.readouterr().err
    run("report", home / "one.sklr", home / "two.sklr", home / "test.csv", "-o", tmp_path / "x.md", code=2)
    assert "expected a name ending in .html" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


# -- in a browser -----------------------------------------------------------------------------


def opened(browser: Any, page: Path, width: int = 1100, scheme: str = "light") -> Any:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    tab.errors = []
    tab.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.on("request", lambda request: tab.errors.append(request.url) if "file:" not in request.url else None)
    tab.goto(page.as_uri())
    tab.wait_for_selector("#cost-curve svg")
    return tab


def cost_of(found: dict[str, Any], threshold: float, alarm: float, miss: float, positive: int = 1) -> float:
    p, y = np.array(found["models"][0]["prob"])[:, positive], np.array(found["y"]) == positive
    return float((alarm * (~y & (p >= threshold)) + miss * (y & (p < threshold))).mean())


def test_costs_move_the_threshold(home: Path, browser: Any) -> None:
    tab, found = opened(browser, home / "one.html"), data_of(home / "one.html")
    thresholds = {}
    for alarm, miss in ((1, 1), (1, 8), (3, 1)):
        tab.fill("#cost-alarm", str(alarm))
        tab.fill("#cost-miss", str(miss))
        best, cost = float(tab.inner_text("#best")), float(tab.inner_text("#cost"))
        thresholds[alarm, miss] = best
        least = min(cost_of(found, t, alarm, miss) for t in np.linspace(0, 1.001, 4001))
        assert cost <= least + 1e-4  # found by trying all thresholds
        assert float(tab.inner_text("#threshold-shown")) == best
        cells = [int(cell) for cell in tab.locator("#confusion td").all_inner_texts()]
        assert sum(cells) == 120
        assert (alarm * cells[2] + miss * cells[1]) / 120 == pytest.approx(cost, abs=1e-4)
    assert thresholds[1, 8] <= thresholds[1, 1] <= thresholds[3, 1]
    assert thresholds[1, 8] < thresholds[3, 1]
    before = tab.inner_html("#cost-curve")
    tab.focus("#threshold")
    for _ in range(5):
        tab.keyboard.press("ArrowRight")  # by the keyboard, away from the best
    assert float(tab.inner_text("#threshold-shown")) == pytest.approx(thresholds[3, 1] + 0.005, abs=0.0011)
    assert tab.inner_html("#cost-curve") != before
    tab.click("#use-best")
    assert float(tab.inner_text("#threshold-shown")) == thresholds[3, 1]
    assert tab.errors == []


def test_class_and_model_can_be_chosen(home: Path, browser: Any) -> None:
    tab = opened(browser, home / "both.html")
    tab.fill("#cost-miss", "8")
    as_yes = float(tab.inner_text("#best"))
    tab.select_option("select[aria-label=Class]", "0")
    assert tab.inner_text("#calibration .positive") == UNSAFE
    assert float(tab.inner_text("#best")) != as_yes
    first = tab.inner_html("#histogram")
    assert tab.locator("#errors [data-model]:visible").count() == 1
    tab.select_option("select[aria-label=Model]", "1")
    assert tab.inner_html("#histogram") != first
    assert tab.locator("#errors [data-model]:visible").get_attribute("data-model") == "1"
    assert tab.locator("#areas li").count() == 2
    tab.focus("#roc svg")
    tab.keyboard.press("ArrowRight")  # the points can be walked through
    assert "threshold" in tab.inner_text("#tip")
    assert tab.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_fits_phone_and_desktop_in_light_and_dark(home: Path, browser: Any, scheme: str, width: int) -> None:
    tab = opened(browser, home / "both.html", width, scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    colour = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", colour)[:3])) < 200) == (scheme == "dark")
    for id in ("cost-curve", "reliability", "histogram", "roc", "precision", "familiar"):
        assert tab.locator(f"#{id} svg").bounding_box()["width"] > 250
    assert tab.errors == []


# -- hostile names ------------------------------------------------------------------------------


def hostile(k: int) -> str:
    """Text that would be executed if not escaped: in an element, an attribute, a script or JSON."""
    return f"</script><script>ran({k})</script>\"'><img src=x onerror=ran({k})>${{ran({k})}}&lt;"


class Tags(HTMLParser):
    """The elements of a page, as parsed by a browser."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found[tag] += 1
        assert not [name for name, _ in attrs if name.startswith("on")]


@pytest.fixture(scope="module")
def hostile_pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Pages with hostile columns, categories, classes, file names and metadata."""
    home = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    column, category, label = hostile(1), hostile(2), hostile(3)
    frame = pd.DataFrame({column: rng.normal(size=120).round(3), "city": rng.choice([category, "b"], 120)})
    frame["y"] = np.where(frame[column] + rng.normal(size=120) > 0, label, "no")
    folder = home / "<img src=x onerror=ran(4)>"
    folder.mkdir()
    train, test, model = (folder / f"'\"<b>{name}" for name in ("train.csv", "test.csv", "m.sklr"))
    frame.to_csv(train, index=False)
    frame.loc[3, "city"] = hostile(5)
    frame.to_csv(test, index=False)
    run("fit", train, "--target", "y", "--model", "sparse", "-o", model)
    found, metadata = load_with_metadata(model.read_bytes(), "m")
    del metadata["created"], metadata["versions"]
    points = metadata["points"]
    points["rows"] = [hostile(6)] * len(points["rows"])
    points["classes"] = [hostile(7)] * len(points["classes"])
    points["cells"] = {name: [hostile(8)] * len(cells) for name, cells in points["cells"].items()}
    save(found, model, metadata=metadata)
    run("report", model, test, "-o", home / "one.html")
    other = folder / "other<script>ran(10).sklr"
    other.write_bytes(model.read_bytes())
    run("report", model, other, test, "-o", home / "two.html")
    X = rng.normal(size=(100, 2))
    y = np.where(X[:, 0] > 0, hostile(1), "a")
    (home / "three.html").write_text(probability_report(SparseKLR().fit(X, y), X, y)._repr_html_(), "utf-8")
    return [home / f"{name}.html" for name in ("one", "two", "three")]


def test_hostile_text_creates_no_elements(hostile_pages: list[Path], home: Path) -> None:
    assert "kept row &lt;/script&gt;" in hostile_pages[0].read_text(encoding="utf-8")
    usual = Tags(home / "one.html").found
    for page in hostile_pages:
        found = Tags(page).found
        assert found["img"] == 0
        assert found["script"] == (0 if page.name == "three.html" else usual["script"])


def test_hostile_text_does_not_run(hostile_pages: list[Path], open_file: Any) -> None:
    for page in hostile_pages:
        tab = open_file(page)  # the fixture fails on errors, such as a call of ran, and on requests
        assert tab.evaluate("document.querySelectorAll('img').length") == 0


def test_markdown_does_not_contain_html_escapes() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2))
    y = np.where(X[:, 0] > 0, ">50K & co|", "<=50K")
    markdown = probability_report(SparseKLR().fit(X, y), X, y).to_markdown()
    assert r"| Fraction of class >50K & co\| |" in markdown
    assert "&gt;" not in markdown
    y = np.where(X[:, 0] > 0, "<b>", "<a>")
    assert r"Fraction of class \<b>" in probability_report(SparseKLR().fit(X, y), X, y).to_markdown()
