"""How many heads a trained model can do without: gates learned at several penalties, and baselines."""

import math
import random as randomness
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import (
    GateStep,
    HeadGates,
    all_heads,
    close_heads,
)
from attnlab.core import BLEU, Head, Note, options_of
from attnlab.evaluation import (
    ENOUGH_FOR_INTERVALS,
    LOSS_IN_WORDS,
    Change,
    FewForIntervals,
    Quality,
    Steps,
    notes_on_texts,
)
from attnlab.models import Model, Run, Source
from attnlab.questions.prune.pruned_runs import pruned_run, write_pruned_run
from attnlab.questions.prune.pruner import Pruner, State, load_pruner
from attnlab.questions.prune.question import (
    BLEU_TESTED,
    QUESTION,
    AllHeadsClosed,
    GatesNotSettled,
    NoHeadClosed,
    NoRandomHeads,
    PruningSettings,
)
from attnlab.results import Result

SETTLED = 0.9
UNSETTLED_SHARE = 0.1


@options_of(PruningSettings)
def prune(source: Source, settings: PruningSettings) -> Result:
    """The pruning curve of a model: heads left against loss and greedy BLEU, a pruned model a penalty.

    For each penalty, from the model as it is, minimised over gates and parameters together::

        mean loss a target token (nats) + penalty * expected number of heads that are not closed

    so that a head stays where it saves `penalty` nats per token. Then heads whose gate is likelier
    0 than 1 are closed for good, and the model is measured with all others whole. The loss is that
    of a run's training, on its training pairs, with its dropout and label smoothing; of another model
    what it is evaluated by (next tokens, masked tokens, distance of final states), on training
    sentences with dropout. The loss that is measured has neither.

    Beside the pruned models stand the unpruned one; it fine-tuned equally long with every head;
    and for each penalty as many random heads of each site closed (one draw) and the rest fine-tuned
    equally long. Where the parameters are not trained along, these baselines are not tuned either.

    Cost: `steps` training steps and two rounds of translation a model; two models a penalty.

    Source: Voita et al. 2019 (arXiv 1905.09418), section 5; Louizos et al. 2018 (1712.01312).

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair
            (model, tokenizer); none is changed.
        settings: as keyword arguments.

    Returns:
        The tables `curve` (a row per model and split), `gates` (per penalty and head) and `training` (per
        penalty and step); as `extra` the pruned models, where they are kept.

    Raises:
        InputError: the source, its sentences, a number or a site cannot be used.
        AttnlabError: the corpus changed since the training, or the loss became no number.
    """
    pruner = load_pruner(source, settings)
    steps = settings.steps_of(pruner.training.steps_in_epoch)
    before = pruner.measured("The run")
    curve = _Curve(tuple(all_heads(pruner.projections)), before, settings.seed)
    rows = _baseline_rows(pruner, curve, steps)
    models: list[_Pruned] = []
    penalties = sorted(set(settings.penalties))
    progress = Steps("Penalties", len(penalties), settings.progress)

    def pruned(penalty: float) -> None:
        models.append(_pruned(pruner, curve, penalty, steps, keep=settings.keep_models))
        rows.extend(models[-1].curve)
        if settings.random:
            random = _random_rows(pruner, curve, penalty, steps, models[-1].closed)
            rows.extend(random)
            if models[-1].closed and not random:
                models[-1].notes.append(NoRandomHeads(penalty))

    for penalty in penalties:
        progress.of(partial(pruned, penalty))()
    pruner.start_again()
    about = {
        "run": pruner.loaded.label,
        "loss": LOSS_IN_WORDS[pruner.evaluators["test"].loss],
        "steps": steps,
        "seed": settings.seed,
        "sites": list(pruner.sites),
        "parameters_trained": settings.train_model,
        "batch_tokens": pruner.training.batch_tokens,
        **{f"{split}_sentences": len(evaluator) for split, evaluator in pruner.evaluators.items()},
        "training_sentences": pruner.training.sentences,
    }
    return Result(
        QUESTION.name,
        f"Heads left against {'BLEU' if before['test'].references else 'loss'}",
        {
            "curve": pd.DataFrame(rows).astype({"unsettled": "Int64"}),
            "gates": pd.DataFrame([row for part in models for row in part.gates]),
            "training": pd.DataFrame([row for part in models for row in part.training]),
        },
        about,
        (
            *notes_on_texts(
                pruner.loaded,
                pruner.texts,
                {split: evaluator.sentences for split, evaluator in pruner.evaluators.items()},
                settings.sentences,
                settings.sites,
            ),
            *_on_sentences(before),
            *_left_out(pruner),
            *(note for part in models for note in part.notes),
        ),
        weights=pruner.loaded.weights,
        extra=_models(pruner.loaded, models, about),
    )


