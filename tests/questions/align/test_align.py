"""Links from cross-attention against loops over the model's own outputs, and what `align` refuses."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from gold_pairs import MULTILINGUAL, QUICK, aer_of, chosen_heads, gold_file, marian
from transformers import MarianMTModel
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

import attnlab
from attnlab.alignment import (
    WordWeights,
    gold_grid,
    gold_links,
    head_properties,
    scored,
)
from attnlab.alignment.heads_file import read_heads, write_heads
from attnlab.core.errors import InputError
from attnlab.evaluation.shared_settings import FewerThanAsked, FewForIntervals
from attnlab.models.loaded import Model
from attnlab.models.run import load
from attnlab.questions.align import (
    aligning,
)
from attnlab.questions.align.aligning import align
from attnlab.questions.align.chosen_heads import alike_shares, halves, heads_without_gold
from attnlab.questions.align.question import (
    CHOICE_NAMES,
    AlignmentSettings,
    NoGold,
    PairsInBoth,
)
from attnlab.questions.align.word_reading import Chosen, Part, _knows, pairs_of
from attnlab.reading.capture import capture
from attnlab.reading.sentences import read_sentences

pytestmark = pytest.mark.usefixtures("no_page")


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


def test_files_that_are_not_there_are_told_before_the_model_is_loaded(tmp_path: Path) -> None:
    for name in ("pairs", "gold", "calibration", "heads"):
        settings = AlignmentSettings(**{name: tmp_path / "nowhere"})
        with pytest.raises(InputError, match=r"There is no file .*nowhere; name a"):
            settings.check_source("a model")


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
