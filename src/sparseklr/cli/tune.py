"""``sparseklr tune``: the model of the best kernel, or of the best C and lam."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from .options import add_command, add_training, number, output_of

EXAMPLES = """\
  sparseklr tune customers.csv --target churned -o model.skops
  sparseklr tune customers.csv --target churned --selection one-se --gammas scale 1 10 -o model.skops
  sparseklr tune customers.csv --target churned --scoring roc_auc --cv 10 --jobs -1 -o model.skops
  sparseklr tune customers.csv --target churned --calibration none --Cs 1 100 1e4 -o model.skops"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "tune",
        run,
        "Choose the kernel and its width by leave-one-out, and fit the model. C and lam, which hardly matter "
        "for refitted models, are chosen instead if they are given or if --calibration is not refit; by "
        "cross-validation. The file is prepared as by sparseklr fit.",
        EXAMPLES,
    )
    add_training(parser, kernel="loo; rbf where C, lam or gamma is given")
    group = parser.add_argument_group("candidates and choice")
    group.add_argument(
        "--Cs",
        metavar="C",
        nargs="+",
        type=number(above=0),
        help="weights of the loss (1e3 1e4 1e5 where they are chosen)",
    )
    group.add_argument(
        "--lams",
        metavar="LAM",
        nargs="+",
        type=number(least=0),
        help="margins, in units of C (0.01 0.1 1 where they are chosen)",
    )
    group.add_argument(
        "--gammas",
        metavar="GAMMA",
        nargs="+",
        type=number(above=0, words=("scale", "auto")),
        help="kernel widths (default: around scale, in factors of three)",
    )
    group.add_argument(
        "--cv",
        type=number(least=2, kind=int),
        help="number of folds (default: leave-one-out for kernels, 5 for C and lam)",
    )
    group.add_argument(
        "--scoring",
        help="a scorer of scikit-learn (default: neg_log_loss; accuracy if --calibration is none)",
    )
    group.add_argument(
        "--selection",
        choices=("best", "sparsest-of-3", "one-se"),
        default="best",
        help="the best candidate, the sparsest of the best three, or the sparsest within a standard error",
    )


def run(args: Namespace) -> None:
    from sklearn.metrics import get_scorer_names

    from ..estimators.cv import SparseKLRCV
    from ..estimators.judges import scoring_or_default
    from .errors import unknown
    from .models import save_model
    from .terminal import say, show_fit
    from .training import make_estimator, shows_progress, train

    output = output_of(args)
    if args.scoring is not None and args.scoring not in get_scorer_names():
        raise unknown("--scoring: there is no scorer", args.scoring, get_scorer_names(), "scorers")
    searched: dict[str, str] = {}
    if not (args.Cs or args.lams or args.gammas) and args.calibration in (None, "refit"):
        searched = {} if args.kernel else {"kernel": "loo"}
        searched |= {} if args.kernel == "linear" else {"gamma": "loo"}
    search = SparseKLRCV(
        args.Cs,
        lams=args.lams,
        gammas=args.gammas,
        estimator=make_estimator(args, **searched),
        cv=args.cv,
        scoring=args.scoring,
        selection=args.selection,
        n_jobs=args.jobs,
        verbose=shows_progress(args),
    )
    scoring = scoring_or_default(args.scoring, search.estimator)
    pipeline, rows, summary = train(args, search, lambda y: _check_folds(args, scoring, y))
    tuning = {
        "scoring": scoring,
        "selection": args.selection,
        "chosen": search.best_index_,
        "candidates": _candidates(search),
    }
    search.best_estimator_.compact()
    save_model(output, pipeline, rows, args, training=summary, tuning=tuning)
    say(args.data, summary["notes"])
    if args.json:
        print(json.dumps({"model": args.output, **summary, "tuning": tuning}, indent=2))
    else:
        _show(tuning, stderr=args.output == "-")
        show_fit(summary, args.output)


def _check_folds(args: Namespace, scoring: str, y: Any) -> None:
    """Every class must be in every fold, where there are folds; for the accuracy, in two of them."""
    import numpy as np

    from .errors import CliError
    from .files import source_name

    linear = args.kernel == "linear" and not args.gammas
    by_folds = args.Cs or args.lams or linear or args.calibration not in (None, "refit")
    folds = args.cv or (5 if by_folds else 1)  # 1: leave-one-out
    classes, counts = np.unique(y, return_counts=True)
    least = min(folds, 2) if scoring == "accuracy" and counts.max() >= folds else folds
    if counts.min() < least:
        raise CliError(
            f"{source_name(args.data)}: --cv {folds}: class {classes[counts.argmin()]} has {counts.min()} "
            f"{'row' if counts.min() == 1 else 'rows'} to fit; expected {least} or more. Give fewer folds, "
            "or remove the class"
        )


def _candidates(search: Any) -> list[dict[str, Any]]:
    found = search.cv_results_
    return [
        {
            **params,
            "score": float(found["mean_test_score"][k]),
            "standard_error": float(found["standard_error"][k]),
            "n_points": float(found["mean_n_support"][k]),
            "seconds": float(found["mean_fit_time"][k]),
            "rank": int(found["rank_test_score"][k]),
        }
        for k, params in enumerate(found["params"])
    ]


def _show(tuning: dict[str, Any], stderr: bool, most: int = 10) -> None:
    """The best candidates, and the chosen one wherever it is."""
    from .terminal import show_table

    candidates, chosen = tuning["candidates"], tuning["chosen"]
    order = sorted(range(len(candidates)), key=lambda k: candidates[k]["rank"])
    shown = [k for place, k in enumerate(order) if place < most or k == chosen]
    names = [name for name in ("kernel", "gamma", "C", "lam") if name in candidates[0]]
    rows = []
    for k in shown:
        one = candidates[k]
        values = [f"{one[name]:.4g}" if isinstance(one[name], float) else f"{one[name]}" for name in names]
        measures = [f"{one['score']:.4f}", f"{one['standard_error']:.4f}", f"{one['n_points']:.0f}"]
        mark = "chosen" if k == chosen else ""
        rows.append([f"{one['rank']}", *values, *measures, f"{one['seconds']:.2f}", mark])
    left = f", {len(shown)} shown" if len(shown) < len(candidates) else ""
    show_table(
        f"{len(candidates)} candidates{left}",
        ("rank", *names, tuning["scoring"], "error", "points", "seconds", ""),
        rows,
        bold=shown.index(chosen),
        stderr=stderr,
    )
