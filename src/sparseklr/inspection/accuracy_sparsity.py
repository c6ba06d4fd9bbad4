"""Plot of test score against number of kept training points, for the candidates of a cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._drawing import pyplot


@dataclass(eq=False, repr=False, kw_only=True)
class AccuracySparsityDisplay:
    """Plot of the test score against the number of kept training points, one mark per candidate.

    The candidates are the parameter settings that :class:`~sparseklr.SKLRCV` evaluates by cross-validation. A
    solid line joins the candidates with the same C, in the order of their margins. A circle marks the
    candidate that was chosen. The dashed line joins the candidates whose score is higher than the score of
    every candidate with fewer points.

    Create the display with :meth:`from_estimator`.

    Parameters
    ----------
    n_support : array (n_candidates,)
        Number of kept training points, averaged over the folds.
    score : array (n_candidates,)
        Test score, averaged over the folds.
    score_error : array (n_candidates,)
        Standard error of the mean test score.
    groups : list of str
        For each candidate, the label of the solid line that it lies on.
    chosen : int
        Index of the chosen candidate.
    score_name : str, default="accuracy"
        Name of the score on the vertical axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of Line2D
        The solid lines, one for each distinct label in ``groups``.
    chosen_ : ErrorbarContainer
        The mark of the chosen candidate, with an error bar of one standard error.
    front_ : Line2D
        The dashed line.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SKLRCV
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> display = AccuracySparsityDisplay.from_estimator(SKLRCV(Cs=[10, 1000]).fit(X, y))
    >>> display.ax_.get_ylabel()
    'mean score'
    """

    n_support: np.ndarray
    score: np.ndarray
    score_error: np.ndarray
    groups: list[str]
    chosen: int
    score_name: str = "accuracy"

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Plot the candidates of a fitted cross-validation.

        Parameters
        ----------
        estimator : SKLRCV
            A fitted cross-validation.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        AccuracySparsityDisplay
        """
        check_is_fitted(estimator, "cv_results_")
        results = estimator.cv_results_
        groups = [f"C={params['C']:g}" for params in results["params"]]
        score_name = estimator.scoring if isinstance(estimator.scoring, str) else "score"
        display = cls(
            n_support=results["mean_n_support"],
            score=results["mean_test_score"],
            score_error=results["standard_error"],
            groups=groups,
            chosen=estimator.best_index_,
            score_name=score_name,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the plot on ``ax``, or in a new figure if ``ax`` is None."""
        plt = pyplot()
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        groups = np.array(self.groups)
        names = list(dict.fromkeys(self.groups))
        colors = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(names)))
        self.lines_ = [
            ax.plot(
                self.n_support[groups == name],
                self.score[groups == name],
                marker="o",
                markersize=4,
                color=color,
                label=name,
            )[0]
            for name, color in zip(names, colors, strict=True)
        ]
        front = self._front()
        (self.front_,) = ax.plot(
            self.n_support[front],
            self.score[front],
            color="0.4",
            linestyle="--",
            linewidth=1,
            zorder=1,
            label="best for its number of points",
        )
        self.chosen_ = ax.errorbar(
            self.n_support[self.chosen],
            self.score[self.chosen],
            self.score_error[self.chosen],
            color="crimson",
            marker="o",
            markersize=12,
            markerfacecolor="none",
            markeredgewidth=2,
            capsize=3,
            linestyle="none",
            zorder=5,
            label="chosen, one standard error",
        )
        ax.set_xlabel("mean number of points kept")
        ax.set_ylabel(f"mean {self.score_name}")
        ax.legend(fontsize="small")
        return self

    def _front(self) -> np.ndarray:
        """Return the indices of the candidates on the dashed line, sorted by their number of points."""
        order = np.lexsort((-self.score, self.n_support))
        best_before = np.concatenate([[-np.inf], np.maximum.accumulate(self.score[order])[:-1]])
        return order[self.score[order] > best_before]
