"""Plans that configurations can say: each layer full, or with the one window of all."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from transformers import (
    MistralConfig,
    MistralForCausalLM,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import IDS, PAIRS, SENTENCES, TYPES, seeded, tokenizer

from attnlab.attention import AttentionPlan, Band, Full, model_with_layer_types
from attnlab.attention.specification import sides
from attnlab.cli.app import app
from attnlab.core import Head, InputError
from attnlab.evaluation import observe_part
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.questions.plan.planning import plan, plans_of
from attnlab.questions.plan.search import WINDOWS_TRIED, Search, windows

LAYERS, HEADS = 3, 2
SIZES: dict[str, Any] = {
    "vocab_size": TYPES, "hidden_size": 16, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 11, "max_position_embeddings": 64,
}  # fmt: skip


def qwen() -> PreTrainedModel:
    config = Qwen3Config(**SIZES, **IDS, num_key_value_heads=1, head_dim=8)
    return seeded(lambda: Qwen3ForCausalLM(config))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(
    ("longest", "sizes"), [(2, [2]), (3, [2]), (4, [2, 3]), (6, [2, 3, 4, 5]), (1, [2])]
)
def test_windows_are_those_shorter_than_the_longest_text(
    longest: int, sizes: list[int], full: bool
) -> None:
    """A window of 1 is never offered in a decoder, and one of 2 where no other is shorter than texts."""
    found = [one.specification for one in windows("decoder", longest, full=full)]
    assert found == [*([Full()] if full else []), *(Band((size - 1, 0)) for size in sizes)]
    both = [one.specification for one in windows("encoder", longest, full=False)]
    reaches = [0] if longest == 1 else sorted({size // 2 for size in range(1, longest)})
    assert both == [Band((reach, reach)) for reach in reaches]


def modernbert() -> PreTrainedModel:
    full = ["full_attention"] * LAYERS
    return seeded(
        lambda: ModernBertModel(ModernBertConfig(**SIZES, layer_types=full, pad_token_id=0))
    )


MODELS = {"decoder": qwen, "encoder": modernbert}


def searched(site: str, budgets: tuple[int, ...]) -> Search:
    evaluator = load_evaluator((MODELS[site]().double(), tokenizer()), sentences=SENTENCES)
    together = {(site, layer): HEADS for layer in range(LAYERS)}
    search = Search(budgets, ("band", "full"), together, one_window=True)
    read = partial(
        observe_part, model=evaluator.loaded, part=evaluator.sentences, sites=[site], batch_size=3,
        progress=None,
    )  # fmt: skip
    read("", receive=search.learn)
    read("", receive=search.measure)
    return search


def window_of(entries: AttentionPlan) -> set[Any]:
    return {one.window for one in entries.entries.values() if isinstance(one, Band)}


@pytest.mark.parametrize("site", MODELS)
def test_windows_are_those_that_configurations_can_name(site: str) -> None:
    full, *bands = (one.specification for one in windows(site, 20))
    assert full == Full()
    for one in bands:
        assert isinstance(one, Band)
        left, right = sides("band", one.window)
        assert right == (0 if site == "decoder" else left)
        # The cache of transformers keeps all keys where a window is 1.
        assert site != "decoder" or left > 0
    assert len(set(bands)) == len(bands)


def test_windows_of_long_texts_are_among_them() -> None:
    assert Band((255, 0)) in [one.specification for one in windows("decoder", 300)]
    assert Full() not in [one.specification for one in windows("decoder", 300, full=False)]


@pytest.mark.grid
@pytest.mark.parametrize("budget", [2, 3, 4, 6])
@pytest.mark.parametrize("site", MODELS)
def test_the_plan_is_the_best_of_all_windows_and_layers(site: str, budget: int) -> None:
    search = searched(site, (budget,))
    longest = max(len(tokenizer()(text)["input_ids"]) for text in SENTENCES)
    full, *bands = windows(site, longest)
    best, most = float("inf"), float("inf")
    for window in bands:
        own = float("inf")
        costs = [
            [search.measured(Head(site, layer, head), one) for head in range(HEADS)]
            for layer in range(LAYERS)
            for one in (full, window)
        ]
        sums = [[sum(part) for part in zip(*own, strict=True)] for own in costs]
        for chosen in product((0, 1), repeat=LAYERS):
            taken = [sums[2 * layer + which] for layer, which in enumerate(chosen)]
            if sum(keys for _, keys in taken) <= budget * LAYERS * HEADS + 1e-9:
                own = min(own, sum(error for error, _ in taken))
        # The greedy is within one step of the best of each window.
        step = max(sums[2 * layer + 1][0] - sums[2 * layer][0] for layer in range(LAYERS))
        best, most = min(best, own), min(most, own + step)
    found = search.searched(budget)
    rows = search.rows / (LAYERS * HEADS)
    assert found.allocation.lower_bound / rows - 1e-9 <= best
    assert best - 1e-9 <= found.allocation.error / rows <= most + 1e-9
    assert found.allocation.cost <= budget * search.rows + 1e-9
    assert len(window_of(found.plan())) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("site", MODELS)
def test_few_windows_are_tried_by_a_dear_criterion_and_every_unit_may_have_them(site: str) -> None:
    search = searched(site, (2, 4))
    shortlist = search.shortlist()
    (own,) = {tuple(one) for one in shortlist.values()}
    assert Full() in [one.specification for one in own]
    # The windows of the nearest plans at each budget, as many as fit it: of an encoder two.
    least = WINDOWS_TRIED if site == "decoder" else 2
    assert least < len(own) <= 2 * WINDOWS_TRIED + 1
    nearest = {one for budget in (2, 4) for one in search.searched(budget).entries.values()}
    assert nearest <= set(own)
    # By costs that favour one window in all layers, it is taken.
    for window in own[1:]:
        costs = {
            (unit, one.specification): float(one != window) for unit in shortlist for one in own
        }
        budget = 60
        assert set(search.searched(budget, costs).entries.values()) == {window}


@pytest.mark.parametrize("criterion", ["l1", "loss"])
@pytest.mark.parametrize("site", MODELS)
def test_the_plan_can_be_written_as_layer_types(site: str, criterion: str) -> None:
    model = MODELS[site]()
    # A decoder has no window of 1, and 3 keys are all that these sentences have.
    found = plan(
        (model, tokenizer()), (2,) if site == "decoder" else (1, 2), sentences=SENTENCES[:2],
        calibration=SENTENCES[2:], quick=True,
        validation=SENTENCES[2:], granularity="layer-types", criterion=criterion,
    )  # fmt: skip
    assert found.about["Families"] == "band, full"
    assert set(found.mechanisms["mechanism_family"]) <= {"band", "full"}
    for entries in plans_of(found).values():
        assert len(window_of(entries)) == 1
        assert "sliding_attention" in model_with_layer_types(model, entries).config.layer_types


@pytest.mark.slow
def test_windows_are_longer_than_the_budget_where_texts_are_of_many_lengths() -> None:
    """Short texts leave so many keys that a window of several times the budget fits in long ones."""
    texts = [*(["old cat"] * 80), " ".join(["the cat sees the dog ,"] * 9)]
    evaluator = load_evaluator((qwen().double(), tokenizer()), sentences=texts)
    search = Search(
        (5,),
        ("band", "full"),
        {("decoder", layer): HEADS for layer in range(LAYERS)},
        one_window=True,
    )
    for receive in (search.learn, search.measure):
        observe_part(
            "",
            evaluator.loaded,
            evaluator.sentences,
            ["decoder"],
            receive,
            batch_size=1,
            progress=None,
        )
    (window,) = window_of(search.searched(5).plan())
    assert sum(sides("band", window)) + 1 > 15


def test_a_plan_is_searched_for_what_the_configuration_can_say() -> None:
    told: dict[str, Any] = {
        "sentences": SENTENCES[:2], "calibration": SENTENCES[2:], "validation": SENTENCES[2:], "quick": True,
        "granularity": "layer-types", "criterion": "l1",
    }  # fmt: skip
    with pytest.raises(InputError, match="GPT2LMHeadModel has no sliding_window"):
        plan((random_models.gpt2(), tokenizer()), (2,), **told)
    sliding = ModernBertModel(
        ModernBertConfig(**SIZES, global_attn_every_n_layers=2, pad_token_id=0)
    )
    with pytest.raises(InputError, match="have windows of their own, and layer types"):
        plan((sliding, tokenizer()), (2,), **told)
    config = MistralConfig(**SIZES, **IDS, num_key_value_heads=1, head_dim=8, sliding_window=None)
    model = seeded(lambda: MistralForCausalLM(config))
    found = plan((model, tokenizer()), (2,), **told)
    assert set(found.mechanisms["mechanism_family"]) == {"band"}
    assert model_with_layer_types(model, plans_of(found)[2]).config.sliding_window


def test_a_budget_for_full_attention_everywhere_gives_it() -> None:
    found = searched("decoder", (60,))
    shortlist = found.shortlist()
    costs = {(unit, one.specification): 0.0 for unit, own in shortlist.items() for one in own}
    assert {one.family for one in found.searched(60, costs).entries.values()} == {"full"}


def test_what_has_no_layer_types_is_refused_before_anything_is_read() -> None:
    told: dict[str, Any] = {"sentences": PAIRS[:2], "calibration": PAIRS[2:]}
    with pytest.raises(InputError, match="an encoder-decoder has none"):
        plan((random_models.marian(), tokenizer()), (2,), granularity="layer-types", **told)
    with pytest.raises(InputError, match="takes no families"):
        plan((qwen(), tokenizer()), (2,), granularity="layer-types", families=("none",), **told)
    for families in (("band", "full"), ("full", "band")):
        with pytest.raises(InputError, match="an encoder-decoder has none"):
            plan(
                (random_models.marian(), tokenizer()), (2,), granularity="layer-types",
                families=families, **told,
            )  # fmt: skip


def test_the_commands_of_the_guide_run(tmp_path: Path) -> None:
    qwen().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    text, others = tmp_path / "text.txt", tmp_path / "others.txt"
    text.write_text("\n".join(SENTENCES[:2]), "utf-8")
    others.write_text("\n".join(SENTENCES[2:]), "utf-8")
    asked = ["--text", text, "--calibration-text", others, "--out", tmp_path / "planned"]
    commands = (
        ["plan", tmp_path / "model", "--budget", "2", "--granularity", "layer-types", "--quick", *asked],
        ["export", tmp_path / "planned/plan_2.json", tmp_path / "model", "--out", tmp_path / "windowed"],
    )  # fmt: skip
    for command in commands:
        result = CliRunner().invoke(app, [str(part) for part in command])
        assert result.exit_code == 0, result.output
    assert "sliding_attention" in (tmp_path / "windowed/config.json").read_text("utf-8")
