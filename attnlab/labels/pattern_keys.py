"""Patterns over the texts of a batch: their keys for each query, and how heads and controls hit them."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from attnlab.core import InputError, briefly
from attnlab.labels.counting import (
    TextSide,
    alignments_at,
    scope_of_layer,
    second_tokens,
    side_of_queries,
)
from attnlab.labels.counts import RatioCounts, Scope, count_ratio
from attnlab.labels.label import (
    TO_DEPENDENT,
    TO_HEAD,
    LinkKind,
    Links,
    base_relation,
    tree_kinds,
    tree_links,
)
from attnlab.labels.patterns import (
    AFTER_SAME,
    ALIGNED,
    COREF,
    DEP,
    FIRST,
    LAST,
    OFFSET,
    POS,
    PUNCTUATION,
    RAREST,
    REVERSED,
    SAME_TOKEN,
    SAME_WORD,
    SEGMENT,
    SEPARATOR_NAME,
    SPECIAL,
    TOKEN,
    WITHIN,
    WORD_OFFSET,
    Atom,
    Computed,
    Joined,
    Pattern,
    Tree,
)
from attnlab.labels.syntactic import COREFERENCE_KINDS, word_links
from attnlab.labels.treebank import GoldSentence
from attnlab.labels.word_tokens import (
    OTHER_MARKS,
    START_MARKS,
    Alignment,
    BatchUnits,
    gather_units,
    merge_tokens,
)
from attnlab.reading import LayerWeights, Text

FARTHEST = 8
CONTROL_OFFSETS = tuple(range(-FARTHEST, FARTHEST + 1))


@dataclass(frozen=True)
class PatternText:
    """A text as a function that is a pattern is given it.

    Attributes:
        text: as it was handed in.
        queries: its tokens as the tokenizer writes them, a row of the matrix each.
        keys: likewise, a column each.
    """

    text: Text
    queries: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class PatternTexts:
    """What is known of all texts beforehand.

    Attributes:
        texts: as they were handed in, by number.
        source: of the encoder, or of the only stack.
        target: of the decoder; None for a model of one stack.
        pairs: linked words (target, source) of each text; none where unknown.
    """

    texts: Sequence[Text]
    source: TextSide
    target: TextSide | None = None
    pairs: Sequence[Sequence[tuple[int, int]]] = ()

    def batch(self, layer: LayerWeights) -> "PatternBatch":
        """The texts of a layer's batch at its site."""
        return PatternBatch(self, layer)


