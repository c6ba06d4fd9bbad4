"""Benchmarks of the package. ``python -m benchmarks.NAME`` runs the benchmark NAME and prints its results."""
