"""An evaluator's losses and translations: against plain loops, under ablation, whatever the batches."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from zoo import random_models
from zoo.architectures import columns
from zoo.random_models import PAIRS, SENTENCES, tokenizer

from attnlab.ablation.ablation import ablate_cumulatively, ablated, mean_outputs
from attnlab.ablation.gates import gradient_importance
from attnlab.ablation.projections import all_heads
from attnlab.attention import use
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import Evaluator, load_evaluator
from attnlab.models.run import load, score_run
from attnlab.models.scoring import score
from attnlab.reading.sentences import Sentence

EXACT = {"rtol": 0, "atol": 1e-10}
MODELS = ["run", "marian", "t5", "llama", "gpt2"]


def evaluator_of(name: str, small_run: Path, **options: object) -> Evaluator:
    """In float64; the small run on its own test part, the others on a few sentences."""
    if name == "run":
        evaluator = load_evaluator(small_run, sentences=7, **options)
        evaluator.model.double()
        return evaluator
    model = random_models.ALL[name]().double()
    texts = PAIRS if model.config.is_encoder_decoder else SENTENCES
    return load_evaluator((model, tokenizer()), sentences=texts, **options)


@pytest.fixture(params=MODELS)
def evaluator(request: pytest.FixtureRequest, small_run: Path) -> Evaluator:
    return evaluator_of(request.param, small_run, batch_size=3)


def predicted(sentence: Sentence) -> list[int]:
    """The ids that are predicted from what stands before them."""
    if sentence.target is None:
        return list(sentence.source[1:])
    return [*sentence.target[1:], sentence.labels[-1]]


def losses_by_loops(evaluator: Evaluator) -> torch.Tensor:
    """One sentence at a time, one token at a time, without padding or masks."""
    found = []
    for one in evaluator.sentences.usable:
        total = 0.0
        given = {"input_ids": torch.tensor([one.source])}
        if one.target is not None:
            given["decoder_input_ids"] = torch.tensor([one.target])
        with torch.no_grad():
            logits = evaluator.model(**given).logits[0]
        for row, label in zip(logits, predicted(one), strict=False):
            total += float(row.exp().sum().log() - row[label])
        found.append(total)
    return torch.tensor(found, dtype=torch.float64)


def test_losses_are_those_of_each_sentence_alone(evaluator: Evaluator) -> None:
    torch.testing.assert_close(evaluator.losses(), losses_by_loops(evaluator), **EXACT)
    assert evaluator.tokens.tolist() == [len(predicted(one)) for one in evaluator.sentences.usable]


def test_padding_changes_no_loss(evaluator: Evaluator) -> None:
    texts = evaluator.sentences.usable_texts
    alone = replace(evaluator, batch_size=1).on(texts)
    together = replace(evaluator, batch_size=99).on(texts)
    torch.testing.assert_close(alone.losses(), together.losses(), **EXACT)


def test_padding_changes_no_loss_in_single_precision(small_run: Path) -> None:
    one, other = (load_evaluator(small_run, sentences=9, batch_size=size) for size in (1, 9))
    torch.testing.assert_close(one.losses(), other.losses(), rtol=1e-6, atol=0)


def test_ablation_is_a_projection_without_the_heads_columns(evaluator: Evaluator) -> None:
    before = evaluator.losses()
    for layer, projection in evaluator.projections.items():
        head = Head(*layer, projection.heads - 1)
        with ablated(evaluator.projections, [head], "zero"):
            found = evaluator.losses()
        weight = columns(projection.module, projection.heads, head.head)
        kept = weight.detach().clone()
        with torch.no_grad():
            weight.zero_()
        by_hand = losses_by_loops(evaluator)
        with torch.no_grad():
            weight.copy_(kept)
        torch.testing.assert_close(found, by_hand, **EXACT)
        assert (found - before).abs().max() > 1e-6
    torch.testing.assert_close(evaluator.losses(), before, rtol=0, atol=0)


def stir(model: torch.nn.Module) -> None:
    """Large random weights."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(std=0.6, generator=generator)


