"""The folder of inputs that all sides read: models with random weights, a translation model, and texts."""

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

from attnlab.alignment import GoldLinks, read_links
from attnlab.core import iterate_lines, write_text
from attnlab.models import Run, RunSettings, settings_from
from experiments.alignment.corpus import gold_of, write_corpus
from experiments.peers.inputs import MOST_TOKENS, PAGE_TOKENS, SEED
from experiments.shared.speed import word_tokenizer

TYPES = 5_000
SENTENCES, SHORTEST, LONGEST = 50, 10, 40
LAYERS = HEADS = 12
TRAINING_PAIRS, TEST_PAIRS = 2_000, 100
TEXT, PART, ALIGNED_PAIRS = "en-it", "it.test", 10_000


def write_models(
    folder: Path, *, layers: int = LAYERS, dim: int = 768, sentences: int = SENTENCES
) -> None:
    """A GPT-2 and a BERT with random weights, their tokenizer, sentences, and texts of pages."""
    generator, tokenizer = random.Random(SEED), word_tokenizer(TYPES)

    def sentence(tokens: int) -> str:
        return " ".join(f"w{generator.randrange(TYPES)}" for _ in range(tokens - 2))

    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        size = {"vocab_size": len(tokenizer), "attn_implementation": "eager"}
        gpt2 = GPT2Config(
            n_layer=layers, n_head=HEADS, n_embd=dim, bos_token_id=2, eos_token_id=3, **size
        )
        bert = BertConfig(
            num_hidden_layers=layers, num_attention_heads=HEADS, hidden_size=dim,
            intermediate_size=4 * dim, **size,
        )  # fmt: skip
        models = {"gpt2": GPT2LMHeadModel(gpt2), "bert": BertModel(bert)}
    for name, model in models.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    texts = [sentence(generator.randint(SHORTEST, LONGEST)) for _ in range(sentences)]
    write_text(folder / "sentences.json", json.dumps(tokenizer(texts)["input_ids"]))
    for tokens in PAGE_TOKENS:
        write_text(folder / f"page_{tokens}.txt", sentence(tokens))


def translation_settings(data: Path) -> RunSettings:
    """A model of one layer, trained long enough to end its sentences."""
    return settings_from({
        "corpus": {
            "name": str(data / "multi30k"), "pair": "en-de", "limit": 6_000, "lowercase": True,
            "max_tokens": MOST_TOKENS,
        },
        "tokenizer": {"vocabulary": 3_000},
        "model": {"dim": 256, "heads": 4, "feed_forward": 1_024},
        "optimizer": {"epochs": 3, "batch_tokens": 1_024, "validation_sentences": 100},
    })  # fmt: skip


def write_translation(
    folder: Path, run: Run, *, training: int = TRAINING_PAIRS, test: int = TEST_PAIRS
) -> None:
    """Shape of the run's model, and token ids of pairs that it was trained and is tested on."""
    config, corpus = run.model.config, run.corpus()
    (folder / "run").symlink_to(run.folder.resolve())
    shape = {
        "vocabulary": config.vocab_size, "layers": config.encoder_layers, "dim": config.dim,
        "heads": config.heads, "feed_forward": config.feed_forward, "dropout": config.dropout,
    }  # fmt: skip
    ids = {
        "train": _ids(run, corpus.train[:training]),
        "test": _ids(run, corpus.test[:test]),
    }
    write_text(folder / "translation.json", json.dumps({"shape": shape, **ids}))


def _ids(run: Run, rows: Any) -> tuple[list[list[int]], list[list[int]]]:
    source, target = (
        run.tokenizers.source([text.lower() for text in rows[side]])["input_ids"]
        for side in ("source", "target")
    )
    # A target begins behind the start token.
    pairs = [
        (one, other[1:])
        for one, other in zip(source, target, strict=True)
        if max(len(one), len(other)) <= MOST_TOKENS
    ]
    return [one for one, _ in pairs], [other for _, other in pairs]


def write_alignment(
    folder: Path,
    data: Path,
    pairs: int | None = ALIGNED_PAIRS,
    *,
    text: str = TEXT,
    part: str = PART,
) -> list[GoldLinks]:
    """Sentence pairs as lines of words, those with gold links first; the gold links.

    Args:
        folder: that is written to.
        data: folder of the corpora.
        pairs: of the text behind those with gold links; None: all.
        text: of the alignment study.
        part: of XL-WA.
    """
    write_corpus(text, data, gold_of(text, data).files(), folder / "corpus.tsv")
    linked = list(read_links(data / "xlwa" / f"{part}.tsv.gz"))
    pairs_of_gold = [
        (" ".join(pair.source).lower(), " ".join(pair.target).lower()) for pair in linked
    ]
    lines = (line.split("\t") for line in iterate_lines(folder / "corpus.tsv"))
    sides = zip(*pairs_of_gold, *islice(lines, pairs), strict=True)
    for name, side in zip(("source.txt", "target.txt"), sides, strict=True):
        write_text(folder / name, "".join(f"{line}\n" for line in side))
    write_text(folder / "gold_pairs.txt", str(len(linked)))
    return [pair.links for pair in linked]
