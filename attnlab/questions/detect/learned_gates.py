"""A gate for each head of a decoder between all keys and first and recent ones, learned by distillation.

::

    weights = a * (over all keys) + (1 - a) * (over first and recent keys),    0 <= a <= 1
    minimised: mean of (state - state of the model itself)^2 + penalty * sum of a

The states are those behind the last layer at the rows that predict the needle, all their dimensions. Where a
gate stays open the head retrieves, where it closes it streams. Source: Xiao et al. 2024 (DuoAttention, arXiv
2410.10819), whose gates are those of key-value heads; their start, penalty and learning rate are taken.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention import (
    Context,
    Full,
    FullAttention,
    Scoring,
    Setup,
    attention_modules,
    mechanisms_in,
    use,
)
from attnlab.core import layer_name
from attnlab.evaluation import final_states
from attnlab.questions.detect.planted import Planted
from attnlab.questions.detect.question import NEEDLE
from attnlab.reading import Reading, inputs_of, ready_to_show

LEARNING_RATE = 0.02


class Gated(FullAttention):
    """Full attention and attention to first and recent keys, mixed by a gate for each head."""

    def __init__(self, heads: int, window: tuple[int, int]) -> None:
        super().__init__(Full(), Setup(causal=True))
        self.window = window
        self.gates = nn.Parameter(torch.ones(heads))

    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values; the gradient of the gates goes through whole matrices."""
        return self.matrix(query, key, context) @ value

    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """Weights of both, mixed."""
        first, recent = self.window
        queries, keys = query.shape[-2], key.shape[-2]
        position = torch.arange(keys, device=query.device)
        query_position = context.first_query + torch.arange(queries, device=query.device)[:, None]
        allowed = (position < first) | (position > query_position - recent)
        scoring = context.scoring or Scoring()
        if scoring.allowed is not None:
            allowed = allowed & scoring.allowed
        # Those of a model's own mask may differ from text to text.
        allowed = allowed if allowed.ndim == 4 else allowed.expand(1, 1, queries, keys)
        streaming = replace(context, scoring=replace(scoring, allowed=allowed))
        gates = self.gates[:, None, None]
        every = super().matrix(query, key, context)
        return gates * every + (1 - gates) * super().matrix(query, key, streaming)


def learned_gates(
    reading: Reading,
    planted: Planted,
    window: tuple[int, int],
    *,
    steps: int,
    penalty: float,
    batch_size: int,
    progress: Callable[[int, int], None],
) -> dict[int, Float[Tensor, " head"]]:
    """The gates of every layer of the decoder after so many steps, each on a batch of texts.

    Args:
        reading: the model, left as it is.
        planted: texts with needles.
        window: how many first and how many recent keys.
        steps: how many.
        penalty: price of an open gate.
        batch_size: texts in a step.
        progress: called with steps done and all.

    Raises:
        InputError: the model's attention cannot be replaced.

    Cost: a pass forward and one back for each step, with whole matrices.
    """
    model = reading.model
    rows = planted.targets["decoder"][0][NEEDLE.name].rows.to(model.device)
    batches = [
        inputs_of(model, planted.sentences.axes(batch, model.device))
        for batch in planted.sentences.batches(batch_size, weights_a_cell=1)
    ]
    with ready_to_show(model):
        with torch.no_grad():
            ungated = [final_states(model, batch)[:, rows] for batch in batches]
        gated = {
            layer_name("decoder", at.layer): Gated(at.heads, window)
            for at in attention_modules(model)
            if at.site == "decoder"
        }
        with use(model, gated), torch.enable_grad():
            made = {at.layer: part for at, part in mechanisms_in(model) if isinstance(part, Gated)}
            gates: list[Tensor] = [part.gates for part in made.values()]
            optimizer = torch.optim.Adam(gates, lr=LEARNING_RATE)
            for step in range(steps):
                at = step % len(batches)
                apart = final_states(model, batches[at])[:, rows] - ungated[at]
                loss = (apart**2).mean() + penalty * torch.cat(gates).sum()
                for gate, slope in zip(gates, torch.autograd.grad(loss, gates), strict=True):
                    gate.grad = slope
                optimizer.step()
                for gate in gates:
                    gate.data.clamp_(0, 1)
                progress(step + 1, steps)
    return {layer: gate.detach().float().cpu() for layer, gate in zip(made, gates, strict=True)}
