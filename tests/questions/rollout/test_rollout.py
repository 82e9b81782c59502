"""Attention rollout of texts in models, against loops over the attentions that the models return."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from oracles import rollout as oracle
from zoo import random_models
from zoo.analyzed import ANALYZED, LEFT

import attnlab
from attnlab.attention.bridge import watching
from attnlab.core.errors import InputError
from attnlab.evaluation import UnreadableTranslations
from attnlab.models.run import Run
from attnlab.questions.rollout.question import ROLLOUT, OtherLayers
from attnlab.reading.sentences import Sentences

TEXT, TRANSLATION = "the old cat sees the red bird .", "il gatto vede a red bird"
TOKENIZER = random_models.tokenizer()


def attentions(model: Any, text: str, translation: str | None = None) -> Any:
    """What an eager model returns."""
    plain = type(model)._from_config(model.config, attn_implementation="eager")
    plain.load_state_dict(model.state_dict())
    given = dict(TOKENIZER(text, return_tensors="pt", return_token_type_ids=False))
    if translation is not None:
        labels = TOKENIZER(text_target=translation)["input_ids"]
        ids = [model.config.decoder_start_token_id, *labels[:-1]]
        given |= {"decoder_input_ids": torch.tensor([ids]), "use_cache": False}
    stack = plain
    if model.config.is_encoder_decoder and translation is None:
        stack = plain.get_encoder()
    with torch.no_grad():
        return stack.eval()(**given, output_attentions=True)


def loops(layers: Any) -> torch.Tensor:
    found = oracle.rollout([layer[0].double().tolist() for layer in layers])
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2", "llama", "marian", "t5"])
def test_a_text_equals_the_loops(name: str) -> None:
    model = random_models.ALL[name]().eval()
    found = attnlab.rollout((model, TOKENIZER), TEXT)
    expected = loops(attentions(model, TEXT).attentions)
    torch.testing.assert_close(found.shares[-1], expected, rtol=1e-4, atol=1e-5)
    assert set(found.rollout["key_side"]) == {"source"}
    assert found.notes == ()


@pytest.mark.parametrize("name", ["marian", "bart", "t5"])
def test_a_translation_equals_the_loops(name: str) -> None:
    model = random_models.TWO_STACKS[name]().eval()
    found = attnlab.rollout((model, TOKENIZER), TEXT, TRANSLATION)
    seen = attentions(model, TEXT, TRANSLATION)
    means = [
        [layer[0].double().mean(0).tolist() for layer in site]
        for site in (seen.decoder_attentions, seen.cross_attentions)
    ]
    encoder = loops(seen.encoder_attentions).tolist()
    queries, keys = found.shares.shape[1:]
    assert keys == len(encoder) + queries
    for query in (0, queries - 1):
        expected = [oracle.share(query, key, *means, encoder) for key in range(keys)]
        torch.testing.assert_close(
            found.shares[-1, query], torch.tensor(expected).double(), rtol=1e-4, atol=1e-5
        )


def test_the_table_has_the_largest_shares_of_each_position() -> None:
    model = random_models.marian().eval()
    found = attnlab.rollout((model, TOKENIZER), TEXT, TRANSLATION, top=3)
    assert list(found.rollout) == list(ROLLOUT)
    assert found.rollout.groupby("query").size().max() == 3
    tokens = {"source": ["<s>", *TEXT.split(), "</s>"]}
    tokens["target"] = [TOKENIZER.convert_ids_to_tokens(0), "<s>", *TRANSLATION.split()]
    before = {"source": 0, "target": len(tokens["source"])}
    for query, rows in found.rollout.groupby("query"):
        assert set(rows["query_token"]) == {tokens["target"][query]}
        assert all(one >= other for one, other in pairwise(rows["share"]))
        left = found.shares[-1, query].clone()
        for row in rows.itertuples():
            assert row.key_token == tokens[row.key_side][row.key]
            key = before[row.key_side] + row.key
            assert row.share == float(left[key]) == float(left.max())
            left[key] = 0


def test_shares_that_are_0_are_in_no_row() -> None:
    found = attnlab.rollout((random_models.gpt2().eval(), TOKENIZER), TEXT, top=99)
    assert (found.rollout["key"] <= found.rollout["query"]).all()
    assert len(found.rollout) == 10 * 11 // 2


def test_rows_taken_in_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = random_models.marian().eval(), TOKENIZER
    whole = attnlab.rollout(pair, TEXT, TRANSLATION)
    monkeypatch.setattr(Sentences, "is_long", lambda *_: True)
    monkeypatch.setattr(watching, "BLOCK_WEIGHTS", 100)
    found = attnlab.rollout(pair, TEXT, TRANSLATION).shares
    torch.testing.assert_close(found, whole.shares, rtol=1e-5, atol=1e-6)


def test_what_a_sink_takes_is_shared_out() -> None:
    found = attnlab.rollout((ANALYZED["gpt_oss"]().eval(), TOKENIZER), TEXT)
    torch.testing.assert_close(found.shares.sum(-1), torch.ones(2, 10, dtype=torch.float64))


def test_layers_without_attention_are_named() -> None:
    config = hf.Lfm2Config(**LEFT, layer_types=["conv", "full_attention"])
    found = attnlab.rollout((hf.Lfm2ForCausalLM(config).eval(), TOKENIZER), TEXT)
    assert found.notes == (OtherLayers(1, 2),)
    assert len(found.shares) == 1


def test_a_run_that_cannot_translate_yet_is_named(small_run: Path) -> None:
    """With the answer below the table of the terminal."""
    found = attnlab.rollout(small_run, "The old cat sleeps.")
    (note,) = found.notes
    assert isinstance(note, UnreadableTranslations)
    assert note.bleu < note.least
    assert "--resume --epochs N" in str(found.notes[0])
    (table,) = found.terminal()
    assert table.legend is None
    (both,) = attnlab.rollout(small_run, "The old cat sleeps.", "Il gatto dorme.", top=3).terminal()
    assert "3 largest shares of a position, of both sides together" in str(both.legend)
    assert "has the largest mean share over all positions" in table.answers[0]


def test_a_run_has_the_bleu_of_the_weights_that_were_kept(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below a BLEU that can be read the checkpoint of the least loss is kept."""
    evaluations = [
        {"validation_bleu": b, "validation_loss": loss} for b, loss in ((1.7, 7.1), (0.2, 6.5))
    ]
    monkeypatch.setattr(Run, "metrics", lambda _: [{"loss": 1.0}, *evaluations])
    (note,) = attnlab.rollout(small_run, "The old cat sleeps.").notes
    assert note.bleu == 0.2


def test_texts_that_are_too_long_for_a_figure_have_none(language_run: Path) -> None:
    found = attnlab.rollout(language_run, "the old cat " * 28)
    assert not found.figures
    assert len(found.shares) == 2


def test_what_cannot_be_read_is_refused(recurrent_run: Path) -> None:
    pair = random_models.bert().eval(), TOKENIZER
    with pytest.raises(InputError, match="The translation is empty; give a text"):
        attnlab.rollout(pair, "a cat", " ")
    with pytest.raises(InputError, match="longer than 37 tokens"):
        attnlab.rollout(pair, "a cat " * 20)
    with pytest.raises(InputError, match="reads one text and no translation; leave"):
        attnlab.rollout(pair, "a cat", "il gatto")
    with pytest.raises(InputError, match="has no self-attention to roll out"):
        attnlab.rollout(recurrent_run, "a cat", "il gatto")
