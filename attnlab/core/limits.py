"""Limits on lengths and sizes, with defaults: what is beyond one is refused before the work starts.

docs/limits.md lists them.
"""

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnlab.core.errors import InputError

if TYPE_CHECKING:
    import torch

GIGABYTE = 10**9
LARGEST_NUMBER = 2**63 - 1
"""Of 64 bits: no number of an option or in a file is larger."""
LARGEST_SEED = 2**32 - 1
"""What numpy takes; torch takes more."""
LONGEST_TEXT = 1_000_000
"""Tokens: no window or list of keys of a mechanism is longer."""
MOST_BEAMS = 1000
"""Hypotheses of a translation that are kept at each step."""
MOST_FEATURES = 2**16
"""Of a kernel of feature vectors."""
MOST_LAYERS = 10_000
"""And heads of a layer: no model has more."""
_COUNT, _WIDTH = range(MOST_LAYERS + 1), range(1, 1_000_001)
_TYPES, _POSITIONS = range(10_000_001), range(20_000_001)
SIZES: Mapping[str, range] = {
    "num_labels": range(1_000_001),
    **dict.fromkeys(
        ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers",
         "num_decoder_layers", "num_attention_heads", "num_key_value_heads", "num_heads", "n_head", "n_heads",
         "encoder_attention_heads", "decoder_attention_heads"), _COUNT,
    ),
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "intermediate_size", "n_inner", "d_ff",
         "d_kv", "d_inner", "head_dim", "hidden_dim", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim",
         "feed_forward"), _WIDTH,
    ),
    **dict.fromkeys(
        ("vocab_size", "source_vocab_size", "decoder_vocab_size", "type_vocab_size"), _TYPES
    ),
    **dict.fromkeys(
        ("max_position_embeddings", "max_positions", "n_positions", "n_ctx"), _POSITIONS
    ),
    # Frames of audio, each of which becomes a token here, and tokens of its transcript.
    **dict.fromkeys(("max_source_positions", "max_target_positions"), range(1, 100_001)),
    "median_filter_width": range(1, 1001, 2),
}  # fmt: skip
"""Sizes in the configuration of a model, by the names that transformers has for them."""
TOKEN_IDS = range(-1000, 10_000_001)
"""Of special tokens; some models have negative ones for what is in no vocabulary."""
MOST_POSITION_ENTRIES = 2**23
"""Of a table of sinusoidal positions that transformers fills number by number in Python."""


@dataclass(frozen=True)
class Limit:
    """A largest length or size.

    Attributes:
        variable: environment variable that raises or lowers it.
        default: its value where that is not set.
        unit: what is counted.
    """

    variable: str
    default: int
    unit: str

    def value(self) -> int:
        """The limit in force: that of the environment variable, or the default.

        Raises:
            InputError: the environment variable is no whole number from 1 up.
        """
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default
        if not text.isdecimal() or int(text) < 1:
            msg = f"The environment variable {self.variable} must be a whole number from 1 up, not '{text}'."
            raise InputError(msg)
        return int(text)

    def refuse(self, count: int, where: str) -> None:
        """Raises InputError where `count` is beyond the limit; `where` is what has so many."""
        limit = self.value()
        if count > limit:
            msg = (
                f"{where} has {count:,} {self.unit}, beyond the limit of {limit:,}; shorten it, or set "
                f"{self.variable}={count}."
            )
            raise InputError(msg)


LINE = Limit("ATTNLAB_LINE_LETTERS", 1_000_000, "letters")
"""A line of a text file."""
WORD = Limit("ATTNLAB_WORD_LETTERS", 10_000, "letters in one word")
"""What stands between two spaces in a sentence."""
SAME_WORDS = Limit("ATTNLAB_WORD_PAIRS", 10_000, "pairs of the same word")
"""Two contexts of a word each, in the texts that are inspected."""
BLANK = Limit("ATTNLAB_BLANK_LINES", 100_000, "blank lines in a row")
"""In a text file: readers keep blank lines until it shows whether they are the last ones."""
FILE = Limit("ATTNLAB_FILE_BYTES", 16 * GIGABYTE, "bytes")
"""A text file; of one that ends in .gz, its unpacked content."""


def check_word_length(text: str, where: str) -> None:
    """Raises InputError for a sentence with a word beyond the limit `WORD`."""
    if len(text) > WORD.value():
        WORD.refuse(max(map(len, text.split()), default=0), where)


def free_bytes(device: "torch.device | str") -> int:
    """The memory that can be had now, of this machine and below the limit of the process, or of a GPU."""
    if str(device).startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[0]
    import psutil

    free = int(psutil.virtual_memory().available)
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return free
    return max(min(free, limit - int(psutil.Process().memory_info().vms)), 0)


def check_memory(
    needed: int | float,
    what: str,
    advice: str,
    *,
    memory: int | float | None = None,
    device: "torch.device | str" = "cpu",
) -> None:
    """Refuses work that needs more memory than there is.

    Args:
        needed: bytes.
        what: needs them, to begin the sentence.
        advice: what to do, to end it.
        memory: the most in GB; None: what is free.
        device: where they are needed.

    Raises:
        InputError: it needs more.
    """
    available = _available_bytes(memory, device)
    if needed > available:
        limit = "are free" if memory is None else "are allowed"
        msg = f"{what} needs {_gigabytes(needed)} of memory, and {_gigabytes(available)} {limit}; {advice}."
        raise InputError(msg)


def exceeds_memory(
    needed: int | float, *, memory: int | float | None = None, device: "torch.device | str" = "cpu"
) -> bool:
    """Whether `check_memory` would refuse so many bytes."""
    return needed > _available_bytes(memory, device)


def _available_bytes(memory: int | float | None, device: "torch.device | str") -> int | float:
    return free_bytes(device) if memory is None else memory * GIGABYTE


def _gigabytes(count: int | float) -> str:
    size = count / GIGABYTE
    # What is small must not read as nothing.
    return f"{size:,.1f} GB" if size >= 0.1 else f"{size:.2g} GB"
