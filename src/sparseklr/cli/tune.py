"""``sparseklr tune``: the model chosen by cross-validation."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from .options import add_command, add_training, number, output_of

EXAMPLES = """\
  sparseklr tune customers.csv --target churned -o model.skops
  sparseklr tune customers.csv --target churned --selection one-se --gammas scale 1 10 -o model.skops
  sparseklr tune customers.csv --target churned --scoring neg_log_loss --cv 10 --jobs -1 -o model.skops"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "tune",
        run,
        "Choose C, lam and gamma by cross-validation, and fit the chosen model. The file is prepared as by "
        "sparseklr fit.",
        EXAMPLES,
    )
    add_training(parser)
    group = parser.add_argument_group("candidates and choice")
    group.add_argument(
        "--Cs",
        metavar="C",
        nargs="+",
        type=number(above=0),
        default=[1e3, 1e4, 1e5],
        help="weights of the loss",
    )
    group.add_argument(
        "--lams",
        metavar="LAM",
        nargs="+",
        type=number(least=0),
        default=[0.01, 0.1, 1.0],
        help="margins, in units of C (default: 0.01 0.1 1)",
    )
    group.add_argument(
        "--gammas",
        metavar="GAMMA",
        nargs="+",
        type=number(above=0, words=("scale", "auto")),
        help="kernel widths",
    )
    group.add_argument("--cv", type=number(least=2, kind=int), default=5, help="number of folds (default: 5)")
    group.add_argument("--scoring", help="a scorer of scikit-learn (default: accuracy)")
    group.add_argument(
        "--selection",
        choices=("best", "sparsest-of-3", "one-se"),
        default="best",
        help="the best candidate, the sparsest of the best three, or the sparsest within a standard error",
    )


def run(args: Namespace) -> None:
    from sklearn.metrics import get_scorer_names

    from ..estimators.cv import SparseKLRCV
    from .errors import unknown
    from .models import save_model
    from .show import say, show_fit
    from .training import make_estimator, shows_progress, train

    output = output_of(args)
    if args.scoring is not None and args.scoring not in get_scorer_names():
        raise unknown("--scoring: there is no scorer", args.scoring, get_scorer_names(), "scorers")
    search = SparseKLRCV(
        args.Cs,
        lams=args.lams,
        gammas=args.gammas,
        estimator=make_estimator(args),
        cv=args.cv,
        scoring=args.scoring,
        selection=args.selection,
        n_jobs=args.jobs,
        verbose=shows_progress(args),
    )
    pipeline, rows, summary = train(args, search)
    tuning = {
        "scoring": args.scoring or "accuracy",
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


def _candidates(search: Any) -> list[dict[str, Any]]:
    found = search.cv_results_
    return [
        {
            **params,
            "score": float(found["mean_test_score"][k]),
            "std": float(found["std_test_score"][k]),
            "n_points": float(found["mean_n_support"][k]),
            "rank": int(found["rank_test_score"][k]),
        }
        for k, params in enumerate(found["params"])
    ]


def _show(tuning: dict[str, Any], stderr: bool, most: int = 10) -> None:
    """The best candidates, and the chosen one wherever it is."""
    from .show import show_table

    candidates, chosen = tuning["candidates"], tuning["chosen"]
    order = sorted(range(len(candidates)), key=lambda k: candidates[k]["rank"])
    shown = [k for place, k in enumerate(order) if place < most or k == chosen]
    widths = ["gamma"] if "gamma" in candidates[0] else []
    rows = []
    for k in shown:
        one = candidates[k]
        values = [
            f"{one[name]:g}" if isinstance(one[name], float) else one[name] for name in ("C", "lam", *widths)
        ]
        mark = "chosen" if k == chosen else ""
        rows.append(
            [
                f"{one['rank']}",
                *values,
                f"{one['score']:.4f}",
                f"{one['std']:.4f}",
                f"{one['n_points']:.0f}",
                mark,
            ]
        )
    left = f", {len(shown)} shown" if len(shown) < len(candidates) else ""
    show_table(
        f"{len(candidates)} candidates{left}",
        ("rank", "C", "lam", *widths, tuning["scoring"], "std", "points", ""),
        rows,
        bold=shown.index(chosen),
        stderr=stderr,
    )
