"""Parallel corpora: readers, splits, the hub, and which corpora there are."""
