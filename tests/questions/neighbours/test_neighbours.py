"""Embeddings of a corpus, and neighbours in the embeddings of runs, files and models."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from zoo import random_models

import attnlab
from attnlab.core.errors import InputError
from attnlab.models.embedding_settings import SideSettings, SkipGramSettings
from attnlab.models.training_settings import CorpusSettings, TokenizerSettings
from attnlab.questions.neighbours.neighbours import embeddings_of
from attnlab.questions.neighbours.question import MAP, NEIGHBOURS
from attnlab.results.result import Result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gensim")
    path = tmp_path_factory.mktemp("vectors") / "english"
    attnlab.embed(
        path,
        SkipGramSettings(dim=16, window=2, epochs=3),
        corpus=CorpusSettings(size=400),
        tokenizer=TokenizerSettings(kind="word"),
        side=SideSettings(side="source"),
    )
    return path


def test_embed_writes_what_neighbours_read(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {"embeddings.safetensors", "embeddings.txt", "embedding.json"}
    found = attnlab.neighbours(folder, ["the", "a"], count=3)
    assert list(found.table) == list(NEIGHBOURS)
    assert list(found.map) == list(MAP)
    assert found.table.groupby("word").size().to_dict() == {"the": 3, "a": 3}
    pd.testing.assert_frame_equal(
        found.table, attnlab.neighbours(folder / "embeddings.txt", ["the", "a"], count=3).table
    )
    # Italian articles stand on the other side alone.
    with pytest.raises(InputError, match="'il' is not among"):
        attnlab.neighbours(folder, ["il"])


def test_a_word_that_is_asked_for_twice_has_its_neighbours_once(folder: Path) -> None:
    once = attnlab.neighbours(folder, ["the", "a"], count=2).table
    pd.testing.assert_frame_equal(
        attnlab.neighbours(folder, ["the", "a", "the"], count=2).table, once
    )


def test_one_neighbour_of_one_word_has_no_map(folder: Path) -> None:
    found = attnlab.neighbours(folder, ["the"], count=1)
    assert len(found.table) == 1
    assert found.map.empty
    assert list(found.map) == list(MAP)
    with pytest.raises(InputError, match="too few words for a map"):
        attnlab.plot.embedding_map(found.map)


def test_a_side_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="The side target is for runs"):
        attnlab.neighbours(folder, ["the"], side="target")


def test_embed_keeps_what_is_there(folder: Path) -> None:
    with pytest.raises(InputError, match=r"already holds embeddings\.safetensors"):
        attnlab.embed(folder)
    with pytest.raises(InputError, match="is a file; name a folder"):
        attnlab.embed(folder / "embeddings.txt")
    with pytest.raises(InputError, match="side must be one of source, target, both"):
        SideSettings(side="left")


def test_embeddings_of_a_run_and_of_a_model(small_run: Path, tmp_path: Path) -> None:
    run = attnlab.load(small_run)
    found = embeddings_of(small_run)
    for word in found.words[:5]:
        row = run.tokenizers.source.convert_tokens_to_ids(word)
        torch.testing.assert_close(
            found.vectors[found.positions[word]],
            run.model.encoder.embedding.tokens.weight[row].detach(),
        )
    assert not {"<pad>", "<s>", "</s>", "<unk>"} & set(found.words)
    model, tokenizer = random_models.bert(), random_models.tokenizer()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for source in (tmp_path, (model, tokenizer)):
        other = embeddings_of(source)
        assert set(other.words) == set(random_models.WORDS)
        assert len(attnlab.neighbours(source, ["cat"], count=4).table) == 4


def test_the_map_is_drawn(folder: Path, tmp_path: Path) -> None:
    found = attnlab.neighbours(folder, ["the", "a"], count=3)
    path = attnlab.plot.save(attnlab.plot.embedding_map(found.map), tmp_path / "map.svg")
    drawn = path.read_text("utf-8")
    assert all(f">{word}<" in drawn for word in found.map["word"])
    with pytest.raises(InputError, match="The table lacks group"):
        attnlab.plot.embedding_map(found.map.drop(columns="group"))


def test_a_result_without_a_map_is_saved_and_read_again(folder: Path, tmp_path: Path) -> None:
    without = attnlab.neighbours(folder, ["the"], count=1)
    assert without.figures == {}
    assert Result.load(without.save(tmp_path / "one")).map.empty
