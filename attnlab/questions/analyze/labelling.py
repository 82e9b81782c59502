"""What each head does, with its controls: an untrained twin, shuffled words, and the loss without it."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from jaxtyping import Int
from torch import Tensor

from attnlab.ablation import all_heads
from attnlab.core import HEAD_COLUMNS, SITES, Note, Processes, Progress
from attnlab.evaluation import Change, Evaluator, Quality, Steps
from attnlab.labels import (
    CONTROLS,
    FREQUENT_TYPES,
    IN_THE_TEXT,
    NOT_COMPARED,
    POSITIONAL,
    RARE_LABEL,
    RELATIONS,
    SEPARATOR,
    SINK_LABEL,
    UNDECIDED,
    Gold,
    HeadFunctions,
    HeadStructure,
    TextSide,
    align_corpus,
    compare_controls,
    compare_relations,
    counted_types,
    label_table,
    shuffled,
    sink_curve,
    strongest_functions,
    untrained_twin,
    without_controls,
    without_label,
)
from attnlab.questions.analyze.analysis_notes import (
    NoControls,
    NoTrees,
    SinksByThreshold,
    TooLittleCounted,
    TrainingCorpusUnknown,
    Unaligned,
    UndecidedLabel,
    VocabularyTooSmall,
)
from attnlab.reading import (
    VIEWS,
    Coverage,
    PerLayer,
    Reading,
    TokenizedText,
    View,
    stacked,
)

# Sentences differ in length, so a little more than the rule of three says.
_SPARE = 1.1
# Where nothing was counted, twice as many sentences are a first guess.
_NONE_COUNTED = 2
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

    def label(
        self, run: Run, *, seed: int, available: int | None = None, controls: bool = True
    ) -> tuple[dict[str, pd.DataFrame], list[Note]]:
        """The tables of labels and their notes, from what was counted, after the controls are run.

        Before, `functions` and `structure` must be fed in a pass over all sentences. The tables are
        `labels` (one row per head) and `controls` (one row per head and label, see `compare_controls`),
        whose column `keys` says in which view, and `relations` (one row per head and kind of gold link;
        empty without gold trees), which never look at special tokens.

        Args:
            run: how sentences go through models.
            seed: of the untrained model's weights, of the order of shuffled words, and of the
                bootstrap behind `stability`.
            available: how many sentences there are where these come from; None where not known.
            controls: False leaves them out; then no label is significant.
        """
        counted = {"model": self.functions}
        if controls:
            counted |= self._count_controls(run, seed)
        relations = self._relations(counted, seed)
        views = [self._view(keys, counted, relations, seed) for keys in self.views]
        tables = {name: stacked([view[name] for view in views], self.views) for name in views[0]}
        notes: list[Note] = [] if controls else [NoControls()]
        notes += label_notes(
            self.functions.verdicts(self.views[0]),
            keys=self.views[0],
            gold=self.gold,
            available=available,
            unaligned=self.unaligned,
            corpus_known=self.corpus_known,
            paired=self.reading.sentences.paired,
            without_rare=self.functions.sites_without_rare_tokens(),
        )
        return {**tables, "relations": relations}, notes

    def _named_frequencies(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """The verdicts, which say of rare tokens that they are rare in the analysed text alone."""
        if self.corpus_known:
            return verdicts
        rare = verdicts["label"] == RARE_LABEL.name
        return verdicts.assign(detail=verdicts["detail"].mask(rare, IN_THE_TEXT))

    def _count_controls(self, run: Run, seed: int) -> dict[str, HeadFunctions]:
        """The same counts of an untrained model, and on shuffled words."""
        twin = self.reading.by(untrained_twin(self.reading.model, seed))
        untrained = self.functions.emptied()
        run("Control: untrained model", twin, [untrained])
        gold = shuffled(self.gold, seed)
        reading = self.reading.of_texts(gold.texts)
        mixed, _ = self._functions(gold, reading.sentences.texts)
        run("Control: shuffled words", reading, [mixed])
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


def label_notes(
    verdicts: pd.DataFrame,
    *,
    keys: View,
    gold: Gold,
    available: int | None,
    unaligned: Mapping[str, str],
    corpus_known: bool,
    paired: bool,
    without_rare: Mapping[str, int],
) -> list[Note]:
    """What lies behind labels that a reader could not guess.

    Args:
        verdicts: of the model in one view, one row per head and label.
        keys: that view.
        gold: the sentences.
        available: how many there are where these come from; None where that is not known.
        unaligned: why a sentence is not aligned with its words, by its identifier.
        corpus_known: whether frequencies of the training corpus are known.
        paired: whether they have translations, which the model reads.
        without_rare: how many types there are at each site that has too few for a rare token.
    """
    notes: list[Note] = []
    if unaligned:
        notes.append(Unaligned(len(unaligned), *next(iter(unaligned.items()))))
    if not corpus_known:
        notes.append(TrainingCorpusUnknown())
    if not gold.trees:
        notes.append(NoTrees())
    if without_rare:
        most = max(without_rare.values())
        notes.append(VocabularyTooSmall(tuple(without_rare), most, FREQUENT_TYPES))
    sinks = sink_curve(verdicts)
    heads = int(verdicts.loc[verdicts["label"] == SINK_LABEL.name, "value"].notna().sum())
    if heads:
        notes.append(SinksByThreshold(keys, heads, tuple(sinks.items())))
    return [*notes, *_too_little(verdicts, gold, available, treebank=not paired)]


def _too_little(
    verdicts: pd.DataFrame, gold: Gold, available: int | None, *, treebank: bool
) -> list[Note]:
    """One note on all labels that some head may carry and for which too little was counted."""
    short: dict[tuple[str, int, str], list[str]] = {}
    factor, least = 0.0, 0.0
    never_met = False
    undecided = verdicts[verdicts["status"] == UNDECIDED]
    for (site, label), rows in undecided.groupby(["site", "label"], sort=False):
        needed, counted = int(rows["needed"].max()), int(rows["counted"].max())
        key = (str(label), needed, str(rows["unit"].iloc[0]))
        short.setdefault(key, []).append(str(site))
        never_met = never_met or counted == 0
        factor = max(factor, _SPARE * needed / counted if counted else _NONE_COUNTED)
        if key[-1] == POSITIONAL.unit:
            # Each half needs them.
            least = max(least, 2 * _SPARE * needed)
    if not short:
        return []
    labels = tuple(
        UndecidedLabel(label, tuple(sites), needed, unit)
        for (label, needed, unit), sites in short.items()
    )
    advised = _rounded_up(math.ceil(max(len(gold.source) * factor, least)))
    return [
        TooLittleCounted(
            labels,
            advised,
            available,
            treebank=treebank,
            never_met=never_met,
            generated=gold.generated,
        )
    ]


def _rounded_up(number: int) -> int:
    """To two digits.

    >>> _rounded_up(1234), _rounded_up(97)
    (1300, 97)
    """
    unit = 10 ** max(len(str(number)) - 2, 0)
    return math.ceil(number / unit) * unit


def ablate_for_labels(
    evaluator: Evaluator,
    sites: Sequence[str] = SITES,
    *,
    progress: Progress | None = None,
    processes: Processes | None = None,
) -> pd.DataFrame:
    """The loss without each head, one at a time, its output before the projection set to zero.

    One row per head: `site, layer, head` and the columns of `LOSS_CHANGE`, in nats per target token (loss
    without the head minus loss with it), with its interval over sentences.

    Args:
        evaluator: the model with sentences to evaluate it on.
        sites: where the heads are.
        progress: called with (what is being done, heads done, heads in all).
        processes: who share the heads; None: this one alone.

    Cost: a forward pass over the evaluator's sentences for each head.
    """
    chosen_heads = [head for head in all_heads(evaluator.projections) if head.site in sites]
    processes = processes or Processes()
    mine = chosen_heads[processes.index :: processes.count]
    before = Quality(evaluator.whole_losses(), evaluator.tokens)
    losses = evaluator.losses_without(mine, "zero", Steps("Taking heads away", len(mine), progress))
    changes = Change.each(before, [Quality(after, before.tokens) for after in losses.values()])
    rows = [head._asdict() | change.cells() for head, change in zip(losses, changes, strict=True)]
    shares = processes.gather(rows)
    # The heads were dealt out in turn.
    dealt = [
        shares[index % len(shares)][index // len(shares)] for index in range(len(chosen_heads))
    ]
    return pd.DataFrame(dealt)
