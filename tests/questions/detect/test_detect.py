"""Detectors of head types against plain loops over the ids that a model reads, and heads made by hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf
from answered import Answered
from scipy import stats
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from zoo import random_models

import attnlab
from attnlab.ablation import rank_agreement
from attnlab.attention import use
from attnlab.core.errors import InputError
from attnlab.labels import untrained_twin
from attnlab.models.loaded import Model
from attnlab.questions.detect.detecting import _compared
from attnlab.questions.detect.head_scores import Scores, emitted, figures, only_emitted
from attnlab.questions.detect.learned_gates import Gated
from attnlab.questions.detect.planted import ANSWER, CUE, copied, needles, repeated, sides_of_model
from attnlab.questions.detect.question import (
    COPY,
    DETECTORS,
    INDUCTION,
    NEEDLE,
    OUTSIDE,
    PREVIOUS,
    FewCopied,
    FewEmitted,
    NoPairs,
    Shortened,
)
from attnlab.questions.detect.view import answers, draw_detectors
from attnlab.reading import prepare, read_sentences, ready_to_show
from attnlab.results.result import Result

FEW: dict[str, Any] = {"sequences": 6, "seed": 3}
SIZES: dict[str, Any] = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 24, "max_position_embeddings": 96, "initializer_range": 0.6,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
NAMES = ["Anna", "Rome", "1999", "Karl", "sees", "near", "the", "vede", "vicino", "il", "."]


def tokenizer(words: int = 56, template: str = "<s> $A </s>") -> Any:
    """A token per word."""
    known = [*random_models.SPECIALS, *NAMES, *(f"w{n}" for n in range(words - len(NAMES)))]
    vocabulary = {word: number for number, word in enumerate(known)}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [(mark, vocabulary[mark]) for mark in ("<s>", "</s>") if mark in template]
    inner.post_processor = processors.TemplateProcessing(single=template, special_tokens=marks)
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )  # fmt: skip


def seeded(build: Callable[[], Any]) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return build().eval()


def llama() -> Any:
    return seeded(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, num_key_value_heads=2)))


def gpt_neox() -> Any:
    return seeded(lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SIZES)))


def gemma3() -> Any:
    config = hf.Gemma3TextConfig(
        **SIZES, num_key_value_heads=2, head_dim=8, sliding_window=7,
        layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    return seeded(lambda: hf.Gemma3ForCausalLM(config))


def gpt2() -> Any:
    config = hf.GPT2Config(
        vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=96, initializer_range=0.6
    )
    return seeded(lambda: hf.GPT2LMHeadModel(config))


def bert() -> Any:
    return seeded(lambda: hf.BertModel(hf.BertConfig(**SIZES)))


def marian() -> Any:
    config = hf.MarianConfig(
        vocab_size=60, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=4, encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=96,
        decoder_start_token_id=0, pad_token_id=0, bos_token_id=1, eos_token_id=2, init_std=0.6,
    )  # fmt: skip
    return seeded(lambda: hf.MarianMTModel(config))


DECODERS = {"gpt2": gpt2, "llama": llama, "gpt_neox": gpt_neox, "gemma3": gemma3}
TEMPLATES = {"gpt2": "$A", "llama": "<s> $A", "gpt_neox": "$A", "gemma3": "<s> $A </s>"}


def loaded(name: str) -> Model:
    if name in DECODERS:
        return Model(DECODERS[name](), tokenizer(template=TEMPLATES[name]))
    return Model({"bert": bert, "marian": marian}[name](), tokenizer())


def weights_of(model: Model, source: tuple[int, ...], target: tuple[int, ...] | None) -> Any:
    """By site, the matrices [layer, head, query, key] of one text, as transformers gives them."""
    model.model.set_attn_implementation("eager")
    given = {"input_ids": torch.tensor([source]), "output_attentions": True, "return_dict": True}
    if target is not None:
        given["decoder_input_ids"] = torch.tensor([target])
    with torch.no_grad():
        outputs = model.model(**given)
    if target is None:
        return {"": torch.stack(outputs.attentions)[:, 0]}, getattr(outputs, "logits", None)
    names = {"encoder": "encoder", "decoder": "decoder", "cross": "cross"}
    return {
        site: torch.stack(getattr(outputs, f"{name}_attentions"))[:, 0]
        for site, name in names.items()
    }, outputs.logits


def loops_over_copies(ids: tuple[int, ...], weights: Tensor) -> dict[str, list[Tensor]]:
    """What tokens that stood in the text before look at, found by going through the ids."""
    found: dict[str, list[Tensor]] = {"previous_token": [], "duplicate_token": [], "induction": []}
    for i, token in enumerate(ids):
        if token not in ids[:i]:
            continue
        j = ids.index(token)
        found["previous_token"].append(weights[:, :, i, i - 1])
        found["duplicate_token"].append(weights[:, :, i, j])
        found["induction"].append(weights[:, :, i, j + 1])
    return found


@pytest.mark.parametrize("name", [*DECODERS, "bert", "marian"])
def test_repeated_tokens_equal_a_loop_over_ids(name: str) -> None:
    model = loaded(name)
    result = attnlab.detect((model.model, model.tokenizer), **FEW, tokens=11, controls=False)
    sides = sides_of_model(model)
    planted = repeated(model, sides, 6, 11, torch.Generator().manual_seed(3))
    expected: dict[tuple[str, str], list[Tensor]] = {}
    for one in planted.sentences.usable:
        weights, _ = weights_of(model, one.source, one.target)
        for side in sides:
            ids = one.target if side.site == "decoder" and one.target else one.source
            found = loops_over_copies(ids, weights.get(side.site, weights.get("")))
            for detector, values in found.items():
                assert len(values) == 11
                expected.setdefault((side.site, detector), []).extend(values)
    heads = result.detectors
    for (site, detector), values in expected.items():
        own = heads[heads["site"] == site][detector]
        wanted = torch.stack(values).mean(0).flatten().numpy()
        np.testing.assert_allclose(own, wanted, atol=1e-5, err_msg=f"{site} {detector}")


@pytest.mark.parametrize("name", DECODERS)
def test_needles_and_windows_equal_a_loop_over_ids(name: str) -> None:
    model = loaded(name)
    context, first, recent = 60, 4, 5
    found = needles(
        model, sides_of_model(model), 4, context, window=(first, recent),
        generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    reading = prepare(model, found.sentences, None, whole=False)
    rows = emitted(reading, found, NEEDLE.name, 8)
    for targets in (found.targets, only_emitted(found, NEEDLE.name, rows)):
        scores = Scores(targets)
        reading.feed([scores], batch_size=3)
        hits, outside, counted = 0, 0, 0
        for one in found.sentences.usable:
            weights, logits = weights_of(model, one.source, None)
            weights, ids = weights[""], one.source
            behind = len(ids) - (ids[-1] == 2)
            needle = ids[behind - 10 : behind]
            start = next(i for i in range(behind) if ids[i : i + 10] == needle)
            assert first <= start < behind - 20
            assert all(ids.count(token) == 2 for token in needle)
            for row in range(behind - 9, behind - 1):
                said = logits[0, row].argmax() == ids[row + 1]
                assert row - ids.index(ids[row + 1]) >= recent
                if targets is found.targets or said:
                    counted += 1
                    hits += (weights[:, :, row].argmax(-1) == ids.index(ids[row + 1])).int()
            for row in range(behind - context // 2, behind):
                kept = [k for k in range(len(ids)) if k < first or row - recent < k <= row]
                outside += 1 - weights[:, :, row, kept].sum(-1)
        for layer in range(2):
            sums = scores.sums["decoder", layer]
            assert scores.totals("decoder", NEEDLE.name).sum() == counted
            expected = torch.as_tensor(hits)[layer] if counted else torch.zeros(4)
            torch.testing.assert_close(sums[NEEDLE.name].sum(1), expected.double())
            torch.testing.assert_close(
                sums[OUTSIDE.name].sum(1), outside[layer].double(), rtol=1e-4, atol=1e-4
            )


PATTERNS: dict[str, Callable[[int, int], int]] = {
    "previous_token": lambda i, n: i - 1,
    "duplicate_token": lambda i, n: i - n,
    "induction": lambda i, n: i - n + 1,
}


@pytest.mark.parametrize("planted_as", PATTERNS)
@pytest.mark.parametrize("shift", [0, 1, -1])
def test_heads_made_by_hand_are_found_and_those_one_token_off_are_not(
    planted_as: str, shift: int
) -> None:
    model = Model(llama(), tokenizer(template="<s> $A"))
    n = 9
    texts = repeated(model, sides_of_model(model), 4, n, torch.Generator().manual_seed(0))
    scores = Scores(texts.targets)
    reading = prepare(model, texts.sentences, None, whole=False)

    class ByHand:
        """Hands on a head that looks at one key of each row, beside one that looks at itself."""

        def update(self, layer: Any) -> None:
            weights = torch.zeros(len(layer.sentences), 2, *layer.weights.shape[2:])
            for row in range(weights.shape[2]):
                key = PATTERNS[planted_as](row, n) + shift
                weights[:, 0, row, key if 0 <= key <= row else row] = 1
                weights[:, 1, row, row] = 1
            scores.update(replace(layer, weights=weights))

    reading.feed([ByHand()])
    means = {
        name: (sums.sum(1) / scores.totals("decoder", name).sum()).tolist()
        for name, sums in scores.sums["decoder", 0].items()
    }
    assert all(one[1] == 0 for one in means.values())
    assert (means[planted_as][0] == 1) == (shift == 0)
    others = {"duplicate_token": {1: "induction"}, "induction": {-1: "duplicate_token"}}
    taken = planted_as if shift == 0 else others.get(planted_as, {}).get(shift)
    assert {name for name, one in means.items() if one[0]} == ({taken} if taken else set())


@pytest.mark.parametrize("first", [0, 1, 6])
def test_needles_lie_between_the_first_and_the_recent_keys(first: int) -> None:
    model = loaded("llama")
    sides, recent, context = sides_of_model(model), 4, 40
    planted = needles(
        model, sides, 60, context, window=(first, recent),
        generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    places = set()
    for one in planted.sentences.usable:
        ids = list(one.source)
        end = ids[-ANSWER - CUE :]
        at = next(n for n in range(len(ids)) if ids[n : n + len(end)] == end)
        # The last row that looks for an answer is the last but one.
        assert first <= at <= len(ids) - 2 - recent - len(end) + 1
        places.add(at)
    assert min(places) == max(first, sides[-1].offset)


def test_rows_can_come_in_blocks() -> None:
    model = loaded("llama")
    planted = needles(
        model, sides_of_model(model), 3, 40, window=(3, 4),
        generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    whole, parts = Scores(planted.targets), Scores(planted.targets)
    reading = prepare(model, planted.sentences, None, whole=False)
    reading.feed([whole], batch_size=1)

    class Blocks:
        def update(self, layer: Any) -> None:
            from attnlab.reading.weights import Rows

            everything = torch.arange(layer.weights.shape[2])
            for start in range(0, len(everything), 7):
                rows = Rows(layer.queries, everything, start)
                parts.update(
                    replace(layer, weights=layer.weights[:, :, start : start + 7], rows=rows)
                )

    reading.feed([Blocks()], batch_size=1)
    for layer, sums in whole.sums.items():
        for name, values in sums.items():
            torch.testing.assert_close(parts.sums[layer][name], values, rtol=1e-5, atol=1e-5)


PAIRS = [
    ("Anna sees Rome .", "Anna vede Rome ."),
    ("Karl sees Anna near Rome", "vicino Rome Karl vede Anna"),
    ("the the 1999 w1 w2", "il 1999 w2 w1"),
    ("Rome near Rome", "Rome vicino il"),
    ("w3 w4", "w5 w6"),
]


def test_copied_words_equal_a_loop_over_words() -> None:
    model = loaded("marian")
    read = read_sentences(model, PAIRS)
    for shuffle in (False, True):
        planted = copied(model, read, shuffle=shuffle)
        scores = Scores(planted.targets)
        prepare(model, planted.sentences, ["cross"], whole=False).feed([scores])
        hits, count = torch.zeros(2, 4), 0
        for number, (source, target) in enumerate(PAIRS):
            words = PAIRS[(number + shuffle) % len(PAIRS)][0]
            one = read_sentences(model, [(words, target)]).usable[0]
            weights, _ = weights_of(model, one.source, one.target)
            for word in set(source.split()) & set(target.split()):
                # w1 and its like have a digit.
                if word == "." or source.split().count(word) > 1:
                    continue
                key = 1 + source.split().index(word)
                if key >= len(one.source):
                    continue
                row = one.labels.index(model.tokenizer.convert_tokens_to_ids(word))
                hits += weights["cross"][:, :, row].argmax(-1) == key
                count += 1
        assert scores.totals("cross", COPY.name).sum() == count >= 7
        for layer in range(2):
            torch.testing.assert_close(
                scores.sums["cross", layer][COPY.name].sum(1), hits[layer].double()
            )


def test_an_encoder_decoder_has_figures_at_every_site() -> None:
    model = loaded("marian")
    found = attnlab.detect(
        (model.model, model.tokenizer), sentences=PAIRS, **FEW, tokens=9, context=40
    )
    by_site = found.detectors.groupby("site")[
        [one.name for one in DETECTORS if one.name != "needle"]
    ]
    there = by_site.agg(lambda own: own.notna().all()).to_dict("index")
    on_random = dict.fromkeys(("previous_token", "duplicate_token", "induction"), True)
    assert there == {
        "encoder": {**on_random, "outside_window": False, "copy": False},
        "decoder": {**on_random, "outside_window": True, "copy": False},
        "cross": {**dict.fromkeys(on_random, False), "outside_window": False, "copy": True},
    }
    assert list(dict.fromkeys(found.detectors["site"])) == ["encoder", "decoder", "cross"]
    assert "needle" not in found.detectors
    assert FewCopied(8) in found.notes
    assert not (found.detectors["copy_above_controls"] == True).any()  # noqa: E712 - NaN elsewhere
    alone = attnlab.detect((model.model, model.tokenizer), **FEW, tokens=9, context=40)
    assert NoPairs() in alone.notes
    assert set(alone.detectors["site"]) == {"encoder", "decoder"}


def test_what_is_above_controls() -> None:
    name = INDUCTION.name
    table = pd.DataFrame(
        {"site": "decoder", name: [0.9, 0.9, 0.9, 0.3], f"{name}_low": [0.8, 0.8, 0.8, 0.25],
         f"{name}_untrained": [0.1, 0.1, 0.2, 0.3], "bar": [0.1, 0.85, 0.1, 0.1], "rows": 99},
    )  # fmt: skip
    assert _compared(table, INDUCTION)[INDUCTION.above].tolist() == [True, False, True, False]
    few = _compared(table.assign(rows=19), INDUCTION)
    assert not few[INDUCTION.above].any()
    assert not {"bar", "rows"} & set(few)


def test_few_texts_do_not_tell_heads_from_controls() -> None:
    sums = torch.tensor([[10.0] * 5], dtype=torch.float64)
    totals = torch.full((5,), 10.0, dtype=torch.float64)
    (few,) = figures(sums, totals, share=True)
    assert float(few[0]) == 1
    assert few[1:].isnan().all()
    name = INDUCTION.name
    table = pd.DataFrame(
        {"site": "decoder", name: [0.9, 0.9], f"{name}_low": [0.8, math.nan],
         f"{name}_untrained": [0.1, 0.1], "bar": [math.nan, 0.1], "rows": 99},
    )  # fmt: skip
    assert _compared(table, INDUCTION)[INDUCTION.above].isna().all()
    found = attnlab.detect(
        (random_models.gpt2(), random_models.tokenizer()), sequences=3, tokens=8, context=16
    )
    assert "Previous token: too few texts to tell heads from controls, highest" in " ".join(
        answers(found)
    )
    assert not any("*" in cell for row in next(iter(found.terminal())).rows for cell in row)


def test_the_highest_head_is_one_of_those_above_controls() -> None:
    """One with few rows may have a higher figure, and an interval that reaches down to its controls."""
    name = INDUCTION.name
    table = pd.DataFrame(
        {"site": "decoder", "layer": 0, "head": range(3), name: [0.9, 0.4, 0.5],
         f"{name}_low": [0.1, 0.35, 0.45], f"{name}_high": [1.0, 0.45, 0.55],
         INDUCTION.above: [False, True, True]},
    )  # fmt: skip
    result = Result("detect", "", {"detectors": table, "agreement": table[:0]}, {}, (), {})
    assert answers(result)[0] == (
        "Induction: 2 of 3 heads above controls, of these the highest decoder.0.2 (0.50 [0.45, 0.55])."
    )
    none = replace(result, tables={"detectors": table.assign(**{INDUCTION.above: False})})
    assert answers(none)[0].startswith(
        "Induction: 0 of 3 heads above controls, highest decoder.0.0"
    )


def test_figures_are_ratios_of_sums_with_intervals_over_texts() -> None:
    generator = torch.Generator().manual_seed(0)
    totals = torch.tensor([4.0, 8.0, 0.0, 6.0, 1.0, 8.0] * 5, dtype=torch.float64)
    sums = torch.rand(2, 30, generator=generator, dtype=torch.float64) * totals
    sums[1] = totals
    found = figures(sums, totals, share=True)
    assert found[0, 0] == pytest.approx(float(sums[0].sum() / totals.sum()))
    draws = np.random.default_rng(0).integers(30, size=(4_000, 30))
    ratios = np.array([sums[0][pick].sum() / totals[pick].sum() for pick in draws])
    np.testing.assert_allclose(found[0, 1:], np.quantile(ratios, [0.025, 0.975]), atol=0.02)
    # All of 25 texts: Wilson's lower end is n / (n + z^2).
    assert found[1].tolist() == pytest.approx([1, 25 / (25 + 1.959964**2), 1], abs=1e-6)
    assert figures(sums[:, :1], totals[:1] * 0, share=True).isnan().all()


def test_rank_agreement_has_an_interval_over_heads() -> None:
    rng = np.random.default_rng(5)
    one = rng.normal(size=40)
    measures = pd.DataFrame({"one": one, "other": one + rng.normal(size=40), "flat": 1.0})
    table = rank_agreement(measures, seed=1)
    assert list(table) == [
        "measure",
        "other",
        "spearman",
        "spearman_low",
        "spearman_high",
        "head_count",
    ]
    expected = stats.spearmanr(measures["one"], measures["other"]).statistic
    assert table["spearman"][0] == pytest.approx(expected)
    drawn = [
        stats.spearmanr(*measures[["one", "other"]].to_numpy()[rng.integers(40, size=40)].T)[0]
        for _ in range(1_500)
    ]
    ends = table.loc[0, ["spearman_low", "spearman_high"]].astype(float)
    np.testing.assert_allclose(ends, np.quantile(drawn, [0.025, 0.975]), atol=0.04)
    assert table.iloc[1:][["spearman", "spearman_low"]].isna().all(axis=None)
    few = rank_agreement(measures.head(7), seed=1)
    assert math.isnan(few["spearman_low"][0])


def test_another_seed_gives_another_result() -> None:
    model = loaded("llama")
    source = (model.model, model.tokenizer)
    one, other = (
        attnlab.detect(source, sequences=6, seed=seed, context=40, controls=False)
        for seed in (3, 0)
    )
    assert not one.detectors.equals(other.detectors)


def test_texts_shrink_to_what_there_is_room_for() -> None:
    model = loaded("llama")
    found = attnlab.detect((model.model, model.tokenizer), **FEW)
    used = {note.what: note.used for note in found.notes if isinstance(note, Shortened)}
    # 96 positions less the start token; 56 ordinary tokens, of which 47 can be read twice.
    assert used == {"tokens": 47, "context": 95, "first": 8, "recent": 16}
    assert any(isinstance(note, FewEmitted) for note in found.notes)
    said = "First keys that a streaming head keeps are 8 and not 128 (first): in proportion to texts of 95"
    assert any(said in text for text in map(str, found.notes))


def test_needles_are_planted_in_sentences_that_are_handed_in() -> None:
    model = loaded("gpt2")
    text = " ".join(["w1 w2 w3 w4 w5 w6 w7 w8"] * 20)
    asked = {**FEW, "sentences": [text], "context": 60, "controls": False}
    found = attnlab.detect((model.model, model.tokenizer), **asked)
    assert "among 160 tokens of the sentences" in found.about["Needles"]
    with pytest.raises(InputError, match="have 8 tokens; give 40, or a smaller context"):
        attnlab.detect((model.model, model.tokenizer), **{**asked, "sentences": [text[:23]]})
    # Ten tokens are left, as many as a needle has.
    most = " ".join(model.tokenizer.convert_ids_to_tokens(range(4, 60 - CUE - ANSWER)))
    attnlab.detect(
        (model.model, model.tokenizer), **{**asked, "sentences": [most] * 2, "context": 66}
    )
    every = " ".join(model.tokenizer.convert_ids_to_tokens(range(4, 60)))
    with pytest.raises(InputError, match="Only 0 tokens of the vocabulary are not in the text"):
        attnlab.detect(
            (model.model, model.tokenizer), **{**asked, "sentences": [every] * 2, "context": 96}
        )


def test_what_cannot_be_scored_is_refused() -> None:
    model = loaded("bert")
    with pytest.raises(InputError, match="Sentences are for needles of language models"):
        attnlab.detect((model.model, model.tokenizer), **FEW, sentences=["Anna sees Rome"])
    with pytest.raises(InputError, match="There is nothing to score in BertModel"):
        attnlab.detect((model.model, model.tokenizer), **FEW, sites=["cross"])
    few = {f"w{n}": n for n in range(5)}
    inner = Tokenizer(models.WordLevel({**few, "<unk>": 5}, unk_token="<unk>"))
    small = hf.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")
    with pytest.raises(InputError, match="has 5 ordinary tokens; detectors need 8"):
        attnlab.detect((llama(), small), **FEW)
    with pytest.raises(InputError, match="reads audio"):
        attnlab.detect((random_models.whisper(), random_models.whisper_tokenizer()), **FEW)


@pytest.mark.parametrize("sites", [None, ["cross"]])
def test_pairs_without_a_copied_word_leave_cross_attention_without_scores(
    sites: list[str] | None, tmp_path: Path
) -> None:
    model = loaded("marian")
    found = attnlab.detect(
        (model.model, model.tokenizer), sentences=[("w1 w2", "w3 w4")], sites=sites, **FEW
    )
    cross = found.detectors[found.detectors["site"] == "cross"]
    assert len(cross) == 8
    assert cross["copy"].isna().all()
    assert FewCopied(0) in found.notes
    found.save(tmp_path / "found")
    drawn = [path.stem for path in (tmp_path / "found" / "figures").glob("*.svg")]
    assert drawn == ([] if sites else ["detectors"])
    with pytest.raises(InputError, match="No head has a score"):
        draw_detectors(cross)


def test_a_map_of_heads_shows_the_score_of_each() -> None:
    shown = (PREVIOUS, INDUCTION)
    heads = pd.DataFrame(
        [(layer, head) for layer in (1, 4) for head in range(3) if (layer, head) != (4, 2)],
        columns=["layer", "head"],
    ).assign(site="encoder")
    for number, one in enumerate(shown):
        heads[one.name] = (heads.index + number) / 10
    figure = draw_detectors(heads.sample(frac=1, random_state=0))
    *panels, scale = figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == [
        one.estimate.column.heading for one in shown
    ]
    for axes, one in zip(panels, shown, strict=True):
        drawn = axes.images[0].get_array().filled(np.nan)
        expected = [[*heads[one.name][:3]], [*heads[one.name][3:], np.nan]]
        np.testing.assert_allclose(drawn, expected, rtol=1e-6)
        assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2"]
        (crossed,) = axes.lines
        assert crossed.get_xydata().tolist() == [[2, 1]]
        assert axes.get_ylim() == (1.5, -0.5)
    layers = [label.get_text() for label in panels[0].get_yticklabels()]
    assert layers == ["encoder.1", "encoder.4"], "once, since all panels have the same"
    assert [text.get_text() for text in figure.texts] == ["Scores of heads, encoder"]
    assert scale.get_xlabel() == "score; rows: layers, columns: heads; x: not scored"


def test_runs_of_every_task_are_scored(answer: Callable[[str, str], Answered]) -> None:
    language, translating, recurrent = (
        answer("detect", kind).result.detectors for kind in ("language", "run", "recurrent")
    )
    assert language["needle"].isna().all() or (language["needle"] <= 1).all()
    assert set(language["site"]) == {"decoder"}
    assert set(translating["site"]) == {"encoder", "decoder", "cross"}
    assert translating["copy"].notna().sum() > 0
    assert set(recurrent["site"]) == {"cross"}
    assert recurrent["copy"].notna().all()


def test_a_model_that_scores_no_tokens_has_no_needles() -> None:
    model = loaded("gpt2")
    found = attnlab.detect((model.model.transformer, model.tokenizer), **FEW, context=40)
    assert "needle" not in found.detectors
    assert found.detectors["outside_window"].notna().all()


def test_the_shuffled_control_has_the_same_tokens_in_another_order() -> None:
    model = loaded("llama")
    sides = sides_of_model(model)
    plain, mixed = (
        repeated(model, sides, 4, 11, torch.Generator().manual_seed(3), shuffle=shuffle)
        for shuffle in (False, True)
    )
    pairs = zip(plain.sentences.usable, mixed.sentences.usable, strict=True)
    for one, other in pairs:
        assert one.source[:12] == other.source[:12]
        assert one.source[12:] == one.source[1:12]
        assert sorted(other.source[12:]) == sorted(one.source[12:])
        assert other.source[12:] != one.source[12:]


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "gemma3", "marian"])
def test_gates_that_are_open_change_nothing_and_closed_ones_stream(name: str) -> None:
    """Weights equal a loop over both parts; what a window of the model hides stays hidden."""
    model = loaded(name)
    torch.manual_seed(0)
    # The model's own mask may have a text axis.
    ids = torch.randint(4, 50, (3, 12))
    given = {"input_ids": ids}
    if model.model.config.is_encoder_decoder:
        given |= {"decoder_input_ids": ids, "use_cache": False}
    site = "decoder_attentions" if model.model.config.is_encoder_decoder else "attentions"
    with torch.no_grad(), ready_to_show(model.model):
        full = model.model(**given, output_attentions=True)[site]
        for gate in (1.0, 0.0, 0.25):
            gated = Gated(4, (2, 3))
            gated.gates.data.fill_(gate)
            with use(model.model, {"decoder.0": gated}):
                found = model.model(**given, output_attentions=True)[site][0]
            own = full[0].clone()
            for query in range(12):
                kept = [k < 2 or k > query - 3 for k in range(12)]
                streaming = own[..., query, :] * torch.tensor(kept)
                streaming = streaming / streaming.sum(-1, keepdim=True)
                expected = gate * own[..., query, :] + (1 - gate) * streaming
                torch.testing.assert_close(found[..., query, :], expected, rtol=1e-4, atol=1e-5)


def test_gates_of_heads_that_matter_stay_open_and_others_close() -> None:
    """In a model whose second layer adds nothing its gates fall to 0 by the penalty alone."""
    model = llama()
    model.model.layers[1].self_attn.o_proj.weight.data.zero_()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    pair = model, tokenizer()
    found = attnlab.detect(
        pair, sequences=4, context=48, gate_steps=60, first=2, recent=4, controls=False
    )
    gates = found.detectors.set_index(["layer", "head"])["learned_gate"]
    assert (gates[1] == 0).all()
    assert (gates[0] > 0.9).any()
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    pairs = found.agreement[["measure", "other"]].to_numpy().tolist()
    assert any("learned gate" in pair and "outside window" in pair for pair in pairs)


def test_the_control_of_a_gate_is_the_gate_of_the_untrained_model() -> None:
    pair = llama(), tokenizer()
    asked: dict[str, Any] = {
        "sequences": 4, "context": 48, "gate_steps": 30, "first": 2, "recent": 4, "gate_penalty": 0.001
    }  # fmt: skip
    found = attnlab.detect(pair, **asked)
    twin = untrained_twin(pair[0], attnlab.load(pair).seed)
    alone = attnlab.detect((twin, pair[1]), **asked, controls=False)
    heads = found.detectors
    np.testing.assert_array_equal(heads["learned_gate_untrained"], alone.detectors["learned_gate"])
    assert heads["learned_gate_untrained"].between(0, 1).all()
    assert not heads["learned_gate_untrained"].equals(heads["learned_gate"])
    assert "learned_gate_untrained" not in alone.detectors
    highest, untrained = heads["learned_gate"].max(), heads["learned_gate_untrained"].max()
    said = next(one for one in answers(found) if one.startswith("Learned gate"))
    assert f"({highest:.2f}); in the untrained model at most {untrained:.2f}." in said


def test_an_encoder_has_no_gates() -> None:
    with pytest.raises(InputError, match="Gates are learned for heads of a decoder"):
        attnlab.detect((bert(), tokenizer()), **FEW, gate_steps=5)
