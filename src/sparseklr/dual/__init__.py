"""The dual problem: its objective and optimality, its solvers, paths over it, what theory says of it."""
