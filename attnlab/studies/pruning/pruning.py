"""How many heads a trained model can do without: gates learned at several penalties, and baselines."""

import random as randomness
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.addresses import Head
from attnlab.attribution.closing import close_heads
from attnlab.attribution.gates import GateStep, HeadGates
from attnlab.attribution.projections import all_heads
from attnlab.notes import Note
from attnlab.options import options_of
from attnlab.representations import OneLine
from attnlab.studies.notes import ENOUGH_FOR_INTERVALS, FewForIntervals
from attnlab.studies.pruning.curve import Curve, Measured
from attnlab.studies.pruning.notes import (
    AllHeadsClosed,
    GatesNotSettled,
    NoHeadClosed,
    NoRandomHeads,
)
from attnlab.studies.pruning.settings import PruningSettings
from attnlab.studies.pruning.training import Pruner, State, load_pruner
from attnlab.studies.steps import Steps
from attnlab.texts import published
from attnlab.translation.runs.run import Run

SETTLED = 0.9
UNSETTLED_SHARE = 0.1


@dataclass(frozen=True, repr=False)
class Pruning(OneLine):
    """What pruning at several penalties gave.

    Attributes:
        curve: one row per model and split, columns as in `attnlab.studies.pruning.columns`.
        gates: one row per penalty and head.
        training: one row per penalty and step.
        models: by penalty, the parameters of the pruned model; empty unless they were asked for.
        run: the run, its model as it was trained.
        about: how it was made, ready for JSON.
        notes: what a reader must know, see `attnlab.reporting.notes`.
    """

    curve: pd.DataFrame
    gates: pd.DataFrame
    training: pd.DataFrame
    models: Mapping[float, State]
    run: Run
    about: Mapping[str, Any]
    notes: tuple[Note, ...]

    def closed(self, penalty: float) -> list[str]:
        """The heads that were closed for good at a penalty, such as `encoder.0.3`."""
        own = self.gates[(self.gates["penalty"] == penalty) & ~self.gates["open"]]
        keys = zip(own["site"], own["layer"], own["head"], strict=True)
        return [str(Head(*key)) for key in keys]


@options_of(PruningSettings)
def prune(source: str | Path | Run, settings: PruningSettings) -> Pruning:
    """The pruning curve of a run: heads left against loss and greedy BLEU, a model a penalty.

    For each penalty, from the run as it was trained, minimised over gates and parameters together::

        mean loss a target token (nats) + penalty * expected number of heads that are not closed

    so that a head stays where it saves `penalty` nats a token. Then heads whose gate is likelier
    0 than 1 are closed for good, and the model is measured with all others whole. The loss is that
    of the run's training, on its training pairs, with its dropout and label smoothing; the loss that
    is measured has neither.

    Beside the pruned models stand the unpruned run; the run fine-tuned equally long with every head;
    and for each penalty as many random heads of each site closed (one draw) and the rest fine-tuned
    equally long. Where the parameters are not trained along, these baselines are not tuned either.

    Cost: `steps` training steps and two rounds of translation a model; two models a penalty.

    Source: Voita et al. 2019 (arXiv 1905.09418), section 5; Louizos et al. 2018 (1712.01312).

    Args:
        source: a run or its folder; neither is changed.
        settings: as keyword arguments.

    Raises:
        InputError: the source is no run, or a number or site cannot be used.
        AttnlabError: the corpus changed since the training, or the loss became no number.
    """
    pruner = load_pruner(source, settings)
    steps = settings.steps_of(pruner.pairs.steps_in_epoch)
    before = pruner.measured("The run")
    curve = Curve(tuple(all_heads(pruner.projections)), before, settings.seed)
    rows = _baseline_rows(pruner, curve, steps)
    found: list[_Pruned] = []
    penalties = sorted(set(settings.penalties))
    progress = Steps("Penalties", len(penalties), settings.progress)

    def pruned(penalty: float) -> None:
        found.append(_pruned(pruner, curve, penalty, steps, keep=settings.keep_models))
        rows.extend(found[-1].curve)
        if settings.random:
            random = _random_rows(pruner, curve, penalty, steps, found[-1].closed)
            rows.extend(random)
            if found[-1].closed and not random:
                found[-1].notes.append(NoRandomHeads(penalty))

    for penalty in penalties:
        progress.of(partial(pruned, penalty))()
    pruner.start_again()
    return Pruning(
        curve=pd.DataFrame(rows).astype({"unsettled": "Int64"}),
        gates=pd.DataFrame([row for part in found for row in part.gates]),
        training=pd.DataFrame([row for part in found for row in part.training]),
        models={part.penalty: part.state for part in found if part.state is not None},
        run=pruner.run,
        about={
            "run": published(pruner.run.folder),
            "steps": steps,
            "seed": settings.seed,
            "sites": list(pruner.sites),
            "parameters_trained": settings.train_model,
            "batch_tokens": pruner.pairs.batch_tokens,
        },
        notes=(*_on_sentences(before), *(note for part in found for note in part.notes)),
    )


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


def _pruned(pruner: Pruner, curve: Curve, penalty: float, steps: int, *, keep: bool) -> _Pruned:
    gates, history = pruner.learn(penalty, steps)
    closed = gates.closed()
    close_heads(pruner.projections, closed)
    rows = _gate_rows(gates, penalty)
    unsettled = sum(max(row["p_zero"], row["p_one"]) < SETTLED for row in rows)
    state = pruner.run.model.state_dict() if keep else {}
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


def _baseline_rows(pruner: Pruner, curve: Curve, steps: int) -> list[dict[str, Any]]:
    """The run as it is, and the run trained further with every head."""
    rows = curve.rows("unpruned", curve.before)
    if pruner.train_model:
        pruner.tune("Every head", steps)
        rows += curve.rows("fine-tuned", pruner.measured("Every head"), steps=steps)
    return rows


def _random_rows(
    pruner: Pruner, curve: Curve, penalty: float, steps: int, closed: Sequence[Head]
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
        {"penalty": penalty, "step": number, "loss_nats": step.loss,
         "expected_open": step.expected_open}
        for number, step in enumerate(history, 1)
    ]  # fmt: skip


def _on_sentences(measured: Mapping[str, Measured]) -> list[Note]:
    fewest = min(len(part.tokens) for part in measured.values())
    return [FewForIntervals(fewest)] if fewest < ENOUGH_FOR_INTERVALS else []


def _notes(penalty: float, heads: int, closed: int, unsettled: int) -> list[Note]:
    found: list[Note] = []
    if unsettled > UNSETTLED_SHARE * heads:
        found.append(GatesNotSettled(penalty, unsettled, heads, SETTLED))
    if closed == heads:
        found.append(AllHeadsClosed(penalty, heads))
    if not closed and penalty:
        found.append(NoHeadClosed(penalty))
    return found
