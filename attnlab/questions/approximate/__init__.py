"""How near each family of structured matrices comes to given matrices."""

from attnlab.results import Listed

LISTED = Listed(
    name="approximate",
    panel="Heads",
    help="Fit every family exactly to the matrices of a file, at equal budget, with references beside "
    "them.\n\nDistances are sums of absolute differences (l1); zero, uniform, mean by offset, svd and top "
    "say what they mean. Support and values come from the matrix itself: a lower bound (level: oracle). "
    "Which family describes a matrix is decided by bits per row, not by distance.",
)
