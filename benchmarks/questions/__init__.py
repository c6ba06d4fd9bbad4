"""Figures for the user guide, one module for each of its questions.

Each has NOTE (what was measured), COLUMNS and ``measure()``, which returns rows.
"""

QUESTIONS = (
    "parameters",
    "scaling",
    "size",
    "limits",
    "weights",
    "thresholds",
    "far",
    "diagnostics",
    "explaining",
    "serving",
    "determinism",
)
