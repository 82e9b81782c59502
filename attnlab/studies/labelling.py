"""What each head does, with its controls: an untrained twin and shuffled words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.heads.capture import stream
from attnlab.heads.controls import untrained_twin
from attnlab.heads.corpus_alignment import AlignedCorpus, align_corpus
from attnlab.heads.functions.consumer import HeadFunctions, TextSide
from attnlab.heads.functions.labels import (
    HEAD,
    compare_controls,
    compare_relations,
    label_table,
)
from attnlab.heads.functions.verdict import UNKNOWN
from attnlab.heads.treebank import GoldSentence
from attnlab.studies.gold import Gold, shuffled

Progress = Callable[[str, int, int], None]
NOT_COUNTED = "fewer than"


@dataclass(frozen=True)
class Labelling:
    """What every head does.

    Attributes:
        labels: one row a head: `labels` that hold, `label` the first of them, and `standing`, those
            that stand against the controls.
        controls: one row a head and label: figures, intervals, thresholds, and the same figure on
            the untrained model and on shuffled words. A label `stands` when it holds and not for
            the untrained model's head too; one that rests on a relation, when that relation does.
        relations: one row a head and kind of gold link; empty without gold trees.
        warnings: what a reader must know.
    """

    labels: pd.DataFrame
    controls: pd.DataFrame
    relations: pd.DataFrame
    warnings: tuple[str, ...]


class Labeller:
    """Counts for the labels of one model over sentences of which something is known.

    Args:
        model: a transformers model.
        tokenizer: its tokenizer, or an object with tokenizers `.source` and `.target`.
        gold: the sentences.
        type_counts: how often each type of the source and of the target stands in the training
            corpus; None where that is not known, then it is counted in the sentences.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        gold: Gold,
        type_counts: Sequence[Int[Tensor, "_"]] | None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.gold = gold
        self.corpus_known = type_counts is not None
        self.type_counts = list(type_counts or _counted(tokenizer, gold))
        self.functions, self.unaligned = self._functions(gold)

    def _functions(self, gold: Gold) -> tuple[HeadFunctions, dict[str, str]]:
        """A counter for these sentences, and why some of them cannot be aligned."""
        source, reasons = self._side(_source_of(self.tokenizer), gold.source, 0, gold.trees)
        if gold.target is None:
            return HeadFunctions(source), reasons
        # A tokenizer for both languages may write a target unlike a source; then words are unknown.
        apart = hasattr(self.tokenizer, "target")
        tokenizer = self.tokenizer.target if apart else self.tokenizer
        target, more = self._side(tokenizer, gold.target, -1, gold.trees and apart)
        pairs = gold.pairs if gold.trees and apart else ()
        return HeadFunctions(source, target, pairs), {**more, **reasons}

    def _side(
        self, tokenizer: Any, sentences: Sequence[GoldSentence], place: int, trees: bool
    ) -> tuple[TextSide, dict[str, str]]:
        if not trees:
            return TextSide(self.type_counts[place]), {}
        aligned: AlignedCorpus = align_corpus(tokenizer, sentences)
        return TextSide(self.type_counts[place], sentences, aligned.alignments), aligned.reasons

    def judge(
        self,
        *,
        seed: int,
        sites: Sequence[str] | None,
        batch_size: int,
        progress: Progress | None,
    ) -> Labelling:
        """Labels from what `functions` has counted, after the controls are run.

        Args:
            seed: of the untrained model's weights and of the order of shuffled words.
            sites: as in `stream`.
            batch_size: most sentences in one forward pass.
            progress: told what is being done.
        """

        def count(name: str, model: Any, gold: Gold) -> HeadFunctions:
            functions, _ = self._functions(gold)
            what = f"Control: {name}"
            tell = None if progress is None else (lambda done, total: progress(what, done, total))
            stream(
                model, self.tokenizer, gold.texts, [functions],
                sites=sites, batch_size=batch_size, progress=tell,
            )  # fmt: skip
            return functions

        untrained = count("untrained model", untrained_twin(self.model, seed), self.gold)
        mixed = count("shuffled words", self.model, shuffled(self.gold, seed))
        counted = {"model": self.functions, "untrained": untrained, "shuffled": mixed}
        tables = {name: functions.verdicts() for name, functions in counted.items()}
        relations = self.functions.relations()
        if not relations.empty:
            relations = compare_relations(relations, mixed.relations(), untrained.relations())
            first = [*HEAD, "relation", "direction"]
            relations = relations[[*first, *(n for n in relations if n not in first)]]
        controls = _controls(tables, relations)
        return Labelling(
            labels=_labels(tables["model"], controls),
            controls=controls,
            relations=relations,
            warnings=tuple(self._warnings(tables["model"])),
        )

    def _warnings(self, verdicts: pd.DataFrame) -> list[str]:
        found = []
        if self.unaligned:
            identifier, reason = next(iter(self.unaligned.items()))
            found.append(
                f"{len(self.unaligned)} sentences are not aligned with their words, so their trees "
                f"are not counted (the first: {identifier}, {reason})."
            )
        if not self.corpus_known:
            found.append(
                "The training corpus is not known, so rare tokens are those that are rare in the "
                "sentences analyzed."
            )
        if not self.gold.trees:
            found.append(
                "These sentences have no gold trees, so no head can be called syntactic; give some "
                "with --treebank FILE.conllu."
            )
        for (site, label), rows in verdicts.groupby(["site", "label"], sort=False):
            if rows["reason"].str.startswith(NOT_COUNTED).all():
                found.append(
                    f"No head of site {site} can be labelled '{label}' here: "
                    f"{rows['reason'].iloc[0]}."
                )
        return found


def _source_of(tokenizer: Any) -> Any:
    return getattr(tokenizer, "source", tokenizer)


def _counted(tokenizer: Any, gold: Gold) -> list[Int[Tensor, "_"]]:
    """How often each type stands in the sentences themselves, source and target."""
    source = _source_of(tokenizer)
    counts = [_type_counts(source([one.text for one in gold.source])["input_ids"], len(source))]
    if gold.target is not None:
        target = getattr(tokenizer, "target", tokenizer)
        ids = target(text_target=[one.text for one in gold.target])["input_ids"]
        counts.append(_type_counts(ids, len(target)))
    return counts


def _type_counts(ids: Sequence[Sequence[int]], types: int) -> Int[Tensor, " type"]:
    every = torch.tensor([token for sentence in ids for token in sentence])
    return torch.bincount(every, minlength=types)


def _controls(tables: dict[str, pd.DataFrame], relations: pd.DataFrame) -> pd.DataFrame:
    """Verdicts beside those of the controls, with intervals, denominators and reasons."""
    keys = [*HEAD, "label"]
    evidence = tables["model"][[*keys, "low", "high", "control", "denominator", "reason"]]
    compared = compare_controls(tables, relations)
    return compared.merge(evidence, on=keys, how="left", validate="one_to_one")


def _labels(verdicts: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    table = label_table(verdicts)
    standing = controls[controls["stands"]].groupby(HEAD)["label"].agg("; ".join)
    table = table.merge(standing.rename("standing").reset_index(), on=HEAD, how="left")
    return table.assign(standing=table["standing"].fillna(UNKNOWN))
