"""The command of a question, made of what the question declares."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.command_options import (
    OVERWRITE,
    check_overwrite,
    chosen,
    with_options,
)
from attnlab.cli.output import (
    AS_TEXT,
    check_form,
    messages,
    output,
    print_json,
    print_notes,
    print_text,
)
from attnlab.cli.progress import progress_bars
from attnlab.core import (
    InputError,
    Settings,
    check_no_links,
    last_in_place,
    launched,
    one_of_several,
)
from attnlab.evaluation import check_matrix_file_exists, check_source_exists
from attnlab.results import Question

if TYPE_CHECKING:
    from attnlab.results import Result

FORM = Annotated[
    str,
    typer.Option("--format", help="Form of the main table: text, csv, markdown or latex."),
]


def command_of(question: Question) -> Callable[..., None]:
    """`attnlab NAME SOURCE`, with the arguments and options of the question's settings."""
    source_help = typer.Argument(help=question.source)
    folder = question.folder
    unasked = (
        "nothing is written" if folder is None else f"RUN/{folder}; of other sources: {folder}"
    )
    out_help = typer.Option(
        help=f"Folder to write the {question.what} to: {', '.join(question.files)}, "
        f"figures, a page and what the columns mean (default: {unasked})."
    )

    def command(
        source: Annotated[str, source_help],
        *,
        out: Annotated[Path | None, out_help] = None,
        overwrite: OVERWRITE = False,
        form: FORM = AS_TEXT,
        **options: Any,
    ) -> None:
        check_form(form)
        settings = chosen(question.settings, options)
        if out is None and folder is not None:
            from attnlab.models import is_run

            # Folders of other programs stay as they are.
            around = source if is_run(source) else "."
            # Only what a user types may be a link.
            check_no_links(around, [f"{folder}/*"])
            out = Path(around) / folder
        check_overwrite(overwrite, out=out)
        written = [path for name in question.writes if (path := getattr(settings, name))]

        def check() -> None:
            _check_beforehand(question, source, settings, out, overwrite=overwrite)

        with last_in_place(written):
            result = _answer(question, source, settings, check, out, overwrite=overwrite)
            if result is None:
                return
            if out is not None:
                written += [out, *(out / name for name in result.extra)]
        for path in written:
            messages().print(f"Wrote {path}.", soft_wrap=True)
        print_result(result, out, form)

    command.__name__, command.__doc__ = question.name, question.help
    return with_options(question.settings)(command)


def _check_beforehand(
    question: Question, source: str, settings: Settings, out: Path | None, *, overwrite: bool
) -> None:
    """Raises InputError for what can be told before the work, and before libraries that load slowly."""
    if out is not None:
        from attnlab.results import check_free, files_of, inputs_of

        files, inputs = files_of(question), inputs_of(question, source, settings)
        check_free(out, files, files.named(settings), overwrite=overwrite, inputs=inputs)
    if "model" not in question.sources:
        check_matrix_file_exists(source)
    elif "embeddings" not in question.sources or not Path(source).exists():
        check_source_exists(source, matrices="matrices" in question.sources)
    if question.writes:
        from attnlab.results import check_writes

        check_writes(question, source, settings, overwrite=overwrite, out=out)
    settings.check_source(source)


def _answer(
    question: Question,
    source: str,
    settings: Settings,
    check: Callable[[], None],
    out: Path | None,
    *,
    overwrite: bool,
) -> "Result | None":
    """The result, after `check`; None in all but the first of several processes that share the work.

    It is saved in `out`, where that is named: figures and the page of a large model are work too.
    """
    given = settings.keywords()
    shared = "processes" in given
    # Several processes must be told of a refusal together, which needs their libraries.
    if not (shared and one_of_several()):
        check()

    described = launched() if shared else None
    first = described is None or described[0] == 0
    # The time depends on it, and nobody has to give it.
    keys = ", ".join(map(str, given.get("budgets", ())))
    at = f" at {keys} keys per row (--budget)" if keys else ""
    with progress_bars(shown=first, announced=question.announced, at=at) as tell:
        # On a busy machine these alone take many seconds.
        from attnlab.core import Processes, quiet
        from attnlab.results import Result

        processes = Processes(*described) if described else Processes()
        # Not every question has something to count, work to share or a file to write.
        extra = {"progress": tell, "processes": processes, "overwrite": overwrite}
        with quiet(), processes.together():
            if processes.count > 1:
                check()
            question.check()
            result = question.verb(source, **given | {k: extra[k] for k in extra if k in given})
            if not isinstance(result, Result):
                msg = (
                    f"The question '{question.name}' gave an object of the class {type(result).__name__}; "
                    "attnlab.results.result.Result is wanted."
                )
                raise InputError(msg)
            if out is not None and processes.first:
                tell.name("Writing tables, figures and the page")
                result.save(out, overwrite=overwrite, progress=tell)
    return result if processes.first else None


def print_result(result: "Result", folder: Path | None, form: str = AS_TEXT, **others: Any) -> None:
    """Prints the tables of a result as a terminal shows them or as JSON, and its notes.

    Args:
        result: of any question.
        folder: where it was written; None: nowhere.
        form: in which the main table is printed where that is not as JSON.
        others: what else the JSON object holds.
    """
    _print_tables(result, folder, form, **others)
    print_notes(result.notes)


def _print_tables(result: "Result", folder: Path | None, form: str, **others: Any) -> None:
    if output().as_json:
        tables = (table.name for table in result.asked.tables[: result.asked.printed])
        written: dict[str, Any] = {}
        if folder is not None:
            extra = [folder / name for name in result.extra]
            written = {"folder": folder} | ({"extra": extra} if extra else {})
        print_json(
            **{name: result.tables[name] for name in tables if name in result.tables},
            notes=list(map(str, result.notes)),
            **written,
            **others,
        )
        return
    if form != AS_TEXT:
        print_text(result.formatted(form).removesuffix("\n"))
        return
    from attnlab.results import print_shown

    for table in result.terminal():
        print_shown(table)
