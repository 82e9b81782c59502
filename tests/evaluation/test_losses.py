"""The loss of any model, each kind against loops over single sentences."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, processors
from transformers import BertForMaskedLM, PreTrainedModel, PreTrainedTokenizerFast
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, SPECIALS, seeded, tokenizer

import attnlab
from attnlab.ablation.ablation import ablated
from attnlab.attention import use
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.evaluation import evaluator as evaluating
from attnlab.evaluation import losses
from attnlab.evaluation.evaluator import Evaluator, load_evaluator
from attnlab.models.configuration import IGNORED_LABEL
from attnlab.reading.reading_notes import SentencesDropped

ONE_STACK = ["bert", "distilbert", "gpt2", "llama"]


def with_mask() -> Any:
    found = tokenizer([*SPECIALS, "<mask>"])
    found.add_special_tokens({"mask_token": "<mask>"})
    return found


def masked_bert() -> PreTrainedModel:
    config = random_models.bert().config
    config.vocab_size = len(with_mask())
    return seeded(lambda: BertForMaskedLM(config))


def masked(**options: Any) -> Evaluator:
    return load_evaluator((masked_bert().double(), with_mask()), sentences=SENTENCES, **options)


def test_the_loss_of_masked_tokens_is_that_of_transformers() -> None:
    evaluator = masked(batch_size=3)
    assert evaluator.loss == "masked tokens"
    for one, loss, count in zip(
        evaluator.sentences.usable, evaluator.losses(), evaluator.tokens, strict=True
    ):
        labels = torch.tensor([one.labels])
        assert (labels != IGNORED_LABEL).sum() == count
        with torch.no_grad():
            found = evaluator.model(input_ids=torch.tensor([one.source]), labels=labels)
        assert float(loss) == pytest.approx(float(found.loss * count), rel=1e-9)


def test_masks_are_drawn_by_sentence_and_leave_special_tokens() -> None:
    evaluator = masked()
    told, mask = with_mask(), with_mask().mask_token_id
    for text, one in zip(SENTENCES, evaluator.sentences.usable, strict=True):
        ids = told(text)["input_ids"]
        drawn = [place for place, token in enumerate(one.source) if token == mask]
        assert len(drawn) == max(1, round(0.15 * (len(ids) - 2)))
        assert 0 < min(drawn) <= max(drawn) < len(ids) - 1
        for place, (token, label) in enumerate(zip(one.source, one.labels, strict=True)):
            hidden = place in drawn
            assert (token, label) == ((mask, ids[place]) if hidden else (ids[place], IGNORED_LABEL))
    # The same tokens whatever is read beside a sentence.
    second = evaluator.half(1).sentences.usable
    assert second == evaluator.sentences.usable[1::2]
    torch.testing.assert_close(evaluator.half(1).losses(), evaluator.losses()[1::2])
    reversed_texts = evaluator.on([*SENTENCES[::-1], "a dog"])
    assert [one.source for one in reversed_texts.sentences.usable[-2::-1]] == [
        one.source for one in evaluator.sentences.usable
    ]
    # Another seed masks others, also where the evaluator goes on to other sentences.
    other = masked(seed=1)
    assert other.on(SENTENCES).sentences.usable == other.sentences.usable
    assert other.sentences.usable != evaluator.sentences.usable


@pytest.mark.slow
@pytest.mark.parametrize("question", ["importance", "compare", "plan"])
def test_the_seed_of_a_question_is_that_of_the_masks(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []
    plain = losses.mask_tokens
    monkeypatch.setattr(
        evaluating, "mask_tokens", lambda *given: seeds.append(given[-1]) or plain(*given)
    )
    options: dict[str, Any] = {"sentences": SENTENCES[:4], "seed": 3}
    if question == "importance":
        options |= {"replacements": ("zero",)}
    else:
        options |= {"calibration": SENTENCES[4:], "validation": SENTENCES[4:]}
        options |= {"budgets": (3,), "quick": True}
    getattr(attnlab, question)((masked_bert(), with_mask()), **options)
    assert set(seeds) == {3}


def last_states(model: Any, given: dict[str, torch.Tensor]) -> torch.Tensor:
    """What the last module before the scores gives, seen by a hook."""
    stack = model.get_decoder() if "decoder_input_ids" in given else model.base_model
    seen: list[Any] = []
    with stack.register_forward_hook(lambda module, args, out: seen.append(out)):
        model(**given)
    return seen[-1][0][0]


@pytest.mark.parametrize("kind", ["cosine", "squared"])
@pytest.mark.parametrize("name", [*ONE_STACK, "marian", "t5"])
def test_distances_of_final_states_are_those_of_loops(name: str, kind: str) -> None:
    texts = PAIRS if name in {"marian", "t5"} else SENTENCES
    model = random_models.ALL[name]().double()
    evaluator = load_evaluator((model, tokenizer()), sentences=texts, loss=kind, batch_size=3)
    assert evaluator.loss == kind
    assert evaluator.losses().abs().max() < 1e-12
    site = min(site for site, _ in evaluator.projections)
    head = [Head(site, 0, 0)]
    with ablated(evaluator.projections, head, "zero"):
        found = evaluator.losses()
    assert (found > 0).all()
    for index, one in enumerate(evaluator.sentences.usable):
        given = {"input_ids": torch.tensor([one.source])}
        if one.target is not None:
            given["decoder_input_ids"] = torch.tensor([one.target])
        with torch.no_grad():
            before = last_states(model, given)
            with ablated(evaluator.projections, head, "zero"):
                after = last_states(model, given)
        total = 0.0
        for now, then in zip(after, before, strict=True):
            if kind == "cosine":
                total += 1 - float(now @ then) / float(now.norm() * then.norm())
            else:
                total += float(((now - then) ** 2).mean())
        assert float(found[index]) == pytest.approx(total, rel=1e-9)
        assert len(before) == evaluator.tokens[index]


def test_states_of_other_sentences_are_those_of_the_model_as_it_was() -> None:
    evaluator = load_evaluator((random_models.bert(), tokenizer()), sentences=SENTENCES)
    assert evaluator.loss == "cosine"
    other = evaluator.on(["the dog runs .", "a cat"])
    assert other.losses().abs().max() < 1e-6
    with ablated(other.projections, [Head("encoder", 1, 2)], "zero"):
        moved = other.losses()
        assert (moved > 1e-6).all()
        halved = evaluator.half(1).losses()
        assert torch.allclose(halved, evaluator.losses()[1::2], rtol=1e-5)


def test_what_a_model_is_evaluated_by() -> None:
    scoring = {
        "gpt2": "next tokens",
        "llama": "next tokens",
        "bert": "cosine",
        "marian": "next tokens",
    }
    for name, kind in scoring.items():
        texts = PAIRS if name == "marian" else SENTENCES
        evaluator = load_evaluator((random_models.ALL[name](), tokenizer()), sentences=texts)
        assert evaluator.loss == kind
        assert evaluator.scores == (kind == "next tokens")
    with pytest.raises(InputError, match="loss must be one of cosine, squared"):
        load_evaluator((random_models.bert(), tokenizer()), sentences=SENTENCES, loss="nats")


@pytest.mark.parametrize(("share", "kind"), [(1e-6, "next tokens"), (1e-3, "cosine")])
def test_rounding_of_earlier_scores_is_no_look_at_later_tokens(share: float, kind: str) -> None:
    model = random_models.ALL["llama"]()

    def moved(_module: Any, _args: Any, given: dict[str, Any], out: Any) -> Any:
        odd = given["input_ids"][:, -1, None, None] % 2
        out.logits = out.logits + share * odd * out.logits.abs().max()
        return out

    model.register_forward_hook(moved, with_kwargs=True)
    assert load_evaluator((model, tokenizer()), sentences=SENTENCES).loss == kind


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_importance_of_an_encoder_without_a_head(name: str, tmp_path: Path) -> None:
    found = attnlab.importance((random_models.ALL[name](), tokenizer()), sentences=SENTENCES * 2)
    assert "gradient_importance" not in found.importance
    assert set(found.cumulative["order"]) == {"loss", "random"}
    assert (found.importance["loss_change"] > 0).all()
    # A distance is above 0 whatever is replaced.
    assert not {"loss_change_p", "loss_change_significant"} & {*found.importance, *found.replaced}
    assert "beyond chance" not in found.report(tmp_path).read_text(encoding="utf-8")
    assert "cosine" in str(found.about["Loss of the whole model"])
    whole = found.cumulative[found.cumulative["heads_removed"] == 0]
    assert whole["loss"].abs().max() < 1e-6


def test_a_masked_model_is_loaded_with_the_layer_that_scores(tmp_path: Any) -> None:
    masked_bert().save_pretrained(tmp_path)
    with_mask().save_pretrained(tmp_path)
    evaluator = load_evaluator(tmp_path, sentences=SENTENCES)
    assert evaluator.loss == "masked tokens"
    direct = load_evaluator((masked_bert(), with_mask()), sentences=SENTENCES)
    assert torch.allclose(evaluator.losses(), direct.losses(), rtol=1e-6)


COMPARED = ["bert", "distilbert", "gpt2", "llama", "marian", "t5"]


@pytest.mark.parametrize("name", [*COMPARED, "masked"])
def test_compare_measures_the_loss_of_any_model(name: str) -> None:
    texts = PAIRS if name in {"marian", "t5"} else SENTENCES
    source = (
        (masked_bert(), with_mask())
        if name == "masked"
        else (random_models.ALL[name](), tokenizer())
    )
    found = attnlab.compare(
        source, [3], sentences=texts[:4], calibration=texts[4:6], validation=texts[6:],
        mechanisms=["band"], quick=True,
    )  # fmt: skip
    evaluator = load_evaluator(source, sentences=texts[:4])
    assert found.details["loss"] == evaluator.loss
    full = found.summary[found.summary["mechanism"] == "full"].iloc[0]
    count = evaluator.tokens.sum()
    assert full["loss"] == pytest.approx(float(evaluator.losses().sum() / count), abs=1e-6)
    bands = found.summary[found.summary["mechanism"] == "band"]
    assert len(bands)
    for row in bands[bands["sites"] != "all"].to_dict("records"):
        heads = found.mechanisms_by_head.query(f"mechanism == 'band' and site == '{row['sites']}'")
        (written,) = set(heads["setting"])
        with use(evaluator.model, {row["sites"]: written}):
            changed = float(evaluator.losses().sum() / count)
        assert row["loss"] == pytest.approx(changed, rel=1e-5)
        assert row["loss_change"] == pytest.approx(changed - full["loss"], abs=1e-5)


def test_what_compare_needs_for_a_loss() -> None:
    parts = {"calibration": PAIRS[4:6], "validation": PAIRS[6:], "mechanisms": ["band"]}
    marian = random_models.marian(), tokenizer()
    with pytest.raises(InputError, match="Only runs of attnlab train are trained further"):
        attnlab.compare(marian, [3], sentences=PAIRS[:4], fine_tune=2, **parts)
    sources = [[one for one, _ in part] for part in (PAIRS[:4], PAIRS[4:6], PAIRS[6:])]
    given = dict(zip(("sentences", "calibration", "validation"), sources, strict=True))
    with pytest.raises(InputError, match="An encoder-decoder has a loss on sentences with their"):
        attnlab.compare(marian, [3], mechanisms=["band"], loss="cosine", **given)
    found = attnlab.compare(marian, [3], mechanisms=["band"], **given)
    assert "loss" not in found.summary


# Ids that no sentence has lie between those that they have.
GAPS = [
    "the cat runs .",
    "the dog sees a cat .",
    "the cat sees the dog .",
    "a dog runs .",
    "the cat sees .",
]


@pytest.mark.parametrize("name", ["gpt2", "bert", "masked"])
def test_tables_of_sigma_go_by_the_ids_of_the_model(name: str) -> None:
    source = (
        (masked_bert(), with_mask())
        if name == "masked"
        else (random_models.ALL[name](), tokenizer())
    )
    found = attnlab.compare(
        source, [3], sentences=GAPS[3:], calibration=GAPS[:2], validation=GAPS[2:3], quick=True
    )
    sigma = found.summary[found.summary["mechanism"].str.contains("sigma")]
    assert len(sigma)
    assert sigma["loss"].notna().all()


def test_sentences_are_left_out_for_the_reason_that_they_have() -> None:
    texts = ["cat", "the dog runs", " ".join(["bird"] * 60), "the old red bird"]
    plain = PreTrainedTokenizerFast(
        tokenizer_object=without_marks(), pad_token="<pad>", unk_token="<unk>"
    )
    found = load_evaluator((random_models.gpt2(), plain), sentences=texts).sentences
    assert [one.number for one in found.usable] == [1, 3]
    assert set(found.dropped) == {
        SentencesDropped(1, 4, most_tokens=found.most_tokens),
        SentencesDropped(1, 4, unpredicted=True),
    }
    # A distance of states is measured of one token too.
    whole = load_evaluator((random_models.bert(), plain), sentences=texts).sentences
    assert 0 in [one.number for one in whole.usable]


def without_marks() -> Tokenizer:
    inner = Tokenizer.from_str(random_models.tokenizer().backend_tokenizer.to_str())
    inner.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    return inner