@pytest.mark.parametrize("name", ["run", "marian"])
def test_translations_go_through_the_hooked_projections(name: str, small_run: Path) -> None:
    evaluator = evaluator_of(name, small_run)
    if name == "run":
        # So little trained, it writes the same letters with and without its heads.
        stir(evaluator.model)
    before = evaluator.translations()
    heads = [head for head in all_heads(evaluator.projections) if head.site != "encoder"]
    with ablated(evaluator.projections, heads, "zero"):
        found = evaluator.translations()
    twin = replace(
        evaluator, loaded=replace(evaluator.loaded, model=copy.deepcopy(evaluator.model))
    )
    names = {module: name for name, module in evaluator.model.named_modules()}
    with torch.no_grad():
        for (site, _), projection in evaluator.projections.items():
            if site != "encoder":
                twin.model.get_submodule(names[projection.module]).weight.zero_()
    assert found == twin.translations()
    assert found != before
    assert evaluator.translations() == before


def test_padding_changes_no_translation(small_run: Path) -> None:
    texts = []
    for size in (1, 4):
        evaluator = evaluator_of("marian", small_run, batch_size=size)
        stir(evaluator.model)
        texts.append(evaluator.translations())
    assert texts[0] == texts[1]


def test_sources_are_read_once_for_heads_behind_the_encoder(evaluator: Evaluator) -> None:
    once = evaluator.reading_once()
    torch.testing.assert_close(once.losses(), evaluator.losses(), **EXACT)
    for head in all_heads(evaluator.projections)[1::2]:
        if head.site != "encoder":
            with ablated(evaluator.projections, [head], "zero"):
                torch.testing.assert_close(once.losses(), evaluator.losses(), **EXACT)


@pytest.mark.parametrize("name", ["run", "marian", "t5", "bart"])
def test_sources_that_were_read_before_a_mechanism_chooses_keys_by_token(
    name: str, small_run: Path
) -> None:
    evaluator = evaluator_of(name, small_run, batch_size=3)
    once = evaluator.reading_once()
    before = evaluator.losses()
    with use(evaluator.model, {"cross": "keys(offsets=(-1,), tokens=(5, 9), reach=3)"}):
        evaluator.model.double().eval()
        torch.testing.assert_close(once.losses(), evaluator.losses(), **EXACT)
        assert not torch.allclose(once.losses(), before)
    torch.testing.assert_close(once.losses(), before, **EXACT)


def test_a_head_that_adds_nothing_costs_nothing(evaluator: Evaluator) -> None:
    layer = next(iter(evaluator.projections))
    projection = evaluator.projections[layer]
    with torch.no_grad():
        columns(projection.module, projection.heads, 1).zero_()
    before = evaluator.losses()
    with ablated(evaluator.projections, [Head(*layer, 1)], "zero"):
        torch.testing.assert_close(evaluator.losses(), before, rtol=0, atol=0)
    slopes = gradient_importance(
        evaluator.projections, evaluator.batches[0], evaluator.example_losses
    )
    assert slopes.total[layer][1] == 0
    assert (slopes.total[layer] > 0).sum() == projection.heads - 1


def test_the_last_of_many_steps_ablates_all(evaluator: Evaluator) -> None:
    heads = all_heads(evaluator.projections)
    steps = ablate_cumulatively(evaluator.projections, heads, "zero", evaluator.losses)
    with ablated(evaluator.projections, heads, "zero"):
        torch.testing.assert_close(steps[-1], evaluator.losses(), rtol=0, atol=0)
    torch.testing.assert_close(steps[0], evaluator.losses(), rtol=0, atol=0)


def test_bleu_is_that_of_the_score_command(small_run: Path) -> None:
    scores, texts = score_run(load(small_run), split="test", beams=1)
    evaluator = load_evaluator(small_run, sentences=10_000)
    assert evaluator.translations() == texts
    assert score(evaluator.translations(), evaluator.references).bleu == scores["bleu"]
    assert evaluator.dropped == scores["dropped"]


