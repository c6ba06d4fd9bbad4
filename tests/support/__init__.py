"""What several tests use: data, reference solvers, runners, and checks that estimators share."""
