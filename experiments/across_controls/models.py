"""Models of which is known what `attnlab across` must find: of repeated words, and fine-tuned ones."""

import random
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    BatchEncoding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from attnlab.core import read_pretrained
from attnlab.labels import GoldSentence, PatternText
from attnlab.models import RunSettings, settings_from
from experiments.heads_of_minilm.run import minilm_folder

TEXTS, TYPES = 20_000, 48
# Words of a passage that comes three times, and most of the words before each time.
PASSAGE, APART, TIMES = (3, 6), 4, 3
CHECKPOINTS = 16
EPOCHS, BATCH, RATE = 2, 16, 5e-5
IGNORED = -100


def write_repeated_words(path: Path, seed: int = 0) -> Path:
    """Texts of different random words but for a passage that comes three times, at unequal distances."""
    generator = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(TEXTS):
            length = generator.randint(*PASSAGE)
            apart = [generator.randint(0, APART) for _ in range(TIMES)]
            words = iter(generator.sample(range(TYPES), length + sum(apart)))
            passage = list(islice(words, length))
            text = [word for count in apart for word in (*islice(words, count), *passage)]
            file.write(" ".join(f"w{word}" for word in text) + "\n")
    return path


def behind_same_token(count: int) -> Callable[[PatternText], Tensor]:
    """The pattern of the keys so many places behind an earlier occurrence of the query's token."""

    def behind(text: PatternText) -> Tensor:
        keys, queries = text.keys, text.queries
        return torch.tensor(
            [
                [count <= j <= i and keys[j - count] == token for j in range(len(keys))]
                for i, token in enumerate(queries)
            ]
        )

    behind.__name__ = f"{count} after same token"
    return behind


def induction_settings(texts: Path, layers: int, seed: int) -> RunSettings:
    """A language model of a few layers that reads these texts."""
    return settings_from(
        {
            "corpus": {"name": str(texts)},
            "tokenizer": {"kind": "word"},
            "model": {
                "task": "language-model", "decoder_layers": layers, "dim": 64, "heads": 4,
                "feed_forward": 128, "norm": "pre", "dropout": 0.0,
            },
            "optimizer": {
                "epochs": 20, "batch_tokens": 2048, "learning_rate": 3e-3, "warmup": 100,
                "schedule": "linear", "keep_checkpoints": CHECKPOINTS, "seed": seed,
            },
        }
    )  # fmt: skip


def tagger(folder: Path, sentences: Sequence[GoldSentence], seed: int) -> Path:
    """The folder of MiniLM, fine-tuned to tell the parts of speech of words; made where it is not there."""
    if not (folder / "config.json").exists():
        tags = sorted({tag for one in sentences for tag in one.tags})
        names = {
            "id2label": dict(enumerate(tags)),
            "label2id": {tag: n for n, tag in enumerate(tags)},
        }
        tokenizer = read_pretrained(AutoTokenizer, minilm_folder())
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            model = read_pretrained(AutoModelForTokenClassification, minilm_folder(), **names)
            fine_tune(model, tokenizer, sentences)
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return folder


def fine_tune(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[GoldSentence]
) -> None:
    """Adjusts all weights to the tags of these sentences, with order and dropout from the current seed."""
    rate = torch.optim.AdamW(model.parameters(), lr=RATE)
    batches: DataLoader[Any] = DataLoader(
        cast("Dataset[Any]", list(sentences)), BATCH, shuffle=True,
        collate_fn=lambda batch: encoded(batch, model, tokenizer),
    )  # fmt: skip
    model.train()
    for _ in range(EPOCHS):
        for batch in batches:
            model(**batch).loss.backward()
            rate.step()
            rate.zero_grad()
    model.eval()


def encoded(
    sentences: Sequence[GoldSentence], model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> BatchEncoding:
    """A batch with the tag of each word at its first piece."""
    batch = tokenizer(
        [one.text for one in sentences], padding=True, return_offsets_mapping=True, return_tensors="pt"
    )  # fmt: skip
    offsets = batch.pop("offset_mapping")
    batch["labels"] = torch.stack(
        [tags_of(one, pieces, model) for one, pieces in zip(sentences, offsets, strict=True)]
    )
    return batch


def tags_of(sentence: GoldSentence, pieces: Tensor, model: PreTrainedModel) -> Tensor:
    """Of each piece the number of the tag of the word that begins with it."""
    numbers = model.config.label2id
    words = zip(sentence.spans, sentence.tags, strict=True)
    begins = {span.start: numbers.get(tag, IGNORED) for span, tag in words}
    return torch.tensor(
        [begins.get(start, IGNORED) if end > start else IGNORED for start, end in pieces.tolist()]
    )


@torch.no_grad()
def accuracy(folder: Path, sentences: Sequence[GoldSentence]) -> float:
    """The share of words whose tag a tagger finds."""
    tokenizer = read_pretrained(AutoTokenizer, folder)
    model = read_pretrained(AutoModelForTokenClassification, folder).eval()
    right, words = 0, 0
    for first in range(0, len(sentences), BATCH):
        batch = encoded(sentences[first : first + BATCH], model, tokenizer)
        labels = batch.pop("labels")
        counted = labels != IGNORED
        right += int((model(**batch).logits.argmax(-1) == labels)[counted].sum())
        words += int(counted.sum())
    return right / words


def with_heads_turned(source: Path, folder: Path) -> Path:
    """A copy of a tagger with its heads turned."""
    model = read_pretrained(AutoModelForTokenClassification, source)
    turn_heads(model)
    read_pretrained(AutoTokenizer, source).save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


@torch.no_grad()
def turn_heads(model: PreTrainedModel) -> None:
    """Puts each head of a BERT at the number below, the first at the last, which changes no output."""
    heads = model.config.num_attention_heads
    for layer in model.base_model.encoder.layer:
        attention = layer.attention
        for part in (attention.self.query, attention.self.key, attention.self.value):
            part.weight.copy_(_turned(part.weight, heads))
            part.bias.copy_(_turned(part.bias, heads))
        attention.output.dense.weight.copy_(_turned(attention.output.dense.weight.T, heads).T)


def _turned(rows: Tensor, heads: int) -> Tensor:
    return rows.unflatten(0, (heads, -1)).roll(-1, 0).flatten(0, 1)
