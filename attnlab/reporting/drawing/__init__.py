"""Figures of tidy tables, at the width of a column of a paper; `attnlab.plot` gathers them."""
