"""The numbers that budgets of keys keep to; nothing heavy is imported."""

# BigBird's blocks need as many.
LEAST_BUDGET = 5
# A site may get this many times the budget, since rows at the borders of a sentence see fewer keys than
# those in the middle; so may a head of a plan, since others may do with less.
WIDEST = 3
# Settings see at most this share of the budget more, counted on held-out sentences.
TOLERANCE = 0.02
