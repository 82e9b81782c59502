"""What a transformers model was called with, for the mechanisms inside it: ids, cache, wish for weights."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnlab.attention.bridge.sites import AttentionAt
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import MultiHeadAttention
from attnlab.errors import AttnlabError

PLACE = "attnlab_call"
SITE = "attnlab_site"


class CallRecord:
    """The call that a model is working on.

    Attributes:
        ids: the token ids that each stack of layers last read, by `encoder` and `decoder`.
        weights: whether this call asked for attention weights.
        always: whether every call returns them, those of a part of the model too.
        past: how many tokens the decoder's cache held before the call.
        starts: of each layer of the cache, the position of the first key that it still holds.
        real: True at the decoder's real tokens, those in the cache included, where the call says so.
        known: the same, as read off the masks of this call and the ones before it.
    """

    def __init__(self) -> None:
        self.ids: dict[str, Tensor | None] = {}
        self.weights = False
        self.always = False
        self.past = 0
        self.starts: list[int] = []
        self.real: Tensor | None = None
        self.known: Tensor | None = None

    def start_of(self, module: nn.Module) -> int:
        """The position of the first key that the layer's cache still holds."""
        layer = getattr(module, "layer_idx", None)
        return self.starts[layer] if isinstance(layer, int) and layer < len(self.starts) else 0

    def real_keys(self, mask: Tensor | None, queries: int) -> Tensor | None:
        """True at the decoder's real tokens so far, `[batch, key]`; None when nothing tells.

        A window of the model hides earlier keys from cached queries, so a mask of pairs tells padding
        only of the tokens that it has rows for.
        """
        if self.real is not None or mask is None:
            return self.real
        last = self.past + queries
        own = mask[..., self.past : last].diagonal(dim1=-2, dim2=-1)
        own = (own if own.dtype == torch.bool else own > torch.finfo(own.dtype).min / 2).any(1)
        if not self.past:
            self.known = own
            return own
        if self.known is None or self.known.shape[0] != own.shape[0]:
            return None
        if self.known.shape[1] < self.past:
            return None
        self.known = torch.cat([self.known[:, : self.past], own], 1)
        return self.known


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
    decoding = [place.path for place in places if place.site != "encoder"]
    if decoding:
        reader = _stack(model, decoding)
        hooks += [
            reader.register_forward_pre_hook(_noting_cache(record), with_kwargs=True),
            reader.register_forward_hook(_forgetting_cache(record), always_call=True),
        ]
    for place in places:
        vars(place.module)[PLACE] = record
        vars(place.module)[SITE] = place.site
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
    """Takes the notes away from an attention module."""
    for note in (PLACE, SITE):
        vars(module).pop(note, None)


def call_of(module: nn.Module) -> CallRecord:
    """The call that the model of an attention module is working on."""
    record = vars(module)[PLACE]
    if not isinstance(record, CallRecord):
        msg = f"{type(module).__name__} does not belong to a model with mechanisms."
        raise AttnlabError(msg)
    return record


def weights_wanted(module: nn.Module) -> bool:
    """Whether the model was called with `output_attentions=True`, or always returns weights."""
    record = call_of(module)
    return record.weights or record.always


@contextmanager
def always_returning_weights(model: nn.Module) -> Iterator[None]:
    """While the block runs, attnlab's mechanisms in `model` return their implied matrices.

    A call of `model` itself says whether it wants weights; a call of its encoder or its body alone
    does not pass by the hook that listens for that.
    """
    records = {vars(part)[PLACE] for part in model.modules() if PLACE in vars(part)}
    before = {record: record.always for record in records}
    for record in records:
        record.always = True
    try:
        yield
    finally:
        for record, always in before.items():
            record.always = always


def tokens_before(module: nn.Module) -> int:
    """How many tokens stand before the first query of an attention module."""
    return 0 if vars(module)[SITE] == "encoder" else call_of(module).past


def token_ids_of_keys(module: nn.Module, batch: int, keys: int) -> Tensor:
    """The ids of the keys at hand; sentences are repeated where beams are.

    Raises:
        AttnlabError: the model was given vectors instead of ids, or decodes with a cache.
    """
    ids = call_of(module).ids.get(_stack_name(vars(module)[SITE]))
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


def _given(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """The argument `name` of a call, by position or by name."""
    if name in kwargs or not args:
        return kwargs.get(name)
    return inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments.get(name)


def _noting_ids(record: CallRecord, stack: str) -> Any:
    def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = _given(module, args, kwargs, "input_ids")
        whole = isinstance(ids, Tensor) and not torch.is_floating_point(ids)
        record.ids[stack] = ids if whole else None

    return note


def _noting_cache(record: CallRecord) -> Any:
    def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        cache = _given(module, args, kwargs, "past_key_values")
        cache = getattr(cache, "self_attention_cache", cache)
        layers = 0 if cache is None else len(cache.layers)
        # A static cache counts in a tensor that grows during the call.
        record.past = 0 if cache is None else int(cache.get_seq_length())
        record.starts = [int(cache.get_mask_sizes(1, layer)[1]) for layer in range(layers)]
        mask = _given(module, args, kwargs, "attention_mask")
        of_keys = isinstance(mask, Tensor) and mask.ndim == 2
        record.real = mask.bool() if of_keys else None

    return note


def _forgetting_cache(record: CallRecord) -> Any:
    def forget(*_: Any) -> None:
        record.past, record.starts, record.real = 0, [], None

    return forget


def _noting_weights(record: CallRecord) -> Any:
    def note(_: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        record.weights = bool(kwargs.get("output_attentions"))

    return note


def _forgetting_weights(record: CallRecord) -> Any:
    def forget(*_: Any) -> None:
        record.weights = False

    return forget
