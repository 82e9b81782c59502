"""What is read of the keys of a row, as an option; nothing heavy is imported."""

from typing import Literal, get_args

from attnlab.core import Option

# Attention weights, or the share of each key in what the keys of a row contribute to the output of a head.
Weighing = Literal["attention", "contribution"]
ATTENTION, CONTRIBUTION = WEIGHINGS = get_args(Weighing)
WEIGHTS_OPTION = Option(
    "What stands in the matrices: attention weights, or each key's share of the contribution of its row, the "
    "length of its weighted value behind the output projection.",
    choices=WEIGHINGS,
)
