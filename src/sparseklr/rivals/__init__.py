"""The heuristics and rivals that the paper compares with."""
