"""TransformerLens: the weights of all heads from its cache, and what it detects heads by."""

from pathlib import Path
from typing import Any

import torch

from experiments.peers.serving import Describe, Prepare, Work, serve
from experiments.peers.sides.loading import (
    batches_of,
    by_sentence,
    load_ids,
    load_model,
    load_tokenizer,
    padded,
    read_twice,
)


def bridge(folder: Path) -> Any:
    """The model of the folder."""
    from transformer_lens.model_bridge import TransformerBridge

    return TransformerBridge.boot_transformers(
        "gpt2", hf_model=load_model(folder / "gpt2"), tokenizer=load_tokenizer(folder / "gpt2"),
        device="cpu",
    )  # fmt: skip


def capture(*, batched: bool) -> Prepare:
    """All weights, of each sentence or of one batch."""

    def prepare(folder: Path) -> Work:
        model = bridge(folder)
        batches = batches_of(load_ids(folder), batched=batched)
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(model.cfg.n_layers)]

        @torch.inference_mode()
        def work() -> Describe:
            found = []
            for batch in batches:
                _, cache = model.run_with_cache(padded(batch), return_type=None, names_filter=names)
                found.append([cache[name] for name in names])
            return lambda: by_sentence(batches, found)

        return work

    return prepare


def detect(folder: Path) -> Work:
    """The score of each head, [layer, head], for its three detectors."""
    from transformer_lens.head_detector import HEAD_NAMES, detect_head

    model, rows = bridge(folder), [read_twice(row) for row in load_ids(folder)]
    # The same tokens as attnlab reads, whatever it would put in front of them.
    model.to_tokens = lambda number: torch.tensor([rows[int(number)]])

    @torch.inference_mode()
    def work() -> Describe:
        found = {
            name: [detect_head(model, str(number), name) for number in range(len(rows))]
            for name in HEAD_NAMES
        }
        return lambda: {name: torch.stack(one).mean(0).numpy() for name, one in found.items()}

    return work


if __name__ == "__main__":
    serve({
        "one_by_one": capture(batched=False), "batch": capture(batched=True), "detect": detect,
    })  # fmt: skip
