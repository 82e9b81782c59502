"""Which mechanism each head should have under one budget of keys for all heads."""
