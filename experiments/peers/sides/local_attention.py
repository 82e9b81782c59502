"""local-attention: a band of keys by blocks."""

import torch

from experiments.peers.inputs import BAND, band_inputs, by_length
from experiments.peers.serving import Describe, Work, serve


def band(tokens: int) -> Work:
    """The keys within the window on both sides."""
    from local_attention import LocalAttention

    query, key, value = map(torch.from_numpy, band_inputs(tokens))
    attend = LocalAttention(
        window_size=BAND, look_backward=1, look_forward=1, exact_windowsize=True, autopad=True,
        use_rotary_pos_emb=False,
    ).eval()  # fmt: skip

    @torch.inference_mode()
    def work() -> Describe:
        output = attend(query, key, value)
        return lambda: {"output": output.numpy()}

    return work


if __name__ == "__main__":
    serve(by_length("band", band))
