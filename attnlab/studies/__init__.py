"""Each question as a function from runs or matrices to tidy tables."""
