"""Text helpers of ``benchmarks.arena``: display names of models, Markdown tables, and generated parts of pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

OURS = ("SparseKLR", "CompactKLR")
NAMES = {
    "SparseKLR": "`SparseKLR()`",
    "CompactKLR": "`CompactKLR()`",
    "CatBoost": "`CatBoostClassifier()`",
    "LightGBM": "`LGBMClassifier()`",
    "RealMLP": "RealMLP",
    "xRFM": "xRFM",
    "forest": "`RandomForestClassifier()`",
    "SVC": "calibrated `SVC()`",
    "logistic": "`LogisticRegression()`",
    "HistGradientBoosting": "`HistGradientBoostingClassifier()`",
}
SHORT = {
    "HistGradientBoosting": "HistGB",
    "forest": "Forest",
    "logistic": "Logistic",
}  # heads of narrow columns
BEGIN, END = "<!-- written by python -m benchmarks.arena page -->\n", "<!-- end -->"


def plain(model: str) -> str:
    """Return the name of a model as plain text."""
    return NAMES[model].replace("`", "").replace("()", "").removesuffix("Classifier")


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|---|" + "---:|" * (len(columns) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def replace_part(page: Path, text: str) -> None:
    """Replace the text between the two markers of a page."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    page.write_text(before + BEGIN + text + END + rest.split(END, 1)[1], encoding="utf-8")
