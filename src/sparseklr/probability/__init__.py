"""From decision values to probabilities: penalised likelihood, refit, pruning, calibration."""
