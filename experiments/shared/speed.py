"""What benchmarks measure by: seconds of both clocks, peak memory of a process, and text of random words."""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def word_tokenizer(types: int) -> PreTrainedTokenizerFast:
    """Words w0, w1, ...; [CLS] before and [SEP] behind a sentence."""
    words = [*SPECIAL, *(f"w{number}" for number in range(types))]
    inner = Tokenizer(models.WordLevel({t: n for n, t in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )


def timed(name: str, work: Callable[[], object]) -> dict[str, float]:
    """Seconds of the processor and of the clock that something takes, as columns of that name."""
    start = time.process_time(), time.perf_counter()
    work()
    return {
        f"{name}_cpu_seconds": time.process_time() - start[0],
        f"{name}_seconds": time.perf_counter() - start[1],
    }


def add_peak_option(parser: argparse.ArgumentParser) -> None:
    """The option by which `peak_bytes` starts the script again, in a process of its own."""
    parser.add_argument("--peak-of", type=int, help=argparse.SUPPRESS)


def peak_bytes(script: str, count: int) -> int:
    """Most bytes that a process of its own holds while the script works on so many sentences."""
    command = [sys.executable, script, "--peak-of", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def print_peak() -> None:
    """Prints the most bytes that this process has held, for `peak_bytes` to read."""
    unit = 1 if sys.platform == "darwin" else 1024
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
