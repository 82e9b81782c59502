"""Links from cross-attention against loops over the model's own outputs, and what `align` refuses."""

import gzip
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from small_run import exchanged_run
from transformers import AutoModel, MarianMTModel
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

import attnlab
from attnlab.alignment import (
    WordWeights,
    count_links,
    gold_grid,
    gold_links,
    head_properties,
    read_links,
    scored,
    symmetrized,
)
from attnlab.alignment.heads_file import read_heads, write_heads
from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.evaluation.shared_settings import FewerThanAsked, FewForIntervals
from attnlab.models.loaded import Model
from attnlab.models.run import load
from attnlab.questions.align import (
    aligning,
    corpus_links,
    generated_words,
    other_direction,
    word_reading,
)
from attnlab.questions.align.aligning import align
from attnlab.questions.align.chosen_heads import alike_shares, halves, heads_without_gold
from attnlab.questions.align.question import (
    CHOICE_NAMES,
    AlignmentSettings,
    NoGold,
    NotGenerated,
    PairsInBoth,
    PairsNotAligned,
    TranslationsNotAligned,
    both_named,
)
from attnlab.questions.align.word_reading import Chosen, Part, _knows, pairs_of
from attnlab.reading.capture import capture
from attnlab.reading.sentences import read_sentences

pytestmark = pytest.mark.usefixtures("no_page")

QUICK: dict[str, Any] = {"quick": True}
marian = partial(random_models.marian, encoder_layers=1, decoder_layers=2, heads=3)
ENCODER_DECODERS = ["marian", "bart", "t5"]


def word_of_each_token(text: str, encoded: Any) -> list[int | None]:
    """The word between spaces in which a token stands; None for special tokens."""
    found: list[int | None] = []
    for (start, end), special in zip(
        encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True
    ):
        if special or start == end:
            found.append(None)
        else:
            spaces = text[:start].count(" ") + (text[start] == " ")
            found.append(spaces)
    return found


def links_by_loops(
    model: Any, both: Any, pair: tuple[str, str], row: str, contributions: Any = None
) -> dict[str, set[tuple[int, int]]]:
    """For every head the source word of each target word with the largest weight, one weight at a time.

    Or that with the largest contribution, of layers of these.
    """
    options = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    source, target = both.source(pair[0], **options), both.target(text_target=pair[1], **options)
    ids, words = target["input_ids"], word_of_each_token(pair[1], target)
    start = model.config.decoder_start_token_id
    if ids[0] == start:
        ids, words = ids[1:], words[1:]
    read = [ids[-1] if start is None else start, *ids[:-1]]
    with torch.no_grad():
        out = model(
            input_ids=torch.tensor([source["input_ids"]]),
            decoder_input_ids=torch.tensor([read]),
            output_attentions=True,
        )
    keys = word_of_each_token(pair[0], source)
    found: dict[str, set[tuple[int, int]]] = {}
    for layer, weights in enumerate(contributions or out.cross_attentions):
        for head in range(weights.shape[1]):
            links = found.setdefault(f"{layer}.{head}", set())
            for word in {one for one in words if one is not None}:
                rows = [number for number, one in enumerate(words) if one == word]
                if row == "input":
                    rows = [number + 1 for number in rows if number + 1 < len(words)]
                if not rows:
                    continue
                sums = {}
                for column, key in enumerate(keys):
                    if key is not None:
                        total = sum(float(weights[0, head, one, column]) for one in rows)
                        sums[key] = sums.get(key, 0.0) + total / len(rows)
                links.add((max(sums, key=lambda one: (sums[one], -one)), word))
    return found


def gold_file(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    """XL-WA: words at the same place are linked."""
    lines = [
        f"{source}\t{target}\t"
        + " ".join(f"{n}-{n}" for n in range(min(len(source.split()), len(target.split()))))
        for source, target in pairs
    ]
    path = folder / "gold.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "row", "weights"),
    [
        *((name, row, "attention") for name in ENCODER_DECODERS for row in ("output", "input")),
        ("marian", "output", "contribution"),
    ],
)
def test_links_of_every_head_are_those_of_loops(
    name: str, row: str, weights: str, tmp_path: Path
) -> None:
    model = random_models.ALL[name]().double()
    gold = gold_file(tmp_path, PAIRS)
    found = align((model, tokenizer()), gold=gold, row=row, weights=weights, **QUICK)
    reported = PAIRS[1::2]
    for pair, shown in zip(reported, found.details["pairs"], strict=True):
        assert (" ".join(shown["source"]), " ".join(shown["target"])) == pair
        both = Model(model, tokenizer()).both_tokenizers
        read = None
        if weights == "contribution":
            kept = capture(
                (model, tokenizer()), [pair], sites="cross", weights=weights, keep_matrices=1
            )
            read = [matrix[None] for matrix in kept.kept.matrices.values()]
        for head, links in links_by_loops(model, both, pair, row, read).items():
            assert {tuple(link) for link in shown["links"][head]} == links


MULTILINGUAL = {
    "nllb": (random_models.nllb, random_models.nllb_tokenizer, "eng_Latn", "ita_Latn"),
    "mbart": (random_models.mbart, random_models.mbart_tokenizer, "en_XX", "it_IT"),
}


