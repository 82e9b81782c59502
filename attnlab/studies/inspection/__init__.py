"""A model on one or two texts: tokens, shapes, contextual vectors, and what its heads look at."""
