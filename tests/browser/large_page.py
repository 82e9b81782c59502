"""The page of 144 heads of one sentence, of any length: matrices as a softmax makes them."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pandas as pd
import torch
from browser.planted_page import planted_analysis, remade

from attnlab.core.files import write_text
from attnlab.questions.analyze.viewer import viewer_data
from attnlab.reading.keeping import KeptMatrices
from attnlab.results.page import kept_sentences
from attnlab.results.page.rendering import EncodedWeights, encode_weights, render_page

LAYERS, HEADS = 12, 12
_planted = cache(planted_analysis)


def write_large_page(path: Path, tokens: int) -> Path:
    """A page of 12 layers of 12 heads with the viewer alone; heads look near, as most trained ones do."""
    generator = torch.Generator().manual_seed(tokens)
    scores = torch.randn(HEADS, tokens, tokens, generator=generator)
    distance = (torch.arange(tokens)[:, None] - torch.arange(tokens)).abs()
    weights = (4 * scores - 0.4 * distance).softmax(-1)
    matrices = {(0, "encoder", layer): weights for layer in range(LAYERS)}
    words = [f"word{index}" for index in range(tokens)]
    letters = "o" + "w" * (tokens - 2) + "c"
    found = _planted()
    head = found.heads.iloc[0].to_dict()
    places = [(layer, index) for layer in range(LAYERS) for index in range(HEADS)]
    heads = [{**head, "layer": layer, "head": index} for layer, index in places]
    kept = KeptMatrices(
        matrices, {(0, "encoder"): (words, words)}, frozenset(), {(0, "encoder"): (letters, letters)}
    )  # fmt: skip
    tables = {"summary": pd.DataFrame(), "heads": pd.DataFrame(heads)}
    many = remade(replace(found, tables=tables, matrices=kept))
    once = encode_weights(weights)

    def encode(layer: torch.Tensor) -> EncodedWeights:
        return once if layer is weights else encode_weights(layer)

    # All layers are one tensor, which takes seconds to deflate.
    with patch.object(kept_sentences, "encode_weights", encode):
        data = viewer_data(many, "144 heads")
    write_text(path, render_page("144 heads", {}, [], [], viewer=data))
    return path
