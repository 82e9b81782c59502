"""Capture: the same weights as the model's own, one layer at a time, checked, kept, and shared out."""

import gc
import re
from dataclasses import replace
from inspect import unwrap
from pathlib import Path

import pandas as pd
import pytest
import torch
from grids import slow
from planted_layers import layer, stochastic
from safetensors.torch import save_file
from zoo import random_models
from zoo.analyzed import ANALYZED
from zoo.random_models import ALL, PAIRS, SENTENCES, TWO_STACKS, seeded, tokenizer

from attnlab.core.errors import AttnlabError, InputError
from attnlab.reading import hooks as taps
from attnlab.reading.capture import capture
from attnlab.reading.keeping import MatrixKeeper, load_kept_matrices
from attnlab.reading.passes import prepare, selection_of
from attnlab.reading.reading_notes import NoTranslations
from attnlab.reading.statistics import HeadStatistics
from attnlab.reading.vocabulary import Vocabulary
from attnlab.reading.weights import checked

TOKENIZER = tokenizer()


def texts(name: str):
    return PAIRS if name in TWO_STACKS else SENTENCES


def own_attentions(model, text):
    """Attention of one sentence as transformers returns it, without batches or padding."""
    model.eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        if isinstance(text, str):
            outputs = model(**TOKENIZER(text, return_tensors="pt", return_token_type_ids=False),
                            output_attentions=True)  # fmt: skip
            shown = {"one": outputs.attentions}
        else:
            source = TOKENIZER(text[0], return_tensors="pt", return_token_type_ids=False)
            labels = TOKENIZER(text_target=text[1], return_tensors="pt")["input_ids"]
            shifted = model.prepare_decoder_input_ids_from_labels(labels)
            outputs = model(**source, decoder_input_ids=shifted, output_attentions=True)
            shown = {
                "encoder": outputs.encoder_attentions,
                "decoder": outputs.decoder_attentions,
                "cross": outputs.cross_attentions,
            }
    return {(site, n): w[0] for site, layers in shown.items() for n, w in enumerate(layers)}


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_no_layer_runs_behind_the_last_one_that_is_wanted(
    name: str, in_blocks: bool, spread: bool
) -> None:
    """Unless accelerate spread the model, whose weights are moved back where layers end."""
    model, site = ALL[name]().eval(), ["cross"] if name in TWO_STACKS else None
    before = final_states_of(model, texts(name)[0])
    if spread:
        model.hf_device_map = {"encoder": "cpu", "decoder": "disk"}
    whole = capture((model, TOKENIZER), texts(name), sites=site, keep_matrices=99).kept.matrices
    wanted = selection_of([0], None, None, 0)
    reading = prepare(
        (model, TOKENIZER), texts(name), site, whole=False, rows_do=True, selection=wanted
    )
    if not in_blocks:
        reading = replace(reading, in_blocks=False)
    ran: set[int] = set()
    later = [hook for hook in reading.attention_sites.hooks if reading.sites == (hook.site,)]
    for hook in later:
        hook.module.register_forward_pre_hook(lambda *_, layer=hook.layer: ran.add(layer))
    keeper = MatrixKeeper(99, 2**20, torch.float32)
    reading.feed([HeadStatistics(), keeper], batch_size=3)
    assert len(later) > 1
    assert ran == ({*range(len(later))} if spread else {0})
    kept = keeper.kept().matrices
    assert kept.keys() == {at for at in whole if at[2] == 0}
    for at, matrix in kept.items():
        torch.testing.assert_close(matrix, whole[at])
    assert torch.equal(final_states_of(model, texts(name)[0]), before)


def final_states_of(model, text) -> torch.Tensor:
    """What the model makes of one sentence, or of its tokens once more, run as anyone runs it."""
    source = TOKENIZER(
        text if isinstance(text, str) else text[0], return_tensors="pt", return_token_type_ids=False
    )
    more = {} if isinstance(text, str) else {"decoder_input_ids": source["input_ids"]}
    with torch.no_grad():
        return model.base_model(**source, **more)[0]


@pytest.mark.parametrize("layers", [[0], [1]])
def test_some_of_several_layers_that_share_a_module(layers: list[int]) -> None:
    model = seeded(ANALYZED["albert"])
    whole = capture((model, TOKENIZER), SENTENCES, keep_matrices=99).kept.matrices
    wanted = selection_of(layers, None, None, 0)
    reading = prepare((model, TOKENIZER), SENTENCES, whole=False, selection=wanted)
    keeper = MatrixKeeper(99, 2**20, torch.float32)
    replace(reading, in_blocks=False).feed([keeper])
    kept = keeper.kept().matrices
    assert kept.keys() == {at for at in whole if at[2] in layers}
    for at, matrix in kept.items():
        torch.testing.assert_close(matrix, whole[at])


