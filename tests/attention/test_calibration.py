"""What sigma attention learns: planted salience and offsets come back, padding leaves no trace."""

import pytest
import torch
import transformers as hf
from torch import Tensor

from attnlab.attention.bridge.installing import install, use
from attnlab.attention.bridge.sites import mechanism_of
from attnlab.attention.calibration import (
    AttentionRecord,
    calibrate,
    fit_tables,
    load_frequencies,
)
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.sigma import SigmaAttention
from attnlab.attention.multihead import PerHead
from attnlab.attention.registry import make
from attnlab.core.errors import InputError

VOCABULARY = 12


def planted(
    sentences: int, tokens: int, seed: int, favourites: dict[int, int], step: int
) -> AttentionRecord:
    """Matrices whose head h looks at its favourite token where there is one, and else `step` away."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY, (sentences, tokens), generator=generator)
    weights = torch.rand(sentences, len(favourites), tokens, tokens, generator=generator) * 0.1
    for head, favourite in favourites.items():
        weights[:, head] += (ids == favourite).float()[:, None, :]
        rows = torch.arange(tokens)
        target = rows + step
        inside = (target >= 0) & (target < tokens)
        weights[:, head, rows[inside], target[inside]] += 0.5
    return AttentionRecord(weights / weights.sum(-1, keepdim=True), ids)


def test_planted_tokens_and_offsets_come_back() -> None:
    records = [planted(4, 17, seed, {0: 3, 1: 8}, -5) for seed in range(6)]
    tables = fit_tables(records, vocabulary=VOCABULARY, window=(2, 1), extra=1)
    assert tables.salience.argmax(-1).tolist() == [3, 8]
    assert tables.offsets.tolist() == [[-5], [-5]]
    assert tables.sentences == 24
    assert int(tables.occurrences.sum()) == 24 * 17


def test_salience_is_the_mean_attention_from_outside_the_band() -> None:
    record = planted(3, 13, 0, {0: 3, 1: 8}, 4)
    tables = fit_tables([record], vocabulary=VOCABULARY, window=(2, 1), smoothing=0.5)
    assert record.token_ids is not None
    for head in range(2):
        received: dict[int, list[float]] = {}
        for b in range(3):
            for j in range(13):
                total = sum(
                    float(record.weights[b, head, i, j]) for i in range(13) if not -2 <= j - i <= 1
                )
                received.setdefault(int(record.token_ids[b, j]), []).append(total)
        everything = [number for numbers in received.values() for number in numbers]
        mean = sum(everything) / len(everything)
        for token in range(VOCABULARY):
            numbers = received.get(token, [])
            expected = (sum(numbers) + 0.5 * mean) / (len(numbers) + 0.5)
            assert float(tables.salience[head, token]) == pytest.approx(expected, rel=1e-5)


def test_uniform_attention_gives_every_token_one() -> None:
    weights = torch.full((2, 1, 10, 10), 0.1)
    ids = torch.arange(20).view(2, 10) % VOCABULARY
    record = AttentionRecord(weights, ids)
    # An empty band does not exist: the nearest is a window of the query alone.
    salience = fit_tables([record], vocabulary=VOCABULARY, window=(0, 0)).salience
    torch.testing.assert_close(salience, torch.full_like(salience, 0.9))


def test_padding_leaves_no_trace() -> None:
    record = planted(3, 13, 0, {0: 3}, 4)
    assert record.token_ids is not None
    alone = fit_tables([record], vocabulary=VOCABULARY, window=(1, 1), extra=2)
    wide = torch.nn.functional.pad(record.weights, (0, 4, 0, 4), value=0.3)
    ids = torch.nn.functional.pad(record.token_ids, (0, 4), value=5)
    visible = (torch.arange(17) < 13).expand(3, -1)
    padded = AttentionRecord(wide, ids, visible)
    again = fit_tables([padded], vocabulary=VOCABULARY, window=(1, 1), extra=2)
    torch.testing.assert_close(again.salience, alone.salience)
    assert torch.equal(again.offsets, alone.offsets)
    crossing = AttentionRecord(wide, ids, visible, real_queries=visible)
    assert torch.equal(
        fit_tables([crossing], vocabulary=VOCABULARY, window=(1, 1)).salience, again.salience
    )


def test_no_sentence_is_refused() -> None:
    with pytest.raises(InputError, match="saw no sentence"):
        fit_tables([], vocabulary=VOCABULARY, window=(1, 1))


def marian() -> hf.PreTrainedModel:
    config = hf.MarianConfig(
        vocab_size=VOCABULARY,
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = hf.MarianMTModel(config)
    for part in model.modules():  # sharper than a random model is
        if isinstance(part, torch.nn.Linear):
            part.weight.data *= 8
    return model.eval()


def batch(seed: int, targets: int = 7) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    visible = torch.arange(15) < torch.tensor([15, 9])[:, None]
    ids = torch.randint(1, VOCABULARY, (2, 15), generator=generator).masked_fill(~visible, 0)
    target = torch.randint(1, VOCABULARY, (2, targets), generator=generator)
    return {"input_ids": ids, "attention_mask": visible.long(), "decoder_input_ids": target}


PLAN = {
    "encoder": "sigma(window=1, num_pos=2, extra=1, entries='offsets')",
    "encoder.0.1": "full",
    "cross": "sigma(window=1, num_pos=1)",
    "decoder": "sigma(window=2, num_pos=0, extra=1, entries='offsets')",
}


def test_a_model_learns_the_tables_of_its_own_full_attention() -> None:
    model = marian()
    batches = [batch(seed) for seed in range(3)]
    kept: dict[str, list[AttentionRecord]] = {"encoder": [], "cross": []}
    with use(model, "full"), torch.no_grad():
        for one in batches:
            out = model(**one, output_attentions=True)
            ids, visible = one["input_ids"], one["attention_mask"].bool()
            kept["encoder"].append(AttentionRecord(out.encoder_attentions[1], ids, visible))
            real = torch.ones_like(one["decoder_input_ids"], dtype=torch.bool)
            kept["cross"].append(AttentionRecord(out.cross_attentions[0], ids, visible, real))
    installed = install(model, PLAN)
    learned = calibrate(model, batches)
    assert not model.training
    for site, layer in (("encoder", 1), ("cross", 0)):
        at = next(p for p in installed.modules if (p.site, p.layer) == (site, layer))
        mechanism = mechanism_of(at.module)
        assert isinstance(mechanism, SigmaAttention)
        expected = fit_tables(
            kept[site], vocabulary=VOCABULARY, window=(1, 1), extra=mechanism.spec.extra
        )
        torch.testing.assert_close(mechanism.get_buffer("priority"), expected.salience)
        torch.testing.assert_close(learned[f"{at.path}.attnlab"].salience, expected.salience)
        if mechanism.spec.extra:
            assert torch.equal(mechanism.get_buffer("offsets"), expected.offsets)
    first = mechanism_of(installed.modules[0].module)
    assert isinstance(first, PerHead)
    assert not any(bool(buffer.isnan().any()) for buffer in first.buffers())
    with torch.no_grad():
        assert bool(model(**batches[0]).logits.isfinite().all())
    installed.remove()


def test_causal_rows_never_look_at_offsets_ahead() -> None:
    model = marian()
    with use(model, PLAN) as installed:
        calibrate(model, [batch(0)])
        at = next(p for p in installed.modules if p.site == "decoder")
        assert bool((mechanism_of(at.module).get_buffer("offsets") < -2).all())


def test_padded_targets_do_not_count_in_cross_attention() -> None:
    salience = []
    for targets in (7, 5):
        model, one = marian(), batch(0)
        one["decoder_input_ids"] = one["decoder_input_ids"][:, :targets]
        one["decoder_attention_mask"] = (torch.arange(targets) < 5).expand(2, -1).long()
        with use(model, {"cross": PLAN["cross"]}):
            salience += [tables.salience for tables in calibrate(model, [one]).values()]
    torch.testing.assert_close(salience[0], salience[1])


def test_frequencies_make_rare_tokens_columns() -> None:
    model = torch.nn.ModuleList(
        [make("sigma(window=0, num_pos=1, columns='frequency')", heads=2, vocabulary=4)]
    )
    load_frequencies(model, torch.tensor([50, 3, 9, 7]))
    mechanism = model[0]
    assert isinstance(mechanism, SigmaAttention)
    query = torch.zeros(1, 2, 3, 4)
    seen = mechanism.support(query, query, token_ids=torch.tensor([[0, 3, 2]]))
    assert seen[0, 1].tolist() == [[True, True, False], [False, True, False], [False, True, True]]


def test_tables_are_saved_with_the_model() -> None:
    spec = "sigma(window=0, num_pos=1, extra=1, entries='offsets')"
    taught, fresh = (make(spec, heads=2, vocabulary=4) for _ in range(2))
    assert isinstance(taught, SigmaAttention)
    taught.load_tables(
        torch.rand(2, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([[-3], [2]])
    )
    fresh.load_state_dict(taught.state_dict())
    for name in ("priority", "offsets"):
        assert torch.equal(fresh.get_buffer(name), taught.get_buffer(name))


def test_a_model_without_sigma_is_refused() -> None:
    with pytest.raises(InputError, match="no sigma mechanism"):
        calibrate(torch.nn.ModuleList([make("full")]), [])


def test_calibration_gives_the_mechanisms_back_after_an_error() -> None:
    model = marian()
    with use(model, PLAN):
        before = [part for part in model.modules() if isinstance(part, Mechanism)]
        with pytest.raises(ValueError, match="specify exactly one"):
            calibrate(model, [{}])
        after = [part for part in model.modules() if isinstance(part, Mechanism)]
        assert all(one is other for one, other in zip(before, after, strict=True))


SIDES = "sigma(window=1, num_pos=1, columns=salience, extra=1, entries=offsets)"


def t5() -> hf.PreTrainedModel:
    """T5 has no absolute positions: where padding stands changes nothing in the model itself."""
    config = hf.T5Config(
        vocab_size=VOCABULARY,
        d_model=16,
        d_kv=8,
        num_heads=2,
        num_layers=2,
        d_ff=24,
        decoder_start_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = hf.T5ForConditionalGeneration(config).double().eval()
        for part in model.parameters():
            part.data.normal_(std=0.5)
    return model


def padded(side: str) -> dict[str, Tensor]:
    """Two sentence pairs, one shorter than the other on both sides, padded on `side`."""
    generator = torch.Generator().manual_seed(3)
    given = {}
    for name, mask, lengths in (
        ("input_ids", "attention_mask", (13, 8)),
        ("decoder_input_ids", "decoder_attention_mask", (9, 6)),
    ):
        rows = [torch.randint(1, VOCABULARY, (length,), generator=generator) for length in lengths]
        given[name] = torch.nn.utils.rnn.pad_sequence(rows, True, padding_side=side)
        real = [torch.ones_like(row) for row in rows]
        given[mask] = torch.nn.utils.rnn.pad_sequence(real, True, padding_side=side)
    return given


@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_the_side_of_padding_changes_no_table(site: str) -> None:
    tables = []
    for side in ("right", "left"):
        model = t5()
        with use(model, {site: SIDES}):
            tables.append(list(calibrate(model, [padded(side)]).values()))
    for right, left in zip(*tables, strict=True):
        torch.testing.assert_close(left.salience, right.salience)
        assert torch.equal(left.offsets, right.offsets)
        assert torch.equal(left.occurrences, right.occurrences)


def test_a_model_in_training_is_so_again_after_an_error() -> None:
    model = marian().train()
    model.model.encoder.eval()
    with use(model, PLAN):
        with pytest.raises(ValueError, match="specify exactly one"):
            calibrate(model, [{}])
        assert model.training
        assert not model.model.encoder.layers[0].training
