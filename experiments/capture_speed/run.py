"""What capture costs on top of the model: time against a bare forward pass, and peak memory.

Two cases: all statistics, and the statistics together with the counts behind every label.

    OMP_NUM_THREADS=1 python experiments/capture_speed/run.py

writes benchmarks/capture_speed/.
"""

import argparse
import platform
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from transformers import BertConfig, BertModel

from attnlab.core import write_table
from attnlab.labels import HeadFunctions, TextSide
from attnlab.models import Model
from attnlab.reading import Consumer, HeadStatistics, prepare, read_sentences
from experiments.shared.readme import (
    BENCHMARKS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.speed import add_peak_option, peak_bytes, print_peak, timed, word_tokenizer

SEED = 0
SENTENCES, TOKENS, BATCH = 2_000, 24, 32
ROUNDS = 8
MEMORY_SENTENCES = (500, 5_000)
TYPES = 5_000
# The shape of MiniLM-L6: 6 layers of 12 heads.
SHAPE = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1_536,
}
TARGET_RATIO, TARGET_GROWTH = 1.3, 1.1


def build_model(types: int) -> BertModel:
    """A BERT with random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        config = BertConfig(vocab_size=types, attn_implementation="eager", **SHAPE)
        return BertModel(config).eval()


def draw_sentences(count: int) -> list[str]:
    """Random words; with the special tokens each sentence has `TOKENS` tokens."""
    generator = random.Random(SEED)
    return [
        " ".join(f"w{generator.randrange(TYPES)}" for _ in range(TOKENS - 2)) for _ in range(count)
    ]


def statistics_alone(types: int) -> list[Consumer]:  # noqa: ARG001 - as the other case
    """What `capture` counts."""
    return [HeadStatistics()]


def statistics_and_functions(types: int) -> list[Consumer]:
    """What `analyze --labels` counts of a model of one stack in its first pass, without gold trees."""
    generator = torch.Generator().manual_seed(SEED)
    counts = torch.randint(1, 10_000, (types,), generator=generator)
    return [HeadStatistics(), HeadFunctions(TextSide(counts))]


CASES: dict[str, Callable[[int], list[Consumer]]] = {
    "capture": statistics_alone,
    "labels": statistics_and_functions,
}


WORDS = {
    "capture": "capture with all statistics",
    "labels": "capture with all statistics and the counts behind the labels",
}


def measure_time(count: int) -> pd.DataFrame:
    """One row a round: seconds of processor and of clock, bare and of each case, on the same sentences."""
    tokenizer = word_tokenizer(TYPES)
    model = build_model(len(tokenizer))
    sentences = draw_sentences(count)
    share = count // ROUNDS
    for consumers in CASES.values():  # the first call of everything is slow
        prepare((model, tokenizer), sentences[:BATCH]).feed(consumers(len(tokenizer)))
    rows = []
    for part in range(ROUNDS):
        texts = sentences[part * share : (part + 1) * share]
        row: dict[str, float] = {"round": part, "sentences": len(texts)}
        row |= seconds_of_bare(model, tokenizer, texts)
        for name, consumers in CASES.items():
            fed = consumers(len(tokenizer))
            row |= timed(name, partial(read_all, model, tokenizer, texts, fed))
            row[f"{name}_cpu_ratio"] = row[f"{name}_cpu_seconds"] / row["bare_cpu_seconds"]
            row[f"{name}_clock_ratio"] = row[f"{name}_seconds"] / row["bare_seconds"]
        rows.append(row)
    return pd.DataFrame(rows)


def read_all(
    model: BertModel, tokenizer: object, texts: list[str], consumers: list[Consumer]
) -> None:
    """What is timed: from texts to counts."""
    prepare((model, tokenizer), texts).feed(consumers, batch_size=BATCH)


def seconds_of_bare(model: BertModel, tokenizer: object, texts: list[str]) -> dict[str, float]:
    """The model alone over the batches that capture makes, ready to be read."""
    sentences = read_sentences(Model(model, tokenizer), texts)
    heads = SHAPE["num_attention_heads"]
    work = [
        sentences.source.axis([sentence.source for sentence in batch], model.device)
        for batch in sentences.batches(BATCH, weights_a_cell=heads)
    ]

    def read() -> None:
        with torch.inference_mode():
            for axis in work:
                model(input_ids=axis.ids, attention_mask=axis.real.long())

    return timed("bare", read)


def work_for_peak(sentences: int) -> None:
    """What the process does whose memory is measured."""
    tokenizer = word_tokenizer(TYPES)
    model, consumers = build_model(len(tokenizer)), statistics_and_functions(len(tokenizer))
    prepare((model, tokenizer), draw_sentences(sentences)).feed(consumers, batch_size=BATCH)


def main() -> None:
    """Measures and writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "capture_speed")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="for a quick try: fewer")
    add_peak_option(parser)
    options = parser.parse_args()
    if options.peak_of is not None:
        work_for_peak(options.peak_of)
        print_peak()
        return
    times = measure_time(options.sentences)
    memory = pd.DataFrame(
        [(count, peak_bytes(__file__, count)) for count in MEMORY_SENTENCES],
        columns=["sentences", "peak_bytes"],
    )
    write_table(options.out / "table.csv", times)
    write_table(options.out / "memory.csv", memory)
    write_facts(
        options.out, __file__, "torch", "transformers",
        threads=torch.get_num_threads(), machine=platform.machine(),
    )  # fmt: skip
    write_readme(options.out, readme(options.out))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    times, memory = read_table(folder, "table"), read_table(folder, "memory")
    cases = [
        {"words": words, "cpu": times[f"{name}_cpu_ratio"], "clock": times[f"{name}_clock_ratio"]}
        for name, words in WORDS.items()
    ]
    return render(
        __file__, read_facts(folder), cases=cases, few=memory.iloc[0], many=memory.iloc[1],
        rounds=ROUNDS, sentences=times["sentences"].sum(), tokens=TOKENS, batch=BATCH, shape=SHAPE,
        seed=SEED, target_ratio=TARGET_RATIO, target_growth=TARGET_GROWTH,
    )  # fmt: skip


if __name__ == "__main__":
    main()
