"""Every fault that is planted in a sound model is found by a check, by the property that it concerns."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import transformers as hf
from grids import first
from questions.check.test_check import GROUPED, HEALTHY, SIZES
from transformers import masking_utils
from transformers.models.bart import modeling_bart
from transformers.models.bert import modeling_bert
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama
from transformers.models.marian import modeling_marian
from transformers.models.mistral import modeling_mistral
from transformers.models.modernbert import modeling_modernbert
from transformers.models.t5 import modeling_t5
from zoo.analyzed import ANALYZED
from zoo.random_models import seeded

import attnlab

Plant = Callable[[pytest.MonkeyPatch, Any], None]
LAYERS, CACHE, HALVES = "keys read", "cache", "cache, two halves"
RIGHT, LEFT, PACKED = "padding on the right", "padding on the left", "packing"


def gemma3n() -> Any:
    """Six layers, of which the last two attend to keys and values of earlier ones."""
    kinds = ["sliding_attention", "sliding_attention", "full_attention"] * 2
    return hf.Gemma3nForCausalLM(
        hf.Gemma3nTextConfig(
            vocab_size=40, vocab_size_per_layer_input=40, hidden_size=32, hidden_size_per_layer_input=4,
            intermediate_size=[24] * 6, num_hidden_layers=6, num_attention_heads=2, num_key_value_heads=1,
            head_dim=16, sliding_window=8, num_kv_shared_layers=2, layer_types=kinds, laurel_rank=4,
            activation_sparsity_pattern=[0.0] * 6, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip


def gemma4(shared: int = 2) -> Any:
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    return hf.Gemma4ForCausalLM(
        hf.Gemma4TextConfig(
            **GROUPED | {"num_hidden_layers": 4}, vocab_size_per_layer_input=40, global_head_dim=16,
            hidden_size_per_layer_input=4, sliding_window=5, num_kv_shared_layers=shared, layer_types=kinds,
            pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip


def doge() -> Any:
    return hf.DogeForCausalLM(hf.DogeConfig(**GROUPED))


def gemma3_full() -> Any:
    """Names a window that none of its layers has."""
    config = hf.Gemma3TextConfig(**GROUPED, sliding_window=30)
    config.layer_types = ["full_attention"] * 3
    return hf.Gemma3ForCausalLM(config)


def roberta() -> Any:
    return hf.RobertaModel(hf.RobertaConfig(**SIZES))


# Beside those of `HEALTHY`, which are checked there.
SOUND: dict[str, Callable[[], Any]] = {
    **{name: build for name, build in ANALYZED.items() if name not in HEALTHY},
    "gemma3n, shared keys": gemma3n,
    "gemma4": lambda: gemma4(0),
    "gemma4, shared keys": gemma4,
    "doge": doge,
    "gemma3, all full": gemma3_full,
    "roberta": roberta,
}


def test_enough_families_are_sound() -> None:
    assert len({*SOUND, *HEALTHY}) >= 34


def mask(module: Any, name: str, *, also: Any = None, only: Any = None) -> Plant:
    """Pairs that a mask shows beside the right ones, or alone of them."""

    def plant(patch: pytest.MonkeyPatch, model: Any) -> None:
        right = getattr(module, name)

        def other(*args: Any, **given: Any) -> Any:
            return right(*args, **given, or_mask_function=also, and_mask_function=only)

        patch.setattr(module, name, other)

    return plant


def window(module: Any, name: str, by: int) -> Plant:
    """A window that is wider by so many keys."""

    def plant(patch: pytest.MonkeyPatch, model: Any) -> None:
        right = getattr(module, name)

        def other(*args: Any, config: Any, **given: Any) -> Any:
            config = type(config)(
                **config.to_dict() | {"sliding_window": config.sliding_window + by}
            )
            config._attn_implementation = model.config._attn_implementation
            return right(*args, config=config, **given)

        patch.setattr(module, name, other)

    return plant


def forward(kind: str, module: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Plant:
    """A `forward` that is given other arguments."""

    def plant(patch: pytest.MonkeyPatch, model: Any) -> None:
        right = getattr(module, kind).forward

        @functools.wraps(right)
        def other(self: Any, *args: Any, **given: Any) -> Any:
            return right(self, *args, **change(given))

        patch.setattr(getattr(module, kind), "forward", other)

    return plant


def kernel(name: str, change: Callable[..., dict[str, Any]]) -> Plant:
    """A kernel of attention that is given something else."""

    def plant(patch: pytest.MonkeyPatch, model: Any) -> None:
        right = modeling_llama.ALL_ATTENTION_FUNCTIONS[name]

        def other(module: Any, query: Any, key: Any, value: Any, mask: Any, **given: Any) -> Any:
            given |= {"query": query, "key": key, "value": value, "attention_mask": mask}
            return right(module, **given | change(**given))

        patch.setitem(modeling_llama.ALL_ATTENTION_FUNCTIONS, name, other)

    return plant


def all_real(given: dict[str, Any]) -> dict[str, Any]:
    """Padding said to be text; without any mask transformers would tell the two apart by position_ids."""
    mask = given.get("attention_mask")
    return given if mask is None else given | {"attention_mask": torch.ones_like(mask)}


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda given: given | {name: None}


def top_left(query: Any, key: Any, attention_mask: Any, **_: Any) -> dict[str, Any]:
    """A causal mask that begins at the first key, whatever stands in the cache."""
    rows, keys = query.shape[2], key.shape[2]
    if not 1 < rows < keys:
        return {}
    return {"attention_mask": torch.ones(rows, keys, dtype=torch.bool).tril()[None, None]}


def positions_from_zero(patch: pytest.MonkeyPatch, model: Any) -> None:
    right = modeling_llama.LlamaRotaryEmbedding.forward

    @functools.wraps(right)
    def other(self: Any, states: Any, position_ids: Any, **given: Any) -> Any:
        return right(self, states, position_ids - position_ids[:, :1], **given)

    patch.setattr(modeling_llama.LlamaRotaryEmbedding, "forward", other)


def late_positions(patch: pytest.MonkeyPatch, model: Any) -> None:
    """Positions are one too large behind a cache."""
    right = modeling_llama.LlamaRotaryEmbedding.forward

    @functools.wraps(right)
    def other(self: Any, states: Any, position_ids: Any, **given: Any) -> Any:
        return right(self, states, position_ids + 5 * (position_ids[:, :1] > 0), **given)

    patch.setattr(modeling_llama.LlamaRotaryEmbedding, "forward", other)


def cross_mask(only: Any) -> Plant:
    """Pairs that the mask between two stacks shows alone."""

    def plant(patch: pytest.MonkeyPatch, model: Any) -> None:
        module = {"bart": modeling_bart, "marian": modeling_marian, "t5": modeling_t5}[
            model.config.model_type
        ]
        right = module.create_bidirectional_mask

        def other(*args: Any, **given: Any) -> Any:
            crosses = given.get("encoder_hidden_states") is not None
            return right(*args, **given, and_mask_function=only if crosses else None)

        patch.setattr(module, "create_bidirectional_mask", other)

    return plant


def short_cache(patch: pytest.MonkeyPatch, model: Any) -> None:
    """The key that was stored first is overwritten by the second."""
    right = hf.cache_utils.DynamicLayer.update

    def other(self: Any, *args: Any, **given: Any) -> Any:
        keys, values = right(self, *args, **given)
        if keys.shape[-2] > 3:
            keys = torch.cat([keys[..., 1:2, :], keys[..., 1:, :]], -2)
        return keys, values

    patch.setattr(hf.cache_utils.DynamicLayer, "update", other)


def unseen_packing(patch: pytest.MonkeyPatch, model: Any) -> None:
    patch.setattr(masking_utils, "find_packed_sequence_indices", lambda *_, **__: None)


def own_values(patch: pytest.MonkeyPatch, model: Any) -> None:
    """Every query reads itself alone."""

    def eager(module: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
        return value.repeat_interleave(2, 1).transpose(1, 2), None

    patch.setattr(modeling_llama, "eager_attention_forward", eager)
    model.set_attn_implementation("eager")


def shared_keys(change: Callable[[Any], Any]) -> Plant:
    """Keys and values are handed on to later layers changed."""

    def plant(patch: pytest.MonkeyPatch, model: Any) -> None:
        right = hf.cache_utils.KVSharingDict.__getitem__
        patch.setattr(
            hf.cache_utils.KVSharingDict,
            "__getitem__",
            lambda self, key: tuple(map(change, right(self, key))),
        )

    return plant


def wide_layer(patch: pytest.MonkeyPatch, model: Any) -> None:
    """The last layer, whose keys are an earlier one's, attends with the mask of another kind."""
    seen: dict[str, Any] = {}
    layers = model.model.layers
    layers[4].self_attn.register_forward_pre_hook(
        lambda _, args, given: (args, given | {"attention_mask": seen["wide"]}), with_kwargs=True
    )
    layers[2].self_attn.register_forward_pre_hook(
        lambda _, args, given: seen.update(wide=given["attention_mask"]), with_kwargs=True
    )