@pytest.mark.parametrize("row", ["output", "input"])
@pytest.mark.parametrize("name", MULTILINGUAL)
def test_languages_are_told_to_the_tokenizer(name: str, row: str, tmp_path: Path) -> None:
    build, tokenizer_of, source, target = MULTILINGUAL[name]
    model, told = build().double(), tokenizer_of()
    found = align(
        (model, tokenizer_of()), gold=gold_file(tmp_path, PAIRS), row=row,
        source_language=source, target_language=target, **QUICK,
    )  # fmt: skip
    told.src_lang, told.tgt_lang = source, target
    both = Model(model, told).both_tokenizers
    codes = told.convert_tokens_to_ids([source, target])
    assert {codes[0]} & set(told(PAIRS[0][0])["input_ids"])
    assert {codes[1]} & set(told(text_target=PAIRS[0][1])["input_ids"])
    for pair, shown in zip(PAIRS[1::2], found.details["pairs"], strict=True):
        for head, links in links_by_loops(model, both, pair, row).items():
            assert {tuple(link) for link in shown["links"][head]} == links


@pytest.mark.parametrize("name", MULTILINGUAL)
def test_the_decoder_reads_what_transformers_hands_it(name: str) -> None:
    build, tokenizer_of, source, target = MULTILINGUAL[name]
    model, told = build(), tokenizer_of()
    told.src_lang, told.tgt_lang = source, target
    (first, *_) = read_sentences(Model(model, told), PAIRS).usable
    labels = torch.tensor([told(text_target=PAIRS[0][1])["input_ids"]])
    handed: list[torch.Tensor] = []
    model.get_decoder().register_forward_pre_hook(
        lambda module, args, given: handed.append(given["input_ids"]), with_kwargs=True
    )
    model(input_ids=torch.tensor([told(PAIRS[0][0])["input_ids"]]), labels=labels)
    (read,) = handed
    assert (first.target, first.labels) == (tuple(read[0].tolist()), tuple(labels[0].tolist()))


@pytest.mark.parametrize("language", ["xx", "▁cat"])
def test_an_unknown_language_is_told(tmp_path: Path, language: str) -> None:
    model = random_models.nllb(), random_models.nllb_tokenizer()
    assert "▁cat" in model[1].get_vocab()
    with pytest.raises(InputError, match=f"does not know the language '{language}'"):
        align(model, gold=gold_file(tmp_path, PAIRS), source_language=language, **QUICK)
    assert model[1].src_lang == random_models.nllb_tokenizer().src_lang


