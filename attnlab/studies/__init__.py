"""Studies of many cells, on one machine or many."""
