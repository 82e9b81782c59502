"""Heads while a model writes itself, against the attention that `generate` gives and plain loops."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

import attnlab
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.questions.analyze.generation import compare_generated
from attnlab.questions.analyze.head_table import describe_generation
from attnlab.reading.own_output import LEAST_TOKENS, first_rows, written_sentences
from attnlab.reading.passes import prepare
from attnlab.reading.sentences import Sentence, Sentences, read_sentences
from attnlab.reading.statistics import HeadStatistics, SentenceStatistics

MODELS = ("marian", "bart", "t5", "gpt2", "llama")
COUNT = 6


def texts_of(name: str) -> list[Any]:
    return list(PAIRS[:COUNT] if name in {"marian", "bart", "t5"} else SENTENCES[:COUNT])


@cache
def written(name: str) -> tuple[Any, Sentences, Sentences]:
    """A model, sentences, and what it writes in place of them."""
    model = attnlab.load((random_models.ALL[name](), tokenizer()))
    sentences = read_sentences(model, texts_of(name))
    return model, sentences, written_sentences(model.model, sentences, batch_size=2)


def generated_attention(model: Any, one: Sentence, most: int) -> tuple[list[int], Any]:
    """Ids that `generate` writes for a sentence alone, and the rows of the last layer meanwhile."""
    paired = model.config.is_encoder_decoder
    given = one.source if paired else one.source[: len(one.source) // 2]
    model.eval().set_attn_implementation("eager")
    ids = torch.tensor([given])
    found = model.generate(
        ids, attention_mask=torch.ones_like(ids), num_beams=1, do_sample=False,
        max_length=most if paired else len(one.source) + 1, pad_token_id=0,
        output_attentions=True, return_dict_in_generate=True,
    )  # fmt: skip
    steps = found.cross_attentions if paired else found.attentions
    keys = steps[-1][-1].shape[-1]
    rows = [torch.nn.functional.pad(step[-1], (0, keys - step[-1].shape[-1])) for step in steps]
    return found.sequences[0].tolist(), torch.cat(rows, 2)[0]


@pytest.mark.parametrize("name", MODELS)
def test_what_is_read_is_what_was_written_and_its_attention(name: str) -> None:
    model, sentences, again = written(name)
    site = "cross" if model.model.config.is_encoder_decoder else "decoder"
    captured: dict[int, torch.Tensor] = {}

    class Kept(HeadStatistics):
        def update(self, layer: Any) -> None:
            if layer.site == site and layer.layer == last:
                captured[layer.sentences[0]] = layer.weights[0].clone()

    reading = prepare(model, again, [site])
    last = reading.attention_sites.layers[site][-1]
    reading.feed([Kept()], batch_size=1)
    assert again.usable
    for one in again.usable:
        before = next(own for own in sentences.usable if own.number == one.number)
        ids, rows = generated_attention(
            model.model, before, min(len(one.labels) + 3, sentences.most_tokens)
        )
        read = list(one.target if one.target is not None else one.source)
        assert ids[: len(read)] == read
        if one.target is not None:
            assert one.labels[:-1] == one.target[1:]
        torch.testing.assert_close(captured[one.number], rows[:, : len(read)])


@pytest.mark.parametrize("name", ["marian", "gpt2"])
def test_sums_of_sentences_add_up_to_those_of_all(name: str) -> None:
    model, sentences, _ = written(name)
    reading = prepare(model, sentences)
    apart, together = SentenceStatistics(len(sentences.texts)), HeadStatistics()
    reading.feed([apart, together], batch_size=4)
    heads = together.heads().set_index(["site", "layer", "head"]).sort_index()
    for (site, layer), own in apart.ratios().items():
        for statistic, (sums, counts) in own.items():
            means = sums.sum(0) / counts.sum()
            expected = torch.tensor(heads.loc[(site, layer), statistic].to_numpy())
            torch.testing.assert_close(means, expected, equal_nan=True)


def test_changes_and_intervals_are_of_the_same_sentences() -> None:
    forced, itself = SentenceStatistics(11), SentenceStatistics(11)
    lengths = torch.tensor([*[4.0, 2.0] * 5, 5.0], dtype=torch.float64)

    def fed(statistics: SentenceStatistics, confidence: list[float], rows: torch.Tensor) -> None:
        sums = {
            "rows": rows,
            "confidence": (torch.tensor(confidence, dtype=torch.float64) * rows)[:, None],
            "normalised_entropy": torch.zeros(11, 1, dtype=torch.float64),
            "rows_with_choice": torch.zeros(11, dtype=torch.float64),
            "mass_on": torch.zeros(11, 1, 5, dtype=torch.float64),
            "rows_seeing": torch.zeros(11, 5, dtype=torch.float64),
        }
        statistics.sums[("decoder", 0)] = sums  # type: ignore[assignment]

    own = [*[0.6, 0.8] * 5, 0.9]
    fed(forced, [*[0.5, 0.7] * 5, 0.1], lengths)
    fed(itself, own, lengths)
    (row,) = compare_generated(forced, itself, list(range(10))).to_dict("records")
    assert row["statistic"] == "confidence"
    assert row["sentences"] == 10
    assert row["teacher_forced"] == pytest.approx((0.5 * 4 + 0.7 * 2) / 6)
    assert row["generated"] == pytest.approx((0.6 * 4 + 0.8 * 2) / 6)
    ends = row["generation_change_low"], row["generation_change_high"]
    assert ends == pytest.approx((0.1, 0.1))
    # Of what has no rows in one of the two there is no change.
    fed(itself, own, torch.cat([lengths[:10], torch.zeros(1, dtype=torch.float64)]))
    (again,) = compare_generated(forced, itself, list(range(11))).to_dict("records")
    assert again == row
    # Two sentences have no interval.
    (few,) = compare_generated(forced, itself, [0, 1]).to_dict("records")
    assert few["generation_change"] == pytest.approx(0.1)
    assert math.isnan(few["generation_change_low"])
    assert "nan" not in describe_generation(pd.DataFrame([few]))


def test_rows_of_a_prompt_do_not_count() -> None:
    model, sentences, again = written("gpt2")
    starts = first_rows(model.model, sentences)
    apart = SentenceStatistics(len(sentences.texts), starts)
    prepare(model, sentences).feed([apart], batch_size=4)
    for one in sentences.usable[:3]:
        rows = range(len(one.source) // 2, len(one.source))
        alone = attnlab.capture(model, [sentences.texts[one.number].text], rows=rows)
        heads = alone.statistics.heads()
        for (site, layer), own in apart.ratios().items():
            sums, counts = own["confidence"]
            at = (heads["site"] == site) & (heads["layer"] == layer)
            expected = torch.tensor(heads.loc[at, "confidence"].to_numpy())
            torch.testing.assert_close(
                sums[one.number] / counts[one.number], expected, rtol=1e-5, atol=1e-6
            )
    assert {one.number for one in again.usable} <= {*starts}
    assert not first_rows(written("marian")[0].model, written("marian")[1])


@pytest.mark.parametrize("name", ["nllb", "mbart"])
def test_a_translation_is_written_in_the_language_of_its_reference(name: str) -> None:
    """As with `forced_bos_token_id` (NLLB), or behind the code of the language (mBART)."""
    tokenizers = getattr(random_models, f"{name}_tokenizer")()
    tokenizers.tgt_lang = {"nllb": "ita_Latn", "mbart": "it_IT"}[name]
    code = tokenizers.convert_tokens_to_ids(tokenizers.tgt_lang)
    model = getattr(random_models, name)()
    loaded = attnlab.load((model, tokenizers))
    sentences = read_sentences(loaded, PAIRS[:COUNT])
    again = written_sentences(model, sentences, batch_size=2)
    evaluator = load_evaluator((model, tokenizers), sentences=PAIRS[:COUNT])
    translations = evaluator.translations()
    start = {"decoder_start_token_id": code} if name == "mbart" else {"forced_bos_token_id": code}
    for one in sentences.usable:
        ids = torch.tensor([one.source])
        most = sentences.most_tokens
        rows = model.generate(
            ids, attention_mask=torch.ones_like(ids), num_beams=1, do_sample=False,
            max_length=most, **start,
        )  # fmt: skip
        assert code in rows[0, :2]
        expected = tokenizers.batch_decode(rows, skip_special_tokens=True)[0]
        assert translations[one.number] == expected
        read = next(list(own.target or ()) for own in again.usable if own.number == one.number)
        assert rows[0, : len(read)].tolist() == read
    # Where accelerate keeps weights on 'meta', inputs are on the processor.
    told = sentences.forced_beginning(sentences.usable, torch.device("meta"))
    assert told["decoder_input_ids"].device.type == "cpu"
    bart = written("bart")[1]
    assert not bart.forced_beginning(bart.usable, torch.device("cpu"))


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_options_of_the_model_do_not_shorten_what_is_written(name: str) -> None:
    model = random_models.ALL[name]()
    loaded = attnlab.load((model, tokenizer()))
    model.generation_config.update(max_new_tokens=1, return_dict_in_generate=True)
    found = written_sentences(model, read_sentences(loaded, texts_of(name)), batch_size=2)
    assert found.usable == written(name)[2].usable
    if name == "marian":
        evaluator = load_evaluator((model, tokenizer()), sentences=texts_of(name))
        plain = load_evaluator((random_models.marian(), tokenizer()), sentences=texts_of(name))
        assert evaluator.translations() == plain.translations()


def test_texts_too_short_to_continue_are_left_out() -> None:
    model = attnlab.load((random_models.gpt2(), tokenizer()))
    sentences = read_sentences(model, [SENTENCES[0], "a"])
    long = [one.number for one in sentences.usable if len(one.source) >= LEAST_TOKENS]
    found = written_sentences(model.model, sentences, 4)
    assert [one.number for one in found.usable] == long == [0]
    with pytest.raises(InputError, match="give longer texts"):
        written_sentences(model.model, read_sentences(model, ["a"]), 4)


def test_analyze_shows_both_and_refuses_an_encoder(tmp_path: Path) -> None:
    model, _, again = written("marian")
    # Of a translation without any word no row counts.
    texts = [
        texts_of("marian")[one.number]
        for one in again.usable
        if {*(one.target or ())} - again.target.special
    ]
    options: dict[str, Any] = {"quick": True, "generation": True}
    options |= dict.fromkeys(("fit_sentences", "structure_sentences", "keep_matrices"), 0)
    found = attnlab.analyze(model, sentences=texts, **options)
    table = found.tables["generated"]
    assert (table["sentences"] == len(texts)).all()
    assert set(table["site"]) == {"decoder", "cross"}
    known = found.heads.set_index(["site", "layer", "head"])["confidence"]
    own = table[table["statistic"] == "confidence"].set_index(["site", "layer", "head"])
    pd.testing.assert_series_equal(
        own["teacher_forced"], known[own.index], check_names=False, check_index=False
    )
    assert 'id="generated"' in found.report(tmp_path / "page.html").read_text("utf-8")
    for name in ("bert", "distilbert"):
        encoder = (random_models.ALL[name](), tokenizer())
        with pytest.raises(InputError, match="writes no text; leave generation out"):
            attnlab.analyze(encoder, sentences=SENTENCES[:2], **options)
