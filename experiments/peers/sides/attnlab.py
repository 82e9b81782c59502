"""attnlab, in its own environment."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch

import attnlab
from attnlab.alignment import Link, fit_statistical_aligner
from attnlab.attention import make
from attnlab.core import quiet, seeded
from attnlab.models import OptimizerSettings, TokenPairs, TranslationModel, load, translate_ids
from experiments.peers.inputs import (
    BAND,
    BATCH_TOKENS,
    MOST_TOKENS,
    PAGE_TOKENS,
    WARM_UP,
    band_inputs,
    by_length,
    page_text,
)
from experiments.peers.serving import Describe, Prepare, Work, serve
from experiments.peers.sides.loading import load_ids, load_model, load_tokenizer, read_twice
from experiments.shared.steps import step_ends


def capture(*, batched: bool, keep: bool = False) -> Prepare:
    """Statistics of all heads; the weights themselves where they are kept."""

    def prepare(folder: Path) -> Work:
        source = load_model(folder / "gpt2"), load_tokenizer(folder / "gpt2")
        # The first and the last token are those that the tokenizer puts there.
        texts = [source[1].decode(row[1:-1]) for row in load_ids(folder)]
        count = len(texts)

        def work() -> Describe:
            found = attnlab.capture(
                source, texts, batch_size=count if batched else 1,
                keep_matrices=count if keep else 0, keep_bytes=2**30,
            )  # fmt: skip
            return lambda: {"units": count} | (kept(found, count) if keep else {})

        return work

    return prepare


def detect(folder: Path) -> Work:
    """The figure of TransformerLens of each head, [layer, head], for its three detectors."""
    source = load_model(folder / "gpt2"), load_tokenizer(folder / "gpt2")
    texts = [source[1].decode(read_twice(row)[1:-1]) for row in load_ids(folder)]
    patterns = {
        "previous_token_head": "offset -1", "duplicate_token_head": "same token",
        "induction_head": "after same token",
    }  # fmt: skip

    def work() -> Describe:
        table = attnlab.detect(
            source, patterns=[*patterns.values()], sentences=texts, controls=False
        ).patterns
        scores = table.pivot(index=["pattern", "layer"], columns="head", values="transformer_lens")
        return lambda: {name: scores.loc[pattern].to_numpy() for name, pattern in patterns.items()}

    return work


def kept(found: Any, count: int) -> dict[str, Any]:
    """Weights `[layer, head, query, key]` of each sentence."""
    matrices = found.kept.matrices
    layers = sorted({layer for _, _, layer in matrices})
    return {
        str(number): np.stack([matrices[number, "decoder", layer].numpy() for layer in layers])
        for number in range(count)
    }


def page(tokens: int) -> Prepare:
    """The page of one sentence."""

    def prepare(folder: Path) -> Work:
        source = load_model(folder / "bert"), load_tokenizer(folder / "bert")
        text = page_text(folder, tokens)

        def work() -> Describe:
            html = attnlab.show(source, text).page
            return lambda: {"bytes": len(html.encode())}

        return work

    return prepare


def read(folder: Path) -> dict[str, Any]:
    """Shape of the translation model, and the ids of its text."""
    text = (folder / "translation.json").read_text(encoding="utf-8")
    inputs: dict[str, Any] = json.loads(text)
    return inputs


def losses(folder: Path) -> Work:
    """The loss of each test sentence in nats, summed over its tokens."""
    run, pairs = load(folder / "run"), read(folder)["test"]

    @torch.inference_mode()
    def work() -> Describe:
        sums = [
            run.model(torch.tensor([source]), labels=torch.tensor([target])).loss.item()
            * len(target)
            for source, target in zip(*pairs, strict=True)
        ]
        return lambda: {"losses": np.array(sums)}

    return work


def decoding(beams: int) -> Prepare:
    """Translations of the test sentences."""

    def prepare(folder: Path) -> Work:
        run, source = load(folder / "run"), read(folder)["test"][0]

        def work() -> Describe:
            texts = translate_ids(
                run.translator, run.tokenizers, source,
                beams=beams, max_tokens=MOST_TOKENS, batch_tokens=BATCH_TOKENS,
            )  # fmt: skip
            return lambda: described(texts, run.tokenizers.target)

        return work

    return prepare


def described(texts: list[str], tokenizer: Any) -> dict[str, Any]:
    """The ids of each translated text, and how many there are."""
    rows = [tokenizer(text)["input_ids"][1:-1] for text in texts]
    return {"units": len(rows)} | {str(number): np.array(row) for number, row in enumerate(rows)}


def training(precision: str) -> Prepare:
    """An epoch of training; the first steps are not counted."""

    def prepare(folder: Path) -> Work:
        config, (source, target) = load(folder / "run").model.config, read(folder)["train"]
        columns = {"input_ids": source, "labels": target}
        pairs = TokenPairs(datasets.Dataset.from_dict(columns))
        settings = OptimizerSettings(epochs=1, batch_tokens=BATCH_TOKENS, precision=precision)

        def work() -> Describe:
            with seeded(0):
                model = TranslationModel(config)
            ends = step_ends(model, pairs, settings, MOST_TOKENS)
            first, last, counted = ends[WARM_UP - 1], ends[-1], len(ends) - WARM_UP
            return lambda: {
                "cpu_seconds": last.cpu - first.cpu,
                "seconds": last.clock - first.clock,
                "units": sum(map(len, target)) * counted / len(ends),
            }

        return work

    return prepare


def band(tokens: int) -> Work:
    """The keys within the window on both sides."""
    query, key, value = map(torch.from_numpy, band_inputs(tokens))
    attend = make(f"band(window={BAND})").eval()

    @torch.inference_mode()
    def work() -> Describe:
        output = attend(query, key, value)
        return lambda: {"output": output.numpy()}

    return work


def links(folder: Path) -> Work:
    """Links of both directions together, and of one, of the first sentence pairs, which have gold links."""
    sides = [
        [tuple(line.split()) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        for name in ("source.txt", "target.txt")
    ]
    pairs = list(zip(*sides, strict=True))
    gold = int((folder / "gold_pairs.txt").read_text(encoding="utf-8"))

    def work() -> Describe:
        aligner = fit_statistical_aligner(pairs)
        found = aligner.align(pairs[:gold], "grow-diag-final-and")
        return lambda: {
            "links": as_rows(found), "forward": as_rows(aligner.align(pairs[:gold], None)),
        }  # fmt: skip

    return work


def as_rows(found: Iterable[Collection[Link]]) -> np.ndarray:
    """Sentence, source and target word of each link."""
    return np.array([(number, *link) for number, some in enumerate(found) for link in sorted(some)])


if __name__ == "__main__":
    with quiet():
        serve(
            {
                "one_by_one": capture(batched=False),
                "batch": capture(batched=True),
                "matrices": capture(batched=True, keep=True),
                "detect": detect,
                "losses": losses,
                "greedy": decoding(1),
                "beam": decoding(5),
                "training": training("auto"),
                "training_fp32": training("fp32"),
                "links": links,
            }
            | {f"page_{tokens}": page(tokens) for tokens in PAGE_TOKENS}
            | by_length("band", band)
        )