@pytest.mark.parametrize("name", ALL)
def test_captured_matrices_are_the_models_own(name: str, untouched_randomness: None) -> None:
    model = ALL[name]()
    found = capture((model, TOKENIZER), texts(name), batch_size=3, keep_matrices=99)
    assert found.coverage.streamed
    seen = 0
    for number, text in enumerate(texts(name)):
        for (site, depth), expected in own_attentions(model, text).items():
            where = site if site != "one" else ("encoder" if "bert" in name else "decoder")
            kept = found.kept.matrices[number, where, depth]
            torch.testing.assert_close(kept, expected, atol=3e-5, rtol=1e-4)
            seen += 1
    assert seen == len(found.kept.matrices)


@pytest.mark.parametrize("name", ALL)
def test_shares_of_the_work_add_up_to_the_whole(name: str) -> None:
    model = ALL[name]()

    def share(index: int, count: int):
        return capture((model, TOKENIZER), texts(name), batch_size=2, share=(index, count),
                       keep_matrices=3)  # fmt: skip

    whole = share(0, 1)
    merged = share(2, 3) + share(0, 3) + share(1, 3)
    assert merged.coverage.sentences == len(texts(name))
    pd.testing.assert_frame_equal(
        merged.statistics.heads(), whole.statistics.heads(), rtol=1e-9, atol=1e-12
    )
    assert list(merged.kept.matrices) == list(whole.kept.matrices)
    assert merged.kept.tokens == whole.kept.tokens


@pytest.mark.parametrize("name", ["distilbert", "gpt2", "marian"])
def test_a_model_probed_once_reads_other_texts_and_lends_its_taps_to_a_twin(name: str) -> None:
    model, other = ALL[name](), ALL[name]()
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(1.5)
    reading = prepare((model, TOKENIZER), texts(name))

    def heads(one) -> pd.DataFrame:
        found = HeadStatistics()
        one.feed([found])
        return found.heads()

    expected = capture((other, TOKENIZER), texts(name)).statistics.heads()
    pd.testing.assert_frame_equal(heads(reading.by(other)), expected, rtol=0)
    few = capture((model, TOKENIZER), texts(name)[:3]).statistics.heads()
    pd.testing.assert_frame_equal(heads(reading.first(3)), few, rtol=0)
    pd.testing.assert_frame_equal(heads(reading.of_texts(texts(name)[:3])), few, rtol=0)
    assert not heads(reading).equals(expected)


@pytest.mark.parametrize("name", ["marian", *slow(*(name for name in ALL if name != "marian"))])
def test_never_more_than_one_layer_is_alive(name: str) -> None:
    model = ALL[name]()
    alive = []

    class Census:
        def update(self, seen) -> None:
            shape = seen.weights.shape
            tensors = [t for t in gc.get_objects() if type(t) is torch.Tensor]
            alive.append(sum(t.shape[-2:] == shape[-2:] and t.ndim == 4 and t.dtype.is_floating_point
                             and t.shape[1] == shape[1] for t in tensors))  # fmt: skip

    prepare((model, TOKENIZER), texts(name)).feed([Census()], batch_size=99)
    # The model's tensor and the one without padding rows; t5 keeps two position biases of that shape.
    assert max(alive) <= (4 if name == "t5" else 2)


def test_the_model_is_left_as_it_was() -> None:
    model = random_models.bert()
    model.train()
    model.encoder.layer[1].eval()
    before = {name: module.training for name, module in model.named_modules()}
    capture((model, TOKENIZER), SENTENCES)
    assert {name: module.training for name, module in model.named_modules()} == before
    assert model.config._attn_implementation == "sdpa"
    model.set_attn_implementation("eager")
    ids = torch.tensor([[1, 5, 2]])
    assert len(model(ids, output_attentions=True).attentions) == 2, "no hook takes them off now"


def test_the_model_is_left_as_it_was_after_an_error() -> None:
    model = random_models.bert()
    model.train()

    class Broken:
        def update(self, seen) -> None:
            raise KeyError

    with pytest.raises(KeyError):
        prepare((model, TOKENIZER), SENTENCES).feed([Broken()])
    assert model.training
    assert model(torch.tensor([[1, 5, 2]])).last_hidden_state.shape == (1, 3, 15)


