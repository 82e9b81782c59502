"""Whether a model attends to what its configuration says, layer by layer and as a whole."""

from attnlab.results import Listed

LISTED = Listed(
    name="check",
    panel="Heads",
    help="Check whether a model attends to what its configuration says.\n\n"
    "Tokens and states are changed at one position to see which rows move: keys that each layer reads, "
    "causality, padding, packing, the cache, and kernels of attention against each other. Token ids are "
    "drawn at random; no text is needed. The layers below the scores of tokens run (base_model), not the "
    "forward of the class around them.",
)
