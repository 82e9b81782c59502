"""Calls of transformers models, for the mechanisms inside them: ids, cache, whether weights are returned."""

import inspect
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from attnlab.attention.bridge.sites import NAME, AttentionAt, ByLayer
from attnlab.attention.bridge.streaming import NO_GAP, Gap, cache_layer_of, gaps_of
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import OwnAttention
from attnlab.core import AttnlabError

T = TypeVar("T")
CALL = "attnlab_call"
SITE = "attnlab_site"
# Beside what an encoder returns: the ids that it read.
READ_IDS = "token_ids"


class CallRecord:
    """The call that a model is working on.

    Attributes:
        ids: the token ids behind the keys of each site; None when they are not known.
        inside: whether the whole model is called, not a part of it.
        weights: whether this call asked for attention weights.
        always: whether every call returns them, those of a part of the model too.
        past: how many tokens the decoder's cache held before the call.
        cached: whether the decoder was handed a cache.
        starts: of each layer of the cache, the position of the first key that it still holds.
        gaps: of each layer of the cache, the positions behind the first keys that it let go.
        real: True at the decoder's real tokens, those in the cache included, where the call says so.
        known: the same, as read off the masks of this call and the ones before it.
        turns: how often each attention module attended in this call so far.
    """

    def __init__(self) -> None:
        self.ids: dict[str, Tensor | None] = {}
        self.inside = False
        self.weights = False
        self.always = False
        self.past = 0
        self.cached = False
        self.starts: list[int] = []
        self.gaps: list[Gap] = []
        self.real: Tensor | None = None
        self.known: Tensor | None = None
        self.turns: Counter[nn.Module] = Counter()

    def next_turn(self, module: nn.Module) -> int:
        """Number of times that the module attended before in this call; counts one more."""
        self.turns[module] += 1
        return self.turns[module] - 1

    def start_of(self, module: nn.Module) -> int:
        """The position of the first key that the layer's cache still holds."""
        return self._of_layer(module, self.starts, 0)

    def gap_of(self, module: nn.Module) -> Gap:
        """The positions that the layer's cache let go."""
        return self._of_layer(module, self.gaps, NO_GAP)

    @staticmethod
    def _of_layer(module: nn.Module, layers: list[T], other: T) -> T:
        layer = getattr(module, "layer_idx", None)
        # A module that layers share may have none, or -1.
        return layers[layer] if isinstance(layer, int) and 0 <= layer < len(layers) else other

    def real_keys(self, mask: Tensor | None, queries: int) -> Tensor | None:
        """True at the decoder's real tokens so far, `[batch, key]`; None when nothing tells.

        A window of the model hides earlier keys from cached queries, so a mask of pairs tells padding
        only of the tokens that it has rows for.
        """
        if self.real is not None or mask is None:
            return self.real
        last = self.past + queries
        new = mask[..., self.past : last].diagonal(dim1=-2, dim2=-1)
        new = (new if new.dtype == torch.bool else new > torch.finfo(new.dtype).min / 2).any(1)
        if not self.past:
            self.known = new
            return new
        if self.known is None or self.known.shape[0] != new.shape[0]:
            return None
        if self.known.shape[1] < self.past:
            return None
        self.known = torch.cat([self.known[:, : self.past], new], 1)
        return self.known


def record_calls(model: PreTrainedModel, modules: list[AttentionAt]) -> list[Any]:
    """Hooks that note each call, and a note at each attention module of where to look."""
    modules = [at for at in modules if not isinstance(at.module, OwnAttention)]
    if not modules:
        return []
    record = CallRecord()
    for at in modules:
        vars(at.module)[CALL] = record
        vars(at.module)[SITE] = at.site
    hooks: list[Any] = [
        model.register_forward_pre_hook(_noting_call(record), with_kwargs=True),
        model.register_forward_hook(_forgetting_call(record), always_call=True),
    ]
    if any(isinstance(getattr(at.module, NAME), ByLayer) for at in modules):
        # A body is called without the model around it too.
        body = _stack(model, [at.path for at in modules]) or model
        hooks.append(body.register_forward_pre_hook(_counting_anew))
    decoder = _stack(model, [at.path for at in modules if at.site != "encoder"])
    if decoder is not None:
        parts = {cache_layer_of(at): at.module for at in modules if at.site == "decoder"}
        hooks += [
            decoder.register_forward_pre_hook(_noting_cache(record, parts), with_kwargs=True),
            decoder.register_forward_hook(_forgetting_cache(record), always_call=True),
        ]
    return hooks + _noting_ids(model, modules, record)


