"""Measurements: each module prints one table; run them with ``python -m benchmarks.NAME``."""
