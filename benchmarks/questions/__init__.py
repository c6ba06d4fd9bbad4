"""Measurements for the user guide, with one module for each of its questions.

Each module defines NOTE, which describes the measurement, COLUMNS, and ``measure()``, which returns the
rows.
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
