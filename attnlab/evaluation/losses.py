"""The loss of any model: of next tokens, of masked tokens, or how far its final states move.

A decoder scores next tokens. A masked model (BERT, RoBERTa) scores tokens that are masked, which are drawn
by seed. An encoder without a head scores nothing: how far its final states are from those of the untouched
model stands in for a loss, and is 0 before anything is changed.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlab.core import InputError
from attnlab.evaluation.loss_kinds import DISTANCES, MASKED_SHARE, LossKind
from attnlab.models import IGNORED_LABEL, Model
from attnlab.reading import Sentence, Sentences

MASK_SEED = 0


def loss_of(model: Model, scores_next: bool, requested: str | None = None) -> LossKind:
    """The loss that a model is evaluated by: that of what it scores, or the distance of its final states.

    Args:
        model: with its tokenizer.
        scores_next: whether it scores next tokens.
        requested: `cosine` or `squared`, for the distance of the final states whatever it scores; None: the
            loss that it has, and without one `cosine`.

    Raises:
        InputError: another kind.
    """
    if requested is not None:
        kind = next((kind for kind in DISTANCES if kind == requested), None)
        if kind is None:
            msg = f"loss must be one of {', '.join(DISTANCES)}, or left out, not {requested!r}."
            raise InputError(msg)
        return kind
    if scores_next:
        return "next tokens"
    return "masked tokens" if _scores_masked(model) else "cosine"


def _scores_masked(model: Model) -> bool:
    """Whether the model has a layer that scores tokens, and its tokenizer a token to mask them with."""
    mask = getattr(model.both_tokenizers.source, "mask_token_id", None)
    config = model.model.config
    return (
        mask is not None
        and not config.is_encoder_decoder
        and model.model.get_output_embeddings() is not None
    )


def mask_tokens(sentences: Sentences, mask: int, seed: int = MASK_SEED) -> Sentences:
    """The sentences with some tokens masked, which are the labels; the same ones whatever stands beside them.

    Args:
        sentences: of one stack.
        mask: id of the token that stands in for them.
        seed: with the tokens of a sentence it draws those that are masked; at least one is.
    """
    masked = tuple(
        _masked(sentence, sentences.source.special, mask, seed)
        for sentence in sentences.usable
        if set(sentence.source) - sentences.source.special
    )
    return replace(sentences, usable=masked)


def _masked(sentence: Sentence, special: set[int], mask: int, seed: int) -> Sentence:
    # Of a seed torch uses 32 bits on a CPU.
    drawn_by = zlib.crc32(f"{seed} {sentence.source}".encode())
    generator = torch.Generator().manual_seed(drawn_by)
    content = [place for place, token in enumerate(sentence.source) if token not in special]
    count = max(1, round(MASKED_SHARE * len(content)))
    order = torch.randperm(len(content), generator=generator)[:count].tolist()
    drawn = {content[index] for index in order}
    numbered = list(enumerate(sentence.source))
    return replace(
        sentence,
        source=tuple(mask if place in drawn else token for place, token in numbered),
        labels=tuple(token if place in drawn else IGNORED_LABEL for place, token in numbered),
    )


def all_labelled(sentences: Sentences) -> Sentences:
    """The sentences with a label at every token, where each counts: a decoder's own are left."""
    if sentences.paired:
        return sentences
    return replace(
        sentences,
        usable=tuple(replace(sentence, labels=sentence.source) for sentence in sentences.usable),
    )


def cross_entropy(
    logits: Float[Tensor, "batch target type"], labels: Int[Tensor, "batch target"]
) -> Float[Tensor, " batch"]:
    """Each sentence's summed cross-entropy without label smoothing, in nats; differentiable."""
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    token_losses = F.cross_entropy(
        exact.flatten(0, 1), labels.flatten(), ignore_index=IGNORED_LABEL, reduction="none"
    )
    return token_losses.view(labels.shape).double().sum(1)


def state_distances(
    states: Float[Tensor, "batch target dim"],
    untouched: Float[Tensor, "batch target dim"],
    labels: Int[Tensor, "batch target"],
    kind: LossKind,
) -> Float[Tensor, " batch"]:
    """Each sentence's summed distance between final states; differentiable.

    Args:
        states: of the model as it stands.
        untouched: of the model as it was.
        labels: -100 where a state does not count.
        kind: `cosine` or `squared`.
    """
    now, before = states.double(), untouched.double()
    if kind == "cosine":
        distances = (1 - F.cosine_similarity(now, before, dim=-1)).clamp(min=0)
    else:
        distances = (now - before).square().mean(-1)
    return distances.masked_fill(labels == IGNORED_LABEL, 0).sum(1)


@dataclass(frozen=True)
class FinalStates:
    """Final states of the untouched model, by sentence.

    Attributes:
        states: of each sentence without padding, by its number.
    """

    states: dict[int, Tensor]

    def of(self, numbers: Sequence[int], like: Tensor) -> Tensor:
        """Final states of a batch, 0 where it is padded.

        Args:
            numbers: of its sentences.
            like: states of the batch as the model gives them now.
        """
        padded = torch.zeros_like(like)
        for row, number in enumerate(numbers):
            states = self.states[number]
            padded[row, : len(states)] = states.to(padded)
        return padded


def final_states(model: Any, inputs: dict[str, Any]) -> Float[Tensor, "batch target dim"]:
    """The states behind the last layer, of the decoder where there are two stacks."""
    output = model.base_model(**inputs, return_dict=True, output_hidden_states=True)
    if "last_hidden_state" in output:
        return output.last_hidden_state
    # The base model of T5 is the model that scores.
    states: Any = output.get("decoder_hidden_states", output.get("hidden_states"))
    return states[-1]
