"""Nearest neighbours of words in the embeddings of a run, a file, or any transformers model."""

from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import InputError, options_of, path_label
from attnlab.models import (
    COMPONENTS,
    FEWEST_WORDS,
    Embeddings,
    Model,
    Run,
    Source,
    holds_embeddings,
    load_embeddings,
    map_of,
    model_of,
    nearest,
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
    words = [*dict.fromkeys(table["word"])]
    shown, groups = [*words, *table["neighbour"]], [*words, *table["word"]]
    drawable = len(set(shown)) >= FEWEST_WORDS and embeddings.dim >= COMPONENTS
    path = source.name if isinstance(source, Model) else source
    name = path_label(path) if path and isinstance(path, str | Path) else "what was given"
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
    if isinstance(source, Embeddings):
        loaded: Embeddings | Model = source
    elif isinstance(source, str | Path) and holds_embeddings(source):
        loaded = load_embeddings(source)
    else:
        loaded = model_of(source, scores=False)
    if side == "target":
        if not isinstance(loaded, Run):
            msg = "The side target is for runs, which may have two vocabularies; leave it out."
            raise InputError(msg)
        return _of_table(loaded.model.decoder.embedding.tokens.weight, loaded.tokenizers.target)
    if isinstance(loaded, Embeddings):
        return loaded
    return _of_table(loaded.model.get_input_embeddings().weight, loaded.both_tokenizers.source)


def _of_table(table: Any, tokenizer: Any) -> Embeddings:
    # A table may have more rows than there are tokens, to be a multiple of 64.
    rows = min(len(tokenizer), len(table))
    words = tokenizer.convert_ids_to_tokens(range(rows))
    vectors = table[:rows].detach().float().cpu()
    # A vocabulary may hold an id that no token has.
    rows_by_word = {word: row for row, word in enumerate(words) if word is not None}
    embeddings = Embeddings(tuple(rows_by_word), vectors[list(rows_by_word.values())])
    return embeddings.without(tokenizer.all_special_tokens)
