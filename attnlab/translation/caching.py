"""Which attention can decode one token at a time from kept keys and values."""

from torch import nn

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import MultiHeadAttention
from attnlab.errors import InputError


def first_uncached(module: nn.Module) -> Mechanism | None:
    """The first mechanism of a decoder that cannot decode with a cache; None when all can.

    Mechanisms say so by their trait `cached`; those that choose keys by token cannot either where
    keys are target tokens, since a cache keeps no token ids.
    """
    for part in module.modules():
        if isinstance(part, MultiHeadAttention):
            for mechanism in part.mechanism.modules():
                if isinstance(mechanism, Mechanism) and not _decodes(mechanism):
                    return mechanism
    return None


def refuse_uncached(module: nn.Module) -> None:
    """Raises InputError where a mechanism of the decoder cannot decode with a cache."""
    found = first_uncached(module)
    if found is not None:
        msg = (
            f"The mechanism '{found.name}' cannot decode with a cache of keys and values; call the "
            "model with use_cache=False (generate does by itself when use_cache is not given)."
        )
        raise InputError(msg)


def _decodes(mechanism: Mechanism) -> bool:
    by_token = mechanism.causal and getattr(mechanism, "uses_tokens", False)
    return mechanism.traits.cached and not by_token
