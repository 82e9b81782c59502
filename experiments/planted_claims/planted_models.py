"""Models of random heads among which some do a known thing with noise, by their weights for queries and keys.

Each token is a vector of a random code of its type, its word class and its position, which no layer changes:
what attention and feed-forward layers write is multiplied by zeros. A planted head has some of its dimensions
for what is to meet, positions, classes or codes, and the others for noise.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, PreTrainedTokenizerFast

from attnlab.grammar import GrammarPair

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
CLASSES = ("OTHER", "[CLS]", "[SEP]", "DET", "NOUN", "VERB", "ADJ", "PRON", "PUNCT", "ADP", "PROPN")
CODE, POSITIONS, HEAD_DIM, MATCH = 64, 32, 64, 40
FIRST_CLASS, FIRST_POSITION = CODE, CODE + len(CLASSES)
FEATURES = FIRST_POSITION + POSITIONS


@dataclass(frozen=True)
class Behaviour:
    """What a planted head does.

    Attributes:
        kind: offset, same token, class (of a query to the nearest key of a class), key (a class of keys
            alone), position (the first), or equal.
        values: the offset, or classes.
    """

    kind: str
    values: tuple[Any, ...] = ()


def tokenizer_of(pairs: Sequence[GrammarPair], *, causal: bool) -> PreTrainedTokenizerFast:
    """Words and signs as tokens; [CLS] and [SEP] around them unless the model is causal."""
    split = pre_tokenizers.Whitespace()
    pieces = {piece for pair in pairs for piece, _ in split.pre_tokenize_str(pair.source)}
    vocabulary = {piece: number for number, piece in enumerate((*SPECIAL, *sorted(pieces)))}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = split
    if not causal:
        marks = [(mark, vocabulary[mark]) for mark in ("[CLS]", "[SEP]")]
        inner.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=marks
        )
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]"}
    names |= {} if causal else {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **names)


def classes_of(pairs: Sequence[GrammarPair]) -> dict[str, str]:
    """The most frequent part of speech of each word."""
    counts: dict[str, Counter[str]] = {}
    for pair in pairs:
        for word in pair.source_tree:
            counts.setdefault(word.form, Counter())[word.part_of_speech] += 1
    return {form: tags.most_common(1)[0][0] for form, tags in counts.items()}


def planted_model(
    tokenizer: PreTrainedTokenizerFast,
    classes: dict[str, str],
    planted: dict[tuple[int, int], tuple[Behaviour, float]],
    *,
    layers: int,
    heads: int,
    causal: bool,
    generator: torch.Generator,
) -> BertModel | GPT2Model:
    """A model in which planted heads (layer, head) do a thing, so strongly against noise of deviation 1."""
    width = {"layers": layers, "heads": heads, "hidden": HEAD_DIM * heads, "types": len(tokenizer)}
    model = _gpt2(**width) if causal else _bert(**width)
    words = torch.zeros(len(tokenizer), HEAD_DIM * heads)
    words[:, :CODE] = torch.nn.functional.normalize(
        torch.randn(len(tokenizer), CODE, generator=generator), dim=-1
    )
    for piece, number in tokenizer.get_vocab().items():
        own = classes.get(piece, piece)
        words[number, FIRST_CLASS + CLASSES.index(own if own in CLASSES else "OTHER")] = 1
    places = torch.zeros(POSITIONS, HEAD_DIM * heads)
    places[:, FIRST_POSITION:FEATURES] = torch.eye(POSITIONS)
    embeddings = (
        (model.wte, model.wpe)
        if isinstance(model, GPT2Model)
        else (model.embeddings.word_embeddings, model.embeddings.position_embeddings)
    )
    for table, values in zip(embeddings, (words, places), strict=True):
        table.weight.data.copy_(values)
    # Layer normalisation makes vectors of length sqrt(3) as long as the root of their dimensions.
    gain = math.sqrt(HEAD_DIM * heads / 3)
    for layer in range(layers):
        sides = [_products(planted.get((layer, head)), generator) for head in range(heads)]
        for side in (0, 1):
            matrix = torch.zeros(HEAD_DIM * heads, HEAD_DIM * heads)
            matrix[:, :FEATURES] = torch.cat([both[side] for both in sides]) / gain
            _set(model, layer, side, matrix)
    return model.eval()


def _bert(*, layers: int, heads: int, hidden: int, types: int) -> BertModel:
    model = BertModel(
        BertConfig(
            vocab_size=types, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
            intermediate_size=8, max_position_embeddings=POSITIONS, type_vocab_size=1,
        ),
        add_pooling_layer=False,
    )  # fmt: skip
    model.embeddings.token_type_embeddings.weight.data.zero_()
    for layer in model.encoder.layer:
        for part in (layer.attention.output.dense, layer.output.dense):
            part.weight.data.zero_()
    return model


def _gpt2(*, layers: int, heads: int, hidden: int, types: int) -> GPT2Model:
    config = GPT2Config(
        vocab_size=types, n_embd=hidden, n_layer=layers, n_head=heads, n_inner=8, n_positions=POSITIONS,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = GPT2Model(config)
    for block in model.h:
        for part in (block.attn.c_proj, block.mlp.c_proj):
            part.weight.data.zero_()
    return model


def _set(model: BertModel | GPT2Model, layer: int, side: int, matrix: Tensor) -> None:
    """Puts the weights of queries (0) or keys (1), [out, in], into a layer."""
    if isinstance(model, GPT2Model):
        attention = model.h[layer].attn.c_attn
        width = len(matrix)
        attention.weight.data[:, side * width : (side + 1) * width] = matrix.T
        return
    own = model.encoder.layer[layer].attention.self
    (own.query, own.key)[side].weight.data.copy_(matrix)


def _products(
    planted: tuple[Behaviour, float] | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The weights of a head for queries and for keys, [head_dim, features]."""
    sides = torch.zeros(2, HEAD_DIM, FEATURES)
    if planted is not None and planted[0].kind == "equal":
        return sides[0], sides[1]
    # Scores are divided by the root of the dimensions: the noise of two codes with positions has deviation 1.
    noise = torch.randn(2, HEAD_DIM - MATCH, FEATURES, generator=generator)
    noise[:, :, FIRST_CLASS:FIRST_POSITION] = 0
    sides[:, MATCH:] = noise * (HEAD_DIM / (4 * (HEAD_DIM - MATCH))) ** 0.25
    if planted is None:
        return sides[0], sides[1]
    behaviour, strength = planted
    query, key = sides
    _meet(behaviour, query, key, generator)
    query[:MATCH] *= strength * math.sqrt(HEAD_DIM)
    return query, key


