"""Choosing the kernel and its width, or C and lam, by leave-one-out or by cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from .._sklearn import HasMethods, StrOptions, response_of, takes_weights
from ..dual.path import LamScale, check_grid
from ..progress import GridProgressBar
from .base import blank_copy
from .chosen import PredictsByChosen
from .folds import Fold, Scoring, checked_splits
from .judges import CrossValidation, Grid, LeaveOneOut, judge_all, scoring_or_default
from .kernel_choice import KINDS, KernelOption, kernel_options, searches
from .parameters import check_parameters, warn_of_unused
from .selection import SELECTION_RULES, results_table
from .sparse_klr import SparseKLR
from .training import GivenData, check_data, naming_rows, weighted_classes


class SparseKLRCV(PredictsByChosen, ClassifierMixin, BaseEstimator):
    r"""Sparse kernel logistic regression with the kernel, or C and lam, chosen by their score.

    With the refit, which is the default, C and lam hardly change the probabilities, and the kernel and its
    width change them most. So these are what is searched: rbf and Laplacian kernels of several widths are
    fitted on all rows, and judged by the leave-one-out log-loss of the refit. C and lam are searched if they
    are given, and for models that are not refitted; leave-one-out knows nothing of them, so they are judged
    by cross-validation.

    Parameters
    ----------
    Cs : array-like or None, default=None
        Weights of the loss; the smaller, the smoother and the less sparse. None, if ``lams`` is None too,
        searches the kernel instead, and otherwise stands for ``(1e3, 1e4, 1e5)``.
    lams : array-like or None, default=None
        Margins in units of C: ``0.1`` is the paper's rule ``lam = C / 10``, and in general ``r`` is close to
        a support vector machine of box ``1 / r``. With ``lam_scale="absolute"`` they are the margins
        themselves. None is as for ``Cs``, and otherwise stands for ``(0.01, 0.1, 1)``.
    lam_scale : {"ratio", "absolute"}, default="ratio"
        Whether ``lams`` are ratios to C or margins.
    gammas : list or None, default=None
        Kernel widths to try, each as ``gamma`` of :class:`SparseKLR`. None takes that of ``estimator``; where
        it is ``"loo"``, widths in factors of three: from ``"scale"`` on to smoother ones while the score
        rises, or else to narrower ones; of the Laplacian kernel more than one only where it is as good.
    estimator : SparseKLR or None, default=None
        Every other parameter: kernel, tol, calibration, class_weight, ... What is searched is replaced. None
        is ``SparseKLR()``, and where no candidates are given its kernel and width are searched.
    cv : int, cross-validation generator, iterable or None, default=None
        Splits, as in :class:`~sklearn.model_selection.GridSearchCV`. None judges kernels by leave-one-out,
        and C and lam by 5 stratified folds.
    scoring : str, callable or None, default=None
        A scorer; None is ``"neg_log_loss"``, or accuracy for ``calibration=None``, whose probabilities are
        of little use.
    selection : {"best", "sparsest-of-3", "one-se"} or callable, default="best"
        ``"best"``: highest mean score, ties go to the sparsest. ``"sparsest-of-3"``: the sparsest
        of the three highest, the paper's rule. ``"one-se"``: the sparsest whose score is within one
        standard error of the highest. A callable takes ``cv_results_`` and returns an index.
    n_jobs : int or None, default=None
        Threads; -1 for all cores. Results do not depend on it.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    best_estimator_ : SparseKLR
        The chosen model, fitted on all rows. ``predict``, ``predict_proba``, ``decision_function``,
        ``support_``, ``support_vectors_``, ``dual_coef_``, ``intercept_`` and ``n_support_`` are its own.
    C_, lam_, gamma_ : float
        Its parameters as numbers; ``gamma_`` only for kernels that have one.
    best_params_ : dict
    best_index_ : int
        Row of ``cv_results_``.
    best_score_ : float
        Its mean score: on validation folds where leave-one-out has chosen the kernel and these confirmed it.
        Otherwise it was chosen because it is high and is therefore optimistic; nested cross-validation
        (``cross_val_score(SparseKLRCV(), X, y)``) is not.
    cv_results_ : dict of arrays
        As of :class:`~sklearn.model_selection.GridSearchCV`, one row per candidate, and ``standard_error``:
        of the mean score; ``mean_n_support``, ``std_n_support``: points kept by the models that were scored;
        ``mean_support_share``: these as a share of the training rows (each counted by its weight). By
        leave-one-out there is one split, and the models that were scored are fitted on all rows.
    n_splits_ : int
    scorer_ : callable
    refit_time_ : float
        Seconds of the fit of the chosen model on all rows.
    classes_ : array (n_classes,)
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    Notes
    -----
    Leave-one-out values are those of ``SparseKLR.loo_decision_function_``: they belong to the likelihood with
    the strength of the refit, before points are selected and pruned. A scorer is given a model that knows
    them; the standard error is that of a mean for the log-loss, and else of a jackknife over ten parts.

    In a cross-validation every candidate is fitted as it would be returned, calibration included. Only where
    that cannot change a prediction (``calibration`` None or "link", and a scorer that asks for predictions or
    decision values) the grid of C and lam is solved as one warm-started path (:func:`~sparseklr.klr_path`).

    The grid of C and lam lies around the default of :class:`SparseKLR`. It was chosen among 17 on the 12 sets
    of the paper (features in [0, 1], 5 folds, 2 for the two largest): its best point has a mean accuracy of
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
    >>> model.best_estimator_.score(X, y) > 0.95
    True
    >>> sorted(model.best_params_)
    ['gamma', 'kernel']
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
        Cs: Any = None,
        *,
        lams: Any = None,
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
        """Judge all candidates and fit the chosen one on all rows.

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
        fitted = blank_copy(self)  # a fit that fails leaves the estimator as it was
        fitted._fit(X, y, sample_weight, {"groups": groups, **metadata})
        self.__dict__ = fitted.__dict__
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, metadata: dict[str, Any]) -> None:
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)
        template = self._template()
        grid = self._grid(template)
        kinds = self._kinds(template, searched=grid is None)
        template._check_parameters()
        given = check_data(X, y, sample_weight, precomputed=template.kernel == "precomputed", estimator=self)
        with naming_rows(given, **template._kernel_parameters()):
            self._search(template, grid, kinds, given, metadata)

    def _search(
        self,
        template: SparseKLR,
        grid: Grid | None,
        kinds: list[list[KernelOption]],
        given: GivenData,
        metadata: dict[str, Any],
    ) -> None:
        """Judge all candidates and fit the best to all rows."""
        _, _, classes, _ = weighted_classes(given, template.class_weight)
        self.scorer_ = self._make_scorer()
        for_splitter, for_scorer = self._routed("fit", sample_weight=given.weight, **metadata)
        judge = self._judge(template, grid, given, classes, for_splitter, Scoring(self.scorer_, for_scorer))
        self.n_splits_ = judge.n_splits

        n_fits = sum(map(len, kinds)) * judge.n_splits * (1 if grid is None else grid.lams.size)
        with GridProgressBar(type(self).__name__, n_fits, bool(self.verbose)) as progress:
            options, judged = judge_all(judge, template, kinds, grid, given, progress.advance)
        if not all(np.isfinite(one.score) for one in judged):
            raise ValueError(f"scoring={self.scoring!r} gave NaN or infinite scores; expected finite ones.")
        self.cv_results_ = results_table(judged)
        self.best_index_ = self._select()
        confirmed = None
        # the other rules trade score for sparsity on purpose
        if isinstance(judge, LeaveOneOut) and self.selection == "best" and self.best_index_ > 0:
            self.best_index_, confirmed = judge.confirmed(template, options, self.best_index_)
        best = judged[self.best_index_]
        self.best_params_, self.best_score_ = best.params, best.score if confirmed is None else confirmed

        start = time.perf_counter()
        if best.model is not None:
            self.best_estimator_, self.refit_time_ = best.model, float(best.measured[0, 3])
        else:
            cell = {name: value for name, value in best.params.items() if name in ("C", "lam")}
            chosen = options[self.best_index_].applied(template, given).set_params(**cell)
            self.best_estimator_ = chosen._fit_checked(given)
            self.refit_time_ = time.perf_counter() - start
        if isinstance(judge, LeaveOneOut) and judge.by_log_loss and confirmed is not None:
            self.best_estimator_.validation_log_loss_ = -confirmed
        self.C_, self.lam_ = float(self.best_estimator_.C), self.best_estimator_.lam_
        if hasattr(self.best_estimator_, "gamma_"):
            self.gamma_ = self.best_estimator_.gamma_
        self.classes_ = self.best_estimator_.classes_

    def _judge(
        self,
        template: SparseKLR,
        grid: Grid | None,
        given: GivenData,
        classes: np.ndarray,
        for_splitter: dict[str, Any],
        scoring: Scoring,
    ) -> LeaveOneOut | CrossValidation:
        """How candidates are judged."""
        if grid is None and self.cv is None:
            if for_splitter.get("groups") is not None:
                raise ValueError("groups were given, but leave-one-out has no use for them; give a cv.")
            by_loss = scoring_or_default(self.scoring, self.estimator) == "neg_log_loss"
            return LeaveOneOut(given, scoring, by_loss)
        splits = checked_splits(self.cv, given, classes, for_splitter)
        folds = [Fold.of(given, *split, scoring) for split in splits]
        of_outputs = response_of(self.scorer_) in ("predict", "decision_function")
        return CrossValidation(folds, of_outputs and template.calibration in (None, "link"))

    def _make_scorer(self) -> Any:
        return check_scoring(SparseKLR(), scoring_or_default(self.scoring, self.estimator))

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

    def _template(self) -> SparseKLR:
        """The estimator whose parameters are replaced."""
        if self.estimator is None:
            nothing_given = self.Cs is None and self.lams is None and self.gammas is None
            template = SparseKLR(kernel="loo", gamma="loo") if nothing_given else SparseKLR()
        elif isinstance(self.estimator, SparseKLR):
            template = clone(self.estimator)
        else:
            raise TypeError(f"estimator must be a SparseKLR or None; got {self.estimator!r}.")
        return template if self.n_jobs is None else template.set_params(n_jobs=self.n_jobs)

    def _grid(self, template: SparseKLR) -> Grid | None:
        """C and lam that are candidates: where they are given, and where there is nothing else to search."""
        open_kernel = self.gammas is not None or searches(template.kernel, template.gamma)
        Cs = (1e3, 1e4, 1e5) if self.Cs is None else self.Cs
        lams = (0.01, 0.1, 1.0) if self.lams is None else self.lams
        grid = Grid(*check_grid(Cs, lams, self.lam_scale))
        if self.Cs is None and self.lams is None and open_kernel and template.calibration == "refit":
            return None
        if template.nu is not None:
            raise ValueError(f"estimator.nu must be None: lam is what is chosen; got nu={template.nu!r}.")
        replaced = dict.fromkeys(("C", "lam"), "in an estimator of SparseKLRCV, which chooses it")
        warn_of_unused(SparseKLR.__init__, template.get_params(deep=False), replaced)
        return grid

    def _kinds(self, template: SparseKLR, searched: bool) -> list[list[KernelOption]]:
        """The kernels that are candidates, by kind. Beside C and lam a fit chooses its own by ``"loo"``."""
        if self.gammas is None:
            return kernel_options(template) if searched else [[KernelOption(template.kernel, template.gamma)]]
        warn_of_unused(SparseKLR.__init__, template.get_params(deep=False), {"gamma": "with gammas"})
        gammas = list(self.gammas) if np.iterable(self.gammas) and not isinstance(self.gammas, str) else []
        if not gammas or not all(map(_is_width, gammas)):
            raise ValueError(
                'gammas must be a non-empty list of positive numbers, "scale" or "auto"; '
                f"got {self.gammas!r}."
            )
        kinds = KINDS if template.kernel == "loo" else [template.kernel]
        return [[KernelOption(kind, gamma) for gamma in gammas] for kind in kinds]

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
        """Score of the chosen model by ``scoring``: minus its log-loss by default.

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
