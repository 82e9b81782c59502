"""The checksum of weights, which stands in their own file: a flipped bit is noticed on loading.

The model of a run and the models of its checkpoints have one.
"""

import hashlib
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from attnlab.files import check_regular, write_tensors
from attnlab.translation.loading import DamagedModelError
from attnlab.translation.runs.folder import WEIGHTS

_ENTRY = "sha256"


def save_with_checksum(model: Any, folder: str | Path) -> None:
    """Writes weights and configuration of a model into `folder`, with a checksum of the weights.

    Not atomic: `folder` takes the place of what was there, or its files do, when all are written.

    Raises:
        AttnlabError: the disk is full.
        OSError: the same, where transformers writes.
        SafetensorError: the same, where safetensors writes.
    """
    model.save_pretrained(folder)
    _record_checksum(Path(folder) / WEIGHTS)


def _record_checksum(path: Path) -> None:
    """Writes a file of tensors once more, with the checksum of their numbers."""
    tensors = load_file(path)
    digest = hashlib.sha256()
    for name in sorted(tensors):
        _add(digest, name, tensors[name])
    write_tensors(path, tensors, {"format": "pt", _ENTRY: digest.hexdigest()})


def check_checksum(path: Path) -> None:
    """Raises where the tensors of a file are not those that it has the checksum of.

    Files that other programs wrote have none, and pass. Cost: SHA-256 of all numbers, about 15 times what
    reading them from memory takes.

    Raises:
        DamagedModelError: see above.
        Exception: what safetensors raises for a file that is none of its own.
    """
    check_regular(path)
    with safe_open(str(path), "pt") as file:
        written = (file.metadata() or {}).get(_ENTRY)
        if written is None:
            return
        digest = hashlib.sha256()
        for name in sorted(file.keys()):
            _add(digest, name, file.get_tensor(name))
    if digest.hexdigest() != written:
        msg = f"the numbers in {path.name} are not those that were written: their checksum differs"
        raise DamagedModelError(msg)


def _add(digest: "hashlib._Hash", name: str, tensor: Tensor) -> None:
    digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
    # As bytes, since numpy lacks some of the types of torch.
    digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
