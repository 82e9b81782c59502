"""Nearest neighbours of words in the embeddings of a run, a file, or any transformers model."""

from pathlib import Path
from typing import Any, cast

import pandas as pd

from attnlab.core import InputError, options_of, path_label
from attnlab.evaluation import load_transformers, versions_in_words
from attnlab.models import (
    COMPONENTS,
    FEWEST_WORDS,
    Embeddings,
    Run,
    Source,
    holds_embeddings,
    load_embeddings,
    map_of,
    nearest,
    run_at,
)
from attnlab.questions.neighbours.question import MAP, NeighbourSettings
from attnlab.results import Result


@options_of(NeighbourSettings)
def neighbours(source: Source | Embeddings, settings: NeighbourSettings) -> Result:
    """The words nearest by cosine to each of `words`, and a map of them.

    Args:
        source: a run or its folder, a folder of `attnlab embed`, a file of embeddings (.safetensors, or
            word2vec text .txt or .vec), a transformers folder, the name of a model on the hub, a pair (model,
            tokenizer), or embeddings. Words are written as in its vocabulary, or without the mark that
            begins a word there.
        settings: as keyword arguments.

    Returns:
        The tables `neighbours` (a row per word and neighbour) and `map` (a row per word shown, those asked
        for and their neighbours; empty where these are too few).

    Raises:
        InputError: no such source, a word is not in its vocabulary, or an argument cannot be used.
    """
    embeddings = embeddings_of(source, settings.side)
    table = nearest(embeddings, settings.words, settings.count)
    asked = [*dict.fromkeys(table["word"])]
    shown, groups = [*asked, *table["neighbour"]], [*asked, *table["word"]]
    drawable = len(set(shown)) >= FEWEST_WORDS and embeddings.dim >= COMPONENTS
    path = source.folder if isinstance(source, Run) else source
    name = path_label(path) if isinstance(path, str | Path) else "what was given"
    return Result(
        question="neighbours",
        title=f"Neighbours of words in {name}",
        tables={
            "neighbours": table,
            "map": map_of(embeddings, shown, groups)
            if drawable
            else pd.DataFrame(columns=list(MAP)),
        },
        about={
            "Source": name,
            "Vocabulary": f"{len(embeddings.words):,} words, {embeddings.dim} dimensions",
            **versions_in_words(),
        },
    )


def embeddings_of(source: Source | Embeddings, side: str = "source") -> Embeddings:
    """The token vectors of a run, file or model, those of special tokens left out.

    Args:
        source: as for `neighbours`.
        side: `source` or `target`, where a run has two vocabularies.

    Raises:
        InputError: there is no such source, or `side` is `target` and it is no run.
    """
    run = None if isinstance(source, Embeddings) else run_at(source)
    if side == "target" and run is None:
        msg = "The side target is for runs, which may have two vocabularies; leave it out."
        raise InputError(msg)
    if isinstance(source, Embeddings):
        return source
    if isinstance(source, tuple):
        return _of_model(*source)
    if run is None:
        path = cast("str | Path", source)
        if holds_embeddings(path):
            return load_embeddings(path)
        return _of_model(*load_transformers(path, scores=False))
    if side == "target":
        return _of_table(run.model.decoder.embedding.tokens.weight, run.tokenizers.target)
    return _of_table(run.model.get_input_embeddings().weight, run.tokenizers.source)


def _of_model(model: Any, tokenizer: Any) -> Embeddings:
    return _of_table(model.get_input_embeddings().weight, tokenizer)


def _of_table(table: Any, tokenizer: Any) -> Embeddings:
    # A table may have more rows than there are tokens, to be a multiple of 64.
    rows = min(len(tokenizer), len(table))
    words = tokenizer.convert_ids_to_tokens(range(rows))
    vectors = table[:rows].detach().float().cpu()
    # A vocabulary may hold an id that no token has.
    rows_by_word = {word: row for row, word in enumerate(words) if word is not None}
    found = Embeddings(tuple(rows_by_word), vectors[list(rows_by_word.values())])
    return found.without(tokenizer.all_special_tokens)
