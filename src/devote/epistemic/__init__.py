"""The subject of the paper: novelty, its propagation, its optimisation."""
