"""Longformer's second projections: rows of global tokens have queries, keys and values of their own."""

import copy

import torch
from torch import Tensor, nn

from attnlab.attention.mechanism import Context, Mechanism
from attnlab.attention.mechanisms.longformer import LongformerAttention
from attnlab.attention.padding import without_padding
from attnlab.core.errors import InputError


class GlobalRows(nn.Module):
    """Projections for the rows of global tokens, which start as copies of the first ones.

    Raises:
        InputError: the mechanism has no global tokens.
    """

    def __init__(
        self, mechanism: Mechanism, query: nn.Linear, key: nn.Linear, value: nn.Linear
    ) -> None:
        super().__init__()
        if not _has_global_tokens(mechanism):
            msg = (
                "Only a 'longformer' with global_tokens has rows to project apart, not this "
                f"'{mechanism.name}'."
            )
            raise InputError(msg)
        self.query, self.key, self.value = (copy.deepcopy(layer) for layer in (query, key, value))

    @staticmethod
    def check_globals(mechanism: Mechanism, address: str) -> None:
        """Raises when a mechanism that is to stand at `address` has no global tokens.

        Raises:
            InputError: see above.
        """
        if not _has_global_tokens(mechanism):
            msg = (
                f"{address} projects the rows of global tokens apart, and this '{mechanism.name}' has "
                "none; put a longformer with global_tokens there, or take a model without "
                "global_projections."
            )
            raise InputError(msg)

    def replaced(
        self,
        mechanism: Mechanism,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        context: Context,
        *,
        mixed: Tensor,
        matrix: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Mixed values and weights with the rows of global tokens taken from these projections."""
        if not isinstance(mechanism, LongformerAttention):
            msg = "The mechanism was replaced by one without global tokens; build the module anew."
            raise InputError(msg)
        query, key = mechanism.real_tokens(query, key, context.visible, context.first_query)
        value = without_padding(value, context.visible)
        mixed = mechanism.with_global_rows(mixed, query, key, value, context)
        if matrix is not None:
            identity = torch.eye(key.shape[-2], dtype=value.dtype, device=value.device)
            every = identity.expand(*key.shape[:2], -1, -1)
            matrix = mechanism.with_global_rows(matrix, query, key, every, context)
        return mixed, matrix


def _has_global_tokens(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, LongformerAttention) and mechanism.global_rows() > 0
