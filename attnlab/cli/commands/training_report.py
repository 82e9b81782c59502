"""What `attnlab train` says when it ends: pairs, validation, the test part, and what to do next."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.core.texts import counted
from attnlab.models.training_settings import LANGUAGE_MODEL

if TYPE_CHECKING:
    from rich.console import Console

    from attnlab.models.training import Trained

# Pairs of the part that are translated at the end of a training.
MOST_TRANSLATED = 1000


def _scores(kept: dict[str, Any]) -> str:
    if "validation_bleu" in kept:
        return f"BLEU {kept['validation_bleu']:.1f} (chrF {kept['validation_chrf']:.1f})"
    return f"perplexity {kept['validation_perplexity']:.1f}"


def report_training(trained: "Trained", console: "Console", *, device: str | None) -> None:
    """Prints how a training ended; translates held-out pairs where it was not interrupted."""
    from attnlab.models.run_folder import task_of
    from attnlab.models.trainer import READABLE_BLEU
    from attnlab.models.training import kept_evaluation

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
    if not trained.interrupted and not writes:
        _translate_held_out(trained, console, device=device)
    if trained.interrupted:
        console.print(
            "Interrupted; the run can be used as it is. Go on with: "
            f"attnlab train {trained.folder} --resume",
            soft_wrap=True,
        )
    if trained.replaced is not None:
        from attnlab.models.checkpoints import report_replaced

        told = report_replaced(trained.folder, trained.replaced, interrupted=trained.interrupted)
        console.print(told, style="yellow", soft_wrap=True)
    _tell_older_results(trained.folder, console)
    if not trained.interrupted:
        console.print(
            f"Run: {trained.folder}. Next: attnlab analyze {trained.folder}", soft_wrap=True
        )


def _translate_held_out(trained: "Trained", console: "Console", *, device: str | None) -> None:
    """Greedy BLEU on the test part, and the first pair beside its translation."""
    from attnlab.cli.progress import progress_bars
    from attnlab.core.library_state import quiet
    from attnlab.core.processes import usable_device
    from attnlab.models.run import load
    from attnlab.models.scoring import score
    from attnlab.models.translating import short_pairs, translate

    with quiet(), progress_bars() as tell:
        run = load(trained.folder)
        run.model.to(usable_device(device))
        # Never empty: a corpus without a test part has one held out, and training refuses one too long.
        rows = short_pairs(run, run.corpus().test)
        count = len(rows)
        rows = rows.select(range(min(count, MOST_TRANSLATED)))
        sources, references = list(rows["source"]), list(rows["target"])
        limit = run.settings.corpus.max_tokens
        texts = translate(
            run.translator, run.tokenizers, sources, beams=1, max_tokens=limit, progress=tell
        )
    scores = score(texts, references)
    first = "the first " if len(rows) < count else ""
    console.print(
        f"Test BLEU {scores.bleu:.1f} (chrF {scores.chrf:.1f}), greedy, on {first}"
        f"{counted(len(rows), 'pair')}, such as:",
        soft_wrap=True,
    )
    example = {"source": sources, "reference": references, "translation": texts}
    for name, column in example.items():
        console.print(f"  {name + ':':12} {column[0]}", soft_wrap=True, highlight=False)


def _tell_older_results(run: Path, console: "Console") -> None:
    from attnlab.reporting.record import older_results

    older = ", ".join(folder.name for folder in older_results(run))
    if older:
        text = (
            f"Warning: of an older state of the model in {run} are: {older}; make them again with "
            "--overwrite."
        )
        console.print(text, style="yellow", soft_wrap=True)
