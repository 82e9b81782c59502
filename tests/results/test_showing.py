"""The page of one sentence: the weights that capture gives, whatever the model, and what is refused."""

import base64
import html
import json
import re
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from oracles.page_weights import decoded
from reading.test_audio import noise, whisper
from torch import Tensor
from zoo import random_models
from zoo.analyzed import ANALYZED
from zoo.random_models import PAIRS, SENTENCES, seeded, tokenizer

import attnlab
from attnlab.core.errors import InputError
from attnlab.figures import plain
from attnlab.reading.capture import capture
from attnlab.results.showing import HeadViewer

MODELS = ("bert", "gpt2", "llama", "marian", "t5")
_STORED = re.compile(
    r'<script type="text/plain" id="weights\.0\.([^"]+)" data-shape="([^"]+)" data-scale="([^"]+)">([^<]*)<'
)


def matrices_on(page: str) -> dict[str, Tensor]:
    """By layer the weights that a browser reads in the page."""
    return {
        layer: decoded(text, tuple(map(int, shape.split())), float(scale))
        for layer, shape, scale, text in _STORED.findall(page)
    }


def vectors_on(page: str, side: str) -> dict[str, Tensor]:
    """By layer the queries or keys [head, token, dim] that a browser reads in the page."""
    stored = rf'id="{side}\.0\.([^"]+)" data-shape="([^"]+)" data-scales="([^"]+)">([^<]*)<'
    found = {}
    for layer, shape, scales, text in re.findall(stored, page):
        levels = bytearray(zlib.decompress(base64.b64decode(text)))
        entries = torch.frombuffer(levels, dtype=torch.int8).view(*map(int, shape.split()))
        found[layer] = entries * torch.tensor([*map(float, scales.split())])[:, None, None]
    return found


def facts_on(viewer: HeadViewer) -> dict[str, Any]:
    stored = re.search(r'id="attnlab-data">([^<]*)<', viewer.page)
    assert stored is not None
    return json.loads(stored[1])


def check_equals_capture(viewer: HeadViewer, model: Any, text: Any) -> None:
    kept = capture(model, [text], keep_matrices=1).kept
    shown = matrices_on(viewer.page)
    assert list(shown) == [f"{site}.{layer}" for _, site, layer in kept.matrices]
    for (_, site, layer), matrix in kept.matrices.items():
        found = shown[f"{site}.{layer}"]
        torch.testing.assert_close(found.sqrt(), matrix.double().sqrt(), atol=1 / 500, rtol=0)
    sites = facts_on(viewer)["sentences"][0]["sites"]
    assert {site: (side["queries"], side["keys"]) for site, side in sites.items()} == {
        site: tuple([*map(plain, side)] for side in tokens)
        for (_, site), tokens in kept.tokens.items()
    }


@pytest.fixture(scope="module")
def model() -> Any:
    return random_models.ALL["bert"]().eval(), tokenizer()


@pytest.mark.parametrize("name", MODELS)
def test_the_page_has_the_weights_and_tokens_that_capture_gives(
    name: str, untouched_randomness: None
) -> None:
    model = random_models.ALL[name]().eval(), tokenizer()
    text = PAIRS[0] if model[0].config.is_encoder_decoder else SENTENCES[0]
    before = model[0].config._attn_implementation
    check_equals_capture(attnlab.show(model, text), model, text)
    assert model[0].config._attn_implementation == before


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "marian"])
def test_products_of_the_queries_and_keys_on_the_page_give_its_weights(name: str) -> None:
    model = seeded(random_models.ALL[name]).eval(), tokenizer()
    text = PAIRS[0] if model[0].config.is_encoder_decoder else SENTENCES[0]
    page = attnlab.show(model, text).page
    weights, queries, keys = (
        matrices_on(page),
        vectors_on(page, "queries"),
        vectors_on(page, "keys"),
    )
    assert queries.keys() == keys.keys() == weights.keys()
    for layer, matrix in weights.items():
        scores = queries[layer] @ keys[layer].mT / queries[layer].shape[-1] ** 0.5
        if layer.startswith("decoder"):
            ahead = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(ahead, -torch.inf)
        torch.testing.assert_close(scores.softmax(-1).double(), matrix, atol=0.05, rtol=0)