def _models(
    model: Model, models: Sequence["_Pruned"], about: Mapping[str, Any]
) -> dict[str, Callable[[str | Path], object]]:
    """What writes the models that are kept, which are those of runs, by their names in the folder."""
    if not isinstance(model, Run):
        return {}
    return {
        pruned_run(part.penalty): partial(
            write_pruned_run, model, part.state,
            {**about, "penalty": part.penalty, "closed_heads": list(map(str, part.closed))},
        )
        for part in models
        if part.state is not None
    }  # fmt: skip


@dataclass(frozen=True)
class _Curve:
    """What every row of one curve has in common.

    Attributes:
        heads: every head of the model.
        before: by split, what the unpruned model does.
        seed: of gates and random heads.
    """

    heads: tuple[Head, ...]
    before: Mapping[str, Quality]
    seed: int

    def rows(
        self,
        kind: str,
        after: Mapping[str, Quality],
        *,
        closed: Iterable[Head] = (),
        penalty: float | None = None,
        unsettled: int | None = None,
        steps: int = 0,
    ) -> list[dict[str, Any]]:
        """One row per split, with the columns of `CURVE`.

        Args:
            kind: `unpruned`, `fine-tuned`, `pruned` or `random`.
            after: by split, what the model does.
            closed: its closed heads.
            penalty: that it was pruned at.
            unsettled: gates that are neither open nor closed for sure.
            steps: how long it was trained after the run.
        """
        gone = set(closed)
        left = [head for head in self.heads if head not in gone]
        by_site = {
            f"{site}_left": sum(head.site == site for head in left)
            for site in dict.fromkeys(head.site for head in self.heads)
        }
        return [
            {
                "kind": kind,
                "penalty": penalty,
                "split": split,
                "head_count": len(self.heads),
                "heads_left": len(left),
                **by_site,
                **self._changes(split, quality),
                "unsettled": unsettled,
                "steps": steps,
                "seed": self.seed,
            }
            for split, quality in after.items()
        ]

    def _changes(self, split: str, quality: Quality) -> dict[str, Any]:
        change = Change.of(self.before[split], quality)
        untranslated = {BLEU.name: math.nan} | BLEU_TESTED.cells(math.nan, p=math.nan)
        return {
            **change.scores,
            **change.cells(bleu=BLEU_TESTED),
            **({} if quality.translations else untranslated),
            "sentences": len(quality.losses),
        }


@dataclass(frozen=True)
class _Pruned:
    """What one penalty gave: rows of the three tables, and the model."""

    penalty: float
    closed: list[Head]
    curve: list[dict[str, Any]]
    gates: list[dict[str, Any]]
    training: list[dict[str, Any]]
    state: State | None
    notes: list[Note]


