"""Studies of many cells, on one machine or many; and the questions that have no folder of their own yet."""
