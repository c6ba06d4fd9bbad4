"""The floating search of the Import Vector Machine, which drops points again."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

from sparseklr.baselines import ImportVectorMachine
from sparseklr.baselines.import_vector import Machine

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("update", ["converged", "one-step"])
def test_floating_search_ends(monkeypatch, update) -> None:
    """With one random candidate at a time nearly every smaller set could be bettered again.

    As many points are dropped as there are distinct rows at most, so twice as many are added, and after each
    addition one attempt may fail.
    """
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (100, 4)).astype(float), rng.integers(0, 2, 100)
    n_rows, attempts, without = len(np.unique(X, axis=0)), [], Machine.without

    def counted(self: Machine, *args: object) -> Machine:
        attempts.append(len(self.chosen))
        assert len(attempts) <= 3 * n_rows
        return without(self, *args)

    monkeypatch.setattr(Machine, "without", counted)
    model = ImportVectorMachine(200.0, epsilon=0, n_candidates=1, backward=True, update=update).fit(X, y)
    assert len(attempts) > n_rows / 2
    assert (np.diff(model.objective_path_) <= 0).all()


def test_floating_search_remembers_the_best_of_every_size(monkeypatch) -> None:
    """A point is dropped only if what is left is better than every set of that size before."""
    seen: list[tuple[int, float]] = [(0, np.inf)]
    n_dropped = 0

    def watch(name: str) -> None:
        method = getattr(Machine, name)

        def watched(self: Machine, *args: object) -> object:
            nonlocal n_dropped
            n = len(self.chosen)
            if n < seen[-1][0]:
                n_dropped += 1
                assert self.objective < min(value for size, value in seen if size == n)
            seen.append((n, self.objective))
            return method(self, *args)

        monkeypatch.setattr(Machine, name, watched)

    watch("join")
    watch("without")
    ImportVectorMachine(200.0, epsilon=0, n_candidates=1, backward=True, max_points=15).fit(
        *make_moons(120, noise=0.25, random_state=0)
    )
    assert n_dropped > 10
