"""What a transformers model was called with, for the mechanisms inside it: token ids, wish for weights."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import MultiHeadAttention
from attnlab.attention.sites import AttentionAt
from attnlab.errors import AttnlabError

PLACE = "attnlab_call"


class CallRecord:
    """The call that a model is working on.

    Attributes:
        ids: the token ids that each stack of layers last read, by `encoder` and `decoder`.
        weights: whether attention weights were asked for.
    """

    def __init__(self) -> None:
        self.ids: dict[str, Tensor | None] = {}
        self.weights = False


def record_calls(model: PreTrainedModel, places: list[AttentionAt]) -> list[Any]:
    """Hooks that note each call, and a note at each attention module of where to look."""
    places = [place for place in places if not isinstance(place.module, MultiHeadAttention)]
    if not places:
        return []
    record = CallRecord()
    hooks: list[Any] = [
        model.register_forward_pre_hook(_noting_weights(record), with_kwargs=True),
        model.register_forward_hook(_forgetting_weights(record)),
    ]
    for place in places:
        vars(place.module)[PLACE] = record
        stack = _stack_name(place.site)
        if _looks_at_tokens(place) and stack not in record.ids:
            record.ids[stack] = None
            members = [other.path for other in places if other.site == stack]
            reader = _stack(model, members)
            hooks.append(
                reader.register_forward_pre_hook(_noting_ids(record, stack), with_kwargs=True)
            )
    return hooks


def forget_calls(module: nn.Module) -> None:
    """Takes the note away from an attention module."""
    vars(module).pop(PLACE, None)


def weights_wanted(module: nn.Module) -> bool:
    """Whether the model was called with `output_attentions=True`."""
    return bool(vars(module)[PLACE].weights)


def token_ids_of_keys(module: nn.Module, site: str, batch: int, keys: int) -> Tensor:
    """The ids of the keys at hand; sentences are repeated where beams are.

    Raises:
        AttnlabError: the model was given vectors instead of ids, or decodes with a cache.
    """
    ids = vars(module)[PLACE].ids.get(_stack_name(site))
    if ids is None or ids.shape[1] != keys or batch % ids.shape[0]:
        msg = (
            "A mechanism that chooses keys by token needs the ids of all keys: give the model "
            "input_ids, and generate with use_cache=False where it stands in a decoder."
        )
        raise AttnlabError(msg)
    return ids.repeat_interleave(batch // ids.shape[0], 0)


def looks_at_tokens(mechanism: Mechanism) -> bool:
    """Whether the mechanism, or one of its parts, chooses keys by token."""
    return any(getattr(part, "uses_tokens", False) for part in mechanism.modules())


def _looks_at_tokens(place: AttentionAt) -> bool:
    parts = place.module.children()
    return any(isinstance(part, Mechanism) and looks_at_tokens(part) for part in parts)


def _stack_name(site: str) -> str:
    return "decoder" if site == "decoder" else "encoder"


def _stack(model: PreTrainedModel, paths: list[str]) -> PreTrainedModel:
    """The smallest model that holds all attention modules of `paths`."""
    stack = model
    for path, part in model.named_modules():
        inside = all(member.startswith(f"{path}.") for member in paths)
        if isinstance(part, PreTrainedModel) and path and inside:
            stack = part
    return stack


def _noting_ids(record: CallRecord, stack: str) -> Any:
    def note(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        whole = isinstance(ids, Tensor) and not torch.is_floating_point(ids)
        record.ids[stack] = ids if whole else None

    return note


def _noting_weights(record: CallRecord) -> Any:
    def note(_: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        record.weights = bool(kwargs.get("output_attentions"))

    return note


def _forgetting_weights(record: CallRecord) -> Any:
    def forget(*_: Any) -> None:
        record.weights = False

    return forget
