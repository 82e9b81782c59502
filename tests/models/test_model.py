from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnlab.attention.multihead import MultiHeadAttention, RelativeBias
from attnlab.core.errors import InputError
from attnlab.models.configuration import IGNORED_LABEL, TranslationConfig
from attnlab.models.layers import DecoderLayer, EncoderLayer
from attnlab.models.model import TranslationModel

SMALL = {"dim": 12, "heads": 3, "feed_forward": 20, "dropout": 0.0}
SOURCE = torch.tensor([[2, 7, 8, 9, 3], [2, 5, 3, 0, 0]])
LABELS = torch.tensor([[6, 4, 10, 3], [9, 3, IGNORED_LABEL, IGNORED_LABEL]])


def model_of(**options: object) -> TranslationModel:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return TranslationModel(TranslationConfig(**({"vocab_size": 11} | SMALL | options))).eval()


VARIANTS = [
    {},
    {"norm": "pre"},
    {"positions": "learned"},
    {"positions": "relative", "attention": {"encoder.0.1": "band(window=1)"}},
    {"encoder_layers": 2, "decoder_layers": 3},
    {"source_vocab_size": 13, "tie_word_embeddings": False},
    {"source_vocab_size": 13},
    {"tie_word_embeddings": False},
    {"init": "identity"},
    {"attention": {"encoder": "band(window=1)", "decoder": "band(window=(1, 0))"}},
    {"attention": {"cross": "band(window=2)"}},
    {"attention": {"encoder.0.1": "topk(k=3)", "decoder.0.2": "topk(k=2)"}},
    {
        "attention": {
            "cross.0.1": "linear",
            "encoder.0.0": "sigma(window=1, columns='first')",
        }
    },
]
NAMES = [",".join(f"{key}={value}" for key, value in variant.items()) for variant in VARIANTS]


@pytest.fixture(params=VARIANTS, ids=NAMES)
def model(request: pytest.FixtureRequest) -> TranslationModel:
    return model_of(**request.param)


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    theirs.in_proj_weight.data = torch.cat(
        [ours.query.weight, ours.key.weight, ours.value.weight]
    ).detach()
    theirs.in_proj_bias.data = torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]).detach()
    theirs.out_proj.load_state_dict(ours.output.state_dict())


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_layers_equal_those_of_torch(norm: str) -> None:
    config = TranslationConfig(vocab_size=11, **SMALL, norm=norm)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre"}
    encoder, decoder = EncoderLayer(config, 0).double(), DecoderLayer(config, 0).double()
    their_encoder = nn.TransformerEncoderLayer(12, 3, 20, **options).double()
    their_decoder = nn.TransformerDecoderLayer(12, 3, 20, **options).double()
    copy_attention(their_encoder.self_attn, encoder.attention)
    copy_attention(their_decoder.self_attn, decoder.attention)
    copy_attention(their_decoder.multihead_attn, decoder.cross)
    for theirs, ours in ((their_encoder, encoder), (their_decoder, decoder)):
        theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randn(2, 5, 12, generator=generator, dtype=torch.float64)
    target = torch.randn(2, 4, 12, generator=generator, dtype=torch.float64)
    visible = torch.tensor([[True] * 5, [True, True, True, False, False]])
    memory, _ = encoder(tokens, visible)
    expected = their_encoder(tokens, src_key_padding_mask=~visible)
    torch.testing.assert_close(memory[visible], expected[visible], rtol=0, atol=1e-12)
    ahead = torch.ones(4, 4, dtype=torch.bool).triu(1)
    out, _, _ = decoder(target, memory, None, visible)
    expected = their_decoder(target, memory, tgt_mask=ahead, memory_key_padding_mask=~visible)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_attention_weights_of_all_sites(model: TranslationModel) -> None:
    out = model(SOURCE, labels=LABELS, output_attentions=True)
    source, target = SOURCE != 0, LABELS != IGNORED_LABEL
    sites = {
        "encoder": (out.encoder_attentions, source, source),
        "decoder": (out.decoder_attentions, target, target),
        "cross": (out.cross_attentions, target, source),
    }
    for site, (matrices, rows, columns) in sites.items():
        layers = model.config.encoder_layers if site == "encoder" else model.config.decoder_layers
        assert len(matrices) == layers
        for matrix in matrices:
            assert matrix.shape == (2, 3, rows.shape[1], columns.shape[1])
            real = rows[:, None, :].expand(2, 3, -1)
            seen = matrix.sum(-1)[real]
            if "band" not in model.config.attention[site]:
                torch.testing.assert_close(seen, torch.ones_like(seen))
            assert float(matrix.masked_select(~columns[:, None, None, :]).abs().sum()) == 0.0
            assert float(matrix.sum(-1)[~real].abs().sum()) == 0.0
    for matrix in out.decoder_attentions:
        assert float(matrix.triu(1).abs().sum()) == 0.0


