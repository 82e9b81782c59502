"""TransformerLens: the weights of all heads from its cache."""

from pathlib import Path

import torch

from experiments.peers.serving import Describe, Prepare, Work, serve
from experiments.peers.sides.loading import (
    batches_of,
    by_sentence,
    load_ids,
    load_model,
    load_tokenizer,
    padded,
)


def capture(*, batched: bool) -> Prepare:
    """All weights, of each sentence or of one batch."""

    def prepare(folder: Path) -> Work:
        from transformer_lens.model_bridge import TransformerBridge

        model = TransformerBridge.boot_transformers(
            "gpt2", hf_model=load_model(folder / "gpt2"), tokenizer=load_tokenizer(folder / "gpt2"),
            device="cpu",
        )  # fmt: skip
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


if __name__ == "__main__":
    serve({"one_by_one": capture(batched=False), "batch": capture(batched=True)})
