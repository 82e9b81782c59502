"""Models of which is known what `across` must find are what they are said to be."""

from pathlib import Path

import torch
from transformers import BertConfig, BertForTokenClassification

from attnlab.labels import GoldSentence
from attnlab.labels.treebank import Span
from experiments.across_controls import models


def small_tagger() -> BertForTokenClassification:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=20, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=8, id2label={0: "NOUN", 1: "VERB"}, label2id={"NOUN": 0, "VERB": 1},
            attn_implementation="eager",
        )  # fmt: skip
        return BertForTokenClassification(config).double().eval()


def test_turned_heads_attend_as_others_did_and_no_output_changes() -> None:
    model, tokens = small_tagger(), torch.tensor([[2, 7, 9, 3]])
    before = model(tokens, output_attentions=True)
    models.turn_heads(model)
    after = model(tokens, output_attentions=True)
    torch.testing.assert_close(after.logits, before.logits, rtol=0, atol=1e-12)
    for turned, own in zip(after.attentions, before.attentions, strict=True):
        torch.testing.assert_close(turned, own.roll(-1, 1), rtol=0, atol=1e-12)
        assert not torch.allclose(turned, own)


def test_tags_stand_at_the_first_piece_of_a_word() -> None:
    spans = (Span(0, 4), Span(5, 9), Span(10, 11))
    sentence = GoldSentence("1", "dogs bark !", spans, ("NOUN", "VERB", "SYM"), ())
    pieces = torch.tensor([[0, 0], [0, 3], [3, 4], [5, 9], [10, 11], [0, 0]])
    ignored = models.IGNORED
    expected = [ignored, 0, ignored, 1, ignored, ignored]
    assert models.tags_of(sentence, pieces, small_tagger()).tolist() == expected


def test_no_offset_finds_the_token_after_the_same_one(tmp_path: Path) -> None:
    texts = models.write_repeated_words(tmp_path / "texts.txt").read_text("utf-8").splitlines()
    found = [
        query - key
        for words in map(str.split, texts[:2000])
        for query in range(len(words))
        for key in range(1, query + 1)
        if words[key - 1] == words[query]
    ]
    counts = torch.bincount(torch.tensor(found))
    assert len(texts) == models.TEXTS
    assert counts.max() < 0.2 * counts.sum()