def test_real_tokens_are_counted_in_means(small_run: Path) -> None:
    evaluator = evaluator_of("run", small_run, batch_size=4)
    texts = evaluator.sentences.usable_texts
    alone = replace(evaluator, batch_size=1).on(texts)
    both = [
        mean_outputs(one.projections, one.batches, one.run, one.real) for one in (evaluator, alone)
    ]
    for layer in evaluator.projections:
        torch.testing.assert_close(both[0][layer], both[1][layer], **EXACT)


def test_other_parts_of_the_corpus_share_no_sentence(small_run: Path) -> None:
    evaluator = load_evaluator(small_run, sentences=5)
    learning = evaluator.on_split("train", 8)
    assert len(learning) + learning.dropped == 8
    assert learning.sentences.origin == "the train part of embedded"
    assert learning.model is evaluator.model
    own_texts = set(evaluator.sentences.usable_texts)
    assert not {text[0] for text in learning.sentences.usable_texts} & {
        text[0] for text in own_texts
    }
    more = evaluator.on_split("test", 3)
    assert not set(more.sentences.usable_texts) & own_texts
    own = evaluator.on_split("validation", 2)
    assert own.sentences.origin == "the validation part of embedded"


def test_models_from_a_folder(tmp_path: Path) -> None:
    for name, build in {"marian": random_models.marian, "gpt2": random_models.gpt2}.items():
        model = build()
        model.save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
        texts = PAIRS if name == "marian" else SENTENCES
        evaluator = load_evaluator(tmp_path / name, sentences=texts)
        again = type(model).from_pretrained(tmp_path / name)
        whole = load_evaluator((again, tokenizer()), sentences=texts)
        torch.testing.assert_close(evaluator.losses(), whole.losses(), rtol=0, atol=0)
    assert not evaluator.translates
    with pytest.raises(InputError, match="GPT2LMHeadModel has one stack and translates nothing"):
        evaluator.translations()
    with pytest.raises(InputError, match="There is no corpus whose train part could be used"):
        evaluator.on_split("train", 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sentences": SENTENCES}, "An encoder-decoder is evaluated on pairs"),
        ({"sentences": []}, "There are no sentences to read"),
        ({"sentences": [("", "")]}, "None of the 1 sentences can be used"),
        (
            {"sentences": PAIRS, "batch_size": 0},
            "batch size must be at least 1 and at most 100000, not 0",
        ),
        ({"sentences": PAIRS, "device": "abacus"}, "Device 'abacus' cannot be used here"),
        pytest.param(
            {"sentences": PAIRS, "device": "cuda"},
            r"'cuda' cannot be used here \(this torch is built without it\)",
            marks=pytest.mark.skipif(torch.backends.cuda.is_built(), reason="built with it"),
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_evaluator((random_models.marian(), tokenizer()), **options)


def test_a_part_that_does_not_exist_is_refused(small_run: Path) -> None:
    with pytest.raises(InputError, match="There is no part 'tset'; choose from: train"):
        load_evaluator(small_run, sentences=3).on_split("tset", 3)


def test_sentences_that_do_not_fit_are_counted() -> None:
    long = (" ".join(["cat"] * 50), "gatto")
    evaluator = load_evaluator(
        (random_models.marian(), tokenizer()), sentences=[*PAIRS, long, ("", "")]
    )
    assert evaluator.dropped == 2
    assert evaluator.references == [target for _, target in PAIRS]


def test_randomness_and_parameters_are_left_alone(small_run: Path, untouched_randomness) -> None:
    evaluator = evaluator_of("run", small_run)
    before = {name: p.clone() for name, p in evaluator.model.named_parameters()}
    evaluator.losses()
    evaluator.translations()
    for name, parameter in evaluator.model.named_parameters():
        assert torch.equal(parameter, before[name])
