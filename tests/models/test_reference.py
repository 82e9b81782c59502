"""The model against the plain form of its equations: same weights, same numbers."""

import pytest
import torch
from torch.nn import functional as F

from attnlab.models.configuration import IGNORED_LABEL, TranslationConfig
from attnlab.models.model import TranslationModel
from tests.oracles import translation_model as reference

CLOSE = {"rtol": 0, "atol": 1e-10}
SOURCE = torch.tensor([[2, 7, 8, 9, 3], [2, 5, 3, 0, 0]])
LABELS = torch.tensor([[6, 4, 10, 3], [9, 3, IGNORED_LABEL, IGNORED_LABEL]])
VARIANTS = [
    {},
    {"norm": "pre"},
    {"positions": "learned", "heads": 1},
    {"encoder_layers": 2, "decoder_layers": 3},
    {"norm": "pre", "encoder_layers": 3, "decoder_layers": 2, "heads": 6},
    {"source_vocab_size": 13, "tie_word_embeddings": False},
    {"positions": "relative", "encoder_layers": 2},
]
NAMES = [",".join(f"{key}={value}" for key, value in one.items()) for one in VARIANTS]


@pytest.fixture(params=VARIANTS, ids=NAMES)
def model(request: pytest.FixtureRequest) -> TranslationModel:
    sizes = {"vocab_size": 11, "dim": 12, "heads": 3, "feed_forward": 20, "dropout": 0.0}
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = TranslationModel(TranslationConfig(**(sizes | request.param)))
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.3 * torch.randn_like(weight))
    return model.double().eval()


def sentences(model: TranslationModel) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Source, decoder input and labels of each sentence, without padding."""
    inputs = model.prepare_decoder_input_ids_from_labels(LABELS)
    real = LABELS != IGNORED_LABEL
    return [
        (source[source != 0], ids[kept], labels[kept])
        for source, ids, labels, kept in zip(SOURCE, inputs, LABELS, real, strict=True)
    ]


def test_encoder_and_decoder_equal_the_reference(model: TranslationModel) -> None:
    weights, config = model.state_dict(), model.config
    out = model(SOURCE, labels=LABELS)
    for row, (source, ids, _) in enumerate(sentences(model)):
        memory = reference.encoder(source, weights, config)
        torch.testing.assert_close(
            out.encoder_last_hidden_state[row, : len(source)], memory, **CLOSE
        )
        expected = reference.logits(ids, memory, weights, config)
        torch.testing.assert_close(out.logits[row, : len(ids)], expected, **CLOSE)


def entering(X: torch.Tensor, weights: reference.Weights, name: str, norm: str) -> torch.Tensor:
    """What the sub-layer before the LayerNorm `name` reads."""
    return reference.layer_norm(X, reference.part(weights, name)) if norm == "pre" else X


def test_attention_weights_of_every_site_equal_the_reference(model: TranslationModel) -> None:
    """Each layer is handed the model's own states, so that it is compared by itself."""
    config, heads, norm = model.config, model.config.heads, model.config.norm
    out = model(SOURCE, labels=LABELS, output_attentions=True, output_hidden_states=True)

    def compare(matrices: torch.Tensor, X: torch.Tensor, Y: torch.Tensor, **options) -> None:
        for number in range(heads):
            _, H = reference.head(X, Y, number=number, heads=heads, **options)
            actual = matrices[number, : len(X), : len(Y)]
            torch.testing.assert_close(actual, H, **CLOSE)

    for row, (source, ids, _) in enumerate(sentences(model)):
        for layer in range(config.encoder_layers):
            weights = reference.part(model.state_dict(), f"encoder.layers.{layer}")
            X = out.encoder_hidden_states[layer][row, : len(source)]
            U = entering(X, weights, "after_attention.norm", norm)
            own = reference.part(weights, "attention")
            compare(out.encoder_attentions[layer][row], U, U, weights=own)
        memory = out.encoder_last_hidden_state[row, : len(source)]
        for layer in range(config.decoder_layers):
            weights = reference.part(model.state_dict(), f"decoder.layers.{layer}")
            X = out.decoder_hidden_states[layer][row, : len(ids)]
            U = entering(X, weights, "after_attention.norm", norm)
            own = reference.part(weights, "attention")
            compare(out.decoder_attentions[layer][row], U, U, weights=own, causal=True)
            Z = X + reference.multi_head(U, U, own, heads, causal=True)
            if norm == "post":
                Z = reference.layer_norm(Z, reference.part(weights, "after_attention.norm"))
            U, cross = (
                entering(Z, weights, "after_cross.norm", norm),
                reference.part(weights, "cross"),
            )
            compare(out.cross_attentions[layer][row], U, memory, weights=cross)


def test_gradients_equal_those_of_the_reference(model: TranslationModel) -> None:
    names, parameters = zip(*model.named_parameters(), strict=True)
    weights = dict(model.named_parameters(remove_duplicate=False))
    total, count = torch.zeros((), dtype=torch.float64), 0
    for source, ids, labels in sentences(model):
        memory = reference.encoder(source, weights, model.config)
        scores = reference.logits(ids, memory, weights, model.config)
        total = total + F.cross_entropy(scores, labels, reduction="sum")
        count += len(labels)
    expected = torch.autograd.grad(total / count, parameters)
    actual = torch.autograd.grad(model(SOURCE, labels=LABELS).loss, parameters)
    for name, ours, theirs in zip(names, actual, expected, strict=True):
        # The embedding never changes the vector of padding, which no real token reads.
        first = 1 if "tokens" in name else 0
        torch.testing.assert_close(ours[first:], theirs[first:], **CLOSE)
