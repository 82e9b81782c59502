"""The recurrent translation model with attention: the baseline from before transformers."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import Cache
from transformers.modeling_outputs import BaseModelOutput

from attnlab.attention.mechanism import Told
from attnlab.attention.multihead import OwnAttention
from attnlab.errors import InputError
from attnlab.translation.configuration import (
    RecurrentConfig,
    TranslationConfig,
    has_additive_scores,
    plan_in,
)
from attnlab.translation.model import TranslationModel
from attnlab.translation.stacks import Embedding, real_tokens, without_padding_rows

CELLS: dict[str, type[nn.RNNBase]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class RecurrentEncoder(nn.Module):
    """Embedding and a bidirectional LSTM or GRU, half of `dim` in each direction."""

    main_input_name = "input_ids"

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config, config.source_vocab_size or config.vocab_size)
        self.cell = _cell(config, config.dim // 2, config.encoder_layers, both_ways=True)

    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Tensor | None = None,
        **_: Any,
    ) -> BaseModelOutput:
        """Source tokens in context, 0 at padding, which must stand behind the text and is not read."""
        visible = real_tokens(input_ids, attention_mask)
        packed = pack_padded_sequence(
            self.embedding(input_ids), visible.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        tokens, _lengths = pad_packed_sequence(
            self.cell(packed)[0], batch_first=True, total_length=input_ids.shape[1]
        )
        encoded = BaseModelOutput(last_hidden_state=tokens)
        # Attention may choose its keys by token; beams repeat it too.
        encoded["token_ids"] = input_ids
        return encoded


class ScoredAttention(OwnAttention):
    """Attention of one head, by additive or dot-product scores of decoder states s and source tokens h.

    ::

        additive: e_tj = v . tanh(W s_t + U h_j)        dot: e_tj = (W s_t) . (U h_j) / sqrt(dim)
        a_t = softmax(e_t) over the real source tokens,  c_t = sum_j a_tj h_j,  out_t = O c_t

    The division is left out where the model is not `scaled`. Another mechanism takes a_t over fewer
    tokens, or from other scores where they are products.
    Source: Bahdanau et al. 2015, arXiv 1409.0473, appendix A.1.2; Luong et al. 2015, arXiv 1508.04025.
    """

    def __init__(self, config: TranslationConfig) -> None:
        mechanism = plan_in(config).mechanism(
            "cross",
            0,
            1,
            dropout=config.attention_dropout,
            vocabulary=config.source_vocab_size or config.vocab_size,
        )
        super().__init__(1, mechanism, additive=has_additive_scores(config))
        self.query_scale = 1.0 if config.scaled else config.dim**0.5
        self.query = nn.Linear(config.dim, config.dim, bias=self.additive)
        self.key = nn.Linear(config.dim, config.dim, bias=False)
        self.score = nn.Linear(config.dim, 1, bias=False) if self.additive else None
        self.output = nn.Linear(config.dim, config.dim, bias=False)
        for layer in self.children():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)

    def forward(
        self,
        states: Float[Tensor, "batch query dim"],
        memory: Float[Tensor, "batch key dim"],
        visible: Bool[Tensor, "batch key"],
        *,
        token_ids: Int[Tensor, "batch key"] | None = None,
        weights: bool = False,
    ) -> tuple[Float[Tensor, "batch query dim"], Float[Tensor, "batch 1 query key"] | None]:
        """What each decoder state reads of the source, and, when `weights`, these, before dropout."""
        # A weight of 0 does not keep NaN out of a sum.
        memory = memory.masked_fill(~visible[..., None], 0.0)
        queries, keys = self.query(states)[:, None], self.key(memory)[:, None]
        told: Told = {"token_ids": token_ids}
        if self.score is not None:
            pairs = torch.tanh(queries[..., :, None, :] + keys[..., None, :, :])
            told["bias"] = self.score(pairs).squeeze(-1)
            queries = torch.zeros_like(queries)
        elif self.query_scale != 1.0:
            queries = queries * self.query_scale
        mixed = self.mechanism(queries, keys, memory[:, None], visible, **told)
        matrix = None
        if weights:
            with torch.autocast(states.device.type, enabled=False):
                matrix = self.mechanism.implied_matrix(queries, keys, visible, **told)
        return self.output(mixed.squeeze(1)), matrix


class RecurrentDecoder(nn.Module):
    """Embedding, an LSTM or GRU over the target, and attention to the source.

    ::

        s_0 = tanh(B h_1),   s_t = cell(s_(t-1), y_(t-1)),   out_t = tanh(S s_t + O c_t)

    where h_1 is the encoder's first token, whose backward half has read the whole source, and c_t is
    read with s_t (Luong et al. 2015); the state itself does not read c_t, so all positions of a known
    target are computed at once.
    """

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config, config.vocab_size)
        self.begin = nn.Linear(config.dim, config.decoder_layers * config.dim)
        self.cell = _cell(config, config.dim, config.decoder_layers)
        self.cross = ScoredAttention(config)
        self.state = nn.Linear(config.dim, config.dim)
        self.dropout = nn.Dropout(config.dropout)
        for layer in (self.begin, self.state):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self,
        ids: Int[Tensor, "batch query"],
        memory: Float[Tensor, "batch source dim"],
        visible: Bool[Tensor, "batch key"] | None,
        source_visible: Bool[Tensor, "batch source"],
        *,
        source_ids: Int[Tensor, "batch source"] | None = None,
        cache: Cache | None = None,
        weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor | None], list[Tensor | None]]:
        """Target tokens in context, states, no self-attention, and cross-attention on request.

        Raises:
            InputError: a cache is given, with which only the newest token comes.
        """
        if cache is not None:
            msg = (
                "A recurrent model reads the whole target for each token; call it with "
                "use_cache=False (generate does by itself when use_cache is not given)."
            )
            raise InputError(msg)
        tokens = self.embedding(ids)
        begin = torch.tanh(self.begin(memory[:, 0]))
        first = begin.unflatten(-1, (self.cell.num_layers, -1)).transpose(0, 1).contiguous()
        start = (first, torch.zeros_like(first)) if isinstance(self.cell, nn.LSTM) else first
        states, _last = self.cell(tokens, start)
        mixed, matrix = self.cross(
            states, memory, source_visible, token_ids=source_ids, weights=weights
        )
        out = self.dropout(torch.tanh(self.state(states) + mixed))
        return out, [tokens, states, out], [], [without_padding_rows(matrix, visible)]


def _cell(
    config: TranslationConfig, size: int, layers: int, *, both_ways: bool = False
) -> nn.RNNBase:
    return CELLS[config.cell](
        config.dim,
        size,
        layers,
        batch_first=True,
        dropout=config.dropout if layers > 1 else 0.0,
        bidirectional=both_ways,
    )


class RecurrentModel(TranslationModel):
    """Recurrent encoder-decoder with attention: bidirectional LSTM or GRU, one head at the site `cross`.

    It is called, trained and generates as `TranslationModel` does; there are no self-attention weights.
    """

    config_class = RecurrentConfig

    def make_encoder(self, config: TranslationConfig) -> nn.Module:
        """The recurrent encoder."""
        return RecurrentEncoder(config)

    def make_decoder(self, config: TranslationConfig) -> nn.Module:
        """The recurrent decoder."""
        return RecurrentDecoder(config)

    def decodes_with_cache(self) -> bool:
        """No: the decoder reads the whole target again for each token."""
        return False
