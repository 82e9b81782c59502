"""`attnlab embed`: skip-gram vectors of a corpus."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.early import check_corpus
from attnlab.cli.options import OVERWRITE, typed, with_options
from attnlab.cli.output import messages
from attnlab.cli.progress import progress_bars
from attnlab.embeddings.settings import SideSettings, SkipGramSettings
from attnlab.models.training_settings import CorpusSettings, TokenizerSettings

# With their headings on the help page.
PANELS = {
    SkipGramSettings: "Skip-gram",
    CorpusSettings: "Corpus",
    SideSettings: "Corpus",
    TokenizerSettings: "Tokens",
}


@with_options(*PANELS, headings=list(PANELS.values()))
def embed(
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
    *,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Train skip-gram embeddings on a corpus; written as safetensors and as word2vec text.

    The corpus is cut into tokens as attnlab train does it with the same options, so that a model can start
    from them: attnlab train RUN --embeddings FOLDER --dim N. Needs: pip install 'attnlab[embeddings]'.
    """
    skip_gram = SkipGramSettings(**typed(SkipGramSettings, options))
    corpus = CorpusSettings(**typed(CorpusSettings, options))
    side = SideSettings(**typed(SideSettings, options))
    tokenizer = TokenizerSettings(**typed(TokenizerSettings, options))
    check_corpus(options.get("corpus"))

    from attnlab.core.library_state import quiet
    from attnlab.models.first_embeddings import embed as train_embeddings

    with quiet(), progress_bars() as tell:
        found = train_embeddings(
            folder, skip_gram,
            corpus=corpus, tokenizer=tokenizer, side=side, overwrite=overwrite, progress=tell,
        )  # fmt: skip
    messages().print(
        f"{len(found.words):,} words, {found.dim} dimensions: {folder}. "
        f"Next: attnlab neighbours {folder} WORD",
        soft_wrap=True,
    )
