"""Large batches are fitted piece by piece, so that memory beyond the result stays bounded."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from attnlab.matrices.weights import check_matrices

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Measured: working tensors of this many entries still fit into the processor's cache.
CPU_ENTRIES = 1 << 18
GPU_ENTRIES = 1 << 26


def in_chunks(
    fit: Callable[Concatenate[Tensor, Arguments], Result],
) -> Callable[Concatenate[Tensor, Arguments], Result]:
    """A fit that takes its batch in pieces of about equal work and joins the results.

    The first argument is `[*batch query key]`; keyword arguments that are tensors belong to the
    matrices one by one and are cut with them. The number of matrices in a piece follows from their size.
    """

    @functools.wraps(fit)
    def run(H: Tensor, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        check_matrices(H)
        room = CPU_ENTRIES if H.device.type == "cpu" else GPU_ENTRIES
        length = max(room // max(H.shape[-2] * H.shape[-1], 1), 1)
        batch = H.shape[:-2]
        if batch.numel() <= length:
            return fit(H, *args, **kwargs)
        pieces = H.reshape(-1, *H.shape[-2:]).split(length)
        cut: dict[str, Any] = {
            name: _cut(name, value, batch, length) for name, value in kwargs.items()
        }
        results = [
            fit(piece, *args, **{name: values[i] for name, values in cut.items()})
            for i, piece in enumerate(pieces)
        ]
        return _join(results, batch)

    return run  # type: ignore[return-value]  # H may also be given by name


def _cut(name: str, value: Any, batch: torch.Size, length: int) -> Any:
    """One value per piece: slices of what belongs to single matrices, the value itself otherwise."""
    if not isinstance(value, Tensor):
        return _Same(value)
    own = value.shape[-1:] if name == "sizes" else value.shape[:0]
    return value.expand(*batch, *own).reshape(-1, *own).split(length)


def takes_no_memory(tensor: Tensor) -> bool:
    """Whether this is one number shown at every entry, such as the zero of an absent error."""
    return tensor.numel() > 0 and not any(tensor.stride())


@dataclasses.dataclass(frozen=True)
class _Same:
    value: Any

    def __getitem__(self, index: int) -> Any:
        return self.value


def _join(parts: list[Any], batch: torch.Size) -> Any:
    first = parts[0]
    if isinstance(first, Tensor):
        if all(takes_no_memory(part) for part in parts):
            one = first.flatten()[0].clone()
            if all(bool(part.flatten()[0] == one) for part in parts):
                return one.expand(*batch, *first.shape[1:])
        return torch.cat(parts).unflatten(0, batch)
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        joined = {
            field.name: _join([getattr(part, field.name) for part in parts], batch)
            for field in dataclasses.fields(first)
        }
        return dataclasses.replace(first, **joined)
    if isinstance(first, tuple):
        return tuple(_join(list(items), batch) for items in zip(*parts, strict=True))
    return first
