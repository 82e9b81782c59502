"""Which cross-attention heads say what a word translates, and the links that they give."""

from attnlab.results import Listed

LISTED = Listed(
    name="align",
    panel="Heads",
    help="Find the cross-attention heads that say what a word translates, and align words with them.\n\n"
    "Heads are chosen by gold links on one half of the pairs and scored on the other, beside the heads that "
    "engines take unless told otherwise, the diagonal, a statistical aligner and controls; without gold "
    "links they are chosen by those of the statistical aligner. With --heads FILE --links FILE a corpus is "
    "aligned with chosen heads.",
)
