"""`attnlab train`: a translation or language model from text, into a run directory."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.command_classes import first_of_several, warn_once
from attnlab.cli.command_options import OVERWRITE, chosen, typed, with_options
from attnlab.cli.output import messages, print_notes
from attnlab.cli.progress import progress_bars
from attnlab.core import (
    INTERRUPTED,
    RUN_MARK,
    InputError,
    counted,
    one_of_several,
    read_toml,
    word_label,
)
from attnlab.evaluation import DeviceSettings, check_corpus, check_plans
from attnlab.models import (
    LANGUAGE_MODEL,
    SECTIONS,
    CorpusSettings,
    RunSettings,
    SideSettings,
    SkipGramSettings,
    TokenizerSettings,
    settings_from,
)

if TYPE_CHECKING:
    from rich.console import Console

    from attnlab.attention import AttentionPlan
    from attnlab.models import Trained

# Pairs of the part that are translated at the end of a training.
MOST_TRANSLATED = 1000


def _scores(kept: dict[str, Any]) -> str:
    if "validation_bleu" in kept:
        return f"BLEU {kept['validation_bleu']:.1f} (chrF {kept['validation_chrf']:.1f})"
    return f"perplexity {kept['validation_perplexity']:.1f}"


def report_training(trained: "Trained", console: "Console", *, device: str | None) -> None:
    """Prints how a training ended; translates held-out pairs where it was not interrupted."""
    from attnlab.models import (
        READABLE_BLEU,
        kept_evaluation,
        report_replaced,
        task_of,
    )

    say = partial(console.print, soft_wrap=True)
    folder, corpus = trained.folder, trained.record["corpus"]
    writes = task_of(trained.record) == LANGUAGE_MODEL
    pairs = ", ".join(f"{count:,} {name}" for name, count in corpus["pairs"].items())
    dropped = ", ".join(
        f"{count} {name}" for name, count in corpus["dropped_over_max_tokens"].items()
    )
    say(f"{'Texts' if writes else 'Pairs'}: {pairs}; dropped as too long: {dropped}.")
    kept = kept_evaluation(trained)
    if kept is not None:
        say(
            f"{trained.parameters:,} parameters, kept as after epoch {kept['epoch']:g}: validation "
            f"{_scores(kept)}, loss {kept['validation_loss']:.2f}."
        )
        if kept.get("validation_bleu", READABLE_BLEU) < READABLE_BLEU:
            say(
                f"Warning: with a BLEU below {READABLE_BLEU:g} no translation can be read; train on more "
                f"pairs, or longer: attnlab train {folder} --resume --epochs N.",
                style="yellow",
            )
    if trained.interrupted:
        say(
            "Interrupted; the run can be used as it is. Go on with: "
            f"attnlab train {folder} --resume"
        )
    elif not writes:
        _translate_held_out(folder, say, device=device)
    if trained.replaced is not None:
        message = report_replaced(folder, trained.replaced, interrupted=trained.interrupted)
        say(message, style="yellow")
    _tell_older_results(folder, console)
    if not trained.interrupted:
        say(f"Run: {folder}. Next: attnlab analyze {folder}")


def _translate_held_out(folder: Path, say: Callable[..., None], *, device: str | None) -> None:
    """Greedy BLEU on the test part, and the first pair beside its translation."""
    from attnlab.core import quiet, usable_device
    from attnlab.models import load, score, short_pairs, translate

    with quiet(), progress_bars() as tell:
        run = load(folder)
        run.model.to(usable_device(device))
        # Never empty: a corpus without a test part has one held out, and training refuses one too long.
        rows = short_pairs(run, run.corpus().test)
        first = "the first " if len(rows) > MOST_TRANSLATED else ""
        rows = rows.select(range(min(len(rows), MOST_TRANSLATED)))
        sources, references = list(rows["source"]), list(rows["target"])
        limit = run.settings.corpus.max_tokens
        texts = translate(
            run.translator, run.tokenizers, sources, beams=1, max_tokens=limit, progress=tell
        )
    scores = score(texts, references)
    say(
        f"Test BLEU {scores.bleu:.1f} (chrF {scores.chrf:.1f}), greedy, on {first}"
        f"{counted(len(rows), 'pair')}, such as:"
    )
    example = {"source": sources, "reference": references, "translation": texts}
    for name, column in example.items():
        say(f"  {name + ':':12} {column[0]}", highlight=False)


def _tell_older_results(run: Path, console: "Console") -> None:
    from attnlab.results import older_results

    older = ", ".join(folder.name for folder in older_results(run))
    if older:
        text = (
            f"Warning: of an older state of the model in {run} are: {older}; make them again with "
            "--overwrite."
        )
        console.print(text, style="yellow", soft_wrap=True)


PANELS = {
    "corpus": "Corpus",
    "tokenizer": "Tokens",
    "model": "Model",
    "embeddings": "Model",
    "optimizer": "Training",
}
SETTINGS = Annotated[
    Path | None,
    typer.Option(help="TOML file of settings; options typed beside it win."),
]
LIKE = Annotated[
    Path | None,
    typer.Option(
        help="Run whose settings are taken, batch size and warm-up among them; those of --settings and "
        "typed options win."
    ),
]
LAYERS = Annotated[
    int | None, typer.Option(help="Number of encoder layers, and of decoder layers.")
]
RESUME = Annotated[
    bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")
]
OVERWRITE_RUN = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace the run in the folder and its analysis. They are deleted when the new run is "
        "trained, come back if it fails before its first checkpoint, and are kept in .replaced-run "
        "after Ctrl-C; links are deleted, not what they lead to. Refused while the folder holds "
        "importance or pruning, which take long to make.",
    ),
]


@with_options(
    *SECTIONS.values(), DeviceSettings, headings=[*(PANELS[name] for name in SECTIONS), None]
)
def train(
    folder: Annotated[Path, typer.Argument(help="The run directory to write.")],
    *,
    settings: SETTINGS = None,
    like: LIKE = None,
    layers: LAYERS = None,
    resume: RESUME = False,
    overwrite: OVERWRITE_RUN = False,
    **options: Any,
) -> None:
    """Trains a model into a run directory, or goes on with one."""
    device = chosen(DeviceSettings, options).device
    words = {
        name: value
        for name, value in options.items()
        if value not in (None, []) and name != "device"
    }
    merged = None
    with warn_once():
        if resume:
            others = {"settings": settings, "like": like, "layers": layers, "overwrite": overwrite}
            _check_same_options(words, others)
        else:
            check_plans(words.get("attention", ()))
            check_corpus(words.get("corpus"))
            taken = _settings_of_run(like)
            merged = settings_from(_merged(_read_settings(settings), words, layers, taken))
            if like is not None:
                _tell_taken(like, settings_from(taken), merged)
    # Several processes are told of a refusal together, which needs their libraries.
    if not one_of_several():
        _check_one_way(
            folder, resume=resume, overwrite=overwrite,
            inputs=words | {"settings": settings, "like": like and like / RUN_MARK},
        )  # fmt: skip
    _train(folder, merged, epochs=words.get("epochs"), overwrite=overwrite, device=device)


def _check_one_way(
    folder: Path, *, resume: bool, overwrite: bool, inputs: Mapping[str, Any]
) -> None:
    from attnlab.core import locked, paths_in
    from attnlab.models import prepare_folder, prepare_resuming

    with locked(folder):
        if resume:
            prepare_resuming(folder)
        else:
            prepare_folder(folder, overwrite=overwrite, inputs=paths_in(inputs))


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

    from attnlab.core import launched_processes, quiet
    from attnlab.corpora import notes_on_tables
    from attnlab.models import resume, train

    console = messages()
    command = shlex.join(["attnlab", *map(word_label, sys.argv[1:])])
    with quiet():
        if settings is None:
            trained = resume(folder, epochs=epochs, device=device, console=console)
        else:
            trained = train(
                folder, settings,
                overwrite=overwrite, command=command, device=device, console=console,
            )  # fmt: skip
    if launched_processes().first:
        if settings is not None:
            print_notes(notes_on_tables(settings.corpus.name))
        report_training(trained, console, device=device)
    if trained.interrupted:
        raise typer.Exit(INTERRUPTED)


def _check_same_options(words: dict[str, Any], others: dict[str, Any]) -> None:
    changed = [name for name in words if name != "epochs"]
    changed += [name for name, value in others.items() if value is not None and value is not False]
    if changed:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        msg = f"{names} cannot be changed when a run is resumed; leave it out or train a new run."
        raise InputError(msg)


def _read_settings(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    if not path.exists():
        msg = f"There is no settings file {path}; check the path."
        raise InputError(msg)
    return read_toml(path)


def _settings_of_run(run: Path | None) -> dict[str, Any]:
    """All settings of a run; none without one."""
    if run is None:
        return {}
    from attnlab.models import read_record, settings_here

    return settings_here(run, settings_from(read_record(run)["settings"])).as_dict()


def _worded(value: Any) -> str:
    """A setting in a line of many; of a plan, how many heads it has."""
    if not isinstance(value, dict):
        return str(value)
    return f"for {counted(len(value), 'head')}" if value else "none"


def _tell_taken(run: Path, taken: RunSettings, merged: RunSettings) -> None:
    """Tells which settings are those of another run although the defaults differ, and which are not."""
    if not first_of_several():
        return
    flat = [_flat(settings) for settings in (RunSettings(), taken, merged)]
    rows = [(name, *(values.get(name) for values in flat)) for name in flat[-1]]
    same = [f"{name} {_worded(now)}" for name, usual, then, now in rows if then == now != usual]
    other = [
        f"{name} {_worded(now)} instead of {_worded(then)}"
        for name, _, then, now in rows
        if then != now
    ]
    messages().print(
        f"Settings of {run}: {', '.join(same) or 'all defaults'}; "
        f"overridden: {', '.join(other) or 'none'}.",
        soft_wrap=True,
        highlight=False,
    )


def _flat(settings: RunSettings) -> dict[str, Any]:
    return {
        f"{section}.{name}": value
        for section, keys in settings.as_dict().items()
        for name, value in keys.items()
    }


def _merged(
    values: dict[str, Any],
    words: dict[str, Any],
    layers: int | None,
    taken: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The settings taken from another run, those of a file over them, and the typed options over both."""
    settings_from(values)
    merged = {
        section: {**taken.get(section, {}), **values.get(section, {})}
        for section in (*SECTIONS, *values)
        if section in taken or section in values
    }
    if layers is not None:
        both = {"encoder_layers": layers, "decoder_layers": layers}
        merged["model"] = merged.get("model", {}) | both
    tokenizer = _tokenizer_of_plans(words.get("attention", []))
    if tokenizer is not None:
        words = {"tokenizer_checksum": tokenizer, **words}
    for section, kind in SECTIONS.items():
        typed_values = typed(kind, words)
        if "attention" in typed_values:
            typed_values["attention"] = _mechanisms_by_address(typed_values["attention"])
        if typed_values:
            merged[section] = merged.get(section, {}) | typed_values
    return merged


