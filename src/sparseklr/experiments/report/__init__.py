"""The tables of the experiments and the page made of them."""
