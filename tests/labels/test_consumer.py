"""From a real model and real tokenizers to labels: heads forced to do something are found doing it."""

import copy
from dataclasses import dataclass, replace

import pandas as pd
import pytest
import torch
from torch import Tensor

from attnlab.attention.bridge.installing import use
from attnlab.attention.mechanism import Mechanism, Traits
from attnlab.core.errors import InputError
from attnlab.corpora.corpus import load_corpus
from attnlab.grammar.embedded import draw_pairs
from attnlab.labels.counting import HeadFunctions, TextSide, scope_of_layer
from attnlab.labels.gold import align_corpus
from attnlab.labels.label_tables import label_table
from attnlab.labels.treebank import gold_sentence
from attnlab.labels.verdict import CONFIRMED, REJECTED
from attnlab.models.configuration import TranslationConfig
from attnlab.models.model import TranslationModel
from attnlab.models.tokenizer import train_tokenizers
from attnlab.reading.passes import prepare
from attnlab.reading.text_tokens import tokens_of
from attnlab.reading.weights import LayerWeights

SENTENCES = 480


@dataclass
class Setting:
    """A small untrained model, its tokenizers, and the embedded corpus with its gold."""

    model: TranslationModel
    tokenizers: object
    texts: list[tuple[str, str]]
    source: TextSide
    target: TextSide
    pairs: list[list[tuple[int, int]]]

    def functions(self) -> HeadFunctions:
        return HeadFunctions(self.source, self.target, self.pairs)


@pytest.fixture(scope="module")
def setting() -> Setting:
    corpus = load_corpus(size=900, seed=3)
    tokenizers = train_tokenizers(corpus, vocabulary=600, shared=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TranslationModel(
            TranslationConfig(
                vocab_size=len(tokenizers.target), source_vocab_size=len(tokenizers.source),
                dim=24, heads=4, encoder_layers=2, decoder_layers=1, feed_forward=13,
                tie_word_embeddings=False,
            )
        ).eval()  # fmt: skip
    pairs = draw_pairs(SENTENCES, seed=11)
    sides = []
    for name in ("source", "target"):
        trees = [
            gold_sentence(getattr(pair, f"{name}_tree"), str(n)) for n, pair in enumerate(pairs)
        ]
        tokenizer = getattr(tokenizers, name)
        tokens = tokens_of(tokenizer, [tree.text for tree in trees])
        aligned = align_corpus(tokenizer, trees, tokens)
        assert aligned.coverage == 1, aligned.reasons
        counts = torch.tensor(list(getattr(tokenizers, f"{name}_counts").values()))
        sides.append(TextSide(counts, trees, aligned.alignments))
    return Setting(
        model,
        tokenizers,
        [(pair.source, pair.target) for pair in pairs],
        *sides,
        [[(t - 1, s - 1) for s, t in pair.alignment] for pair in pairs],
    )


def tokens_of_unit(units: tuple[int | None, ...], unit: int) -> list[int]:
    return [token for token, owner in enumerate(units) if owner == unit]


class Forced:
    """Hands weights on with head 0 (and others) replaced by what the gold asks for."""

    def __init__(self, setting: Setting, inner: HeadFunctions) -> None:
        self.setting, self.inner = setting, inner

    def update(self, layer: LayerWeights) -> None:
        weights = layer.weights.clone()
        if (layer.site, layer.layer) == ("encoder", 1):
            weights[:, 0] = self.along_arcs(layer, "obj")
            weights[:, 2] = self.one_back(layer)
        if layer.site == "cross":
            weights[:, 1] = self.along_alignments(layer)
        self.inner.update(replace(layer, weights=weights))

    def one_back(self, layer: LayerWeights) -> Tensor:
        length = layer.keys.ids.shape[1]
        target = (torch.arange(length) - 1).clamp_min(0)
        back = torch.nn.functional.one_hot(target, length).float()
        return 0.8 * back + 0.2 * self.even(layer)

    def even(self, layer: LayerWeights) -> Tensor:
        seen = layer.visible.float()
        return seen / seen.sum(-1, keepdim=True).clamp_min(1)

    def along_arcs(self, layer: LayerWeights, relation: str) -> Tensor:
        weights = self.even(layer)
        for row, number in enumerate(layer.sentences):
            alignment = self.setting.source.alignments[number]
            for arc in self.setting.source.trees[number].arcs:
                if arc.relation == relation:
                    words = [alignment.unit_of_word[word] for word in (arc.dependent, arc.head)]
                    queries, keys = (
                        tokens_of_unit(alignment.unit_of_token, word) for word in words
                    )
                    weights[row, queries] *= 0.4
                    for key in keys:
                        weights[row, queries, key] += 0.6 / len(keys)
        return weights

    def along_alignments(self, layer: LayerWeights) -> Tensor:
        # The tokenizer puts <s> before the text, so the decoder's row t predicts token t + 1 of it.
        weights = self.even(layer)
        for row, number in enumerate(layer.sentences):
            source, target = (
                side.alignments[number] for side in (self.setting.source, self.setting.target)
            )
            for word, other in self.setting.pairs[number]:
                tokens = tokens_of_unit(target.unit_of_token, target.unit_of_word[word])
                queries = [token - 1 for token in tokens]
                keys = tokens_of_unit(source.unit_of_token, source.unit_of_word[other])
                for key in keys:
                    weights[row, queries, key] += 5 / len(keys)
        return weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)


