"""Options of the command line, made from the fields of settings and turned into settings again."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer

from attnlab.core import (
    InputError,
    OptionField,
    Settings,
    option_fields,
)

Chosen = TypeVar("Chosen", bound=Settings)
OVERWRITE = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace the result that this command wrote there before, or the file that an option names.",
    ),
]


def check_overwrite(overwrite: bool, **outputs: Path | None) -> None:
    """Refuses `--overwrite` where nothing is written.

    Args:
        overwrite: whether it was given.
        outputs: what the options that name files or folders to write to were given, by option.

    Raises:
        InputError: it was, and none of them.
    """
    if overwrite and all(path is None for path in outputs.values()):
        names = " or ".join(f"--{name}" for name in outputs)
        msg = (
            f"--overwrite replaces what {names} names, and nothing is written without; add it, or leave "
            "--overwrite out."
        )
        raise InputError(msg)


def with_options(
    *settings: type[Settings], headings: Sequence[str | None] = (None,)
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command an option or argument for each field of the settings, instead of its `**options`.

    An option that was not typed is None, so that the default has one home, the settings.

    Args:
        settings: classes of settings.
        headings: what stands above the options of each on the help page.
    """
    fields = [
        (field, heading)
        for kind, heading in zip(settings, headings, strict=True)
        for field in option_fields(kind)
    ]

    flags = {field.name: _typed_name(field) for field, _ in fields}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def naming_flags(*given: Any, **options: Any) -> None:
            try:
                command(*given, **options)
            except InputError as error:
                if not error.options:
                    raise
                raise type(error)(error.naming(flags)) from error

        signature = inspect.signature(command)
        kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        arguments = [p for p in kept if p.kind is not p.KEYWORD_ONLY]
        made = [_parameter(field, heading) for field, heading in fields]
        parameters = [*arguments, *made, *kept[len(arguments) :]]
        naming_flags.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return naming_flags

    return decorate


def chosen(settings: type[Chosen], options: Mapping[str, Any]) -> Chosen:
    """The settings with the options that were typed.

    Raises:
        InputError: a text that cannot be read, or a value that cannot be used.
    """
    return settings(**typed(settings, options))


def typed(settings: type[Settings], options: Mapping[str, Any]) -> dict[str, Any]:
    """The values by field of those options that were typed.

    Raises:
        InputError: a text that cannot be read, or a value that cannot be used.
    """
    values = {}
    for field in option_fields(settings):
        value = options.get(parameter_name(field))
        if value not in (None, []):
            values[field.name] = field.read(value)
            if not _is_table(field.kind):
                # Told under the name that was typed.
                field.refuse(values[field.name], _typed_name(field))
    return values


def parameter_name(field: OptionField) -> str:
    """The name of the command's parameter: that of the first flag."""
    return _flags(field)[0].split("/")[0].lstrip("-").replace("-", "_")


def _typed_name(field: OptionField) -> str:
    """The name on the help page: an argument in capitals, an option by its first flag."""
    name = _flags(field)[0].split("/")[0]
    return parameter_name(field).upper() if field.option.argument else name


def _flags(field: OptionField) -> tuple[str, ...]:
    return field.option.flags or (f"--{field.name.replace('_', '-')}",)


def _parameter(field: OptionField, panel: str | None) -> inspect.Parameter:
    shown = shown_default(field)
    words: Any = {
        "help": field.option.help.removesuffix(".") + (f" (default: {shown})." if shown else "."),
        "show_default": False,
        "rich_help_panel": panel,
    }
    option = (
        typer.Argument(**words) if field.option.argument else typer.Option(*_flags(field), **words)
    )
    must = field.default is dataclasses.MISSING and not _is_table(field.kind)
    kind = _typed_kind(field)
    return inspect.Parameter(
        parameter_name(field),
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if must else None,
        annotation=Annotated[kind if must else kind | None, option],
    )


def shown_default(field: OptionField) -> str | None:
    """The default as the help page prints it; a flag by the name that stands for it."""
    value = field.default
    if field.option.shown is not None:
        return field.option.shown
    if isinstance(value, bool):
        names = _flags(field)[0].replace("--", "").split("/")
        return names[0] if value else (names[1] if len(names) > 1 else None)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return None if value in (None, dataclasses.MISSING) else str(value)


def _typed_kind(field: OptionField) -> Any:
    """The type that typer reads: the most particular one that a word can be."""
    if field.option.read is not None:
        return str
    if _is_table(field.kind):
        return list[str]
    kind = _most_particular(field.kinds())
    if kind is not None:
        return kind
    several = next(kind for kind in field.kinds() if get_origin(kind) is not None)
    inner = get_args(several)[0]
    return list[_most_particular(get_args(inner) or (inner,))]  # type: ignore[misc]  # for typer


def _most_particular(kinds: Sequence[Any]) -> Any:
    return next((kind for kind in (bool, int, float, Path, str) if kind in kinds), None)


def _is_table(kind: Any) -> bool:
    return get_origin(kind) is dict