def test_layers_of_equal_weights_have_a_tap_each() -> None:
    """Also where what the model shows is a copy of what its layers returned."""
    weights = torch.full((1, 2, 3, 3), 1 / 3)
    layers = [torch.nn.Identity() for _ in range(3)]
    seen = [taps.Returned(layer, 0, 1, weights.clone()) for layer in layers]
    shown = {"encoder": tuple(weights.clone() for _ in layers)}
    found = taps._matched(shown, seen)
    assert [hook.layer for hook in found] == [0, 1, 2]
    assert all(hook.module is layer for hook, layer in zip(found, layers, strict=True))
    assert taps._matched({"encoder": (*shown["encoder"], weights)}, seen) == ()


def test_without_taps_the_outputs_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_models.marian()
    tapped = capture((model, TOKENIZER), PAIRS, batch_size=3)
    monkeypatch.setattr(taps, "_matched", lambda *_: ())
    whole = capture((model, TOKENIZER), PAIRS, batch_size=3)
    assert tapped.coverage.streamed
    assert not whole.coverage.streamed
    pd.testing.assert_frame_equal(tapped.statistics.heads(), whole.statistics.heads(), rtol=1e-12)


@pytest.mark.parametrize("name", ["llama", "marian"])
def test_a_model_in_float64_has_the_statistics_of_one_in_float32(name: str) -> None:
    """Also where it takes the softmax in float32, as Llama does."""
    wide, narrow = (
        capture((seeded(ALL[name]).to(dtype), TOKENIZER), texts(name), batch_size=3)
        for dtype in (torch.float64, torch.float32)
    )
    pd.testing.assert_frame_equal(
        wide.statistics.heads(), narrow.statistics.heads(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda w: w * 1.01, "decoder layer 3: a row's sum is 0.01 away from 1"),
        (lambda w: w.flip(-1), "above the diagonal"),
        (lambda w: w * torch.nan, "decoder layer 3: some are NaN, so these"),
    ],
)
def test_weights_that_are_none_are_refused(damage, message: str) -> None:
    good = layer([stochastic(2, 5, 5, causal=True)], [["word"] * 5], site="decoder", number=3)
    checked(good)
    bad = layer(
        [damage(stochastic(2, 5, 5, causal=True))], [["word"] * 5], site="decoder", number=3
    )
    with pytest.raises(AttnlabError, match=message):
        checked(bad)


def test_mass_on_padding_is_refused_though_rows_sum_to_1() -> None:
    """A mask that is turned round passes a check of row sums."""
    good = layer([stochastic(2, 5, 5), stochastic(2, 3, 3)], [["word"] * 5, ["word"] * 3])
    wrong = good.weights.clone()
    wrong[1, :, :3] = wrong[1, :, :3].flip(-1)
    bad = layer([wrong[0], wrong[1]], [["word"] * 5] * 2)
    with pytest.raises(AttnlabError, match=r"encoder layer 0: mass .* stands on padding"):
        checked(type(good)(**{**vars(bad), "queries": good.queries, "keys": good.keys}))


def test_padding_rows_are_cleared_whatever_stood_there() -> None:
    mixed = layer([stochastic(2, 5, 5), stochastic(2, 3, 3)], [["word"] * 5, ["word"] * 3])
    mixed.weights[1, :, 3:] = 0.2
    assert not checked(mixed).weights[1, :, 3:].any()


def test_dropout_that_is_active_is_named_with_its_layer() -> None:
    model = random_models.bert()

    def leave_on(module, _, output):
        return (output[0], torch.nn.functional.dropout(output[1], 0.3, training=True))

    model.encoder.layer[1].attention.self.register_forward_hook(leave_on)
    with torch.random.fork_rng(), pytest.raises(AttnlabError, match="encoder layer 1: a row's sum"):
        capture((model, TOKENIZER), SENTENCES)


@pytest.mark.parametrize("role", ["bos", "eos", "sep", "cls", "mask"])
def test_a_mark_that_stands_for_unknown_words_too_is_special(role: str) -> None:
    mine = tokenizer()
    assert mine.unk_token_id not in Vocabulary(mine).special
    setattr(mine, f"{role}_token", mine.unk_token)
    assert mine.unk_token_id in Vocabulary(mine).special


