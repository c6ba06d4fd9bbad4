"""The paper's experiments: protocol, methods, storage, running and tables."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from joblib import delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from support.standins import DATA

from paper import METHODS, Cell, Results, ResultsError, plan, published, run
from paper.datasets import BENCHMARKS
from paper.methods import compute, method
from paper.protocol import RULES, TIES, choose, split
from paper.report.render import cell as shown
from paper.report.render import to_html, to_latex, to_markdown, to_rich
from paper.report.summary import Summary
from paper.report.tables import Table, Value, all_tables
from paper.report.tables import findings as means
from sparseklr import SKLR, CompactKLR
from sparseklr.dual import Settings, solve_dual

pytestmark = pytest.mark.slow

SMALL = {"datasets": ["sonar", "monk2"], "methods": ["S-KLR", "SVM", "SparseKLR"]}

ROOT = Path(__file__).resolve().parents[2]
RUN_MODULE = sys.modules["paper.run"]  # the package's attribute of that name is the function


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """Return the results of two sets from an undisturbed run."""
    path = tmp_path_factory.mktemp("results") / "small.sqlite"
    assert run(plan(**SMALL), path, jobs=1, data_home=DATA) == []
    return path


def findings(path: Path) -> dict[Cell, dict]:
    """Return the stored results without times."""
    with Results(path, readonly=True) as results:
        found = {record.cell: record.result for record in results.cells()}
    for result in found.values():
        del result["grid"]["seconds"]
    return found


# -- protocol ---------------------------------------------------------------------------------


def test_plan() -> None:
    assert len(plan()) == 12 * len(METHODS) * 5
    assert len(plan(seeds=[0, 1], folds=[0], methods=["SVM"])) == 24
    for wrong in ({"datasets": ["iris"]}, {"methods": ["CNN"]}, {"folds": [5]}, {"mode": "fast"}):
        with pytest.raises(ValueError, match=r"unknown .* expected one of"):
            plan(**wrong)


def test_splits_are_apart_and_the_same_for_all_methods() -> None:
    cell = Cell("converged", "sonar", "SVM", 2, 0)
    data = split(cell, DATA)
    assert data.X_train.min() >= 0
    assert data.X_train.max() == pytest.approx(1)
    assert len(data.y_fit) + len(data.y_val) == len(data.y_train)
    assert abs(len(data.y_val) / len(data.y_train) - 0.05) < 0.01

    def rows(X: np.ndarray) -> set[bytes]:
        return {row.tobytes() for row in X}

    assert not rows(data.X_train) & rows(data.X_test)
    assert not rows(data.X_fit) & rows(data.X_val)
    again = split(Cell("as-printed", "sonar", "IVM", 2, 0), DATA)
    assert np.array_equal(data.X_val, again.X_val)
    tests = [split(Cell("converged", "sonar", "SVM", fold, 0), DATA).y_test for fold in range(5)]
    assert sum(map(len, tests)) == 208
    assert not np.array_equal(data.X_test, split(Cell("converged", "sonar", "SVM", 2, 1), DATA).X_test)


def test_ties() -> None:
    score, share = np.array([0.9, 1.0, 1.0, 1.0, 0.95]), np.array([0.1, 0.5, 0.2, 0.4, 0.01])
    assert [choose("best", score, share, ties) for ties in TIES] == [1, 3, 2]
    assert [choose("sparsest-of-3", score, share, ties) for ties in TIES] == [2, 2, 2]
    score[1] = 0.9
    assert [choose("sparsest-of-3", score, share, ties) for ties in TIES] == [4, 4, 4]


# -- methods ----------------------------------------------------------------------------------


def test_converged_grid_is_the_estimators() -> None:
    cell = Cell("converged", "sonar", "S-KLR", 0, 0)
    data, k = split(cell, DATA), 73
    result = compute(cell, data)
    C, lam = result["grid"]["C"][k], result["grid"]["lam"][k]
    model = SKLR(C, lam=lam, gamma=0.5, calibration=None, tol=1e-6).fit(data.X_train, data.y_train)
    assert result["grid"]["accuracy"][k] == model.score(data.X_test, data.y_test)
    assert abs(result["grid"]["share"][k] - len(model.support_) / len(data.y_train)) < 0.02
    loss = np.mean(np.logaddexp(0, -data.y_test * model.decision_function(data.X_test)))
    assert result["grid"]["log_loss"][k] == pytest.approx(loss, rel=1e-2)
    assert all(result["grid"]["converged"])
    assert sum(result["reliability"]["best"]["n"]) == len(data.y_test)


@pytest.mark.parametrize(("mode", "gamma"), [("as-printed", 0.5), ("gamma-1", 1.0)])
def test_as_printed_is_the_papers_algorithm(mode: str, gamma: float) -> None:
    cell = Cell(mode, "sonar", "S-KLR", 0, 0)
    data, k = split(cell, DATA), 45  # C = 1, lam = 5/9
    fit = method("S-KLR", mode)
    C, lam = fit.candidates[k]
    found = fit.fit(data.X_train, data.y_train, data.X_test, [fit.candidates[k]])
    K, y = rbf_kernel(data.X_train, gamma=gamma), data.y_train
    start = 1e-5 * np.where(y > 0, 1, (y > 0).sum() / (y < 0).sum())  # class 1 is the larger
    solution = solve_dual(K, y, C=C, lam=lam, alpha0=start, **asdict(Settings.paper()))
    assert found.n_iter[0] == solution.n_iter
    coef = np.where(solution.alpha > 1e-5, solution.alpha, 0) * y
    f = coef @ rbf_kernel(data.X_train, data.X_test, gamma=gamma) + solution.intercept
    np.testing.assert_allclose(found.f[0], f, atol=1e-9)


@pytest.mark.parametrize(("mode", "gamma"), [("converged", 0.5), ("gamma-1", 1.0)])
def test_baselines_have_the_kernel_of_the_mode(mode: str, gamma: float) -> None:
    data = split(Cell(mode, "sonar", "SVM", 0, 0), DATA)
    found = method("SVM", mode).fit(data.X_train, data.y_train, data.X_test, [(10.0, 0.0)])
    svm = SVC(C=10, gamma=gamma).fit(data.X_train, data.y_train)
    np.testing.assert_allclose(found.f[0], svm.decision_function(data.X_test), atol=1e-9)


def test_as_printed_is_repaired_where_it_is_infeasible() -> None:
    """Erratum E4: with class fractions of 94% and 6% and C = 1e-4, a bound of 1e-5 is infeasible."""
    data = split(Cell("as-printed", "sonar", "S-KLR", 0, 0), DATA)
    rows = np.append(np.flatnonzero(data.y_train > 0), np.flatnonzero(data.y_train < 0)[:5])
    X, y = data.X_train[rows], data.y_train[rows]
    with pytest.raises(ValueError, match="infeasible"):
        solve_dual(rbf_kernel(X, gamma=0.5), y, C=1e-4, lam=0, **asdict(Settings.paper()))
    found = method("S-KLR", "as-printed").fit(X, y, data.X_test, [(1e-4, 0.0)])
    assert np.isfinite(found.f).all()


@pytest.mark.parametrize("mode", ["converged", "as-printed"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_in_both_modes(name: str, mode: str) -> None:
    cell = Cell(mode, "sonar", name, 1, 0)
    result = compute(cell, split(cell, DATA))
    json.dumps(result, allow_nan=False)
    for rule in RULES:
        k = result["chosen"][rule]
        assert 0.5 < result["grid"]["accuracy"][k] <= 1
        assert 0 <= result["grid"]["share"][k] <= 1
        assert (result["grid"]["log_loss"][k] is None) == (name == "SVM")


def test_compact_is_the_estimator_with_its_defaults() -> None:
    cell = Cell("converged", "sonar", "CompactKLR", 0, 0)
    data = split(cell, DATA)
    grid = compute(cell, data)["grid"]
    model = CompactKLR().fit(data.X_train, data.y_train)
    assert grid["C"] == [None]  # which the fit chooses
    assert grid["accuracy"] == [model.score(data.X_test, data.y_test)]
    assert grid["share"] == [model.n_points_ / len(data.y_train)]


def test_both_working_sets_find_the_same_models() -> None:
    first, second = (
        compute(cell, split(cell, DATA))["grid"]["log_loss"]
        for cell in (Cell("converged", "sonar", name, 0, 0) for name in ("KLR-1ord", "KLR-2ord"))
    )
    np.testing.assert_allclose(first, second, rtol=1e-3)


# -- storage ----------------------------------------------------------------------------------


def test_store_round_trip(tmp_path: Path) -> None:
    path, cell = tmp_path / "r.sqlite", Cell("converged", "sonar", "SVM", 0, 0)
    with Results(path) as results:
        number = results.start_run(jobs=2)
        results.add(cell, number, 1.5, {"grid": {}})
        assert results.missing(plan(datasets=["sonar"], methods=["SVM"], folds=[0, 1])) == [
            Cell("converged", "sonar", "SVM", 1, 0)
        ]
    with Results(path, readonly=True) as results:
        (record,) = results.cells(dataset="sonar")
        assert record.cell == cell
        assert record.seconds == 1.5
        facts = results.runs()[record.run]
        assert facts["versions"]["numpy"] == np.__version__
        assert {"date", "python", "processor", "cores", "jobs"} <= set(facts)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            results.add(cell, number, 1.5, {})


def test_store_refuses_other_files(tmp_path: Path) -> None:
    text, other = tmp_path / "a.txt", tmp_path / "b.sqlite"
    text.write_text("not a database, and long enough to be sure of it\n" * 50)
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    before = other.read_bytes()
    for path, readonly in ((text, True), (text, False), (other, True), (other, False)):
        with pytest.raises(ResultsError, match=path.name):
            Results(path, readonly=readonly)
    assert other.read_bytes() == before
    with pytest.raises(ResultsError, match="no such file"):
        Results(tmp_path / "absent.sqlite", readonly=True)


# -- running ----------------------------------------------------------------------------------


def test_a_run_adds_only_what_is_missing(small: Path, tmp_path: Path) -> None:
    seen = []
    assert run(plan(**SMALL), small, jobs=1, data_home=DATA, progress=seen.append) == []
    assert [(p.done, p.total) for p in seen] == [(30, 30)]


def test_workers_leave_ctrl_c_to_the_process_that_started_them() -> None:
    before = signal.getsignal(signal.SIGINT)
    get_reusable_executor().shutdown()  # new processes, also if others were started before
    with parallel_config("loky"), RUN_MODULE._backend(2, None) as parallel:
        handlers = list(parallel(delayed(signal.getsignal)(signal.SIGINT) for _ in range(4)))
    assert set(handlers) == {signal.SIG_IGN}
    assert signal.getsignal(signal.SIGINT) is before


def test_parallel_and_serial_agree(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "parallel.sqlite"
    seen = []
    assert run(plan(**SMALL), path, jobs=2, data_home=DATA, progress=seen.append) == []
    assert findings(path) == findings(small)
    assert [p.done for p in seen] == list(range(31))
    assert seen[-1].share == pytest.approx(1)
    assert seen[-1].seconds_left == pytest.approx(0)


def test_killed_and_continued(small: Path, tmp_path: Path) -> None:
    """After SIGKILL in the middle of a run, the same call gives the same table as an undisturbed run."""
    path = tmp_path / "killed.sqlite"
    code = (
        "import os, signal\n"
        "from paper import plan, run\n"
        "def progress(state):\n"
        "    if state.done == 3:\n"
        "        os.killpg(0, signal.SIGKILL)\n"
        f"run(plan(**{SMALL!r}), {str(path)!r}, jobs=2, data_home={str(DATA)!r}, progress=progress)"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, start_new_session=True)
    assert process.returncode == -signal.SIGKILL
    with Results(path, readonly=True) as results:
        assert len(results.cells()) == 3
    assert run(plan(**SMALL), path, jobs=1, data_home=DATA) == []
    assert findings(path) == findings(small)
    made = []
    for file in (path, small):
        with Results(file, readonly=True) as results:
            made.append([table for table in all_tables(Summary(results.cells(), "converged"))])
            assert len(results.runs()) >= 1
    assert made[0] == made[1]


def test_a_cell_that_fails_is_reported_and_tried_again(tmp_path: Path, monkeypatch) -> None:
    cells = plan(datasets=["sonar"], methods=["SVM", "SparseKLR"], folds=[0])

    def fail(cell: Cell, data: object) -> dict:
        if cell.method == "SVM":
            raise RuntimeError("out of luck")
        return compute(cell, data)

    monkeypatch.setattr(RUN_MODULE, "compute", fail)
    path = tmp_path / "r.sqlite"
    (failure,) = run(cells, path, jobs=1, data_home=DATA)
    assert failure.cell.method == "SVM"
    assert "out of luck" in failure.reason
    assert "Traceback" in failure.trace
    monkeypatch.undo()
    assert run(cells, path, jobs=1, data_home=DATA) == []
    assert len(findings(path)) == 2


def test_missing_data_is_an_error_before_the_run(tmp_path: Path, monkeypatch) -> None:
    from paper.datasets import DatasetNotFoundError

    def absent(name: str, **options: object) -> None:
        raise DatasetNotFoundError(f"data set {name!r} not found")

    monkeypatch.setattr(RUN_MODULE, "load_benchmark", absent)
    with pytest.raises(DatasetNotFoundError, match="banknote"):
        run(plan(datasets=["banknote"], methods=["SVM"]), tmp_path / "r.sqlite", jobs=1)


def test_dask_cluster_that_loses_a_worker(small: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra sparseklr[dask] is not installed")
    path, killed = tmp_path / "dask.sqlite", []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:

        def progress(state: object) -> None:
            if state.done == 2 and not killed:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)

        address = cluster.scheduler_address
        assert run(plan(**SMALL), path, scheduler=address, data_home=DATA, progress=progress) == []
    assert killed
    assert findings(path) == findings(small)


# -- tables -----------------------------------------------------------------------------------


def test_paper_numbers_have_the_printed_means() -> None:
    def means(table: dict, k: int) -> list[float]:
        return [float(np.mean([row[k] for row in column.values()])) for column in table.values()]

    close = {"abs": 6e-4}
    assert means(published.TABLE_2, 0) == pytest.approx(
        [0.926, 0.925, 0.688, 0.867, 0.849, 0.905, 0.926], **close
    )
    assert means(published.TABLE_2, 1) == pytest.approx(
        [0.331, 0.422, 0.150, 0.671, 0.056, 0.268, 0.288], **close
    )
    assert means(published.TABLE_3, 0) == pytest.approx([0.913, 0.918, 0.925], **close)
    assert means(published.TABLE_3, 1) == pytest.approx([0.917, 0.852, 0.422], **close)
    assert means(published.TABLE_5, 0) == pytest.approx([0.927, 0.929, 0.9303, 0.9315], **close)
    assert means(published.TABLE_5, 1) == pytest.approx([0.297, 0.4651, 0.304, 0.4164], abs=2e-3)
    assert np.mean(list(published.TABLE_4.values()), axis=0) == pytest.approx([17.23, 15.13], abs=0.01)


def test_tables_of_results(small: Path) -> None:
    with Results(small, readonly=True) as results:
        summary = Summary(results.cells(), "converged")
    made = {table.name: table for table in all_tables(summary)}
    assert {"table-1", "table-2-accuracy", "table-2-share", "table-2-log-loss", "ties"} <= set(made)
    assert "table-4" not in made  # S-KLR-1ord was not run
    accuracy = made["table-2-accuracy"]
    assert [name for name, _ in accuracy.rows] == ["monk2", "sonar", "mean"]
    column = accuracy.columns.index("SVM, best")
    folds = summary.folds("sonar", "SVM", "best", "accuracy")
    value = dict(accuracy.rows)["sonar"][column]
    assert value.ours == pytest.approx(folds.mean())
    assert value.paper == 0.851
    assert dict(accuracy.rows)["mean"][column].paper == pytest.approx((0.851 + 0.976) / 2)
    for _, values in accuracy.rows:
        best = max(round(v.ours, 3) for v in values)
        assert [v.best for v in values] == [round(v.ours, 3) == best for v in values]
    rows = dict(means(summary).rows)
    for label, name, rule in (("SparseKLR", "SparseKLR", "best"), ("S-KLR, best", "S-KLR", "best")):
        losses = [summary.value(dataset, name, rule, "log_loss") for dataset in summary.datasets]
        assert rows[label][3].ours == pytest.approx(np.mean(losses))
    assert Summary([], "as-printed").datasets == []


def test_rendering() -> None:
    values = [Value(0.9351, 0.935, best=True), Value(float("nan"), 0.5), Value(12345.6), Value(0.9, 0.85)]
    table = Table("t", "A & B", ("a_1", "b", "c", "d"), [("x", values), ("mean", values)], "50% <of> it")
    assert shown(values[0]) == "0.935 (0.935, 0.000)"
    assert shown(values[1]) == "- (0.500)"
    assert shown(values[3]) == "0.900 (0.850, +0.050)"
    markdown = to_markdown(table)
    assert "| x | **0.935 (0.935, 0.000)** | - (0.500) | 12,346 |" in markdown
    assert markdown.endswith("50% <of> it\n")
    latex = to_latex(table)
    assert r"a\_1" in latex
    assert r"A \& B. 50\% <of> it" in latex
    assert latex.count(r"\midrule") == 2
    html = to_html(table)
    assert "A &amp; B" in html
    assert "50% &lt;of&gt; it" in html
    assert html.count("<tr") == 3
    pytest.importorskip("rich")
    assert to_rich(table).row_count == 2
    assert [column.header for column in to_rich(table, split=True).columns] == [
        "", "a_1", "paper", "b", "paper", "c", "d", "paper"
    ]  # fmt: skip


def test_every_set_has_the_papers_numbers() -> None:
    for table in (published.TABLE_2, published.TABLE_3, published.TABLE_5):
        for column, rows in table.items():
            assert column[0] in METHODS
            assert set(rows) == set(BENCHMARKS)
