"""Equal rows: independent observations in tables of few categories, copies where rows were repeated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from support.standins import arena_table, needs_arena

from sparseklr import SparseKLR
from sparseklr.refit.copies import labels_agree

pytestmark = pytest.mark.numerical


def test_a_single_binary_feature_is_learned() -> None:
    """Leaving out whole distinct points would give 0.693, the log-loss of the class fractions."""
    losses = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 2, 7000)
        y, X = rng.random(7000) < np.where(x == 1, 0.8, 0.2), x[:, None].astype(float)
        losses.append(
            [
                log_loss(y[2000:], model.fit(X[:2000], y[:2000]).predict_proba(X[2000:]))
                for model in (SparseKLR(), LogisticRegression())
            ]
        )
    ours, logistic = np.mean(losses, axis=0)
    assert ours <= 1.01 * logistic


@pytest.mark.parametrize("n", [6, 20, 200, 2000])
def test_a_feature_that_is_the_label(n: int) -> None:
    x = np.arange(n) % 2
    model = SparseKLR().fit(x[:, None].astype(float), x)
    no, yes = model.predict_proba([[0.0], [1.0]])[:, 1]
    assert no < 0.1
    assert yes > 0.9
    assert model.loo_log_loss_ < 0.2


@needs_arena
@pytest.mark.parametrize(("name", "most"), [("titanic", 0.49), ("led7digit", 0.92)])
def test_tables_of_few_categories(name: str, most: float) -> None:
    X, y = arena_table(name)
    losses = []
    for seed in range(4):
        A, B, a, b = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
        losses.append(log_loss(b, SparseKLR().fit(A, a).predict_proba(B)))
    assert np.mean(losses) <= most


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [300, 1000])
def test_repeated_rows_are_copies(n: int, seed: int) -> None:
    X, y = make_moons(n + 3000, noise=0.3, random_state=seed)
    (A, a), (B, b) = (X[:n], y[:n]), (X[n:], y[n:])

    def loss(rows: np.ndarray, weight: np.ndarray | None = None) -> float:
        return log_loss(b, SparseKLR().fit(A[rows], a[rows], sample_weight=weight).predict_proba(B))

    once = np.arange(n)
    plain = loss(once)
    assert loss(np.repeat(once, 10)) <= 1.02 * plain
    assert loss(once, np.full(n, 10.0)) <= 1.02 * plain
    # a minority that was oversampled, and the same with weights that are no numbers of copies
    rare = once[(a == 0) | (once % 10 == 0)]
    weight = np.where(a[rare] == 1, 10.0, 1.0)
    uneven = weight * (1 + 1e-6 * np.random.default_rng(0).random(len(rare)))
    assert loss(np.repeat(rare, weight.astype(int))) <= 1.05 * loss(rare, uneven)


def test_class_weight_leaves_rows_single_observations() -> None:
    """Rows of a class that weighs nine times as much are not nine observations each."""
    X, y = make_moons(1000, noise=0.4, random_state=0)
    keep = (y == 0) | (np.arange(1000) % 9 == 0)
    model = SparseKLR(class_weight="balanced").fit(X[keep], y[keep])
    X, y = make_moons(4000, noise=0.4, random_state=1)
    assert log_loss(y, model.predict_proba(X)) < 0.45
    assert model.loo_log_loss_ == pytest.approx(log_loss(y, model.predict_proba(X)), rel=0.35)


def test_labels_agree_only_if_significantly_more_often() -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=200)
    independent = np.array([rng.multinomial(4, p) for p in P])
    copied = 4 * np.array([rng.multinomial(1, p) for p in P])
    assert not labels_agree(independent, P)
    assert labels_agree(copied, P)
    assert not labels_agree(copied[:2], P[:2])  # too few
    certain = np.eye(3)[copied.argmax(axis=1)] * 0.999 + 0.0005
    assert not labels_agree(copied, certain)  # labels predicted with certainty do not distinguish the cases


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_variance_of_the_pairs_that_differ(n: int, p: float) -> None:
    """The formula of the module agrees with an enumeration of the binomial distribution."""
    k = np.arange(n + 1)
    pairs, mass = k * (n - k), binom.pmf(k, n, p)
    variance = mass @ pairs**2 - (mass @ pairs) ** 2
    q = 1 - p
    moments = n * (n - 1) * p * q * (1 + (n - 2) * (1 + (n - 3) * p * q) - n * (n - 1) * p * q)
    assert moments == pytest.approx(variance)
