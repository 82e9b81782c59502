"""Where a model runs: the device of that name, or the best there is."""

import torch

from attnlab.errors import InputError, reason
from attnlab.processes import Processes


def usable_device(name: str | None) -> torch.device:
    """The device of that name, such as `cpu` or `cuda`; None: a GPU if there is one.

    Raises:
        InputError: it cannot be used on this machine.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        msg = f"Device '{name}' cannot be used here ({reason(error)}); try cpu."
        raise InputError(msg) from error
    return torch.device(name)


def own_device(device: str | None, processes: Processes) -> str | None:
    """Each process of a machine has a GPU of its own while there are enough."""
    if processes.count > 1 and device in {None, "cuda"} and torch.cuda.is_available():
        return f"cuda:{processes.local_index % torch.cuda.device_count()}"
    return device
