"""Runs studies that are lists of independent cells: resumed where they stopped, on one machine or many."""
