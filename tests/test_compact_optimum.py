"""The fit to all rows ends in an optimum that is no worse than those of the folds, or fit warns."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from sparseklr import CompactKLR
from sparseklr.compact.all_rows import AllRows, Candidate, Fitted, Plan
from sparseklr.compact.objective import CompactModel
from sparseklr.compact.rows import LabelledRows
from sparseklr.compact.start import started

pytestmark = pytest.mark.numerical


def test_a_fit_to_all_rows_is_as_good_as_those_of_the_folds() -> None:
    """The ninth digit of the features decided about a test loss of 0.23 or 0.33."""
    X, y = make_moons(300, noise=0.3, random_state=0)
    new, labels = make_moons(5000, noise=0.3, random_state=100)
    losses = []
    for seed in range(6):
        noisy = X * (1 + 1e-9 * np.random.default_rng(seed).normal(size=X.shape))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = CompactKLR().fit(noisy, y)
        assert log_loss(y, model.predict_proba(noisy)) <= model.held_out_log_loss_
        losses.append(log_loss(labels, model.predict_proba(new)))
    assert max(losses) <= 1.15 * min(losses)


def rows_of_moons() -> LabelledRows:
    X, y = make_moons(300, noise=0.3, random_state=0)
    return LabelledRows(X.astype(np.float32), y.astype(np.int32), np.ones(300), 2)


def far_away(model: CompactModel) -> CompactModel:
    """Points at which the kernel of every row is zero: moves lead nowhere."""
    return replace(model, points=model.points + 1e3)


def test_a_fresh_fit_above_the_median_of_the_folds_is_replaced() -> None:
    rows = rows_of_moons()
    start = started(rows, 4, np.zeros(2))
    plan = Plan(4, 10.0, moved_at=(10.0, 10.0), start=start)
    good = AllRows(rows, plan, shared=False, threads=1).fresh()
    bad = Candidate(np.arange(2), far_away(start))
    folds = (bad, good.candidate, good.candidate)
    lost = AllRows(rows, replace(plan, start=far_away(start), validated=folds), shared=False, threads=1)
    assert lost.fresh().value > 1.5 * good.value
    assert lost.typical().value <= good.value
    assert lost.best().value <= good.value
    sound = AllRows(rows, replace(plan, validated=(bad, bad, good.candidate)), shared=False, threads=1)
    np.testing.assert_array_equal(sound.typical().candidate.model.points, good.candidate.model.points)


def lose(fit: AllRows) -> Fitted:
    """A fit in the worst of optima."""
    model = far_away(fit.plan.validated[0].model)
    return Fitted(Candidate(np.arange(2), model), np.inf, 0)


def test_a_training_loss_above_the_validation_loss_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_moons(300, noise=0.3, random_state=0)
    plain = CompactKLR().fit(X, y)
    monkeypatch.setattr(AllRows, "typical", lose)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        repaired = CompactKLR().fit(X, y)
    assert log_loss(y, repaired.predict_proba(X)) <= 1.05 * log_loss(y, plain.predict_proba(X))


def test_a_poor_optimum_that_cannot_be_repaired_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_moons(300, noise=0.3, random_state=0)
    monkeypatch.setattr(AllRows, "typical", lose)
    monkeypatch.setattr(AllRows, "best", lose)
    with pytest.warns(UserWarning, match=r"exceeds the validation log-loss.*random_state or n_points"):
        CompactKLR().fit(X, y)


def test_the_features_of_a_fold_come_with_its_points() -> None:
    """relevance="sparse": a model that starts from a fold has the features of that fold."""
    X, y = make_moons(300, noise=0.3, random_state=0)
    X = np.column_stack([np.random.default_rng(0).normal(size=(300, 4)), X])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AllRows, "typical", AllRows.best)
        model = CompactKLR(relevance="sparse").fit(X, y)
    assert set(model.get_support(indices=True)) >= {4, 5}
    assert log_loss(y, model.predict_proba(X)) <= model.held_out_log_loss_
