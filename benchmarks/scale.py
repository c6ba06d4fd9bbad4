"""Many rows: time, memory and log-loss of CompactKLR and of rivals on data whose best log-loss is known.

    python -m benchmarks.scale million          10^6 rows of four generators, with rivals
    python -m benchmarks.scale growth           10^5, 10^6 and 10^7 rows from Parquet: time, memory, exponent
    python -m benchmarks.scale cluster          two workers of a Dask cluster against threads
    python -m benchmarks.scale lost             a worker killed; a fit killed and continued from its checkpoint
    python -m benchmarks.scale predict          10^7 rows from Parquet to Parquet
    python -m benchmarks.scale show [--docs]    the table; --docs writes docs/scale.md

Every measurement runs in a process of its own and is stored in ``scale.json`` of ``--folder`` as soon as it is
there; a command that was interrupted goes on with what is missing. Log-losses are expected ones: the true
probabilities of 200 000 fresh rows against those of the model, so that there is no noise of labels. ``--rows``
scales everything down for a trial run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .common import show

ROOT = Path(__file__).resolve().parents[1]
BAYES = {"ring": 1.02, "twonorm": 1.02, "waveform": 1.02, "clusters": 1.05}  # the ratio that is asked for
RIVALS = ("HistGradientBoosting", "Nystroem 300 + logistic", "RBFSampler 300 + SGD")


# -- running and showing ---------------------------------------------------------------------------


class Store:
    """Results by key, on disk."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scale.json"
        self.results: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}

    def run(self, measure: str, **arguments: Any) -> dict[str, Any]:
        """What is stored, or what a process of its own measures now."""
        told = {name: value for name, value in arguments.items() if name != "folder"}
        key = f"{measure} {json.dumps(told)}"
        if key not in self.results:
            program = (
                "import json, sys; from benchmarks.scale_measures import MEASURES; "
                "measure, arguments = json.loads(sys.argv[1]); "
                "print('RESULT', json.dumps(MEASURES[measure](**arguments)))"
            )
            done = subprocess.run(
                [sys.executable, "-c", program, json.dumps([measure, arguments])],
                cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
            )  # fmt: skip
            line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
            self.results[key] = {"measure": measure, **told, **json.loads(line.removeprefix("RESULT "))}
            temporary = self.file.with_suffix(".new")
            temporary.write_text(json.dumps(self.results, indent=1))
            temporary.replace(self.file)
        print(key, {k: v for k, v in self.results[key].items() if k not in told}, flush=True)
        return self.results[key]

    def of(self, measure: str) -> list[dict[str, Any]]:
        return [result for result in self.results.values() if result["measure"] == measure]


def million(store: Store, rows: int, folder: str) -> None:
    for name in BAYES:
        for rival in ("CompactKLR", *RIVALS):
            store.run("million", name=name, rival=rival, n=rows)


