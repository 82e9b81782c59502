"""What an attention head is addressed by: the sites of attention, in the order in which they are shown."""

from typing import Literal

# `unknown` is for matrices of a file, which does not say where they come from.
Site = Literal["encoder", "decoder", "cross", "unknown"]
SITES: tuple[Site, ...] = ("encoder", "decoder", "cross")
