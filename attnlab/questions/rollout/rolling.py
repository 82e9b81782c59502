"""Attention rollout of one text in any model."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core import InputError, Note, Site, options_of
from attnlab.evaluation import notes_on_training
from attnlab.matrices import attention_rollout
from attnlab.models import Model, Source, model_of
from attnlab.questions.rollout.question import (
    QUESTION,
    ROLLOUT,
    OtherLayers,
    RolloutSettings,
)
from attnlab.reading import LayerWeights, PerLayer, prepare
from attnlab.results import Result


@options_of(RolloutSettings)
def rollout(source: Source, settings: RolloutSettings) -> Result:
    """How much of each token of a text is in each position of the model at `source`, after each layer.

    See `attnlab.matrices.attention_rollout`. What a sublayer of attention reads and what its residual
    connection carries on count a half each, in every model and at every position; values and feed-forward
    layers do not count. So tokens of the source can be compared, but of the source as a whole a decoder with
    cross-attention has 1 - 2^-layers by definition.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair (model,
            tokenizer). A loaded run or a pair is used on the device where it is.
        settings: as keyword arguments.

    Returns:
        The table `rollout` (a row per position and token of the input, those with the largest shares of each
        position after the last layer) and the array `shares`, [layer, query, key], of all.

    Raises:
        InputError: no such model, a text is empty or too long for it, a translation for a model that reads
            none, or the device cannot be used.
    """
    loaded = model_of(source, scores=False)
    loaded.move_to_named(settings.device, source)
    texts = [text for text in (settings.sentence, settings.translation) if text is not None]
    if len(texts) > 1 and not loaded.model.config.is_encoder_decoder:
        msg = f"{loaded.label} reads one text and no translation; leave the translation out."
        raise InputError(msg)
    texts = [text.lower() if loaded.lowercase else text for text in texts]
    reading = prepare(loaded, [texts[0] if len(texts) == 1 else (texts[0], texts[1])], whole=False)
    means = _Means()
    reading.feed([means])
    stacks = {
        site: [means.sums[at] for at in sorted(means.sums) if at[0] == site]
        for site in reading.sites
    }
    sentence, sentences = reading.sentences.usable[0], reading.sentences
    keys = [("source", token) for token in sentences.source.tokens(sentence.source)]
    queries = [token for _, token in keys]
    layers = stacks.get("encoder") or stacks.get("decoder")
    if not layers:
        msg = f"{loaded.label} has no self-attention to roll out; give a transformer."
        raise InputError(msg)
    shares = attention_rollout(layers)
    if sentence.target is not None:
        queries = sentences.target.tokens(sentence.target)
        keys += [("target", token) for token in queries]
        shares = attention_rollout(stacks["decoder"], stacks["cross"], shares[-1])
    return Result(
        QUESTION.name,
        f"Attention rollout in {loaded.label}",
        {"rollout": _table(shares[-1], queries, keys, settings.top)},
        {
            **loaded.facts,
            **loaded.history,
            **dict(zip(("Text", "Translation"), texts, strict=False)),
        },
        tuple(_notes(loaded, len(layers))),
        {"queries": queries, "keys": keys},
        arrays={"shares": shares},
        weights=loaded.weights,
    )


class _Means(PerLayer[tuple[Site, int], Tensor]):
    """Mean over heads of every layer's weights on one text, put together from its rows."""

    by_rows = True

    def values_of(self, layer: LayerWeights) -> Mapping[tuple[Site, int], Tensor]:
        queries = layer.queries if layer.rows is None else layer.rows.among
        whole = torch.zeros(queries.ids.shape[1], layer.weights.shape[3], dtype=torch.float64)
        whole[layer.positions.cpu()] = layer.exact[0].mean(0).cpu()
        return {(layer.site, layer.layer): whole[None]}


def _table(
    shares: Float[Tensor, "query key"],
    queries: Sequence[str],
    keys: Sequence[tuple[str, str]],
    top: int,
) -> pd.DataFrame:
    """The tokens with the largest shares of each position that are not 0, largest first."""
    positions = {side: count(0) for side in ("source", "target")}
    named = [(side, next(positions[side]), token) for side, token in keys]
    largest = shares.topk(min(top, len(keys)), dim=-1)
    rows = [
        (query, queries[query], *named[key], share)
        for query, both in enumerate(zip(*map(Tensor.tolist, largest), strict=True))
        for share, key in zip(*both, strict=True)
        if share > 0
    ]
    return pd.DataFrame(rows, columns=list(ROLLOUT))


def _notes(loaded: Model, attention: int) -> Iterator[Note]:
    config = loaded.model.config
    layers = config.get_text_config().num_hidden_layers
    if not config.is_encoder_decoder and attention < layers:
        yield OtherLayers(attention, layers)
    yield from notes_on_training(loaded)
