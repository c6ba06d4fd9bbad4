"""Choosing C, lam and the kernel's width by cross-validation over whole paths."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from .._sklearn import HasMethods, StrOptions, response_of, takes_weights
from ..dual.path import LamScale, check_grid
from ..progress import GridProgressBar
from .chosen import PredictsByChosen
from .folds import MEASURES, Fold, Scoring, score_fits, score_path
from .parameters import check_parameters, warn_of_unused
from .selection import SELECTION_RULES, results_table
from .sparse_klr import SparseKLR
from .training import GivenData, check_data


class SparseKLRCV(PredictsByChosen, ClassifierMixin, BaseEstimator):
    r"""Sparse kernel logistic regression with C and lam chosen by cross-validation.

    In each fold the whole grid is solved as one warm-started path on one kernel matrix
    (:func:`~sparseklr.klr_path`); the chosen model is then fitted on all rows.

    Parameters
    ----------
    Cs : array-like, default=(1e3, 1e4, 1e5)
        Weights of the loss; the smaller, the smoother and the less sparse.
    lams : array-like, default=(0.01, 0.1, 1)
        Margins in units of C: ``0.1`` is the paper's rule ``lam = C / 10``, and in general ``r`` is close to
        a support vector machine of box ``1 / r``. With ``lam_scale="absolute"`` they are the margins
        themselves.
    lam_scale : {"ratio", "absolute"}, default="ratio"
        Whether ``lams`` are ratios to C or margins.
    gammas : list or None, default=None
        Kernel widths to try, each as ``gamma`` of :class:`SparseKLR`; None takes that of ``estimator``.
    estimator : SparseKLR or None, default=None
        Every other parameter: kernel, tol, calibration, class_weight, ... Its C, lam and (with
        ``gammas``) gamma are replaced. None is ``SparseKLR()``.
    cv : int, cross-validation generator or iterable, default=None
        Splits, as in :class:`~sklearn.model_selection.GridSearchCV`; None is 5 stratified folds.
    scoring : str, callable or None, default=None
        A scorer; None is accuracy. See Notes.
    selection : {"best", "sparsest-of-3", "one-se"} or callable, default="best"
        ``"best"``: highest mean score, ties go to the sparsest. ``"sparsest-of-3"``: the sparsest
        of the three highest, the paper's rule. ``"one-se"``: the sparsest whose score is within one
        standard error of the highest. A callable takes ``cv_results_`` and returns an index.
    n_jobs : int or None, default=None
        Values of C solved at the same time; -1 for all cores. Results do not depend on it.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    best_estimator_ : SparseKLR
        The chosen model, fitted on all rows. ``predict``, ``predict_proba``, ``decision_function``,
        ``support_``, ``support_vectors_``, ``dual_coef_``, ``intercept_`` and ``n_support_`` are its own.
    C_, lam_, gamma_ : float
        Its parameters; ``gamma_`` as a number.
    best_params_ : dict
    best_index_ : int
        Row of ``cv_results_``.
    best_score_ : float
        Its mean score. It was chosen because it is high and is therefore optimistic; nested cross-validation
        (``cross_val_score(SparseKLRCV(), X, y)``) is not.
    cv_results_ : dict of arrays
        As of :class:`~sklearn.model_selection.GridSearchCV`, one row per (gamma, C, lam), and
        ``mean_n_support``, ``std_n_support``: points kept by the models that were scored;
        ``mean_support_share``: these as a share of the training rows (each counted by its weight).
    n_splits_ : int
    scorer_ : callable
    refit_time_ : float
        Seconds of the last fit.
    classes_ : array (n_classes,)
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    Notes
    -----
    Scorers that ask for predictions or decision values (accuracy, f1, roc_auc, ...) are given those
    of the S-KLR models of the path, before any calibration. Scorers that ask for probabilities
    (neg_log_loss, ...) and callables of one's own are given fitted estimators instead, calibration
    included, which takes a fit for each candidate and fold.

    The default grid lies around the default of :class:`SparseKLR`. It was chosen among 17 on the 12 sets of
    the paper (features in [0, 1], 5 folds, 2 for the two largest): its best point has a mean accuracy of
    0.933, and the sparsest of its three best keeps 26% of the points. ``Cs=(1, 10, 100, 1e3, 1e4)`` reaches
    0.935 with 59% in more than twice the time, which is worth it where classes overlap much and the S-KLR
    model itself is wanted (``calibration=None``).

    References
    ----------
    Consolo, Manno and Amaldi (2025), Computers & Operations Research 188, 107363.

    Breiman, Friedman, Olshen and Stone (1984), "Classification and Regression Trees", section 3.4.3.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = SparseKLRCV(selection="one-se").fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> sorted(model.best_params_)
    ['C', 'lam']
    """

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
        gammas: Any = None,
        estimator: SparseKLR | None = None,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        selection: Literal["best", "sparsest-of-3", "one-se"] | Callable[..., int] = "best",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.lams = lams
        self.lam_scale = lam_scale
        self.gammas = gammas
        self.estimator = estimator
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting ------------------------------------------------------------------------------

    __metadata_request__fit: ClassVar[dict] = {"groups": UNUSED}  # for the splitter, not for this class

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, **metadata: Any) -> Self:
        """Choose the parameters by cross-validation and fit the chosen model on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training points; the kernel matrix (n_samples, n_samples) for a precomputed kernel.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, in fitting and in scoring.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for splitters such as :class:`~sklearn.model_selection.GroupKFold`.
        **metadata
            What the splitter and the scorer request by scikit-learn's metadata routing, where it is enabled.
            The scorer is then given the weights only if it requests them.

        Returns
        -------
        self : object
        """
        fitted = copy.copy(self)  # a fit that fails leaves the estimator as it was
        fitted._fit(X, y, sample_weight, {"groups": groups, **metadata})
        self.__dict__.update(fitted.__dict__)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, metadata: dict[str, Any]) -> None:
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)
        Cs, lams = check_grid(self.Cs, self.lams, self.lam_scale)
        models = self._templates()
        models[0]._check_parameters()
        precomputed = models[0].kernel == "precomputed"
        given = check_data(X, y, sample_weight, precomputed=precomputed, estimator=self)
        checked = models[0]._training_set(given)
        self.scorer_ = self._make_scorer()
        for_splitter, for_scorer = self._routed("fit", sample_weight=given.weight, **metadata)
        splits = self._splits(given, checked.classes, for_splitter)
        scoring = Scoring(self.scorer_, for_scorer)

        by_path = response_of(self.scorer_) in ("predict", "decision_function")
        evaluate = score_path if by_path else score_fits
        measured = np.empty((len(models), *lams.shape, len(splits), len(MEASURES)))
        n_solves = measured[..., 0].size * (len(checked.signs()) if by_path else 1)
        with GridProgressBar(type(self).__name__, n_solves, bool(self.verbose)) as progress:
            for k, (train, test) in enumerate(splits):
                fold = Fold.of(given, train, test, scoring)
                for g, model in enumerate(models):
                    measured[g, :, :, k] = evaluate(
                        model, fold, Cs, lams, progress.advance, check_saturation=k == 0
                    )
        if not np.isfinite(measured[..., 0]).all():
            raise ValueError(f"scoring={self.scoring!r} gave NaN or infinite scores; expected finite ones.")
        grid = [
            {"C": float(C), "lam": float(lam), **({} if self.gammas is None else {"gamma": model.gamma})}
            for model in models
            for C, row in zip(Cs, lams, strict=True)
            for lam in row
        ]
        self.cv_results_ = results_table(grid, measured.reshape(len(grid), len(splits), -1))
        self.n_splits_ = len(splits)
        self.best_index_ = self._select()
        self.best_params_ = grid[self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])

        start = time.perf_counter()
        self.best_estimator_ = clone(models[0]).set_params(**self.best_params_)._fit_checked(given)
        self.refit_time_ = time.perf_counter() - start
        self.C_, self.lam_ = self.best_params_["C"], self.best_params_["lam"]
        self.gamma_ = self.best_estimator_._kernel.gamma
        self.classes_ = self.best_estimator_.classes_

    def _make_scorer(self) -> Any:
        return check_scoring(SparseKLR(), "accuracy" if self.scoring is None else self.scoring)

    def get_metadata_routing(self) -> MetadataRouter:
        """What the splitter and the scorer request, see scikit-learn's metadata routing.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        if hasattr(self.cv, "get_metadata_routing"):  # not so a number or a list of splits
            router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        to_score = MethodMapping().add(caller="fit", callee="score").add(caller="score", callee="score")
        return router.add(scorer=self._make_scorer(), method_mapping=to_score)

    def _routed(self, method: str, **metadata: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The metadata for the splitter and for the scorer."""
        if get_config()["enable_metadata_routing"]:
            given = {name: value for name, value in metadata.items() if value is not None}
            routed = process_routing(self, method, sample_weight=given.pop("sample_weight", None), **given)
            splitter = routed.get("splitter", {}).get("split", {})
            return splitter, routed["scorer"]["score"]
        groups, weight = metadata.pop("groups", None), metadata.pop("sample_weight")
        if metadata:
            raise TypeError(
                f"{type(self).__name__}.{method} got {', '.join(metadata)}, which scikit-learn hands on only "
                "with metadata routing: sklearn.set_config(enable_metadata_routing=True)."
            )
        weighted = weight is not None and takes_weights(self.scorer_)
        return {"groups": groups}, {"sample_weight": weight} if weighted else {}

    def _templates(self) -> list[SparseKLR]:
        """The estimator with each of the kernel widths."""
        template = SparseKLR() if self.estimator is None else self.estimator
        if not isinstance(template, SparseKLR):
            raise TypeError(f"estimator must be a SparseKLR or None; got {template!r}.")
        if template.nu is not None:
            raise ValueError(f"estimator.nu must be None: lam is what is chosen; got nu={template.nu!r}.")
        replaced = dict.fromkeys(("C", "lam"), "in an estimator of SparseKLRCV, which chooses it")
        if self.gammas is not None:
            replaced["gamma"] = "with gammas"
        warn_of_unused(SparseKLR.__init__, template.get_params(deep=False), replaced)
        if self.n_jobs is not None:
            template = clone(template).set_params(n_jobs=self.n_jobs)
        if self.gammas is None:
            return [template]
        gammas = list(self.gammas) if np.iterable(self.gammas) and not isinstance(self.gammas, str) else []
        if not gammas or not all(map(_is_width, gammas)):
            raise ValueError(
                'gammas must be a non-empty list of positive numbers, "scale" or "auto"; '
                f"got {self.gammas!r}."
            )
        return [clone(template).set_params(gamma=gamma) for gamma in gammas]

    def _splits(
        self, given: GivenData, classes: np.ndarray, metadata: dict[str, Any]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The splits, each with every class to learn from and something to score."""
        y = given.y
        splits = list(check_cv(self.cv, y, classifier=True).split(given.X, y, **metadata))
        counted = np.ones(len(y), dtype=bool) if given.weight is None else given.weight > 0
        for k, (train, test) in enumerate(splits):
            missing = np.setdiff1d(classes, y[train][counted[train]])
            if len(missing):
                raise ValueError(
                    f"cv={self.cv!r}: the training part of split {k} has no row of class "
                    f"{', '.join(map(str, missing))}; every class must be in every training part. Use "
                    "stratified splits, or fewer of them."
                )
            if not counted[test].any():
                raise ValueError(f"cv={self.cv!r}: split {k} has no test row of positive weight to score.")
        return splits

    def _select(self) -> int:
        """The index that the rule names, checked."""
        rule = self.selection if callable(self.selection) else SELECTION_RULES[self.selection]
        index, n = rule(self.cv_results_), len(self.cv_results_["params"])
        if not isinstance(index, Integral) or not 0 <= index < n:
            raise ValueError(
                f"selection must return the index of a candidate, 0 to {n - 1}; it returned {index!r}."
            )
        return int(index)

    # -- the chosen model ---------------------------------------------------------------------

    def score(self, X: Any, y: Any, sample_weight: Any = None, **metadata: Any) -> float:
        """Score of the chosen model by ``scoring``: its accuracy by default.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for a scorer that can use them.
        **metadata
            As in :meth:`fit`.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        _, for_scorer = self._routed("score", sample_weight=sample_weight, **metadata)
        return Scoring(self.scorer_, for_scorer)(self.best_estimator_, X, y)

    def plot(self, ax: Any = None) -> Any:
        """Score against number of points for every candidate, the chosen one marked.

        Parameters
        ----------
        ax : matplotlib Axes, default=None

        Returns
        -------
        AccuracySparsityDisplay
        """
        from ..inspection.accuracy_sparsity import AccuracySparsityDisplay

        return AccuracySparsityDisplay.from_estimator(self, ax=ax)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = getattr(self.estimator, "kernel", None) == "precomputed"
        return tags


def _is_width(gamma: Any) -> bool:
    if isinstance(gamma, str):
        return gamma in ("scale", "auto")
    return isinstance(gamma, Real) and 0 < float(gamma) < np.inf
