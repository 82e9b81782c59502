"""A model with its tokenizer: what every question is asked of, wherever it is from."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.core import (
    InputError,
    ShortRepr,
    briefly,
    eval_mode,
    path_label,
    read_json,
    usable_device,
)

# Longer sentences are left out where loss and translations of a model that is no run are measured.
MOST_TOKENS = 512
PAIR = 2
_AS_A_PAIR = "hand in both as a pair, (model, tokenizer)"
# Of sums of rows: weights of half precision, or some of which were dropped.
_ROUGHLY = 0.05


class BothTokenizers(NamedTuple):
    """The tokenizers of source and target; one and the same for most models."""

    source: Any
    target: Any


@dataclass(frozen=True, repr=False)
class Model(ShortRepr):
    """A transformers model with its tokenizer.

    What a run knows besides is here as it is of other models: not at all.

    Attributes:
        model: the model.
        tokenizer: its tokenizer, or an object with tokenizers `.source` and `.target`.
        name: the folder or the name on the hub that it is from; "" where it was handed in.
        weights: checksum of its file of weights, by which results tell of which state of a run they are.
    """

    model: Any
    tokenizer: Any
    name: str = ""
    weights: str | None = None

    def move_to(self, device: torch.device) -> None:
        """Moves the model to a device; one that accelerate spread over several stays where it is."""
        if not hasattr(self.model, "hf_device_map"):
            self.model.to(device)

    def move_to_named(self, device: str | None, source: object) -> None:
        """Moves the model to the device of that name; None: to a GPU if there is one and it was read here.

        Raises:
            InputError: the device cannot be used on this machine.
        """
        if device is not None or isinstance(source, str | Path):
            self.move_to(usable_device(device))

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the weights of its body, whatever head stands on it, in hexadecimal digits.

        Cost: about two seconds per gigabyte, once.
        """
        # Loads what models of transformers are loaded with, which a file of matrices is not.
        from attnlab.models.safe_loading import tensors_checksum

        body = self.model.base_model
        # T5 and its kin have their head beside encoder and decoder, and no body without it.
        head = body.get_output_embeddings()
        prefixes = tuple(f"{name}." for name, part in body.named_modules() if part is head)
        weights = body.state_dict().items()
        return tensors_checksum(
            {name: tensor for name, tensor in weights if not name.startswith(prefixes)}
        )

    @property
    def both_tokenizers(self) -> BothTokenizers:
        """The tokenizers of the source and of the target.

        Raises:
            InputError: the model was handed in without one.
        """
        both = self.tokenizer
        if both is None:
            msg = f"{self.label} has no tokenizer here; {_AS_A_PAIR}."
            raise InputError(msg)
        return BothTokenizers(getattr(both, "source", both), getattr(both, "target", both))

    @property
    def label(self) -> str:
        """Its source, or its class where it was handed in."""
        return path_label(self.name) if self.name else type(self.model).__name__

    @property
    def short_name(self) -> str:
        """The name that its folder's configuration gives, or its name on the hub, or its class."""
        if not self.name or not Path(self.name).exists():
            return self.label
        written = read_json(Path(self.name) / "config.json", dict[str, Any], finite=False)
        return str(written.get("_name_or_path") or type(self.model).__name__)

    @property
    def facts(self) -> dict[str, str]:
        """Its source, its class and its size."""
        parameters = sum(weight.numel() for weight in self.model.parameters())
        words = f"{type(self.model).__name__}, {parameters:,} parameters"
        return {"Source": self.label, "Model": words}

    @property
    def history(self) -> Mapping[str, str]:
        """Facts about its training in words, by heading."""
        return {}

    @property
    def type_counts(self) -> tuple[Tensor, ...] | None:
        """How often each type of the source and of the target stands in the training text."""
        return None

    @property
    def seed(self) -> int:
        """The seed that its first weights were drawn with."""
        return 0

    @property
    def most_tokens(self) -> int:
        """Most tokens of a sentence on which its loss and its translations are measured."""
        return MOST_TOKENS

    @property
    def lowercase(self) -> bool:
        """Whether it was trained on text in lower case."""
        return False


# What questions are asked of: a folder or the name of a model, one that is loaded, or (model, tokenizer).
Source = str | Path | Model | tuple[Any, Any]
Settings = TypeVar("Settings")
Returned = TypeVar("Returned")


def _holds_weights(source: object) -> bool:
    """Whether a source is attention weights or several, or what a model returns with them."""
    if isinstance(source, Mapping) and any(str(name).endswith("attentions") for name in source):
        return True
    several: list[object] = [source]
    if isinstance(source, Mapping | list | tuple):
        several = [*(source.values() if isinstance(source, Mapping) else source)]
    return bool(several) and all(map(_is_of_weights, several))


def _is_of_weights(given: object) -> bool:
    """Whether what was handed in has rows that sum to about 1."""
    if not isinstance(given, Tensor | np.ndarray) or given.ndim < 2 or 0 in given.shape:
        return False
    return bool(abs(given.sum(-1) - 1).max() <= _ROUGHLY)


def handed_in(source: Any) -> Model | str | Path:
    """The model that was handed in itself, or the folder or name of one.

    Raises:
        InputError: it is something else, such as a model without its tokenizer.
    """
    if isinstance(source, Model):
        return source
    if isinstance(source, os.PathLike):
        return Path(source)
    if isinstance(source, nn.Module):
        msg = f"{type(source).__name__} is a model without its tokenizer; {_AS_A_PAIR}."
        raise InputError(msg)
    if _holds_weights(source):
        msg = (
            "These are attention weights, and a model is wanted; attnlab.show(weights, tokens) shows those "
            "of a text, and analyze reads a file of them, as numpy.savez('weights.npz', *layers) writes it."
        )
        raise InputError(msg)
    if isinstance(source, tuple | list):
        if (
            len(source) != PAIR
            or not isinstance(source[0], nn.Module)
            or isinstance(source[1], nn.Module)
        ):
            kinds = ", ".join(type(item).__name__ for item in source)
            msg = f"({kinds}) is no model with its tokenizer; {_AS_A_PAIR}."
            raise InputError(msg)
        return Model(*source)
    if not isinstance(source, str):
        msg = f"{briefly(source)} is no model; give a folder, a name on the hub, or (model, tokenizer)."
        raise InputError(msg)
    return source


def leaving_modes(
    study: Callable[[Source, Settings], Returned],
) -> Callable[[Source, Settings], Returned]:
    """Puts each module of a model that was handed in back into its mode, training or not, after a call."""

    @wraps(study)
    def call(source: Source, settings: Settings) -> Returned:
        loaded = handed_in(source)
        if not isinstance(loaded, Model):
            return study(source, settings)
        with eval_mode(loaded.model):
            return study(source, settings)

    return call
