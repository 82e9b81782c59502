"""Links of both directions, as rows of numbers."""

from pathlib import Path
from typing import Any


def described(forward: str, backward: str) -> dict[str, Any]:
    """Sentence, source and target word of each link, by direction; from files of lines `0-0 1-2`."""
    import numpy as np

    return {
        name: np.array(
            [
                (number, *map(int, link.split("-")))
                for number, line in enumerate(Path(file).read_text(encoding="utf-8").splitlines())
                for link in line.split()
            ]
        )
        for name, file in (("forward", forward), ("backward", backward))
    }