@torch.no_grad()
def test_padding_of_decoder_input_is_found_by_its_ids(model: TranslationModel) -> None:
    ids = torch.tensor([[2, 8, 9, 3], [2, 8, 3, 0]])
    out = model(SOURCE, decoder_input_ids=ids, output_attentions=True)
    for matrix in (*out.decoder_attentions, *out.cross_attentions):
        assert float(matrix[1, :, 3].abs().sum()) == 0.0


def test_loss_is_the_mean_over_real_target_tokens(model: TranslationModel) -> None:
    out = model(SOURCE, labels=LABELS)
    real = LABELS != IGNORED_LABEL
    expected = nn.functional.cross_entropy(out.logits[real], LABELS[real])
    torch.testing.assert_close(out.loss, expected)


def test_training_mode_smooths_labels_and_keeps_no_logits() -> None:
    model = model_of(label_smoothing=0.3).train()
    out = model(SOURCE, labels=LABELS)
    hidden = model.eval()(SOURCE, labels=LABELS, output_hidden_states=True).decoder_hidden_states[
        -1
    ]
    real = LABELS != IGNORED_LABEL
    scores = hidden[real] @ model.output.weight.T
    expected = F.cross_entropy(scores, LABELS[real], label_smoothing=0.3)
    torch.testing.assert_close(out.loss, expected)
    assert out.logits is None


def test_without_scores_there_is_no_loss_and_all_else_is_the_same(model: TranslationModel) -> None:
    shown = {"output_attentions": True, "output_hidden_states": True}
    whole, less = (
        model(SOURCE, labels=LABELS, score_vocabulary=scored, **shown) for scored in (True, False)
    )
    assert (less.loss, less.logits) == (None, None)
    assert set(whole) - set(less) == {"loss", "logits"}
    for name in set(less) - {"past_key_values"}:
        torch.testing.assert_close(less[name], whole[name], rtol=0, atol=0)


