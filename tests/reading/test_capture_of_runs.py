"""Capture on attnlab's own model, with tokenizers of its own for source and target."""

from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from zoo.random_models import PAIRS, TYPES, tokenizer

from attnlab.models.configuration import TranslationConfig
from attnlab.models.model import TranslationModel
from attnlab.reading.capture import capture


def model(**choices: object) -> TranslationModel:
    config = TranslationConfig(
        vocab_size=TYPES, dim=15, heads=5, encoder_layers=2, decoder_layers=3, feed_forward=11, **choices
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return TranslationModel(config)


def tokenizers() -> SimpleNamespace:
    """Source and target, with the ids that the configuration fixes: <pad> 0, <unk> 1, <s> 2, </s> 3."""
    made = tokenizer(specials=["<pad>", "<unk>", "<s>", "</s>"])
    return SimpleNamespace(source=made, target=made)


def test_matrices_are_the_models_own_at_every_site() -> None:
    own, both = model(), tokenizers()
    found = capture((own, both), PAIRS, batch_size=3, keep_matrices=99)
    assert found.coverage.streamed
    assert found.coverage.layers == {"encoder": 2, "decoder": 3, "cross": 3}
    assert own.training
    own.eval()
    for number, (source, target) in enumerate(PAIRS):
        ids = torch.tensor([both.source(source)["input_ids"]])
        shifted = torch.tensor([both.target(target)["input_ids"][:-1]])
        with torch.no_grad():
            shown = own(input_ids=ids, decoder_input_ids=shifted, output_attentions=True)
        for site in ("encoder", "decoder", "cross"):
            for depth, weights in enumerate(shown[f"{site}_attentions"]):
                kept = found.kept.matrices[number, site, depth]
                torch.testing.assert_close(kept, weights[0], atol=1e-6, rtol=1e-5)
    assert found.kept.tokens[1, "cross"] == (
        ["<s>", ".", "runs", "dog", "a"],
        ["<s>", "a", "dog", "runs", ".", "</s>"],
    )


def test_two_processes_find_what_one_finds() -> None:
    own, both = model(), tokenizers()
    shares = [capture((own, both), PAIRS, batch_size=2, share=(n, 2)) for n in range(2)]
    whole = capture((own, both), PAIRS, batch_size=2)
    pd.testing.assert_frame_equal(
        (shares[1] + shares[0]).statistics.heads(), whole.statistics.heads(), rtol=1e-9
    )


@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_a_band_of_width_0_looks_at_itself_alone(site: str) -> None:
    banded = model(attention={site: "band(window=0)"})
    pairs = [(source, source) for source, _ in PAIRS]
    heads = capture((banded, tokenizers()), pairs, sites=[site]).statistics.heads()
    # Rows look at the token at their own position, which is a content token where they are one.
    assert heads["mass_at_offset_0"].tolist() == pytest.approx([1.0] * len(heads))
    assert heads["entropy_nats"].tolist() == pytest.approx([0.0] * len(heads))


def test_learned_positions_limit_the_length() -> None:
    short = model(positions="learned", max_positions=8)
    found = capture((short, tokenizers()), PAIRS)
    lengths = [len(source.split()) + 2 for source, _ in PAIRS]
    assert found.coverage.sentences == sum(length <= 8 for length in lengths)
    assert sum(one.count for one in found.coverage.dropped) == sum(length > 8 for length in lengths)
