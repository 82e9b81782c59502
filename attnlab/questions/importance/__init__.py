"""How important every head is to a model."""

from attnlab.results import Listed

LISTED = Listed(
    name="importance",
    panel="Heads",
    help="Measure the importance of every head: gradients, heads removed alone, heads removed in turn.",
)
