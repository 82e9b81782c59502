"""Every head of a model replaced alone: which replacements are possible, and what each changes."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from attnlab.addresses import Head, layer_name
from attnlab.attribution.ablation import Means, ablate_each, ablated, mean_outputs
from attnlab.attribution.projections import all_heads
from attnlab.attribution.replacements import REPLACEMENTS, Replacement
from attnlab.attribution.significance import Difference, bleu_differences
from attnlab.errors import AttnlabError, InputError
from attnlab.notes import Note
from attnlab.studies.evaluation import Evaluator
from attnlab.studies.importance.notes import NoMeans, NotUniform
from attnlab.studies.notes import ENOUGH_FOR_INTERVALS, FewForIntervals
from attnlab.studies.settings import Progress
from attnlab.studies.steps import Steps


@dataclass(frozen=True)
class Ablation:
    """One way to replace heads: those that it can replace, and what it needs."""

    replacement: Replacement
    heads: tuple[Head, ...]
    means: Means | None


def possible_ablations(
    evaluator: Evaluator, replacements: Sequence[str], training: int
) -> tuple[list[Ablation], list[Note]]:
    """The replacements with what they need; heads and means that cannot be had are left out."""
    heads = all_heads(evaluator.projections)
    notes: list[Note] = []
    if len(evaluator.examples) < ENOUGH_FOR_INTERVALS:
        notes.append(FewForIntervals(len(evaluator.examples)))
    found = []
    for name in REPLACEMENTS:
        means, replaceable = None, heads
        if name not in replacements:
            continue
        if name == "mean":
            try:
                means = _means(evaluator, training)
            except AttnlabError as error:
                notes.append(NoMeans(str(error)))
                continue
        if name == "uniform":
            replaceable = [head for head in heads if _can_be_uniform(evaluator, head)]
            if len(replaceable) < len(heads):
                layers = dict.fromkeys(
                    layer_name(h.site, h.layer) for h in heads if h not in replaceable
                )
                notes.append(NotUniform(tuple(layers)))
        found.append(Ablation(name, tuple(replaceable), means))
    if not any(len(ablation.heads) == len(heads) for ablation in found):
        msg = "No replacement that was named can be done for every head here; add zero."
        raise InputError(msg)
    return found, notes


def _means(evaluator: Evaluator, training: int) -> Means:
    learning = evaluator.on_split("train", training)
    return mean_outputs(evaluator.projections, learning.batches, learning.run, learning.real)


def _can_be_uniform(evaluator: Evaluator, head: Head) -> bool:
    try:
        with ablated(evaluator.projections, [head], "uniform"):
            return True
    except InputError:
        return False


def ablated_losses(
    evaluator: Evaluator, ablations: Sequence[Ablation], progress: Progress | None
) -> dict[Replacement, dict[Head, Tensor]]:
    """Losses of all sentences with each head replaced alone."""
    steps = Steps("Ablating heads", sum(len(one.heads) for one in ablations), progress)
    behind = evaluator.reading_once()
    found: dict[Replacement, dict[Head, Tensor]] = {}
    for one in ablations:
        by_reader = [
            (evaluator, [head for head in one.heads if head.site == "encoder"]),
            (behind, [head for head in one.heads if head.site != "encoder"]),
        ]
        found[one.replacement] = {}
        for reader, heads in by_reader:
            found[one.replacement] |= ablate_each(
                evaluator.projections, heads, one.replacement, steps.of(reader.losses), one.means
            )
    return found


def bleu_changes(
    evaluator: Evaluator,
    ablations: Sequence[Ablation],
    bleu: Sequence[str],
    bootstrap: tuple[int, int],
    progress: Progress | None,
) -> list[tuple[Ablation, dict[Head, Difference]]]:
    """Changes of BLEU with each head replaced alone, for the replacements that were asked for."""
    chosen = [one for one in ablations if one.replacement in bleu]
    if not chosen:
        return []
    steps = Steps("Translating without one head", sum(len(one.heads) for one in chosen), progress)
    before, gold, (seed, draws) = evaluator.translations(), evaluator.references, bootstrap
    found = []
    for one in chosen:
        written = ablate_each(
            evaluator.projections,
            one.heads,
            one.replacement,
            steps.of(evaluator.translations),
            one.means,
        )
        changes = bleu_differences(before, list(written.values()), gold, seed=seed, draws=draws)
        found.append((one, dict(zip(written, changes, strict=True))))
    return found
