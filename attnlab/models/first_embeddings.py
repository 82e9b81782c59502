"""The token vectors that a model starts from: skip-gram of its own corpus, or those of a file."""

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from attnlab.core import (
    SIDES,
    InputError,
    Progress,
    Side,
    arguments_told,
    check_installed,
    check_not_read,
    check_writable,
    is_of_attnlab,
    path_label,
    paths_in,
    replacing_result,
    versions,
    write_json,
)
from attnlab.corpora import ROWS_AT_ONCE, ParallelCorpus, corpus_paths
from attnlab.models.embedding_settings import SideSettings, SkipGramSettings
from attnlab.models.embeddings import (
    TENSORS,
    TEXT,
    Embeddings,
    load_embeddings,
    train_skip_gram,
    write_embeddings,
)
from attnlab.models.run import corpus_of
from attnlab.models.run_folder import check_not_run
from attnlab.models.tokenizer import (
    SPACE,
    SPECIAL_TOKENS,
    Tokenizers,
    check_tokenizer,
    texts_of,
    train_tokenizers,
)
from attnlab.models.training_settings import (
    CorpusSettings,
    OptimizerSettings,
    RunSettings,
    TokenizerSettings,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

RECORD = "embedding.json"


@arguments_told
def embed(
    folder: str | Path,
    skip_gram: SkipGramSettings | None = None,
    *,
    corpus: CorpusSettings | None = None,
    tokenizer: TokenizerSettings | None = None,
    side: SideSettings | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Embeddings:
    """Skip-gram vectors of the types of a corpus, written to `folder`.

    The training rows are cut by a tokenizer as `attnlab train` makes it from the same options, so that
    a model trained with these options can start from the vectors. `folder` gets
    `embeddings.safetensors`, `embeddings.txt` (word2vec) and `embedding.json`, which says how they
    came about.

    Args:
        folder: where to write.
        skip_gram: size, window and training of the vectors.
        corpus: which text.
        tokenizer: how it is cut into tokens.
        side: which language of the pairs; both by default.
        overwrite: whether embeddings in `folder` may be replaced.
        progress: called with (what is being done, done, in all).

    Raises:
        InputError: gensim is not installed, a setting or the corpus cannot be used, or `folder` holds
            embeddings and `overwrite` is False; nothing is written then.
        AttnlabError: the folder cannot be written.
    """
    folder = Path(folder)
    inputs = paths_in({"corpus": corpus_paths((corpus or CorpusSettings()).name)})
    check_embeddings_free(folder, overwrite=overwrite, inputs=inputs)
    check_installed("gensim")
    chosen, cut = skip_gram or SkipGramSettings(), tokenizer or TokenizerSettings()
    sides = side or SideSettings()
    check_tokenizer(cut.kind, cut.vocabulary)
    run = RunSettings(
        corpus=corpus or CorpusSettings(),
        tokenizer=cut,
        optimizer=OptimizerSettings(seed=chosen.seed),
    )
    text = corpus_of(run)
    tokenizers = train_tokenizers(
        text, kind=cut.kind, vocabulary=cut.vocabulary, shared=cut.shared, counted=False
    )
    embeddings = skip_gram_of(text, tokenizers, chosen, sides.sides, progress)
    record = {
        "versions": versions(("gensim", "tokenizers")),
        "corpus": asdict(run.corpus)
        | {"name": path_label(run.corpus.name), "checksum": text.checksum},
        "tokenizer": asdict(cut),
        "side": sides.side,
        "skip_gram": asdict(chosen),
        "words": len(embeddings.words),
    }
    with replacing_result(folder, TENSORS) as aside:
        write_embeddings(aside, embeddings)
        write_json(aside / RECORD, record)
    return embeddings


def check_embeddings_free(
    folder: str | Path, *, overwrite: bool, inputs: Mapping[Path, str]
) -> None:
    """Raises InputError where `folder` is a file or a run, or holds what `embed` would write.

    With `overwrite` it may hold what `embed` wrote, but for `inputs`, which are by path.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is a file; name a folder to write the embeddings to."
        raise InputError(msg)
    check_not_run(folder, "training of embeddings")
    taken = [name for name in (TENSORS, TEXT, RECORD) if os.path.lexists(folder / name)]
    check_not_read((folder / name for name in taken), inputs)
    if taken and not is_of_attnlab(folder, [RECORD]):
        msg = f"{folder} holds {', '.join(taken)}, and no embeddings of attnlab embed; name another folder."
        raise InputError(msg)
    if taken and not overwrite:
        msg = (
            f"{folder} already holds {', '.join(taken)}; name another folder, or set overwrite to "
            "replace them."
        )
        raise InputError(msg)
    check_writable(folder)


def skip_gram_of(
    corpus: ParallelCorpus,
    tokenizers: Tokenizers,
    settings: SkipGramSettings,
    sides: Sequence[Side] = SIDES,
    progress: Progress | None = None,
) -> Embeddings:
    """Skip-gram vectors of the tokens of the training rows; each side of a row is a sentence of its own.

    Raises:
        InputError: no sentence has two tokens.
    """
    by_side = dict(zip(SIDES, (tokenizers.source, tokenizers.target), strict=True))
    parts = [TokenSentences(by_side[side], texts_of(corpus.train, side)) for side in sides]
    return train_skip_gram(_Together(parts), settings, progress)


class TokenSentences:
    """The tokens of texts, special ones left out, which are read any number of times.

    Four bytes a token are kept.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", texts: Iterable[str]) -> None:
        self._types = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        special = {number for number, text in enumerate(self._types) if text in SPECIAL_TOKENS}
        self._ids, self._ends = array("i"), array("q", [0])
        rest = iter(texts)
        while some := list(islice(rest, ROWS_AT_ONCE)):
            for ids in tokenizer(some, add_special_tokens=False)["input_ids"]:
                self._ids.extend(number for number in ids if number not in special)
                self._ends.append(len(self._ids))

    def __iter__(self) -> Iterator[list[str]]:
        for start, end in pairwise(self._ends):
            yield [self._types[number] for number in self._ids[start:end]]


class _Together:
    """Several collections of sentences one after another, which can be read any number of times."""

    def __init__(self, parts: Sequence[Iterable[list[str]]]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[list[str]]:
        return chain.from_iterable(self._parts)


SKIP_GRAM = "skipgram"
# Embeddings that hold fewer of the types of a vocabulary are of another one.
LEAST_COVERED = 0.5


def check_embeddings(settings: RunSettings) -> None:
    """Raises where a training cannot start from the embeddings that its settings name.

    Raises:
        InputError: a file holds no embeddings, or vectors of another size than the model's, or skip-gram is
            wanted and gensim is not installed.
    """
    start = settings.embeddings.start
    if start is None:
        return
    if start == SKIP_GRAM:
        check_installed("gensim")
        return
    embeddings = load_embeddings(start)
    if embeddings.dim != settings.model.dim:
        msg = (
            f"The embeddings of {start} have {embeddings.dim} dimensions and the model {settings.model.dim}; "
            f"use dim={embeddings.dim}, or embeddings of that size."
        )
        raise InputError(msg)


def load_first_vectors(
    model: Any, settings: RunSettings, corpus: ParallelCorpus, tokenizers: Tokenizers
) -> None:
    """Puts the vectors that the settings name into the model's embeddings.

    Vectors are scaled together to a mean square of 1 / dim, that of the vectors drawn at random, so that
    they weigh as much beside the positions. Types without a vector keep the one that was drawn. With two
    vocabularies skip-gram is trained on each side alone, and a file goes to each that it covers.

    Raises:
        InputError: a file holds fewer than half of the types of every vocabulary.
    """
    start = settings.embeddings.start
    if start is None:
        return
    tables = _tables(model, tokenizers)
    if start == SKIP_GRAM:
        chosen = SkipGramSettings(dim=settings.model.dim, seed=settings.optimizer.seed)
        for table, tokenizer, sides in tables:
            embeddings = skip_gram_of(corpus, tokenizers, chosen, sides)
            _put(table, tokenizer, embeddings)
        return
    embeddings = load_embeddings(start)
    shares = [_covered(tokenizer, embeddings) for _, tokenizer, _ in tables]
    if max(shares) < LEAST_COVERED:
        msg = (
            f"The embeddings of {start} are of another vocabulary: they hold {max(shares):.0%} of the "
            "model's types; train them with attnlab embed on the same corpus, with the same tokenizer."
        )
        raise InputError(msg)
    for (table, tokenizer, _), share in zip(tables, shares, strict=True):
        if share >= LEAST_COVERED:
            _put(table, tokenizer, embeddings)


def freeze_embeddings(model: Any, tokenizers: Tokenizers) -> None:
    """Keeps the token vectors of a model as they are while it is trained; a tied output layer too."""
    for table, _, _ in _tables(model, tokenizers):
        table.weight.requires_grad_(False)


def _tables(
    model: Any, tokenizers: Tokenizers
) -> list[tuple[nn.Embedding, "PreTrainedTokenizerFast", Sequence[Side]]]:
    """The embeddings of a model, each with its tokenizer and the sides of the corpus that it reads."""
    read: nn.Embedding = model.get_input_embeddings()
    if tokenizers.shared:
        sides: Sequence[Side] = SIDES if model.config.is_encoder_decoder else ("source",)
        return [(read, tokenizers.source, sides)]
    return [
        (read, tokenizers.source, ("source",)),
        (model.decoder.embedding.tokens, tokenizers.target, ("target",)),
    ]


def _rows(tokenizer: "PreTrainedTokenizerFast", embeddings: Embeddings) -> dict[int, int]:
    """The row of each type's vector, by the type's id; a file may write words without attnlab's mark."""
    types = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    rows = {}
    for number, name in enumerate(types):
        forms = (name, name.removeprefix(SPACE))
        row = next(
            (embeddings.positions[form] for form in forms if form in embeddings.positions), None
        )
        if row is not None and name not in SPECIAL_TOKENS:
            rows[number] = row
    return rows


def _covered(tokenizer: "PreTrainedTokenizerFast", embeddings: Embeddings) -> float:
    """The share of the types, special ones left out, that have a vector."""
    return len(_rows(tokenizer, embeddings)) / max(len(tokenizer) - len(SPECIAL_TOKENS), 1)


def _put(table: nn.Embedding, tokenizer: "PreTrainedTokenizerFast", embeddings: Embeddings) -> None:
    rows = _rows(tokenizer, embeddings)
    vectors = embeddings.vectors[list(rows.values())].to(table.weight)
    size = vectors.square().mean().sqrt().clamp(min=torch.finfo(vectors.dtype).tiny)
    with torch.no_grad():
        table.weight[list(rows)] = vectors * (table.embedding_dim**-0.5 / size)