def _meet(behaviour: Behaviour, query: Tensor, key: Tensor, generator: torch.Generator) -> None:
    """Sets dimensions in which a query meets what it looks for, with a product of 1."""
    positions = torch.arange(POSITIONS)
    if behaviour.kind == "offset":
        (offset,) = behaviour.values
        meant = positions + offset
        inside = (meant >= 0) & (meant < POSITIONS)
        query[meant[inside], FIRST_POSITION + positions[inside]] = 1
        key[positions, FIRST_POSITION + positions] = 1
    elif behaviour.kind == "same token":
        # Rows of an orthogonal matrix, stretched so that a code keeps its length.
        basis = torch.linalg.qr(torch.randn(CODE, MATCH, generator=generator)).Q.T
        query[:MATCH, :CODE] = basis * math.sqrt(CODE / MATCH)
        key[:MATCH, :CODE] = basis * math.sqrt(CODE / MATCH)
        # Not the token itself: fewer positions than dimensions would not do for both.
        query[:POSITIONS, FIRST_POSITION:FEATURES] -= torch.eye(POSITIONS)
        key[:POSITIONS, FIRST_POSITION:FEATURES] += torch.eye(POSITIONS)
    elif behaviour.kind == "class":
        one, other = (FIRST_CLASS + CLASSES.index(name) for name in behaviour.values)
        query[POSITIONS, one] = key[POSITIONS, other] = 1
        distance = (positions[:, None] - positions).abs()
        query[:POSITIONS, FIRST_POSITION:FEATURES] = torch.eye(POSITIONS)
        key[:POSITIONS, FIRST_POSITION:FEATURES] = -0.25 * distance.clamp_max(8).float()
    else:
        query[0, FIRST_CLASS:FIRST_POSITION] = 1
        if behaviour.kind == "position":
            key[0, FIRST_POSITION] = 1
        else:
            key[0, FIRST_CLASS + CLASSES.index(behaviour.values[0])] = 1
