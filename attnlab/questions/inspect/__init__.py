"""How a model reads one or two texts: tokens, shapes, contextual vectors, and what its heads look at."""

from attnlab.results import Listed

LISTED = Listed(
    name="inspect",
    panel="Words",
    help="Show what an encoder makes of a text: tokens, ids, mask, shapes, and each head, layer by layer.\n\n"
    "With two texts also how far each word that stands in both moves between them: the cosine between its "
    "contextual vectors in every layer, beside the mean cosine between different words (anisotropy).",
)
