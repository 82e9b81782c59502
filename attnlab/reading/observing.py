"""Queries, keys and values of a model's heads, handed on layer by layer while it reads sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.attention import (
    RULES_IN_WORDS,
    CallContext,
    Context,
    Full,
    FullAttention,
    Mechanism,
    ScoreRule,
    Scoring,
    Setup,
    attention_modules,
    holds_installed,
    layer_rules,
    mechanism_of,
    part_of_heads,
    rules_told,
    use,
)
from attnlab.core import BATCH_SIZE, SITES, InputError, Side, eval_mode, sides_of
from attnlab.reading.calling import forward
from attnlab.reading.sentences import Progress, Sentence, Sentences
from attnlab.reading.vocabulary import Axis

# Of one layer at once, in float64: 32 MiB, of which a comparison holds a handful of copies.
MOST_OBSERVED_WEIGHTS = 2**22


# Is given what the mechanism of one layer was called with: queries, keys, values, and what goes with them.
HandOn = Callable[[Tensor, Tensor, Tensor, Context], None]


@dataclass(frozen=True)
class Observed:
    """Queries, keys and values of one layer for one batch, in float64.

    Attributes:
        site: encoder, decoder or cross.
        layer: from 0.
        query: queries of real and padding tokens alike.
        key: keys.
        value: values.
        visible: True at keys that are real tokens.
        real_queries: True at queries that are.
        token_ids: ids of the keys.
        weights: full attention, 0 in the rows of padding.
        sentences: numbers of the sentences of the batch.
        bias: what the model adds to the scores of every pair (relative positions; with additive attention
            all of them, and queries are 0); None for nothing.
        scoring: what else the model does to its scores: windows, a cap, sinks; None for nothing.
    """

    site: str
    layer: int
    query: Float[Tensor, "batch head query dim"]
    key: Float[Tensor, "batch head key dim"]
    value: Float[Tensor, "batch head key value_dim"]
    visible: Bool[Tensor, "batch key"]
    real_queries: Bool[Tensor, "batch query"]
    token_ids: Int[Tensor, "batch key"]
    weights: Float[Tensor, "batch head query key"]
    sentences: tuple[int, ...]
    bias: Float[Tensor, "#batch #head query key"] | None = None
    scoring: Scoring | None = None

    def call_context(self, heads: Sequence[int] | None = None) -> CallContext:
        """The call context of a mechanism at these heads; None stands for all heads."""
        context: CallContext = {"token_ids": self.token_ids}
        if self.bias is not None:
            context["bias"] = self.bias if heads is None else part_of_heads(self.bias, heads)
        if self.scoring is not None:
            context["scoring"] = self.scoring if heads is None else self.scoring.of_heads(heads)
        return context

    @property
    def allowed(self) -> Bool[Tensor, "#batch #head query key"] | None:
        """True at the pairs that the model's own windows let through; None for all."""
        return None if self.scoring is None else self.scoring.allowed

    @property
    def has_sinks(self) -> bool:
        """Whether its rows sum to less than 1, the rest being a sink's, which has no value."""
        return self.scoring is not None and self.scoring.sinks is not None


def site_rules(model: Any) -> dict[str, frozenset[ScoreRule]]:
    """Rules by which the model changes the scores of any layer, by site."""
    rules_by_site: dict[str, frozenset[ScoreRule]] = {}
    for (site, _), rules in layer_rules(model).items():
        rules_by_site[site] = rules_by_site.get(site, frozenset()) | rules
    return rules_by_site


def sites_of(model: Any, sentences: Sentences, requested: Sequence[str] | None) -> tuple[str, ...]:
    """The sites to look at: those `requested`, or all that the model and its sentences have.

    Raises:
        InputError: a site that is wanted is lacking, or the model computes its attention itself.
    """
    available = {at.site for at in attention_modules(model)}
    reason = "the model has no such site"
    if model.config.is_encoder_decoder and not sentences.paired:
        available &= {"encoder"}
        reason = "the sentences have no translations"
    for site in requested or ():
        if site not in available:
            listed = ", ".join(site for site in SITES if site in available)
            msg = f"Site '{site}' cannot be compared, since {reason}; choose from: {listed}."
            raise InputError(msg)
    return tuple(site for site in SITES if site in (available if requested is None else requested))


