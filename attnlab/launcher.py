"""What torchrun and accelerate launch tell a process of the others: read from the environment alone."""

import os
from dataclasses import dataclass

_TOLD = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launched:
    """The number of this process, how many there are, and its number on this machine."""

    index: int
    count: int
    local_index: int


def launched() -> Launched | None:
    """This process as its launcher describes it; None where there is no launcher."""
    if not all(os.environ.get(name) for name in _TOLD):
        return None
    index = int(os.environ["RANK"])
    return Launched(index, int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK", index)))