def growth(store: Store, rows: int, folder: str) -> None:
    for name in ("ring", "waveform"):  # a model of two points, and one of many
        for n in (rows // 10, rows, 10 * rows):
            store.run("growth", name=name, n=n, folder=folder)


def cluster(store: Store, rows: int, folder: str) -> None:
    for name in ("ring", "waveform"):
        store.run("cluster", name=name, n=rows, folder=folder)


def lost(store: Store, rows: int, folder: str) -> None:
    store.run("dead worker", name="waveform", n=rows, folder=folder)
    store.run("killed fit", name="waveform", n=rows, folder=folder)


def predict(store: Store, rows: int, folder: str) -> None:
    for n in (rows, 10 * rows):
        store.run("predict", name="ring", n=n, folder=folder)


def table(store: Store) -> list[list[Any]]:
    """Rows: what, value, what was asked for."""
    out: list[list[Any]] = []
    by_name: dict[str, dict[str, Any]] = {}
    for result in store.of("million"):
        by_name.setdefault(result["name"], {})[result["rival"]] = result
    for name, found in by_name.items():
        if (ours := found.get("CompactKLR")) is None:
            continue
        out.append(
            [f"{name}, {ours['n']:.0e} rows: seconds ({ours['points']} points)", ours["seconds"], "<= 60"]
        )
        out.append([f"{name}: log-loss / best possible", ours["ratio"], f"<= {BAYES[name]}"])
        for rival in RIVALS:
            if rival in found:
                text = f"{name}: log-loss / best possible of {rival} ({found[rival]['seconds']:.0f} s)"
                out.append([text, found[rival]["ratio"], "higher"])
    for name in BAYES:
        runs = sorted((r for r in store.of("growth") if r["name"] == name), key=lambda r: r["n"])
        for run in runs:
            text = f"{name}, {run['n']:.0e} rows from Parquet: seconds / MB above the interpreter"
            out.append([text, f"{run['seconds']:.1f} / {run['peak_mb']:.0f}", "MB <= 1500"])
        if len(runs) > 1:
            exponent = np.polyfit(np.log([r["n"] for r in runs]), np.log([r["seconds"] for r in runs]), 1)[0]
            out.append([f"{name}: growth exponent", float(exponent), "<= 1.05"])
            out.append(
                [
                    f"{name}: time of the last over that of the one before",
                    runs[-1]["seconds"] / runs[-2]["seconds"],
                    "<= 10",
                ]
            )
    for run in store.of("cluster"):
        out.append([f"{run['name']}: two Dask workers over two threads, time", run["slower"], "<= 1.5"])
        out.append(
            [f"{run['name']}: largest relative difference of the models", run["difference"], "<= 1e-8"]
        )
    for run in store.of("dead worker"):
        out.append(["a worker killed in the middle: difference of the models", run["difference"], "<= 1e-8"])
    for run in store.of("killed fit"):
        out.append(["a fit killed and continued: difference of the models", run["difference"], "0"])
    for run in store.of("predict"):
        text = f"predict {run['n']:.0e} rows, Parquet to Parquet: million rows/s / MB"
        out.append([text, f"{run['rows_per_second'] / 1e6:.2f} / {run['peak_mb']:.0f}", ">= 1"])
    return out


PAGE = """# Measured: many rows

`CompactKLR` on data drawn from known densities, so that the log-loss of the best possible classifier is known: ring,
twonorm and waveform (class 1 against the others) of Breiman, and a mixture of 24 clusters in 20 features. All log-losses
are expected ones: the true probabilities of 200 000 fresh rows against those of the model. Two cores, one run each.
The rivals have the parameters of `benchmarks/scale_measures.py`. [How far does it go](how_far.md) explains the
figures; `python -m benchmarks.scale all` measures them again.

{table}

## What limits the mixture

Every cluster has standard deviations of its own in all 20 features, and the centres differ in six of them. With its true
densities, the other 14 features left out, the log-loss is 1.065 of the best possible, and with common instead of own
standard deviations 1.101. Widths that all points share cannot say that one cluster is wider than another in a feature
of noise; many points together can, at a price. So the model is near what these six features allow. 128 points that move
in all 20 features came to 1.091 in 25 steps on 300 000 rows, 128 that move in the six to 1.095 in 20 steps on 10^6
rows, each step at a third of the cost.

A prototype with 48 points shows what other widths would give. Fitted to the true probabilities of 100 000 rows, all
parameters together in 40 steps of Gauss and Newton, it comes to 1.094 with shared widths, to 1.079 with a factor on them
for each point, and to 1.033 with widths of its own for each point and feature. The last, fitted to the labels of 500 000
rows, has 1.043 after 15 steps, with twice the parameters. On real data a factor for each point did not help: fits that were
moved on for 40 iterations of L-BFGS without and with it, all else the same, have log-losses of 0.312 and 0.313 on magic,
0.151 and 0.145 on spambase (0.142 before), 0.44 and 0.48 on sonar (0.26 before) and 0.22 and 0.25 on ionosphere (0.16
before); magic and spambase with 3000 rows in three folds, the others in five. So `CompactKLR` has neither.
"""


def write_docs(rows: list[list[Any]]) -> None:
    lines = ["| what | measured | asked for |", "|---|---|---|"]
    lines += [
        f"| {what} | {f'{value:.4g}' if isinstance(value, float) else value} | {bar} |"
        for what, value, bar in rows
    ]
    (ROOT / "docs" / "scale.md").write_text(PAGE.format(table="\n".join(lines)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = {"million": million, "growth": growth, "cluster": cluster, "lost": lost, "predict": predict}
    parser.add_argument("command", choices=[*commands, "all", "show"])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "sparseklr-scale")
    parser.add_argument("--docs", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    store = Store(arguments.folder)
    if arguments.command != "show":
        for name, command in commands.items():
            if arguments.command in (name, "all"):
                command(store, arguments.rows, str(arguments.folder))
    rows = table(store)
    show("Many rows", ["what", "measured", "asked for"], rows)
    if arguments.docs:
        write_docs(rows)


if __name__ == "__main__":
    main()