def test_the_amount_of_padding_changes_nothing(model: TranslationModel) -> None:
    short = model(SOURCE[1:, :3], labels=LABELS[1:, :2])
    padded = model(SOURCE, labels=LABELS)
    torch.testing.assert_close(padded.logits[1:, :2], short.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(short.loss, model(SOURCE[1:], labels=LABELS[1:]).loss)


def test_later_target_tokens_do_not_reach_back(model: TranslationModel) -> None:
    before = model(SOURCE, decoder_input_ids=torch.tensor([[2, 6, 4], [2, 9, 3]])).logits
    after = model(SOURCE, decoder_input_ids=torch.tensor([[2, 6, 5], [2, 9, 7]])).logits
    torch.testing.assert_close(after[:, :2], before[:, :2], rtol=0, atol=0)
    assert not torch.equal(after[:, 2], before[:, 2])


def greedy(model: TranslationModel, source: torch.Tensor, length: int) -> torch.Tensor:
    """Greedy decoding without a cache, one sentence at a time, as a plain loop."""
    ids = [model.config.decoder_start_token_id]
    while len(ids) < length:
        logits = model(source[None], decoder_input_ids=torch.tensor([ids])).logits
        ids.append(int(logits[0, -1].argmax()))
        if ids[-1] == model.config.eos_token_id:
            break
    return torch.tensor(ids + [0] * (length - len(ids)))


def test_generate_with_cache_equals_the_plain_loop(model: TranslationModel) -> None:
    written = model.generate(SOURCE, max_length=9, num_beams=1, do_sample=False)
    expected = torch.stack([greedy(model, SOURCE[0], 9), greedy(model, SOURCE[1][:3], 9)])
    torch.testing.assert_close(written, expected[:, : written.shape[1]])


def test_beam_search_with_cache_equals_without(model: TranslationModel) -> None:
    options = {"max_length": 9, "num_beams": 3, "do_sample": False}
    with_cache = model.generate(SOURCE, **options, use_cache=True)
    torch.testing.assert_close(with_cache, model.generate(SOURCE, **options, use_cache=False))


def test_saved_and_loaded_model_is_the_same(model: TranslationModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".json", ".json", ".safetensors"]
    loaded = TranslationModel.from_pretrained(tmp_path)
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name
    torch.testing.assert_close(
        loaded(SOURCE, labels=LABELS).logits, model(SOURCE, labels=LABELS).logits, rtol=0, atol=0
    )
    shared = loaded.encoder.embedding.tokens.weight is loaded.decoder.embedding.tokens.weight
    assert shared == (model.config.source_vocab_size is None)
    tied = loaded.output.weight is loaded.decoder.embedding.tokens.weight
    assert tied == model.config.tie_word_embeddings


def test_identity_init_starts_projections_as_identity() -> None:
    attention = model_of(init="identity").encoder.layers[0].attention
    for projection in (attention.query, attention.key, attention.value):
        assert torch.equal(projection.weight, torch.eye(12))


def test_an_encoder_gives_what_it_is_asked_for_alone() -> None:
    encoder = model_of().encoder
    plain = set(encoder(SOURCE))
    assert "last_hidden_state" in plain
    assert set(encoder(SOURCE, output_hidden_states=True)) - plain == {"hidden_states"}
    assert set(encoder(SOURCE, output_attentions=True)) - plain == {"attentions"}


def test_encoder_outputs_may_be_handed_in(model: TranslationModel) -> None:
    encoded = model.encoder(SOURCE)
    expected = model(SOURCE, labels=LABELS).logits
    visible = (SOURCE != 0).long()
    for given in (encoded, (encoded.last_hidden_state,)):
        again = model(attention_mask=visible, encoder_outputs=given, labels=LABELS)
        torch.testing.assert_close(again.logits, expected)
    assert isinstance(model(SOURCE, labels=LABELS, return_dict=False), tuple)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"heads": 5},
            "5 heads do not divide a model of size 12; with that size there can be 1, 2",
        ),
        ({"vocab_size": 0}, "vocab_size must be a whole number from 1 up, not 0"),
        ({"source_vocab_size": -3}, "source_vocab_size must be a whole number from 1 up, not -3"),
        ({"vocab_size": None}, "vocab_size must be a whole number from 1 up, not None"),
        ({"max_positions": 0}, "max_positions must be a whole number from 1 up, not 0"),
        # What `ModelSettings` refuses the configuration does too.
        ({"heads": 17}, "heads must be at least 1 and at most 16, not 17"),
        ({"attention": {"side": "full"}}, "'side' names no attention; write a site"),
        ({"attention": {"encoder.1": "full"}}, "encoder has attention in layer 0 with 3 heads"),
        (
            {"encoder_layers": 2, "attention": {"decoder.1": "full"}},
            "decoder has attention in layer 0 with 3 heads",
        ),
        ({"attention": {"cross.0.3": "full"}}, "cross has attention in layer 0 with 3 heads"),
        ({"attention": {"decoder.0.1": "linformer(k=2)"}}, "'linformer' has no causal form"),
        ({"attention": {"cross": "bigbird"}}, "'bigbird' has no cross form"),
        ({"attention": {"encoder": "bund"}}, "no mechanism 'bund'"),
    ],
)
def test_impossible_models_are_refused(
    options: dict[str, object], message: str, as_users_call_it: None
) -> None:
    with pytest.raises(InputError, match=message):
        model_of(**options)


def test_a_relative_bias_begins_at_zero_and_ends_at_its_farthest_offset() -> None:
    relative, plain = model_of(positions="relative"), model_of()
    given = plain.load_state_dict(relative.state_dict(), strict=False)
    assert given.unexpected_keys == ["encoder.layers.0.attention.relative_attention_bias.by_offset"]
    torch.testing.assert_close(
        relative(SOURCE, labels=LABELS).logits, plain(SOURCE, labels=LABELS).logits
    )
    bias = RelativeBias(1, farthest=2)
    with torch.no_grad():
        bias.by_offset.copy_(torch.tensor([[5.0, 6, 7, 8, 9]]))
    assert bias(4)[0, 0].tolist() == [[7, 8, 9, 9], [6, 7, 8, 9], [5, 6, 7, 8], [5, 5, 6, 7]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": {"encoder": "linear"}}, "'linear' cannot stand in encoder"),
        (
            {
                "attention": {"encoder": "longformer(window=1, global_tokens=[0])"},
                "global_projections": True,
            },
            "cannot be combined with global_projections",
        ),
    ],
)
def test_what_has_no_scores_by_pair_goes_with_no_relative_bias(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        model_of(positions="relative", **options)
