"""The public names, frozen: a change here is a change for users."""

import sparseklr


def test_public_names() -> None:
    assert sorted(sparseklr.__all__) == [
        "Settings",
        "Solution",
        "SolveInterrupted",
        "SparseKLR",
        "Status",
        "solve_dual",
    ]
    assert all(getattr(sparseklr, name).__doc__ for name in sparseklr.__all__)
