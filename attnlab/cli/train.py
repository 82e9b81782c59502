"""`attnlab train`: a translation model from parallel text, into a run directory."""

import dataclasses
import inspect
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.errors import InputError
from attnlab.translation.settings import RunSettings, settings_from

if TYPE_CHECKING:
    from rich.console import Console

    from attnlab.translation.training import Trained

PANELS = {"corpus": "Corpus", "tokenizer": "Tokens", "model": "Model", "optimizer": "Training"}
INTERRUPTED = 130


def _setting_options() -> Iterator[tuple[str, str, inspect.Parameter]]:
    """Section, key and command line parameter of every setting; `settings.py` is their one home.

    An option that was not typed is None, so that it leaves the settings file's value alone.
    """
    for section in dataclasses.fields(RunSettings):
        for setting in dataclasses.fields(section.default_factory):  # type: ignore[arg-type]
            flag = setting.metadata["flag"] or f"--{setting.name.replace('_', '-')}"
            several = setting.default is dataclasses.MISSING
            shown = _shown(flag, setting.default)
            option = typer.Option(
                flag,
                help=setting.metadata["help"] + (f" (default {shown})" if shown else ""),
                show_default=False,
                rich_help_panel=PANELS[section.name],
            )
            parameter = inspect.Parameter(
                flag.split("/")[0].strip("-").replace("-", "_"),
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[(list[str] if several else setting.type) | None, option],  # type: ignore[operator]
            )
            yield section.name, setting.name, parameter


def _shown(flag: str, default: Any) -> str | None:
    """The default as the help page prints it; a flag by the name that stands for it."""
    if isinstance(default, bool):
        names = flag.replace("--", "").split("/")
        return names[0] if default else (names[1] if len(names) > 1 else None)
    return None if default in (None, dataclasses.MISSING) else str(default)


def _with_setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every setting in place of `**options`."""
    signature = inspect.signature(command)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    settings = [parameter for _, _, parameter in _setting_options()]
    command.__signature__ = signature.replace(parameters=own + settings)  # type: ignore[attr-defined]
    return command


@_with_setting_options
def train(
    folder: Annotated[Path, typer.Argument(help="The run directory to write.")],
    *,
    settings: Annotated[
        Path | None,
        typer.Option(help="A TOML file with settings; options typed beside it win."),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="Encoder layers and decoder layers alike.")
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

    The loss beside the progress bar is that of training, with smoothed labels; tokens/s are target tokens
    since the last evaluation, as in metrics.jsonl.
    """
    from attnlab.translation.runs.folder import read_record, refuse_existing
    from attnlab.translation.runs.replacement import recover

    typed = {name: value for name, value in options.items() if value not in (None, [])}
    if resume:
        _refuse_changes(typed, settings, layers, overwrite=overwrite)
        recover(folder)
        read_record(folder)
    else:
        recover(folder, overwrite=overwrite)
        refuse_existing(folder, overwrite=overwrite)
        chosen = settings_from(_merged(_from_file(settings), typed, layers))

    from rich.console import Console

    from attnlab.translation.quiet import quiet
    from attnlab.translation.training import resume as go_on
    from attnlab.translation.training import train as begin

    console = Console(stderr=True)
    if resume:
        with quiet():
            trained = go_on(folder, epochs=typed.get("epochs"), console=console)
    else:
        with quiet():
            trained = begin(
                folder,
                chosen,
                overwrite=overwrite,
                command=shlex.join(["attnlab", *sys.argv[1:]]),
                console=console,
            )
    _report(trained, console)


def _refuse_changes(
    typed: dict[str, Any], settings: Path | None, layers: int | None, *, overwrite: bool
) -> None:
    others = {"settings": settings, "layers": layers, "overwrite": overwrite or None}
    changed = [name for name in typed if name != "epochs"]
    changed += [name for name, value in others.items() if value is not None]
    if changed:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        msg = f"{names} cannot be changed when a run is resumed; leave it out or train a new run."
        raise InputError(msg)


def _from_file(path: Path | None) -> dict[str, Any]:
    import tomllib

    from attnlab.texts import read_text

    if path is None:
        return {}
    if not path.exists():
        msg = f"There is no settings file {path}; check the path."
        raise InputError(msg)
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        msg = f"{path} is not a TOML file that can be read ({error}); the README shows one."
        raise InputError(msg) from error


def _merged(
    values: dict[str, Any], typed: dict[str, Any], layers: int | None
) -> dict[str, dict[str, Any]]:
    """The settings of a file with the typed options put over them."""
    settings_from(values)
    merged = {section: dict(keys) for section, keys in values.items()}
    if layers is not None:
        both = {"encoder_layers": layers, "decoder_layers": layers}
        merged["model"] = merged.get("model", {}) | both
    for section, key, parameter in _setting_options():
        if parameter.name in typed:
            value = typed[parameter.name]
            merged.setdefault(section, {})[key] = (
                _by_address(value) if key == "attention" else value
            )
    return merged


def _by_address(words: list[str]) -> dict[str, str]:
    """Mechanisms by address, from words such as `encoder=band(window=3)` and files of plans."""
    entries: dict[str, str] = {}
    for word in words:
        address, equals, text = word.partition("=")
        if word.endswith(".json") and address in {"plan", word}:
            from attnlab.attention.plan import load_plan

            entries |= load_plan(Path(text or word)).as_dict()
        elif not equals or "(" in address:
            msg = f"--attention {word} names no site; write it like: encoder=band(window=3)."
            raise InputError(msg)
        else:
            entries[address.strip()] = text
    return entries


def _report(trained: "Trained", console: "Console") -> None:
    from attnlab.translation.trainer import READABLE_BLEU
    from attnlab.translation.training import kept_evaluation

    pairs = trained.record["corpus"]["pairs"]
    dropped = trained.record["corpus"]["dropped_over_max_tokens"]
    console.print(
        f"Pairs: {', '.join(f'{count:,} {name}' for name, count in pairs.items())}; "
        f"dropped as too long: {', '.join(f'{count} {name}' for name, count in dropped.items())}.",
        soft_wrap=True,
    )
    kept = kept_evaluation(trained)
    if kept is not None:
        console.print(
            f"{trained.parameters:,} parameters, kept as after epoch {kept['epoch']:g}: validation BLEU "
            f"{kept['validation_bleu']:.1f} (chrF {kept['validation_chrf']:.1f}), "
            f"loss {kept['validation_loss']:.2f}.",
            soft_wrap=True,
        )
    if kept is not None and kept["validation_bleu"] < READABLE_BLEU:
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
    if trained.interrupted:
        raise typer.Exit(INTERRUPTED)
    console.print(f"Run: {trained.folder}. Next: attnlab analyze {trained.folder}", soft_wrap=True)
