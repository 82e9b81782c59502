"""The labels there are; all of them counted for a layer at once, and decided at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pandas as pd
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlab.core import InputError, Sums, with_plugins
from attnlab.labels.broad import BROAD_LABEL
from attnlab.labels.counts import Counts, Scope, groups_of
from attnlab.labels.label import (
    BatchFacts,
    GoldWords,
    HeadLabel,
    LayerView,
    LinkCounts,
    possible_links,
    tree_kinds,
    tree_links,
)
from attnlab.labels.monotone import MONOTONE_LABEL
from attnlab.labels.positional import POSITIONAL_LABEL
from attnlab.labels.rare import FREQUENT_TYPES, RARE_LABEL, frequency_ranks
from attnlab.labels.segments import CROSSING_LABEL, SAME_TOKEN_LABEL
from attnlab.labels.sink import SINK_LABEL
from attnlab.labels.syntactic import (
    ALIGNMENT_LABEL,
    COREFERENCE_KINDS,
    COREFERENCE_LABEL,
    SYNTACTIC_LABEL,
    relation_table,
    word_links,
)
from attnlab.labels.treebank import GoldSentence
from attnlab.labels.verdict import verdict_table
from attnlab.labels.word_tokens import Alignment, gather_units
from attnlab.reading import ALL, CONTENT, LayerWeights, PerLayer, View

# In the order of the rows of verdicts.
OWN_LABELS = (
    RARE_LABEL,
    SINK_LABEL,
    BROAD_LABEL,
    POSITIONAL_LABEL,
    MONOTONE_LABEL,
    SYNTACTIC_LABEL,
    ALIGNMENT_LABEL,
    COREFERENCE_LABEL,
    SAME_TOKEN_LABEL,
    CROSSING_LABEL,
)
# By label and view.
LabelCounts = Sums[tuple[str, View], Counts]


@cache
def known_labels() -> dict[str, HeadLabel]:
    """Every label by its name, those that other distributions register (`attnlab.labels`) last.

    Raises:
        InputError: what is registered is no `HeadLabel`, or has the name of another.
    """
    return with_plugins(
        "attnlab.labels",
        {label.name: label for label in OWN_LABELS},
        "an attnlab.labels.label.HeadLabel",
        lambda label: isinstance(label, HeadLabel),
        lambda label: label.name,
    )


def in_precedence(names: pd.Series) -> list[str]:
    """The names of labels by precedence, the one that counts where several hold first."""
    labels = known_labels()
    return sorted(names, key=lambda name: labels[name].precedence)


def count_functions(layer: LayerWeights, facts: Mapping[View, BatchFacts]) -> LabelCounts:
    """Counts of every label of one layer and batch, by view."""
    views = {keys: LayerView(layer, keys, mine) for keys, mine in facts.items()}
    sums: LabelCounts = Sums()
    for label in known_labels().values():
        for keys in views if label.by_view else (ALL,):
            counts = label.count(views[keys])
            if counts is not None:
                sums[label.name, keys] = counts
    return sums


def decide_functions(counts: LabelCounts, keys: View = ALL, seed: int = 0) -> pd.DataFrame:
    """Verdicts of a layer's heads in one view, one row per head and label.

    Args:
        counts: of all sentences.
        keys: the view.
        seed: of the bootstrap draws behind `stability`.
    """
    verdicts = []
    for label in known_labels().values():
        key = (label.name, keys if label.by_view else ALL)
        if key in counts:
            verdicts += label.decide(counts[key], seed)
    return verdict_table(verdicts)


def relations_of_layer(counts: LabelCounts, seed: int = 0) -> pd.DataFrame:
    """How well a layer's heads follow each kind of gold link; empty where there were none."""
    tables = [
        relation_table(one, seed=seed) for one in counts.values() if isinstance(one, LinkCounts)
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


@dataclass(frozen=True)
class TextSide:
    """What is known beforehand of the source or the target texts of a corpus.

    Sentences are numbered as in capture. The alignments are those of the texts as the tokenizer
    gives them (`align_corpus`); how a decoder shifts them is seen to here.

    Attributes:
        type_counts: how often each type of the vocabulary stands in the training corpus.
        trees: gold trees; none without a treebank.
        alignments: with the tokenizer's tokens; None for a sentence that cannot be aligned.
        seconds: of pairs that are read as one text the index of the second text's first token.
    """

    type_counts: Int[Tensor, " type"]
    trees: Sequence[GoldSentence] = ()
    alignments: Sequence[Alignment | None] = ()
    seconds: Sequence[int | None] = ()


def second_tokens(layer: LayerWeights, source: TextSide) -> Bool[Tensor, "batch token"] | None:
    """True at the tokens of the second text of each pair; None where no texts are read as pairs."""
    length = layer.keys.ids.shape[1]
    starts = [source.seconds[number] for number in layer.sentences if source.seconds]
    if not any(starts) or layer.site == "cross":
        return None
    first = torch.tensor([length if start is None else start for start in starts])
    return (torch.arange(length) >= first[:, None]).to(layer.keys.ids.device)


class HeadFunctions(PerLayer[tuple[str, int], LabelCounts]):
    """The counts behind every label, fed layer by layer; `verdicts` decides.

    Args:
        source: texts of the encoder, or of the only stack.
        target: texts of the decoder; None for a model of one stack.
        pairs: gold word alignments (target word, source word), counted from 0, by sentence.
    """

    def __init__(
        self,
        source: TextSide,
        target: TextSide | None = None,
        pairs: Sequence[Sequence[tuple[int, int]]] = (),
    ) -> None:
        super().__init__()
        self.source = source
        self.target = target
        self.pairs = pairs
        texts = (source,) if target is None else (source, target)
        self._ranks = [frequency_ranks(text.type_counts) for text in texts]
        self._kinds = [tree_kinds(text.trees) for text in texts]
        self._facts: dict[str, tuple[tuple[int, ...], dict[View, BatchFacts]]] = {}

    def values_of(self, layer: LayerWeights) -> dict[tuple[str, int], LabelCounts]:
        """The counts of one layer and batch."""
        cached = self._facts.get(layer.site)
        # The layers of a batch follow each other: what their sentences are is worked out once.
        if cached is None or cached[0] != layer.sentences:
            cached = (layer.sentences, self._facts_of(layer))
            self._facts[layer.site] = cached
        return {(layer.site, layer.layer): count_functions(layer, cached[1])}

    def verdicts(self, keys: View = ALL, seed: int = 0) -> pd.DataFrame:
        """One row per head and label in one view: `site, layer` and the columns of `Verdict`.

        Labels that rest on words or on expected positions never look at special tokens, and are the
        same in both views: `syntactic`, `alignment`, `coreference` and `monotone`.

        Args:
            keys: the view.
            seed: of the bootstrap draws behind `stability`.
        """
        return self._tables(lambda counts: decide_functions(counts, keys, seed))

    def relations(self, seed: int = 0) -> pd.DataFrame:
        """One row per head and kind of gold link: `site, layer` and the columns of `relation_table`.

        Args:
            seed: of the bootstrap draws behind `stability`.
        """
        return self._tables(lambda counts: relations_of_layer(counts, seed))

    def sites_without_rare_tokens(self) -> dict[str, int]:
        """How many types the keys have at each site whose vocabulary can hold no rare token."""
        types = {site: len(self._ranks_at(site)) for site, _ in self.sums if site == "encoder"}
        return {site: number for site, number in types.items() if number <= FREQUENT_TYPES}

    def _ranks_at(self, site: str) -> Int[Tensor, " type"]:
        """The frequency ranks of the types that are keys at a site."""
        return self._ranks[-1 if site == "decoder" else 0]

    def _tables(self, decide: Callable[[LabelCounts], pd.DataFrame]) -> pd.DataFrame:
        tables = [
            table.assign(site=site, layer=layer)
            for (site, layer), counts in self.sums.items()
            if not (table := decide(counts)).empty
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def _facts_of(self, layer: LayerWeights) -> dict[View, BatchFacts]:
        scope = scope_of_layer(layer)
        all_ranks = self._ranks_at(layer.site).to(layer.keys.ids.device)
        ranks, words, types = all_ranks[layer.keys.ids], self._gold(layer, scope), len(all_ranks)
        second = second_tokens(layer, self.source)
        return {
            ALL: BatchFacts(scope, ranks, words, types, second),
            CONTENT: BatchFacts(scope.of_content(), ranks, words, types, second),
        }

    def _gold(self, layer: LayerWeights, scope: Scope) -> GoldWords | None:
        if layer.site == "cross":
            return self._gold_alignments(layer, scope)
        text = side_of_queries(layer, self.source, self.target)
        if not text.trees:
            return None
        trees = [text.trees[number] for number in layer.sentences]
        alignments, _ = alignments_at(layer, self.source, self.target)
        kinds = self._kinds[0 if text is self.source else -1]
        links = tree_links(trees, alignments, kinds).to(layer.weights.device)
        units = gather_units(alignments, layer.queries.real)
        possible = possible_links(
            links, units.words, scope.groups, self_attention=True, causal=layer.causal
        )
        if not any(tree.coreference for tree in text.trees):
            return GoldWords(units, units, possible)
        mentions = word_links(
            [tree.coreference for tree in trees], alignments, alignments, COREFERENCE_KINDS
        ).to(layer.weights.device)
        coreference = possible_links(
            mentions, units.words, scope.groups, self_attention=True, causal=layer.causal
        )
        return GoldWords(units, units, possible, coreference)

    def _gold_alignments(self, layer: LayerWeights, scope: Scope) -> GoldWords | None:
        if not self.pairs or self.target is None:
            return None
        targets, sources = alignments_at(layer, self.source, self.target)
        pairs = [self.pairs[number] for number in layer.sentences]
        links = word_links(pairs, targets, sources).to(layer.weights.device)
        queries, keys = (
            gather_units(side, axis.real)
            for side, axis in ((targets, layer.queries), (sources, layer.keys))
        )
        possible = possible_links(
            links, keys.words, scope.groups, self_attention=False, queries=queries.of_tokens
        )
        return GoldWords(queries, keys, possible)


def side_of_queries(layer: LayerWeights, source: TextSide, target: TextSide | None) -> TextSide:
    """What is known of the texts that the queries of a layer are of."""
    return source if layer.site == "encoder" or target is None else target


def alignments_at(
    layer: LayerWeights, source: TextSide, target: TextSide | None
) -> tuple[list[Alignment | None], list[Alignment | None]]:
    """The alignments of a batch over the queries of a layer and over its keys.

    Those of a decoder are of what its rows read, those of queries of cross-attention of what they predict.
    """
    queries = _chosen(side_of_queries(layer, source, target), layer.sentences)
    if layer.site == "cross":
        return _rows(queries, layer, predicting=True), _chosen(source, layer.sentences)
    if layer.site == "decoder" and target is not None:
        queries = _rows(queries, layer, predicting=False)
    return queries, queries


def scope_of_layer(layer: LayerWeights) -> Scope:
    """Which rows and columns of a captured batch are counted."""
    numbers = torch.tensor(layer.sentences, device=layer.queries.content.device)
    return Scope(layer.counted_queries, layer.keys.content, layer.visible, groups_of(numbers))


def _chosen(text: TextSide, numbers: Sequence[int]) -> list[Alignment | None]:
    if len(text.alignments) <= max(numbers):
        msg = (
            f"Sentence {max(numbers)} has no alignment: {len(text.alignments)} were handed in; "
            "give one for every sentence that is analyzed, None where there is none."
        )
        raise InputError(msg)
    return [text.alignments[number] for number in numbers]


def _rows(
    alignments: Sequence[Alignment | None], layer: LayerWeights, *, predicting: bool
) -> list[Alignment | None]:
    """Alignments over a decoder's rows, which read the start token first and lack the last token.

    A tokenizer may have put the start token there itself; the number of rows tells.
    """
    lengths = layer.queries.real.sum(1).tolist()
    return [
        None if one is None else replace(one, unit_of_token=_shifted(one, length, predicting))
        for one, length in zip(alignments, lengths, strict=True)
    ]


def _shifted(alignment: Alignment, rows: int, predicting: bool) -> tuple[int | None, ...]:
    text = alignment.unit_of_token
    read = (None, *text) if len(text) == rows else text
    return read[1 : rows + 1] if predicting else read[:rows]
