"""Number of rows that S-KLR keeps on the grid of the paper, compared with predictions from nine SVMs.

``python -m benchmarks.sparsity`` measures the numbers, writes ``docs/results/sparsity.csv`` and the table of
``docs/method/sparsity.md``, and draws the figure of this page; ``--draw`` does not measure.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from paper.protocol import CS, GAMMA, RATIOS
from sparseklr import klr_path
from sparseklr.dual import support_band

from .common import NAMES, load
from .sources import at_start
from .store import RESULTS, ROOT, store

ROWS = 1000  # at most, stratified
PAPER_BOUND = 1e-5
FILE = RESULTS / "sparsity.csv"
FIGURE = ROOT / "docs" / "sparsity.png"
COLUMNS = ("set", "bound", "C", "lam", "rows", "kept", "formula", "svm_support", "predicted")
BOUNDS = {"1e-9 C": None, "1e-5": PAPER_BOUND}
NOTE = (
    "S-KLR was fitted to at most 1,000 rows of each data set, with the paper's grid of (C, lam) "
    "and two lower bounds b, 1e-9 C (the default) and 1e-5 (as in the paper). *Formula* is the "
    "largest difference between the number of kept rows and the number of rows with y f < lam + "
    "w. *Sparse fits* is the number of fits with lam > 0 that drop at least one row. The last "
    "three columns refer to these fits: an error is the difference between the number of kept "
    "rows and its prediction by a support vector machine, as a fraction of the rows."
)


def measure(name: str) -> list[list[Any]]:
    """Return one line of the file for each bound and each pair (C, lam) of the grid of the paper."""
    X, codes = load(name)
    if len(X) > ROWS:
        X, _, codes, _ = train_test_split(X, codes, train_size=ROWS, stratify=codes, random_state=0)
    y = np.where(codes == 1, 1, -1)
    # f / lam is nearly an SVM with parameter C / lam, which has nine values on the grid
    machines = {ratio: SVC(C=1 / ratio, gamma=GAMMA).fit(X, y) for ratio in RATIOS[1:]}
    margins = {ratio: y * machine.decision_function(X) for ratio, machine in machines.items()}
    rows = []
    for label, bound in BOUNDS.items():
        smallest = 0 if bound is None else 1e-3  # with a smaller C, the bound of the paper may be infeasible
        Cs = CS[0.99 * smallest <= CS]
        path = klr_path(X, y, Cs=Cs, lams=RATIOS, lam_scale="ratio", gamma=GAMMA, tol=1e-5, bound=bound)
        for (i, j), solution in np.ndenumerate(path.solutions[..., 0]):
            C, lam, ratio = Cs[i], Cs[i] * RATIOS[j], RATIOS[j]
            upper = support_band(C, lam, bound)[1]
            formula = int((y * solution.decision < upper).sum())
            support = len(machines[ratio].support_) if lam else ""
            predicted = int((margins[ratio] < upper / lam).sum()) if lam else ""
            found = (len(solution.support), formula, support, predicted)
            rows.append([name, label, f"{C:g}", f"{lam:.4g}", len(y), *found])
    return rows


def stored() -> list[dict[str, Any]]:
    with FILE.open(newline="") as file:
        return list(csv.DictReader(file))


def table(lines: list[dict[str, Any]]) -> list[list[Any]]:
    """Return a table with one row for each set: errors of the formula and of the prediction."""
    rows = []
    for name in NAMES:
        own = [line for line in lines if line["set"] == name]
        n = int(own[0]["rows"])
        kept, formula = (np.array([int(line[key]) for line in own]) for key in ("kept", "formula"))
        sparse = [line for line in own if line["predicted"] and int(line["kept"]) < n]
        error = np.abs([int(line["predicted"]) - int(line["kept"]) for line in sparse]) / n
        mean, within, largest = error.mean(), np.mean(error <= 0.02), error.max()
        worst = int(np.abs(kept - formula).max())
        rows.append([name, n, len(own), worst, len(sparse), *(f"{x:.3f}" for x in (mean, largest, within))])
    return rows


def draw(lines: list[dict[str, Any]]) -> None:
    """Draw the observed against the predicted fractions, with one panel for each set, coloured by C."""
    plt.rcParams.update({"font.size": 10, "svg.hashsalt": "sparsity"})
    figure, axes = plt.subplots(3, 4, figsize=(8.4, 7), sharex=True, sharey=True, layout="constrained")
    colours = plt.get_cmap("viridis")
    shades = {f"{C:g}": colours(k / (len(CS) - 1)) for k, C in enumerate(CS)}
    for ax, name in zip(axes.flat, NAMES, strict=True):
        ax.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
        for label, marker in zip(BOUNDS, "o^", strict=True):
            own = [x for x in lines if x["set"] == name and x["bound"] == label and x["predicted"]]
            found, predicted = ([int(x[key]) / int(x["rows"]) for x in own] for key in ("kept", "predicted"))
            ax.scatter(
                predicted,
                found,
                s=20,
                marker=marker,
                c=[shades[x["C"]] for x in own],
                edgecolors="white",
                lw=0.4,
            )
        ax.set_title(name, fontsize=10)
        ax.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    handles = [
        plt.Line2D([], [], ls="", marker="s", color=shades[f"{C:g}"], label=f"C = {C:,g}") for C in CS[4:]
    ]
    handles += [
        plt.Line2D([], [], ls="", marker=marker, color="0.4", label=f"bound {label}")
        for label, marker in zip(BOUNDS, "o^", strict=True)
    ]
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=len(handles),
        frameon=False,
        handletextpad=0.2,
        columnspacing=1,
        fontsize=9,
    )
    figure.supxlabel("fraction predicted from a support vector machine")
    figure.supylabel("fraction of the rows that S-KLR keeps")
    figure.savefig(FIGURE, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="only draw and tabulate stored results")
    only_draw = parser.parse_args().draw
    if not only_draw:
        at_start("sparsity")
        warnings.simplefilter("ignore")  # margins of the grid at which all rows are saturated
        with FILE.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for name in NAMES:
                writer.writerows(measure(name))
                file.flush()
    lines = stored()
    heads = [
        "data set",
        "rows",
        "fits",
        "formula",
        "sparse fits",
        "mean error",
        "largest error",
        "errors below 0.02",
    ]
    store("sparsity", "python -m benchmarks.sparsity", NOTE, heads, table(lines), None if only_draw else ())
    draw(lines)


if __name__ == "__main__":
    main()