def test_unknown_words_are_content_where_texts_are_padded_with_their_token() -> None:
    """Padding is no part of a text: in a text the token stands for words alone."""
    mine = tokenizer()
    mine.pad_token = mine.unk_token
    assert mine.unk_token_id not in Vocabulary(mine).special
    assert Vocabulary(mine).unknown == mine.unk_token_id


def test_unknown_words_are_content_and_special_tokens_are_not() -> None:
    found = capture((random_models.bert(), TOKENIZER), ["a zebra runs ."])
    assert found.statistics.heads()["rows"].tolist() == [4] * 6


def test_sentences_that_do_not_fit_are_counted() -> None:
    found = capture((random_models.bert(), TOKENIZER), ["a dog", "cat " * 40, " ", "red"])
    assert found.coverage.sentences == 2
    assert [(one.count, one.most_tokens) for one in found.coverage.dropped] == [(1, None), (1, 37)]


def test_batches_put_like_lengths_together_and_heed_the_limit_of_weights() -> None:
    from attnlab.reading.sentences import Sentence, batches

    sentences = [Sentence(n, tuple(range(length))) for n, length in enumerate([3, 9, 4, 9, 2])]
    made = [[s.number for s in b] for b in batches(sentences, size=2, weights_a_cell=1)]
    assert made == [[1, 3], [2, 0], [4]]
    small = list(batches(sentences, size=9, weights_a_cell=3, most_weights=2 * 3 * 81))
    assert [len(batch) for batch in small] == [2, 3]


@pytest.mark.parametrize("name", ["bert", "marian"])
def test_sites_that_are_not_there_are_refused(name: str) -> None:
    with pytest.raises(
        InputError, match=r"Site 'cross' cannot be analyzed, .*choose from: encoder"
    ):
        capture((ALL[name](), TOKENIZER), SENTENCES, sites=["cross"])
    with pytest.raises(InputError, match="sites is empty; give any of encoder"):
        capture((ALL[name](), TOKENIZER), SENTENCES, sites=[])


def test_source_sentences_alone_give_the_encoder_alone() -> None:
    found = capture((random_models.marian(), TOKENIZER), SENTENCES)
    assert found.coverage.layers == {"encoder": 2}
    assert found.notes == (found + found).notes == (NoTranslations(),)
    assert "have no translations" in found._repr_html_()


@pytest.mark.parametrize("sites", ["cross", ["cross"]])
def test_one_site_of_several(sites: str | list[str]) -> None:
    found = capture((random_models.marian(), TOKENIZER), PAIRS, sites=sites)
    assert set(found.statistics.heads()["site"]) == {"cross"}
    assert not found.notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": "4"}, "batch size must be a whole number, not '4'"),
        ({"batch_size": 0}, "batch size must be at least 1, not 0"),
        ({"keep_matrices": 1.5}, "keep matrices must be a whole number, not 1.5"),
        ({"keep_bytes": -1}, "keep bytes must be at least 0, not -1"),
        ({"seed": None}, "seed must be a whole number, not None"),
        ({"memory": 0}, "memory must be a number above 0, not 0"),
        ({"share": (2, 2)}, "index of share must be at least 0 and below 2, not 2"),
        ({"share": (0, 0)}, "count of share must be at least 1, not 0"),
        ({"share": "half"}, "share must be 2 values, not 'half'"),
        ({"sites": 5}, "sites must be a list, each of it a text, not 5"),
    ],
)
def test_values_of_another_kind_or_out_of_range_are_refused(
    options: dict[str, object], message: str
) -> None:
    # As a user calls it, whose arguments no test's checks of types see first.
    with pytest.raises(InputError, match=re.escape(message)):
        unwrap(capture)((random_models.bert(), TOKENIZER), SENTENCES, **options)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("name", TWO_STACKS)
