"""Links of two models, one in each direction."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gold_pairs import (
    QUICK,
    gold_file,
    jsonl_file,
    links_in_file,
    marian,
    saved_model,
)
from small_run import exchanged_run
from transformers import AutoModel, MarianMTModel
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.alignment import (
    count_links,
    read_links,
    scored,
    symmetrized,
)
from attnlab.alignment.heads_file import read_heads
from attnlab.core.errors import InputError
from attnlab.models.loaded import Model
from attnlab.questions.align import (
    aligning,
    corpus_links,
    other_direction,
    word_reading,
)
from attnlab.questions.align.aligning import align
from attnlab.questions.align.question import (
    AlignmentSettings,
    PairsNotAligned,
    both_named,
)

pytestmark = pytest.mark.usefixtures("no_page")


def turned_gold(gold: Path, folder: Path) -> Path:
    """The same sentence pairs and links with source and target exchanged."""
    folder.mkdir()
    rows = (line.split("\t") for line in gold.read_text(encoding="utf-8").splitlines())
    turned = folder / "gold.tsv"
    text = "".join(
        f"{target}\t{source}\t{' '.join('-'.join(one.split('-')[::-1]) for one in links.split())}\n"
        for source, target, links in rows
    )
    turned.write_text(text, encoding="utf-8")
    return turned


@pytest.mark.parametrize("how", [None, "intersection", "union"])
def test_both_directions(how: str | None, tmp_path: Path) -> None:
    """As if each model were asked alone, the other one of the exchanged pairs, and the links made one."""
    model, back = marian(), saved_model(tmp_path / "back", random_models.bart)
    gold = gold_file(tmp_path, PAIRS[:-1])
    given = {"gold": gold, "reverse": back, **QUICK}
    found = align((model, tokenizer()), symmetrize=how, **given)
    found.save(tmp_path / "both")
    turned = turned_gold(gold, tmp_path / "turned")
    alone = {"forward": ((model, tokenizer()), gold), "backward": (back, turned)}
    links, systems = {}, {}
    for name, (one, own_gold) in alone.items():
        result = align(one, gold=own_gold, **QUICK)
        result.save(tmp_path / name)
        systems[name] = result.systems.iloc[0]
        links[name] = links_in_file(tmp_path / name / "links.pharaoh")
    table = found.systems.set_index("system")
    row = table.loc["heads of the other direction"]
    for column in ("row", "heads", "aer", "links_given"):
        assert row[column] == systems["backward"][column]
    assert table.iloc[0]["aer"] == systems["forward"]["aer"]
    reverse = read_heads(tmp_path / "both" / "reverse_heads.json")
    assert replace(reverse, scored_on=None) == replace(
        read_heads(tmp_path / "backward" / "heads.json"), scored_on=None
    )
    reported = range(1, len(PAIRS) - 1, 2)
    for each in ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"):
        expected = [
            symmetrized(own, {(s, t) for t, s in other}, each)
            for own, other in zip(links["forward"], links["backward"], strict=True)
        ]
        count = table.loc[f"chosen heads of both directions ({each})", "links_given"]
        assert count == sum(len(expected[number]) for number in reported)
        if each == (how or "grow-diag-final-and"):
            assert links_in_file(tmp_path / "both" / "links.pharaoh") == expected


@pytest.mark.parametrize("size", [2, 99])
def test_a_corpus_in_both_directions(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With heads of both that were chosen before; a pair that one cannot read has the links of the other."""
    model, back = (marian(), tokenizer()), tmp_path / "back"
    config = marian().config
    config.max_position_embeddings = 22
    saved_model(back, lambda: MarianMTModel(config))
    long = " ".join(["the cat"] * 12)
    pairs = [*PAIRS[:3], (long, long), *PAIRS[3:]]
    found = align(model, gold=gold_file(tmp_path, pairs), reverse=back, **QUICK)
    found.save(tmp_path / "both")
    monkeypatch.setattr(corpus_links, "PART", size)
    given: dict[str, Any] = {
        name: tmp_path / "both" / f"{name}.json" for name in ("heads", "reverse_heads")
    }
    links = tmp_path / "links"
    gold = gold_file(tmp_path, pairs)
    again = align(model, gold=gold, reverse=back, links=links, **given)
    assert links_in_file(links) == links_in_file(tmp_path / "both" / "links.pharaoh")
    alone = align(model, gold=gold, heads=given["heads"], links=tmp_path / "alone")
    assert links_in_file(links)[3] == links_in_file(tmp_path / "alone")[3] != set()
    # The heads of one direction have the score of their own links, both directions that of theirs.
    own, both = again.systems.to_dict("records")
    assert own == pytest.approx(alone.systems.iloc[0].to_dict(), nan_ok=True)
    assert (both["system"], both["heads"]) == (both_named("grow-diag-final-and"), "")
    assert both["links_given"] == sum(map(len, links_in_file(links)))
    gold_links_of = [one.links for one in read_links(gold)]
    counts = count_links(links_in_file(links), gold_links_of)
    assert both["aer"] == pytest.approx(float(scored(counts, "aer")))
    align(model, pairs, reverse=back, links=tmp_path / "weights.jsonl", **given)
    for line in (tmp_path / "weights.jsonl").read_text(encoding="utf-8").splitlines():
        assert all(0 < weight <= 1 for weight in json.loads(line)["weights"])


