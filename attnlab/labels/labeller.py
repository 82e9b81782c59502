"""Labels of all heads of a model on some sentences, beside an untrained twin and shuffled words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from jaxtyping import Int
from torch import Tensor

from attnlab.core import HEAD_COLUMNS
from attnlab.labels.counting import HeadFunctions, TextSide
from attnlab.labels.gold import Gold, align_corpus, shuffled
from attnlab.labels.label_columns import CONTROLS, RELATIONS
from attnlab.labels.label_tables import (
    SEPARATOR,
    compare_controls,
    compare_relations,
    label_table,
    strongest_functions,
    without_controls,
    without_label,
)
from attnlab.labels.rare import IN_THE_TEXT, RARE_LABEL, counted_types
from attnlab.labels.structure import HeadStructure
from attnlab.labels.untrained import untrained_twin
from attnlab.labels.verdict import NOT_COMPARED
from attnlab.reading import (
    VIEWS,
    Coverage,
    PerLayer,
    Reading,
    TokenizedText,
    View,
    stacked,
)

# Feeds the weights of all sentences of a reading to consumers; the text says what for.
Run = Callable[[str, Reading, Sequence[PerLayer[Any, Any]]], Coverage]


class Labeller:
    """Counts for the labels of one model over sentences of which something is known.

    Args:
        reading: the model with the sentences.
        gold: what is known of the sentences.
        type_counts: how often each type of the source and of the target stands in the training
            corpus; None where that is not known, then it is counted in the sentences.
        structure: what is fed beside the counts, for the structural labels.
        views: in the order of their rows, see `attnlab.reading.weights`.

    Attributes:
        untrained: what was counted of the untrained model. It is counted where it is None; models of one
            configuration on the same sentences can share it.
    """

    untrained: HeadFunctions | None = None

    def __init__(
        self,
        reading: Reading,
        gold: Gold,
        type_counts: Sequence[Int[Tensor, "_"]] | None,
        structure: HeadStructure,
        *,
        views: tuple[View, ...] = VIEWS,
    ) -> None:
        self.reading = reading
        self.tokenizers = reading.loaded.both_tokenizers
        texts = reading.sentences.texts
        # The second texts of pairs are read by a decoder, or with the first as one text.
        self.gold = gold if isinstance(texts[0].text, tuple) else gold.without_target()
        self.corpus_known = type_counts is not None
        self.type_counts = list(type_counts or counted_types(self.tokenizers, texts))
        self.functions, self.unaligned = self._functions(self.gold, texts)
        self.structure = structure
        self.views = views

    def _functions(
        self, gold: Gold, texts: Sequence[TokenizedText]
    ) -> tuple[HeadFunctions, dict[str, str]]:
        """A counter for these sentences, and why some of them cannot be aligned."""
        counts = self.type_counts[0], self.type_counts[-1]
        if not gold.trees:
            seconds = tuple(text.source.second for text in texts)
            target = TextSide(counts[1]) if self.reading.sentences.paired else None
            return HeadFunctions(TextSide(counts[0], seconds=seconds), target), {}
        sources = align_corpus(self.tokenizers.source, gold.source, [text.source for text in texts])
        source = TextSide(counts[0], gold.source, sources.alignments)
        if gold.target is None:
            return HeadFunctions(source), sources.reasons
        made = [text.target for text in texts if text.target is not None]
        targets = align_corpus(self.tokenizers.target, gold.target, made)
        target = TextSide(counts[1], gold.target, targets.alignments)
        return HeadFunctions(source, target, gold.pairs), {**targets.reasons, **sources.reasons}

    def label(self, run: Run, *, seed: int, controls: bool = True) -> dict[str, pd.DataFrame]:
        """The tables of labels, from what was counted, after the controls are run.

        Before, `functions` and `structure` must be fed in a pass over all sentences. The tables are
        `labels` (one row per head) and `controls` (one row per head and label, see `compare_controls`),
        whose column `keys` says in which view, and `relations` (one row per head and kind of gold link;
        empty without gold trees), which never look at special tokens.

        Args:
            run: how sentences go through models.
            seed: of the untrained model's weights, of the order of shuffled words, and of the
                bootstrap behind `stability`.
            controls: False leaves them out; then no label is significant.
        """
        counted = {"model": self.functions}
        if controls:
            counted |= self._count_controls(run, seed)
        relations = self._relations(counted, seed)
        views = [self._view(keys, counted, relations, seed) for keys in self.views]
        tables = {name: stacked([view[name] for view in views], self.views) for name in views[0]}
        return {**tables, "relations": relations}

    def _named_frequencies(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """The verdicts, which say of rare tokens that they are rare in the analysed text alone."""
        if self.corpus_known:
            return verdicts
        rare = verdicts["label"] == RARE_LABEL.name
        return verdicts.assign(detail=verdicts["detail"].mask(rare, IN_THE_TEXT))

    def _count_controls(self, run: Run, seed: int) -> dict[str, HeadFunctions]:
        """The same counts of an untrained model, and on shuffled words."""
        if self.untrained is None:
            twin = self.reading.by(untrained_twin(self.reading.model, seed))
            self.untrained = self.functions.emptied()
            run("Control: untrained model", twin, [self.untrained])
        gold = shuffled(self.gold, seed)
        reading = self.reading.of_texts(gold.texts)
        mixed, _ = self._functions(gold, reading.sentences.texts)
        run("Control: shuffled words", reading, [mixed])
        return {"untrained": self.untrained, "shuffled": mixed}

    def _relations(self, counted: Mapping[str, HeadFunctions], seed: int) -> pd.DataFrame:
        """Every relation beside its controls, where there are any."""
        relations = counted["model"].relations(seed)
        if relations.empty:
            return relations
        if "untrained" in counted:
            shuffled_ones, untrained = (
                counted[name].relations(seed) for name in ("shuffled", "untrained")
            )
            relations = compare_relations(relations, shuffled_ones, untrained)
        else:
            relations = without_controls(relations, RELATIONS)
        first = [*HEAD_COLUMNS, "relation", "direction"]
        return relations[[*first, *(n for n in relations if n not in first)]]

    def _view(
        self,
        keys: View,
        counted: Mapping[str, HeadFunctions],
        relations: pd.DataFrame,
        seed: int,
    ) -> dict[str, pd.DataFrame]:
        """The tables of one view, by name."""
        tables = {
            name: self._named_frequencies(functions.verdicts(keys, seed))
            for name, functions in counted.items()
        }
        controls = (
            compare_controls(tables, relations)
            if "untrained" in tables
            else without_controls(tables["model"], CONTROLS)
        )
        labels = _labels(tables["model"], controls, self.structure.labels(keys))
        return {"labels": labels, "controls": controls}


def _labels(verdicts: pd.DataFrame, controls: pd.DataFrame, shapes: pd.DataFrame) -> pd.DataFrame:
    table = label_table(verdicts)
    named = controls[controls["significant"]].groupby(HEAD_COLUMNS)["label"].agg(SEPARATOR.join)
    table = table.merge(
        named.rename("significant_labels").reset_index(), on=HEAD_COLUMNS, how="left"
    )
    compared = (controls["significance"] != NOT_COMPARED).any()
    nothing = controls.groupby(HEAD_COLUMNS)["significance"].agg(without_label)
    table = table.merge(
        nothing.rename("nothing").reset_index(), on=HEAD_COLUMNS, validate="one_to_one"
    )
    significant_labels = table["significant_labels"].fillna(
        table["nothing"] if compared else NOT_COMPARED
    )
    table = table.drop(columns="nothing").assign(significant_labels=significant_labels)
    table = table.merge(strongest_functions(controls), on=HEAD_COLUMNS, validate="one_to_one")
    return (
        table if shapes.empty else table.merge(shapes, on=HEAD_COLUMNS, how="left", validate="1:1")
    )
