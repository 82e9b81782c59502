"""Capture of attention heads, what they do, how much they matter."""