def most_heads(model: Any, sites: Sequence[str]) -> int:
    """The heads of the layer that has most of them, among these sites."""
    return max(at.heads for at in attention_modules(model) if at.site in sites)


def observe(
    model: Any,
    sentences: Sentences,
    sites: Sequence[str],
    receive: Callable[[Observed], None],
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
) -> None:
    """Hands every layer of `sites` to `receive` for every batch, as soon as it is computed.

    The decoder reads the translations (teacher forcing). Nothing is kept: memory does not depend
    on the number of sentences or layers.

    Raises:
        InputError: the model attends otherwise than by plain full attention.
    """
    plan = getattr(model, "attention_plan", None)
    otherwise = plan is not None and any(entry != Full() for entry in plan.entries.values())
    if otherwise or holds_installed(model):
        msg = "Mechanisms are compared with full attention: give a run or a model that has it."
        raise InputError(msg)
    watching: dict[str, Mechanism] = {site: _Observer(site) for site in sites}
    with eval_mode(model), use(model, watching) as installed, torch.no_grad():
        watched = [(p, mechanism_of(p.module)) for p in installed.modules if p.site in sites]
        observers = [(at, part) for at, part in watched if isinstance(part, _Observer)]
        cells = max(at.heads for at, _ in observers)
        rules = layer_rules(model)
        for batch in sentences.batches(
            batch_size, cells, most_weights=MOST_OBSERVED_WEIGHTS, progress=progress
        ):
            axes = sentences.axes(batch, model.device)
            if set(sites) == {"encoder"}:
                axes = {"source": axes["source"]}
            for at, observer in observers:
                observer.rules = rules[at.site, at.layer]
                observer.waiting = [
                    partial(
                        _hand_on, receive=receive, observer=observer, layer=layer,
                        site=at.site, batch=batch, axes=axes,
                    )
                    for layer in at.layers
                ]  # fmt: skip
            forward(model, axes, with_weights=False)
            for at, observer in observers:
                if observer.waiting:
                    layer = at.layers[-len(observer.waiting)]
                    msg = (
                        f"The model did not use {at.site} layer {layer}; its heads cannot "
                        "be compared."
                    )
                    raise InputError(msg)


def _hand_on(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Context,
    *,
    receive: Callable[[Observed], None],
    observer: "_Observer",
    site: str,
    layer: int,
    batch: Sequence[Sentence],
    axes: dict[Side, Axis],
) -> None:
    """The layer with the weights of full attention, to whoever wants it."""
    queries, keys = sides_of(site, axes)
    query, key, value = (part.double() for part in (query, key, value))
    bias = None if context.bias is None else context.bias.double()
    scoring = context.scoring
    matrix = observer.implied_matrix(query, key, keys.real, bias=bias, scoring=scoring)
    receive(
        Observed(
            site=site,
            layer=layer,
            query=query,
            key=key,
            value=value,
            visible=keys.real,
            real_queries=queries.real,
            token_ids=keys.ids,
            weights=matrix * queries.real[:, None, :, None],
            sentences=tuple(sentence.number for sentence in batch),
            bias=bias,
            scoring=scoring,
        )
    )


class _Observer(FullAttention):
    """Full attention that hands queries, keys and values on, once a batch for each of its layers."""

    name: ClassVar[str] = "observer"

    def __init__(self, site: str) -> None:
        super().__init__(Full(), Setup(causal=site == "decoder", cross=site == "cross"))
        self.waiting: list[HandOn] = []
        self.rules: frozenset[ScoreRule] = frozenset()

    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Values mixed by full attention."""
        if context.bias is not None and "bias" not in self.rules and not bool(context.bias.any()):
            context = replace(context, bias=None)
        unforeseen = rules_told(context.bias, context.scoring) - self.rules
        if unforeseen:
            rule = RULES_IN_WORDS[min(unforeseen)]
            msg = (
                f"This model {rule}, which its configuration does not say, and not every mechanism can; "
                "its heads cannot be compared."
            )
            raise InputError(msg)
        if not self.waiting:
            msg = (
                "This model computes attention more often than it has layers (a layer that is used again, or "
                "several products in one), so its heads cannot be compared."
            )
            raise InputError(msg)
        self.waiting.pop(0)(query, key, value, context)
        return super().mix(query, key, value, context)