@dataclass(frozen=True)
class PatternBatch:
    """The texts of a batch at one site, the same for all its layers."""

    known: PatternTexts
    layer: LayerWeights

    @cached_property
    def scope(self) -> Scope:
        """Which rows and columns count."""
        return scope_of_layer(self.layer)

    @cached_property
    def alignments(self) -> tuple[list[Alignment | None], list[Alignment | None]]:
        """Alignments of the queries and of the keys with their words."""
        return alignments_at(self.layer, self.known.source, self.known.target)

    @cached_property
    def units(self) -> tuple[BatchUnits, BatchUnits]:
        """The words of the queries and of the keys."""
        queries, keys = self.alignments
        axes = self.layer.queries, self.layer.keys
        return gather_units(queries, axes[0].real), gather_units(keys, axes[1].real)

    @cached_property
    def aligned(self) -> Bool[Tensor, "batch"]:
        """True at texts whose words are known on both sides."""
        complete = [None not in both for both in zip(*self.alignments, strict=True)]
        return torch.tensor(complete, device=self.layer.keys.ids.device)

    @cached_property
    def trees(self) -> list[GoldSentence]:
        """The gold trees of the texts of the queries."""
        side = side_of_queries(self.layer, self.known.source, self.known.target)
        return [side.trees[number] for number in self.layer.sentences]

    @cached_property
    def type_counts(self) -> Int[Tensor, "batch key"]:
        """How often the type of each key stands in the training text."""
        side = self.known.source
        if self.layer.site == "decoder" and self.known.target is not None:
            side = self.known.target
        ids = self.layer.keys.ids
        return side.type_counts.to(ids.device)[ids]

    @cached_property
    def visible_words(self) -> Bool[Tensor, "batch query_word key_word"]:
        """True at pairs of words of which one may look at the other."""
        queries, keys = (side.of_tokens for side in self.units)
        pairs = queries[:, :, None] & keys[:, None]
        return pairs.tril() if self.layer.causal else pairs

    def keys_named(self, is_named: Callable[[str], bool]) -> Bool[Tensor, "batch key"]:
        """Keys by what their tokens are called."""
        ids, places = self.layer.keys.ids.unique(return_inverse=True)
        names = self.layer.vocabularies[1].tokens(ids.tolist())
        return torch.tensor([is_named(name) for name in names], device=places.device)[places]

    def dense(self, links: Links, kind: LinkKind | None = None) -> Bool[Tensor, "batch unit other"]:
        """Links of one kind, or all, as matrices of words."""
        queries, keys = (side.words for side in self.units)
        matrix = torch.zeros(*queries.shape, keys.shape[1], dtype=torch.bool)
        mine = torch.ones_like(links.kind, dtype=torch.bool)
        if kind is not None:
            # A relation that no text has.
            mine = links.kind == (links.kinds.index(kind) if kind in links.kinds else -1)
        matrix[links.sentence[mine], links.query[mine], links.key[mine]] = True
        return matrix.to(queries.device)

    def tagged(self, tag: str) -> Bool[Tensor, "batch word"]:
        """Words of a part of speech."""
        matches = torch.zeros_like(self.units[0].words)
        for row, (tree, alignment) in enumerate(zip(self.trees, self.alignments[0], strict=True)):
            for word_tag, unit in zip(
                tree.tags, alignment.unit_of_word if alignment else (), strict=False
            ):
                matches[row, unit] |= word_tag == tag
        return matches

    @cached_property
    def token_names(self) -> tuple[list[list[str]], list[list[str]]]:
        """Names of the queries and keys of each text; queries of cross-attention by what they predict."""
        sides = []
        for side, axis in enumerate((self.layer.queries, self.layer.keys)):
            ahead = side == 0 and self.layer.site == "cross"
            rows = [
                ids[real].tolist()[ahead:] for ids, real in zip(axis.ids, axis.real, strict=True)
            ]
            tokens = self.layer.vocabularies[side].tokens
            sides.append([[*map(bare, tokens(row)), *[""] * ahead] for row in rows])
        return sides[0], sides[1]

    @cached_property
    def word_names(self) -> tuple[list[list[str]], list[list[str]]]:
        """Names of the words of the queries and keys of each text, put together of their tokens."""
        queries, keys = (
            [_words(tokens, alignment) for tokens, alignment in zip(*side, strict=True)]
            for side in zip(self.token_names, self.alignments, strict=True)
        )
        return queries, keys

    def computed(self, function: Callable[[Any], Any]) -> Bool[Tensor, "batch query key"]:
        """The matrices of a function, with nothing at padding.

        Raises:
            InputError: it returns something else than a boolean matrix of queries and keys.
        """
        queries, keys = self.layer.queries, self.layer.keys
        matrices = torch.zeros(*queries.ids.shape, keys.ids.shape[1], dtype=torch.bool)
        for row, number in enumerate(self.layer.sentences):
            sides = [
                tuple(vocabulary.tokens(axis.ids[row][axis.real[row]].tolist()))
                for vocabulary, axis in zip(self.layer.vocabularies, (queries, keys), strict=True)
            ]
            given = function(PatternText(self.known.texts[number], *sides))
            shape, what, matrix = tuple(map(len, sides)), briefly(given), None
            # torch raises one of these for what is no tensor.
            with suppress(RuntimeError, TypeError, ValueError):
                matrix = torch.as_tensor(given)
                what = f"{matrix.dtype} of shape {tuple(matrix.shape)}"
            if matrix is None or matrix.dtype != torch.bool or matrix.shape != shape:
                msg = (
                    f"The function {getattr(function, '__name__', '')} gives {what} for text {number + 1}; "
                    f"a pattern is booleans of shape {shape}, queries by keys."
                )
                raise InputError(msg)
            matrices[row, : shape[0], : shape[1]] = matrix
        return matrices.to(queries.ids.device)