def _noting_ids(
    model: PreTrainedModel, modules: list[AttentionAt], record: CallRecord
) -> list[Any]:
    """Hooks that note the ids behind the keys of the sites where a mechanism asks for them."""
    paths: dict[str, list[str]] = {"encoder": [], "decoder": [], "cross": []}
    for at in modules:
        paths[at.site].append(at.path)
    asking = {at.site for at in modules if _looks_at_tokens(at)}
    encoder, decoder = _stack(model, paths["encoder"]), _stack(model, paths["decoder"])
    hooks: list[Any] = []
    if encoder is not None and asking & {"encoder", "cross"}:
        hooks.append(encoder.register_forward_pre_hook(_noting_source(record), with_kwargs=True))
    if decoder is not None and "decoder" in asking:
        hooks.append(decoder.register_forward_pre_hook(_noting_target(record), with_kwargs=True))
    reader = _stack(model, paths["cross"])
    if reader is not None and "cross" in asking:
        hooks.append(reader.register_forward_pre_hook(_noting_memory(record), with_kwargs=True))
        if encoder is not None and encoder is not reader:
            hooks.append(encoder.register_forward_hook(_marking_memory, with_kwargs=True))
    return hooks


def forget_calls(module: nn.Module) -> None:
    """Takes the notes away from an attention module."""
    for note in (CALL, SITE):
        vars(module).pop(note, None)


def call_of(module: nn.Module) -> CallRecord:
    """The call that the model of an attention module is working on."""
    record = vars(module)[CALL]
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
    records = {vars(part)[CALL] for part in model.modules() if CALL in vars(part)}
    before = {record: record.always for record in records}
    for record in records:
        record.always = True
    try:
        yield
    finally:
        for record, always in before.items():
            record.always = always


def tokens_before(module: nn.Module) -> int:
    """Number of tokens before the first query of an attention module."""
    return 0 if vars(module)[SITE] == "encoder" else call_of(module).past


def token_ids_of_keys(module: nn.Module, batch: int, keys: int) -> Tensor:
    """The ids behind the keys at hand: those of the sentences, or of the encoder output in use.

    Raises:
        AttnlabError: the model was given vectors instead of ids, decodes with a cache, or reads an
            encoder output that its own encoder did not return.
    """
    site = vars(module)[SITE]
    call = call_of(module)
    ids = call.ids.get(site)
    # A cache keeps no ids: it is refused when decoding begins, not at the second token.
    if (site == "decoder" and call.cached) or ids is None or ids.shape != (batch, keys):
        how = (
            "give the model input_ids, or encoder_outputs as its own encoder returned them"
            if site == "cross"
            else "give the model input_ids, and in a decoder use_cache=False (generate does by itself when "
            "use_cache is not given)"
        )
        msg = f"A mechanism that chooses keys by token needs the ids of all keys: {how}."
        raise AttnlabError(msg)
    return ids


def mark_ids(encoded: Any, ids: Tensor | None) -> None:
    """Notes at an encoder output which ids it was made from, for mechanisms that choose keys by token.

    Encoders with such a mechanism behind them do so by themselves; an output from before it was installed
    needs this.

    Args:
        encoded: what an encoder returned.
        ids: of the tokens that it read; None where it was given vectors.
    """
    setattr(encoded[0], READ_IDS, ids)
    if isinstance(encoded, ModelOutput) and ids is not None:
        encoded[READ_IDS] = ids


