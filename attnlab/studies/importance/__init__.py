"""How much a model's heads matter."""