@dataclass(frozen=True)
class PatternRows:
    """A pattern over a batch, between words where it is of words.

    Attributes:
        keys: the keys of the pattern among those that count.
        among: the keys that count of each query.
        rows: queries that have a key of the pattern and one outside it to choose from.
        eligible: queries that could have one.
    """

    keys: Bool[Tensor, "batch query key"]
    among: Bool[Tensor, "batch query key"]
    rows: Bool[Tensor, "batch query"]
    eligible: Bool[Tensor, "batch query"]


def pattern_rows(pattern: Pattern, batch: PatternBatch) -> PatternRows:
    """The keys of a pattern for each query of a batch.

    Keys that count are those that the query may look at; special tokens only where the pattern names some,
    and not the word itself where the pattern is of relations to other words, as in the label `syntactic`.
    Queries are content tokens, of cross-attention those that predict one, or words.
    """
    layer = batch.layer
    every = _keys(pattern.tree, batch, words=pattern.of_words)
    if pattern.of_words:
        among, eligible = batch.visible_words, batch.units[0].of_tokens
        if pattern.of_other_words:
            among = among & (_word_offsets(batch) != 0)
    else:
        among, eligible = layer.visible, layer.counted_queries
        if not pattern.names_special:
            marked = torch.zeros_like(layer.keys.special[:, :1])
            if any(isinstance(leaf, Computed) for leaf in pattern.leaves):
                marked = (every & layer.keys.special[:, None]).flatten(1).any(-1, keepdim=True)
            among = among & (layer.keys.content | marked)[:, None]
    if pattern.needs_words:
        eligible = eligible & batch.aligned[:, None]
    keys = every & among
    rows = eligible & keys.any(-1) & (among & ~keys).any(-1)
    return PatternRows(keys, among, rows, eligible)


def _keys(tree: Tree, batch: PatternBatch, *, words: bool) -> Bool[Tensor, "..."]:
    if isinstance(tree, Computed):
        return batch.computed(tree.function)
    if isinstance(tree, Atom):
        if tree.name not in _BETWEEN_WORDS:
            return _BETWEEN_TOKENS[tree.name](tree, batch)
        matrix = _BETWEEN_WORDS[tree.name](tree, batch)
        return matrix if words else _of_tokens(matrix, batch)
    if isinstance(tree, Joined):
        left, right = (_keys(part, batch, words=words) for part in tree.parts)
        return left | right if tree.sign == "|" else left & right
    return ~_keys(tree.of, batch, words=words)


def _words(tokens: Sequence[str], alignment: Alignment | None) -> list[str]:
    names = [""] * (alignment.units if alignment else 0)
    for token, unit in zip(tokens, alignment.unit_of_token if alignment else (), strict=False):
        if unit is not None:
            names[unit] += token
    return names


def _of_tokens(
    matrix: Bool[Tensor, "... word other"], batch: PatternBatch
) -> Bool[Tensor, "batch query key"]:
    """The matrix of words as one of tokens, each word as all of its tokens."""
    queries, keys = (side.membership[..., : side.words.shape[1]] for side in batch.units)
    return queries @ matrix.float() @ keys.mT > 0


def _within(offsets: Int[Tensor, "query key"], atom: Atom) -> Bool[Tensor, "1 query key"]:
    low, high = atom.numbers[0], atom.numbers[-1]
    return ((offsets >= low) & (offsets <= high))[None]


def _first(batch: PatternBatch) -> Bool[Tensor, "batch 1 key"]:
    real = batch.layer.keys.real
    return (real & (real.cumsum(-1) == 1))[:, None]


def _last(batch: PatternBatch) -> Bool[Tensor, "batch 1 key"]:
    real = batch.layer.keys.real
    return (real & (real.flip(-1).cumsum(-1).flip(-1) == 1))[:, None]


