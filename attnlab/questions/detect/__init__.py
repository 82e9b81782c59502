"""Which heads have the names of the literature: previous token, induction, retrieval, copying."""

from attnlab.results import Listed

LISTED = Listed(
    name="detect",
    panel="Heads",
    help="Score heads as previous-token, duplicate-token, induction, streaming, retrieval and copy heads.\n\n"
    "Random tokens that are read twice and needles in a text are generated; copy heads of cross-attention "
    "alone need sentence pairs. Of a language model, sentences are what needles are planted in, instead of "
    "random tokens. A second table says how far the detectors agree.\n\n"
    "With --pattern every head is scored against sets of keys on sentences instead, such as 'offset -1' or "
    "any other pattern of attnlab claim, beside the controls of that. docs/heads.md, sections 9 and 11.",
)
