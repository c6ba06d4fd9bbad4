"""The report of the experiments: its files, its numbers, and its page in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fabricated import fabricate
from support.standins import DATA

from paper import METHODS, Results, ResultsError, plan, run
from paper.command_line import main
from paper.report import explanations, page_data, page_sections
from paper.report.figures import FIGURES, to_svg
from paper.report.page import write_report
from paper.report.summary import Summary
from paper.report.tables import all_tables, findings

pytestmark = pytest.mark.slow

UNSAFE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return results with all cells of one mode and all but three cells of the other."""
    cells = [*plan(), *plan(mode="as-printed")[:-3]]
    return fabricate(tmp_path_factory.mktemp("results") / "results.sqlite", cells, UNSAFE)


@pytest.fixture(scope="module")
def summary(results: Path) -> Summary:
    with Results(results, readonly=True) as stored:
        return Summary(stored.cells(), "converged")


@pytest.fixture(scope="module")
def report(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("report") / "report.html"
    write_report(results, output)
    return output


def cut(summary: Summary, **changes: Any) -> Summary:
    """Return the summary of some of the records."""
    kept = [r for r in summary.records if all(getattr(r.cell, k) in v for k, v in changes.items())]
    return Summary(kept, summary.mode)


# -- files ------------------------------------------------------------------------------------


def test_markdown_and_latex(results: Path, tmp_path: Path) -> None:
    for name in ("report.md", "report.tex"):
        write_report(results, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.md", "report.tex"]
    text = (tmp_path / "report.md").read_text()
    assert text.count("### Table 2: test accuracy") == 2  # two modes
    assert "## As printed in the paper" in text
    tex = (tmp_path / "report.tex").read_text()
    for kind in ("document", "table", "tabular"):
        assert tex.count(rf"\begin{{{kind}}}") == tex.count(rf"\end{{{kind}}}") > 0
    assert tex.count(r"\resizebox") == tex.count(r"\end{tabular}}")
    assert tex.count("{") == tex.count("}")
    labels = re.findall(r"\\label\{(.*?)\}", tex)
    assert len(labels) == len(set(labels))


def test_errors_say_what_is_wrong(results: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"report\.pdf: .* \.html, \.md, \.tex"):
        write_report(results, tmp_path / "report.pdf")
    Results(tmp_path / "empty.sqlite").close()
    with pytest.raises(ResultsError, match="contains no results"):
        write_report(tmp_path / "empty.sqlite", tmp_path / "report.html")
    with pytest.raises(ResultsError, match="no such file"):
        write_report(tmp_path / "absent.sqlite", tmp_path / "report.html")
    with pytest.raises(FileNotFoundError):
        write_report(results, tmp_path / "absent" / "report.md")
    assert not list(tmp_path.glob("*report*"))


def test_command_keeps_the_old_report_until_the_new_one_is_whole(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "report.md"
    argv = ["-o", str(results), "--report", str(output), "--force"]
    assert main(argv) == 0
    assert output.read_text().startswith("# ")
    output.write_text("old")

    def fail(*args: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    assert main(argv) == 2
    assert "disk full" in capsys.readouterr().err
    assert output.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_unsafe_text_is_text(report: Path) -> None:
    html = report.read_text()
    assert "alert(1)" in html
    assert "<script>alert" not in html
    embedded = re.search(r'id="data">(.*?)</script>', html, re.S)
    assert embedded
    data = json.loads(embedded[1])
    assert list(data["modes"]) == ["converged", "as-printed"]
    assert not re.search(r"url\((?!#)|@import|src=|<link", html)


def test_ids_are_unique(report: Path) -> None:
    ids = re.findall(r'\sid="([^"]+)"', report.read_text())
    assert len(ids) == len(set(ids))


# -- numbers ----------------------------------------------------------------------------------


def test_findings_are_means_over_the_same_sets(summary: Summary) -> None:
    part = cut(summary, dataset=("sonar", "monk2"))
    rows = dict(findings(part).rows)
    sets, accuracy, share, loss = rows["S-KLR, best"]
    assert sets.ours == 2
    assert accuracy.ours == pytest.approx(
        np.mean([part.value(d, "S-KLR", "best", "accuracy") for d in part.datasets])
    )
    assert (accuracy.paper, share.paper, loss.paper) == pytest.approx(
        ((0.958 + 0.856) / 2, (0.297 + 0.941) / 2, None)
    )
    assert rows["SparseKLR"][1].paper is None
    assert sum(values[1].best for values in rows.values()) >= 1


def test_findings_compare_like_with_like(summary: Summary) -> None:
    """Means are over the sets that every column has; without such a set, no best value and no cards are shown.
    Means are over the sets that every column has; without such a set, no best value and no cards are shown."""
    svm_on_sonar = cut(summary, dataset=("sonar",), method=("SVM",)).records
    part = Summary([*cut(summary, method=("S-KLR", "SparseKLR")).records, *svm_on_sonar], "converged")
    assert {values[0].ours for _, values in findings(part).rows} == {1}
    assert "mean accuracy, 12 sets" in page_sections.findings(part)
    apart = Summary([*cut(summary, dataset=("ring",), method=("S-KLR",)).records, *svm_on_sonar], "converged")
    table = findings(apart)
    assert "cannot be compared" in table.note
    assert not any(value.best for _, values in table.rows for value in values)
    assert "card" not in page_sections.findings(apart).replace("cards", "")
    means = {name: table.rows[-1] for table in all_tables(part) for name in [table.name]}
    assert not any(value.best for value in means["table-2-accuracy"][1])


def test_missing_cells_in_words(summary: Summary) -> None:
    assert page_data.missing(summary) == []
    assert "No cell" in page_sections.coverage(summary)
    kept = [
        record
        for record in summary.records
        if record.cell.dataset != "magic"
        and (record.cell.dataset, record.cell.method) != ("ring", "IVM")
        and (record.cell.dataset, record.cell.method, record.cell.fold) != ("sonar", "SVM", 3)
        and (record.cell.method != "lam-choice" or record.cell.dataset == "monk2")
    ]
    part = Summary(kept, "converged")
    words = page_data.in_words(page_data.missing(part), 1)
    assert words == ["magic", "lam-choice on every set but monk2", "IVM on ring", "SVM on sonar, fold 4"]
    assert "4 / 5" in page_sections.coverage(part)


def test_reliability_pools_folds_and_not_seeds(summary: Summary) -> None:
    records = summary.of("sonar", "IVM")
    again = [replace(record, cell=replace(record.cell, seed=1)) for record in records]
    once, twice = page_data._pooled(records), page_data._pooled([*records, *again])
    np.testing.assert_allclose(once, twice)
    assert sum(row[0] for row in once) == sum(sum(r.result["reliability"]["best"]["n"]) for r in records)
    assert page_data._pooled(summary.of("sonar", "SVM")) == []


def test_comparison_needs_enough_sets(summary: Summary) -> None:
    few = cut(summary, dataset=("sonar", "monk2", "ring", "magic"))
    assert "too few" in page_sections.comparison(few)
    assert page_sections.pairs(few) == ""
    assert page_data.charts(few)["ranks"] is None
    assert "Friedman" in page_sections.comparison(summary)
    assert page_sections.pairs(summary).count("<tr>") == 1 + 21  # of seven methods


def test_differences_come_with_evidence(summary: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    found = page_data.differences(summary)
    assert found
    for one in found:
        off = [abs(a - b) for a, b in zip(one.ours, one.paper, strict=True)]
        assert off[0] > 0.01 or off[1] > 0.05
    monkeypatch.setitem(explanations.EXPLANATIONS, found[0].dataset, "chance & <choice>")
    assert "chance &amp; &lt;choice&gt;" in page_sections.differences(summary)
    monkeypatch.setattr(page_data, "differences", lambda summary: [])
    assert "On none of the sets" in page_sections.differences(summary)


@pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)
def test_figures_of_the_paper(draw: Any) -> None:
    svg = to_svg(draw)
    assert svg.startswith("<svg")
    assert "currentColor" in svg
    assert "<text" in svg
    assert "<?xml" not in svg
    assert 'width="' not in svg[: svg.index(">")]


# -- in a browser -----------------------------------------------------------------------------


@pytest.fixture
def open_page(open_file: Callable[..., Any]) -> Callable[..., Any]:
    """Opens a report, and waits for its last figure."""

    def open_page(path: Path, **look: Any) -> Any:
        page = open_file(path, **look)
        page.wait_for_selector("#times svg")
        return page

    return open_page


def marks(page: Any, figure: str) -> list[str]:
    """Paths of the marks of a figure."""
    return page.eval_on_selector_all(
        f"#{figure} :is(.mark, .line)", "all => all.map(m => m.getAttribute('d'))"
    )


FIGURE_IDS = ("accuracy-sparsity", "grid", "reliability", "times", "ranks")


def test_every_figure_is_drawn(open_page: Any, report: Path) -> None:
    page = open_page(report)
    for mode in ("converged", "as-printed"):
        page.check(f"input[value={mode}]")
        for figure in FIGURE_IDS:
            drawn = marks(page, figure)
            assert len(drawn) >= 5, figure
            assert not [d for d in drawn if re.search("NaN|undefined|Infinity", d)], figure
        for figure in FIGURE_IDS[:-1]:  # the numbers as a table
            assert page.locator(f"#{figure} details tbody tr").count() >= 8, figure
        assert page.locator(f"#{mode}-table-2-accuracy").is_visible()
    assert not page.locator("#converged-table-2-accuracy").is_visible()
    assert page.locator("#paper-figures figure svg").count() == 7
    assert page.evaluate("document.querySelectorAll('svg :is(path, text)').length") > 500


def test_selectors_and_legend_change_the_figure(open_page: Any, report: Path) -> None:
    page = open_page(report)
    for figure, value in (("accuracy-sparsity", "sonar"), ("grid", "ring"), ("reliability", "sonar")):
        before = marks(page, figure)
        page.select_option(f"#{figure} select >> nth=0", value)
        assert marks(page, figure) != before, figure
    page.select_option("#grid select", "all")
    assert page.locator("#grid .panels svg").count() == 24
    button = page.locator("#accuracy-sparsity .legend button", has_text="IVM")
    assert page.locator('#accuracy-sparsity [data-series="IVM"]').count() == 2  # ours and the paper's
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator('#accuracy-sparsity [data-series="IVM"]').count() == 0
    assert button.get_attribute("aria-pressed") == "false"
    assert page.evaluate("document.activeElement.textContent") == "IVM"
    page.uncheck("#accuracy-sparsity input")
    assert page.locator("#accuracy-sparsity .hollow").count() == 0


def test_tooltip_by_pointer_and_keyboard(open_page: Any, report: Path) -> None:
    page = open_page(report)
    tip = page.locator("#tip")
    page.locator("#accuracy-sparsity").scroll_into_view_if_needed()
    page.locator('#accuracy-sparsity [data-series="SparseKLR"]').hover(force=True)
    assert tip.is_visible()
    assert re.search(
        r"(SparseKLR|S-KLR refit), mean over 12 sets.*accuracy 0\.\d{3}.*not in the paper",
        tip.inner_text(),
        re.S,
    )
    page.mouse.move(1, 1)
    assert not tip.is_visible()
    page.locator("#grid svg.chart").first.focus()
    texts = set()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        texts.add(tip.inner_text())
    assert len(texts) == 3
    page.keyboard.press("Escape")
    assert not tip.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone(open_page: Any, report: Path, scheme: str) -> None:
    """On a phone, no element is wider than the screen, and the text is legible."""
    page = open_page(report, width=360, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("getComputedStyle(document.querySelector('tbody th')).position") == "sticky"
    for selector in ("body", "main p", ".note", "figcaption", "td", "td b", "a", ".chart text"):
        assert contrast(page, selector) >= 4.5, selector


def contrast(page: Any, selector: str) -> float:
    """Ratio of the luminance of the text to that of the background behind it."""
    text, ground = page.eval_on_selector(
        selector,
        """element => {
          const style = getComputedStyle(element);
          const ground = part => getComputedStyle(part).backgroundColor;
          let behind = element;
          while (ground(behind) === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
          return [element instanceof SVGElement ? style.fill : style.color, ground(behind)];
        }""",
    )

    def luminance(color: str) -> float:
        rgb = np.array([float(part) for part in re.findall(r"[\d.]+", color)[:3]]) / 255
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    darker, lighter = sorted((luminance(text), luminance(ground)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("methods", [["SVM"], ["S-KLR"], ["IVM", "SparseKLR"]], ids=str)
def test_part_of_the_results_is_enough(
    methods: list[str], open_page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_sections, "paper_figures", lambda: "")  # they take their time
    fabricate(tmp_path / "results.sqlite", plan(methods=methods)[:7])
    write_report(tmp_path / "results.sqlite", tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    assert len(marks(page, "accuracy-sparsity")) >= len(methods)
    assert page.locator("#ranks").is_hidden()


def test_one_real_cell(open_page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    cells = plan(datasets=["sonar"], methods=["SVM"], folds=[0])
    assert run(cells, path, jobs=1, data_home=DATA) == []
    monkeypatch.setattr(page_sections, "paper_figures", lambda: "")
    write_report(path, tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    assert f"1 of {12 * len(METHODS) * 5} cells finished" in page.inner_text("#run")
    assert len(marks(page, "accuracy-sparsity")) == 2
    assert page.locator("#ranks").is_hidden()
    assert page.locator("input[name=mode]").count() == 0


# -- said before it is used ------------------------------------------------------------------------


def test_processes_methods_and_small_figures_are_explained(report: Path, summary: Summary) -> None:
    known = {"cores": 4, "jobs": -1}
    assert page_sections._processes(known) == 4
    assert page_sections._processes({**known, "jobs": -2}) == 3
    assert page_sections._processes({**known, "jobs": 2}) == 2
    text = report.read_text(encoding="utf-8")
    assert text.index("ours minus the") < text.index('title="paper, difference"')
    for method in METHODS:
        assert f"<dt>{method}</dt>" in text
    assert set(explanations.METHOD_WORDS) == set(METHODS)
    colours = re.search(r":root \{(.*?)\}", text, re.DOTALL)[1]
    assert "--best" not in colours  # orange is the colour of a method, and nothing else
