"""Pairs of sentences that a model of one stack reads as one text, with token types where it has them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import transformers as hf
from tokenizers import processors
from zoo import random_models
from zoo.random_models import IDS, TYPES, seeded, tokenizer

import attnlab
from attnlab.cli.command_options import typed as typed_settings
from attnlab.core.errors import InputError
from attnlab.models.loaded import Model
from attnlab.questions.inspect.question import InspectionSettings
from attnlab.reading.capture import capture
from attnlab.reading.text_tokens import tokenize

PAIRS = [
    ("the old cat sees the red bird .", "a dog runs ."),
    ("a dog", "the bird never sees a dog"),
    ("the cat runs .", "the old cat"),
]
FORMS = {"bert": "<s> $A </s> $B:1 </s>:1", "roberta": "<s> $A </s> </s> $B </s>"}


def pair_tokenizer(form: str) -> Any:
    """The tokenizer of the zoo, with marks around and between two texts."""
    made = tokenizer()
    marks = [(mark, made.convert_tokens_to_ids(mark)) for mark in ("<s>", "</s>")]
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair=form, special_tokens=marks
    )
    if ":1" in form:
        made.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return made


def roberta() -> Any:
    config = hf.RobertaConfig(
        vocab_size=TYPES, hidden_size=15, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=11, max_position_embeddings=37, type_vocab_size=1, **IDS,
    )  # fmt: skip
    return hf.RobertaModel(config)


MODELS: dict[str, Callable[[], Any]] = {"bert": random_models.bert, "roberta": roberta}


def pair_reader(name: str) -> tuple[Any, Any]:
    return seeded(MODELS[name]).eval(), pair_tokenizer(FORMS[name])


@pytest.mark.parametrize("name", MODELS)
def test_pairs_are_read_as_the_tokenizer_writes_them(name: str) -> None:
    model, reader = pair_reader(name)
    plain = type(model)(model.config).eval()
    plain.load_state_dict(model.state_dict())
    plain.config._attn_implementation = "eager"
    kept = capture((model, reader), PAIRS, keep_matrices=3).kept
    for number, (first, second) in enumerate(PAIRS):
        given = reader(first, second, return_tensors="pt")
        assert ("token_type_ids" in given) == (name == "bert")
        with torch.no_grad():
            found = plain(**given, output_attentions=True).attentions
        tokens = reader.convert_ids_to_tokens(given["input_ids"][0])
        assert kept.tokens[number, "encoder"] == (tokens, tokens)
        for layer, expected in enumerate(found):
            torch.testing.assert_close(
                kept.matrices[number, "encoder", layer], expected[0], atol=3e-6, rtol=1e-4
            )
        shown = attnlab.show((model, reader), (first, second)).page
        assert f'<p dir="auto">{first}</p>' in shown
        assert f'<p dir="auto">{second}</p>' in shown


@pytest.mark.parametrize("name", MODELS)
def test_tokens_of_a_pair_stand_in_both_texts(name: str) -> None:
    _, reader = model = pair_reader(name)
    (read,) = tokenize(Model(*model), PAIRS[:1])
    whole = " ".join(PAIRS[0])
    tokens, spans = read.source, read.source.spans
    assert spans is not None
    for token, special, (start, end) in zip(
        reader.convert_ids_to_tokens(tokens.ids), tokens.special, spans, strict=True
    ):
        assert special or whole[start:end] == token
    assert tokens.second is not None
    assert spans[tokens.second][0] == len(PAIRS[0][0]) + 1


def test_analyses_of_pairs_and_of_a_file_with_tabs_are_of_both_sentences(tmp_path: Path) -> None:
    model = pair_reader("bert")
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), "utf-8")
    given = attnlab.analyze(model, sentences=PAIRS, quick=True, labels=True)
    read = attnlab.analyze(model, text=path, quick=True, labels=True)
    expected = capture(model, PAIRS).statistics.heads()
    for result in (given, read):
        pd.testing.assert_frame_equal(result.heads[list(expected)], expected, check_dtype=False)
    shuffled = attnlab.analyze(model, sentences=PAIRS, ablation=False)
    assert not shuffled.controls.empty


def test_inspection_reads_a_pair_as_one_text_in_both_forms() -> None:
    model, reader = pair_reader("bert")
    found = attnlab.inspect((model, reader), ("the old cat", "the dog"))
    given = reader("the old cat", "the dog", return_tensors="pt")
    assert found.tokens["id"].tolist() == given["input_ids"][0].tolist()
    assert found.tokens["token_type"].tolist() == given["token_type_ids"][0].tolist()
    with torch.no_grad():
        expected = model(**given, output_hidden_states=True).hidden_states
    torch.testing.assert_close(found.vectors[0], torch.cat(expected), atol=1e-5, rtol=1e-4)
    assert set(found.moves["word"]) == {"the"}
    statistics = capture((model, reader), [("the old cat", "the dog")], distances=True).statistics
    pd.testing.assert_frame_equal(found.heads, statistics.heads())
    typed = typed_settings(InspectionSettings, {"sentence": "the old cat\tthe dog"})
    assert typed == {"sentence": ("the old cat", "the dog")}


def test_an_encoder_of_two_stacks_is_inspected_on_single_texts_alone() -> None:
    with pytest.raises(InputError, match="reads one text at a time; give single sentences"):
        attnlab.inspect((random_models.marian(), tokenizer()), ("a", "a"))


def test_pairs_are_refused_where_the_tokenizer_puts_nothing_between_them(tmp_path: Path) -> None:
    model = seeded(random_models.gpt2), tokenizer()
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), "utf-8")
    for ask in (
        lambda: capture(model, PAIRS),
        lambda: attnlab.show(model, PAIRS[0]),
        lambda: attnlab.inspect(model, PAIRS[0]),
        lambda: attnlab.analyze(model, text=path),
    ):
        with pytest.raises(InputError, match="tokenizer of GPT2LMHeadModel has no form for pairs"):
            ask()
