"""Figures of the paper; each function draws on the given figure or creates one."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit

from sparseklr.baselines import ThresholdedKLR

from ..synth import C, draw_boundary, draw_points, make_synth, sparse_klr, weights

INK = "#010203"  # placeholder for the colour of the surrounding text
NUS = (0, 500, 562.5, 625)
SPARSE_NU = 1100


def _axes(fig: Any, size: tuple[float, float]) -> tuple[Any, Any]:
    fig = fig or Figure(figsize=size, layout="constrained")
    return fig, fig.add_subplot()


# -- the loss ---------------------------------------------------------------------------------


def loss(xi: Any) -> Any:
    """Return the negative log-likelihood of a point with -y f = xi."""
    return np.logaddexp(0, xi)


def losses(fig: Any = None) -> Any:
    """Draw the hinge loss and the logistic loss."""
    fig, ax = _axes(fig, (5, 3.8))
    xi = np.linspace(-4, 4, 201)
    ax.plot(xi, np.maximum(0, 1 + xi), color="tab:blue", label=r"hinge, $\max(0, 1 + \xi)$")
    ax.plot(xi, loss(xi), "--", color="tab:red", label=r"logistic, $\log(1 + e^\xi)$")
    ax.set(xlabel=r"$\xi = -y f(x)$", ylabel="loss")
    ax.legend()
    return fig


def shift(fig: Any = None, rho: float = 1.0) -> Any:
    """Draw the loss of several points before and after a shift by rho."""
    fig, ax = _axes(fig, (5, 3.8))
    xi = np.linspace(-7, 3, 201)
    ax.plot(xi, loss(xi), color="tab:red")
    for start in (-6.0, -3.0, 0.0):
        before, after = loss(start), loss(start + rho)
        ax.plot([start, start + rho, start + rho], [before, before, after], ":", color="0.5")
        ax.plot(start, before, "o", color="tab:blue", label=r"at $\xi$" if start == 0 else None)
        ax.plot(start + rho, after, "s", color="tab:orange", label=r"at $\xi + \rho$" if start == 0 else None)
        ax.annotate(
            f"+{after - before:.3f}",
            (start + rho / 2, after),
            (0, 8),
            textcoords="offset points",
            ha="center",
        )
    ax.set(xlabel=r"$\xi$", ylabel=r"$\log(1 + e^\xi)$")
    ax.legend(loc="upper left")
    return fig


def second_derivative(fig: Any = None) -> Any:
    """Draw the second derivative of the loss, which is large only near zero."""
    fig, ax = _axes(fig, (5, 3.8))
    xi = np.linspace(-10, 10, 301)
    ax.plot(xi, expit(xi) * expit(-xi), color="tab:red")
    ax.set(xlabel=r"$\xi$", ylabel="second derivative of the loss", ylim=(0, None))
    return fig


# -- the set Synth ----------------------------------------------------------------------------


def synth_scatter(fig: Any = None) -> Any:
    """Draw the selected points at four values of nu."""
    fig = fig or Figure(figsize=(7, 6.2), layout="constrained")
    X, y = make_synth()
    for ax, nu in zip(fig.subplots(2, 2, sharex=True, sharey=True).flat, NUS, strict=True):
        model = sparse_klr(nu).fit(X, y)
        draw_points(ax, X, y, model.support_)
        draw_boundary(ax, model, X, color="0.5")
        share = len(model.support_) / len(y)
        ax.set_title(
            rf"$\nu$ = {nu:g}: {share:.0%} selected, $\rho$ = {model.lam_[0]:.2f}", fontsize="medium"
        )
    return fig


def synth_nu(fig: Any = None) -> Any:
    """Draw the number of selected points and the norm of w against nu."""
    fig, ax = _axes(fig, (7, 6.2))
    X, y = make_synth()
    nus = np.linspace(500, 1000, 8)
    models = [sparse_klr(nu).fit(X, y) for nu in nus]
    selected = [len(model.support_) for model in models]
    (points,) = ax.plot(nus, selected, "o-", color="tab:blue", label="selected points")
    (least,) = ax.plot(nus, nus / C, ":", color="tab:blue", label=r"least possible, $\nu / C$")
    ax.set(xlabel=r"$\nu$", ylabel="selected points (of 99)", ylim=(0, None))
    twin = ax.twinx()
    norms = [np.linalg.norm(weights(model)) for model in models]
    (norm,) = twin.plot(nus, norms, "s--", color="tab:red", label=r"$\|w\|$")
    twin.spines["right"].set_visible(True)
    twin.set(ylabel=r"$\|w\|$", ylim=(0, None))
    ax.legend(handles=[points, least, norm], loc="upper center")
    return fig


def sparse_and_thresholded(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Return a fitted sparse KLR, and a plain KLR thresholded to the same number of points."""
    sparse = sparse_klr(SPARSE_NU).fit(X, y)
    return sparse, ThresholdedKLR(C, n_points=len(sparse.support_), kernel="linear").fit(X, y)


