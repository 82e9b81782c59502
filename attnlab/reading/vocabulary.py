"""The kind of token of every id of a tokenizer, and the tokens along one side of a batch."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase
from transformers.utils import ModelOutput


@dataclass(frozen=True)
class Axis:
    """The tokens along one side of a batch of matrices; each flag is True where its name holds.

    Attributes:
        ids: token ids, padded.
        real: a token, not padding.
        content: a real token that is no special token; an unknown word is content.
        special: a real special token.
        opening: a special token at position 0 ([CLS], BOS, a decoder's start token).
        closing: an end of sentence or separator behind position 0.
        punctuation: a content token of punctuation characters only.
        features: of audio, whose frames the tokens are.
        outputs: what the encoder gave for them, see `encoded`.
        types: to which text of a pair each belongs, where the model is told.
    """

    ids: Int[Tensor, "batch token"]
    real: Bool[Tensor, "batch token"]
    content: Bool[Tensor, "batch token"]
    special: Bool[Tensor, "batch token"]
    opening: Bool[Tensor, "batch token"]
    closing: Bool[Tensor, "batch token"]
    punctuation: Bool[Tensor, "batch token"]
    features: Float[Tensor, "batch mel column"] | None = None
    outputs: ModelOutput | None = None
    types: Int[Tensor, "batch token"] | None = None

    def at(self, positions: Int[Tensor, " position"]) -> "Axis":
        """The tokens at these positions alone, the same in all sentences."""
        return Axis(*(getattr(self, name)[:, positions] for name in _OF_TOKENS))

    def to(self, device: torch.device) -> "Axis":
        """The axis on another device, without the input that the model was given instead of ids."""
        return Axis(*(getattr(self, name).to(device) for name in _OF_TOKENS))


_OF_TOKENS = ("ids", "real", "content", "special", "opening", "closing", "punctuation")

# What special tokens are for, the unknown word aside.
_MARKS = ("bos", "eos", "sep", "cls", "mask", "pad")


class Vocabulary:
    """The kind of token of every id of a tokenizer.

    Args:
        tokenizer: of transformers.
        start: the id that a decoder starts with.
        table: the model's embedding of these ids, which padding must be one of; None: any id is.

    Attributes:
        special: ids of special tokens; an unknown word is none.
        unknown: id of what stands for text that the vocabulary lacks; None where nothing does.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        start: int | None = None,
        *,
        table: nn.Embedding | None = None,
    ) -> None:
        self.marks = {getattr(tokenizer, f"{role}_token_id") for role in _MARKS} | {start}
        # One token may be the unknown word and the mark of the beginning too, as in GPT-2.
        unknown = tokenizer.unk_token_id
        others = {getattr(tokenizer, f"{role}_token_id") for role in _MARKS if role != "pad"}
        self.unknown: int | None = None if unknown in {*others, start} else unknown
        self.special: set[int] = {*tokenizer.all_special_ids} - {self.unknown}
        if start is not None:
            self.special.add(start)
        self.closing = {tokenizer.eos_token_id, tokenizer.sep_token_id} - {None}
        candidates = (
            tokenizer.pad_token_id,
            getattr(table, "padding_idx", None),
            tokenizer.eos_token_id,
        )
        rows = math.inf if table is None else table.num_embeddings
        self.padding = next((i for i in candidates if i is not None and i < rows), 0)
        self._tokenizer = tokenizer
        self._punctuation: dict[int, bool] = {}

    def is_punctuation(self, token: int) -> bool:
        """Whether the characters of `token` are all of a Unicode class of punctuation."""
        if token not in self._punctuation:
            surface = self._tokenizer.decode([token]).strip().removeprefix("##")
            self._punctuation[token] = bool(surface) and all(
                unicodedata.category(character).startswith("P") for character in surface
            )
        return self._punctuation[token]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Tokens as the tokenizer writes them, with its marks of word starts."""
        return [str(token) for token in self._tokenizer.convert_ids_to_tokens(list(ids))]

    def axis(self, sequences: Sequence[Sequence[int]], device: torch.device) -> Axis:
        """The sequences side by side, padded to the longest."""
        lengths = torch.tensor([*map(len, sequences)])
        length = int(lengths.max())
        gaps = (length - lengths).tolist()
        # Lists first: setting the entries of a tensor one by one takes as long as a layer.
        ids = torch.tensor(
            [[*s, *[self.padding] * gap] for s, gap in zip(sequences, gaps, strict=True)]
        )
        real = torch.arange(length) < lengths[:, None]
        different, places = ids.unique(return_inverse=True)
        kinds = torch.tensor([self._kinds(token) for token in different.tolist()])[places]
        kinds = torch.cat([real[..., None], kinds & real[..., None]], -1)
        real, special, ends, punctuation = kinds.to(device).unbind(-1)
        first = torch.arange(length, device=device) == 0
        return Axis(
            ids.to(device),
            real,
            real & ~special,
            special,
            special & first,
            ends & ~first,
            punctuation,
        )

    def _kinds(self, token: int) -> tuple[bool, bool, bool]:
        """Whether a token is special, the end of a sentence, punctuation."""
        special = token in self.special
        return special, token in self.closing, not special and self.is_punctuation(token)
