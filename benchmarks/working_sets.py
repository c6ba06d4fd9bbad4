"""Number of pair steps to convergence for each working-set rule, on the 12 sets.

Features are in [0, 1], the kernel is rbf with gamma = 0.5, and the tolerance is the default. One setting of C and lam
gives sparse models, and the other gives dense models.
"""

from __future__ import annotations

import argparse

from sparseklr import SKLR

from .common import NAMES, load, show

RULES = ("first-order", "second-order", "mixed")
REGIMES = ((1e4, 1e3), (100.0, 10.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(NAMES))
    sets = parser.parse_args().sets
    for C, lam in REGIMES:
        rows, fewer = [], 0
        for name in sets:
            X, y = load(name)
            steps = {}
            for rule in RULES:
                model = SKLR(C, lam=lam, gamma=0.5, working_set=rule, calibration=None)
                steps[rule] = model.fit(X, y).n_iter_
            fewer += steps["second-order"] < steps["first-order"]
            rows.append([name, *steps.values(), steps["second-order"] / steps["first-order"]])
        title = f"pair steps, C={C:g}, lam={lam:g}: second-order needs fewer on {fewer} of {len(sets)} sets"
        show(title, ["set", *RULES, "second / first"], rows)


if __name__ == "__main__":
    main()
