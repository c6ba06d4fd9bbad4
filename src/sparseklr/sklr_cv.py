"""Choice of the parameters C and lam of :class:`~sparseklr.SKLR` by cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from inspect import signature
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from ._base import KernelClassifier, SVCParameters, set_fitted
from ._utils.progress import GridProgressBar
from ._utils.sklearn_compat import HasMethods, StrOptions, response_of, takes_weights
from ._validation import (
    check_data,
    check_parameters,
    kernel_parameters,
    make_samples,
    naming_rows,
    warn_of_unused,
)
from .dual.path import LamScale, check_grid, solve_grid
from .explanations import Explanation
from .sklr import SKLR
from .weights import weighted_classes

# Scores that differ by less than this number count as equal.
_SAME_SCORE = 1e-12
# Quantities measured for each candidate on each fold
_MEASURES = ("test_score", "n_support", "support_fraction", "fit_time", "score_time")


def select_best(results: Mapping[str, Any]) -> int:
    """Return the index of the model with the highest mean score; among ties, the sparsest model."""
    score = results["mean_test_score"]
    return _sparsest(results, np.flatnonzero(score >= score.max() - _SAME_SCORE))


def select_sparsest_of_3(results: Mapping[str, Any]) -> int:
    """Return the index of the sparsest of the three models with the highest scores, as in the paper."""
    score, fraction = results["mean_test_score"], results["mean_support_fraction"]
    ranked = np.lexsort((fraction, -np.round(score / _SAME_SCORE) * _SAME_SCORE))
    return _sparsest(results, ranked[:3])


def select_one_se(results: Mapping[str, Any]) -> int:
    """Return the index of the sparsest model within one standard error of the best (Breiman et al. 1984)."""
    score = results["mean_test_score"]
    best = int(score.argmax())
    error = results["standard_error"][best]
    return _sparsest(results, np.flatnonzero(score >= score[best] - error - _SAME_SCORE))


def _sparsest(results: Mapping[str, Any], among: np.ndarray) -> int:
    """Return the index of the sparsest candidate in ``among``.

    Among equally sparse candidates, it has the highest score; among equal scores, the smallest index.
    """
    fraction, score = results["mean_support_fraction"][among], results["mean_test_score"][among]
    return int(among[np.lexsort((among, -score, fraction))[0]])


SELECTION_RULES: dict[str, Callable[[Mapping[str, Any]], int]] = {
    "best": select_best,
    "sparsest-of-3": select_sparsest_of_3,
    "one-se": select_one_se,
}


class SKLRCV(SVCParameters, ClassifierMixin, BaseEstimator):
    r"""S-KLR (:class:`SKLR`) with C and lam chosen by cross-validation.

    Every pair of C and lam (a *candidate*) is evaluated on every fold, and the chosen model is fitted to all
    rows. If the calibration cannot change the score, the candidates are fitted together on each fold, as one
    warm-started path (:func:`~sparseklr.klr_path`). This requires ``calibration=None`` or ``"link"``,
    ``multi_class="ovr"``, and a scorer based on ``predict`` or ``decision_function``. Otherwise every
    candidate is fitted separately.

    Parameters
    ----------
    Cs : array-like, default=(1e3, 1e4, 1e5)
        Weights of the loss, > 0. If the ratio ``lam / C`` is fixed, a smaller C gives a smoother and less
        sparse model.
    lams : array-like, default=(0.01, 0.1, 1)
        Margins, by default as multiples of C. The value ``0.1`` is the rule ``lam = C / 10`` of the paper.
        With the value ``r``, the model is close to a support vector machine with C = ``1 / r``.
    lam_scale : {"ratio", "absolute"}, default="ratio"
        Whether ``lams`` are multiples of C or the margins themselves.
    estimator : SKLR or None, default=None
        Estimator that provides all other parameters, such as the kernel and the calibration. None means
        ``SKLR()``.
    cv : int, cross-validation generator, iterable or None, default=None
        Splits, as in :class:`~sklearn.model_selection.GridSearchCV`; None means 5 stratified folds.
    scoring : str, callable or None, default=None
        A scorer; None means accuracy.
    selection : {"best", "sparsest-of-3", "one-se"} or callable, default="best"
        ``"best"`` chooses the model with the highest mean score; among ties, the sparsest.
        ``"sparsest-of-3"`` chooses the sparsest of the three models with the highest scores, as in the paper.
        ``"one-se"`` chooses the sparsest model within one standard error of the highest score. A callable
        takes ``cv_results_`` and returns an index.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. Results do not depend on this number.
    verbose : int, default=0
        If 1, a progress bar is shown.

    Attributes
    ----------
    best_estimator_ : SKLR
        The chosen model, fitted to all rows.
    best_params_ : dict
        C and lam of the chosen model.
    best_index_ : int
        Index of the chosen model in ``cv_results_``.
    best_score_ : float
        Mean score of the chosen model. It is optimistic, because the model was chosen by this score. For an
        unbiased estimate use nested cross-validation, ``cross_val_score(SKLRCV(), X, y)``.
    cv_results_ : dict of arrays
        Table of the candidates, as in :class:`~sklearn.model_selection.GridSearchCV`. Additional columns are
        ``standard_error``, the standard error of the mean score; ``mean_n_support`` and ``std_n_support``,
        the mean and standard deviation of the number of kept points; and ``mean_support_fraction``, the
        (weighted) fraction of the training rows that is kept.
    n_splits_ : int
        Number of splits.
    scorer_ : callable
        The scorer.
    refit_time_ : float
        Time in seconds to fit the chosen model to all rows.
    classes_ : array (n_classes,)
        The class labels.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array
        Names of the features; absent if X has no column names.

    References
    ----------
    Breiman, Friedman, Olshen and Stone (1984), "Classification and Regression Trees", section 3.4.3.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SKLRCV
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = SKLRCV(selection="one-se").fit(X, y)
    >>> sorted(model.best_params_)
    ['C', 'lam']
    >>> model.best_estimator_.score(X, y) > 0.95
    True
    """

    _INSTEAD = {
        **SVCParameters._INSTEAD,
        **dict.fromkeys(signature(SKLR).parameters, "it is a parameter of SKLR. Use estimator=SKLR(...)."),
    }
    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit"]), None],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "selection": [StrOptions(set(SELECTION_RULES)), callable],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        Cs: Any = (1e3, 1e4, 1e5),
        *,
        lams: Any = (0.01, 0.1, 1.0),
        lam_scale: LamScale = "ratio",
        estimator: SKLR | None = None,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        selection: Literal["best", "sparsest-of-3", "one-se"] | Callable[..., int] = "best",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.lams = lams
        self.lam_scale = lam_scale
        self.estimator = estimator
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting ----------------------------------------------------------------------------------

    __metadata_request__fit: ClassVar[dict] = {"groups": UNUSED}  # only the splitter uses groups

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, **metadata: Any) -> Self:
        """Evaluate all candidates and fit the chosen one to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; the kernel matrix (n_samples, n_samples) for a precomputed kernel.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, used in fitting and in scoring.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for splitters such as :class:`~sklearn.model_selection.GroupKFold`.
        **metadata
            Metadata requested by the splitter and the scorer, if scikit-learn's metadata routing is enabled.
            The scorer then receives the weights only if it requests them.

        Returns
        -------
        self : object
        """
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)
        template = self._template()
        Cs, lams = check_grid(self.Cs, self.lams, self.lam_scale)
        precomputed = template.kernel == "precomputed"
        X, y, weight, columns = check_data(X, y, sample_weight, precomputed=precomputed, estimator=self)
        _, _, classes, _ = weighted_classes(y, weight, template.class_weight)
        scorer = self._make_scorer()
        for_splitter, for_scorer = self._routed(
            scorer, "fit", sample_weight=weight, groups=groups, **metadata
        )
        splits = _checked_splits(self.cv, X, y, weight, classes, for_splitter)
        params = [{"C": float(C), "lam": float(lam)} for C, row in zip(Cs, lams, strict=True) for lam in row]
        bar = GridProgressBar(type(self).__name__, len(splits) * lams.size, bool(self.verbose))
        with naming_rows(X, weight, **kernel_parameters(template)):
            measured = []
            with bar as progress:
                evaluate = _Evaluation(template, Cs, lams, scorer, progress.advance)
                for k, split in enumerate(splits):
                    fold = _Fold.of(X, y, weight, *split, for_scorer, precomputed=precomputed)
                    measured.append(evaluate(fold, check_saturation=k == 0))
            results = _results_table(params, np.swapaxes(measured, 0, 1))
            if not np.isfinite(results["mean_test_score"]).all():
                raise ValueError(
                    f"scoring={self.scoring!r} returned NaN or infinite scores; expected finite scores."
                )
            best = self._selected(results)
            start = time.perf_counter()
            model = clone(template).set_params(**params[best])
            set_fitted(model, columns | model._fit(X, y, weight))
        attributes = {
            "best_estimator_": model,
            "best_params_": params[best],
            "best_index_": best,
            "best_score_": float(results["mean_test_score"][best]),
            "cv_results_": results,
            "n_splits_": len(splits),
            "scorer_": scorer,
            "refit_time_": time.perf_counter() - start,
            "classes_": model.classes_,
            **columns,
        }
        return set_fitted(self, attributes)

    def _template(self) -> SKLR:
        """Return the estimator that provides all parameters of the candidates except C and lam."""
        template = SKLR() if self.estimator is None else self.estimator
        if not isinstance(template, SKLR):
            raise TypeError(f"estimator must be an SKLR or None; got {self.estimator!r}.")
        if template.nu is not None:
            raise ValueError(
                f"estimator.nu must be None, because SKLRCV chooses lam; got nu={template.nu!r}."
            )
        replaced = dict.fromkeys(("C", "lam"), "in the estimator of SKLRCV, which chooses it")
        warn_of_unused(SKLR.__init__, template.get_params(deep=False), replaced)
        template = clone(template).set_params(warm_start=False)
        if self.n_jobs is not None:
            template.set_params(n_jobs=self.n_jobs)
        template._check_parameters()
        return template

    def _make_scorer(self) -> Any:
        """Return the scorer, accuracy by default."""
        return check_scoring(SKLR(), "accuracy" if self.scoring is None else self.scoring)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata requested by the splitter and the scorer; see scikit-learn's metadata routing.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        if hasattr(self.cv, "get_metadata_routing"):  # an int or a list of splits has no routing
            router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        to_score = MethodMapping().add(caller="fit", callee="score").add(caller="score", callee="score")
        return router.add(scorer=self._make_scorer(), method_mapping=to_score)

    def _routed(self, scorer: Any, method: str, **metadata: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the metadata for the splitter and for the scorer."""
        if get_config()["enable_metadata_routing"]:
            given = {name: value for name, value in metadata.items() if value is not None}
            routed = process_routing(self, method, sample_weight=given.pop("sample_weight", None), **given)
            splitter = routed.get("splitter", {}).get("split", {})
            return splitter, routed["scorer"]["score"]
        groups, weight = metadata.pop("groups", None), metadata.pop("sample_weight")
        if metadata:
            raise TypeError(
                f"{type(self).__name__}.{method} got {', '.join(metadata)}, which scikit-learn passes on "
                "only with metadata routing: sklearn.set_config(enable_metadata_routing=True)."
            )
        weighted = weight is not None and takes_weights(scorer)
        return {"groups": groups}, {"sample_weight": weight} if weighted else {}

    def _selected(self, results: Mapping[str, Any]) -> int:
        """Return the validated index that the selection rule returns."""
        rule = self.selection if callable(self.selection) else SELECTION_RULES[self.selection]
        index, n = rule(results), len(results["params"])
        if not isinstance(index, Integral) or not 0 <= index < n:
            raise ValueError(
                f"selection must return the index of a candidate, 0 to {n - 1}; it returned {index!r}."
            )
        return int(index)

    # -- methods of the chosen model --------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Return the classes predicted by the chosen model; see :meth:`SKLR.predict`."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities of the chosen model; see :meth:`SKLR.predict_proba`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the class probabilities; see :meth:`SKLR.predict_log_proba`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the decision values of the chosen model; see :meth:`SKLR.decision_function`."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def explain(self, X: Any) -> Explanation:
        """Return the explanation by the chosen model; see :meth:`SKLR.explain`."""
        check_is_fitted(self)
        return self.best_estimator_.explain(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, **metadata: Any) -> float:
        """Return the score of the chosen model according to ``scoring``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to evaluate.
        y : array-like of shape (n_samples,)
            Class labels of the rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for scorers that accept weights.
        **metadata
            Metadata requested by the scorer, as in :meth:`fit`.

        Returns
        -------
        float
            The score.
        """
        check_is_fitted(self)
        _, for_scorer = self._routed(self.scorer_, "score", sample_weight=sample_weight, **metadata)
        return float(self.scorer_(self.best_estimator_, X, y, **for_scorer))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = getattr(self.estimator, "kernel", None) == "precomputed"
        return tags


