"""Files that ``make docs`` writes for tools, and the folder of published versions of the site."""

from __future__ import annotations

import inspect
import json
import runpy
import sys
from pathlib import Path

import pytest

import sparseklr

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "_build" / "html"
built = pytest.mark.skipif(not (SITE / "llms.txt").exists(), reason="the site is not built: make docs")


@pytest.fixture(scope="module")
def llms() -> dict:
    pytest.importorskip("numpydoc")
    return runpy.run_path(str(ROOT / "docs" / "extensions" / "llms.py"))


def test_the_summary_of_the_api_is_complete(llms: dict) -> None:
    names = llms["public_names"]((ROOT / "docs" / "api" / "index.rst").read_text("utf-8"))
    assert {name.removeprefix("sparseklr.") for name in names} >= set(sparseklr.__all__)
    text = llms["api"](names, sparseklr.__version__)
    for name in names:
        assert f"\n## {name}\n" in text
    section = text.split("## sparseklr.SparseKLR\n")[1].split("\n## ")[0]
    for parameter in inspect.signature(sparseklr.SparseKLR).parameters:
        assert parameter in section
    assert "`fit(self, X, y, sample_weight=None)`" in section
    assert ":class:" not in text


@built
def test_pages_of_llms_txt_exist() -> None:
    text = (SITE / "llms.txt").read_text("utf-8")
    assert text.startswith("# sparseklr ")
    links = [part.split(")")[0] for part in text.split("](")[1:]]
    assert len(links) > 30
    assert not [link for link in links if not (SITE / link).exists()]


def publish(*arguments: object) -> None:
    sys.argv = ["publish_docs.py", *map(str, arguments)]
    runpy.run_path(str(ROOT / "tools" / "publish_docs.py"), run_name="__main__")


def test_versions_are_published_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [])
    pages, site = tmp_path / "built", tmp_path / "site"
    pages.mkdir()
    (pages / "index.html").write_text("first")
    publish(pages, site, "dev")
    assert "dev/" in (site / "index.html").read_text()
    publish(pages, site, "v0.9.1")
    (pages / "index.html").write_text("second")
    publish(pages, site, "v0.10.0")
    assert json.loads((site / "versions.json").read_text()) == ["0.10", "0.9", "dev"]
    assert "0.10/" in (site / "index.html").read_text()
    assert (site / "0.9" / "index.html").read_text() == "first"
    with pytest.raises(SystemExit, match="expected dev"):
        publish(pages, site, "main")
