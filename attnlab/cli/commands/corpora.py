"""`attnlab corpora`: which corpora there are, and how large one of them is."""

from typing import Annotated

import typer

from attnlab.cli.output import new_table, output, print_json, print_table, results
from attnlab.cli.progress import progress_bars
from attnlab.core.errors import InputError


def corpora(
    corpus: Annotated[
        str | None,
        typer.Argument(help="Corpus to look at: a path, embedded, or a name on the hub."),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(help="Source and target language (default: en-it, or the first there is)."),
    ] = None,
    document: Annotated[
        int, typer.Option(help="Number of consecutive sentences that are joined into a document.")
    ] = 1,
) -> None:
    """List the corpora that can be used, or show the size of one."""
    if corpus is None:
        if pair is not None or document != 1:
            msg = "--pair and --document are of one corpus; name it: attnlab corpora NAME."
            raise InputError(msg)
        _print_catalogue()
    else:
        _print_summary(corpus, pair, document)


def _print_catalogue() -> None:
    from attnlab.corpora.catalogue import catalogue

    if output().as_json:
        print_json(corpora=[vars(entry) for entry in catalogue()])
        return
    prose = ("languages or form", "size")
    table = new_table("--corpus", *prose, "network", prose=prose)
    for entry in catalogue():
        network = "not needed" if entry.offline else "needed once"
        table.add_row(entry.name, entry.languages, entry.size, network)
    print_table(table)
    results().print(
        "Files may end in .gz. Choose languages with --pair, and see a corpus with: "
        "attnlab corpora PATH"
    )


def _print_summary(name: str, pair: str | None, document: int) -> None:
    from attnlab.corpora.catalogue import list_pairs, summarise_corpus
    from attnlab.corpora.corpus import DEFAULT_PAIR, load_corpus

    pairs = list_pairs(name)
    chosen = pair or next(iter(pairs), DEFAULT_PAIR)
    with progress_bars() as tell:
        corpus = load_corpus(name, pair=chosen, document=document, progress=tell)
    summary = summarise_corpus(corpus)
    if output().as_json:
        print_json(splits=summary, pairs=list(pairs), checksum=corpus.checksum)
        return
    console = results()
    console.print(
        f"{name}, {corpus.source_language}-{corpus.target_language}, "
        f"checksum {corpus.checksum[:12]}"
    )
    if len(pairs) > 1:
        console.print(f"Pairs: {', '.join(pairs)}")
    numbers = ("pairs", "mean words", "95 % at most")
    table = new_table("split", "language", *numbers, numbers=numbers)
    for _, row in summary.iterrows():
        counts = (f"{row['pairs']:,}", f"{row['words_mean']:.1f}", f"{row['words_percentile_95']}")
        table.add_row(row["split"], row["language"], *counts)
    print_table(table)