def test_both_directions_without_gold_links(tmp_path: Path) -> None:
    model, back = (marian(), tokenizer()), saved_model(tmp_path / "back")
    found = align(model, PAIRS, reverse=back, symmetrize="union", **QUICK)
    alone = align(model, PAIRS, **QUICK)
    for name, one in (("both", found), ("alone", alone)):
        one.save(tmp_path / name)
    both, one = (links_in_file(tmp_path / name / "links.pharaoh") for name in ("both", "alone"))
    assert all(own <= joined for own, joined in zip(one, both, strict=True))
    assert both != one
    assert found.systems["links_given"].tolist() == [sum(map(len, links)) for links in (one, both)]
    assert found.systems["system"].tolist() == ["chosen heads", both_named("union")]
    assert read_heads(tmp_path / "both" / "reverse_heads.json").aer is None


@pytest.mark.parametrize("given", [True, False])
def test_a_pair_that_the_other_direction_reads_is_not_told_to_have_no_links(
    given: bool, tmp_path: Path
) -> None:
    config = marian().config
    config.max_position_embeddings = 22
    model, back = (MarianMTModel(config), tokenizer()), saved_model(tmp_path / "back")
    long = " ".join(["the cat"] * 12)
    gold = gold_file(tmp_path, [*PAIRS[:3], (long, long), *PAIRS[3:], (" ".join([long] * 9), long)])
    found = align(model, gold=gold, reverse=back, **QUICK)
    found.save(tmp_path / "both")
    if given:
        heads = {name: tmp_path / "both" / f"{name}.json" for name in ("heads", "reverse_heads")}
        found = align(model, gold=gold, reverse=back, links=tmp_path / "links", **heads)
    (note,) = (one for one in found.notes if isinstance(one, PairsNotAligned))
    assert (note.count, note.total, note.first) == (1, len(PAIRS) + 2, len(PAIRS) + 2)
    lines = links_in_file(tmp_path / "both" / "links.pharaoh")
    assert (lines[3], lines[-1]) == (lines[3] or None, set())


class _Lowercase(Model):
    """A model that reads no capitals."""

    lowercase = True  # type: ignore[assignment]  # a property there


