"""Mechanisms at a budget of attended keys per query: candidates, their sizes, their measures."""
