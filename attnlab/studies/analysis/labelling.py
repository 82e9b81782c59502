"""What each head does, with its controls: an untrained twin and shuffled words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.core.addresses import HEAD_COLUMNS
from attnlab.core.errors import Note
from attnlab.core.representations import ShortRepr
from attnlab.labels.counting import HeadFunctions, TextSide, untrained_twin
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
from attnlab.labels.rare import IN_THE_TEXT, RARE_LABEL
from attnlab.labels.structure import HeadStructure, agreement_table
from attnlab.labels.verdict import NOT_COMPARED
from attnlab.reading.batches import BothTokenizers, TokenizedText, Tokens, both_tokenizers
from attnlab.reading.capture import Reading
from attnlab.reading.weights import VIEWS, PerLayer, View, rows_of_view, stacked
from attnlab.studies.analysis.label_notes import label_notes
from attnlab.studies.analysis.notes import NoControls
from attnlab.studies.analysis.passes import Passes


@dataclass(frozen=True, repr=False)
class Labelling(ShortRepr):
    """What every head does, in both views of `attnlab.reading.weights`.

    The column `keys` of every table but `relations` says in which view: with `all` keys, or with
    those of `content` tokens alone. Relations never look at special tokens.

    Attributes:
        labels: one row per head, columns as in `attnlab.labels.label_columns.LABELS`.
        controls: one row per head and label, see `compare_controls`.
        relations: one row per head and kind of gold link; empty without gold trees.
        structure: one row per head and family of matrices, see `HeadStructure.families`; empty where
            that was not measured.
        agreement: kappa between `label` and `structure`, see `agreement_table`; empty likewise.
        notes: what a reader must know, see `attnlab.reporting.notes`.
        views: the views in the order in which they are shown.
    """

    labels: pd.DataFrame
    controls: pd.DataFrame
    relations: pd.DataFrame
    structure: pd.DataFrame
    agreement: pd.DataFrame
    notes: tuple[Note, ...]
    views: tuple[View, ...] = VIEWS

    def view(self, keys: View) -> "Labelling":
        """The rows of one view."""
        return replace(
            self,
            labels=rows_of_view(self.labels, keys),
            controls=rows_of_view(self.controls, keys),
            structure=rows_of_view(self.structure, keys),
            agreement=rows_of_view(self.agreement, keys),
            views=(keys,),
        )


class Labeller:
    """Counts for the labels of one model over sentences of which something is known.

    Args:
        reading: the model with the sentences.
        gold: what is known of the sentences.
        type_counts: how often each type of the source and of the target stands in the training
            corpus; None where that is not known, then it is counted in the sentences.
        structure: what is fed beside the counts, for the structural labels.
        views: in the order of their rows, see `attnlab.reading.weights`.
    """

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
        self.tokenizers = both_tokenizers(reading.tokenizer)
        texts = reading.encoding.texts
        self.gold = gold if reading.encoding.paired else gold.without_target()
        self.corpus_known = type_counts is not None
        self.type_counts = list(type_counts or _counted(self.tokenizers, texts))
        self.functions, self.unaligned = self._functions(self.gold, texts)
        self.structure = structure
        self.views = views

    @property
    def consumers(self) -> list[PerLayer[Any, Any]]:
        """What must be fed in the pass over all sentences, before `label`."""
        return [self.functions, self.structure]

    def _functions(
        self, gold: Gold, texts: Sequence[TokenizedText]
    ) -> tuple[HeadFunctions, dict[str, str]]:
        """A counter for these sentences, and why some of them cannot be aligned."""
        counts = self.type_counts[0], self.type_counts[-1]
        if not gold.trees:
            target = None if gold.target is None else TextSide(counts[1])
            return HeadFunctions(TextSide(counts[0]), target), {}
        sources = align_corpus(self.tokenizers.source, gold.source, [one.source for one in texts])
        source = TextSide(counts[0], gold.source, sources.alignments)
        if gold.target is None:
            return HeadFunctions(source), sources.reasons
        made = [one.target for one in texts if one.target is not None]
        targets = align_corpus(self.tokenizers.target, gold.target, made)
        target = TextSide(counts[1], gold.target, targets.alignments)
        return HeadFunctions(source, target, gold.pairs), {**targets.reasons, **sources.reasons}

    def label(
        self, passes: Passes, *, seed: int, there: int | None = None, controls: bool = True
    ) -> Labelling:
        """Labels from what `consumers` have counted, after the controls are run.

        Args:
            passes: how sentences go through models.
            seed: of the untrained model's weights, of the order of shuffled words, and of the
                bootstrap behind `stability`.
            there: how many sentences there are where these come from; None where not known.
            controls: False leaves them out; then no label stands.
        """
        counted = {"model": self.functions}
        if controls:
            counted |= self._count_controls(passes, seed)
        relations = self._relations(counted, seed)
        views = [self._view(keys, counted, relations, seed) for keys in self.views]
        tables = {name: stacked([one[name] for one in views], self.views) for name in views[0]}
        return Labelling(
            **tables,
            relations=relations,
            notes=(
                *(() if controls else (NoControls(),)),
                *label_notes(
                    self.functions.verdicts(self.views[0]),
                    keys=self.views[0],
                    gold=self.gold,
                    there=there,
                    unaligned=self.unaligned,
                    corpus_known=self.corpus_known,
                    paired=self.reading.encoding.paired,
                    without_rare=self.functions.sites_without_rare_tokens(),
                ),
            ),
            views=self.views,
        )

    def _named_frequencies(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """The verdicts, which say of rare tokens that they are rare in the analysed text alone."""
        if self.corpus_known:
            return verdicts
        rare = verdicts["label"] == RARE_LABEL.name
        return verdicts.assign(detail=verdicts["detail"].mask(rare, IN_THE_TEXT))

    def _count_controls(self, passes: Passes, seed: int) -> dict[str, HeadFunctions]:
        """The same counts of an untrained model, and on shuffled words."""
        twin = self.reading.by(untrained_twin(self.reading.model, seed))
        untrained = self.functions.emptied()
        passes.run("Control: untrained model", twin, [untrained])
        gold = shuffled(self.gold, seed)
        reading = self.reading.of_texts(gold.texts)
        mixed, _ = self._functions(gold, reading.encoding.texts)
        passes.run("Control: shuffled words", reading, [mixed])
        return {"untrained": untrained, "shuffled": mixed}

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
        """The tables of one view, by their names in `Labelling`."""
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
        measured = "structure" in labels
        return {
            "labels": labels,
            "controls": controls,
            "structure": self.structure.families(keys),
            "agreement": agreement_table(labels) if measured else pd.DataFrame(),
        }


def _counted(tokenizers: BothTokenizers, texts: Sequence[TokenizedText]) -> list[Int[Tensor, "_"]]:
    """How often each type stands in the sentences themselves, source and target."""
    sources = [one.source for one in texts]
    targets = [one.target for one in texts if one.target is not None]
    counts = [_type_counts(sources, len(tokenizers.source))]
    return [*counts, _type_counts(targets, len(tokenizers.target))] if targets else counts


def _type_counts(texts: Sequence[Tokens], types: int) -> Int[Tensor, " type"]:
    every = torch.tensor([token for one in texts for token in one.ids])
    return torch.bincount(every, minlength=types)


def _labels(verdicts: pd.DataFrame, controls: pd.DataFrame, shapes: pd.DataFrame) -> pd.DataFrame:
    table = label_table(verdicts)
    named = controls[controls["stands"]].groupby(HEAD_COLUMNS)["label"].agg(SEPARATOR.join)
    table = table.merge(named.rename("standing").reset_index(), on=HEAD_COLUMNS, how="left")
    compared = (controls["stands_status"] != NOT_COMPARED).any()
    nothing = controls.groupby(HEAD_COLUMNS)["stands_status"].agg(without_label)
    table = table.merge(
        nothing.rename("nothing").reset_index(), on=HEAD_COLUMNS, validate="one_to_one"
    )
    standing = table["standing"].fillna(table["nothing"] if compared else NOT_COMPARED)
    table = table.drop(columns="nothing").assign(standing=standing)
    table = table.merge(strongest_functions(controls), on=HEAD_COLUMNS, validate="one_to_one")
    return (
        table if shapes.empty else table.merge(shapes, on=HEAD_COLUMNS, how="left", validate="1:1")
    )
