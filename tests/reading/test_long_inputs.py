"""Weights of some layers, heads and rows: those of eager attention, without a whole matrix in memory."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from grids import first
from tokenizers import processors
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.models.bert.modeling_bert import eager_attention_forward
from zoo.analyzed import ANALYZED, TWINS
from zoo.random_models import ALL, PAIRS, SENTENCES, seeded, tokenizer

from attnlab.attention.bridge import watching
from attnlab.attention.bridge.installing import install
from attnlab.attention.bridge.watching import AttentionCall
from attnlab.core import limits
from attnlab.core.errors import AttnlabError, InputError
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.inspect.inspection import inspect
from attnlab.reading import sentences as texts_read
from attnlab.reading.capture import Capture, capture
from attnlab.reading.keeping import load_kept_matrices
from attnlab.reading.matrix_files import load_kept_source
from attnlab.reading.passes import _Batch, prepare, selection_of
from attnlab.reading.weights import LayerWeights

pytestmark = pytest.mark.grid

TOKENIZER = tokenizer()
FAMILIES = ALL | ANALYZED
# Their modelling files do not call transformers' attention function.
INSIDE = {
    "falcon", "falcon-alibi", "gptj", "gpt_neo", "bloom", "mpt", "mpnet", "deberta", "deberta_v2", "roformer",
    "xlnet", "xlm", "flaubert", "openai_gpt", "xglm", "codegen", "rembert", "fsmt",
}  # fmt: skip
# Their experts have no float64.
EXPERTS = {"gpt_oss", "mixtral", "nllb_moe", "switch"}
# With windows, grouped keys, caps, sinks, biases, values of another dimension, two stacks.
UNLIKE = ("bert", "llama", "mistral", "gemma2", "gpt_oss", "t5", "deepseek_v3", "marian", "albert")


def texts(model: Any) -> list[Any]:
    return (PAIRS if model.config.is_encoder_decoder else SENTENCES)[:3]


def with_eager_twin(name: str) -> tuple[Any, Any]:
    """A model, in float64 where it can be, and one of the same weights that was made with eager attention."""

    def build() -> Any:
        model = FAMILIES[name]()
        model.config._attn_implementation = "eager"
        return type(model)(model.config)

    pair = seeded(FAMILIES[name]), seeded(build)
    # MobileBERT reads the next token's embedding, which for padding is 0.
    pair[0].get_input_embeddings().weight.data[0] = 0.0
    pair[1].load_state_dict(pair[0].state_dict())
    if name not in INSIDE | EXPERTS:
        for model in pair:
            model.double()
    return pair[0].eval(), pair[1].eval()


def eager_weights(model: Any, text: Any) -> dict[tuple[str, int], torch.Tensor]:
    """Attention of one sentence without padding, as an eager transformers model returns it."""
    source = text if isinstance(text, str) else text[0]
    given = dict(TOKENIZER(source, return_tensors="pt", return_token_type_ids=False))
    if isinstance(text, str):
        with torch.no_grad():
            shown = {"one": model(**given, output_attentions=True).attentions}
    else:
        labels = TOKENIZER(text_target=text[1])["input_ids"]
        start = model.config.decoder_start_token_id
        given["decoder_input_ids"] = torch.tensor([[start, *labels[:-1]]])
        with torch.no_grad():
            found = model(**given, use_cache=False, output_attentions=True)
        shown = {
            "encoder": found.encoder_attentions,
            "decoder": found.decoder_attentions,
            "cross": found.cross_attentions,
        }
    return {(site, n): w[0] for site, layers in shown.items() for n, w in enumerate(layers)}


class Collector:
    """All weights that it is handed, put together block by block."""

    by_rows = True

    def __init__(self) -> None:
        self.found: dict[tuple[int, str, int], list[torch.Tensor]] = {}
        self.rows: dict[tuple[int, str, int], list[int]] = {}

    def update(self, layer: LayerWeights) -> None:
        for place, number in enumerate(layer.sentences):
            real = layer.queries.real[place]
            at = number, layer.site, layer.layer
            weights = layer.weights[place][:, real][..., layer.keys.real[place]]
            self.found.setdefault(at, []).append(weights.clone())
            self.rows.setdefault(at, []).extend(layer.positions[real].tolist())

    def __iter__(self) -> Iterator[tuple[tuple[int, str, int], torch.Tensor, list[int]]]:
        for at, blocks in self.found.items():
            yield at, torch.cat(blocks, 1), self.rows[at]


@pytest.mark.parametrize("name", first(FAMILIES, but=TWINS))
def test_what_is_selected_is_what_eager_attention_returns(
    name: str, monkeypatch: pytest.MonkeyPatch, untouched_randomness: None
) -> None:
    model, plain = with_eager_twin(name)
    draw = random.Random(name)
    layers = draw.sample(range(2), draw.choice([1, 2]))
    heads = draw.sample(range(3), draw.choice([1, 2]))
    rows = draw.sample(range(5), 3)
    # A sentence and layer has several blocks of rows.
    monkeypatch.setattr(watching, "BLOCK_WEIGHTS", 2 * 30 * len(heads))
    selection = selection_of(layers, heads, rows, 0)
    reading = prepare((model, TOKENIZER), texts(model), whole=False, selection=selection)
    assert reading.in_blocks == (name not in INSIDE)
    collected = Collector()
    reading.feed([collected])
    seen = 0
    for (number, site, layer), weights, positions in collected:
        assert positions == sorted(rows)
        eager = eager_weights(plain, texts(model)[number])
        expected = eager.get((site, layer), eager.get(("one", layer)))
        expected = expected[sorted(heads)][:, sorted(rows)]
        # Many a family takes the softmax in float32, whatever else it computes in.
        near = 1e-6 if weights.dtype == torch.float64 else 3e-5
        torch.testing.assert_close(weights, expected, atol=near, rtol=30 * near)
        seen += 1
    sites = 3 if model.config.is_encoder_decoder else 1
    assert seen == 3 * sites * len(layers)


@pytest.mark.parametrize("text", ["old", "old cat", "old cat runs"])
def test_a_few_tokens_are_read_as_eager_attention_reads_them(text: str) -> None:
    bare = tokenizer()
    bare.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
    model, plain = with_eager_twin("llama")
    reading = prepare((model, bare), [text], whole=False, selection=selection_of(None, None, 3, 0))
    assert reading.in_blocks
    collected = Collector()
    reading.feed([collected])
    given = bare(text, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        eager = plain(**given, output_attentions=True).attentions
    read = {layer: weights for (_, _, layer), weights, _ in collected}
    assert list(read) == list(range(len(eager)))
    for layer, expected in enumerate(eager):
        torch.testing.assert_close(read[layer], expected[0], atol=1e-6, rtol=3e-5)


@pytest.mark.parametrize("name", UNLIKE)
def test_long_texts_have_the_statistics_of_whole_matrices(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = seeded(FAMILIES[name])
    read = texts(model)
    asked: dict[str, Any] = {"batch_size": 2, "keep_matrices": 9, "distances": True}
    whole = capture((model, TOKENIZER), read, **asked)
    monkeypatch.setattr(texts_read, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(watching, "BLOCK_WEIGHTS", 100)
    calls = []
    weights = AttentionCall.weights
    monkeypatch.setattr(
        AttentionCall, "weights", lambda *given: calls.append(len(given[1])) or weights(*given)
    )
    long = capture((model, TOKENIZER), read, **asked)
    assert max(calls[-6:]) < 10
    for table in ("heads", "distances"):
        pd.testing.assert_frame_equal(
            getattr(long.statistics, table)(),
            getattr(whole.statistics, table)(),
            rtol=1e-4,
            atol=1e-5,
        )
    assert long.coverage == whole.coverage
    assert long.kept.tokens == whole.kept.tokens
    assert (long.kept.rows, long.kept.kinds) == ({}, whole.kept.kinds)
    for at, matrix in whole.kept.matrices.items():
        torch.testing.assert_close(long.kept.matrices[at], matrix, atol=3e-5, rtol=1e-3)


class Largest(TorchDispatchMode):
    """The most entries that a tensor had which was made while it was on."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, tuple | list) else [out]:
            # A view that repeats holds no entries of its own.
            if isinstance(one, torch.Tensor) and 0 not in one.stride():
                self.entries = max(self.entries, one.numel())
        return out