def _special(atom: Atom, batch: PatternBatch) -> Bool[Tensor, "batch 1 key"]:
    keys = batch.layer.keys
    if not atom.words:
        return keys.special[:, None]
    if atom.words[0] == SEPARATOR_NAME:
        return keys.closing[:, None]
    return (keys.special & batch.keys_named(lambda name: name == atom.words[0]))[:, None]


def bare(token: str) -> str:
    """A token without its marks of word starts and of continuation.

    >>> bare("##ed"), bare("Ġthe"), bare("##")
    ('ed', 'the', '##')
    """
    if token in (*START_MARKS, *OTHER_MARKS):
        return token
    for mark in START_MARKS:
        token = token.removeprefix(mark)
    return token.removeprefix("##").removesuffix("@@").removesuffix("</w>")


def _token(atom: Atom, batch: PatternBatch) -> Bool[Tensor, "batch 1 key"]:
    named = batch.keys_named(lambda name: atom.words[0] in {name, bare(name)})
    return (named & batch.layer.keys.content)[:, None]


def _same_token(batch: PatternBatch) -> Bool[Tensor, "batch query key"]:
    queries, keys = batch.layer.queries, batch.layer.keys
    return (
        (queries.ids[:, :, None] == keys.ids[:, None])
        & keys.content[:, None]
        & (batch.layer.offsets != 0)
    )


def _after_same(batch: PatternBatch) -> Bool[Tensor, "batch query key"]:
    # The key before each is an earlier occurrence of the query's token.
    earlier = _same_token(batch) & (batch.layer.offsets < 0)
    return torch.cat([torch.zeros_like(earlier[..., :1]), earlier[..., :-1]], -1)


def _rarest(atom: Atom, batch: PatternBatch) -> Bool[Tensor, "batch 1 key"]:
    # Of a type that stands in a text several times the first counts; types that are as rare share a rank.
    keys, counts = batch.layer.keys, batch.type_counts
    again = ((keys.ids[:, :, None] == keys.ids[:, None]) & keys.content[:, None]).tril(-1).any(-1)
    rarer = (counts[:, None] < counts[:, :, None]) & (keys.content & ~again)[:, None]
    return (keys.content & (rarer.sum(-1) < (*atom.numbers, 1)[0]))[:, None]


def _same_word(batch: PatternBatch) -> Bool[Tensor, "batch query key"]:
    words = torch.eye(batch.units[0].words.shape[1], dtype=torch.bool)[None]
    same = _of_tokens(words.to(batch.layer.keys.ids.device), batch)
    return same & (batch.layer.offsets != 0)


def _segment(batch: PatternBatch) -> Bool[Tensor, "batch query key"]:
    keys = batch.layer.keys
    second = second_tokens(batch.layer, batch.known.source)
    if second is None:
        return torch.zeros_like(keys.content)[:, None]
    return (second[:, :, None] != second[:, None]) & keys.content[:, None]


def _word_offset(atom: Atom, batch: PatternBatch) -> Bool[Tensor, "1 word other"]:
    return _within(_word_offsets(batch), atom)


def _word_offsets(batch: PatternBatch) -> Int[Tensor, "word other"]:
    queries, keys = (side.words for side in batch.units)
    numbers = torch.arange(keys.shape[1], device=keys.device)
    return numbers - torch.arange(queries.shape[1], device=keys.device)[:, None]


def _pos(atom: Atom, batch: PatternBatch) -> Bool[Tensor, "batch word other"]:
    query, key, *nearest = atom.words
    offsets = _word_offsets(batch)
    pairs = batch.tagged(query)[:, :, None] & batch.tagged(key)[:, None]
    pairs = pairs & batch.visible_words & (offsets != 0)
    if not nearest:
        return pairs
    far = offsets.abs() + torch.where(pairs, 0, offsets.numel())
    return pairs & (far == far.amin(-1, keepdim=True)) if pairs.numel() else pairs


