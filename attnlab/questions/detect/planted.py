"""Texts in which it is known beforehand where a head of each name attends."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attnlab.core import InputError
from attnlab.labels import START_MARKS, GoldSentence, Span, align_corpus
from attnlab.models import Model
from attnlab.questions.detect.question import (
    COPY,
    DUPLICATE,
    FEWEST_TYPES,
    INDUCTION,
    NEEDLE,
    OUTSIDE,
    PREVIOUS,
)
from attnlab.reading import (
    Sentences,
    TokenizedText,
    Tokens,
    input_tables,
    prepare,
    read_tokens,
    reads_audio,
    token_limit,
    tokens_of,
)

# The first tokens of a needle, which are repeated at the end, and those that are to be emitted then.
CUE, ANSWER = 2, 8
_WORD = re.compile(r"\w+(?:[.,:'\u2019-]\w+)*|[^\w\s]")
_SHORTEST_NAME = 3
_WORD_MARKS = "".join(START_MARKS)


@dataclass(frozen=True)
class Target:
    """The keys that each of some rows of a text should attend to: from `start` to `end`, both among them.

    Attributes:
        rows: positions of queries.
        start: of each row the first key.
        end: of each row the last key.
        largest: whether the largest weight of the row is to be there; else the weight there is summed.
    """

    rows: Int[Tensor, " row"]
    start: Int[Tensor, " row"]
    end: Int[Tensor, " row"]
    largest: bool = False

    def at(self, chosen: Tensor) -> "Target":
        """Some of the rows."""
        return Target(self.rows[chosen], self.start[chosen], self.end[chosen], self.largest)


def one_key(rows: Tensor, keys: Tensor, *, largest: bool = False) -> Target:
    """A single key for each row."""
    return Target(rows, keys, keys, largest)


# By site, of each text the targets by detector.
Targets = Mapping[str, Sequence[Mapping[str, Target]]]


@dataclass(frozen=True)
class Planted:
    """Texts with what was planted in them."""

    sentences: Sentences
    targets: Targets


@dataclass(frozen=True)
class Side:
    """What one side of a generated text is made of.

    Attributes:
        types: ids of ordinary tokens.
        before: special tokens in front of a text.
        behind: special tokens behind it.
        site: of its self-attention.
        shift: by how much tokens stand further back in what is read.
    """

    types: Int[Tensor, " type"]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    site: str
    shift: int = 0

    @property
    def offset(self) -> int:
        """The position of the first ordinary token in what is read."""
        return len(self.before) + self.shift

    def tokens(self, ids: Sequence[int]) -> Tokens:
        """These ids between the special tokens."""
        special = (
            *(True for _ in self.before),
            *(False for _ in ids),
            *(True for _ in self.behind),
        )
        return Tokens((*self.before, *ids, *self.behind), special, None)


def sides_of_model(model: Model) -> tuple[Side, ...]:
    """The sides of a text for a model, those without self-attention left out.

    Raises:
        InputError: the model reads no text, or there are too few ordinary tokens.
    """
    both, two = model.both_tokenizers, model.model.config.is_encoder_decoder
    if reads_audio(model.model):
        msg = f"{model.label} reads audio; detectors need a model that reads text."
        raise InputError(msg)
    sides, tables = [], input_tables(model.model)
    for site, tokenizer in zip(("encoder", "decoder") if two else ("",), both, strict=False):
        made = tokens_of(tokenizer, ["a"], target=site == "decoder")[0]
        # A tokenizer may make nothing of a letter.
        first = made.special.index(False) if False in made.special else len(made.ids)
        behind = len(made.ids) - made.special[::-1].index(False) if first < len(made.ids) else first
        types = ordinary_types(tokenizer, tables["target" if site == "decoder" else "source"])
        sides.append(Side(types, made.ids[:first], made.ids[behind:], site))
    few = [side.tokens(side.types[:4].tolist()) for side in sides]
    sample = read_tokens(model, [text_of(few)], "a few tokens")
    sites = tuple(prepare(model, sample, whole=False).attention_sites.layers)
    if not two:
        return (replace(sides[0], site=sites[0]),)
    # The decoder may read a token before those of the tokenizer, and does not read the last.
    shift = len(sample.usable[0].target or ()) + 1 - len(few[1].ids)
    return tuple(side for side in (sides[0], replace(sides[1], shift=shift)) if side.site in sites)


def text_of(sides: Sequence[Tokens]) -> TokenizedText:
    """A text of known tokens."""
    return TokenizedText("", sides[0], sides[1] if len(sides) > 1 else None)


def ordinary_types(tokenizer: Any, table: nn.Embedding | None) -> Int[Tensor, " type"]:
    """Ids of the vocabulary that are neither special nor added, and have a row in the embedding `table`.

    Raises:
        InputError: there are fewer than `FEWEST_TYPES`.
    """
    without = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    rows = math.inf if table is None else table.num_embeddings
    types = sorted(token for token in {*tokenizer.get_vocab().values()} - without if token < rows)
    if len(types) < FEWEST_TYPES:
        msg = (
            f"The tokenizer has {len(types)} ordinary tokens; detectors need {FEWEST_TYPES} to draw "
            "sequences from."
        )
        raise InputError(msg)
    return torch.tensor(types)


def room(model: Model, sides: Sequence[Side]) -> int:
    """How many ordinary tokens fit on each side."""
    return token_limit(model) - max(
        len(side.before) + len(side.behind) + side.shift for side in sides
    )


def repeated(
    model: Model,
    sides: Sequence[Side],
    count: int,
    tokens: int,
    generator: torch.Generator,
    *,
    shuffle: bool = False,
) -> Planted:
    """Different random tokens that are read twice, on each side others; Olsson et al. 2022.

    Args:
        model: that reads them.
        sides: of a text.
        count: how many texts.
        tokens: how many different tokens, each of which stands twice.
        generator: draws them.
        shuffle: whether the second copy has another order, which takes the meaning from the positions.
    """
    texts = []
    for _ in range(count):
        made = []
        for side in sides:
            ids = side.types[torch.randperm(len(side.types), generator=generator)[:tokens]]
            order = torch.randperm(tokens, generator=generator)
            made.append(side.tokens([*ids.tolist(), *(ids[order] if shuffle else ids).tolist()]))
        texts.append(text_of(made))
    second = torch.arange(tokens, 2 * tokens)
    targets = {
        side.site: [
            {
                PREVIOUS.name: one_key(rows, rows - 1),
                DUPLICATE.name: one_key(rows, rows - tokens),
                INDUCTION.name: one_key(rows, rows - tokens + 1),
            }
        ]
        * count
        for side in sides
        for rows in [second + side.offset]
    }
    return Planted(read_tokens(model, texts, "random tokens"), targets)


def needles(
    model: Model,
    sides: Sequence[Side],
    count: int,
    tokens: int,
    *,
    window: tuple[int, int],
    generator: torch.Generator,
    haystack: Int[Tensor, " token"] | None = None,
) -> Planted:
    """Texts with a needle of random tokens, which is asked for at the end by its first tokens.

    The needle lies outside the first and recent keys of the rows that predict it, and none of its tokens
    stands elsewhere before these.

    Args:
        model: with a decoder.
        sides: of a text, the decoder last; beside it an encoder reads random tokens.
        count: how many texts.
        tokens: of each.
        window: how many first and how many recent keys.
        generator: draws tokens and positions.
        haystack: what stands around the needles; None: random tokens.

    Raises:
        InputError: the haystack is too short, or holds nearly all types.
    """
    side = sides[-1]
    answer = min(ANSWER, len(side.types) // 2 - CUE, 3 * tokens // 8 - CUE)
    needle = CUE + answer
    hay = tokens - 2 * needle
    if haystack is not None and len(haystack) < hay:
        msg = f"The sentences have {len(haystack)} tokens; give {hay}, or a smaller context."
        raise InputError(msg)
    first, recent = window
    low = max(first - side.offset, 0)
    high = min(hay, tokens - needle - 1 - recent)
    texts, targets = [], []
    rows = torch.arange(answer) + side.offset + tokens - needle + CUE - 1
    late = torch.arange(tokens // 2, tokens) + side.offset
    outside = Target(late, torch.full_like(late, first), late - recent)
    for _ in range(count):
        # Beside a decoder an encoder reads a few tokens.
        made = [
            other.tokens(
                other.types[torch.randperm(len(other.types), generator=generator)][
                    :FEWEST_TYPES
                ].tolist()
            )
            for other in sides[:-1]
        ]
        order = side.types[torch.randperm(len(side.types), generator=generator)]
        around, planted = _around(order, needle, hay, generator, haystack)
        at = int(torch.randint(low, high + 1, (), generator=generator))
        made.append(side.tokens([*around[:at], *planted, *around[at:], *planted]))
        texts.append(text_of(made))
        keys = torch.arange(answer) + side.offset + at + CUE
        targets.append({OUTSIDE.name: outside, NEEDLE.name: one_key(rows, keys, largest=True)})
    return Planted(read_tokens(model, texts, "needles"), {side.site: targets})


def _around(
    order: Tensor, needle: int, hay: int, generator: torch.Generator, haystack: Tensor | None
) -> tuple[list[int], list[int]]:
    """What stands around a needle, and the needle, which has no token of it."""
    if haystack is None:
        picks = torch.randint(needle, len(order), (hay,), generator=generator)
        return order[picks].tolist(), order[:needle].tolist()
    begin = int(torch.randint(len(haystack) - hay + 1, (), generator=generator))
    around = haystack[begin : begin + hay]
    left = order[~torch.isin(order, around)]
    if len(left) < needle:
        msg = (
            f"Only {len(left)} tokens of the vocabulary are not in the text, and a needle has {needle}; give "
            "a smaller context."
        )
        raise InputError(msg)
    return around.tolist(), left[:needle].tolist()


def copied(model: Model, sentences: Sentences, *, shuffle: bool = False) -> Planted:
    """Rows of cross-attention that predict a name or number of the source, which is taken over unchanged.

    Such a word stands once on each side in the same letters and tokens, and has a digit, or a capital and
    three letters (of a model of lower case: three letters).

    Args:
        model: an encoder-decoder.
        sentences: pairs.
        shuffle: whether each target is read with the source of the next pair.
    """
    pairs = [
        (text, text.target)
        for sentence in sentences.usable
        for text in [sentences.texts[sentence.number]]
        if text.target is not None
    ]
    both, lowercase = model.both_tokenizers, model.lowercase
    sources = _words_of(both.source, [(text.text[0], text.source) for text, _ in pairs])
    targets = _words_of(both.target, [(text.text[1], target) for text, target in pairs])
    moved = [*pairs[1:], *pairs[:1]] if shuffle else pairs
    read = read_tokens(
        model,
        [text_of((of.source, target)) for (of, _), (_, target) in zip(moved, pairs, strict=True)],
        sentences.origin,
    )
    planted = []
    for sentence, source, target in zip(read.usable, sources, targets, strict=True):
        links = [
            link
            for word, (pieces, rows) in target.items()
            if word in source and source[word][0] == pieces and _is_name(word, lowercase=lowercase)
            for link in zip(rows, source[word][1], strict=True)
        ]
        # The row of a token predicts the next.
        shift = len(sentence.labels) - len(pairs[sentence.number][1].ids)
        at = torch.tensor([(row + shift, key) for row, key in links if key < len(sentence.source)])
        rows, keys = at.view(-1, 2).long().unbind(1)
        planted.append({COPY.name: one_key(rows, keys, largest=True)})
    return Planted(read, {"cross": planted})


def _is_name(word: str, *, lowercase: bool) -> bool:
    capital = lowercase or word != word.lower()
    return any(map(str.isdigit, word)) or (capital and len(word) >= _SHORTEST_NAME)


def _words_of(
    tokenizer: Any, texts: Sequence[tuple[str, Tokens]]
) -> list[dict[str, tuple[list[str], list[int]]]]:
    """The words that stand once in each text, with their tokens, without marks, and where these are."""
    golds = [
        GoldSentence(str(number), text, spans, ("_",) * len(spans), ())
        for number, (text, _) in enumerate(texts)
        for spans in [tuple(Span(*match.span()) for match in _WORD.finditer(text))]
    ]
    aligned = align_corpus(tokenizer, golds, [tokens for _, tokens in texts]).alignments
    by_text = []
    for gold, (_, tokens), one in zip(golds, texts, aligned, strict=True):
        words: dict[str, tuple[list[str], list[int]]] = {}
        pieces = tokenizer.convert_ids_to_tokens(list(tokens.ids))
        for word, unit in zip(gold.words, one.unit_of_word, strict=True) if one else ():
            at = [place for place, of in enumerate(one.unit_of_token if one else ()) if of == unit]
            clean = tokenizer.unk_token not in {pieces[place] for place in at}
            if clean and gold.words.count(word) == 1 and one and one.unit_of_word.count(unit) == 1:
                words[word] = ([pieces[place].lstrip(_WORD_MARKS) for place in at], at)
        by_text.append(words)
    return by_text