LONG = 500


def long_model(name: str) -> Any:
    config = FAMILIES[name]().config
    config.max_position_embeddings = LONG + 9
    return seeded(lambda: type(FAMILIES[name]())(config)).eval()


@pytest.mark.parametrize(
    "name", ["llama", "gpt2", "mistral", "gemma2", "gpt_oss", "bert", "deepseek_v3", "gpt_bigcode"]
)
@pytest.mark.parametrize("rows", [None, 7])
def test_no_head_has_a_whole_matrix(
    name: str, rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = long_model(name)
    heads = model.config.num_attention_heads
    monkeypatch.setattr(watching, "BLOCK_WEIGHTS", 20 * LONG)
    monkeypatch.setattr(texts_read, "MOST_WEIGHTS", heads * LONG**2 // 4)
    text = " ".join(random.Random(0).choices(["cat", "dog", "old", "."], k=LONG - 2))

    def most(**options: Any) -> int:
        reading = prepare(
            (model, TOKENIZER), [text], selection=selection_of(None, None, rows, 0), **options
        )
        assert reading.sentences.usable[0].number == 0
        assert len(reading.sentences.usable[0].source) == LONG
        with Largest() as largest:
            reading.feed([Collector()])
        return largest.entries

    assert most(whole=False) <= LONG**2
    if rows is None:
        assert most() >= heads * LONG**2, "the test sees no matrix where there is one"


@pytest.mark.parametrize("float_mask", [False, True])
@pytest.mark.parametrize("sinks", [None, torch.tensor([0.3, -1.0, 2.0, 0.1])])
def test_what_stands_in_padding_makes_no_difference(
    float_mask: bool, sinks: torch.Tensor | None
) -> None:
    generator = torch.Generator().manual_seed(3)
    query, key = (torch.randn(2, heads, 7, 5, generator=generator) for heads in (4, 2))
    real = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    mask = real[:, None, None] & torch.ones(7, 7, dtype=torch.bool).tril()
    if float_mask:
        mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    rows = torch.tensor([0, 2, 3, 6])

    def weights(filling: float) -> torch.Tensor:
        filled = (x.masked_fill(~real[:, None, :, None], filling) for x in (query, key))
        call = AttentionCall(*filled, key, 0.7, causal=False, mask=mask, softcap=3.0, sinks=sinks)
        return call.of_heads([0, 3]).weights(rows)

    clean, filled = weights(0.0), weights(torch.nan)
    torch.testing.assert_close(filled[0], clean[0], atol=0, rtol=0)
    torch.testing.assert_close(filled[1, :, :3], clean[1, :, :3], atol=0, rtol=0)
    assert not clean[1, :, :, 4:].any()


def test_a_call_mixes_values_as_its_weights_say() -> None:
    generator = torch.Generator().manual_seed(4)
    query, key, value = (
        torch.randn(2, heads, 9, dim, generator=generator, dtype=torch.float64)
        for heads, dim in ((4, 5), (2, 5), (2, 3))
    )
    call = AttentionCall(query, key, value, 0.4, causal=True, softcap=2.0)
    mixed = call.mixed()
    for head in range(4):
        scores = 2 * ((0.4 * query[:, head] @ key[:, head // 2].mT) / 2).tanh()
        hidden = torch.ones(9, 9, dtype=torch.bool).triu(1)
        expected = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value[:, head // 2]
        torch.testing.assert_close(mixed[:, :, head], expected)


def drawn(model: Any, **options: Any) -> Capture:
    return capture((model, TOKENIZER), texts(model), keep_matrices=9, **options)


@pytest.mark.parametrize("name", ["llama", "falcon", "marian"])
def test_drawn_rows_follow_the_seed_and_the_text_alone(name: str) -> None:
    model = seeded(FAMILIES[name])
    one = drawn(model, rows=4, seed=1)
    again = drawn(model, rows=4, seed=1, layers=[1], heads=[2], batch_size=1)
    assert {at: one.kept.rows[at] for at in again.kept.rows} == again.kept.rows
    assert drawn(model, rows=4, seed=2).kept.rows != one.kept.rows
    assert {len(rows) for rows in one.kept.rows.values()} == {4}
    assert len({rows for (_, site), rows in one.kept.rows.items() if site != "encoder"}) > 1
    whole = drawn(model)
    for (number, site, layer), matrix in again.kept.matrices.items():
        rows = again.kept.rows[number, site]
        expected = whole.kept.matrices[number, site, layer][[2]][:, list(rows)]
        torch.testing.assert_close(matrix, expected, atol=3e-5, rtol=1e-3)
        queries, keys = whole.kept.tokens[number, site]
        assert again.kept.tokens[number, site] == ([queries[row] for row in rows], keys)


def test_more_rows_than_a_text_has_are_all_of_them() -> None:
    model = seeded(FAMILIES["llama"])
    every, whole = drawn(model, rows=1_000), drawn(model)
    assert every.kept.rows == {}
    pd.testing.assert_frame_equal(
        every.statistics.heads(), whole.statistics.heads(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["bert", "xlnet"])
def test_statistics_of_a_selection_bear_the_numbers_of_its_heads(name: str) -> None:
    model = seeded(FAMILIES[name])
    found = drawn(model, heads=[2, 0], layers=[1], distances=True).statistics
    whole = drawn(model, distances=True).statistics
    assert found.heads()[["layer", "head"]].to_numpy().tolist() == [[1, 0], [1, 2]]
    expected = whole.heads().query("layer == 1 and head != 1").reset_index(drop=True)
    columns = [name for name in expected if name != "js_distance_to_others"]
    pd.testing.assert_frame_equal(found.heads()[columns], expected[columns], rtol=1e-4, atol=1e-6)
    distances = whole.distances().query("layer == 1 and head == 0 and other_head == 2")
    pd.testing.assert_frame_equal(
        found.distances(), distances.reset_index(drop=True), rtol=1e-4, atol=1e-5
    )


def test_rows_of_the_cross_attention_count_by_the_token_that_they_predict() -> None:
    model = seeded(FAMILIES["marian"])
    whole = drawn(model, sites=["cross"]).statistics.heads()
    parts = [drawn(model, sites=["cross"], rows=[row]).statistics for row in range(5)]
    # The first row predicts <s>, the second, which is that of <s>, a word.
    assert [int(part.heads()["rows"].iloc[0]) for part in parts[:2]] == [0, 3]
    assert whole["rows"].iloc[0] >= sum(part.heads()["rows"].iloc[0] for part in parts)


def test_shares_of_a_selection_add_up() -> None:
    model = seeded(FAMILIES["llama"])
    options: dict[str, Any] = {"rows": 3, "heads": [1], "keep_matrices": 9}

    def share(index: int, count: int) -> Capture:
        return capture((model, TOKENIZER), SENTENCES, share=(index, count), **options)

    whole, merged = share(0, 1), share(1, 2) + share(0, 2)
    pd.testing.assert_frame_equal(
        merged.statistics.heads(), whole.statistics.heads(), rtol=1e-9, atol=1e-12
    )
    assert (merged.kept.rows, merged.kept.heads) == (whole.kept.rows, (1,))


@pytest.mark.parametrize("name", ["llama", "falcon"])
def test_matrices_of_a_selection_come_back_from_their_file_and_are_not_analyzed(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "matrices.safetensors"
    kept = drawn(seeded(FAMILIES[name]), rows=2, heads=[0, 2]).kept
    kept.write(path)
    back = load_kept_matrices(path)
    assert (back.rows, back.heads, back.tokens) == (kept.rows, (0, 2), kept.tokens)
    with pytest.raises(InputError, match="selected rows or heads alone"):
        load_kept_source(path)


def test_tokens_are_named_once_however_many_blocks_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ALL["llama"]()
    monkeypatch.setattr(texts_read, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(watching, "BLOCK_WEIGHTS", 1)
    named = []
    tokens = texts_read.Vocabulary.tokens
    monkeypatch.setattr(
        texts_read.Vocabulary, "tokens", lambda *given: named.append(1) or tokens(*given)
    )
    drawn(model)
    sentences, layers, sides = 3, 2, 2
    assert len(named) == sentences * layers * sides


@pytest.mark.usefixtures("as_users_call_it")
def test_layers_heads_and_rows_may_be_numbers_of_numpy() -> None:
    model = ALL["bert"]()
    one = drawn(model, layers=np.array([1, 0]), heads=[np.int64(1)], rows=np.int64(2))
    other = drawn(model, layers=[0, 1], heads=[1], rows=2)
    pd.testing.assert_frame_equal(one.table, other.table)
    assert one.kept.rows == other.kept.rows


def test_of_selected_rows_too_the_first_are_kept_that_fit() -> None:
    model = seeded(FAMILIES["llama"])
    whole = drawn(model, rows=[1, 3, 4, 5]).kept
    size = sum(m.numel() * 2 for at, m in whole.matrices.items() if at[0] == 1)
    few = drawn(model, rows=[1, 3, 4, 5], keep_bytes=size // 2).kept
    assert few.rows == {(1, "decoder"): (1, 3)}
    for at, matrix in few.matrices.items():
        torch.testing.assert_close(matrix, whole.matrices[at][:, :2].half(), atol=0, rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [2]}, r"no attention in layer 2 to read; choose from encoder: layers 0, 1\."),
        ({"heads": [1, 3]}, r"There is no head encoder.0.3; choose from encoder.0.0 to encoder"),
        ({"rows": [0, 6]}, r"Row 6 does not exist in text 2, which has 6 rows \(0 to 5\)"),
        ({"rows": 0}, "At least 1 row is drawn of each text, not 0"),
        ({"rows": [-1]}, r"rows must be numbers from 0, such as \[0, 3\], not \[-1\]"),
        ({"rows": []}, "rows must be numbers from 0"),
        ({"heads": [True]}, "heads must be numbers from 0"),
        ({"rows": 2, "seed": 10**18}, "seed must be at least 0 and at most 4294967295, not 1000"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_sentence(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        drawn(ALL["bert"](), **options)
    assert "\n" not in str(refused.value)


def test_a_layer_of_one_site_alone_is_read_there() -> None:
    model = ALL["marian"]()
    found = drawn(model, layers=[2])
    assert found.coverage.layers == {"encoder": 0, "decoder": 1, "cross": 1}
    with pytest.raises(
        InputError, match="no attention in layer 3 to read; choose from encoder: layers 0, 1; d"
    ):
        drawn(model, layers=[3])


def refused_for_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of a selection where only little memory is free."""
    monkeypatch.setattr(limits, "free_bytes", lambda _: 1_000)
    with pytest.raises(InputError) as refused:
        capture((FAMILIES[name](), TOKENIZER), ["a dog"], rows=[0])
    return str(refused.value)


def test_why_a_long_text_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    falcon = refused_for_memory("falcon", monkeypatch)
    assert "this model computes its attention inside its own modules, or" in falcon
    with pytest.raises(InputError, match="no rows can be read without the others"):
        capture((FAMILIES["falcon"](), TOKENIZER), ["a dog"], rows=1)
    assert "heads in blocks of rows, needs" in refused_for_memory("llama", monkeypatch)


def test_biases_of_all_pairs_count_in_the_memory_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, text = ALL["t5"](), ["cat " * 60]
    monkeypatch.setattr(texts_read, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(texts_read, "BLOCK_WEIGHTS", 1)
    monkeypatch.setattr(texts_read, "BYTES_A_WEIGHT", 0)
    cells = 62**2
    with pytest.raises(InputError, match="a relative position for each head and pair of tokens"):
        capture((model, TOKENIZER), text, memory=(12 * 3 + 8) * cells / 1e9 - 1e-9)
    capture((model, TOKENIZER), text, memory=(12 * 3 + 8) * cells / 1e9 + 1e-9)


def test_what_needs_whole_matrices_names_the_way_out() -> None:
    source = ALL["bert"](), TOKENIZER
    with pytest.raises(InputError, match=r"capture some of its rows in Python \(rows= of"):
        prepare(source, SENTENCES, memory=1e-6)
    with pytest.raises(InputError, match="with 3 heads in blocks of rows, needs"):
        analyze(source, sentences=SENTENCES, memory=1e-6)


@pytest.mark.parametrize("name", ["bert", "gpt_oss"])
def test_statistics_alone_are_counted_in_blocks_of_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = seeded(FAMILIES[name]).eval()
    alone = {"labels": False, "structure_sentences": 0, "fit_sentences": 0, "keep_matrices": 2}

    def tables() -> tuple[Any, Any]:
        found = analyze((model, TOKENIZER), sentences=SENTENCES[:3], **alone)
        return found, inspect((model, TOKENIZER), *SENTENCES[:2])

    whole = tables()
    monkeypatch.setattr(texts_read, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(watching, "BLOCK_WEIGHTS", 100)
    monkeypatch.setattr(_Batch, "read", lambda _: pytest.fail("read whole"))
    long = tables()
    for one, second in zip(whole, long, strict=True):
        pd.testing.assert_frame_equal(second.heads, one.heads, rtol=1e-4, atol=1e-5)
    assert long[0].matrices.tokens == whole[0].matrices.tokens


@pytest.mark.parametrize("broken", [False, True])
def test_the_model_is_left_as_it_was(broken: bool) -> None:
    model = ALL["llama"]()
    model.train()
    model.model.layers[1].eval()
    model.set_attn_implementation("eager" if broken else "sdpa")
    before = {name: module.training for name, module in model.named_modules()}
    attention = model.config._attn_implementation

    class Broken(Collector):
        def update(self, layer: LayerWeights) -> None:
            super().update(layer)
            if broken:
                raise KeyError

    selection = selection_of([0], None, None, 0)
    reading = prepare((model, TOKENIZER), SENTENCES, whole=False, selection=selection)
    try:
        reading.feed([Broken()])
    except KeyError:
        assert broken
    assert {name: module.training for name, module in model.named_modules()} == before
    assert model.config._attn_implementation == attention
    assert watching._WATCH.get() is None


def test_what_needs_whole_matrices_is_handed_no_rows() -> None:
    class Whole:
        def update(self, layer: LayerWeights) -> None:
            pytest.fail("handed on")

    selection = selection_of(None, None, [0], 0)
    reading = prepare((ALL["bert"](), TOKENIZER), SENTENCES, whole=False, selection=selection)
    with pytest.raises(AttnlabError, match="select no rows"):
        reading.feed([Whole()])


def test_a_model_that_computes_other_weights_than_its_queries_and_keys_give_is_read_whole() -> None:
    model = ALL["bert"]()

    def swapped(module: nn.Module, _: Any, output: Any) -> Any:
        return output[0], None if output[1] is None else output[1].flip(1)

    model.encoder.layer[1].attention.self.register_forward_hook(swapped)
    selection = selection_of(None, None, [0], 0)
    reading = prepare((model, TOKENIZER), ["a dog runs"], whole=False, selection=selection)
    assert not reading.in_blocks


def own_attention(*given: Any, **named: Any) -> Any:
    return eager_attention_forward(*given, **named)


@pytest.mark.parametrize("how", ["mechanism", "registered"])
def test_attention_that_was_put_there_is_read_whole_and_then_selected(how: str) -> None:
    model = ALL["bert"]()
    expected = drawn(model, rows=3, heads=[1])
    if how == "mechanism":
        install(model, "full")
    else:
        AttentionInterface.register("of_a_user", own_attention)
        AttentionMaskInterface.register("of_a_user", eager_mask)
        model.set_attn_implementation("of_a_user")
    selection = selection_of(None, [1], 3, 0)
    assert not prepare((model, TOKENIZER), SENTENCES, whole=False, selection=selection).in_blocks
    found = drawn(model, rows=3, heads=[1])
    pd.testing.assert_frame_equal(
        found.statistics.heads(), expected.statistics.heads(), rtol=1e-4, atol=1e-5
    )
    assert found.kept.rows == expected.kept.rows


@pytest.mark.parametrize("name", ["llama", "gemma2", "t5"])
def test_half_precision_is_that_of_eager_attention(name: str) -> None:
    model = seeded(FAMILIES[name]).to(torch.bfloat16)
    whole, parts = drawn(model), drawn(model, rows=[0, 3, 5])
    for at, matrix in parts.kept.matrices.items():
        expected = whole.kept.matrices[at][:, [0, 3, 5]]
        # T5 does not scale its scores, so that what 16 bits leave out of them weighs more.
        near = 0.05 if name == "t5" else 0.01
        assert (matrix - expected).abs().mean() < near


def test_a_twin_is_read_in_blocks_too() -> None:
    model, other = ALL["llama"](), seeded(ALL["llama"], 6)
    selection = selection_of(None, [1], [0, 4], 0)
    reading = prepare((model, TOKENIZER), SENTENCES, whole=False, selection=selection)
    found, expected = Collector(), Collector()
    reading.by(other).feed([found])
    prepare((other, TOKENIZER), SENTENCES, whole=False, selection=selection).feed([expected])
    for (at, weights, _), (_, again, _) in zip(found, expected, strict=True):
        torch.testing.assert_close(weights, again, atol=0, rtol=0)
        assert at[1] == "decoder"


def test_layers_of_another_device_are_read(tmp_path: Path) -> None:
    """Spread by accelerate over the CPU and a folder, since two CPUs are one device to it."""
    accelerate = pytest.importorskip("accelerate")
    build: Callable[[], Any] = ALL["llama"]
    expected = drawn(build(), rows=3, heads=[1])
    spread = accelerate.dispatch_model(
        build(),
        {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk",
         "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"},
        main_device="cpu", offload_dir=str(tmp_path),
    )  # fmt: skip
    assert next(spread.model.layers[1].parameters()).device.type == "meta"
    found = drawn(spread, rows=3, heads=[1])
    pd.testing.assert_frame_equal(found.statistics.heads(), expected.statistics.heads())
    pd.testing.assert_frame_equal(
        drawn(spread).statistics.heads(), drawn(build()).statistics.heads()
    )
