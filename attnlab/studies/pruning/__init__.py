"""How many heads a trained model can do without."""