def _dep(atom: Atom, batch: PatternBatch) -> Bool[Tensor, "batch word other"]:
    way = TO_DEPENDENT if REVERSED in atom.words[1:] else TO_HEAD
    links = tree_links(batch.trees, batch.alignments[0], tree_kinds(batch.trees))
    return batch.dense(links, LinkKind(base_relation(atom.words[0]), way))


def _coref(batch: PatternBatch) -> Bool[Tensor, "batch word other"]:
    words, _ = batch.alignments
    pairs = [
        [pair for mine in tree.entities for pair in permutations(mine, 2)] for tree in batch.trees
    ]
    linked = batch.dense(word_links(pairs, words, words, COREFERENCE_KINDS))
    return linked & (_word_offsets(batch) != 0)


def _aligned(batch: PatternBatch) -> Bool[Tensor, "batch word other"]:
    pairs = [batch.known.pairs[number] for number in batch.layer.sentences]
    return batch.dense(word_links(pairs, *batch.alignments))


_Keys = Callable[[Atom, PatternBatch], Bool[Tensor, "..."]]
_BETWEEN_TOKENS: dict[str, _Keys] = {
    OFFSET: lambda atom, batch: _within(batch.layer.offsets, atom),
    FIRST: lambda _, batch: _first(batch),
    LAST: lambda _, batch: _last(batch),
    SPECIAL: _special,
    PUNCTUATION: lambda _, batch: batch.layer.keys.punctuation[:, None],
    TOKEN: _token,
    SAME_TOKEN: lambda _, batch: _same_token(batch),
    AFTER_SAME: lambda _, batch: _after_same(batch),
    RAREST: _rarest,
    SAME_WORD: lambda _, batch: _same_word(batch),
    SEGMENT: lambda _, batch: _segment(batch),
}
_BETWEEN_WORDS: dict[str, _Keys] = {
    WORD_OFFSET: _word_offset,
    POS: _pos,
    DEP: _dep,
    COREF: lambda _, batch: _coref(batch),
    ALIGNED: lambda _, batch: _aligned(batch),
}


@dataclass(frozen=True)
class PatternHits:
    """How the rows of a layer's heads hit a pattern.

    Attributes:
        largest: the key of each row's largest weight, the first of equals.
        hit: share of the keys of the largest weight that are of the pattern; 0 in rows that do not count, and
            in those without weight on any key that counts.
        mass: weight on the keys of the pattern; likewise.
    """

    largest: Int[Tensor, "batch head query"]
    hit: Float[Tensor, "batch head query"]
    mass: Float[Tensor, "batch head query"]


def pattern_hits(
    pattern: Pattern, batch: PatternBatch, of: PatternRows, layer: LayerWeights
) -> PatternHits:
    """How each row of a layer's heads hits a pattern.

    ::

        hit_i = |{j in T_i : j in P(i)}| / |T_i|,   T_i = keys that count of the largest weight
        mass_i = sum over j in P(i) of weights_ij

    Between words, weights are summed over the tokens of a key and averaged over those of a query.
    """
    weights = merge_tokens(layer.wide, *batch.units) if pattern.of_words else layer.wide
    among, keys, rows = of.among[:, None], of.keys[:, None], of.rows[:, None]
    most, largest = weights.masked_fill(~among, -1.0).max(-1, keepdim=True)
    tied = (weights == most) & among
    hit = (tied & keys).sum(-1).double() / tied.sum(-1).clamp_min(1)
    mass = (weights * keys).sum(-1).double()
    return PatternHits(largest[..., 0], hit * (rows & (most[..., 0] > 0)), mass * rows)


def count_rows(
    values: Shaped[Tensor, "batch *head query"], of: PatternRows, scope: Scope
) -> RatioCounts:
    """The mean over the rows that count, with what its interval over texts needs."""
    counted = of.rows.sum(-1)
    sums = values.double().sum(-1)
    denominator = counted if sums.ndim == 1 else counted[:, None].expand_as(sums)
    return count_ratio(sums, denominator.double(), scope.groups)


