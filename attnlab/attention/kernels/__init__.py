"""Computations that mechanisms share, which never form what they leave out."""
