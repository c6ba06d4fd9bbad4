"""The public names, frozen: a change here is a change for users."""

import sparseklr

NAMES = """
AccuracySparsityDisplay HalfKLR ImportVectorMachine KLRPath ProbabilityReport ReliabilityDisplay Settings
Solution SolveInterrupted SparseKLR SparseKLRCV Status ThresholdedKLR expected_calibration_error klr_path
lam_for_nu nu_bar paper_saturation_bound probability_report saturation_bound solve_dual
"""


def test_public_names() -> None:
    assert sparseklr.__all__ == NAMES.split()
    assert all(getattr(sparseklr, name).__doc__ for name in sparseklr.__all__)