def count_chance(of: PatternRows, scope: Scope) -> RatioCounts:
    """The hit of equal weights: the mean of the share of the keys that count which are of the pattern."""
    share = of.keys.sum(-1).double() / of.among.sum(-1).clamp_min(1)
    return count_rows((share * of.rows)[:, None], of, scope)


def count_offsets(pattern: Pattern, batch: PatternBatch, of: PatternRows) -> RatioCounts:
    """The hit of always picking the key at an offset, for each of `CONTROL_OFFSETS`."""
    offsets = _word_offsets(batch) if pattern.of_words else batch.layer.offsets
    hits = [(of.keys & (offsets == offset)).any(-1) & of.rows for offset in CONTROL_OFFSETS]
    return count_rows(torch.stack(hits, 1), of, batch.scope)


def count_transformer_lens(
    pattern: Pattern, batch: PatternBatch, layer: LayerWeights
) -> RatioCounts | None:
    """The mean over texts of what TransformerLens detects a head by; None for patterns that are not its own.

    ::

        score = sum over i, j of D_ij a_ij / sum over i, j of a_ij

    D_ij is 1 at the key before (`offset -1`), at the same token before (`same token`), or at the key behind
    that (`after same token`), and 0 elsewhere. All rows count, also those without such a key, and special
    tokens are queries and keys. Source: `transformer_lens.head_detector.detect_head`, error measure "mul".
    """
    if layer.site == "cross":
        return None
    same = (layer.queries.ids[:, :, None] == layer.keys.ids[:, None]) & (layer.offsets < 0)
    marked_by: dict[Tree, Bool[Tensor, ...]] = {
        Atom(OFFSET, numbers=(-1,)): layer.offsets[None] == -1,
        Atom(SAME_TOKEN): same,
        # No query has the last key before it, which is rolled to the front.
        Atom(AFTER_SAME): same.roll(1, -1),
    }
    marked = marked_by.get(pattern.tree)
    if marked is None:
        return None
    real = layer.queries.real[:, :, None] & layer.keys.real[:, None]
    weights = (layer.wide * real[:, None]).double()
    scores = (weights * marked[:, None]).sum((-1, -2)) / weights.sum((-1, -2))
    return count_ratio(scores, torch.ones_like(scores), batch.scope.groups)


class Need(Enum):
    """What a pattern needs that texts or a site may lack."""

    CROSS, ONE_TEXT, LINKS, TREES, MENTIONS, PAIRS, SPECIAL_TOKENS, SPECIAL_TOKEN = range(8)


class Unmet(NamedTuple):
    """Why no row of the texts can meet a pattern.

    Attributes:
        need: what is lacking.
        part: the part of the pattern that needs it, or the special token that is not there.
    """

    need: Need
    part: str


def unmet_need(
    pattern: Pattern, site: str, known: PatternTexts, special: Collection[str]
) -> Unmet | None:
    """Why no row of the texts can meet a pattern at a site; None where one may.

    Args:
        pattern: the pattern.
        site: the site.
        known: the texts.
        special: the special tokens that stand in the texts of the keys.
    """
    cross = site == "cross"
    side = known.source if site == "encoder" or known.target is None else known.target
    for need, parts, lacking in (
        (Need.CROSS, {ALIGNED}, not cross),
        (Need.ONE_TEXT, WITHIN, cross),
        (Need.LINKS, {ALIGNED}, not known.pairs),
        (Need.TREES, {POS, DEP}, not side.trees),
        (Need.MENTIONS, {COREF}, not any(tree.entities for tree in side.trees)),
        (Need.PAIRS, {SEGMENT}, not any(known.source.seconds)),
        (Need.SPECIAL_TOKENS, {SPECIAL}, not special),
    ):
        if lacking and pattern.names & parts:
            return Unmet(need, min(pattern.names & parts))
    named = {word for leaf in pattern.leaves if isinstance(leaf, Atom) and leaf.name == SPECIAL
             for word in leaf.words}  # fmt: skip
    absent = named - {SEPARATOR_NAME, *special}
    return Unmet(Need.SPECIAL_TOKEN, min(absent)) if absent else None
