"""Numbers printed in Tables 2 to 5 of the paper.

Consolo, Manno and Amaldi (2025), Computers & Operations Research 188, 107363. Its Table 1 is in
:data:`paper.datasets.BENCHMARKS` (``paper_shape``).
"""

from __future__ import annotations

from .datasets import BENCHMARKS

#: A column of a table: method and rule of choice.
Column = tuple[str, str]


def _by_column(columns: tuple[Column, ...], text: str) -> dict[Column, dict[str, tuple[float, float]]]:
    """Return (accuracy, fraction of rows kept) of a printed table, by column and data set."""
    rows = {
        name: [float(number) for number in numbers]
        for name, *numbers in map(str.split, text.strip().splitlines())
    }
    assert list(rows) == list(BENCHMARKS)
    return {
        column: {name: (row[2 * k], row[2 * k + 1]) for name, row in rows.items()}
        for k, column in enumerate(columns)
    }


TABLE_2 = _by_column(
    (
        ("S-KLR", "sparsest-of-3"),
        ("S-KLR", "best"),
        ("l1/2-KLR", "sparsest-of-3"),
        ("l1/2-KLR", "best"),
        ("IVM", "best"),
        ("SVM", "sparsest-of-3"),
        ("SVM", "best"),
    ),
    """
    banknote 1 0.06 1 0.162 0.835 0.576 0.935 0.985 0.882 0.008 1 0.009 1 0.009
    coil2000 0.94 0.155 0.94 0.265 0.94 0.0002 0.94 0.0002 0.94 0.0001 0.94 0.119 0.94 0.119
    diabetes 0.77 0.529 0.767 0.724 0.678 0.171 0.755 0.747 0.653 0.002 0.745 0.49 0.767 0.531
    ionosphere 0.946 0.488 0.946 0.488 0.726 0.011 0.946 0.304 0.879 0.221 0.926 0.444 0.934 0.459
    magic 0.857 0.69 0.857 0.754 0.648 0 0.741 0.989 0.719 0.0001 0.875 0.293 0.874 0.299
    monk2 0.958 0.292 0.958 0.297 0.528 0 0.937 0.413 0.833 0.027 0.974 0.222 0.976 0.286
    ring 0.978 0.085 0.978 0.113 0.505 0.135 0.744 0.857 0.763 0.002 0.974 0.07 0.978 0.09
    sonar 0.866 0.924 0.856 0.941 0.534 0 0.756 0.464 0.822 0.347 0.643 0.924 0.851 0.923
    spambase 0.935 0.246 0.935 0.518 0.675 0.302 0.804 0.913 0.902 0.008 0.931 0.173 0.935 0.206
    twonorm 0.976 0.075 0.978 0.141 0.487 0 0.976 0.752 0.977 0.002 0.975 0.075 0.977 0.101
    waveform 0.91 0.282 0.91 0.516 0.899 0.568 0.905 0.922 0.884 0.005 0.909 0.287 0.909 0.287
    wisconsin 0.974 0.145 0.975 0.143 0.805 0.039 0.96 0.707 0.936 0.052 0.965 0.115 0.975 0.147
    """,
)

TABLE_3 = _by_column(
    (("KLR-1ord", "best"), ("KLR-2ord", "best"), ("S-KLR", "best")),
    """
    banknote 0.977 1 1 0.694 1 0.162
    coil2000 0.94 0 0.94 0.155 0.94 0.265
    diabetes 0.763 1 0.776 1 0.767 0.724
    ionosphere 0.943 1 0.94 1 0.946 0.488
    magic 0.839 1 0.807 0.69 0.857 0.754
    monk2 0.96 1 0.972 0.96 0.958 0.297
    ring 0.949 1 0.978 0.817 0.978 0.113
    sonar 0.823 1 0.823 1 0.856 0.941
    spambase 0.925 1 0.934 0.95 0.935 0.518
    twonorm 0.978 1 0.979 0.987 0.978 0.141
    waveform 0.909 1 0.911 0.998 0.91 0.516
    wisconsin 0.952 1 0.951 0.978 0.975 0.143
    """,
)

# Mean seconds per fit over the grid, for the first-order and the second-order working set.
TABLE_4 = {
    "banknote": (9.649, 7.559),
    "coil2000": (22.654, 16.633),
    "diabetes": (8.36, 7.068),
    "ionosphere": (10.955, 6.989),
    "magic": (53.779, 52.841),
    "monk2": (6.388, 4.548),
    "ring": (21.12, 20.011),
    "sonar": (6.85, 5.204),
    "spambase": (16.282, 16.525),
    "twonorm": (25.21, 24.73),
    "waveform": (16.658, 14.077),
    "wisconsin": (8.839, 5.464),
}

# These models were chosen on the test folds themselves.
TABLE_5 = _by_column(
    (
        ("lam-choice", "sparsest-of-3"),
        ("lam-choice", "best"),
        ("S-KLR", "sparsest-of-3"),
        ("S-KLR", "best"),
    ),
    """
    banknote 1 0.059 1 0.059 1 0.05 1 0.05
    coil2000 0.94 0.059 0.94 0.059 0.94 0.059 0.94 0.059
    diabetes 0.768 0.523 0.7695 0.565 0.771 0.567 0.771 0.567
    ionosphere 0.943 0.488 0.949 0.976 0.952 0.496 0.952 0.496
    magic 0.861 0.357 0.861 0.357 0.861 0.357 0.865 0.99
    monk2 0.958 0.292 0.965 1 0.97 0.319 0.972 0.357
    ring 0.978 0.081 0.978 0.081 0.978 0.08 0.978 0.08
    sonar 0.889 0.925 0.889 0.925 0.894 0.92 0.894 0.92
    spambase 0.932 0.241 0.932 0.241 0.932 0.241 0.939 0.918
    twonorm 0.974 0.071 0.974 0.185 0.977 0.08 0.978 0.082
    waveform 0.902 0.32 0.912 0.99 0.911 0.291 0.911 0.291
    wisconsin 0.975 0.144 0.975 0.144 0.977 0.187 0.977 0.187
    """,
)
