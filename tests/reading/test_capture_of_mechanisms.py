"""Models that attnlab's mechanisms stand in are analyzed as they compute, and stay as they are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel
from zoo import random_models
from zoo.random_models import ALL, ONE_STACK, PAIRS, SENTENCES, tokenizer

from attnlab.ablation.ablation import ablated
from attnlab.ablation.projections import projections_of
from attnlab.attention.bridge.installing import install, installed_plan, mechanism_of, use
from attnlab.attention.bridge.sites import attention_modules
from attnlab.attention.calibration import load_frequencies
from attnlab.attention.registry import MECHANISMS
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.labels.untrained import untrained_twin
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.compare.comparison import compare
from attnlab.questions.importance.importance import importance
from attnlab.reading.capture import capture

pytestmark = pytest.mark.grid

TOKENIZER = tokenizer()
SPECS = [
    "full",
    "band(window=1)",
    "band(window=(1, 0))",
    "longformer(window=1, global_tokens=[0])",
    "bigbird(block=2, random=1)",
    "sigma(window=0, num_pos=2, columns='first', extra=1)",
    "sigma(window=1, num_pos=2, columns='frequency')",
    "linear(feature='elu')",
    "linear(feature='favor', features=7)",
    "linformer(k=3, max_length=37)",
    "scatterbrain(window=1, features=7)",
    "fixed(pattern='previous')",
    "topk(k=2)",
    "keys(offsets=(-1, 0), first=1)",
    "graph(edges=((0, 0), (1, 0), (1, 2), (3, 1)))",
    "static(offsets=(-1, 0), weights=(0.5, 0.25))",
    "gaussian(offset=-1)",
    "synthesizer(max_length=37)",
    "sigma_static(window=1, max_length=37, num_pos=2, extra=2)",
    "none",
]
SITES = {name: ["encoder", "decoder", "cross"] for name in random_models.TWO_STACKS}
SITES |= {"bert": ["encoder"], "distilbert": ["encoder"], "llama": ["decoder"], "gpt2": ["decoder"]}
COUNTS = torch.arange(random_models.TYPES).roll(5)
# What a family of models can treat in its own way; all of SPECS stand in two of them.
KINDS = (
    "full",
    "band(window=1)",
    "sigma(window=1, num_pos=2, columns='frequency')",
    "linear(feature='elu')",
    "linformer(k=3, max_length=37)",
    "topk(k=2)",
    "static(offsets=(-1, 0), weights=(0.5, 0.25))",
)
CASES = [
    (name, site, spec)
    for name in ALL
    for site in SITES[name]
    for spec in (SPECS if name in ("llama", "marian") else KINDS)
]


def texts(name: str) -> list[Any]:
    return SENTENCES if name in ONE_STACK else PAIRS


def inputs(model: Any, text: Any) -> dict[str, Tensor]:
    """One sentence without padding."""
    if isinstance(text, str):
        return dict(TOKENIZER(text, return_tensors="pt", return_token_type_ids=False))
    source = TOKENIZER(text[0], return_tensors="pt", return_token_type_ids=False)
    labels = TOKENIZER(text_target=text[1], return_tensors="pt")["input_ids"]
    return {**source, "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(labels)}


@contextmanager
def applied(model: Any) -> Iterator[dict[tuple[str, int], Tensor]]:
    """The matrices that the mechanisms apply, straight from what each is called with."""
    found: dict[tuple[str, int], Tensor] = {}
    hooks = []
    for at in attention_modules(model):

        def note(mechanism: Any, args: Any, options: Any, _: Any, at: Any = at) -> None:
            query, key, _value, *visible = args
            found[at.site, at.layer] = mechanism.implied_matrix(query, key, *visible, **options)

        mechanism = mechanism_of(at.module)
        hooks.append(mechanism.register_forward_hook(note, with_kwargs=True))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def can(name: str, site: str, spec: str) -> bool:
    traits = MECHANISMS[spec.partition("(")[0]].traits
    return (
        (site != "decoder" or traits.causal)
        and (site != "cross" or traits.cross)
        and (name != "t5" or traits.bias)
    )


def test_every_mechanism_is_here() -> None:
    assert {spec.partition("(")[0] for spec in SPECS} == set(MECHANISMS)


@pytest.mark.parametrize(("name", "site", "spec"), [case for case in CASES if can(*case)])
def test_captured_matrices_are_those_that_the_mechanisms_apply(
    name: str, site: str, spec: str, untouched_randomness: None
) -> None:
    model, rows = ALL[name]().eval(), texts(name)[:3]
    with torch.random.fork_rng():
        torch.manual_seed(2)
        installed = install(model, {site: spec})
    load_frequencies(model, COUNTS)
    expected, outputs = [], []
    for text in rows:
        with torch.no_grad(), applied(model) as matrices:
            outputs.append(model(**inputs(model, text))[0])
        expected.append(matrices)
    mechanism = spec.partition("(")[0]
    if not MECHANISMS[mechanism].traits.stochastic:
        with pytest.raises(
            InputError, match=f"'{mechanism}' applies in the {site} are no probabilities"
        ):
            capture((model, TOKENIZER), rows, keep_matrices=3)
    else:
        kept = capture((model, TOKENIZER), rows, batch_size=3, keep_matrices=3).kept.matrices
        assert len(kept) == sum(map(len, expected))
        for (number, at, layer), matrix in kept.items():
            torch.testing.assert_close(matrix, expected[number][at, layer][0], atol=2e-5, rtol=1e-4)
    assert mechanism_of(installed.modules[0].module) is not None
    for text, before in zip(rows, outputs, strict=True):
        with torch.no_grad():
            assert torch.equal(model(**inputs(model, text))[0], before)
    with torch.no_grad():
        silent = model(**inputs(model, rows[0]), output_attentions=False)
    assert not silent.get("attentions"), "weights are computed for those who ask"
    installed.remove()
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("name", ALL)
def test_mechanisms_by_layer_and_head(name: str) -> None:
    model, site = ALL[name]().eval(), SITES[name][-1]
    plan = {f"{site}.1": "band(window=0)", f"{site}.0.2": "topk(k=1)"}
    if site == "cross":
        plan = {
            f"{site}.1": "sigma(window=0, num_pos=1, columns='first')",
            f"{site}.0.2": "topk(k=1)",
        }
    with use(model, plan):
        with torch.no_grad(), applied(model) as expected:
            model(**inputs(model, texts(name)[0]))
        kept = capture((model, TOKENIZER), texts(name), keep_matrices=1).kept.matrices
    for layer in (0, 1):
        torch.testing.assert_close(
            kept[0, site, layer], expected[site, layer][0], atol=2e-5, rtol=1e-4
        )
    assert ((kept[0, site, 0][2] > 0).sum(-1) == 1).all()


def test_sites_with_probabilities_are_still_analyzed() -> None:
    model = random_models.marian()
    with use(model, {"encoder": "linformer(k=3, max_length=37)"}):
        with pytest.raises(InputError, match="choose other sites: decoder, cross"):
            capture((model, TOKENIZER), PAIRS)
        found = capture((model, TOKENIZER), PAIRS, sites=["decoder", "cross"])
    assert set(found.statistics.heads()["site"]) == {"decoder", "cross"}


def test_attention_that_a_user_registered_stays() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    def previous(
        module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **_: Any
    ) -> Any:
        rows = torch.arange(query.shape[2]) - 1
        weights = torch.eye(query.shape[2])[rows.clamp(min=0)].expand(*query.shape[:2], -1, -1)
        return (weights @ value).transpose(1, 2), weights

    AttentionInterface.register("test_previous", previous)
    AttentionMaskInterface.register("test_previous", eager_mask)
    model = random_models.bert()
    model.set_attn_implementation("test_previous")
    kept = capture((model, TOKENIZER), ["a dog runs"], keep_matrices=1).kept.matrices
    assert torch.equal(kept[0, "encoder", 1][0], torch.eye(5)[[0, 0, 1, 2, 3]])
    assert model.config._attn_implementation == "test_previous"


def test_the_untrained_twin_has_the_same_mechanisms(untouched_randomness: None) -> None:
    model = random_models.bert()
    plan = {"encoder": "sigma(window=1, columns='frequency')", "encoder.1": "band(window=1)"}
    with use(model, plan):
        load_frequencies(model, COUNTS)
        twin = untrained_twin(model, seed=3)
        assert installed_plan(twin) == installed_plan(model)
        kept = capture((twin, TOKENIZER), SENTENCES, keep_matrices=1).kept.matrices
    assert not kept[0, "encoder", 1].triu(2).any()
    assert installed_plan(model) is None


@pytest.mark.parametrize(
    ("name", "build"), [("llama", random_models.llama), ("marian", random_models.small_marian)]
)
def test_studies_read_the_model_with_its_mechanisms(
    name: str, build: Callable[[], PreTrainedModel]
) -> None:
    model = build().eval()
    rows = texts(name) * 2
    studied = {"sentences": rows, "bleu": (), "replacements": ["uniform"]}
    with use(model, "band(window=9)"):
        wide = importance((model, TOKENIZER), **studied)
    with use(model, "band(window=0)" if name == "llama" else {"encoder": "band(window=0)"}):
        with torch.no_grad():
            before = model(**inputs(model, rows[0])).logits
        narrow = importance((model, TOKENIZER), **studied)
        without = {"ablation": False, "fit_sentences": 0, "structure_sentences": 0}
        found = analyze((model, TOKENIZER), sentences=rows, labels=True, **without)
        site = "decoder" if name == "llama" else "encoder"
        heads = found.heads[found.heads["site"] == site]
        assert (heads["mass_at_offset_0"] == 1).all()
        assert "labels" in found.tables
        with pytest.raises(InputError, match=r"take those out first|full attention"):
            compare((model, TOKENIZER), [5], sentences=rows[:4], calibration=rows[4:7])
        with torch.no_grad():
            assert torch.equal(model(**inputs(model, rows[0])).logits, before)
    # A head that sees one key is uniform already.
    even, uneven = (one.replaced[one.replaced["way"] == "uniform"] for one in (narrow, wide))
    assert even[even["site"] == site]["loss_change"].abs().max() < 1e-5
    assert uneven["loss_change"].abs().max() > 1e-3


@pytest.mark.parametrize("spec", ["topk(k=2)", "linear", "fixed(pattern='previous')"])
def test_uniform_is_refused_where_a_zero_query_is_not_uniform(spec: str) -> None:
    model = random_models.bert().eval()
    with use(model, spec):
        given = inputs(model, SENTENCES[0])
        projections = projections_of(model, lambda: model(**given, output_attentions=True))
        with (
            pytest.raises(InputError, match="use 'zero' or 'mean'"),
            ablated(projections, [Head("encoder", 0, 0)], "uniform"),
        ):
            pass


def test_an_encoder_that_looks_back_alone_is_an_encoder() -> None:
    model = random_models.bert().eval()
    with use(model, "band(window=(1, 0))"):
        given = inputs(model, SENTENCES[0])
        projections = projections_of(model, lambda: model(**given, output_attentions=True))
    assert {site for site, _ in projections} == {"encoder"}
