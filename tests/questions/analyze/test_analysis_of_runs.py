"""A run directory as a source: its own sentences, its own history."""

import json
import shutil
from pathlib import Path

import pytest
from small_run import untrained_run

from attnlab.core.errors import InputError
from attnlab.core.files import write_json
from attnlab.evaluation.sources import model_and_texts
from attnlab.models.run_folder import SETTINGS
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.analysis_notes import TrainingSentences


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What training would leave, with an untrained model and separate vocabularies."""
    return untrained_run(
        tmp_path_factory.mktemp("run"), pairs=300, heads=5, attention="band(window=2)"
    )


def test_a_run_brings_sentences_and_history(run: Path) -> None:
    found = analyze(run, sentences=11, labels=False)
    assert found.about["Sentences"] == "11 from the test part of embedded"
    assert found.about["Trained on"].startswith("270 pairs of embedded (en-it), seed 0")
    assert "encoder: band(window=2)" in found.about["Attention"]
    band = found.fits[(found.fits["site"] == "encoder") & (found.fits["window"] == 2)]
    assert (band["l1"] == 0).all(), "nothing stands beyond the band that the model has"
    assert set(found.heads["site"]) == {"encoder", "decoder", "cross"}


def test_training_sentences_in_a_file_are_told(run: Path, tmp_path: Path) -> None:
    corpus = model_and_texts(run, sentences=1)[1].corpus()
    learned, held_out = list(corpus.train["source"])[:3], list(corpus.test["source"])[:2]
    for name, texts, wanted in (
        ("mixed", [*learned, *held_out], (TrainingSentences(3, 5),)),
        ("unseen", held_out, ()),
    ):
        (tmp_path / name).write_text("".join(f"{text} \n" for text in texts), encoding="utf-8")
        found = analyze(run, text=tmp_path / name, labels=False, keep_matrices=0, fit_sentences=0)
        told = tuple(note for note in found.notes if isinstance(note, TrainingSentences))
        assert told == wanted
    assert "3 of 5 different sentences are training sentences" in str(TrainingSentences(3, 5))


def test_tokens_of_both_languages_stand_beside_the_matrices(run: Path) -> None:
    found = analyze(run, sentences=2, labels=False, keep_matrices=1, fit_sentences=0)
    model, found_texts = model_and_texts(run, sentences=1)
    source, target = found_texts.texts[0]
    queries, keys = found.matrices.tokens[0, "cross"]
    assert keys[0] == queries[0] == "<s>"
    assert keys[-1] == "</s>"
    assert "</s>" not in queries, "the decoder never reads the end"
    assert len(keys) == len(model.tokenizer.source(source)["input_ids"])
    assert len(queries) == len(model.tokenizer.target(target)["input_ids"]) - 1


def test_other_sentences_for_a_run(run: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the cat sleeps\til gatto dorme\n", encoding="utf-8")
    assert model_and_texts(run, sentences=9, text=tmp_path / "text")[1].texts == (
        ("the cat sleeps", "il gatto dorme"),
    )
    assert model_and_texts(run, sentences=["the cat"])[1].texts == ("the cat",)
    (tmp_path / "own.tsv").write_text(
        "".join(f"cat {n}\tgatto {n}\n" for n in range(200)), encoding="utf-8"
    )
    _, own = model_and_texts(run, sentences=4, corpus=str(tmp_path / "own.tsv"))
    assert len(own.texts) == 4
    assert own.origin == "the test part of own.tsv (en-it)"


def test_other_sentences_are_read_as_the_run_reads_its_own(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lower"
    shutil.copytree(run, folder)
    record = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    record["settings"]["corpus"] |= {"lowercase": True, "pair": "it-en"}
    write_json(folder / SETTINGS, record)
    (tmp_path / "text").write_text("Il GATTO\tThe CAT\n", encoding="utf-8")
    _, own = model_and_texts(folder, sentences=1, text=tmp_path / "text")
    assert own.texts == (("il gatto", "the cat"),)
    corpus = tmp_path / "own.tsv"
    corpus.write_text("".join(f"GATTO {n}\tCat {n}\n" for n in range(200)), encoding="utf-8")
    _, other = model_and_texts(folder, sentences=4, corpus=str(corpus))
    assert other.origin == f"the test part of {corpus.name} (it-en)"
    assert all(side == side.lower() for pair in other.texts for side in pair)
    _, asked = model_and_texts(folder, sentences=1, corpus=str(corpus), pair="en-it")
    assert asked.origin == f"the test part of {corpus.name} (en-it)"
    trees = tmp_path / "trees.conllu"
    trees.write_text(
        "# text = Il GATTO\n1\tIl\t_\tX\t_\t_\t2\tdet\t_\t_\n"
        "2\tGATTO\t_\tX\t_\t_\t0\troot\t_\t_\n\n",
        encoding="utf-8",
    )
    _, read = model_and_texts(folder, sentences=4, treebank=trees, gold=True)
    assert read.texts == ("il gatto",)
    assert read.gold is not None
    assert read.gold.texts == read.texts


def test_a_damaged_run_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text("{", encoding="utf-8")
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="is damaged"):
        analyze(tmp_path)