def _pruned(pruner: Pruner, curve: _Curve, penalty: float, steps: int, *, keep: bool) -> _Pruned:
    gates, history = pruner.learn(penalty, steps)
    closed = gates.closed()
    close_heads(pruner.projections, closed)
    rows = _gate_rows(gates, penalty)
    unsettled = sum(max(row["p_zero"], row["p_one"]) < SETTLED for row in rows)
    state = pruner.loaded.model.state_dict() if keep else {}
    return _Pruned(
        penalty,
        closed,
        curve.rows(
            "pruned", pruner.measured(f"Penalty {penalty:g}"),
            closed=closed, penalty=penalty, unsettled=unsettled, steps=steps,
        ),
        rows,
        _training_rows(history, penalty),
        {name: tensor.cpu().clone() for name, tensor in state.items()} if keep else None,
        _notes(penalty, len(rows), len(closed), unsettled),
    )  # fmt: skip


def _baseline_rows(pruner: Pruner, curve: _Curve, steps: int) -> list[dict[str, Any]]:
    """The run as it is, and the run trained further with every head."""
    rows = curve.rows("unpruned", curve.before)
    if pruner.train_model:
        pruner.tune("Every head", steps)
        rows += curve.rows("fine-tuned", pruner.measured("Every head"), steps=steps)
    return rows


def _random_rows(
    pruner: Pruner, curve: _Curve, penalty: float, steps: int, closed: Sequence[Head]
) -> list[dict[str, Any]]:
    """As many heads of each site closed, but random ones; nothing where they are the same."""
    drawn = draw_heads(all_heads(pruner.gated), closed, pruner.seed)
    if set(drawn) == set(closed):
        return []
    what = f"Random heads for {penalty:g}"
    if pruner.train_model:
        pruner.tune(what, steps, drawn)
    else:
        pruner.start_again()
    close_heads(pruner.projections, drawn)
    trained = steps if pruner.train_model else 0
    return curve.rows("random", pruner.measured(what), closed=drawn, penalty=penalty, steps=trained)


def draw_heads(heads: Sequence[Head], closed: Sequence[Head], seed: int) -> list[Head]:
    """Random ones of `heads`, as many of each site as are in `closed`.

    One order of each site's heads is drawn from the seed, so that a larger draw holds a smaller.
    """
    drawn = []
    for site in dict.fromkeys(head.site for head in heads):
        order = [head for head in heads if head.site == site]
        randomness.Random(f"{seed} {site}").shuffle(order)
        drawn += order[: sum(head.site == site for head in closed)]
    return drawn


def _gate_rows(gates: HeadGates, penalty: float) -> list[dict[str, Any]]:
    closed = set(gates.closed())
    return [
        {"penalty": penalty, **head._asdict(), "p_zero": p, "p_one": q, "open": head not in closed}
        for head, (p, q) in gates.probabilities().items()
    ]


def _training_rows(history: Sequence[GateStep], penalty: float) -> list[dict[str, Any]]:
    return [
        {"penalty": penalty, "step": number, "batch_loss": step.loss,
         "expected_open": step.expected_open}
        for number, step in enumerate(history, 1)
    ]  # fmt: skip


def _on_sentences(measured: Mapping[str, Quality]) -> list[Note]:
    counts = {name: len(part.tokens) for name, part in measured.items()}
    part = min(counts, key=counts.__getitem__)
    few = counts[part] < ENOUGH_FOR_INTERVALS
    return [FewForIntervals(counts[part], part)] if few else []


def _left_out(pruner: Pruner) -> list[Note]:
    """The sentences of each part that the model cannot take."""
    parts = {split: evaluator.sentences.dropped for split, evaluator in pruner.evaluators.items()}
    parts["training"] = pruner.training.dropped
    return [replace(note, part=part) for part, dropped in parts.items() for note in dropped]


def _notes(penalty: float, heads: int, closed: int, unsettled: int) -> list[Note]:
    notes: list[Note] = []
    if unsettled > UNSETTLED_SHARE * heads:
        notes.append(GatesNotSettled(penalty, unsettled, heads, SETTLED))
    if closed == heads:
        notes.append(AllHeadsClosed(penalty, heads))
    if not closed and penalty:
        notes.append(NoHeadClosed(penalty))
    return notes
