"""Models of a few points that move: the objective and its minimisation, feature scaling, and the choice of
size."""