def test_an_encoder_that_nobody_asks_for_computes_no_weights(
    name: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the weights behind it are the same."""
    model = ALL[name]()
    if not streamed:
        monkeypatch.setattr(taps, "_matched", lambda shown, seen: ())
    asked: list[bool] = []
    whole = capture((model, TOKENIZER), PAIRS, batch_size=3, keep_matrices=99).kept.matrices
    reading = prepare((model, TOKENIZER), PAIRS, ["cross"])
    model.get_encoder().register_forward_pre_hook(
        lambda module, args, given: asked.append(bool(given.get("output_attentions"))),
        with_kwargs=True,
    )
    keeper = MatrixKeeper(99, 2**20, torch.float32)
    reading.feed([keeper], batch_size=3)
    assert asked == [False] * 3
    kept = keeper.kept().matrices
    assert {address[1] for address in kept} == {"cross"}
    assert len(kept) == sum(address[1] == "cross" for address in whole)
    for address, weights in kept.items():
        assert torch.equal(weights, whole[address])


def test_unusable_sentences_are_refused() -> None:
    model = random_models.bert()
    with pytest.raises(InputError, match="no sentences"):
        capture((model, TOKENIZER), [])
    with pytest.raises(InputError, match="None of the 1 sentences"):
        capture((model, TOKENIZER), [""])
    with pytest.raises(InputError, match="one kind at a time"):
        capture((model, TOKENIZER), ["a dog", ("a dog", "il cane")])


def test_a_single_text_is_a_text() -> None:
    kept = [
        capture((random_models.bert(), TOKENIZER), given, keep_matrices=9).kept
        for given in (SENTENCES[0], SENTENCES[:1])
    ]
    assert kept[0].tokens == kept[1].tokens
    assert {number for number, *_ in kept[0].matrices} == {0}


@pytest.mark.parametrize("name", ALL)
def test_no_second_text_is_dropped(name: str) -> None:
    if name in TWO_STACKS:
        assert (
            "cross"
            in capture((ALL[name](), TOKENIZER), PAIRS[:1]).statistics.heads()["site"].values
        )
        return
    with pytest.raises(InputError, match="has no form for pairs of sentences"):
        capture((ALL[name](), TOKENIZER), PAIRS[:2])


def test_capture_without_texts_says_what_to_type() -> None:
    with pytest.raises(
        InputError, match=r"write capture\(source, \['A text.'\]\), or attnlab.analyze"
    ):
        capture((random_models.bert(), TOKENIZER))


def test_a_model_without_attention_is_refused() -> None:
    model = random_models.bert()
    for block in model.encoder.layer:
        block.attention.self.register_forward_hook(lambda m, i, out: (out[0], None))
    with pytest.raises(InputError, match="does not return attention weights"):
        capture((model, TOKENIZER), SENTENCES)


def test_progress_reaches_the_end() -> None:
    told = []
    capture((random_models.bert(), TOKENIZER), SENTENCES, batch_size=3,
            progress=lambda done, total: told.append((done, total)))  # fmt: skip
    assert told == [(3, 7), (6, 7), (7, 7)]


def test_kept_matrices_stay_under_the_limit_and_come_back_from_their_file(tmp_path: Path) -> None:
    model = random_models.bert()
    whole = capture((model, TOKENIZER), SENTENCES, keep_matrices=3).kept
    sizes = [sum(m.nbytes for k, m in whole.matrices.items() if k[0] == n) for n in range(3)]
    few = capture(
        (model, TOKENIZER), SENTENCES, keep_matrices=3, keep_bytes=sizes[0] + sizes[1]
    ).kept
    assert {key[0] for key in few.matrices} == {0, 1}
    assert few.left_out == {2}
    exact = whole.matrices[0, "encoder", 1]
    alone = {"layers": [1], "keep_matrices": 1, "keep_bytes": exact.nbytes}
    kept = capture((model, TOKENIZER), SENTENCES, **alone).kept.matrices
    assert kept[0, "encoder", 1].dtype == torch.float32, "all of the limit is used"
    # Other layers and sentences in a batch are summed in another order.
    torch.testing.assert_close(kept[0, "encoder", 1], exact, atol=3e-6, rtol=0)
    half = capture((model, TOKENIZER), SENTENCES, keep_matrices=2, keep_dtype=torch.float16).kept
    assert half.matrices[0, "encoder", 1].dtype == torch.float16

    whole.write(tmp_path / "matrices.safetensors")
    back = load_kept_matrices(tmp_path / "matrices.safetensors")
    assert list(back.matrices) == list(whole.matrices)
    assert back.tokens == whole.tokens
    assert back.tokens[1, "encoder"][0] == ["<s>", "a", "dog", "runs", ".", "</s>"]
    for key, matrix in whole.matrices.items():
        torch.testing.assert_close(back.matrices[key], matrix, atol=0, rtol=0)


def test_other_files_and_types_are_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="no matrices written by attnlab"):
        load_kept_matrices(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="float32 or float16"):
        capture((random_models.bert(), TOKENIZER), SENTENCES, keep_dtype=torch.int8)
