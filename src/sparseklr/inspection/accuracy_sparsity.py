"""Plot of the score against the number of kept points, for the candidates of a cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._drawing import pyplot


@dataclass(eq=False, repr=False, kw_only=True)
class AccuracySparsityDisplay:
    """Plot of the score against the number of kept points, with one mark per candidate of a cross-validation.

    Candidates with the same C are joined by a line, along which the margin grows; the chosen one is marked.
    The dashed line joins the candidates that no other candidate beats in both score and sparsity.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    n_support : array (n_candidates,)
        Mean number of kept points.
    score : array (n_candidates,)
        Mean test score.
    score_error : array (n_candidates,)
        Standard error of the score.
    groups : list of str
        Label of the line to which each candidate belongs.
    chosen : int
        Index of the chosen candidate.
    score_name : str, default="accuracy"

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of Line2D
        One per group.
    chosen_ : ErrorbarContainer
    front_ : Line2D

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
        """Draw the candidates of a fitted cross-validation.

        Parameters
        ----------
        estimator : SKLRCV
            A fitted search.
        ax : matplotlib Axes, default=None
            None creates a new figure.

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
        """Draw the display into ``ax``, or into a new figure if it is None."""
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
            label="best for its size",
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
        """The candidates that have a higher score than every sparser one, sorted by size."""
        order = np.lexsort((-self.score, self.n_support))
        best_before = np.concatenate([[-np.inf], np.maximum.accumulate(self.score[order])[:-1]])
        return order[self.score[order] > best_before]