def _checked_splits(
    cv: Any, X: Any, y: np.ndarray, weight: np.ndarray | None, classes: np.ndarray, metadata: dict[str, Any]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the splits of ``cv``.

    An error is raised unless every training set contains all classes, and every test set contains a row of
    positive weight.
    """
    splits = list(check_cv(cv, y, classifier=True).split(X, y, **metadata))
    if not splits:
        raise ValueError(f"cv={cv!r} yields no splits; at least one is required.")
    counted = np.ones(len(y), dtype=bool) if weight is None else weight > 0
    for k, (train, test) in enumerate(splits):
        missing = np.setdiff1d(classes, y[train][counted[train]])
        if len(missing):
            names = ", ".join(map(str, missing))
            raise ValueError(
                f"cv={cv!r}: the training set of split {k} has no row of class {names}; every class "
                "must be in every training set. Use stratified splits, or fewer splits."
            )
        if not counted[test].any():
            raise ValueError(f"cv={cv!r}: split {k} has no test row of positive weight.")
    return splits


class _Fold(NamedTuple):
    """Training rows (X, y, weight), test rows (X, y), and metadata of the test rows for the scorer."""

    train: tuple[Any, np.ndarray, np.ndarray | None]
    test: tuple[Any, np.ndarray]
    metadata: dict[str, Any]

    @classmethod
    def of(
        cls,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray | None,
        train: np.ndarray,
        test: np.ndarray,
        metadata: dict[str, Any],
        *,
        precomputed: bool = False,
    ) -> _Fold:
        """Return the fold with the given training and test indices."""

        def test_part(value: Any) -> Any:
            return np.asarray(value)[test] if np.ndim(value) and len(value) == len(y) else value

        if precomputed:
            X_train, X_test = X[np.ix_(train, train)], X[np.ix_(test, train)]
        else:
            X_train, X_test = X[train], X[test]
        part = X_train, y[train], None if weight is None else weight[train]
        return cls(part, (X_test, y[test]), {name: test_part(value) for name, value in metadata.items()})

    def weight_fraction(self, kept: np.ndarray) -> float:
        """Return the fraction of the total weight of the training rows that belongs to the kept rows."""
        _, y, weight = self.train
        weight = np.ones(len(y)) if weight is None else weight
        return float(weight[kept].sum() / weight.sum())


class _Evaluation(NamedTuple):
    """Evaluation of every candidate on a fold."""

    template: SKLR
    Cs: np.ndarray
    lams: np.ndarray
    scorer: Any
    done: Callable[[], None]  # called after each candidate

    def __call__(self, fold: _Fold, *, check_saturation: bool) -> np.ndarray:
        """Return the measurements of all candidates as an array (n_candidates, len(_MEASURES))."""
        by_sign = response_of(self.scorer) in ("predict", "decision_function")
        template = self.template
        if by_sign and template.calibration in (None, "link") and template.multi_class == "ovr":
            # These calibrations preserve the order and the sign of the decision values.
            return self._along_path(fold, check_saturation)
        return self._by_fits(fold)

    def _along_path(self, fold: _Fold, check_saturation: bool) -> np.ndarray:
        """Evaluate all candidate values of C and lam along one warm-started path."""
        model, (X, y) = self.template, fold.test
        samples = make_samples(*fold.train, class_weight=model.class_weight, **kernel_parameters(model))
        path = solve_grid(
            samples,
            self.Cs,
            self.lams,
            model._settings(),
            cache_size=model.cache_size,
            n_jobs=model.n_jobs,
            check_saturation=check_saturation,
            done=self.done,
        )
        start = time.perf_counter()
        outputs = path.decision_function(X, n_jobs=model.n_jobs)
        shared_time = (time.perf_counter() - start) / self.lams.size
        measured = []
        for cell in np.ndindex(*self.lams.shape):
            start = time.perf_counter()
            score = self.scorer(_KnownOutputs(outputs[cell], samples.classes), X, y, **fold.metadata)
            score_time = shared_time + time.perf_counter() - start
            solutions = path.solutions[cell]
            kept = samples.positions[np.unique(np.concatenate([s.support for s in solutions]))]
            fit_time = sum(float(s.history["seconds"][-1]) for s in solutions)
            measured.append((float(score), len(kept), fold.weight_fraction(kept), fit_time, score_time))
        return np.array(measured)

    def _by_fits(self, fold: _Fold) -> np.ndarray:
        """Measure the candidates by separate fits."""
        (X, y), measured = fold.test, []
        for C, lam in ((C, lam) for C, row in zip(self.Cs, self.lams, strict=True) for lam in row):
            start = time.perf_counter()
            model = clone(self.template).set_params(C=float(C), lam=float(lam))
            X_train = fold.train[0]
            set_fitted(model, {"n_features_in_": X_train.shape[1]} | model._fit(*fold.train))
            fit_time = time.perf_counter() - start
            start = time.perf_counter()
            score = float(self.scorer(model, X, y, **fold.metadata))
            score_time, kept = time.perf_counter() - start, model.support_
            measured.append((score, len(kept), fold.weight_fraction(kept), fit_time, score_time))
            self.done()
        return np.array(measured)


class _KnownOutputs(KernelClassifier):
    """A classifier whose decision values for the rows of the test fold are already known."""

    kernel = "rbf"

    def __init__(self, outputs: np.ndarray, classes: np.ndarray) -> None:
        self.outputs = outputs
        self.classes_ = classes

    def _outputs(self, X: Any) -> np.ndarray:
        return self.outputs


def _results_table(params: list[dict[str, float]], measured: np.ndarray) -> dict[str, Any]:
    """Return ``cv_results_``; ``measured`` has the shape (n_candidates, n_splits, len(_MEASURES))."""
    by_name = dict(zip(_MEASURES, np.moveaxis(measured, -1, 0), strict=True))
    scores = by_name["test_score"]
    results: dict[str, Any] = {"params": params}
    for name in params[0]:
        values = [candidate[name] for candidate in params]
        results[f"param_{name}"] = np.ma.MaskedArray(values, mask=np.zeros(len(values), dtype=bool))
    for k, split_scores in enumerate(scores.T):
        results[f"split{k}_test_score"] = split_scores
    for name, values in by_name.items():
        results[f"mean_{name}"], results[f"std_{name}"] = values.mean(axis=1), values.std(axis=1)
    n = scores.shape[1]
    results["standard_error"] = scores.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(params))
    if np.isfinite(scores).all():  # otherwise the search raises an error
        ranks = rankdata(-np.round(results["mean_test_score"] / _SAME_SCORE), method="min")
        results["rank_test_score"] = ranks.astype(np.int32)
    return results
