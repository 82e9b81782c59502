"""What is done with a model beside asking questions about it: translating, scoring, exporting."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnlab.attention import AttentionPlan, load_plan
from attnlab.core import InputError, Progress, arguments_told, briefly, check_progress
from attnlab.evaluation import DeviceSettings
from attnlab.models import Run, Source, export_layer_types, load, model_of


@arguments_told
def translate(
    source: str | Path | Run,
    sentences: str | Sequence[str],
    *,
    beams: int = 5,
    max_tokens: int | None = None,
    device: str | None = None,
) -> list[str]:
    """Translations of sentences by a run, in their order.

    Args:
        source: a run or its folder.
        sentences: one, or several.
        beams: how many hypotheses are kept at each step; 1 is greedy.
        max_tokens: of a translation, start and end token counted; None: as in the run's training.
        device: the name of a device; None: a GPU if there is one and the run is read here.

    Raises:
        InputError: it is no run, the run is of another task, a sentence is blank or too long, or a value of
            the wrong kind.
    """
    return _run(source, device).translate(sentences, beams=beams, max_tokens=max_tokens)


@arguments_told
def score(
    source: str | Path | Run,
    *,
    split: str = "test",
    beams: int = 5,
    device: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Scores of a run on a part of its corpus, see `Run.score`.

    Args:
        source: a run or its folder.
        split: the part: train, validation or test.
        beams: how many hypotheses are kept at each step; 1 is greedy.
        device: the name of a device; None: a GPU if there is one and the run is read here.
        progress: called with (what is being done, done, in all).

    Raises:
        InputError: it is no run, there is no such part, or a value of the wrong kind.
        AttnlabError: the corpus is no longer the one of the training.
    """
    check_progress(progress)
    return _run(source, device).score(split=split, beams=beams, progress=progress)


@arguments_told
def export(
    source: Source, plan: AttentionPlan | str | Path, folder: str | Path, *, overwrite: bool = False
) -> Path:
    """Writes a model with a plan so that plain transformers runs it; returns the folder.

    Args:
        source: a transformers model that is an encoder or a decoder: its folder, its name on the hub, or
            (model, tokenizer).
        plan: the plan or its file; each layer has full attention, or one band.
        folder: where it is written.
        overwrite: whether an older model there is replaced.

    Raises:
        InputError: the plan or the model cannot be exported, or the folder holds something else.
        AttnlabError: it could not be written.
    """
    made = plan if isinstance(plan, AttentionPlan) else load_plan(plan)
    export_layer_types(model_of(source), made, folder, overwrite=overwrite)
    return Path(folder)


def _run(source: object, device: str | None) -> Run:
    """The run at `source`, on the device of that name.

    Raises:
        InputError: it is no run, or the device cannot be used.
    """
    if not isinstance(source, str | Path | Run):
        msg = f"source must be a run of attnlab train or its folder, not {briefly(source)}."
        raise InputError(msg)
    DeviceSettings(device=device)
    run = source if isinstance(source, Run) else load(source)
    run.move_to_named(device, source)
    return run
