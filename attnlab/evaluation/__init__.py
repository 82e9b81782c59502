"""A model with the sentences that a question asks it: where they come from, its loss, its translations."""
