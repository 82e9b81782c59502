"""The command of a question, made of what the question declares."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.early import check_matrices_there, check_source_there, check_texts_there
from attnlab.cli.notes import print_notes
from attnlab.cli.options import OVERWRITE, check_overwrite, chosen, with_options
from attnlab.cli.output import (
    AS_TEXT,
    check_form,
    messages,
    new_table,
    output,
    print_json,
    print_table,
    print_text,
)
from attnlab.cli.progress import progress_bars
from attnlab.core.errors import InputError
from attnlab.core.options import Settings
from attnlab.results.question import Question

if TYPE_CHECKING:
    from attnlab.results.result import Result

FORM = Annotated[
    str,
    typer.Option("--format", help="Form of the main table: text, csv, markdown or latex."),
]


def command_of(question: Question) -> Callable[..., None]:
    """`attnlab NAME SOURCE`, with the arguments and options of the question's settings."""
    source_help = typer.Argument(help=question.source)
    own = question.folder
    of_a_name = "" if question.only_runs else f"; for a name: {own}"
    unasked = "nothing is written" if own is None else f"SOURCE/{own}{of_a_name}"
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
        if out is None and own is not None:
            out = Path(source) / own if Path(source).is_dir() else Path(own)
        check_overwrite(overwrite, out=out)
        _check_beforehand(question, source, settings, out, overwrite=overwrite)
        result = _answer(question, source, settings)
        if out is not None:
            result.save(out, overwrite=overwrite)
            for path in (out, *(out / name for name in result.extra)):
                messages().print(f"Wrote {path}.", soft_wrap=True)
        print_notes(result.notes)
        _print(result, out, form)

    command.__name__, command.__doc__ = question.name, question.help
    return with_options(question.settings)(command)


def _check_beforehand(
    question: Question, source: str, settings: Settings, out: Path | None, *, overwrite: bool
) -> None:
    """Raises InputError for what can be told before the work, which may take long."""
    if out is not None:
        from attnlab.results.files import check_free, files_of

        files = files_of(question)
        check_free(out, files, files.named(settings), overwrite=overwrite)
    if question.only_runs:
        from attnlab.models.run_folder import read_record

        read_record(source)
    elif question.only_matrices:
        check_matrices_there(Path(source))
    elif not (question.embeddings and Path(source).exists()):
        check_source_there(source, matrices=question.matrices)
    check_texts_there(settings)
    question.check()


def _answer(question: Question, source: str, settings: Settings) -> "Result":
    from attnlab.core.library_state import quiet
    from attnlab.results.result import Result

    given = settings.keywords()
    with quiet(), progress_bars(announced=question.announced) as tell:
        # Not every question has something to count.
        counting = {"progress": tell} if "progress" in given else {}
        result = question.verb(source, **given | counting)
    if not isinstance(result, Result):
        msg = (
            f"The question '{question.name}' gave an object of the class {type(result).__name__}; "
            "attnlab.results.result.Result is wanted."
        )
        raise InputError(msg)
    return result


def _print(result: "Result", folder: Path | None, form: str) -> None:
    if output().as_json:
        tables = (table.name for table in result.asked.tables[: result.asked.printed])
        written: dict[str, Any] = {}
        if folder is not None:
            extra = [folder / name for name in result.extra]
            written = {"folder": folder} | ({"extra": extra} if extra else {})
        print_json(**{name: result.tables[name] for name in tables}, notes=result.told, **written)
        return
    if form != AS_TEXT:
        print_text(result.formatted(form).removesuffix("\n"))
        return
    for table in result.terminal():
        shown = new_table(
            *table.headings,
            numbers=table.numbers,
            title=table.title,
            caption=table.caption,
            gap=table.gap,
            prose=table.prose,
        )
        for row in table.rows:
            shown.add_row(*row)
        print_table(shown)
