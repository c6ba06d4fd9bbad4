"""Estimators and functions under test, with random parameters and checks of what they guarantee."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparseklr import SKLR, SKLRCV, CompactKLR, SparseKLR, klr_path
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR
from sparseklr.dual import Status, solve_dual

from . import exact
from .findings import Findings
from .inputs import CONTAINERS, Data, Rng
from .tables import table
from .trial import Trial

BOUND_FRACTION = 1e-9  # the documented default of ``bound``, as a fraction of C times the weight


# -- parameters ------------------------------------------------------------------------------


def constant(rng: Rng, low: float, high: float) -> float:
    """Return a number between two powers of ten, or rarely a far larger or smaller one."""
    if rng.random() < 0.04:
        digits = rng.choice([20, 80, 300])
        return float(10 ** rng.uniform(-digits, digits))
    return float(10 ** rng.uniform(low, high))


def extreme(value: Any) -> bool:
    return not isinstance(value, str) and not 1e-6 <= value <= 1e9


def kernel_parameters(rng: Rng, data: Data) -> dict[str, Any]:
    name = str(rng.choice(["rbf", "linear", "poly", "laplacian", "sigmoid"], p=[0.5, 0.15, 0.15, 0.1, 0.1]))
    found: dict[str, Any] = {"kernel": name}
    if name != "linear":
        found["gamma"] = ["scale", constant(rng, -3, 2)][rng.choice(2, p=[0.65, 0.35])]
    if name in ("poly", "sigmoid"):
        found["coef0"] = float(rng.choice([0.0, 1.0, -1.0, 0.3]))
    if name == "poly":
        found["degree"] = float(rng.choice([1, 2, 3, 2.5, 0, 6]))
    return found


def common_parameters(rng: Rng, data: Data) -> dict[str, Any]:
    found: dict[str, Any] = {"n_jobs": [None, 1, 2][rng.choice(3, p=[0.6, 0.2, 0.2])]}
    if rng.random() < 0.2:
        labels = np.unique(data.labels)
        chosen = rng.choice(["balanced", "dict"])
        if chosen == "balanced":
            found["class_weight"] = "balanced"
        else:
            found["class_weight"] = {label: float(10 ** rng.uniform(-2, 2)) for label in labels.tolist()}
    return found


def solver_parameters(rng: Rng) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if rng.random() < 0.5:
        found["tol"] = float(10 ** rng.uniform(-9, -1))
    found["max_iter"] = int(rng.choice([-1, 1, 30, 3000, 200_000], p=[0.4, 0.05, 0.1, 0.15, 0.3]))
    found["working_set"] = str(rng.choice(["mixed", "second-order", "first-order"], p=[0.7, 0.15, 0.15]))
    return found


def limit_steps(parameters: dict[str, Any], data: Data) -> None:
    """Limit the steps of badly conditioned problems, for which decomposition may take very many.

    With ``max_iter=-1`` a solve may take any amount of time. It must end soon if features are scaled, kernels
    are bounded and constants are moderate. For Platt's sigmoid, every problem is solved six times.
    """
    weight = 1.0 if data.weight is None else np.nanmax(data.weight)
    gentle = parameters.get("kernel", "rbf") in ("rbf", "laplacian") and weight <= 1e5 / parameters["C"]
    most = 20_000 if parameters.get("calibration") == "sigmoid" else 100_000
    if not (gentle and parameters.get("tol", 1e-4) >= 1e-5) and not 0 < parameters["max_iter"] <= most:
        parameters["max_iter"] = most


def illegal(rng: Rng, parameters: dict[str, Any]) -> bool:
    """Rarely replace one parameter by an invalid value, for which the error must name the parameter."""
    if rng.random() > 0.03:
        return False
    name = str(rng.choice(sorted(parameters)))
    parameters[name] = [-1.0, np.nan, "nonsense", None, [], np.inf][rng.integers(6)]
    return True


def fitted(rng: Rng, data: Data, findings: Findings, model: Any, tame: bool) -> Trial:
    """Fit a model, sometimes with a precomputed or callable kernel, and return its trial."""
    trial = Trial(rng, data, findings, model, tame)
    trial.precompute()
    findings.start(f"{model!r} ({trial.kernel_form} kernel) on {data.about}")
    trial.fit()
    return trial


# -- the subjects ----------------------------------------------------------------------------


def sklr(rng: Rng, data: Data, findings: Findings) -> None:
    parameters = {"C": constant(rng, -3, 6), **kernel_parameters(rng, data), **common_parameters(rng, data)}
    parameters |= solver_parameters(rng)
    tame = data.tame and not extreme(parameters["C"]) and not extreme(parameters.get("gamma", 1.0))
    if rng.random() < 0.6:
        parameters["lam"] = float(rng.choice([0.0, 1.0, 0.1 * parameters["C"], parameters["C"]]))
    elif rng.random() < 0.2:
        smaller = min(np.unique(data.labels, return_counts=True)[1])
        parameters["nu"] = float(2 * parameters["C"] * smaller * rng.choice([0.01, 0.5, 0.95]))
        tame = False
    parameters["calibration"] = ["sigmoid", "link", None][rng.choice(3, p=[0.3, 0.3, 0.4])]
    limit_steps(parameters, data)
    if rng.random() < 0.1:
        parameters["bound"] = float(10 ** rng.uniform(-12, -2)) * parameters["C"]
        tame = False
    if rng.random() < 0.1:
        parameters["cache_size"] = float(10 ** rng.uniform(-3, 1))
    parameters["warm_start"] = bool(rng.random() < 0.1)
    tame = tame and not parameters.get("degree", 1.0) > 3 and parameters.get("degree") != 2.5
    tame = not illegal(rng, parameters) and tame
    model = SKLR(**parameters)
    trial = fitted(rng, data, findings, model, tame)
    for name in ("dual_coef_", "intercept_", "kkt_violation_", "dual_gap_", "lam_"):
        findings.finite(name, getattr(model, name))
    trial.predict()
    dual_certificate(trial, model)
    if model.warm_start:
        trial.fit()
        trial.predict()


def sparse_klr(rng: Rng, data: Data, findings: Findings) -> None:
    parameters = {"C": ["auto", constant(rng, -3, 4)][rng.choice(2, p=[0.7, 0.3])]}
    parameters |= {**kernel_parameters(rng, data), **common_parameters(rng, data)}
    tame = data.tame and not extreme(parameters["C"]) and not extreme(parameters.get("gamma", 1.0))
    if parameters["kernel"] in ("rbf", "laplacian") and rng.random() < 0.15:
        parameters["kernel"] = "auto"
    if "gamma" in parameters and rng.random() < 0.15:
        parameters["gamma"] = "auto"
    parameters["prune"] = float(rng.choice([0.05, 0.0, 1.0]))
    if rng.random() < 0.3:
        parameters["box"] = float(10 ** rng.uniform(-2, 2))
    if rng.random() < 0.3:
        parameters["tol"] = float(10 ** rng.uniform(-5, -1))
    if rng.random() < 0.1:
        parameters["cache_size"] = float(10 ** rng.uniform(-3, 1))
    tame = tame and not parameters.get("degree", 1.0) > 3 and parameters.get("degree") != 2.5
    tame = not illegal(rng, parameters) and tame
    model = SparseKLR(**parameters)
    trial = fitted(rng, data, findings, model, tame)
    for name in ("dual_coef_", "intercept_", "kkt_violation_", "dual_gap_", "loo_log_loss_", "C_", "slope_"):
        findings.finite(name, getattr(model, name))
    for name, values in model.search_results_.items():
        if name != "seconds":  # NaN without a search
            findings.finite(f"search_results_[{name!r}]", values)
    outputs = model.loo_decision_function_[trial.weights() > 0]
    findings.finite("loo_decision_function_", outputs)
    trial.sound(model.loo_log_loss_, left_out_error(trial, outputs))
    trial.predict()


def left_out_error(trial: Trial, outputs: np.ndarray) -> float:
    """Return the standard error of the mean leave-one-out log-loss over the rows."""
    weight = trial.weights()
    kept = weight > 0
    codes = np.searchsorted(trial.model.classes_, trial.data.labels[kept])
    with np.errstate(all="ignore"):
        if outputs.ndim == 1:
            losses = np.logaddexp(0, np.where(codes == 1, -outputs, outputs))
        else:
            log_p = -np.logaddexp(0, -outputs)
            losses = np.logaddexp.reduce(log_p, axis=1) - log_p[np.arange(len(codes)), codes]
    fraction = weight[kept] / weight[kept].max()
    fraction = fraction / fraction.sum()
    return float(np.sqrt(fraction**2 @ (losses - fraction @ losses) ** 2))


def dual_certificate(trial: Trial, model: SKLR) -> None:
    """Check the optimality conditions of every binary problem, if the model reports that it converged."""
    if model.converged_:
        rows = trial.weighted_rows()
        rows = (*rows, rows[0])
        optimality(trial, model, rows, model.support_, model.dual_coef_, model.lam_, model.bound)


def optimality(
    trial: Trial,
    model: SKLR | ThresholdedKLR,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    support: np.ndarray,
    coef: np.ndarray,
    lams: np.ndarray,
    bound: float | None,
) -> None:
    """Check the optimality conditions, given rows from :meth:`Trial.merged_rows` and coefficients."""
    findings, (kept, group, weight, seen) = trial.findings, rows
    K = trial.kernel_values(trial.data.dense)[np.ix_(seen, seen)]
    if not np.isfinite(K.astype(np.float64)).all():
        findings.add("converged, but the kernel overflows")
        return
    above = np.zeros((len(coef), len(kept)))
    np.add.at(above, (slice(None), group[support]), np.abs(coef))
    error = trial.kernel_error()
    box = model.C * weight
    bounds = BOUND_FRACTION * box if bound is None else np.full(len(kept), bound)
    labels = np.searchsorted(model.classes_, trial.data.labels[kept])
    for k, (alpha, lam) in enumerate(zip(above, lams, strict=True)):
        y = np.where(labels == (1 if len(above) == 1 else k), 1.0, -1.0)
        violation = exact.dual_violation(K, y, box, bounds, lam, alpha)
        allowed = model.tol * max(1.0, lam) * 1.001 + 2 * error * alpha.sum()
        if not violation <= allowed:
            findings.add(f"converged with a KKT violation of {violation:.3g}, allowed {allowed:.3g}")


def sklr_cv(rng: Rng, data: Data, findings: Findings) -> None:
    inner = {**kernel_parameters(rng, data), **common_parameters(rng, data)}
    inner["calibration"] = ["sigmoid", "link", None][rng.integers(3)]
    inner["max_iter"] = 100_000
    estimator = SKLR(**inner)
    parameters = {
        "Cs": [constant(rng, -2, 5) for _ in range(rng.integers(1, 3))],
        "lams": [0.1, 1.0][: rng.integers(1, 3)],
        "estimator": estimator,
        "cv": int(rng.choice([2, 3])),
        "selection": str(rng.choice(["best", "sparsest-of-3", "one-se"])),
        "scoring": [None, "neg_log_loss", "roc_auc_ovr", "balanced_accuracy"][rng.integers(4)],
        "n_jobs": inner["n_jobs"],
    }
    illegal(rng, parameters)
    model = SKLRCV(**parameters)
    trial = Trial(rng, data, findings, model, False)
    findings.start(f"{model!r} on {data.about}")
    trial.fit()
    for name, values in model.cv_results_.items():
        if name != "params" and not name.startswith("param_"):
            findings.finite(name, values)
    trial.predict()
    trial.model = model.best_estimator_
    dual_certificate(trial, model.best_estimator_)


def thresholded(rng: Rng, data: Data, findings: Findings) -> None:
    parameters = {"C": constant(rng, -3, 5), **kernel_parameters(rng, data), **common_parameters(rng, data)}
    parameters |= {"tol": float(10 ** rng.uniform(-6, -1)), "max_iter": int(rng.choice([-1, 1, 3000]))}
    parameters["retrain"] = bool(rng.random() < 0.3)
    limit_steps(parameters, data)
    if rng.random() < 0.5:
        parameters["n_points"] = int(rng.integers(1, len(data.labels) + 2))
    elif rng.random() < 0.5:
        parameters["threshold"] = 0.0
    illegal(rng, parameters)
    model = ThresholdedKLR(**parameters)
    trial = fitted(rng, data, findings, model, False)
    findings.finite("dual_coef_", model.dual_coef_)
    findings.finite("threshold_", model.threshold_)
    trial.predict()
    if model.converged_ and model.threshold_ == 0 and not model.retrain:  # there are no held-out rows
        rows = trial.merged_rows()
        optimality(
            trial, model, rows, model.support_, model.dual_coef_, np.zeros(len(model.dual_coef_)), None
        )


def import_vector(rng: Rng, data: Data, findings: Findings) -> None:
    parameters = {"C": constant(rng, -3, 5), **kernel_parameters(rng, data), **common_parameters(rng, data)}
    parameters |= {
        "epsilon": float(rng.choice([1e-3, 0.0, 0.1])),
        "max_points": [None, 1, 10][rng.integers(3)],
        "n_candidates": ["all", 1, 20][rng.integers(3)],
        "update": str(rng.choice(["converged", "one-step"])),
        "fit_intercept": bool(rng.random() < 0.8),
    }
    tame = data.tame and not extreme(parameters["C"]) and not extreme(parameters.get("gamma", 1.0))
    tame = tame and parameters["kernel"] != "sigmoid" and parameters.get("degree") not in (2.5, 6.0)
    tame = not illegal(rng, parameters) and tame
    model = ImportVectorMachine(**parameters)
    trial = fitted(rng, data, findings, model, tame)
    findings.finite("dual_coef_", model.dual_coef_)
    findings.finite("objective_path_", model.objective_path_)
    trial.predict()
    if model.converged_ and model.update == "converged":
        kept, number, weight = trial.weighted_rows()
        codes = np.searchsorted(model.classes_, data.labels[kept])
        # The model minimises the objective for the kernel matrix that it computed. Squared distances between
        # sparse rows of size 1e9 have errors of 100, with which no minimum for the true matrix can be found.
        K, points = trial.seen_kernel(kept, double=True), number[model.support_]
        gain, objective, rounding = exact.likelihood_gain(
            K, points, model.dual_coef_, model.intercept_, model.C * weight, codes, model.fit_intercept
        )
        # The minimum is accurate to tol; float32 rows and nearly dependent points reduce the accuracy.
        if not gain <= max(1e-5, 100 * model.tol) * max(objective, 1e-300) + 10 * rounding:
            findings.add(f"converged, but {gain:.3g} of the objective {objective:.3g} can still be gained")


def half(rng: Rng, data: Data, findings: Findings) -> None:
    parameters = {"C": constant(rng, -3, 4), **kernel_parameters(rng, data), **common_parameters(rng, data)}
    parameters |= {
        "algorithm": str(rng.choice(["coordinate", "published"], p=[0.8, 0.2])),
        "tol": float(10 ** rng.uniform(-7, -2)),
        "max_iter": int(rng.choice([1, 30, 1000])),
        "fit_intercept": bool(rng.random() < 0.8),
    }
    illegal(rng, parameters)
    model = HalfKLR(**parameters)
    trial = fitted(rng, data, findings, model, False)
    for name in ("dual_coef_", "intercept_", "fixed_point_residual_"):
        findings.finite(name, getattr(model, name))
    trial.predict()
    if not model.converged_:
        return
    if model.fixed_point_residual_ > model.tol:
        findings.add(f"converged with a residual of {model.fixed_point_residual_:.3g}, tol {model.tol:.3g}")
    if model.algorithm == "coordinate":
        kept, number, weight, seen = trial.merged_rows()
        K, codes = trial.seen_kernel(seen, double=True), np.searchsorted(model.classes_, data.labels[kept])
        for k, (coef, intercept) in enumerate(zip(model.dual_coef_, model.intercept_, strict=True)):
            y = np.where(codes == (k if len(model.classes_) > 2 else 1), 1.0, -1.0)
            on = np.flatnonzero(coef)
            columns = K[:, number[model.support_[on]]]
            f = columns.astype(exact.Wide) @ coef[on] + intercept
            moved = exact.half_violation(columns, y, model.C * weight, coef[on], f, model.fit_intercept)
            if not moved <= 1.1 * model.tol:
                findings.add(f"converged, but thresholding moves a coefficient by {moved:.3g}")


def compact(rng: Rng, data: Data, findings: Findings) -> None:
    parameters = {
        "n_points": ["auto", 1, 2, 7][rng.integers(4)],
        "max_points": int(rng.choice([2, 8, 32])),
        "relevance": str(rng.choice(["features", "shared"])),
        "C": ["auto", constant(rng, -2, 5)][rng.choice(2, p=[0.7, 0.3])],
        "scale": ["auto", None][rng.choice(2, p=[0.8, 0.2])],
        "tol": float(rng.choice([1e-4, 1e-2, 0.0])),
        "warm_start": bool(rng.random() < 0.2),
        **common_parameters(rng, data),
    }
    tame = data.tame and not extreme(parameters["C"])
    tame = not illegal(rng, parameters) and tame
    model = CompactKLR(**parameters)
    trial = Trial(rng, data, findings, model, tame)
    findings.start(f"{model!r} on {data.about}")
    for _ in range(2 if parameters["warm_start"] is True else 1):
        trial.fit()
        for name in ("points_", "dual_coef_", "intercept_", "relevance_", "feature_importances_", "C_"):
            findings.finite(name, getattr(model, name))
        findings.finite("gradient_norm_", model.gradient_norm_)
        findings.finite("shrinkage_", model.shrinkage_)
        if model.validation_log_loss_ is not None:
            findings.finite("validation_log_loss_", model.validation_log_loss_)
            losses, errors = model.search_results_["log_loss"], model.search_results_["standard_error"]
            trial.sound(model.validation_log_loss_, float(errors.max()), fractions=float(losses[0]))
        for name, values in model.search_results_.items():
            findings.finite(f"search_results_[{name!r}]", values)
        trial.predict()


def path(rng: Rng, data: Data, findings: Findings) -> None:
    parameters = {**kernel_parameters(rng, data), **common_parameters(rng, data)}
    parameters |= {"max_iter": 100_000, "tol": float(10 ** rng.uniform(-6, -2))}
    parameters["Cs"] = [constant(rng, -3, 5) for _ in range(rng.integers(1, 4))]
    parameters["lams"] = [0.0, 0.1, 1.0, 0.5][: rng.integers(1, 5)]
    parameters["lam_scale"] = str(rng.choice(["ratio", "absolute"]))
    illegal(rng, parameters)
    findings.start(f"klr_path({parameters}) on {data.about}")
    X = data.contain(data.dense)
    findings.fits += 1
    with findings.watch("klr_path", tame=False):
        found = klr_path(X, data.given_labels, sample_weight=data.weight, **parameters)
        f = found.decision_function(data.contain(data.queries(rng)))
    for name, values in (("decision_function", f), ("gap", found.gap), ("coef", found.coef)):
        findings.finite(name, values)
    training = found.training
    kernel = training.kernel
    rows = data.dense[training.positions]
    K = exact.kernel(kernel.name, kernel.gamma, kernel.coef0, kernel.degree, rows, rows)
    seen = kernel.gram(training.X)
    error = float(np.abs(seen.astype(exact.Wide) - K).max())
    signs = training.signs()
    for (c, k, output), solution in np.ndenumerate(found.solutions):
        if solution.status is Status.OPTIMAL:
            box, lam = found.Cs[c] * training.weight, found.lams[c, k]
            violation = exact.dual_violation(K, signs[output], box, BOUND_FRACTION * box, lam, solution.alpha)
            allowed = parameters["tol"] * max(1.0, lam) * 1.001 + 2 * error * solution.alpha.sum()
            if not violation <= allowed:
                findings.add(f"optimal with a KKT violation of {violation:.3g}, allowed {allowed:.3g}")


def dual(rng: Rng, data: Data, findings: Findings) -> None:
    kernel = kernel_parameters(rng, data)
    values = (kernel["kernel"], 0.5, kernel.get("coef0", 0.0), kernel.get("degree", 3.0))
    with np.errstate(all="ignore"):
        K = exact.kernel(*values, data.dense, data.dense).astype(rng.choice([np.float64, np.float32]))
    labels = np.unique(data.labels)
    y = np.where(data.labels == labels[-1], 1, -1)
    parameters = {"kernel": values[0], "C": constant(rng, -3, 6), **solver_parameters(rng)}
    limit_steps(parameters, data)
    del parameters["kernel"]
    parameters["lam"] = float(rng.choice([0.0, 1.0, 0.1 * parameters["C"], parameters["C"]]))
    if rng.random() < 0.2:
        parameters["alpha0"] = rng.normal(size=len(y)) * constant(rng, -3, 3)
    tame = data.tame and kernel["kernel"] == "rbf" and not extreme(parameters["C"])
    tame = not illegal(rng, parameters) and "alpha0" not in parameters and tame
    shown = {name: value if np.ndim(value) == 0 else "..." for name, value in parameters.items()}
    findings.start(f"solve_dual({shown}, {values}) on {data.about}")
    container = str(
        rng.choice(["array", "Fortran", "strided", "read-only", "memory-mapped", "list", "frame"])
    )
    given = CONTAINERS[container](rng, K)
    findings.fits += 1
    with findings.watch("solve_dual", tame=tame):
        solution = solve_dual(
            given,
            y,
            sample_weight=data.weight,
            **parameters,
        )
    for name in ("alpha", "F", "intercept", "gap", "kkt_violation", "primal_objective", "dual_objective"):
        findings.finite(name, getattr(solution, name))
    weight = np.ones(len(y)) if data.weight is None else data.weight
    kept = np.flatnonzero(weight > 0)
    box, alpha = parameters["C"] * weight[kept], solution.alpha[kept]
    if (alpha < 0).any() or (alpha > box).any():
        findings.add("alpha is not in its box")
    if solution.status is Status.OPTIMAL:
        bound = BOUND_FRACTION * box
        wide = K.astype(exact.Wide)[np.ix_(kept, kept)]
        violation = exact.dual_violation(
            wide, y[kept].astype(float), box, bound, parameters["lam"], alpha - bound, bound_counts=True
        )
        allowed = parameters.get("tol", 1e-5) * max(1.0, parameters["lam"]) * 1.001
        if not violation <= allowed:
            findings.add(f"optimal with a KKT violation of {violation:.3g}, allowed {allowed:.3g}")


Subject = Callable[[Rng, Data, Findings], None]
#: The relative frequency of each subject.
SUBJECTS: dict[str, tuple[int, Subject]] = {
    "SparseKLR": (4, sparse_klr),
    "SKLR": (4, sklr),
    "SKLRCV": (1, sklr_cv),
    "ThresholdedKLR": (1, thresholded),
    "ImportVectorMachine": (2, import_vector),
    "HalfKLR": (2, half),
    "CompactKLR": (2, compact),
    "tabular_pipeline": (1, table),
    "klr_path": (1, path),
    "solve_dual": (3, dual),
}
