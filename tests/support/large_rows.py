"""Data large enough to be streamed, and the comparison of two models fitted to them."""

import numpy as np

N = 12_000
FITTED = ("points_", "dual_coef_", "intercept_", "relevance_", "feature_importances_")


def assert_same(model, other):
    assert model.n_points_ == other.n_points_
    np.testing.assert_array_equal(model.classes_, other.classes_)
    for name in FITTED:
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name))
