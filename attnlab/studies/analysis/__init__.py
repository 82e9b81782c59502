"""What each head of a model does, and which structure its matrices have."""
