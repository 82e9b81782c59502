"""Contributions of keys to what a head writes: weights times norms of values behind the output projection."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from attnlab.attention import AttentionCall, mechanisms_in, watching
from attnlab.core import InputError, Site, layer_name
from attnlab.reading.calling import encoded, forward
from attnlab.reading.hooks import EAGER, AttentionHook, AttentionSites, ready_to_show, twin_modules
from attnlab.reading.sentences import Sentences
from attnlab.reading.site_probe import few_tokens, with_callers
from attnlab.reading.weights import TOLERANCES, LayerWeights, widened


@dataclass(frozen=True)
class ValuePath:
    """The modules that the values of a layer go through.

    Attributes:
        mixer: mixes them: a mechanism of attnlab, or the module that calls transformers' attention function.
        projection: reads the mixed values of all heads side by side.
        normed: whether a norm reads what it writes (OLMo 2, Gemma 2).
    """

    mixer: nn.Module
    projection: nn.Module
    normed: bool

    def norms(
        self, value: Float[Tensor, "batch value_head key value_dim"], heads: int
    ) -> Float[Tensor, "batch head key"]:
        """|v_j W_O^h| of every key and query head; heads of a group share their values.

        Cost: O(head * key * value_dim * dim), as the output projection of as many queries.
        """
        by_head = _matrix(self.projection).unflatten(0, (heads, -1))
        value, groups = widened(value), heads // value.shape[1]
        norms = [
            (value[:, head // groups] @ by_head[head].to(value.dtype)).norm(dim=-1)
            for head in range(heads)
        ]
        return torch.stack(norms, 1)


ValuePaths = Mapping[tuple[Site, int], ValuePath]


def _matrix(projection: nn.Module) -> Float[Tensor, "head_dims dim"]:
    weight: Any = projection.weight
    return weight if isinstance(projection, Conv1D) else weight.mT


def contributed(layer: LayerWeights, norms: Float[Tensor, "batch head key"]) -> LayerWeights:
    """The layer with contributions in place of weights, each row divided by its sum.

    ::

        c_ij = |a_ij v_j W_O^h| = a_ij |v_j W_O^h|

    Source: Kobayashi et al. 2020 (arXiv 2004.10102), section 3, without the bias of the projection.
    """
    norms = norms.masked_fill(~layer.keys.real[:, None], 0.0).to(layer.wide)
    sizes = layer.wide * norms[:, :, None]
    sums = sizes.sum(-1)
    shares = sizes / sums.clamp(min=torch.finfo(sums.dtype).tiny)[..., None]
    # A learned sink has no value.
    return replace(
        layer, weights=shares, attention=layer.weights, contribution=sums, has_sink=False
    )


class _Linear(NamedTuple):
    """A call of a linear module."""

    module: nn.Module
    read: Tensor
    wrote: Tensor


class _Trial(NamedTuple):
    """A forward pass on a few tokens.

    Attributes:
        mixed: the mixed values of all heads side by side, by mixer and the number of its call.
        linear: the calls of linear modules.
        normed: what norms read.
    """

    mixed: dict[tuple[nn.Module, int], Tensor]
    linear: list[_Linear]
    normed: list[Tensor]


def value_paths(
    model: Any, sentences: Sentences, attention: AttentionSites, sites: Collection[Site]
) -> tuple[AttentionSites, ValuePaths]:
    """The modules that the values of each layer go through, and the attention sites with their callers.

    A few tokens are read. The output projection is the only linear module that reads the values as they were
    mixed, so nothing lies between; nothing is known of class or attribute names but of norms.

    Args:
        model: a transformers model.
        sentences: what it reads.
        attention: where the weights of its layers come by.
        sites: those that are wanted.

    Raises:
        InputError: the values or the output projection of a layer cannot be told.
    """
    mechanisms = [mechanism for _, mechanism in mechanisms_in(model)]
    if not mechanisms:
        attention = with_callers(model, sentences, attention)
    mixers: list[nn.Module] = [*(mechanisms or dict.fromkeys(attention.callers))]
    hooks = [hook for hook in attention.hooks if hook.site in sites]
    if not mixers or not hooks:
        raise _refused(
            model, "its layers do not hand their values to transformers' attention function"
        )
    with ready_to_show(model, attention.watched_as or EAGER), torch.inference_mode():
        axes = encoded(model, sentences.axes([few_tokens(sentences)], model.device))
        trial = _tried(
            model, lambda: forward(model, axes, with_weights=bool(mechanisms)), mechanisms
        )
    paths = {(hook.site, hook.layer): _path_of(hook, mixers, trial, model) for hook in hooks}
    return attention, paths


def _tried(model: nn.Module, run: Callable[[], Any], mechanisms: Collection[nn.Module]) -> _Trial:
    """What a forward pass mixes, projects and divides by its size."""
    trial, calls = _Trial({}, [], []), Counter[nn.Module]()

    def note_mixed(mixer: nn.Module, heads: Tensor) -> None:
        trial.mixed[mixer, calls[mixer]] = heads.flatten(2)
        calls[mixer] += 1

    def note_call(caller: nn.Module, call: AttentionCall) -> None:
        note_mixed(caller, call.mixed())

    def note_mechanism(mechanism: nn.Module, _: Any, heads: Tensor) -> None:
        note_mixed(mechanism, heads.transpose(1, 2))

    def note_linear(module: nn.Module, given: tuple[Any, ...], wrote: Tensor) -> None:
        trial.linear.extend(_Linear(module, read, wrote) for read in given[:1])

    def note_norm(_: nn.Module, given: tuple[Any, ...]) -> None:
        trial.normed.extend(given[:1])

    with watching(note_call), ExitStack() as hooks:
        for part in model.modules():
            if part in mechanisms:
                hooks.callback(part.register_forward_hook(note_mechanism).remove)
            # Quantized ones of other libraries are of classes of their own; a module around one is no reader.
            elif isinstance(part, nn.Linear | Conv1D) or (
                hasattr(part, "in_features") and not any(part.children())
            ):
                hooks.callback(part.register_forward_hook(note_linear).remove)
            elif "Norm" in type(part).__name__:
                hooks.callback(part.register_forward_pre_hook(note_norm).remove)
        run()
    return trial


def _has_matrix(linear: nn.Module) -> bool:
    """Whether its weight alone says what it does: a quantized one, of 8 bits too, has scales beside it."""
    return (
        isinstance(linear, nn.Linear | Conv1D)
        and linear.weight.dtype in TOLERANCES
        and not linear.weight.is_meta
    )


def _path_of(
    hook: AttentionHook, mixers: Sequence[nn.Module], trial: _Trial, model: nn.Module
) -> ValuePath:
    """The way of the values of one layer; raises InputError where it cannot be told."""
    layer, inside = layer_name(hook.site, hook.layer), set(hook.module.modules())
    mixed = {
        mixer: trial.mixed[mixer, hook.call]
        for mixer in mixers
        if mixer in inside and (mixer, hook.call) in trial.mixed
    }
    if len(mixed) != 1:
        raise _refused(model, f"{layer} mixes its values in several modules or in none")
    ((mixer, heads),) = mixed.items()
    readers = {linear.module: linear for linear in trial.linear if _same(linear.read, heads)}
    if not all(map(_has_matrix, readers)):
        raise _refused(
            model,
            f"the output projection of {layer} is no plain linear module with its matrix in memory, as where "
            "it is quantized",
        )
    if len(readers) != 1:
        raise _refused(
            model,
            f"in {layer} no linear module alone reads the heads as they were mixed, as where a gate or a "
            "norm lies between",
        )
    ((projection, call),) = readers.items()
    normed = any(read.data_ptr() == call.wrote.data_ptr() for read in trial.normed)
    return ValuePath(mixer, projection, normed)


def _same(read: Tensor, heads: Tensor) -> bool:
    """Whether a linear module read these values, up to rounding."""
    if read.numel() != heads.numel() or read.shape[-1] != heads.shape[-1]:
        return False
    change = (read.reshape(heads.shape) - heads).norm()
    return bool(change <= TOLERANCES.get(heads.dtype, 1e-4) * heads.norm())


def _refused(model: nn.Module, why: str) -> InputError:
    msg = (
        f"Contributions cannot be read of {type(model).__name__}: {why}; read its attention weights (weights "
        "attention)."
    )
    return InputError(msg, options=["weights"])


def moved_paths(paths: ValuePaths, model: nn.Module, twin: nn.Module) -> ValuePaths:
    """The paths of values in another model of the same class and configuration."""
    modules = twin_modules(model, twin)
    return {
        at: replace(path, mixer=modules[path.mixer], projection=modules[path.projection])
        for at, path in paths.items()
    }


@contextmanager
def noted_values(paths: Iterable[ValuePath]) -> Iterator[dict[nn.Module, Tensor]]:
    """While the block runs, the values that each mechanism was given last."""
    values: dict[nn.Module, Tensor] = {}

    def note(mixer: nn.Module, given: tuple[Any, ...]) -> None:
        values[mixer] = given[2]

    with ExitStack() as hooks:
        for mixer in {path.mixer: None for path in paths}:
            hooks.callback(mixer.register_forward_pre_hook(note).remove)
        yield values