@pytest.fixture(scope="module")
def counted(setting: Setting) -> HeadFunctions:
    functions = setting.functions()
    prepare((setting.model, setting.tokenizers), setting.texts).feed([Forced(setting, functions)])
    return functions


def verdict(counted: HeadFunctions, site: str, layer: int, head: int, label: str):
    table = counted.verdicts()
    mine = (table.site == site) & (table.layer == layer) & (table["head"] == head)
    return table[mine & (table.label == label)].iloc[0]


def test_head_forced_along_gold_arcs_is_syntactic(counted: HeadFunctions) -> None:
    found = verdict(counted, "encoder", 1, 0, "syntactic")
    assert found.status == CONFIRMED
    assert found.detail == "obj dependent>head"
    assert found.value > 0.99


def test_head_one_back_is_positional(counted: HeadFunctions) -> None:
    found = verdict(counted, "encoder", 1, 2, "positional")
    assert (found.status, found.detail, found.value) == (CONFIRMED, "offset -1", 1)


def test_head_forced_along_gold_alignments_is_an_alignment_head(counted: HeadFunctions) -> None:
    found = verdict(counted, "cross", 0, 1, "alignment")
    assert found.status == CONFIRMED
    # Words with several counterparts can follow only one of them.
    assert found.value > 0.8
    others = [verdict(counted, "cross", 0, head, "alignment").value for head in (0, 2, 3)]
    assert max(others) < 0.4


def test_words_of_the_same_number_are_linked_across_sentences_too(
    setting: Setting, counted: HeadFunctions
) -> None:
    source, target = (side.alignments for side in (setting.source, setting.target))
    links = [
        (number, target[number].unit_of_word[word], source[number].unit_of_word[other])
        for number, pairs in enumerate(setting.pairs)
        for word, other in pairs
    ]
    assert any(query == key for _, query, key in links)
    table = counted.relations().query("site == 'cross'")
    assert set(table.links + table.choosing_links) == {len(set(links))}


def test_other_heads_of_an_untrained_model_are_not(counted: HeadFunctions) -> None:
    labels = label_table(counted.verdicts())
    forced = {("encoder", 1, 0), ("encoder", 1, 2), ("cross", 0, 1)}
    for row in labels.itertuples(index=False):
        if (row.site, row.layer, row.head) not in forced:
            assert not {"positional", "syntactic", "alignment", "monotone"} & set(
                row.labels.split("; ")
            )


def test_rows_of_cross_attention_count_by_the_token_they_predict(setting: Setting) -> None:
    seen: list[LayerWeights] = []

    class Keep:
        def update(self, layer: LayerWeights) -> None:
            if layer.site == "cross":
                seen.append(layer)

    prepare((setting.model, setting.tokenizers), setting.texts[:9]).feed([Keep()], batch_size=4)
    tokenizer = setting.tokenizers.target
    for layer in seen:
        rows = scope_of_layer(layer).queries
        for row, number in enumerate(layer.sentences):
            ids = tokenizer(setting.texts[number][1]).input_ids
            # read: <s> a b, predicted: a b </s>
            expected = [
                token not in {tokenizer.bos_token_id, tokenizer.eos_token_id} for token in ids[1:]
            ]
            assert rows[row, : len(expected)].tolist() == expected
            assert not rows[row, len(expected) :].any()


def test_fixed_heads_of_a_model_are_found_positional(setting: Setting) -> None:
    config = TranslationConfig(
        **setting.model.config.to_diff_dict()
        | {
            "attention": {
                "encoder": "fixed(pattern='previous')",
                "decoder": "fixed(pattern='self')",
            }
        }
    )
    functions = setting.functions()
    with torch.random.fork_rng():
        model = TranslationModel(config).eval()
    prepare((model, setting.tokenizers), setting.texts).feed([functions])
    table = functions.verdicts()
    positional = table[(table.label == "positional") & (table.site == "encoder")]
    assert set(positional.status) == {CONFIRMED}
    assert set(positional.detail) == {"offset -1"}
    assert (positional.value == 1).all()
    decoder = table[(table.label == "positional") & (table.site == "decoder")]
    assert set(decoder.detail) == {"offset +0"}
    assert set(decoder.status) == {CONFIRMED}