def synth_thresholding(fig: Any = None) -> Any:
    """Draw the decision boundaries of sparse KLR, of thresholded KLR and of plain KLR."""
    fig, ax = _axes(fig, (7, 6.2))
    X, y = make_synth()
    sparse, thresholded = sparse_and_thresholded(X, y)
    dense = sparse_klr(0).fit(X, y)
    draw_points(ax, X, y, np.intersect1d(sparse.support_, thresholded.support_))
    for indices, color, label in (
        (np.setdiff1d(sparse.support_, thresholded.support_), "darkcyan", "only by sparse KLR"),
        (np.setdiff1d(thresholded.support_, sparse.support_), "0.5", "only by thresholding"),
    ):
        ax.scatter(*X[indices].T, s=110, facecolors="none", edgecolors=color, linewidths=2, label=label)
    for model, name, style in (
        (sparse, "sparse KLR", {"color": "tab:blue", "linestyle": "--"}),
        (thresholded, "thresholding", {"color": "tab:orange"}),
        (dense, "KLR", {"color": "tab:green", "linestyle": "-."}),
    ):
        label = f"{name}: {len(model.support_)} points, {model.score(X, y):.0%} right"
        draw_boundary(ax, model, X, linewidth=2, label=label, **style)
    fig.legend(loc="outside lower center", ncols=2, fontsize="small")
    return fig


def relative_weights(model: Any) -> dict[int, float]:
    """Return the fraction that each point contributes to the sum of the dual variables, by index."""
    alpha = np.abs(model.dual_coef_[0])
    return dict(zip(model.support_.tolist(), (alpha / alpha.sum()).tolist(), strict=True))


def synth_weights(fig: Any = None) -> Any:
    """Draw the relative weights of the points that sparse KLR and thresholding select."""
    fig, ax = _axes(fig, (7, 6.2))
    sparse, thresholded = map(relative_weights, sparse_and_thresholded(*make_synth()))
    indices = sorted({*sparse, *thresholded})
    for offset, found, color, name in (
        (-0.2, sparse, "tab:blue", "sparse KLR"),
        (0.2, thresholded, "gold", "thresholding"),
    ):
        heights = [found.get(index, 0.0) for index in indices]
        ax.bar(np.arange(len(indices)) + offset, heights, 0.4, color=color, edgecolor="0.4", label=name)
    ax.set_xticks(range(len(indices)), indices, fontsize="small", rotation=90)
    ax.set(xlabel="index of the point", ylabel=r"$\alpha_i\, /\, \sum_j \alpha_j$")
    ax.legend()
    return fig


#: The figures and their captions, in the order of the paper.
FIGURES: dict[Callable[[], Any], str] = {
    losses: "Hinge loss of the support vector machine and logistic loss.",
    shift: "A shift by rho = 1 raises the loss of points near the boundary, but hardly that of easy points.",
    second_derivative: "Second derivative of the logistic loss: the loss is curved only near zero.",
    synth_scatter: "Synth: a larger nu keeps only the points near the boundary (bold).",
    synth_nu: "Synth: as nu grows, fewer points are selected and the norm of w grows.",
    synth_thresholding: "Synth: sparse KLR keeps the boundary of plain KLR; thresholding changes it.",
    synth_weights: "Synth: sparse KLR distributes the weight evenly; thresholding does not.",
}


# -- as a part of a page ----------------------------------------------------------------------


def to_svg(draw: Callable[[], Any]) -> str:
    """Return a figure as SVG, in which text remains text and has the colour of the surrounding text."""
    names = ["text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"]
    name = getattr(draw, "__name__", "figure")
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 12,
        "font.sans-serif": ["DejaVu Sans"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        **dict.fromkeys(names, INK),
    }
    buffer = io.StringIO()
    with matplotlib.rc_context(style):
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        draw().savefig(buffer, format="svg", transparent=True, metadata=metadata)
    svg = buffer.getvalue()[buffer.getvalue().index("<svg") :]
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)  # the same in every figure
    svg = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"| height="[\d.]+pt"', "", svg, count=2)
    return svg.replace(INK, "currentColor").replace("'DejaVu Sans'", "'DejaVu Sans', sans-serif")
