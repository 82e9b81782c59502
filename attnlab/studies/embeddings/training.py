"""Skip-gram embeddings of a corpus, in a folder that training and neighbours read."""

from dataclasses import asdict
from pathlib import Path

from attnlab.core.errors import InputError
from attnlab.core.files import check_writable, write_json
from attnlab.core.folders import replacing_result
from attnlab.core.installed import versions
from attnlab.core.texts import path_label
from attnlab.corpora.corpus import Progress
from attnlab.embeddings.files import TENSORS, TEXT, write_embeddings
from attnlab.embeddings.settings import SkipGramSettings, check_gensim
from attnlab.embeddings.vectors import Embeddings
from attnlab.models.first_embeddings import skip_gram_of
from attnlab.models.run import corpus_of
from attnlab.models.run_folder import check_not_run
from attnlab.models.tokenizer import check_tokenizer, train_tokenizers
from attnlab.models.training_settings import (
    CorpusSettings,
    OptimizerSettings,
    RunSettings,
    TokenizerSettings,
)
from attnlab.studies.embeddings.settings import SideSettings

RECORD = "embedding.json"


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
    check_embeddings_free(folder, overwrite=overwrite)
    check_gensim()
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
    found = skip_gram_of(text, tokenizers, chosen, sides.sides, progress)
    record = {
        "versions": versions(("gensim", "tokenizers")),
        "corpus": asdict(run.corpus)
        | {"name": path_label(run.corpus.name), "checksum": text.checksum},
        "tokenizer": asdict(cut),
        "side": sides.side,
        "skip_gram": asdict(chosen),
        "words": len(found.words),
    }
    with replacing_result(folder, TENSORS) as aside:
        write_embeddings(aside, found)
        write_json(aside / RECORD, record)
    return found


def check_embeddings_free(folder: str | Path, *, overwrite: bool) -> None:
    """Raises InputError where `folder` is a file or a run, or holds what `embed` would write."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is a file; name a folder to write the embeddings to."
        raise InputError(msg)
    check_not_run(folder, "training of embeddings")
    taken = [name for name in (TENSORS, TEXT, RECORD) if (folder / name).exists()]
    if taken and not overwrite:
        msg = (
            f"{folder} already holds {', '.join(taken)}; name another folder, or set overwrite to "
            "replace them."
        )
        raise InputError(msg)
    check_writable(folder)
