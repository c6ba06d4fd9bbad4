"""Model files: a scikit-learn pipeline and what is known about it, stored by skops without pickle."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

from .. import __version__
from .data import Rows
from .errors import CliError, listing
from .files import replacing

# What a model file may hold beyond the types that skops trusts: nothing of these runs code when loaded.
TRUSTED = {
    "numpy.dtype",  # of the imputer
    "scipy.sparse._csr.csr_matrix",
    "sparseklr.estimators.dual_model.DualModel",
    "sparseklr.estimators.sparse_klr.SparseKLR",
    "sparseklr.rivals.half.HalfKLR",
    "sparseklr.rivals.import_vector.ImportVectorMachine",
    "sparseklr.kernels.Kernel",
    "sparseklr.rivals.thresholded.ThresholdedKLR",
}


def make_pipeline(estimator: Any, columns: dict[str, Any]) -> Any:
    """The estimator behind what makes its features: numbers in [0, 1], text as one column per value.

    Missing numbers become the median; where there were some in training, a column tells. Values of text
    that occur once, and those beyond the 50 most frequent, count as one. Sparse rows are only scaled.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder

    if "n_features" in columns:
        return Pipeline([("prepare", MaxAbsScaler()), ("model", estimator)])
    kinds = columns["features"]
    numbers = Pipeline(
        [("impute", SimpleImputer(strategy="median", add_indicator=True)), ("scale", MinMaxScaler())]
    )
    text = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=2, max_categories=50, sparse_output=False
    )
    prepare = ColumnTransformer(
        [
            ("numbers", numbers, [name for name, kind in kinds.items() if kind == "number"]),
            ("text", text, [name for name, kind in kinds.items() if kind == "text"]),
        ]
    )
    return Pipeline([("prepare", prepare), ("model", estimator)])


def save_model(output: Path, pipeline: Any, rows: Rows, target: str | None, **more: Any) -> None:
    """Write a model file, in one step."""
    import sklearn
    import skops.io

    metadata = {
        "target": target,
        "classes": pipeline.classes_.tolist(),
        "columns": rows.columns,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"sparseklr": __version__, "scikit-learn": sklearn.__version__},
        **more,
    }
    with replacing(output) as temporary:
        skops.io.dump({"pipeline": pipeline, "metadata": metadata}, temporary, compression=ZIP_DEFLATED)


def load_model(path: str) -> tuple[Any, dict[str, Any]]:
    """Pipeline and metadata of a model file; a file that holds anything unexpected is not loaded."""
    import skops.io

    if not Path(path).is_file():
        raise CliError(f"{path}: no such file")
    try:
        foreign = set(skops.io.get_untrusted_types(file=path)) - TRUSTED
        if foreign:
            raise CliError(
                f"{path}: not loaded, it holds types that are not trusted: {listing(sorted(foreign))}"
            )
        content = skops.io.load(path, trusted=sorted(TRUSTED))
        return content["pipeline"], {**content["metadata"]}
    except (CliError, PermissionError):
        raise
    except Exception as error:  # whatever a damaged archive makes of itself
        raise CliError(f"{path}: not a model written by sparseklr fit or tune, or damaged") from error
