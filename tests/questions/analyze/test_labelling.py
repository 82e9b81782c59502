"""Labels of a model's heads through `analyze`: tables, controls, and what is said when they cannot be had."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from small_run import untrained_run
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

import attnlab
from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.grammar.embedded import draw_pairs
from attnlab.labels.gold import gold_of_embedded
from attnlab.labels.labeller import Labeller
from attnlab.labels.structure import HeadStructure
from attnlab.labels.verdict import least_status
from attnlab.matrices.families import CODED
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.analysis_notes import (
    NoTrees,
    TooLittleCounted,
    TrainingCorpusUnknown,
    UndecidedLabel,
    VocabularyTooSmall,
)
from attnlab.questions.analyze.view import label_sections
from attnlab.reading.coverage import Consumer, Coverage
from attnlab.reading.passes import Reading, prepare
from attnlab.reading.weights import ALL, CONTENT, VIEWS, View, rows_of_view
from attnlab.results.export import VIEW_NAMES
from attnlab.results.result import Result

TREES = """# sent_id = one
# text = the cat runs.
1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_
2\tcat\tcat\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\truns\trun\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained run on the embedded corpus whose encoder looks at no other token than itself."""
    return untrained_run(
        tmp_path_factory.mktemp("run"), pairs=400, heads=3, attention="band(window=0)"
    )


@pytest.fixture(scope="module")
def labelled(run: Path) -> Result:
    return analyze(run, labels=True, fit_sentences=0, keep_matrices=0)


def with_all_keys(found: Result) -> SimpleNamespace:
    """The tables of labels in the view of all keys."""
    views = {
        name: rows_of_view(getattr(found, name), "all")
        for name in ("labels", "controls", "structure")
    }
    return SimpleNamespace(**views, relations=found.relations)


def test_every_head_has_a_row_and_its_figures(labelled: Result) -> None:
    found = with_all_keys(labelled)
    keys = ["site", "layer", "head"]
    pd.testing.assert_frame_equal(found.labels[keys], labelled.heads[keys])
    controls = found.controls.set_index([*keys, "label"])
    one = controls.loc[("encoder", 0, 1, "positional")]
    assert (one.detail, one.value, one.untrained_value, one.shuffled_value) == (
        "offset +0",
        1,
        1,
        1,
    )
    assert (one.status, one.significance, one.significant) == ("undecided", "undecided", False)
    assert (one.counted < one.needed, one.needed, one.unit) == (True, 20, "sentences")
    assert one.value_low < one.value <= one.value_high
    assert math.isnan(one.stability)
    assert set(found.labels["significant_labels"]) <= {"undecided", "unknown"}


def test_gold_trees_and_alignments_of_the_embedded_corpus_are_used(labelled: Result) -> None:
    relations = labelled.relations
    assert {"nsubj", "det", "all"} <= set(relations.loc[relations.site == "encoder", "relation"])
    assert set(relations.loc[relations.site == "cross", "relation"]) == {"alignment"}
    for name in ("shuffled_accuracy", "untrained_accuracy", "significant"):
        assert relations.loc[relations.links > 20, name].notna().all()
    # A twin drawn from another seed than the weights in the folder.
    decoder = relations[(relations.site == "decoder") & (relations.links > 20)]
    assert (decoder.accuracy != decoder.untrained_accuracy).any()
    assert not {TrainingCorpusUnknown, NoTrees} & set(map(type, labelled.notes))


def test_a_label_is_held_against_its_own_relation(labelled: Result) -> None:
    found = with_all_keys(labelled)
    resting = found.controls[found.controls.label.isin(["syntactic", "alignment"])]
    assert len(resting) == len(found.labels)
    for row in resting.itertuples():
        relation, direction = row.detail.split(" ")
        same = found.relations[
            (found.relations.relation == relation)
            & (found.relations.direction == direction)
            & (found.relations.site == row.site)
            & (found.relations.layer == row.layer)
            & (found.relations["head"] == row.head)
        ].iloc[0]
        for mine, theirs in (
            ("value", ""),
            ("untrained_value", "untrained_"),
            ("shuffled_value", "shuffled_"),
        ):
            assert getattr(row, mine) == pytest.approx(same[f"{theirs}accuracy"], nan_ok=True)
        assert row.significant == same.significant
        assert row.significance == least_status(row.status, same.significance)


def test_structure_stands_beside_function(labelled: Result) -> None:
    found = with_all_keys(labelled)
    # Heads that look at nothing but themselves are coded by offset 0 without noise.
    encoder = found.labels[found.labels.site == "encoder"]
    assert set(encoder.structure) == {"diagonal"}
    members = found.structure[(found.structure.site == "encoder") & found.structure.chosen]
    assert set(members.member) == {"offset 0"}
    assert set(found.structure.sentences) == {20}
    assert len(found.structure) == len(CODED) * len(found.labels)
    chosen = found.structure[found.structure.chosen].merge(found.labels)
    assert (chosen.family == chosen.structure).all()


def test_no_structure_when_none_is_wanted() -> None:
    model = random_models.bert(), tokenizer()
    found = analyze(model, sentences=SENTENCES, labels=True, structure_sentences=0, fit_sentences=0)
    assert "structure" not in found.labels
    assert "structure" not in found.tables


def test_labels_change_no_other_table() -> None:
    model = random_models.bert(), tokenizer()
    plain, labelled = (
        analyze(model, sentences=SENTENCES, labels=on, fit_sentences=1, structure_sentences=0)
        for on in (False, None)
    )
    assert "labels" not in plain.tables
    assert "labels" in labelled.tables, "heads are labelled unless that is refused"
    pd.testing.assert_frame_equal(plain.heads, labelled.heads)
    pd.testing.assert_frame_equal(plain.fits, labelled.fits)


def test_what_few_and_unknown_sentences_cannot_tell(untouched_randomness: None) -> None:
    model = random_models.marian(encoder_layers=1, decoder_layers=1), tokenizer()
    alone = dict.fromkeys(("fit_sentences", "structure_sentences", "keep_matrices"), 0)
    found = analyze(model, sentences=PAIRS, labels=True, **alone)
    assert set(found.labels["label"]) <= {"undecided", "unknown"}
    controls = found.controls
    assert (controls["counted"] < controls["needed"]).all()
    assert not (controls["status"] == "confirmed").any(), "few sentences confirm nothing"
    assert (controls["status"] == "rejected").any(), "and reject what is far from its threshold"
    assert "relations" not in found.tables
    assert {NoTrees(), TrainingCorpusUnknown()} <= set(found.notes)
    short = [note for note in found.notes if isinstance(note, TooLittleCounted)]
    assert len(short) == 1, "one note for all of them"
    assert {
        UndecidedLabel("positional", ("encoder", "decoder"), 20, "sentences"),
        UndecidedLabel("monotone", ("cross",), 20, "sentences"),
    } <= set(short[0].labels)
    assert short[0].available is None, "sentences were handed in"
    assert {"untrained_value", "shuffled_value"} <= set(found.controls)


def test_a_vocabulary_too_small_for_rare_tokens_is_named_and_nothing_is_undecided_by_it() -> None:
    model = random_models.bert(), tokenizer()
    found = analyze(model, sentences=SENTENCES, labels=True, quick=True, fit_sentences=0)
    types = len(tokenizer())
    assert types <= 500
    assert VocabularyTooSmall(("encoder",), types, 500) in found.notes
    assert "rare tokens" not in set(found.controls["label"])
    short = next(note for note in found.notes if isinstance(note, TooLittleCounted))
    assert "rare tokens" not in {one.label for one in short.labels}


def test_a_treebank_for_any_model(tmp_path: Path) -> None:
    (tmp_path / "trees.conllu").write_text(TREES * 7, encoding="utf-8")
    found = analyze(
        (random_models.bert(), tokenizer()),
        treebank=tmp_path / "trees.conllu",
        fit_sentences=0,
        structure_sentences=0,
    )
    assert found.about["Sentences"] == "7 from trees.conllu"
    relations = found.relations
    counted = relations[relations["head"] == 0].groupby(["relation", "direction"])["links"].first()
    assert counted["nsubj", "dependent>head"] == 3, "of seven sentences, three are reported on"
    with pytest.raises(InputError, match="^treebank brings its own sentences"):
        analyze(
            (random_models.bert(), tokenizer()),
            treebank=tmp_path / "trees.conllu",
            sentences=SENTENCES,
        )


def test_a_file_of_texts_beside_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("A cat.\n", encoding="utf-8")
    for ask in (analyze, attnlab.importance):
        with pytest.raises(InputError, match="text names a file of others"):
            ask((random_models.bert(), tokenizer()), text=tmp_path / "texts", sentences=SENTENCES)


def test_one_tokenizer_for_both_languages_is_aligned_as_two_are() -> None:
    pairs = draw_pairs(20, seed=5)
    gold = gold_of_embedded([(one.source, one.target) for one in pairs], pairs, lowercase=False)
    one = tokenizer()
    labellers = [
        Labeller(
            prepare((random_models.marian(), both), gold.texts, ("cross", "decoder")),
            gold,
            None,
            HeadStructure(0),
        )
        for both in (one, SimpleNamespace(source=one, target=one))
    ]
    found = [labeller.label(run_once, seed=0)["relations"] for labeller in fed(labellers)]
    relations = found[0]
    pd.testing.assert_frame_equal(relations, found[1])
    assert relations.loc[relations.site == "cross", "links"].min() > 20
    assert "nsubj" in set(relations.loc[relations.site == "decoder", "relation"])


def fed(labellers: list[Labeller]) -> list[Labeller]:
    """With their sentences counted."""
    for labeller in labellers:
        run_once("Looking", labeller.reading, [labeller.functions, labeller.structure])
    return labellers


def run_once(_: str, reading: Reading, consumers: Sequence[Consumer]) -> Coverage:
    return reading.feed(consumers, batch_size=8)


def test_a_file_of_matrices_has_no_labels(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no tokens, so its heads cannot be labelled"):
        analyze(tmp_path / "heads.npy", labels=True)


def test_the_folder_and_the_page(labelled: Result, tmp_path: Path) -> None:
    page = (labelled.save(tmp_path) / "report.html").read_text(encoding="utf-8")
    assert "What the roles rest on" in page
    assert "Which head follows which relation" in page
    every = labelled.controls.assign(status="confirmed", significance="confirmed")
    sections = label_sections(replace(labelled, tables={**labelled.tables, "controls": every}))
    tables = sections[0].tables
    assert [len(table.rows) for table in tables] == [len(every) // 2] * 2
    rows = tables[0].rows
    assert ("positional", "offset +0") in {row[1:3] for row in rows}
    assert "argmax rate" in {row[3] for row in rows}, "words, which a narrow page can wrap"
    for name in ("labels", "relations", "controls", "structure"):
        table = getattr(labelled, name)
        assert len(pd.read_csv(tmp_path / f"{name}.csv")) == len(table)
    whole = pd.read_csv(tmp_path / "labels.csv")
    assert whole["keys"].value_counts().to_dict() == dict.fromkeys(VIEWS, len(labelled.heads))
    model = random_models.bert(), tokenizer()
    plain = analyze(model, sentences=SENTENCES, labels=False, fit_sentences=0)
    plain.save(tmp_path, overwrite=True)
    assert not (tmp_path / "labels.csv").exists(), "nothing is left of the analysis before"


@pytest.mark.slow
@pytest.mark.parametrize("ignore", [False, True])
def test_the_command(tmp_path: Path, ignore: bool) -> None:
    random_models.bert().save_pretrained(tmp_path / "bert")
    tokenizer().save_pretrained(tmp_path / "bert")
    (tmp_path / "trees.conllu").write_text(TREES * 7, encoding="utf-8")
    done = CliRunner().invoke(
        app,
        ["analyze", str(tmp_path / "bert"), "--treebank", str(tmp_path / "trees.conllu"),
         "--keep-matrices", "0", "--fit-sentences", "0", "--out", str(tmp_path / "out"),
         *(["--ignore-special"] if ignore else [])],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    views = (CONTENT, ALL) if ignore else (ALL, CONTENT)
    names = [VIEW_NAMES[keys] for keys in views]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert (
        re.findall(
            "<figcaption>Closest role of each head, ([^<]+?), in these [0-9]+ sentence", page
        )
        == names
    )
    for name in ("labels", "controls", "structure"):
        table = pd.read_csv(tmp_path / "out" / f"{name}.csv")
        assert list(dict.fromkeys(table["keys"])) == list(views), name
    said = " ".join(done.output.split())
    assert "0 of 6 heads have a role that is confirmed against controls" in said
    assert (tmp_path / "out" / "controls.csv").is_file()


def model_of_sinks() -> Any:
    """All heads look at the first token, whatever the words: its position alone has the feature of keys."""
    model = random_models.bert()
    with torch.no_grad():
        positions = model.embeddings.position_embeddings.weight
        positions.zero_()
        positions[0, 0] = 100
        for layer in model.encoder.layer:
            attention = layer.attention.self
            attention.query.weight.zero_()
            attention.query.bias.fill_(5)
            attention.key.weight.zero_()
            attention.key.weight[:, 0] = 1
            layer.attention.output.dense.weight.zero_()
            layer.output.dense.weight.zero_()
    return model


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "first"), [(None, CONTENT), (False, ALL), (True, CONTENT)])
def test_special_tokens_are_left_out_first_where_heads_are_sinks(
    asked: bool | None, first: View
) -> None:
    texts = [f"{text} {other}" for text in SENTENCES for other in SENTENCES] * 3
    result = analyze(
        (model_of_sinks(), tokenizer()),
        sentences=texts,
        quick=True,
        fit_sentences=0,
        ignore_special=asked,
    )
    assert result.details["views"][0] == first
    assert set(result.summary["keys"]) == {first}
    assert ((result.summary["role"] == "sink") == (first == ALL)).all()
