"""What other projects mean by "window", as attnlab's (left, right): inclusive counts of keys on each side.

attnlab stores `(left, right)` and nothing else; an option copied from elsewhere goes through one of
these. BigBird has no entry: the reach of its three blocks of b tokens changes within a block, from
b to 2b - 1 on either side.
"""

from attnlab.attention.specification import Window
from attnlab.errors import InputError


def thesis(w: int) -> Window:
    """The thesis's w-band: w on each side, 2w + 1 keys."""
    return (w, w)


def transformers_longformer(attention_window: int) -> Window:
    """`attention_window` of transformers' Longformer and LED: an even total, half on each side.

    Raises:
        InputError: the total is odd or not positive.

    >>> transformers_longformer(512)
    (256, 256)
    """
    if attention_window <= 0 or attention_window % 2:
        msg = f"Longformer's attention_window is a positive even number, not {attention_window}."
        raise InputError(msg)
    return (attention_window // 2, attention_window // 2)


def allenai_longformer(attention_window: int) -> Window:
    """`attention_window` of allenai/longformer: on each side."""
    return (attention_window, attention_window)


def fast_transformers_local(local_context: int) -> Window:
    """`local_context` of idiap/fast-transformers: the total, the query's own key among them.

    >>> fast_transformers_local(4)
    (2, 1)
    """
    return (local_context // 2, (local_context - 1) // 2)


def local_attention(window_size: int, *, causal: bool) -> Window:
    """`window_size` of lucidrains/local-attention with `exact_windowsize`: on each side it looks to."""
    return (window_size, 0 if causal else window_size)


def transformers_causal_sliding(sliding_window: int) -> Window:
    """`sliding_window` of transformers' causal models: the total, the query's own key among them."""
    return (sliding_window - 1, 0)


def transformers_bidirectional_sliding(sliding_window: int) -> Window:
    """`sliding_window` of transformers' bidirectional models: on each side."""
    return (sliding_window, sliding_window)


def attention_gym_sliding(window_size: int) -> Window:
    """`window_size` of attention-gym's causal sliding window: how far it looks back."""
    return (window_size, 0)