def _mechanisms_by_address(words: list[str]) -> dict[str, str]:
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
    from attnlab.attention import load_plan

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


# With their headings on the help page.
EMBED_PANELS = {
    SkipGramSettings: "Vectors",
    CorpusSettings: "Corpus",
    SideSettings: "Corpus",
    TokenizerSettings: "Tokens",
}


@with_options(*EMBED_PANELS, headings=list(EMBED_PANELS.values()))
def embed(
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
    *,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Trains word vectors into a folder."""
    skip_gram = chosen(SkipGramSettings, options)
    corpus, side = chosen(CorpusSettings, options), chosen(SideSettings, options)
    tokenizer = chosen(TokenizerSettings, options)
    check_corpus(options.get("corpus"))

    from attnlab.core import quiet
    from attnlab.corpora import notes_on_tables
    from attnlab.models import embed as train_embeddings

    with quiet(), progress_bars() as tell:
        embeddings = train_embeddings(
            folder, skip_gram,
            corpus=corpus, tokenizer=tokenizer, side=side, overwrite=overwrite, progress=tell,
        )  # fmt: skip
    print_notes(notes_on_tables(corpus.name))
    messages().print(
        f"{len(embeddings.words):,} words, {embeddings.dim} dimensions: {folder}. "
        f"Next: attnlab neighbours {folder} WORD",
        soft_wrap=True,
    )
