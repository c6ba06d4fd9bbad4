"""SKLRCV and metadata: groups for the splitter, weights for the scorer, with and without routing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_moons
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import accuracy_score, get_scorer, make_scorer
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import SKLR, SKLRCV

X, y = make_moons(120, noise=0.3, random_state=0)
GROUPS = np.repeat(np.arange(12), 10)
WEIGHT = np.random.default_rng(0).uniform(0.5, 2.0, 120)
OPTIONS = {"Cs": [1.0, 10.0], "lams": [0.1], "estimator": SKLR(calibration=None)}


@pytest.fixture(params=[False, True], ids=["plain", "routing"])
def routing(request) -> Iterator[bool]:
    with sklearn.config_context(enable_metadata_routing=request.param):
        yield request.param


def by_hand(cv, groups) -> np.ndarray:
    splits = list(cv.split(X, y, groups))
    return SKLRCV(cv=splits, **OPTIONS).fit(X, y).cv_results_["mean_test_score"]


def test_groups_reach_the_splitter(routing) -> None:
    model = SKLRCV(cv=GroupKFold(3), **OPTIONS).fit(X, y, groups=GROUPS)
    np.testing.assert_array_equal(model.cv_results_["mean_test_score"], by_hand(GroupKFold(3), GROUPS))
    assert model.n_splits_ == 3


def test_missing_groups_raise(routing) -> None:
    with pytest.raises(ValueError, match="groups"):
        SKLRCV(cv=GroupKFold(3), **OPTIONS).fit(X, y)


def test_weights_reach_the_scorer(routing) -> None:
    scoring = get_scorer("accuracy")
    if routing:
        scoring.set_score_request(sample_weight=True)
    half = [(np.arange(0, 120, 2), np.arange(1, 120, 2))]
    model = SKLRCV(cv=half, scoring=scoring, **OPTIONS).fit(X, y, sample_weight=WEIGHT)
    C, lam = model.cv_results_["params"][0].values()
    train, test = half[0]
    alone = SKLR(C, lam=lam, calibration=None).fit(X[train], y[train], sample_weight=WEIGHT[train])
    expected = accuracy_score(y[test], alone.predict(X[test]), sample_weight=WEIGHT[test])
    assert model.cv_results_["split0_test_score"][0] == pytest.approx(expected, abs=1e-12)
    found = model.score(X, y, sample_weight=WEIGHT)
    assert found == pytest.approx(accuracy_score(y, model.predict(X), sample_weight=WEIGHT))


def test_scorers_get_weights_only_on_request() -> None:
    """scikit-learn raises from 1.8 on; earlier versions ignore the weights."""
    half = [(np.arange(0, 120, 2), np.arange(1, 120, 2))]
    model = SKLRCV(scoring="accuracy", cv=half, **OPTIONS)
    with sklearn.config_context(enable_metadata_routing=True):
        try:
            model.fit(X, y, sample_weight=WEIGHT)
        except UnsetMetadataPassedError as error:
            assert "sample_weight" in str(error)  # noqa: PT017
            return
    scores = 60 * model.cv_results_["split0_test_score"]
    np.testing.assert_allclose(scores, scores.round(), atol=1e-9)  # counts of rows, not of weights


def test_metadata_of_a_custom_scorer() -> None:
    def gain(true, predicted, price):
        return float(np.mean(price * (true == predicted)))

    price = np.arange(120.0)
    half = [(np.arange(0, 120, 2), np.arange(1, 120, 2))]
    with sklearn.config_context(enable_metadata_routing=True):
        scoring = make_scorer(gain).set_score_request(price=True)
        model = SKLRCV(cv=half, scoring=scoring, **OPTIONS).fit(X, y, price=price)
        assert model.score(X, y, price=price) == pytest.approx(gain(y, model.predict(X), price))
    assert 0 < model.best_score_ <= price[half[0][1]].mean()
    with pytest.raises(TypeError, match="price, which scikit-learn passes on only with metadata routing"):
        SKLRCV(cv=half, scoring=scoring, **OPTIONS).fit(X, y, price=price)


def test_nested_in_a_pipeline_and_in_cross_validation() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), SKLRCV(cv=GroupKFold(2), **OPTIONS))
        found = cross_validate(model, X, y, params={"groups": GROUPS}, cv=GroupKFold(3))
    assert (found["test_score"] > 0.5).all()


def test_requested_metadata_are_listed() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        router = SKLRCV(cv=GroupKFold(3), scoring="accuracy").get_metadata_routing()
        assert router.consumes("fit", ["groups", "sample_weight", "other"]) == {"groups"}
        own = SKLRCV().set_fit_request(sample_weight=True).get_metadata_routing()
        assert own.consumes("fit", ["groups", "sample_weight"]) == {"sample_weight"}
