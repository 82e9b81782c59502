"""The token ids behind a model's keys, for mechanisms that choose keys by token."""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import MultiHeadAttention
from attnlab.attention.sites import AttentionAt
from attnlab.errors import AttnlabError


class TokenRecord:
    """The ids that a stack of layers last read."""

    def __init__(self) -> None:
        self.ids: Tensor | None = None

    def of_keys(self, batch: int, keys: int) -> Tensor:
        """The ids of the keys at hand; sentences are repeated where beams are.

        Raises:
            AttnlabError: the model was given vectors instead of ids, or decodes with a cache.
        """
        if self.ids is None or self.ids.shape[1] != keys or batch % self.ids.shape[0]:
            msg = (
                "A mechanism that chooses keys by token needs the ids of all keys: give the model "
                "input_ids, and generate with use_cache=False where it stands in a decoder."
            )
            raise AttnlabError(msg)
        return self.ids.repeat_interleave(batch // self.ids.shape[0], 0)


def record_tokens(model: PreTrainedModel, places: list[AttentionAt]) -> list[Any]:
    """Hooks that keep the ids each stack of layers reads, where a mechanism looks at them."""
    hooks: list[Any] = []
    records: dict[str, TokenRecord] = {}
    for place in places:
        stack = "decoder" if place.site == "decoder" else "encoder"
        if isinstance(place.module, MultiHeadAttention) or not _looks_at_tokens(place):
            continue
        if stack not in records:
            members = [other.path for other in places if other.site == stack]
            records[stack] = TokenRecord()
            hooks.append(_recorded(_stack(model, members), records[stack]))
        object.__setattr__(place.module, "attnlab_tokens", records[stack])
    return hooks


def _looks_at_tokens(place: AttentionAt) -> bool:
    parts = place.module.modules()
    return any(
        isinstance(part, Mechanism) and getattr(part, "uses_tokens", False) for part in parts
    )


def _stack(model: PreTrainedModel, paths: list[str]) -> PreTrainedModel:
    """The smallest model that holds all attention modules of `paths`."""
    stack = model
    for path, part in model.named_modules():
        inside = all(member.startswith(f"{path}.") for member in paths)
        if isinstance(part, PreTrainedModel) and path and inside:
            stack = part
    return stack


def _recorded(stack: PreTrainedModel, record: TokenRecord) -> Any:
    def keep(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        whole = isinstance(ids, Tensor) and not torch.is_floating_point(ids)
        record.ids = ids if whole else None

    return stack.register_forward_pre_hook(keep, with_kwargs=True)
