"""`attnlab train`: a translation or language model from text, into a run directory."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.command_classes import told_once
from attnlab.cli.early import refuse_damaged_plans, refuse_unusable_corpus
from attnlab.cli.options import chosen, typed, with_options
from attnlab.cli.output import messages
from attnlab.documents import read_toml
from attnlab.errors import INTERRUPTED, InputError
from attnlab.launcher import one_of_several
from attnlab.studies.settings import DeviceSettings
from attnlab.translation.model_settings import LANGUAGE_MODEL
from attnlab.translation.settings import SECTIONS, RunSettings, settings_from

if TYPE_CHECKING:
    from rich.console import Console

    from attnlab.attention.plan import AttentionPlan
    from attnlab.translation.training import Trained

PANELS = {
    "corpus": "Corpus",
    "tokenizer": "Tokens",
    "model": "Model",
    "embeddings": "Model",
    "optimizer": "Training",
}


@with_options(
    *SECTIONS.values(), DeviceSettings, headings=[*(PANELS[name] for name in SECTIONS), None]
)
def train(
    folder: Annotated[Path, typer.Argument(help="The run directory to write.")],
    *,
    settings: Annotated[
        Path | None,
        typer.Option(help="TOML file of settings; options typed beside it win."),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="Number of encoder layers, and of decoder layers.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace the run in the folder and its analysis. They are deleted when the new run is "
            "trained, come back if it fails before its first checkpoint, and are kept in .replaced-run "
            "after Ctrl-C; links are deleted, not what they lead to. Refused while the folder holds "
            "importance or pruning, which take long to make.",
        ),
    ] = False,
    **options: Any,
) -> None:
    """Train a translation model; validation loss, BLEU and chrF go to metrics.jsonl every epoch.

    With --task language-model it learns the next token of the source side of the corpus, or of a .txt file
    with a text per line; validation loss and perplexity go to metrics.jsonl.

    The training loss beside the progress bar is above the validation loss of an equally good model: it is
    computed with dropout and label smoothing (--label-smoothing: a share of each target goes to all words
    alike). tokens/s are target tokens since the last evaluation, as in metrics.jsonl.

    Several processes or GPUs share a training: torchrun --nproc-per-node N -m attnlab train FOLDER. Batches,
    loss and weights are those of one process up to rounding, dropout aside; --resume takes any number.
    Ctrl-C, SIGTERM and SIGHUP end a training after the current step, with a checkpoint.
    """
    device = chosen(DeviceSettings, options).device
    words = {
        name: value
        for name, value in options.items()
        if value not in (None, []) and name != "device"
    }
    wanted = None
    with told_once():
        if resume:
            _refuse_changes(words, settings, layers, overwrite=overwrite)
        else:
            refuse_damaged_plans(words.get("attention", ()))
            refuse_unusable_corpus(words.get("corpus"))
            wanted = settings_from(_merged(_from_file(settings), words, layers))
    # Several processes are told of a refusal together, which needs their libraries.
    if not one_of_several():
        _refuse_at_once(folder, resume=resume, overwrite=overwrite)
    _train(folder, wanted, epochs=words.get("epochs"), overwrite=overwrite, device=device)


def _refuse_at_once(folder: Path, *, resume: bool, overwrite: bool) -> None:
    from attnlab.files import refuse_unwritable
    from attnlab.locking import locked
    from attnlab.translation.runs.folder import read_record
    from attnlab.translation.runs.replacement import make_way, recover

    with locked(folder):
        if resume:
            recover(folder)
            read_record(folder)
            refuse_unwritable(folder)
        else:
            make_way(folder, overwrite=overwrite)


def _train(
    folder: Path,
    settings: RunSettings | None,
    *,
    epochs: int | None,
    overwrite: bool,
    device: str | None,
) -> None:
    """Trains with these settings, or goes on where there are none, and reports how that ended."""
    if one_of_several():
        # Read when torch is imported: each process would print its notices.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

    from attnlab.processes import launched_processes
    from attnlab.translation.quiet import quiet
    from attnlab.translation.training import resume, train

    console = messages()
    command = shlex.join(["attnlab", *sys.argv[1:]])
    with quiet():
        if settings is None:
            trained = resume(folder, epochs=epochs, device=device, console=console)
        else:
            trained = train(
                folder, settings,
                overwrite=overwrite, command=command, device=device, console=console,
            )  # fmt: skip
    if launched_processes().first:
        _report(trained, console)
    if trained.interrupted:
        raise typer.Exit(INTERRUPTED)


def _refuse_changes(
    words: dict[str, Any], settings: Path | None, layers: int | None, *, overwrite: bool
) -> None:
    others = {"settings": settings, "layers": layers, "overwrite": overwrite or None}
    changed = [name for name in words if name != "epochs"]
    changed += [name for name, value in others.items() if value is not None]
    if changed:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        msg = f"{names} cannot be changed when a run is resumed; leave it out or train a new run."
        raise InputError(msg)


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    if not path.exists():
        msg = f"There is no settings file {path}; check the path."
        raise InputError(msg)
    return read_toml(path)


def _merged(
    values: dict[str, Any], words: dict[str, Any], layers: int | None
) -> dict[str, dict[str, Any]]:
    """The settings of a file with the typed options put over them."""
    settings_from(values)
    merged = {section: dict(keys) for section, keys in values.items()}
    if layers is not None:
        both = {"encoder_layers": layers, "decoder_layers": layers}
        merged["model"] = merged.get("model", {}) | both
    tokenizer = _tokenizer_of_plans(words.get("attention", []))
    if tokenizer is not None:
        words = {"tokenizer_checksum": tokenizer, **words}
    for section, kind in SECTIONS.items():
        found = typed(kind, words)
        if "attention" in found:
            found["attention"] = _by_address(found["attention"])
        if found:
            merged[section] = merged.get(section, {}) | found
    return merged


def _by_address(words: list[str]) -> dict[str, str]:
    """Mechanisms by address, from words such as `encoder=band(window=3)` and files of plans."""
    entries: dict[str, str] = {}
    for word in words:
        address, equals, text = word.partition("=")
        plan = _plan_in(word)
        if plan is not None:
            entries |= plan.as_dict()
        elif not equals or "(" in address:
            msg = f"--attention {word} names no site; write it like: encoder=band(window=3)."
            raise InputError(msg)
        else:
            entries[address.strip()] = text
    return entries


def _plan_in(word: str) -> "AttentionPlan | None":
    """The plan in the file that `plan.json` or `plan=plan.json` names; None for other words."""
    if not word.endswith(".json") or word.partition("=")[0] not in {"plan", word}:
        return None
    from attnlab.attention.plan import load_plan

    return load_plan(Path(word.removeprefix("plan=")))


def _tokenizer_of_plans(words: list[str]) -> str | None:
    """The checksum of the tokenizer whose token ids the plans name.

    Raises:
        InputError: they name those of different tokenizers.
    """
    plans = [plan for word in words if (plan := _plan_in(word)) is not None]
    named = {plan.tokenizer for plan in plans} - {None}
    if len(named) > 1:
        msg = "The plans name token ids of different tokenizers; give plans that were searched for one."
        raise InputError(msg)
    return named.pop() if named else None


def _scores(kept: dict[str, Any]) -> str:
    if "validation_bleu" in kept:
        return f"BLEU {kept['validation_bleu']:.1f} (chrF {kept['validation_chrf']:.1f})"
    return f"perplexity {kept['validation_perplexity']:.1f}"


def _report(trained: "Trained", console: "Console") -> None:
    from attnlab.translation.runs.folder import task_of
    from attnlab.translation.trainer import READABLE_BLEU
    from attnlab.translation.training import kept_evaluation

    pairs = trained.record["corpus"]["pairs"]
    dropped = trained.record["corpus"]["dropped_over_max_tokens"]
    # Runs of the first versions do not tell their task.
    writes = task_of(trained.record) == LANGUAGE_MODEL
    console.print(
        f"{'Texts' if writes else 'Pairs'}: "
        f"{', '.join(f'{count:,} {name}' for name, count in pairs.items())}; "
        f"dropped as too long: {', '.join(f'{count} {name}' for name, count in dropped.items())}.",
        soft_wrap=True,
    )
    kept = kept_evaluation(trained)
    if kept is not None:
        console.print(
            f"{trained.parameters:,} parameters, kept as after epoch {kept['epoch']:g}: validation "
            f"{_scores(kept)}, loss {kept['validation_loss']:.2f}.",
            soft_wrap=True,
        )
    if kept is not None and kept.get("validation_bleu", READABLE_BLEU) < READABLE_BLEU:
        console.print(
            f"Warning: with a BLEU below {READABLE_BLEU:g} no translation can be read; train on more "
            f"pairs, or longer: attnlab train {trained.folder} --resume --epochs N.",
            style="yellow",
            soft_wrap=True,
        )
    if trained.interrupted:
        console.print(
            "Interrupted; the run can be used as it is. Go on with: "
            f"attnlab train {trained.folder} --resume",
            soft_wrap=True,
        )
    if trained.replaced is not None:
        from attnlab.translation.runs.replacement import told_replaced

        told = told_replaced(trained.folder, trained.replaced, interrupted=trained.interrupted)
        console.print(told, style="yellow", soft_wrap=True)
    _tell_older_results(trained.folder, console)
    if not trained.interrupted:
        console.print(
            f"Run: {trained.folder}. Next: attnlab analyze {trained.folder}", soft_wrap=True
        )


def _tell_older_results(run: Path, console: "Console") -> None:
    from attnlab.reporting.older_results import results_with
    from attnlab.studies.notes import OlderWeights, UnknownWeights

    older, unknown = (
        ", ".join(folder.name for folder in results_with(note, run))
        for note in (OlderWeights, UnknownWeights)
    )
    told = [
        *([f"of an older state of the model in {run} are: {older}"] if older else []),
        *([f"these do not say of which weights they are: {unknown}"] if unknown else []),
    ]
    if told:
        text = f"Warning: {'; '.join(told)}; make them again with --overwrite."
        console.print(text, style="yellow", soft_wrap=True)