@pytest.mark.parametrize("reads", ["forward", "backward"])
def test_each_direction_reads_texts_in_its_own_case(
    reads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs and calibration alike; a model without capitals makes lower case what it reads first."""
    folder = saved_model(tmp_path / "back")
    build = _Lowercase if reads == "backward" else Model
    back = build(MarianMTModel.from_pretrained(folder), tokenizer())
    monkeypatch.setattr(other_direction, "model_of_languages", lambda *_: back)
    forward = (_Lowercase if reads == "forward" else Model)(marian(), tokenizer())
    read: dict[int, set[str]] = {}
    sentences = word_reading.read_sentences

    def reading(model: Any, texts: Any, *more: Any) -> Any:
        read.setdefault(id(model), set()).update(*texts)
        return sentences(model, texts, *more)

    monkeypatch.setattr(word_reading, "read_sentences", reading)
    capitals = [(source.title(), target.title()) for source, target in PAIRS]
    gold = gold_file(tmp_path, capitals)
    align(forward, gold=gold, calibration=gold, reverse=folder, **QUICK)
    texts = {text for pair in capitals for text in pair}
    lower = {text.lower() for text in texts}
    assert read[id(back)] == lower
    assert read[id(forward)] == (lower if reads == "forward" else texts)


def test_which_of_two_files_of_heads_does_not_fit_is_told(tmp_path: Path) -> None:
    config = marian().config
    config.max_position_embeddings, config.decoder_layers = 22, 2
    model = saved_model(tmp_path / "forward", random_models.bart)
    back = saved_model(tmp_path / "back", lambda: MarianMTModel(config))
    gold = gold_file(tmp_path, PAIRS)
    align(model, gold=gold, reverse=back, **QUICK).save(tmp_path / "both")
    heads, reverse = (tmp_path / "both" / f"{name}.json" for name in ("heads", "reverse_heads"))
    given: dict[str, Any] = {"gold": gold, "reverse": back, "links": tmp_path / "links"}
    with pytest.raises(InputError, match="The heads of the other direction are those of"):
        align(model, heads=heads, reverse_heads=heads, **given)
    with pytest.raises(InputError, match="The heads are those of"):
        align(model, heads=reverse, reverse_heads=reverse, **given)
    long = " ".join(["the cat"] * 12)
    with pytest.raises(InputError, match=r"By the model of the other direction, .*: None of the"):
        align(model, [(long, long)] * 3, reverse=back, **QUICK)


@pytest.mark.parametrize("build", [random_models.bart, random_models.t5, random_models.nllb])
def test_heads_are_those_of_one_model(build: Callable[[], Any], tmp_path: Path) -> None:
    """Whatever it is, of the same shape or not, in a folder or handed in; moving it changes nothing."""
    folder = saved_model(tmp_path / "model", build)
    align(folder, PAIRS, **QUICK).save(tmp_path / "out")
    heads = tmp_path / "out" / "heads.json"
    use: dict[str, Any] = {"heads": heads, "links": tmp_path / "links", "overwrite": True}
    moved = folder.rename(tmp_path / "moved")
    same = type(build()).from_pretrained(moved)
    body = AutoModel.from_pretrained(moved)
    assert type(body) is not type(same)
    for one in (moved, (same, tokenizer()), (body, tokenizer())):
        align(one, PAIRS, **use)
    with torch.no_grad():
        next(same.model.decoder.parameters() if hasattr(same, "model") else same.parameters())[
            0
        ] += 1e-3
    same.save_pretrained(tmp_path / "other")
    tokenizer().save_pretrained(tmp_path / "other")
    for one in (tmp_path / "other", (same, tokenizer())):
        with pytest.raises(InputError, match="the weights of this model are others"):
            align(one, PAIRS, **use)


def test_a_model_is_not_its_other_direction(tmp_path: Path) -> None:
    folder, copy = (saved_model(tmp_path / name, random_models.bart) for name in ("one", "copy"))
    for back in (folder, copy):
        with pytest.raises(InputError, match="has the weights of this one; give the model that"):
            align(folder, PAIRS, reverse=back, **QUICK)


def test_directions_that_do_not_fit_are_refused(small_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="translates en-it, and this one en-it; give one of it-en"):
        align(small_run, sentences=12, reverse=small_run, **QUICK)
    pairs = jsonl_file(tmp_path / "pairs.jsonl", PAIRS, ("en", "it"))
    with pytest.raises(InputError, match="pair is it-en, and .* translates en-it; leave pair out"):
        align(small_run, pairs, pair="it-en", **QUICK)


def test_what_is_told_of_one_direction_alone_is_refused() -> None:
    for given, message in (
        ({"symmetrize": "union"}, "symmetrize is given without reverse; give both"),
        ({"reverse_heads": "r.json", "heads": "h.json"}, "reverse_heads is given without reverse"),
        ({"reverse": "r", "heads": "h.json"}, "heads are given for one .* give reverse_heads too"),
        ({"reverse": "r", "reverse_heads": "h.json"}, "heads are given for one .* give heads too"),
        ({"reverse": "r", "symmetrize": "both"}, "symmetrize must be one of"),
    ):
        with pytest.raises(InputError, match=message):
            AlignmentSettings(pairs=PAIRS, **given)


def test_heads_of_the_other_direction_are_chosen_alike(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned, given = [], []
    fitted, choices = aligning.statistical_aligner, other_direction.choices

    def fitting(*args: Any) -> Any:
        learned.append(fitted(*args))
        return learned[-1]

    def choosing(*args: Any) -> Any:
        given.append(args[1])
        return choices(*args)

    monkeypatch.setattr("attnlab.questions.align.chosen_heads.FEWEST_TRAINING", 1)
    monkeypatch.setattr(aligning, "statistical_aligner", fitting)
    monkeypatch.setattr(other_direction, "choices", choosing)
    back = exchanged_run(small_run, tmp_path / "back")
    align(small_run, sentences=12, reverse=back, choose="unsupervised")
    (both,), (exchanged, *_) = learned, given
    assert exchanged.sources == both.targets
    assert exchanged.forward.null is both.backward.null
