"""A fitted model as plain numbers: what every export format writes down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import log_expit, softmax
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..baselines.import_vector import ImportVectorMachine
from ..estimators.base import KernelClassifier
from ..estimators.compact_klr import CompactKLR
from ..estimators.sparse_klr import SparseKLR
from ..kernels import NAMED_KERNELS
from ..probability.calibration import link
from .scaling import FeatureScaling, affine


@dataclass(frozen=True, eq=False)
class PortableModel:
    r"""A kernel classifier with every choice made and every parameter a number.

    With scaled features u (:class:`FeatureScaling`) the model is

    .. math:: f_o(x) = \sum_b \beta_{ob} k(u, z_b) + c_o

    and the class probabilities are the softmax of scores made from f: (0, f) for two classes;
    :math:`-\log(1 + e^{-f_o})` for one-vs-rest, which makes the sigmoids of f sum to one; f itself for
    ``"softmax"``.

    Attributes
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid"}
        :math:`e^{-d}` with :math:`d = \sum_j \gamma_j (u_j - z_j)^2` for rbf and
        :math:`d = \sum_j \gamma_j |u_j - z_j|` for laplacian. With the product
        :math:`q = \sum_j \gamma_j u_j z_j`, linear is q, poly :math:`(q + c)^{degree}` and sigmoid
        :math:`\tanh(q + c)`, c being ``coef0``.
    gamma : array (n_features,)
        All ones for the linear kernel.
    coef0, degree : float
    points : array (n_points, n_features)
        z, in units of the scaled features and in the dtype that the model was fitted to. For the linear
        kernel they are summed up to one for each output.
    coef : array (n_outputs, n_points)
        One output for two classes, one per class otherwise.
    intercept : array (n_outputs,)
    margin : array (n_outputs,) or None
        If given, f is first replaced by :func:`~sparseklr.probability.calibration.link` of f and the margin.
    classes : array (n_classes,)
    scores : {"one-vs-rest", "softmax"}
        Which of the two rules above holds for more than two classes.
    scaling : FeatureScaling
    """

    kernel: str
    gamma: np.ndarray
    coef0: float
    degree: float
    points: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    margin: np.ndarray | None
    classes: np.ndarray
    scores: Literal["one-vs-rest", "softmax"]
    scaling: FeatureScaling

    @classmethod
    def of(cls, model: Any) -> PortableModel:
        """The numbers of a fitted estimator, or of a pipeline of scalers that ends in one."""
        if isinstance(model, cls):
            return model
        check_is_fitted(model)
        if isinstance(model, Pipeline):
            steps = [step for _, step in model.steps if step not in (None, "passthrough")]
            portable = cls.of(steps[-1])
            for step in reversed(steps[:-1]):
                if type(step).__name__ != "TableReader":  # its columns are what the exported model is given
                    portable = replace(portable, scaling=portable.scaling.after(*affine(step)))
            return portable
        if hasattr(model, "best_estimator_"):  # SparseKLRCV, GridSearchCV
            return cls.of(model.best_estimator_)
        if isinstance(model, CompactKLR):
            return cls._of_compact(model)._with_a_point()
        if not isinstance(model, KernelClassifier):
            raise TypeError(
                "model must be a fitted classifier of sparseklr, a search over one (such as GridSearchCV) or "
                f"a pipeline that ends in one; got {type(model).__name__}."
            )
        return cls._of_classifier(model)._with_a_point()

    @classmethod
    def _of_classifier(cls, model: KernelClassifier) -> PortableModel:
        kernel = model._kernel
        if kernel.name not in NAMED_KERNELS:
            raise ValueError(
                f"kernel={model.kernel!r} cannot be exported, because it is not a formula of the features; "
                f"expected one of {', '.join(NAMED_KERNELS)}."
            )
        points = model.support_vectors_
        points = points.toarray() if sparse.issparse(points) else points
        n_features = points.shape[1]
        coef, intercept, margin = model.dual_coef_, model.intercept_, None
        if isinstance(model, SparseKLR) and model._calibration == "sigmoid":
            slope, offset = model._platt.T
            coef, intercept = coef * slope[:, None], intercept * slope + offset
        elif isinstance(model, SparseKLR) and model._calibration == "link":
            margin = np.broadcast_to(np.asarray(model.lam_, dtype=np.float64), len(intercept))
        if kernel.name == "linear":  # a single weight vector for each output
            points, coef = coef @ points, np.eye(len(coef))
        return cls(
            kernel=str(kernel.name),
            gamma=np.full(n_features, 1.0 if kernel.name == "linear" else kernel.gamma),
            coef0=kernel.coef0,
            degree=kernel.degree,
            points=points,
            coef=coef,
            intercept=intercept,
            margin=margin,
            classes=model.classes_,
            scores="softmax" if isinstance(model, ImportVectorMachine) else "one-vs-rest",
            scaling=FeatureScaling.identity(n_features),
        )

    @classmethod
    def _of_compact(cls, model: CompactKLR) -> PortableModel:
        fitted, own = model._model, model._scaling
        return cls(
            kernel="rbf",
            gamma=fitted.gamma,
            coef0=0.0,
            degree=3.0,
            points=fitted.points,
            coef=model.dual_coef_,
            intercept=model.intercept_,
            margin=None,
            classes=model.classes_,
            scores="softmax",
            scaling=FeatureScaling(
                model.n_features_in_, own.kept, own.centre, 1 / own.spread, own.clip, own.knots
            ),
        )

    def _with_a_point(self) -> PortableModel:
        """The same model; without points or features, one point of coefficient 0: C has no empty arrays."""
        if self.points.size:
            return self
        n = self.scaling.n_inputs
        return replace(
            self,
            gamma=np.ones(n),
            points=np.zeros((1, n)),
            coef=np.zeros((len(self.intercept), 1)),
            scaling=FeatureScaling.identity(n),
        )

    def predict_proba(self, X: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """The formulas above in NumPy; every number and every operation has the given dtype."""
        u = self.scaling.apply(X, dtype)
        z, gamma = self.points.astype(dtype), self.gamma.astype(dtype)
        if self.kernel == "rbf":
            k = np.exp(-((u[:, None] - z) ** 2 @ gamma))
        elif self.kernel == "laplacian":
            k = np.exp(-(np.abs(u[:, None] - z) @ gamma))
        else:
            k = (u * gamma) @ z.T
            if self.kernel == "poly":
                k = (k + dtype(self.coef0)) ** dtype(self.degree)
            elif self.kernel == "sigmoid":
                k = np.tanh(k + dtype(self.coef0))
        f = k @ self.coef.T.astype(dtype) + self.intercept.astype(dtype)
        if self.margin is not None:
            margin: Any = self.margin.astype(dtype)
            f = link(f, margin)
        if len(self.classes) == 2:
            return np.asarray(softmax(np.hstack([np.zeros_like(f), f]), axis=1))
        return np.asarray(softmax(f if self.scores == "softmax" else log_expit(f), axis=1))
