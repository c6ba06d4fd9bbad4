"""Helpers for several tests: data, reference solvers, runners, and checks that estimators share."""