@pytest.mark.parametrize("name", MULTILINGUAL)
def test_a_model_of_several_languages_writes_that_of_the_references(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told to begin with their code, where a greedy search of its own begins with any token."""
    build, tokenizer_of, source, target = MULTILINGUAL[name]
    model = build(), tokenizer_of()
    begun: list[list[int]] = []
    generate = model[0].generate

    def generating(*args: Any, **told: Any) -> Any:
        begun.extend(told["decoder_input_ids"].tolist())
        return generate(*args, **told)

    monkeypatch.setattr(model[0], "generate", generating)
    gold = gold_file(tmp_path, PAIRS)
    given = {"source_language": source, "target_language": target}
    found = align(model, gold=gold, **given)
    assert not any(isinstance(note, NotGenerated) for note in found.notes)
    code = model[1].convert_tokens_to_ids(target)
    assert len(begun) == len(PAIRS) // 2
    assert all(one[-1] == code for one in begun)
    begun.clear()
    align(model, gold=gold, quick=True, **given)
    assert not begun


def test_what_is_not_measured_while_a_model_writes_is_told(tmp_path: Path) -> None:
    """Nothing says how translations begin: no start token, and no code that all references have."""
    model = random_models.bart(), tokenizer()
    model[0].config.decoder_start_token_id = None
    gold = gold_file(tmp_path, PAIRS)
    for quick in (True, False):
        found = align(model, gold=gold, quick=quick)
        assert "generation" not in found.tables
        assert any(isinstance(note, NotGenerated) for note in found.notes) is not quick


def test_languages_whose_codes_are_no_tokens() -> None:
    """As of M2M100, whose tokenizer cannot be made without a library of its own."""

    tokenizer = SimpleNamespace(
        lang_code_to_token={"en": "__en__"},
        all_special_tokens=["__en__"],
        get_added_vocab=lambda: {"__en__": 7},
    )
    assert [_knows(tokenizer, one) for one in ("en", "__en__", "it")] == [True, False, False]


def engine_choices(part: Part, per_layer: int) -> dict[str, tuple[float, set[tuple[int, ...]]]]:
    """Least AER of heads of one layer, and of the first head of one, with all heads that have it."""
    count = part.weights["output"].weights.shape[1]

    def aer(heads: Sequence[int]) -> float:
        return float(scored(part.counts(Chosen("output", tuple(heads), per_layer)), "aer"))

    firsts = {(layer,): aer([layer]) for layer in range(0, count, per_layer)}
    sets: dict[tuple[int, ...], float] = {}
    for start in range(0, count, per_layer):
        # The greedy choice of `set`, among the heads of one layer alone.
        own: list[int] = []
        for _ in range(per_layer):
            rest = [head for head in range(start, start + per_layer) if head not in own]
            own.append(min(rest, key=lambda head: (aer([*own, head]), head)))
            sets[tuple(own)] = aer(own)
    return {
        name: (
            min(found.values()),
            {heads for heads in found if found[heads] == min(found.values())},
        )
        for name, found in (("one-layer", sets), ("first-head", firsts))
    }


@pytest.mark.parametrize("choose", ["set", "one-layer", "first-head"])
def test_what_engines_can_be_told_is_chosen_among_what_they_read(
    choose: str, tmp_path: Path
) -> None:
    model = marian(decoder_layers=3).double(), tokenizer()
    gold = gold_file(tmp_path, [*PAIRS, *((target, source) for source, target in PAIRS)])
    found = align(model, gold=gold, choose=choose, **QUICK)
    loaded = Model(*model)
    pairs = pairs_of(loaded, AlignmentSettings(gold=gold))
    read = halves(loaded, pairs, AlignmentSettings(**QUICK))
    per_layer = read.aligned.shape[1]
    told = found.details["configuration"]
    expected = engine_choices(read.calibration, per_layer)
    systems = found.systems.set_index("system")
    for name, program in (("one-layer", "ctranslate2"), ("first-head", "marian")):
        heads = told[program]["heads"]
        numbers = tuple(layer * per_layer + head for layer, head in heads)
        assert numbers in expected[name][1]
        row = systems.loc["chosen heads" if choose == name else CHOICE_NAMES[name]]
        assert (row["system_kind"], row["row"]) == ("choice", "output")
        assert row["heads"] == ", ".join(f"{layer}.{head}" for layer, head in heads)
        counts = read.report.counts(Chosen("output", numbers, per_layer))
        assert row["aer"] == pytest.approx(float(scored(counts, "aer")))
    layer = told["marian"]["heads"][0][0]
    assert told["marian"]["transformer-guided-alignment-layer"] == layer + 1
    assert len({layer for layer, _ in told["ctranslate2"]["heads"]}) == 1
    assert told["ctranslate2"]["alignment_heads"] == len(told["ctranslate2"]["heads"])


def test_engines_are_told_of_no_heads_of_a_row_that_they_do_not_read(small_run: Path) -> None:
    given = {"sentences": 40, "row": "input", **QUICK}
    found = align(small_run, **given)
    told = found.details["configuration"]
    assert (told["ctranslate2"], told["marian"]) == (None, None)
    assert not {*found.systems["system"]} & {CHOICE_NAMES["one-layer"], CHOICE_NAMES["first-head"]}
    for choose in ("one-layer", "first-head"):
        with pytest.raises(InputError, match=f"choose is {choose}, .* output row; leave row out"):
            align(small_run, choose=choose, **given)


def test_given_heads_are_told_to_engines_where_they_can_take_them(tmp_path: Path) -> None:
    model = marian(), tokenizer()
    align(model, gold=gold_file(tmp_path, PAIRS), **QUICK).save(tmp_path / "found")
    heads = read_heads(tmp_path / "found" / "heads.json")
    for changed, layer in (((0, 1), None), ((1, 0), 2)):
        for row in ("output", "input"):
            path = tmp_path / "heads.json"
            write_heads(path, replace(heads, heads=(changed,), row=row))
            again = align(model, PAIRS, heads=path, links=tmp_path / "links", overwrite=True)
            told = again.details["configuration"]
            assert (told["ctranslate2"] is None) is (row == "input")
            assert (told["marian"] is None) is (row == "input" or layer is None)
            if told["marian"]:
                assert told["marian"]["transformer-guided-alignment-layer"] == layer


@pytest.mark.parametrize("row", ["output", "input"])
def test_words_of_several_tokens(small_run: Path, row: str) -> None:
    run = load(small_run)
    run.model.double()
    found = align(run, row=row, **QUICK)
    shown = found.details["pairs"][0]
    pair = " ".join(shown["source"]), " ".join(shown["target"])
    spaced = align(run, [pair, pair], row=row, **QUICK)
    for head, links in links_by_loops(run.model, run.tokenizers, pair, row).items():
        assert {tuple(link) for link in spaced.details["pairs"][0]["links"][head]} == links


def aer_of(shown: list[dict[str, Any]], name: str) -> float:
    agreed = total = 0
    for one in shown:
        found, sure, possible = (
            {tuple(link) for link in links}
            for links in (one["links"][name], one["sure"], one["possible"])
        )
        agreed += len(found & sure) + len(found & possible)
        total += len(found) + len(sure)
    return 1 - agreed / total


def test_scores_are_those_of_the_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [*PAIRS, *((target, source) for source, target in PAIRS)]
    monkeypatch.setattr("attnlab.ablation.significance.FEWEST_FOR_INTERVAL", len(pairs) // 2)
    found = align((marian(), tokenizer()), gold=gold_file(tmp_path, pairs), **QUICK)
    shown = found.details["pairs"]
    chosen = found.systems.iloc[0]
    assert chosen["pairs"] == len(shown) == len(pairs) // 2
    assert chosen["aer"] == pytest.approx(aer_of(shown, "chosen"))
    row = found.details["row"]
    for one in found.heads[found.heads["row"] == row].itertuples():
        assert one.aer == pytest.approx(aer_of(shown, f"{one.layer}.{one.head}"))
        assert one.aer_low <= one.aer <= one.aer_high
    bound = found.systems.set_index("system").loc["greedy set on the reported pairs"]
    assert bound["aer"] <= found.heads["aer"].min() + 1e-12
    default = found.systems.set_index("system").loc["first head of the last layer"]
    assert (default["heads"], default["row"]) == ("1.0", "output")
    first = found.heads.query("layer == 1 and head == 0 and row == 'output'").iloc[0]
    assert default["aer"] == first["aer"]


def test_heads_are_chosen_on_other_pairs_than_they_are_scored_on(tmp_path: Path) -> None:
    """Other gold links in the reported half change the scores, never the choice."""
    model = marian(), tokenizer()
    gold = gold_file(tmp_path, PAIRS)
    before = align(model, gold=gold, **QUICK)
    lines = gold.read_text(encoding="utf-8").splitlines()
    for number in range(1, len(lines), 2):
        source, target, _ = lines[number].split("\t")
        lines[number] = f"{source}\t{target}\t0-{len(target.split()) - 1}"
    gold.write_text("\n".join(lines) + "\n", encoding="utf-8")
    after = align(model, gold=gold, **QUICK)
    assert before.details["chosen"] == after.details["chosen"]
    assert before.systems["aer"].iloc[0] != after.systems["aer"].iloc[0]
    columns = ["row", "heads_averaged", "layer", "head", "calibration_aer"]
    pd.testing.assert_frame_equal(before.steps[columns], after.steps[columns])


@pytest.mark.parametrize("sentences", [None, 3])
def test_links_of_another_aligner_are_a_baseline(sentences: int | None, tmp_path: Path) -> None:
    """Gold links themselves have no errors; with one in four wrong on a reported pair the rest is counted."""
    gold = gold_file(tmp_path, PAIRS)
    lines = [line.split("\t")[2] for line in gold.read_text(encoding="utf-8").splitlines()]
    # Every other pair is reported on.
    links = lines[1].split()
    wrong = [lines[0], " ".join(["0p1", *links[1:]]), *lines[2:]]
    reported = sum(len(line.split()) for line in lines[1:sentences:2])
    for given, error in ((lines, 0), (wrong, 1 / reported)):
        file = tmp_path / "eflomal.gdfa"
        file.write_text("\n".join(given) + "\n", encoding="utf-8")
        found = align(
            (marian(), tokenizer()), gold=gold, baseline_links=file, sentences=sentences, **QUICK
        )
        row = found.systems.set_index("system").loc["file eflomal.gdfa"]
        assert row["system_kind"] == "baseline"
        assert row["aer"] == pytest.approx(error)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda lines: lines[:-1],
            r"ends at line 6, with sentence 6, and there are 7 sentence pairs",
        ),
        (
            lambda lines: [*lines, "0-0"],
            r"line 8, is of sentence 8, and there are 7 sentence pairs",
        ),
        (lambda lines: ["0-0 0-99", *lines[1:]], r"line 1, links target word 99, .* from 0 to"),
        (lambda lines: ["1:1", *lines[1:]], r"line 1, has '1:1' for a link"),
    ],
)
def test_links_of_other_sentences_are_refused_before_the_model_reads(
    change: Callable[[list[str]], list[str]],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aligning, "halves", None)
    gold, file = gold_file(tmp_path, PAIRS), tmp_path / "links"
    lines = [line.split("\t")[2] for line in gold.read_text(encoding="utf-8").splitlines()]
    file.write_text("\n".join(change(lines)) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        align((marian(), tokenizer()), gold=gold, baseline_links=file, **QUICK)


def test_a_file_of_calibration_pairs(tmp_path: Path) -> None:
    """The same pairs in both files: chosen on all, scored on all, so the choice is the bound."""
    gold = gold_file(tmp_path, PAIRS)
    found = align((marian(), tokenizer()), gold=gold, calibration=gold, choose="set", **QUICK)
    systems = found.systems.set_index("system")
    assert systems["pairs"].eq(len(PAIRS)).all()
    bound, chosen = systems.loc["greedy set on the reported pairs"], systems.iloc[0]
    assert (chosen["heads"], chosen["row"], chosen["aer"]) == tuple(bound[["heads", "row", "aer"]])
    assert PairsInBoth(len(PAIRS), len(PAIRS)) in found.notes


@pytest.mark.parametrize("first", [None, 0, 1])
def test_a_calibration_file_counts_words_as_gold_of_its_form_does(
    first: int | None, tmp_path: Path
) -> None:
    def choices(gold: Path, calibration: Path, **options: Any) -> pd.DataFrame:
        model = random_models.marian(), tokenizer()
        given = {"gold": gold, "calibration": calibration, "choose": "set"} | options
        return align(model, **given, **QUICK).systems

    def counting_from(first: int, form: str) -> Path:
        """The gold links of `PAIRS` with indices from `first`."""
        path = tmp_path / f"{first}.{form}"
        text = gold_file(tmp_path, PAIRS).read_text(encoding="utf-8")
        rows = [line.split("\t") for line in text.splitlines()]
        links = [re.sub(r"\d+", lambda n: str(int(n[0]) + first), row[2]) for row in rows]
        both = ["\t".join((*row[:2], line)) for row, line in zip(rows, links, strict=True)]
        path.write_text("\n".join(both if form == "tsv" else links) + "\n", encoding="utf-8")
        return path

    alike = choices(counting_from(0, "tsv"), counting_from(0, "tsv"))
    gold = counting_from(first or 0, "tsv")
    pd.testing.assert_frame_equal(choices(gold, gold, first_index=first), alike)
    # Of another form.
    gold = counting_from(first or 0, "pharaoh")
    other = choices(gold, counting_from(0, "tsv"), first_index=first, pairs=PAIRS)
    pd.testing.assert_frame_equal(other, alike)


def test_pairs_that_heads_are_chosen_on_and_scored_on_are_counted(tmp_path: Path) -> None:
    model, other = (marian(), tokenizer()), tmp_path / "other"
    other.mkdir()
    gold = gold_file(tmp_path, PAIRS)
    # One pair of three, the same source with another target, and the target with another source.
    beside = [PAIRS[2], (PAIRS[0][0], PAIRS[1][1]), (PAIRS[3][0], PAIRS[0][1])]
    found = align(model, gold=gold, calibration=gold_file(other, beside), **QUICK)
    assert PairsInBoth(1, len(PAIRS)) in found.notes
    # Within one file it is a sentence that stands in both halves.
    told = align(model, gold=gold_file(other, [*PAIRS[:4], PAIRS[1], PAIRS[4]]), **QUICK)
    assert PairsInBoth(1, 3) in told.notes
    without = align(model, gold=gold, **QUICK)
    assert not any(isinstance(one, PairsInBoth) for one in without.notes)


def test_chosen_heads_align_a_corpus_line_by_line(tmp_path: Path) -> None:
    model = marian(), tokenizer()
    found = align(model, gold=gold_file(tmp_path, PAIRS), **QUICK)
    found.save(tmp_path / "out")
    heads = tmp_path / "out" / "heads.json"
    assert [list(one) for one in read_heads(heads).heads] == found.details["chosen"]
    long = ("cat " * 99).strip()
    pairs = tmp_path / "pairs.tsv"
    rows = [*PAIRS, (long, "il gatto"), PAIRS[0]]
    pairs.write_text("".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    again = align(model, pairs, heads=heads, links=tmp_path / "links", batch_size=2)
    lines = (tmp_path / "links").read_text(encoding="utf-8").split("\n")
    written = (tmp_path / "out" / "links.pharaoh").read_text(encoding="utf-8").splitlines()
    assert lines == [*written, "", written[0], ""]
    (note,) = (one for one in again.notes if isinstance(one, PairsNotAligned))
    assert (note.count, note.total, note.first) == (1, len(rows), len(PAIRS) + 1)
    for number, shown in enumerate(found.details["pairs"]):
        own = {tuple(map(int, link.split("-"))) for link in lines[2 * number + 1].split()}
        assert own == {tuple(link) for link in shown["links"]["chosen"]}


def test_controls_and_the_statistical_aligner(small_run: Path) -> None:
    told: list[str] = []
    found = align(small_run, sentences=20, seed=1, progress=lambda what, *_: told.append(what))
    wanted = ["Reading pairs", "Control: untrained model", "Control: shuffled pairs"]
    assert [what for what in dict.fromkeys(told) if what in wanted] == wanted
    systems = found.systems.set_index("system")
    assert systems.loc["untrained twin, chosen alike", "system_kind"] == "control"
    assert systems.loc["chosen heads, sources of other pairs", "system_kind"] == "control"
    # Two hundred pairs of a small grammar are enough for a lexicon, not for an alignment by chance.
    assert "heads chosen without gold links" in systems.index
    assert systems["aer"].between(0, 1).all()
    changes = systems["aer_change"].iloc[1:] + systems["aer"].iloc[0]
    assert changes.to_numpy() == pytest.approx(systems["aer"].iloc[1:].to_numpy())
    assert found.calibration["calibration_pairs"].is_monotonic_increasing


def saved_model(folder: Path, build: Callable[[], Any] = marian) -> Path:
    build().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def links_in_file(path: Path) -> list[set[tuple[int, int]]]:
    return [
        {(int(source), int(target)) for source, target in (one.split("-") for one in line.split())}
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


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


def test_files_that_are_not_there_are_told_before_the_model_is_loaded(tmp_path: Path) -> None:
    for name in ("pairs", "gold", "calibration", "heads"):
        settings = AlignmentSettings(**{name: tmp_path / "nowhere"})
        with pytest.raises(InputError, match=r"There is no file .*nowhere; name a"):
            settings.check_source("a model")


def test_links_that_are_there_are_not_replaced_unasked(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    for one in model:
        one.save_pretrained(tmp_path / "model")
    links = tmp_path / "links"
    links.write_text("precious\n")
    words = [
        "align",
        str(tmp_path / "model"),
        "--gold",
        str(tmp_path / "gold.tsv"),
        "--heads",
        str(heads),
    ]
    words += ["--links", str(links), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, InputError) or done.exit_code == 2
    assert links.read_text() == "precious\n"
    assert CliRunner().invoke(app, [*words, "--overwrite"]).exit_code == 0
    assert links.read_text() != "precious\n"


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


def test_without_gold(tmp_path: Path) -> None:
    model = marian(), tokenizer()
    found = align(model, PAIRS, **QUICK)
    assert any(isinstance(note, NoGold) for note in found.notes)
    assert "aer" not in found.systems
    assert found.heads["chosen_head"].sum() == 1
    with pytest.raises(InputError, match="chosen by gold links"):
        align(model, PAIRS, choose="single", **QUICK)
    found.save(tmp_path / "out")
    assert read_heads(tmp_path / "out" / "heads.json").aer is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": [("a cat", "il gatto")]}, None),
        ({"pairs": []}, "at least one"),
        ({"pairs": ["a cat"]}, "each of it 2 values"),
        ({"pairs": PAIRS, "heads": __file__}, "nothing is asked"),
        ({"pairs": PAIRS, "target_language": "x"}, "no languages .* leave target language out"),
        ({"pairs": PAIRS, "pair": "en-it"}, "pair names the languages of a .jsonl file"),
        ({"pairs": PAIRS, "gold_format": "naacl"}, "gold_format is given without gold; give both"),
        ({"pairs": PAIRS, "first_index": 1}, "first_index is given without gold; give both"),
        (
            {"pairs": PAIRS, "gold": "g", "gold_format": "x"},
            "gold format must be one of pharaoh, naacl",
        ),
    ],
)
@pytest.mark.usefixtures("as_users_call_it")
def test_what_is_refused(options: dict[str, Any], message: str | None) -> None:
    model = marian(), tokenizer()
    pairs = options.pop("pairs")
    if message is None:
        assert len(align(model, pairs, **options, **QUICK).systems) == 1
        return
    with pytest.raises(InputError, match=message):
        align(model, pairs, **options, **QUICK)


def test_a_model_without_cross_attention() -> None:
    with pytest.raises(InputError, match="no cross-attention"):
        align((random_models.bert(), tokenizer()), PAIRS)


def test_heads_of_another_model(tmp_path: Path) -> None:
    found = align((marian(), tokenizer()), PAIRS, **QUICK)
    found.save(tmp_path / "out")
    other = marian(decoder_layers=1), tokenizer()
    with pytest.raises(InputError, match="choose heads for it"):
        align(other, PAIRS, heads=tmp_path / "out" / "heads.json", links=tmp_path / "links")
    assert not (tmp_path / "links").exists()


def test_padding_and_batches_change_nothing(tmp_path: Path) -> None:
    model = marian().double(), tokenizer()
    gold = gold_file(tmp_path, PAIRS)
    one, other = (align(model, gold=gold, batch_size=size, **QUICK) for size in (1, 7))
    pd.testing.assert_frame_equal(one.systems, other.systems)
    pd.testing.assert_frame_equal(one.heads, other.heads)


def test_analyze_reports_the_same_error_rate(small_run: Path) -> None:
    given = {"sentences": 60, "quick": True}
    heads = align(small_run, row="output", **given).heads.sort_values(["layer", "head"])
    alone = dict.fromkeys(("structure_sentences", "fit_sentences", "keep_matrices"), 0)
    relations = attnlab.analyze(small_run, sites=["cross"], **given, **alone).relations
    found = relations[relations["relation"] == "alignment"].sort_values(["layer", "head"])
    assert len(found) == len(heads)
    assert found["aer"].tolist() == pytest.approx(heads["aer"].tolist(), abs=1e-12)
    assert (found["aer_low"] <= found["aer"]).all()
    assert (found["aer"] <= found["aer_high"]).all()
    assert (found["aer_high"] > found["aer_low"]).any()


def writing(monkeypatch: pytest.MonkeyPatch, written: Callable[[str], str]) -> None:
    """The model writes this in place of each reference."""

    def translations(evaluator: Any, report: Part, settings: Any) -> Any:
        texts = report.pairs.gold.target
        assert texts is not None
        targets = {number: written(texts[number].text) for number in report.numbers}
        return {
            number: generated_words.sentence_of(number, text) for number, text in targets.items()
        }

    monkeypatch.setattr(generated_words, "translations_of", translations)


def generation_of(tmp_path: Path) -> Any:
    model = marian(), tokenizer()
    gold = tmp_path / "links.pharaoh"
    gold.write_text("0-0 1-1\n" * len(PAIRS))
    return align(model, PAIRS, gold=gold).generation.iloc[0]


def test_references_that_the_model_writes_itself_have_the_links_of_teacher_forcing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing(monkeypatch, str)
    found = generation_of(tmp_path)
    assert found["word_share"] == 1
    assert found["words"] == sum(len(target.split()) for _, target in PAIRS[1::2])
    assert found["generated_aer"] == found["aer"]
    assert found["generated_change"] == 0


def test_words_that_only_the_reference_has_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing(monkeypatch, lambda text: text.split(maxsplit=1)[1])
    found = generation_of(tmp_path)
    words = sum(len(target.split()) for _, target in PAIRS[1::2])
    assert found["words"] == words - len(PAIRS[1::2])
    assert found["word_share"] == pytest.approx(found["words"] / words)


LONG = " ".join(["cat"] * 99)


@pytest.mark.parametrize("bad", [{1}, {1, 5}, {1, 3, 5}])
def test_translations_that_cannot_be_aligned_are_left_out_of_both_sides(
    bad: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if their pairs were not reported; what the model wrote begins with the reference there."""

    def translations(evaluator: Any, report: Part, settings: Any) -> Any:
        sides = report.pairs.gold.target
        assert sides is not None
        texts = {number: sides[number].text for number in report.numbers}
        return {
            number: generated_words.sentence_of(number, f"{text} {LONG}" if number in bad else text)
            for number, text in texts.items()
        }

    monkeypatch.setattr(generated_words, "translations_of", translations)
    model = marian(), tokenizer()
    gold = tmp_path / "links.pharaoh"
    gold.write_text("0-0 1-1\n" * len(PAIRS))
    found = align(model, PAIRS, gold=gold)
    (note,) = (one for one in found.notes if isinstance(one, TranslationsNotAligned))
    reported = set(range(1, len(PAIRS), 2))
    assert (note.count, note.total, note.first) == (len(bad), len(reported), min(bad) + 1)
    rest = reported - bad
    if not rest:
        assert "generation" not in found.tables
        return
    row = found.generation.iloc[0]
    assert row["pairs"] == len(rest)
    assert row["words"] == sum(len(PAIRS[number][1].split()) for number in rest)
    assert (row["word_share"], row["generated_change"]) == (1, 0)
    shown = [
        one for n, one in zip(sorted(reported), found.details["pairs"], strict=True) if n in rest
    ]
    assert row["aer"] == row["generated_aer"] == pytest.approx(aer_of(shown, "chosen"))


def planted_part(shares: dict[str, list[float]], words: list[tuple[str, str]]) -> Part:
    """Heads that link that share of the words of each pair at the same place, and the others to the next."""
    model = Model(marian(), tokenizer())
    pairs = pairs_of(model, AlignmentSettings(pairs=words))
    size = len(words[0][0].split())
    there = torch.ones(len(words), size, dtype=torch.bool)
    weights = {}
    for row, own in shares.items():
        grid = torch.zeros(len(words), len(own), size, size)
        for head, share in enumerate(own):
            for number in range(len(words)):
                for place in range(size):
                    right = place < round(share * size)
                    grid[number, head, place, place if right else (place + 1) % size] = 1
        weights[row] = WordWeights(grid, there, there)
    numbers = tuple(range(len(words)))
    gold = gold_grid([gold_links(())] * len(words), size, size)
    return Part(pairs, numbers, weights, gold, per_layer=2)


def test_without_gold_the_head_is_taken_that_links_words_written_alike() -> None:
    """Of those within one standard error the one of the best score; all where no word is written alike."""
    words = [("the cat sees a dog , red 7 .", "il cat sees un dog , rosso 7 .")] * 4
    part = planted_part({"output": [1 / 3, 2 / 3], "input": [0.0, 1.0]}, words)
    shares = {row: alike_shares(part, row) for row in ("output", "input")}
    # Of nine words six are alike: at 1, 2, 4, 5, 7 and 8.
    assert [one.tolist() for one in shares.values()] == [
        pytest.approx([2 / 6, 4 / 6]),
        pytest.approx([0, 1]),
    ]
    assert heads_without_gold(part) == Chosen("input", (1,), 2)
    scores = {row: head_properties(one).score for row, one in part.weights.items()}
    best = max(float(one.max()) for one in scores.values())
    other = [(source, "il gatto vede un cane e rosso otto ora") for source, _ in words]
    found = heads_without_gold(planted_part({"output": [1 / 3, 2 / 3], "input": [0.0, 1.0]}, other))
    assert found is not None
    assert float(scores[found.row][found.heads[0]]) == pytest.approx(best)


@pytest.mark.parametrize(("count", "near"), [(1, True), (40, False)])
def test_one_standard_error_decides_which_heads_are_as_good(count: int, near: bool) -> None:
    """Four of six words and three of six: the same for six words, not for 240."""
    part = planted_part({"output": [4 / 6, 3 / 6]}, [("1 2 3 4 5 6", "1 2 3 4 5 6")] * count)
    # The better one is less confident, so its score is lower.
    sharp = part.weights["output"].weights[:, 0]
    sharp.copy_(0.6 * sharp + 0.4 / 6)
    scores = head_properties(part.weights["output"]).score
    assert scores[0] < scores[1]
    assert heads_without_gold(part) == Chosen("output", (1 if near else 0,), 2)


def test_pairs_of_single_words_tell_no_heads_apart(tmp_path: Path) -> None:
    pairs = [("cat", "gatto"), ("dog", "cane")]
    with pytest.raises(InputError, match="No pair has two words with tokens on both sides"):
        align((marian(), tokenizer()), pairs, **QUICK)


def chosen_heads(folder: Path) -> tuple[Any, Path]:
    # Read from a folder, since Marian's positions stand in no file, and the random model has others.
    saved = saved_model(folder / "random")
    model = MarianMTModel.from_pretrained(saved), tokenizer()
    align(model, gold=gold_file(folder, PAIRS), **QUICK).save(folder / "found")
    return model, folder / "found" / "heads.json"


@pytest.mark.parametrize("size", [1, 3])
def test_parts_of_a_corpus_are_aligned_as_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    model, heads = chosen_heads(tmp_path)
    # One pair has no token of a word on the target side, in a part of its own where that is of one pair.
    pairs = [*PAIRS[:3], ("the cat", "\u00ad"), *PAIRS[3:]]
    told: list[tuple[int, int]] = []
    for name, most in (("whole", 99), ("parts", size)):
        monkeypatch.setattr(corpus_links, "PART", most)
        found = align(
            model, pairs, heads=heads, links=tmp_path / name,
            progress=lambda what, done, total: told.append((done, total)),
        )  # fmt: skip
        row = found.systems.iloc[0]
        lines = (tmp_path / name).read_text().splitlines()
        assert len(lines) == len(pairs)
        assert row["links_given"] == sum(len(line.split()) for line in lines)
        assert row["pairs"] == sum(map(bool, lines))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert all(total == len(pairs) for _, total in told)


def test_links_with_words_and_weights(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    for ending in ("jsonl", "pharaoh"):
        align(model, PAIRS, heads=heads, links=tmp_path / f"links.{ending}")
    lines = (tmp_path / "links.pharaoh").read_text().splitlines()
    objects = map(json.loads, (tmp_path / "links.jsonl").read_text().splitlines())
    for one, line, (source, target) in zip(objects, lines, PAIRS, strict=True):
        assert " ".join(f"{s}-{t}" for s, t in one["links"]) == line
        assert (one["source"], one["target"]) == (source.split(), target.split())
        assert len(one["weights"]) == len(one["links"])
        assert all(0 < weight <= 1 for weight in one["weights"])


def test_a_bad_last_line_is_told_before_anything_is_written(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    pairs, links = tmp_path / "pairs.tsv", tmp_path / "links.pharaoh"
    links.write_text("kept\n")
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS) + "no tab\n")
    told: list[object] = []
    with pytest.raises(InputError, match=rf"pairs.tsv, line {len(PAIRS) + 1}, has no tab"):
        align(
            model, pairs, heads=heads, links=links, overwrite=True,
            progress=lambda *done: told.append(done),
        )  # fmt: skip
    assert not told
    assert links.read_text() == "kept\n"


def test_a_pair_that_one_model_cannot_read_leaves_the_halves_as_they_are(tmp_path: Path) -> None:
    long = " ".join(["the cat"] * 12)
    pairs = [(long, long), *PAIRS]
    gold = gold_file(tmp_path, pairs)
    config = marian().config
    config.max_position_embeddings = 22
    torch.manual_seed(1)
    reverse = MarianMTModel(config)
    folder = tmp_path / "reverse"
    reverse.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    whole = align((marian(), tokenizer()), gold=gold, reverse=folder, **QUICK)
    numbers = range(1, len(pairs), 2)
    words = [(" ".join(one["source"]), " ".join(one["target"])) for one in whole.details["pairs"]]
    assert words == [pairs[number] for number in numbers]
    model = Model(reverse, tokenizer())
    without = halves(
        model,
        pairs_of(model, AlignmentSettings(gold=gold)),
        AlignmentSettings(**QUICK),
        turned=True,
    )
    assert not set(without.calibration.numbers) & set(numbers)
    assert set(without.report.numbers) == set(numbers)


def test_nothing_is_written_where_no_pair_can_be_aligned(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    links = tmp_path / "links.pharaoh"
    links.write_text("precious\n")
    long = " ".join(["the cat"] * 40)
    with pytest.raises(InputError, match="None of the 3 pairs can be aligned"):
        align(model, [(long, long)] * 3, heads=heads, links=links, overwrite=True)
    assert links.read_text() == "precious\n"


def test_too_little_memory_is_told_and_is_no_reason_to_leave_pairs_out(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    with pytest.raises(InputError, match="GB"):
        align(model, PAIRS, heads=heads, links=tmp_path / "links", memory=1e-7)
    assert not (tmp_path / "links").exists()


def test_what_needs_gold_links_is_refused_without(tmp_path: Path) -> None:
    model = marian(), tokenizer()
    file = tmp_path / "given"
    file.touch()
    for name in ("calibration", "baseline_links"):
        with pytest.raises(InputError, match=rf"{name} needs gold links .* leave {name} out"):
            align(model, PAIRS, **{name: file}, **QUICK)
        with pytest.raises(InputError, match=rf"heads are given, .*; leave heads or {name} out"):
            AlignmentSettings(pairs=PAIRS, heads="h.json", links="l", **{name: file})


def test_what_heads_were_chosen_by_is_said(tmp_path: Path) -> None:
    model = marian(), tokenizer()
    gold = gold_file(tmp_path, PAIRS)
    chosen = {
        "gold links": align(model, gold=gold, **QUICK),
        "words written alike": align(model, PAIRS),
    }
    for by, found in chosen.items():
        assert found.details["chosen_by"] == by
        found.save(tmp_path / by)
        assert read_heads(tmp_path / by / "heads.json").chosen_by == by


def test_few_pairs_are_told(tmp_path: Path) -> None:
    model = marian(), tokenizer()
    gold = gold_file(tmp_path, PAIRS)
    scored = align(model, gold=gold, sentences=40, **QUICK)
    assert FewForIntervals(len(PAIRS) // 2) in scored.notes
    assert FewerThanAsked(40, "gold.tsv", len(PAIRS)) in scored.notes
    # Of three pairs there is no interval to write.
    saved = tmp_path / "few"
    scored.save(saved)
    written = read_heads(saved / "heads.json")
    assert written.aer is not None
    assert written.aer_low is None
    assert "nan" not in str(next(iter(scored.terminal())).caption)
    unscored = align(model, PAIRS, sentences=4, **QUICK)
    assert not any(isinstance(one, FewForIntervals | FewerThanAsked) for one in unscored.notes)
    model, heads = chosen_heads(tmp_path)
    given = align(model, gold=gold, heads=heads, sentences=40)
    assert {FewForIntervals(len(PAIRS)), FewerThanAsked(40, "gold.tsv", len(PAIRS))} <= {
        *given.notes
    }


def jsonl_file(path: Path, pairs: list[tuple[str, str]], languages: tuple[str, str]) -> Path:
    rows = [{"translation": dict(zip(languages, pair, strict=True))} for pair in pairs]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_pairs_of_a_json_corpus(tmp_path: Path) -> None:
    """The same links as of the same pairs with tabs, whatever the order of the languages in a line."""
    model, heads = chosen_heads(tmp_path)
    align(model, PAIRS, heads=heads, links=tmp_path / "own")
    turned = [(target, source) for source, target in PAIRS]
    files = {
        jsonl_file(tmp_path / "own.jsonl", PAIRS, ("en", "it")): None,
        jsonl_file(tmp_path / "turned.jsonl", turned, ("it", "en")): "en-it",
        jsonl_file(tmp_path / "others.jsonl", turned, ("de", "fr")): "fr-de",
        jsonl_file(tmp_path / "packed.jsonl.gz", PAIRS, ("en", "it")): None,
    }
    for path, pair in files.items():
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(path.read_bytes()))
        align(model, path, pair=pair, heads=heads, links=tmp_path / "again", overwrite=True)
        assert (tmp_path / "again").read_bytes() == (tmp_path / "own").read_bytes()
    with pytest.raises(InputError, match="others.jsonl, line 1, has no pair en-it; .*de, fr"):
        align(model, tmp_path / "others.jsonl", heads=heads, links=tmp_path / "other")
    path = tmp_path / "own.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + "[]\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"own.jsonl, line {len(PAIRS) + 1}, has no object"):
        align(model, path, heads=heads, links=tmp_path / "other")


def test_what_is_written_is_said(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    for one in model:
        one.save_pretrained(tmp_path / "model")
    links, out = tmp_path / "own.pharaoh", tmp_path / "out"
    gold = gold_file(tmp_path, PAIRS)
    for given in ([], ["--heads", str(heads)]):
        words = [
            "align",
            str(tmp_path / "model"),
            "--gold",
            str(gold),
            "--quick",
            "--links",
            str(links),
        ]
        done = CliRunner().invoke(app, [*words, *given, "--out", str(out), "--overwrite"])
        assert done.exit_code == 0, done.output
        written = [line for line in done.output.splitlines() if line.startswith("Wrote ")]
        assert f"Wrote {links}." in written
        assert len(written) == len(set(written)) == (4 if not given else 3)


def test_gold_links_that_count_from_1_in_any_form_give_the_same(tmp_path: Path) -> None:
    model = marian(), tokenizer()
    pairs = [(a, b) for a, b in PAIRS]
    lines = ["0-0 1-1"] * len(pairs)
    (tmp_path / "plain.gold").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "from1.txt").write_text("".join(f"{n}\t1-1 2-2\n" for n, _ in enumerate(lines)))
    found = [
        align(model, pairs, gold=tmp_path / name, **options, **QUICK).systems
        for name, options in (
            ("plain.gold", {}),
            ("plain.gold", {"gold_format": "pharaoh"}),
            ("from1.txt", {"first_index": 1}),
        )
    ]
    pd.testing.assert_frame_equal(found[0], found[1])
    pd.testing.assert_frame_equal(found[0], found[2])
