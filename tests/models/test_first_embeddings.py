"""Training that starts from skip-gram vectors or from a file, frozen or trainable."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from small_run import small_settings

from attnlab.core.errors import InputError
from attnlab.models import first_embeddings as skip_gram
from attnlab.models.configuration import LanguageConfig, TranslationConfig
from attnlab.models.embedding_settings import SkipGramSettings
from attnlab.models.embeddings import Embeddings, write_embeddings
from attnlab.models.first_embeddings import load_first_vectors
from attnlab.models.model import LanguageModel, TranslationModel
from attnlab.models.run import corpus_of, load
from attnlab.models.tokenizer import SPECIAL_TOKENS, Tokenizers, train_tokenizers
from attnlab.models.training import resume, train
from attnlab.models.training_settings import RunSettings, TokenizerSettings


def prepared(settings: RunSettings) -> tuple[TranslationModel, Tokenizers]:
    """A model of drawn weights with the vectors that the settings name."""
    corpus = corpus_of(settings)
    chosen = settings.tokenizer
    tokenizers = train_tokenizers(
        corpus, kind=chosen.kind, vocabulary=chosen.vocabulary, shared=chosen.shared
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TranslationModel(
            TranslationConfig(
                vocab_size=len(tokenizers.target),
                source_vocab_size=None if tokenizers.shared else len(tokenizers.source),
                dim=16,
                heads=2,
            )
        )
    load_first_vectors(model, settings, corpus, tokenizers)
    return model, tokenizers


def of_types(types: list[str], dim: int = 16) -> Embeddings:
    generator = torch.Generator().manual_seed(4)
    return Embeddings(tuple(types), 7 * torch.randn(len(types), dim, generator=generator))


@pytest.mark.parametrize("shared", [True, False])
def test_skip_gram_fills_every_table(shared: bool, untouched_randomness: None) -> None:
    pytest.importorskip("gensim")
    settings = small_settings(tokenizer={"shared": shared})
    drawn, _ = prepared(settings)
    started, tokenizers = prepared(
        small_settings(tokenizer={"shared": shared}, embeddings={"start": "skipgram"})
    )
    assert (started.encoder.embedding.tokens is started.decoder.embedding.tokens) == shared
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        before, after = (
            model.get_submodule(f"{stack}.embedding.tokens").weight.detach()
            for model in (drawn, started)
        )
        changed = (before != after).any(1)
        assert not bool(changed[: len(SPECIAL_TOKENS)].any())
        counts = getattr(tokenizers, f"{side}_counts")
        met = torch.tensor([count > 0 for count in counts.values()])[len(SPECIAL_TOKENS) :]
        assert bool(changed[len(SPECIAL_TOKENS) :][met].all())
        assert float(after[changed].square().mean()) == pytest.approx(1 / 16, rel=1e-5)


def test_skip_gram_is_drawn_with_the_seed_of_the_training() -> None:
    pytest.importorskip("gensim")
    found = [
        prepared(small_settings(embeddings={"start": "skipgram"}, optimizer={"seed": seed}))[0]
        .get_submodule("encoder.embedding.tokens")
        .weight
        for seed in (0, 0, 1)
    ]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_skip_gram_of_a_language_model_reads_the_predicted_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = small_settings(model={"task": "language-model"}, embeddings={"start": "skipgram"})
    corpus, read = corpus_of(settings), []
    tokenizers = train_tokenizers(corpus, vocabulary=200, predicted=settings.model.predicted_side)

    def training(sentences: Iterable[list[str]], chosen: SkipGramSettings, _: object) -> Embeddings:
        read.extend(sentences)
        return of_types(sorted({word for words in sentences for word in words}), chosen.dim)

    monkeypatch.setattr(skip_gram, "train_skip_gram", training)
    model = LanguageModel(LanguageConfig(len(tokenizers.source), dim=16, heads=2))
    load_first_vectors(model, settings, corpus, tokenizers)
    encoded = tokenizers.source(corpus.train["source"][:], add_special_tokens=False)["input_ids"]
    tokens = [tokenizers.source.convert_ids_to_tokens(ids) for ids in encoded]
    assert read == [[token for token in row if token not in SPECIAL_TOKENS] for row in tokens]
    assert any(token in SPECIAL_TOKENS for row in tokens for token in row) == (read != tokens)


def test_frozen_vectors_of_a_file_stay_and_need_no_file_later(tmp_path: Path) -> None:
    drawn, tokenizers = prepared(small_settings())
    types = [name for name in tokenizers.source.get_vocab() if name not in SPECIAL_TOKENS]
    vectors = of_types(types)
    write_embeddings(tmp_path / "vectors", vectors)
    chosen = {"start": str(tmp_path / "vectors"), "frozen": True}
    settings = small_settings(embeddings=chosen, optimizer={"epochs": 1})
    train(tmp_path / "run", settings)
    shutil.rmtree(tmp_path / "vectors")
    resume(tmp_path / "run", epochs=2)
    run = load(tmp_path / "run")
    assert run.settings.embeddings.frozen
    table = run.model.decoder.embedding.tokens.weight.detach()
    rows = torch.tensor(tokenizers.source.convert_tokens_to_ids(types))
    scale = 16**-0.5 / vectors.vectors.square().mean().sqrt()
    torch.testing.assert_close(table[rows], vectors.vectors * scale)
    ours, theirs = run.model.encoder.layers[0], drawn.encoder.layers[0]
    assert not torch.equal(ours.feed_forward.inner.weight, theirs.feed_forward.inner.weight)


def test_a_file_goes_to_the_side_that_it_covers_and_needs_no_marks(tmp_path: Path) -> None:
    separate = {"kind": "word", "shared": False}
    drawn, tokenizers = prepared(small_settings(tokenizer=separate))
    types = [name for name in tokenizers.source.get_vocab() if name not in SPECIAL_TOKENS]
    write_embeddings(tmp_path, of_types(types))
    chosen = {"start": str(tmp_path / "embeddings.txt")}
    started, _ = prepared(small_settings(tokenizer=separate, embeddings=chosen))
    for stack, same in (("encoder", False), ("decoder", True)):
        name = f"{stack}.embedding.tokens.weight"
        assert torch.equal(drawn.state_dict()[name], started.state_dict()[name]) == same
    pieces, _ = prepared(small_settings(tokenizer={"kind": "bpe"}))
    cut = train_tokenizers(corpus_of(small_settings()), vocabulary=200)
    bare = {name.removeprefix("\u2581") for name in cut.source.get_vocab()} - {"", *SPECIAL_TOKENS}
    vectors = of_types(sorted(bare))
    write_embeddings(tmp_path / "bare", vectors)
    started, _ = prepared(small_settings(embeddings={"start": str(tmp_path / "bare")}))
    row = cut.source.convert_tokens_to_ids("\u2581the")
    found = started.decoder.embedding.tokens.weight[row].detach()
    assert not torch.equal(found, pieces.decoder.embedding.tokens.weight[row])
    cosine = torch.nn.functional.cosine_similarity(
        found, vectors.vectors[vectors.find("the")], dim=0
    )
    assert float(cosine) == pytest.approx(1)


def test_other_sizes_and_vocabularies_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    write_embeddings(tmp_path / "wide", of_types(["a", "b"], dim=9))
    write_embeddings(tmp_path / "foreign", of_types(["\u4e00", "\u4e8c"]))
    wrong = {
        "wide": "have 9 dimensions and the model 16; use dim=9",
        "foreign": "of another vocabulary: they hold 0% of the model's types",
        "absent": "There is no file of embeddings",
    }
    for name, message in wrong.items():
        settings = small_settings(embeddings={"start": str(tmp_path / name)})
        with pytest.raises(InputError, match=message):
            train(folder, settings)
        assert not (folder / "settings.json").exists()


def test_a_vocabulary_without_room_is_refused_before_the_corpus_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gensim")
    monkeypatch.setattr(skip_gram, "corpus_of", lambda _: pytest.fail("read"))
    with pytest.raises(InputError, match="has no room beside the 4 special"):
        skip_gram.embed(tmp_path / "vectors", tokenizer=TokenizerSettings(vocabulary=4))
    assert not (tmp_path / "vectors").exists()
