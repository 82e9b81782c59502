"""Sentences as token ids, in batches of like length; knows tokenizers, nothing of attention."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention import BLOCK_WEIGHTS
from attnlab.core import (
    InputError,
    NothingUsableError,
    Side,
    check_memory,
    exceeds_memory,
    input_device,
    shown,
    texts_of,
)
from attnlab.models import IGNORED_LABEL, Model
from attnlab.reading.reading_notes import SentencesDropped
from attnlab.reading.text_tokens import Text, TokenizedText, tokenize
from attnlab.reading.vocabulary import Axis, Vocabulary

Progress = Callable[[int, int], None]
# Bytes for each weight of a layer at once: what statistics, structure and fits hold of it, in float64.
# Measured as the peak of `analyze` on texts of 500 and 1,500 tokens.
BYTES_A_WEIGHT = 128
# Weights of a layer up to which texts are read together: 1 GB.
MOST_WEIGHTS = 2**23
# Bytes for each pair of tokens where blocks of rows are read: a mask, and the form that the kernel takes.
BYTES_A_PAIR = 8
# Bytes for each pair and head of relative positions: themselves, with the mask, and their making.
BYTES_A_BIAS = 12
SHORTEN = "shorten or split it, or raise the limit (memory, in GB)"
WHOLE_LAYERS = (
    "this model computes its attention inside its own modules, or by a function that was put there, and not "
    f"by transformers' own, so no rows can be read without the others: {SHORTEN}"
)


@dataclass(frozen=True)
class Sentence:
    """Token ids of one sentence.

    Attributes:
        number: its index in what was handed in, from 0.
        source: what the encoder reads, or the only stack of a model that has one.
        target: what the decoder reads under teacher forcing: the row of a token predicts the next.
        labels: what the rows of the last stack predict; -100 where nothing.
        features: of audio, where the encoder reads that; `source` are its frames then.
        types: of the tokens of a pair that is read as one text, where the model has an embedding of them.
    """

    number: int
    source: tuple[int, ...]
    target: tuple[int, ...] | None = None
    labels: tuple[int, ...] = ()
    features: Float[Tensor, "mel column"] | None = field(default=None, compare=False, repr=False)
    types: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sentences:
    """Texts tokenized for a model, and how many of them it cannot take; made by `read_sentences`.

    Attributes:
        texts: all that were handed in, by number.
        usable: those that the model can take.
        dropped: how many it cannot.
        source: what kind of token every id of the source is.
        target: likewise of the target.
        most_tokens: no side has more tokens.
        origin: where they come from, in words.
    """

    texts: tuple[TokenizedText, ...]
    usable: tuple[Sentence, ...]
    dropped: tuple[SentencesDropped, ...]
    source: Vocabulary
    target: Vocabulary
    most_tokens: int
    origin: str = "sentences handed in"

    def __len__(self) -> int:
        return len(self.usable)

    def axes(self, batch: Sequence[Sentence], device: torch.device) -> dict[Side, Axis]:
        """A batch ready for the model: `source`, and `target` where there are translations."""
        device = input_device(device)
        source = self.source.axis([s.source for s in batch], device)
        features = [sentence.features for sentence in batch if sentence.features is not None]
        if features:
            source = replace(source, features=torch.stack(features).to(device))
        if any(sentence.types for sentence in batch):
            length = source.ids.shape[1]
            types = [[*s.types, *[0] * (length - len(s.types))] for s in batch]
            source = replace(source, types=torch.tensor(types, device=device))
        axes: dict[Side, Axis] = {"source": source}
        if batch[0].target is not None:
            axes["target"] = self.target.axis([s.target or () for s in batch], device)
        return axes

    @property
    def paired(self) -> bool:
        """Whether there are translations for a decoder to read."""
        return self.usable[0].target is not None

    @property
    def usable_texts(self) -> tuple[Text, ...]:
        """The texts that the model can take, in order."""
        return tuple(self.texts[sentence.number].text for sentence in self.usable)

    @property
    def unknown_share(self) -> float:
        """Share of the tokens of both sides, without special ones, that stand for unknown text."""
        texts = [self.texts[sentence.number] for sentence in self.usable]
        sides = [(self.source, text.source) for text in texts]
        sides += [(self.target, text.target) for text in texts if text.target is not None]
        words = [
            (vocabulary, token)
            for vocabulary, tokens in sides
            for token in tokens.ids
            if token not in vocabulary.special
        ]
        return sum(token == vocabulary.unknown for vocabulary, token in words) / max(len(words), 1)

    def first(self, count: int) -> "Sentences":
        """The sentences of the first `count` texts."""
        return replace(
            self, texts=self.texts[:count], usable=tuple(s for s in self.usable if s.number < count)
        )

    def half(self, first: int) -> "Sentences":
        """Every other sentence, from the one with index `first`."""
        return replace(self, usable=self.usable[first::2])

    def forced_beginning(self, batch: Sequence[Sentence], device: torch.device) -> dict[str, Any]:
        """Keyword arguments of `generate` that put translations into the language of their references.

        That is to begin with the code that these all have in front, behind the marks before it; nothing where
        there is none. A model that writes several languages would choose one by itself.
        """
        begun: list[int] = []
        for ids in zip(*(sentence.target or () for sentence in batch), strict=False):
            if len({*ids}) > 1 or ids[0] not in self.target.special:
                break
            begun.append(ids[0])
        while begun and begun[-1] in self.target.marks:
            begun.pop()
        if not begun:
            return {}
        beginnings = torch.tensor([begun], device=input_device(device)).expand(len(batch), -1)
        return {"decoder_input_ids": beginnings, "decoder_start_token_id": begun[0]}

    def scored(self, most_tokens: int, *, next_tokens: bool = True) -> "Sentences":
        """The sentences on which the model has a loss: some of their tokens are predicted, and they fit.

        Args:
            most_tokens: of a side of a pair with all its marks.
            next_tokens: whether a token is predicted from those before it, so that one alone does not do.

        Raises:
            InputError: none is left.
        """
        most = min(most_tokens, self.most_tokens)
        short = [sentence for sentence in self.usable if _tokens_in_use(sentence) <= most]
        kept = tuple(
            sentence for sentence in short if self._predicted(sentence, next_tokens=next_tokens)
        )
        if not kept:
            msg = (
                f"None of the {len(self.texts)} sentences can be used: all are empty, over {most} "
                "tokens, or have no token to predict."
            )
            raise InputError(msg)
        total = len(self.texts)
        left_out = (
            SentencesDropped(len(self.usable) - len(short), total, most),
            SentencesDropped(len(short) - len(kept), total, unpredicted=True),
        )
        dropped = (*self.dropped, *(reason for reason in left_out if reason.count))
        return replace(self, usable=kept, dropped=dropped, most_tokens=most)

    def _predicted(self, sentence: Sentence, *, next_tokens: bool) -> bool:
        """Whether content of a sentence is predicted."""
        if sentence.target is not None:
            return bool({*sentence.labels} - {IGNORED_LABEL} - self.target.special)
        content = {*sentence.source} - self.source.special
        return bool(content) and (len(sentence.source) > 1 or not next_tokens)

    def is_long(self, heads: int) -> bool:
        """Whether a layer of so many heads has more weights of the longest text than are read at once."""
        return heads * self._most_cells() > MOST_WEIGHTS

    def _most_cells(self) -> int:
        """Pairs of tokens of the longest text; weights of an audio encoder are not handed on."""
        longest = max(self.usable, key=_length)
        tokens = _length(longest)
        return tokens * (tokens if longest.features is None else len(longest.target or ()))

    def longest(self) -> tuple[int, int]:
        """The number of the text that has most tokens, from 0, and how many these are."""
        longest = max(self.usable, key=_length)
        return longest.number, _length(longest)

    def is_too_long(
        self, weights_a_cell: int, *, memory: float | None, device: torch.device
    ) -> bool:
        """Whether the longest text needs more memory than there is; arguments as in `check_memory`."""
        return exceeds_memory(self._bytes(weights_a_cell), memory=memory, device=device)

    def _bytes(self, weights_a_cell: int) -> int:
        """Bytes of so many weights in each pair of tokens of the longest text."""
        return BYTES_A_WEIGHT * weights_a_cell * self._most_cells()

    def check_memory_of_blocks(
        self, heads: int, *, biased: bool, memory: float | None, device: torch.device
    ) -> None:
        """Raises InputError where reading the longest text in blocks of rows needs more memory than there is.

        Args:
            heads: of the layer that has most.
            biased: whether the model adds numbers of its own to the scores of each head.
            memory: as in `check_memory`.
            device: as there.
        """
        longest = max(self.usable, key=_length)
        tokens, cells = _length(longest), self._most_cells()
        block = min(max(BLOCK_WEIGHTS, heads * tokens), heads * cells)
        needed = BYTES_A_WEIGHT * block + BYTES_A_PAIR * cells
        advice = SHORTEN
        if biased:
            needed += BYTES_A_BIAS * heads * cells
            advice = (
                "this model makes a relative position for each head and pair of tokens, "
                f"whichever rows are read: {SHORTEN}"
            )
        what = f"Text {longest.number + 1}, of {tokens:,} tokens, with {heads} heads in blocks of rows,"
        check_memory(needed, what, advice, memory=memory, device=device)

    def check_memory(
        self,
        weights_a_cell: int,
        *,
        memory: float | None,
        device: torch.device,
        advice: str = SHORTEN,
    ) -> None:
        """Raises InputError where the weights of the longest text alone would need more memory than there is.

        Args:
            weights_a_cell: how many weights in one pair of tokens are held at once: heads of a layer, of
                all layers where they come together.
            memory: the most in GB; None: what is free.
            device: where the model is.
            advice: what to do, to end the sentence.
        """
        longest = max(self.usable, key=_length)
        tokens = _length(longest)
        what = (
            f"Text {longest.number + 1}, of {tokens:,} tokens, with {weights_a_cell} heads at once,"
        )
        check_memory(self._bytes(weights_a_cell), what, advice, memory=memory, device=device)

    def batches(
        self,
        size: int,
        weights_a_cell: int,
        *,
        share: tuple[int, int] = (0, 1),
        most_weights: int = MOST_WEIGHTS,
        progress: Progress | None = None,
    ) -> Iterator[tuple[Sentence, ...]]:
        """Sentences of like length together, as `batches` makes them.

        Args:
            size: most sentences in one batch.
            weights_a_cell: see `batches`.
            share: (index, count): every count-th batch, from that index on.
            most_weights: see `batches`.
            progress: called with (sentences done, sentences in all) when the next batch is asked for.
        """
        made = batches(
            self.usable, size=size, weights_a_cell=weights_a_cell, most_weights=most_weights
        )
        work = list(made)[share[0] :: share[1]]
        total, done = sum(map(len, work)), 0
        for batch in work:
            yield batch
            done += len(batch)
            if progress is not None:
                progress(done, total)


def _tokens_in_use(sentence: Sentence) -> int:
    """Tokens of the longer side in use; a decoder predicts one token more than it reads."""
    return max(len(sentence.source), len(sentence.target or ()) + 1)


def _length(sentence: Sentence) -> int:
    """Tokens of the longer side."""
    return max(len(sentence.source), len(sentence.target or ()))


# Their decoders begin with the last token of the translation, the code of its language.
_WRAPPING = frozenset({"mbart", "plbart"})


def read_sentences(
    model: Model, texts: Sequence[Text], origin: str = "sentences handed in"
) -> Sentences:
    """Token ids of every text that fits the model; nothing is cut, what does not fit is counted.

    Args:
        model: its configuration gives the start token and the length limit.
        texts: sentences, or pairs: of source and target for an encoder-decoder, else of sentences.
        origin: where they come from, in words.

    Raises:
        InputError: no texts, see `attnlab.core.texts_of`, or no text that the model can take; pairs for a
            model of one stack whose tokenizer has no form for them.
    """
    if reads_audio(model.model):
        msg = f"{model.label} reads audio, and was given text; give a model that reads text."
        raise InputError(msg)
    return read_tokens(model, tokenize(model, texts_of(texts)), origin)


def read_tokens(model: Model, tokenized: Sequence[TokenizedText], origin: str) -> Sentences:
    """Texts of which the tokens are known, with special tokens, as `read_sentences` gives them.

    Args:
        model: as there.
        tokenized: all with a target or none.
        origin: as there.

    Raises:
        NothingUsableError: no text that the model can take.
    """
    both, config = model.both_tokenizers, model.model.config
    start = getattr(config, "decoder_start_token_id", None)
    wraps = start is None and config.model_type in _WRAPPING
    typed = _reads_types(model.model)
    sentences = [
        _sentence(number, sentence, sentence.target.ids[-1] if wraps and sentence.target else start)
        for number, sentence in enumerate(tokenized)
    ]
    if typed:
        sentences = [
            replace(sentence, types=text.source.types)
            for sentence, text in zip(sentences, tokenized, strict=True)
        ]
    limit = token_limit(model)
    tables = input_tables(model.model)
    vocabulary = Vocabulary(both.source, table=tables["source"])
    target = Vocabulary(both.target, start, table=tables["target"])
    usable, dropped = _usable(sentences, limit, vocabulary.special, target.special)
    if not usable:
        reasons = ", ".join(f"{group.reason}: {group.count}" for group in dropped)
        msg = f"None of the {len(tokenized)} sentences can be used ({reasons}); give others."
        raise NothingUsableError(msg)
    read = Sentences(
        tuple(tokenized), tuple(usable), tuple(dropped), vocabulary, target, limit, origin
    )
    check_embedded(model, read)
    return read


def _reads_types(model: Any) -> bool:
    """Whether a model tells the two texts of a pair apart by token types."""
    types = getattr(model.config, "type_vocab_size", 0) or 0
    return types > 1 and "token_type_ids" in signature(model.forward).parameters


def input_tables(model: Any) -> dict[Side, nn.Embedding | None]:
    """The input embedding of each side; None where none is a table (CANINE hashes its characters)."""
    stacks: dict[Side, Any] = {"source": model, "target": model}
    if model.config.is_encoder_decoder:
        stacks["target"] = model.get_decoder()
    tables: dict[Side, nn.Embedding | None] = {}
    for side, stack in stacks.items():
        # FSMT's decoder has the table and not the method.
        table = getattr(stack, "embed_tokens", None)
        with suppress(AttributeError, NotImplementedError):
            table = stack.get_input_embeddings()
        tables[side] = table if hasattr(table, "num_embeddings") else None
    return tables


def check_embedded(model: Model, sentences: Sentences) -> None:
    """Raises InputError for a token of some text that the input embedding has no row for."""
    tables = input_tables(model.model)
    for text in sentences.usable:
        # Of audio the source are frames.
        read = {
            "source": text.source if text.features is None else (),
            "target": text.target or (),
        }
        for side, table in tables.items():
            largest = max(read[side], default=0)
            if table is not None and largest >= table.num_embeddings:
                (token,) = getattr(sentences, side).tokens([largest])
                msg = (
                    f"Text {text.number + 1} has token {shown(token)} with id {largest}, and the input "
                    f"embedding of {model.label} has {table.num_embeddings} rows; make it larger with "
                    "model.resize_token_embeddings(len(tokenizer)), or use the tokenizer that the model was "
                    "trained with."
                )
                raise InputError(msg)


def token_limit(model: Model) -> int:
    """The most tokens of a text, special tokens among them, that a model and its tokenizer can take."""
    return min(most_positions(model.model.config), model.both_tokenizers.source.model_max_length)


def _sentence(number: int, text: TokenizedText, start: int | None) -> Sentence:
    """The sentence with ids shifted right behind the start token, as in training (heads.md, trap 5)."""
    source = text.source.ids
    if text.target is None:
        return Sentence(number, source, labels=(*source[1:], IGNORED_LABEL))
    whole = shifted(text.target.ids, start)
    return Sentence(number, source, whole[:-1], whole[1:])


def shifted(ids: tuple[int, ...], start: int | None) -> tuple[int, ...]:
    """Ids of a translation behind the token that a decoder starts with."""
    return ids if start is None or ids[:1] == (start,) else (start, *ids)


def reads_audio(model: Any) -> bool:
    """Whether the encoder of a transformers model reads features of audio."""
    return getattr(model, "main_input_name", "input_ids") == "input_features"


# Their first token has the number behind that of padding, so that the first positions stay unused.
_NUMBERED_BEHIND_PADDING = {
    "camembert", "data2vec-text", "esm", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl", "xmod",
}  # fmt: skip


def most_positions(config: Any) -> int:
    """Number of tokens that a model has positions for; sinusoidal and relative ones never end."""
    if getattr(config, "positions", None) == "learned":
        return int(config.max_positions)
    names = ("max_position_embeddings", "max_target_positions")
    limit = int(next((count for name in names if (count := getattr(config, name, None))), 0))
    if getattr(config, "model_type", None) in _NUMBERED_BEHIND_PADDING:
        limit -= (config.pad_token_id or 0) + 1
    # XLNet says -1.
    return limit if limit > 0 else 2**31


def _usable(
    sentences: Sequence[Sentence], limit: int, special: set[int], special_of_target: set[int]
) -> tuple[list[Sentence], list[SentencesDropped]]:
    usable, empty, long = [], 0, 0
    for sentence in sentences:
        written = sentence.target is None or set(sentence.labels) - special_of_target
        if not set(sentence.source) - special or not written:
            empty += 1
        elif _length(sentence) > limit:
            long += 1
        else:
            usable.append(sentence)
    total = len(sentences)
    dropped = [SentencesDropped(empty, total), SentencesDropped(long, total, limit)]
    return usable, [group for group in dropped if group.count]


def batches(
    sentences: Sequence[Sentence],
    *,
    size: int,
    weights_a_cell: int,
    most_weights: int = MOST_WEIGHTS,
) -> Iterator[tuple[Sentence, ...]]:
    """Sentences of like length together, longest first, so that little is padding.

    Args:
        sentences: in any order; the batches depend on the set alone.
        size: most sentences in one batch.
        weights_a_cell: how many weights of one layer stand in one pair of tokens: its heads.
        most_weights: a batch is made smaller where one layer would hold more weights than this.
    """
    batch: list[Sentence] = []
    cells = 0
    for sentence in sorted(
        sentences,
        key=lambda s: (-_length(s), -len(s.source), s.number),
    ):
        if batch and (len(batch) == size or (len(batch) + 1) * cells > most_weights):
            yield tuple(batch)
            batch = []
        if not batch:
            cells = weights_a_cell * _length(sentence) ** 2
        batch.append(sentence)
    if batch:
        yield tuple(batch)
