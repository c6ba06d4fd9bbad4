"""Fits do not depend on the order of features or on rounding; wide rows are fitted in their span."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from sparseklr import CompactKLR
from sparseklr.compact.fit import fit_compact
from sparseklr.compact.model import cluster_centres
from sparseklr.compact.rows import LabelledRows, Observations, Rotation, canonical_features
from sparseklr.compact.size_search import CompactSettings
from sparseklr.scaling import rank_knots

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_permuted_features_permute_the_model(load) -> None:
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(X.shape[1])
    one, other = CompactKLR().fit(X, y), CompactKLR().fit(X[:, order], y)
    np.testing.assert_array_equal(one.points_[:, order], other.points_)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X[:, order]))


def test_noise_of_the_size_of_rounding_does_not_change_the_fit() -> None:
    """This holds even if a skewed feature has equal values, which noise must not spread over many ranks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[:, 2] = np.where(rng.random(300) < 0.5, -0.3, np.exp(2 * X[:, 2]))
    y = X[:, 0] + (X[:, 2] > 0) + rng.normal(size=300) > 0.5
    noisy = X * (1 + 1e-9 * rng.normal(size=X.shape))
    one, other = CompactKLR().fit(X, y), CompactKLR().fit(noisy, y)
    assert one.scaling_.knots
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_noise_on_equal_rows_does_not_change_the_fit() -> None:
    """Rows that differ only by rounding errors count as one row, like equal rows."""
    rng = np.random.default_rng(0)
    X = rng.integers(4, size=(200, 3)) / 3
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=200) > 0.8
    noisy = X * (1 + 1e-9 * rng.normal(size=X.shape))
    one, other = CompactKLR().fit(X, y), CompactKLR().fit(noisy, y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_the_seed_does_not_matter_for_rows_in_memory() -> None:
    X, y = load_wine(return_X_y=True)
    one, other = CompactKLR().fit(X, y), CompactKLR(random_state=1).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_nearly_equal_values_have_one_rank() -> None:
    x = np.array([1.0, 1.0 + 1e-9, 2.0, 2.0, 5.0])
    knots, values = rank_knots(x, np.ones(5))
    np.testing.assert_array_equal(knots, [1.0, 2.0, 5.0])
    np.testing.assert_array_equal(values, rank_knots(np.array([1.0, 1, 2, 2, 5]), np.ones(5))[1])


def test_canonical_features_ignore_positions_and_constant_features() -> None:
    rng = np.random.default_rng(0)
    X, codes, weight = rng.normal(size=(40, 6)), rng.integers(2, size=40), np.ones(40)
    X[:, 3] = 7.0
    order = rng.permutation(6)
    one = canonical_features(X, codes, weight, 2)
    other = order[canonical_features(X[:, order], codes, weight, 2)]
    np.testing.assert_array_equal(one, other)
    assert sorted(one) == [0, 1, 2, 4, 5]


def test_features_with_equal_means_are_told_apart_by_their_rows() -> None:
    """Each class has the same number of ones in every feature; repeated rows change nothing."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 20)
    X = (
        np.stack([np.concatenate([rng.permutation(20) < 8 for _ in range(2)]) for _ in range(5)], axis=1)
        * 1.0
    )
    order, rows = rng.permutation(5), np.concatenate([rng.permutation(40), np.arange(40)])
    one = canonical_features(X, codes, np.ones(40), 2)
    other = order[canonical_features(X[:, order][rows], codes[rows], np.ones(80), 2)]
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, np.arange(5))


def test_clusters_do_not_depend_on_the_order_of_rows_or_features() -> None:
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(60, 4)), rng.uniform(1, 2, size=60)
    rows, features = rng.permutation(60), rng.permutation(4)
    one = cluster_centres(X, weight, 7)
    other = cluster_centres(X[rows][:, features], weight[rows], 7)
    np.testing.assert_allclose(one[:, features], other, atol=1e-9)


def test_separated_clusters_are_found() -> None:
    means = 10.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    X = np.repeat(means, 25, axis=0) + np.random.default_rng(0).normal(size=(100, 2))
    centres = cluster_centres(X, np.ones(100), 4)
    expected = X.reshape(4, 25, 2).mean(axis=1)
    np.testing.assert_allclose(centres[np.lexsort(np.rint(centres / 10).T[::-1])], expected, atol=1e-9)


def test_rotation_changes_coordinates_only() -> None:
    """The fit in the span of the rows equals the one in all features with a shared width."""
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1], 10).astype(np.int32)
    X = rng.normal(size=(20, 250)) + 0.5 * label[:, None]
    rows = LabelledRows(X, label, np.ones(20), 2)
    rotation, rotated = Rotation.of(rows)
    gram = rotated.X @ rotated.X.T / rotation.scale**2
    np.testing.assert_allclose(gram, X @ X.T, atol=1e-9)
    settings = CompactSettings(n_points=2, C=10.0, shared=True)
    wide = fit_compact(rows, settings, Observations.single(20)).model
    assert wide.points.shape == (2, 250)
    # ten times the rows, each a tenth of the weight: now not rotated
    many = LabelledRows(np.repeat(X, 10, axis=0), np.repeat(label, 10), np.full(200, 0.1), 2)
    plain = fit_compact(many, settings, Observations.single(200)).model
    outputs = [model.outputs(rows.compiled(single=False)) for model in (wide, plain)]
    np.testing.assert_allclose(*outputs, atol=1e-2)