class Fault(NamedTuple):
    """A fault of a family, and a property that is a mismatch because of it."""

    family: str
    plant: Plant
    property: str = LAYERS


BOTH, CAUSAL, SLIDING = (
    "create_bidirectional_mask", "create_causal_mask", "create_sliding_window_causal_mask"
)  # fmt: skip
# Of pairs (text, head, query, key): which alone a mask shows.
ONLY: dict[str, Any] = {
    "every fifth key is unread": lambda b, h, q, k: (k % 5 != 0) | (q == k),
    "the first key is unread": lambda b, h, q, k: (k != 0) | (q == k),
    "row 9 reads itself alone": lambda b, h, q, k: (q != 9) | (q == k),
    "one pair is unread": lambda b, h, q, k: (q != 20) | (k != 3),
    "a window of 17 keys": lambda b, h, q, k: (q - k).abs() < 17,
    "a window of 23 keys": lambda b, h, q, k: (q - k).abs() < 23,
}
# Beside the right ones.
ALSO: dict[str, Any] = {
    "one key ahead is read": lambda b, h, q, k: k == q + 1,
    "the first row reads all": lambda b, h, q, k: q == 0,
    "all rows read key 12": lambda b, h, q, k: k == 12,
}
MASKED: dict[str, tuple[Any, str]] = {
    "bert": (modeling_bert, BOTH),
    "modernbert": (modeling_modernbert, BOTH),
    "llama": (modeling_llama, CAUSAL),
    "gpt2": (modeling_gpt2, CAUSAL),
    "t5": (modeling_t5, CAUSAL),
    "bart": (modeling_bart, CAUSAL),
    "marian": (modeling_marian, CAUSAL),
    "gemma3": (modeling_gemma3, CAUSAL),
}
FAULTS: dict[str, Fault] = {
    **{
        f"{family}: {what}": Fault(family, mask(module, name, only=only))
        for family, (module, name) in MASKED.items()
        for what, only in ONLY.items()
    },
    **{
        f"{family}: {what}": Fault(family, mask(module, name, also=also), "causality")
        for family, (module, name) in MASKED.items()
        if name == CAUSAL
        for what, also in ALSO.items()
    },
    **{
        f"{family}: encoder: {what}": Fault(family, mask(module, BOTH, only=ONLY[what]))
        for family, module in (
            ("t5", modeling_t5),
            ("bart", modeling_bart),
            ("marian", modeling_marian),
        )
        for what in ("every fifth key is unread", "row 9 reads itself alone")
    },
    **{
        f"{family}: {what}": Fault(family, mask(module, SLIDING, only=only))
        for family, module in (("gemma3", modeling_gemma3),)
        for what, only in {
            "a window that is narrower by one": lambda b, h, q, k: (q - k).abs() < 3,
            "a key in the window is unread": lambda b, h, q, k: (k != 7) | (q == k),
        }.items()
    },
    **{
        f"{family}: a window that is wider by {by}": Fault(family, window(module, SLIDING, by))
        for family, module in (("mistral", modeling_mistral), ("gemma3", modeling_gemma3))
        for by in (-1, 1, 100)
    },
    **{
        f"{family}: between stacks {what}": Fault(family, cross_mask(only))
        for family in ("t5", "bart", "marian")
        for what, only in {
            "the first key is unread": lambda b, h, q, k: k != 0,
            "row 9 reads the first key alone": lambda b, h, q, k: (q != 9) | (k == 0),
        }.items()
    },
    "gemma3, all full: the window is heeded": Fault(
        "gemma3, all full",
        mask(modeling_gemma3, CAUSAL, only=lambda b, h, q, k: q - k < 30),
    ),
    "llama: each query reads itself alone": Fault("llama", own_values),
    "bert: padding is read": Fault(
        "bert", forward("BertModel", modeling_bert, without("attention_mask")), RIGHT
    ),
    "llama: padding is read": Fault("llama", forward("LlamaModel", modeling_llama, all_real), LEFT),
    "gpt2: padding is read": Fault("gpt2", forward("GPT2Model", modeling_gpt2, all_real), LEFT),
    "bart: padding is read": Fault(
        "bart", forward("BartEncoder", modeling_bart, without("attention_mask")), RIGHT
    ),
    "marian: padding is read": Fault(
        "marian", forward("MarianEncoder", modeling_marian, without("attention_mask")), RIGHT
    ),
    "llama: positions begin anew behind a cache": Fault("llama", positions_from_zero, CACHE),
    "llama: positions are off behind a cache": Fault("llama", late_positions, HALVES),
    "llama: a key of the cache is overwritten": Fault("llama", short_cache, CACHE),
    "gpt2: a key of the cache is overwritten": Fault("gpt2", short_cache, HALVES),
    "llama: packed texts read each other": Fault("llama", unseen_packing, PACKED),
    **{
        f"{family}: a causal mask begins at the first key": Fault(
            family, kernel("sdpa", top_left), HALVES
        )
        for family in ("llama", "gpt2", "mistral", "gemma3")
    },
    **{
        f"llama: {name} scales scores twice": Fault(
            "llama",
            kernel(name, lambda scaling, **_: {"scaling": 2 * scaling}),
            f"eager against {short}",
        )
        for name, short in (("sdpa", "SDPA"), ("flex_attention", "flex"))
    },
    "llama: SDPA lets a head read the first key's value alone": Fault(
        "llama",
        kernel("sdpa", lambda value, **_: {"value": value[:, :, :1].expand_as(value)}),
        LAYERS,
    ),
    "gemma3n: shared keys are all the first": Fault(
        "gemma3n, shared keys", shared_keys(lambda one: one[..., :1, :].expand_as(one))
    ),
    "gemma3n: shared keys are one too far": Fault(
        "gemma3n, shared keys", shared_keys(lambda one: one.roll(1, -2))
    ),
    "gemma3n: a layer with shared keys has another's window": Fault(
        "gemma3n, shared keys", wide_layer
    ),
    "gemma4: shared keys are all the first": Fault(
        "gemma4, shared keys", shared_keys(lambda one: one[..., :1, :].expand_as(one))
    ),
}


def test_enough_faults_are_planted() -> None:
    assert len(FAULTS) >= 51


# What no mask reaches, and defects of transformers; see results/check.
KNOWN = {
    "mobilebert": {RIGHT},
    "doge": {"eager against flex"},
    # With a cache it makes no causal mask, since tokens come one at a time.
    "fsmt": {HALVES},
}


@pytest.mark.parametrize("name", first(SOUND, but=[*SOUND][::2]))
def test_sound_models_raise_no_alarm(name: str) -> None:
    rows = attnlab.check(seeded(SOUND[name])).properties
    assert set(rows.loc[rows["outcome"] == "mismatch", "property"]) == KNOWN.get(name, set())


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    model = seeded({**HEALTHY, **SOUND}[fault.family])
    fault.plant(monkeypatch, model)
    rows = attnlab.check(model).properties
    assert fault.property in set(rows.loc[rows["outcome"] == "mismatch", "property"])
