"""Label-smoothed cross-entropy straight from the last hidden states, without holding all logits."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

CHUNK_LOGITS = 1 << 20


def plain_cross_entropy(
    hidden: Float[Tensor, "token dim"],
    weight: Float[Tensor, "type dim"],
    target: Int[Tensor, " token"],
    *,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Sum over tokens of the label-smoothed cross-entropy, in nats; the reference form.

    ::

        loss = sum_t [ -(1 - smoothing) log p_t(target_t) - smoothing / V sum_v log p_t(v) ]

    The smoothed share goes to all V types evenly (not to the V - 1 wrong ones). Cost: holds
    token x type logits. Source: Szegedy et al. 2016, section 7; math.md section 8.
    """
    return F.cross_entropy(hidden @ weight.T, target, reduction="sum", label_smoothing=smoothing)


def chunked_cross_entropy(
    hidden: Float[Tensor, "token dim"],
    weight: Float[Tensor, "type dim"],
    target: Int[Tensor, " token"],
    *,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The same sum as `plain_cross_entropy`, a few tokens at a time, gradients in the same pass.

    Logits of about a million entries are held at once, so they stay in the processor's cache and
    memory does not grow with the vocabulary times the batch. Under autocast the products are
    computed in its lower precision and everything else in float32.
    """
    return _ChunkedCrossEntropy.apply(hidden, weight, target, smoothing)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Computes the gradient while the logits are at hand, and scales it in backward."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float
    ) -> Tensor:
        device = hidden.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        with torch.autocast(device, enabled=False):
            states = hidden.to(low) if low else hidden
            types = weight.to(low) if low else weight
            exact = torch.float32 if low else hidden.dtype
            needs = any(ctx.needs_input_grad[:2])
            total = torch.zeros((), dtype=exact, device=hidden.device)
            hidden_gradient = torch.zeros_like(states) if needs else None
            weight_gradient = torch.zeros(weight.shape, dtype=exact, device=weight.device)
            size = max(1, CHUNK_LOGITS // weight.shape[0])
            for start in range(0, hidden.shape[0], size):
                rows = slice(start, start + size)
                loss, gradient = _loss_and_gradient(
                    (states[rows] @ types.T).to(exact), target[rows], smoothing
                )
                total += loss
                if hidden_gradient is not None:
                    gradient = gradient.to(types.dtype)
                    hidden_gradient[rows] = gradient @ types
                    weight_gradient += gradient.T @ states[rows]
        if hidden_gradient is not None:
            ctx.save_for_backward(
                hidden_gradient.to(hidden.dtype), weight_gradient.to(weight.dtype)
            )
        return total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        return hidden_gradient * scale, weight_gradient * scale, None, None


def _loss_and_gradient(logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Loss and its gradient in the logits, softmax - (1 - smoothing) onehot - smoothing / V."""
    types = logits.shape[-1]
    log_total = logits.logsumexp(-1)
    right = logits.gather(-1, target[:, None]).squeeze(-1)
    loss = log_total.sum() - (1 - smoothing) * right.sum()
    if smoothing:
        loss = loss - smoothing / types * logits.sum()
    gradient = logits.sub_(log_total[:, None]).exp_()
    if smoothing:
        gradient.sub_(smoothing / types)
    rows = torch.arange(len(target), device=target.device)
    gradient[rows, target] -= 1 - smoothing
    return loss, gradient