def test_a_page_without_queries_and_keys_says_why(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    falcon = seeded(ANALYZED["falcon"]).eval(), tokenizer()
    page = attnlab.show(falcon, SENTENCES[0]).page
    assert "The queries and keys of this model cannot be read, so their products are" in page
    monkeypatch.setattr("attnlab.results.showing._MOST_VECTOR_BYTES", 100)
    page = attnlab.show(model, SENTENCES[0]).page
    assert "Queries and keys are left out, since they take more than 0.0001 MB" in page
    assert not vectors_on(page, "keys")


def test_a_run_reads_its_own_greedy_translation_where_none_is_given(small_run: Path) -> None:
    run, sentence = attnlab.load(small_run), "Maria sees the dog."
    shown = attnlab.show(run, sentence)
    assert {"encoder", "decoder", "cross"} == set(facts_on(shown)["sentences"][0]["sites"])
    found = re.findall(r'<p dir="auto">(.*)</p>', shown.page.partition("<main>")[0])
    _, written = map(html.unescape, found)
    # A model that was hardly trained never ends, and is stopped where it has the length for a picture.
    assert written
    assert run.translate(sentence, beams=1)[0].startswith(written)
    given = attnlab.show(run, (sentence, "Maria dorme."))
    check_equals_capture(given, run, (sentence, "Maria dorme."))
    assert vectors_on(given.page, "queries").keys() == matrices_on(given.page).keys()


def test_audio_is_shown_with_its_transcript() -> None:
    model, given = whisper(), (noise(60), "a dog")
    shown = attnlab.show(model, given)
    assert set(facts_on(shown)["sentences"][0]["sites"]) == {"decoder", "cross"}
    check_equals_capture(shown, model, given)


def test_a_recurrent_run_has_weights_and_no_queries_of_their_own(recurrent_run: Path) -> None:
    page = attnlab.show(recurrent_run, ("Maria sleeps.", "Maria dorme.")).page
    assert list(matrices_on(page)) == ["cross.0"]
    assert "The queries and keys of this model cannot be read" in page


def test_a_model_on_a_device_is_shown_as_on_the_processor(gpu: str) -> None:
    model = seeded(random_models.ALL["marian"]).eval()
    there, here = (
        attnlab.show((model.to(name), tokenizer()), PAIRS[0]).page for name in (gpu, "cpu")
    )
    for read in (
        matrices_on,
        partial(vectors_on, side="queries"),
        partial(vectors_on, side="keys"),
    ):
        found, expected = read(there), read(here)
        assert found.keys() == expected.keys()
        for layer, values in expected.items():
            torch.testing.assert_close(found[layer], values, atol=0.05, rtol=0)


def test_a_long_text_is_read_layer_by_layer_and_gives_the_same_page(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = attnlab.show(model, SENTENCES[0])
    monkeypatch.setattr("attnlab.reading.passes._MOST_AT_ONCE", 4)
    assert attnlab.show(model, SENTENCES[0]).page == short.page


def test_the_page_says_what_it_leaves_out(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 2
    tokens, heads = 10, sum(map(len, matrices_on(attnlab.show(model, SENTENCES[0]).page).values()))
    monkeypatch.setattr("attnlab.results.showing._MOST_BYTES", 2 * rows * tokens * heads)
    page = attnlab.show(model, SENTENCES[0]).page
    assert {matrix.shape[1] for matrix in matrices_on(page).values()} == {rows}
    assert f"the rows of the first {rows} of {tokens} queries are shown, with all keys" in page


def test_a_page_is_written_and_shown_in_a_frame(model: Any, tmp_path: Path) -> None:
    viewer = attnlab.show(model, SENTENCES[0], head="encoder.1.0")
    viewer.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == viewer.page
    assert 'data-start="#head=encoder.1.0&amp;sentence=0"' in viewer.page
    assert viewer.page in html.unescape(viewer._repr_html_())


def test_weights_that_a_model_returned_are_shown_with_their_tokens(
    model: Any, as_users_call_it: None
) -> None:
    loaded, words = model
    ids = words(SENTENCES[0], return_tensors="pt")
    loaded.set_attn_implementation("eager")
    given = loaded(**ids, output_attentions=True).attentions
    tokens = words.convert_ids_to_tokens(ids["input_ids"][0])
    page = attnlab.show(given, tokens, head="1.0").page
    assert [*matrices_on(page)] == [f"unknown.{layer}" for layer in range(len(given))]
    for layer, matrix in enumerate(given):
        found = matrices_on(page)[f"unknown.{layer}"]
        torch.testing.assert_close(found.sqrt(), matrix[0].double().sqrt(), atol=1 / 500, rtol=0)
    assert "#head=unknown.1.0" in page
    returned = loaded(**ids, output_attentions=True)
    assert matrices_on(attnlab.show(returned, tokens).page).keys() == matrices_on(page).keys()
    for bad, message in (
        (
            (given, "the cat"),
            r"with their tokens, a list: attnlab.show\(output.attentions, tokenizer",
        ),
        ((given, ("the cat", "the cat")), "with their tokens, a list"),
        (
            ([one.expand(2, -1, -1, -1) for one in given], tokens),
            "are of 2 texts; give those of one",
        ),
        ((given, tokens[1:]), "0.unknown.0 is .*, not heads times"),
    ):
        with pytest.raises(InputError, match=message):
            attnlab.show(*bad)


def test_a_capture_is_shown(model: Any) -> None:
    found = capture(model, SENTENCES[:2], keep_matrices=2)
    assert "unknown" not in attnlab.show(found, sentence=1, head="1.0").page
    for given, message in (
        (capture(model, SENTENCES[0]), "capture with a larger keep_matrices"),
        (capture(model, SENTENCES[0], heads=[1], keep_matrices=1), "shows all heads and rows"),
    ):
        with pytest.raises(InputError, match=message):
            attnlab.show(given)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (attnlab.show, "A model needs a text, as in attnlab.show"),
        (lambda model: attnlab.show(model, " "), "The text is empty; give a sentence."),
        (lambda model: attnlab.show(*model, "a"), "is a model without its tokenizer; hand in both"),
        (lambda model: attnlab.show(model, 5), "Sentence 1 is 5, and sentences are texts or pairs"),
        (lambda model: attnlab.show(model, ["a", "a"]), "make a pair a tuple"),
        (lambda model: attnlab.show(model, "a", head="encoder.9.9"), "no head encoder.9.9; choose"),
        (lambda model: attnlab.show(model, "a", head=1.1), "Write the head as a text, '1.1'"),
        (
            lambda model: attnlab.show(model, "a").write("heads.png"),
            "heads.png does not end in .html",
        ),
        (lambda model: attnlab.show(model, "a", sentence=1), "takes no number of a sentence"),
        (
            lambda model: attnlab.show(attnlab.rollout(model, sentence="a")),
            "A result of rollout keeps no matrices; show one of analyze",
        ),
        (
            lambda model: attnlab.show(attnlab.rollout(model, sentence="a"), "a"),
            "A result shows the sentences that it kept; leave text out",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(
    ask: Callable[[Any], object], message: str, model: Any, as_users_call_it: None
) -> None:
    with pytest.raises(InputError, match=message):
        ask(model)


def test_names_and_arguments_of_other_libraries_are_answered_with_ours(
    model: Any, as_users_call_it: None
) -> None:
    found = capture(model, SENTENCES[0], keep_matrices=1)
    for ask, message in (
        (lambda: attnlab.head_view, "no attribute 'head_view'; see attnlab.show"),
        (lambda: attnlab.HookedTransformer, "; see attnlab.load"),
        (lambda: attnlab.mechanisms, "; see attnlab.attention"),
        (lambda: attnlab.report, "; what a question returns has its own report"),
        (
            lambda: attnlab.plot.ofsets,
            r"\(did you mean 'offsets'\?\); it has: COLUMN, PAGE, comparison",
        ),
        (lambda: attnlab.show(model, "a").save, r"no 'save'; write\(path\) writes it"),
        (lambda: found.patterns, "no 'patterns'; its table .* attnlab.show\\(capture\\)"),
        (
            lambda: attnlab.rollout(model, sentence="a").df,
            r"no 'df'; its tables are: .*; save\(folder\)",
        ),
    ):
        with pytest.raises(AttributeError, match=message):
            ask()
    for call, message in (
        (
            lambda: attnlab.show(model, "a", layer=1),
            "'layer'; its arguments are: source, text, other, head",
        ),
        (
            lambda: attnlab.score(model, sentences=9),
            "'sentences'; its .* source, split, beams, dev",
        ),
        (
            lambda: attnlab.train("run", epochs=1),
            r"'epochs'; its arguments are: folder, settings=RunSettings\(...\), overwrite",
        ),
        (lambda: attnlab.inspect(model), "missing a required argument: 'sentence'"),
        (
            lambda: attnlab.load("run", overwrite=True),
            "'overwrite'; its arguments are: source, tok",
        ),
        (lambda: capture(*model, "a"), "too many positional .* are: source, sentences, sites"),
        (lambda: attnlab.analyze(model, layers=[1]), r"attnlab.capture\(..., layers=\[...\]\)"),
        (
            lambda: attnlab.attention.make("band", window=3),
            "settings stand in the text, as in make",
        ),
        (lambda: attnlab.analyze(*model), r"\(model, tokenizer\), a pair"),
        (lambda: attnlab.analyze(model, "a b"), r"write sentences=\[...\] for 'a b'"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    assert attnlab.load(*model).model is model[0]
    assert attnlab.claim(model, "0.1: first", sentences=SENTENCES).table["head"].tolist() == [1]
    assert attnlab.plot.head(found, "1.0").axes
