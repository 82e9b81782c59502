"""How many parameters a model has, and what attention costs beside the rest as texts get longer."""

from attnlab.results import Listed

LISTED = Listed(
    name="size",
    panel="Heads",
    help="Count the parameters of a model, and its multiply-adds and memory against the number of tokens.\n\n"
    "Of a transformers folder its config.json alone is read; nothing is computed.",
)
