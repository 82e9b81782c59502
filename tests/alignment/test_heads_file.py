"""Files of heads, and what the code of other programs makes of them."""

import json
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from transformers import GenerationConfig, WhisperConfig
from transformers.generation.utils import GenerateEncoderDecoderOutput
from transformers.models.whisper.generation_whisper import WhisperGenerationMixin

from attnlab.alignment import (
    AlignmentHeads,
    ctranslate2_heads,
    marian_layer,
    read_heads,
    whisper_heads,
    write_heads,
)
from attnlab.core import InputError

HEADS_FILE = "heads.json"
HEADS = AlignmentHeads(
    heads=((0, 2), (1, 3)),
    row="input",
    from_word="mean",
    rule="target",
    layers=2,
    heads_per_layer=4,
    model="runs/demo",
    checksum="ab" * 32,
    chosen_by="aer",
    sentences=100,
    aer=0.25,
    aer_low=0.2,
    aer_high=0.3,
    scored_on="it.test.tsv",
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for heads in (HEADS, replace(HEADS, aer=None, aer_low=None, aer_high=None)):
        write_heads(tmp_path / HEADS_FILE, heads)
        assert read_heads(tmp_path / HEADS_FILE) == heads
    assert json.loads((tmp_path / HEADS_FILE).read_text())["heads"] == [[0, 2], [1, 3]]
    assert HEADS.numbers == (2, 7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": []}, "heads must be of 1 items or more"),
        ({"heads": [[0, 4]]}, r"has \[0, 4\], twice or beyond the 2 x 4 heads"),
        ({"heads": [[2, 0]]}, r"has \[2, 0\], twice or beyond"),
        ({"heads": [[0, 1], [0, 1]]}, r"has \[0, 1\], twice"),
        ({"heads": [[0, -1]]}, "heads.0.1 must be at least 0, not -1"),
        ({"heads": [[0]]}, "heads.0.1 is missing"),
        ({"heads": [[10**9, 0]]}, "heads.0.0 must be at most 100000, not 1000000000"),
        ({"row": "both"}, "row must be 'output' or 'input', not 'both'"),
        ({"aer": 1.5}, "aer must be"),
        ({"model": None}, "model must be a text"),
        ({"checksum": None}, "checksum must be a text"),
    ],
)
def test_a_field_that_cannot_be(change: dict, message: str, tmp_path: Path) -> None:
    path = tmp_path / HEADS_FILE
    write_heads(path, HEADS)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=f"holds no alignment heads .*{message}") as error:
        read_heads(path)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_heads(tmp_path / HEADS_FILE)
    (tmp_path / HEADS_FILE).write_text("[[0, 1]]")
    with pytest.raises(InputError, match="holds no alignment heads"):
        read_heads(tmp_path / HEADS_FILE)


def test_heads_of_another_model() -> None:
    HEADS.check_fits(2, 4, "ab" * 32)
    with pytest.raises(
        InputError, match="of 2 decoder layers of 4 heads, and this one has 1 decoder layer of"
    ):
        HEADS.check_fits(1, 4, "ab" * 32)
    with pytest.raises(
        InputError, match="those of runs/demo, and the weights of this model are others"
    ):
        HEADS.check_fits(2, 4, "cd" * 32)


def test_the_code_of_whisper_takes_the_list(tmp_path: Path) -> None:
    """Tokens of planted lengths in the given heads; in all others the same, from last to first."""
    layers, heads, prompt, frames = 3, 4, 2, (9, 4, 12, 7)
    chosen = [(2, 0), (1, 3)]
    ends = list(accumulate(frames))
    rows = prompt + len(frames)
    right = torch.zeros(rows, ends[-1])
    for token, (length, end) in enumerate(zip(frames, ends, strict=True)):
        # The row that reads a token.
        right[prompt + token, end - length : end] = 1
    generator = torch.Generator().manual_seed(0)
    weights = right.flip(1).expand(layers, 1, heads, rows, ends[-1]).clone()
    for layer, head in chosen:
        weights[layer, :, head] = right
    weights += 0.01 * torch.rand(weights.shape, generator=generator)
    # The prompt is read in one step, then one token in each.
    steps = [weights[..., :prompt, :], *weights[..., prompt:, :].split(1, dim=-2)]
    outputs = GenerateEncoderDecoderOutput(
        sequences=torch.zeros(1, rows + 1, dtype=torch.long),
        cross_attentions=tuple(tuple(step) for step in steps),
    )
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(whisper_heads(chosen)))
    listed = GenerationConfig.from_pretrained(tmp_path).alignment_heads
    assert listed == [[1, 3], [2, 0]]

    class Reader(WhisperGenerationMixin):
        config = WhisperConfig(
            decoder_layers=layers, decoder_attention_heads=heads, median_filter_width=1
        )

    found = Reader()._extract_token_timestamps(outputs, listed, num_input_ids=prompt)
    starts = [end - length for length, end in zip(frames, ends, strict=True)]
    expected = [0.0] * prompt + [0.02 * one for one in starts]
    assert found[0, :-1].tolist() == pytest.approx(expected)
    wrong = Reader()._extract_token_timestamps(outputs, [[0, 0]], num_input_ids=prompt)
    assert wrong[0, :-1].tolist() != pytest.approx(expected)


def test_heads_that_come_first_for_ctranslate2() -> None:
    """Reordering the projections changes no output, and makes the chosen heads the first."""
    heads, head_dim = 4, 3
    found = ctranslate2_heads([(5, 3), (5, 1)], heads, "output")
    assert found is not None
    assert (found.alignment_layer, found.alignment_heads) == (5, 2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer, moved = (
            torch.nn.MultiheadAttention(heads * head_dim, heads).double() for _ in range(2)
        )
        query, key = torch.randn(7, 12).double(), torch.randn(5, 12).double()
    dims = torch.arange(heads * head_dim).unflatten(0, (heads, head_dim))
    order = dims[list(found.head_order)].flatten()
    three = torch.cat([order + part * heads * head_dim for part in range(3)])
    with torch.no_grad():
        moved.in_proj_weight.copy_(layer.in_proj_weight[three])
        moved.in_proj_bias.copy_(layer.in_proj_bias[three])
        moved.out_proj.weight.copy_(layer.out_proj.weight[:, order])
        moved.out_proj.bias.copy_(layer.out_proj.bias)
    (out, weights), (same, others) = (
        one(query, key, key, average_attn_weights=False) for one in (layer, moved)
    )
    torch.testing.assert_close(out, same)
    torch.testing.assert_close(others[:2], weights[[1, 3]])


def test_what_engines_can_be_told() -> None:
    """The first heads of one layer, or the first head, of the step that predicts a token alone."""
    found = ctranslate2_heads([(0, 1), (0, 0)], 3, "output")
    assert found is not None
    assert found.head_order == (0, 1, 2)
    assert ctranslate2_heads([(2, 1), (0, 1), (0, 2)], 4, "output") is None
    assert ctranslate2_heads([(0, 1), (0, 0)], 3, "input") is None
    assert [marian_layer([(layer, 0)], "output") for layer in (0, 5)] == [1, 6]
    for heads in ([(2, 1)], [(2, 0), (2, 1)]):
        assert marian_layer(heads, "output") is None
    assert marian_layer([(2, 0)], "input") is None
