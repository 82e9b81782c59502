"""The picture of the thesis's three families with and without a sparse error, in docs/math.md.

    python docs/sigma_picture.py

writes docs/figures/sigma.svg.
"""

from pathlib import Path

import torch
from matplotlib.figure import Figure

from attnlab import plot

OUT = Path(__file__).parent / "figures" / "sigma.svg"
TOKENS, WINDOW, DROPOUT, BOUND = 12, 3, 0.5, 0.5


def draw() -> Figure:
    """A member P of each family as the thesis draws them (0 or 1), and below it P + E."""
    generator = torch.Generator().manual_seed(0)
    position = torch.arange(TOKENS)
    near = (position - position[:, None]).abs() <= WINDOW
    kept = torch.rand(TOKENS, TOKENS, generator=generator) >= DROPOUT
    blocks = torch.eye(TOKENS)
    for first, column in ((2, 3), (7, 9)):
        blocks[first : first + WINDOW] = torch.eye(TOKENS)[column]
    members = torch.stack([torch.eye(TOKENS), (near & kept).float(), blocks])
    error = torch.zeros(TOKENS * TOKENS)
    places = torch.randperm(TOKENS**2, generator=generator)[:TOKENS]
    error[places] = BOUND * torch.rand(TOKENS, generator=generator)
    names = ["Sigma1: diagonal", f"Sigma2: band, w = {WINDOW}", f"Sigma3: blocks of {WINDOW} rows"]
    return plot.matrices(
        torch.cat([members, members + error.view(TOKENS, TOKENS)]),
        names=[*names, *(f"{name.split(':')[0]} + E" for name in names)],
        legend="entry; Sigma2 with half of its band dropped; E has 12 entries of at most 0.5",
    )


if __name__ == "__main__":
    plot.save(draw(), OUT)
