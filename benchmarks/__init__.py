"""Measurements. Each module prints one table; run it with ``python -m benchmarks.NAME``."""
