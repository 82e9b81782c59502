"""How near the thesis's random search comes to planted attention matrices."""