class GoldArcs(Mechanism):
    """Lets every word that has a relation to its head look at that head, other tokens at themselves.

    Which sentence of the corpus it is, the token ids tell.
    """

    name = "gold_arcs"
    traits = Traits(bias=False)

    def __init__(self, setting: Setting, relation: str) -> None:
        super().__init__()
        self.targets = {}
        for (text, _), tree, alignment in zip(
            setting.texts, setting.source.trees, setting.source.alignments, strict=True
        ):
            targets = list(range(len(alignment.unit_of_token)))
            for arc in tree.arcs:
                if arc.relation == relation:
                    words = [alignment.unit_of_word[word] for word in (arc.dependent, arc.head)]
                    queries, keys = (
                        tokens_of_unit(alignment.unit_of_token, word) for word in words
                    )
                    for query in queries:
                        targets[query] = keys[0]
            self.targets[tuple(setting.tokenizers.source(text).input_ids)] = targets

    def implied_matrix(
        self, query, key, visible=None, *, first_query=0, token_ids=None, bias=None
    ) -> Tensor:
        weights = torch.eye(key.shape[-2]).repeat(len(key), 1, 1)
        for row, ids in enumerate(token_ids):
            targets = self.targets.get(tuple(ids[visible[row]].tolist()), ())
            for token, target in enumerate(targets):
                weights[row, token] = torch.eye(key.shape[-2])[target]
        weights = weights * visible[:, None, :]
        return weights[:, None].expand(-1, query.shape[1], -1, -1)

    def forward(self, query, key, value, visible=None, **context) -> Tensor:
        return self.implied_matrix(query, key, visible, **context) @ value


def test_a_model_that_runs_with_gold_arcs_has_a_syntactic_head(setting: Setting) -> None:
    model = copy.deepcopy(setting.model)
    plan = {
        "encoder.0.1": GoldArcs(setting, "nsubj"),
        "encoder.0.3": "fixed(pattern='previous')",
    }
    functions, plain = setting.functions(), setting.functions()
    prepare((model, setting.tokenizers), setting.texts, sites=["encoder"]).feed([plain])
    with use(model, plan):
        prepare((model, setting.tokenizers), setting.texts, sites=["encoder"]).feed([functions])
    forced = verdict(functions, "encoder", 0, 1, "syntactic")
    assert (forced.status, forced.detail, forced.value) == (CONFIRMED, "nsubj dependent>head", 1)
    assert forced.value > forced.control + 0.2
    relations = functions.relations()
    mine = relations[
        (relations.layer == 0) & (relations["head"] == 1) & (relations.status == CONFIRMED)
    ]
    assert set(zip(mine.relation, mine.direction, strict=True)) == {("nsubj", "dependent>head")}
    back = verdict(functions, "encoder", 0, 3, "positional")
    assert (back.status, back.detail, back.value) == (CONFIRMED, "offset -1", 1)
    assert verdict(functions, "encoder", 0, 3, "syntactic").status == REJECTED
    assert verdict(functions, "encoder", 0, 1, "positional").status == REJECTED
    # The arcs were mixed, not only shown: the layer above has another input.
    above = [
        table[(table.layer == 1) & (table.label == "broad")].value.to_numpy()
        for table in (plain.verdicts(), functions.verdicts())
    ]
    assert (above[0] != above[1]).all()


def test_decoder_arcs_reach_back_only(counted: HeadFunctions) -> None:
    table = counted.relations()
    decoder = table[table.site == "decoder"].groupby(["relation", "direction"]).links.first()
    encoder = table[table.site == "encoder"].groupby(["relation", "direction"]).links.first()
    # An article comes before its noun: it cannot look at it, the noun can look back.
    assert decoder["det", "dependent>head"] == 0 < decoder["det", "head>dependent"]
    assert encoder["det", "dependent>head"] == encoder["det", "head>dependent"]


def test_shares_add_up_to_the_whole(setting: Setting) -> None:
    whole, parts = setting.functions(), [setting.functions() for _ in range(3)]
    texts = setting.texts[:90]
    prepare((setting.model, setting.tokenizers), texts).feed([whole], batch_size=7)
    for index, part in enumerate(parts):
        prepare((setting.model, setting.tokenizers), texts).feed(
            [part], batch_size=7, share=(index, 3)
        )
    merged = parts[2] + parts[0] + parts[1]
    assert_same(whole.verdicts(), merged.verdicts(), ["label"])
    assert_same(whole.relations(), merged.relations(), ["relation", "direction"])


def assert_same(one: pd.DataFrame, other: pd.DataFrame, keys: list[str]) -> None:
    keys = ["site", "layer", "head", *keys]
    tables = [table.sort_values(keys, ignore_index=True) for table in (one, other)]
    pd.testing.assert_frame_equal(*tables, rtol=0, atol=1e-9)


def test_missing_alignments_are_refused(setting: Setting) -> None:
    short = replace(setting.source, alignments=setting.source.alignments[:2])
    functions = HeadFunctions(short, setting.target)
    with pytest.raises(InputError, match=r"Sentence \d+ has no alignment: 2 were handed in"):
        prepare((setting.model, setting.tokenizers), setting.texts[:9]).feed([functions])
