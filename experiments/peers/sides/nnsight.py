"""nnsight: the weights of all heads, saved in a trace."""

from pathlib import Path

import torch

from experiments.peers.serving import Describe, Prepare, Work, serve
from experiments.peers.sides.loading import batches_of, by_sentence, load_ids, load_model, padded


def capture(*, batched: bool) -> Prepare:
    """All weights, of each sentence or of one batch."""

    def prepare(folder: Path) -> Work:
        import nnsight

        model = nnsight.NNsight(load_model(folder / "gpt2"))
        batches = batches_of(load_ids(folder), batched=batched)

        @torch.inference_mode()
        def work() -> Describe:
            found = []
            for batch in batches:
                with model.trace(padded(batch)):
                    layers = nnsight.save([layer.attn.output[1] for layer in model.transformer.h])
                found.append(layers)
            return lambda: by_sentence(batches, found)

        return work

    return prepare


if __name__ == "__main__":
    serve({"one_by_one": capture(batched=False), "batch": capture(batched=True)})
