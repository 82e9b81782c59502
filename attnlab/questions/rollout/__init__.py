"""How much of each token of a text is in each position of a model, through all layers of attention."""

from attnlab.results import Listed

LISTED = Listed(
    name="rollout",
    panel="Words",
    help="Show how much of each token is in each position, through all layers (attention rollout).\n\n"
    "Of an encoder-decoder with a translation: of the source, and of the words written so far, in each "
    "position of the decoder.",
)
