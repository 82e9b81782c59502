"""The mathematics of structured matrices: distances, supports, exact fits."""
