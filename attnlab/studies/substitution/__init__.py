"""What a model loses when heads are replaced by other mechanisms."""
