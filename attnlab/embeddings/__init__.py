"""Vectors of words: skip-gram training, files, nearest neighbours, a map of two components."""