def looks_at_tokens(mechanism: nn.Module) -> bool:
    """Whether the mechanism, or one of its parts, chooses keys by token."""
    return any(getattr(part, "uses_tokens", False) for part in mechanism.modules())


def _looks_at_tokens(at: AttentionAt) -> bool:
    parts = at.module.children()
    return any(isinstance(part, Mechanism | ByLayer) and looks_at_tokens(part) for part in parts)


def _stack(model: PreTrainedModel, paths: list[str]) -> PreTrainedModel | None:
    """The smallest model that holds all attention modules of `paths`; None without any."""
    if not paths:
        return None
    stack = model
    for path, part in model.named_modules():
        inside = all(member.startswith(f"{path}.") for member in paths)
        if isinstance(part, PreTrainedModel) and path and inside:
            stack = part
    return stack


def _given(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """The argument `name` of a call, by position or by name; None where there is no such argument."""
    if name in kwargs or not args:
        return kwargs.get(name)
    return inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments.get(name)


def _ids_given(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    ids = _given(module, args, kwargs, "input_ids")
    return ids if isinstance(ids, Tensor) and not torch.is_floating_point(ids) else None


def _ids_attached(encoded: Any) -> Tensor | None:
    """The ids that an encoder output was made from; None when it does not say.

    A whole output carries them as an entry, which beams repeat with the others; its first tensor
    carries them too, since a decoder is handed nothing else.
    """
    if encoded is None:
        return None
    if isinstance(encoded, Tensor):
        return getattr(encoded, READ_IDS, None)
    ids = encoded.get(READ_IDS) if isinstance(encoded, ModelOutput) else None
    return _ids_attached(encoded[0]) if ids is None else ids


def _noting_source(record: CallRecord) -> Any:
    def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        record.ids["encoder"] = _ids_given(module, args, kwargs)
        if record.inside:
            record.ids["cross"] = record.ids["encoder"]

    return note


def _noting_target(record: CallRecord) -> Any:
    def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        record.ids["decoder"] = _ids_given(module, args, kwargs)

    return note


def _noting_memory(record: CallRecord) -> Any:
    def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = _ids_attached(_given(module, args, kwargs, "encoder_hidden_states"))
        # Inside a whole model the output may have been projected on its way.
        if ids is not None or not record.inside:
            record.ids["cross"] = ids

    return note


def _marking_memory(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    mark_ids(out, _ids_given(module, args, kwargs))


def _noting_cache(record: CallRecord, parts: dict[int, nn.Module]) -> Any:
    def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        cache = _given(module, args, kwargs, "past_key_values")
        cache = getattr(cache, "self_attention_cache", cache)
        layers = 0 if cache is None else len(cache.layers)
        record.cached = cache is not None
        # A static cache counts in a tensor that grows during the call.
        record.past = 0 if cache is None else int(cache.get_seq_length())
        record.starts = [int(cache.get_mask_sizes(1, layer)[1]) for layer in range(layers)]
        mask = _given(module, args, kwargs, "attention_mask")
        of_keys = isinstance(mask, Tensor) and mask.ndim == 2
        record.real = mask.bool() if of_keys else None
        record.gaps = gaps_of(cache, record.real, parts)

    return note


def _forgetting_cache(record: CallRecord) -> Any:
    def forget(*_: Any) -> None:
        record.past, record.cached, record.real = 0, False, None
        record.starts, record.gaps = [], []

    return forget


def _counting_anew(module: nn.Module, *_: Any) -> None:
    """Starts the count of calls anew for the modules inside this one: copies of a model share their hooks."""
    for part in module.modules():
        if CALL in vars(part):
            call_of(part).turns.pop(part, None)


def _noting_call(record: CallRecord) -> Any:
    def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        record.inside = True
        record.weights = bool(kwargs.get("output_attentions"))
        record.ids["cross"] = _ids_attached(_given(module, args, kwargs, "encoder_outputs"))

    return note


def _forgetting_call(record: CallRecord) -> Any:
    def forget(*_: Any) -> None:
        # The ids stay: gradient checkpointing computes layers again after the call.
        record.inside, record.weights = False, False

    return forget
