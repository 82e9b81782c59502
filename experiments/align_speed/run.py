"""What aligning a corpus costs on top of the model: time against a bare teacher-forced pass, and peak memory.

Two cases: heads of the first decoder layer, behind which nothing of the model need run, and of the last.

    OMP_NUM_THREADS=1 python experiments/align_speed/run.py

writes benchmarks/align_speed/.
"""

import argparse
import platform
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import torch
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from attnlab.alignment import AlignmentHeads, write_heads
from attnlab.core import write_table, write_text
from attnlab.evaluation import evaluator_of
from attnlab.models import Model
from attnlab.questions.align.aligning import align
from attnlab.questions.align.corpus_links import PART
from attnlab.reading import read_sentences
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
PAIRS, ROUNDS, BATCH = 10_000, 5, 32
SHORTEST, LONGEST = 8, 40
TYPES = 5_000
MEMORY_PAIRS = (10_000, 40_000)
LAYERS, HEADS, DIM = 3, 4, 256
TARGET_RATIO, TARGET_GROWTH = 1.3, 1.1
# What aligning is measured against: a whole pass, and one of the layers alone.
BARE = ("bare", "layers")
# The decoder layer whose heads align, by case.
CASES = {"first": 0, "last": LAYERS - 1}


def build_model(types: int) -> MarianMTModel:
    """A translation model with random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        config = MarianConfig(
            vocab_size=types, d_model=DIM, encoder_layers=LAYERS, decoder_layers=LAYERS,
            encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=4 * DIM,
            decoder_ffn_dim=4 * DIM, max_position_embeddings=128, pad_token_id=0, eos_token_id=3,
            decoder_start_token_id=0, forced_eos_token_id=3, bos_token_id=2,
        )  # fmt: skip
        return MarianMTModel(config).eval()


def draw_pairs(count: int) -> Iterator[tuple[str, str]]:
    """Sentences of random words, source and target each of a length of its own."""
    generator = random.Random(SEED)

    def sentence() -> str:
        words = generator.randint(SHORTEST, LONGEST)
        return " ".join(f"w{generator.randrange(TYPES)}" for _ in range(words))

    return ((sentence(), sentence()) for _ in range(count))


def write_pairs(file: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """A line a pair, source, tab, target."""
    write_text(file, "".join(f"{source}\t{target}\n" for source, target in pairs))


def heads_of(folder: Path, layer: int, checksum: str) -> Path:
    """A file with two heads of a layer."""
    path = folder / f"heads_{layer}.json"
    heads = AlignmentHeads(
        heads=((layer, 0), (layer, 2)), row="input", from_word="mean", rule="target", layers=LAYERS,
        heads_per_layer=HEADS, model="random weights", checksum=checksum, chosen_by="nothing", sentences=0,
    )  # fmt: skip
    write_heads(path, heads)
    return path


def write_links(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerFast, pairs: Path, layer: int
) -> None:
    """The links of all pairs by heads of a layer, beside the pairs."""
    checksum = Model(model, tokenizer).checksum
    heads, links = heads_of(pairs.parent, layer, checksum), pairs.with_suffix(".pharaoh")
    align((model, tokenizer), pairs, heads=heads, links=links, overwrite=True, batch_size=BATCH)


def measure_time(count: int) -> pd.DataFrame:
    """One row a round: seconds, bare and of each case, of the same pairs."""
    tokenizer = word_tokenizer(TYPES)
    model = build_model(len(tokenizer))
    share, drawn, rows = count // ROUNDS, list(draw_pairs(count)), []
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.tsv"
        for part in range(-1, ROUNDS):
            # The first call of everything is slow, so one round goes before those that count.
            own = drawn[:share] if part < 0 else drawn[part * share : (part + 1) * share]
            write_pairs(file, own)
            row: dict[str, float] = {"round": part, "pairs": len(own)}
            row |= seconds_of_bare(model, tokenizer, own)
            for name, layer in CASES.items():
                row |= timed(name, partial(write_links, model, tokenizer, file, layer))
                for against in BARE:
                    for clock in ("cpu_seconds", "seconds"):
                        ratio = row[f"{name}_{clock}"] / row[f"{against}_{clock}"]
                        row[f"{name}_over_{against}_{clock.removesuffix('seconds')}ratio"] = ratio
            rows.append(row)
    return pd.DataFrame(rows[1:])


def seconds_of_bare(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerFast, pairs: list[tuple[str, str]]
) -> dict[str, float]:
    """Teacher-forced passes over batches that are ready to be read, on torch's fused attention.

    Whole, and of the layers alone: without scores of the vocabulary, and without a cache for decoding.
    """
    loaded = Model(model, tokenizer)
    batches = evaluator_of(loaded, read_sentences(loaded, pairs), BATCH).batches

    def read(run: Callable[..., object]) -> None:
        with torch.inference_mode():
            for batch in batches:
                run(**batch.inputs)

    return timed("bare", partial(read, model)) | timed(
        "layers", partial(read, partial(model.base_model, use_cache=False))
    )


def work_for_peak(pairs: int) -> None:
    """What the process does whose memory is measured."""
    tokenizer = word_tokenizer(TYPES)
    model = build_model(len(tokenizer))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.tsv"
        write_pairs(file, draw_pairs(pairs))
        write_links(model, tokenizer, file, CASES["first"])


def main() -> None:
    """Measures and writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "align_speed")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="for a quick try: fewer")
    add_peak_option(parser)
    options = parser.parse_args()
    if options.peak_of is not None:
        work_for_peak(options.peak_of)
        print_peak()
        return
    times = measure_time(options.pairs)
    memory = pd.DataFrame(
        [(count, peak_bytes(__file__, count)) for count in MEMORY_PAIRS],
        columns=["pairs", "peak_bytes"],
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
        {
            "name": name,
            "against": against,
            "cpu": times[f"{name}_over_{against}_cpu_ratio"],
            "clock": times[f"{name}_over_{against}_ratio"],
        }
        for name in CASES
        for against in BARE
    ]
    return render(
        __file__, read_facts(folder), cases=cases, few=memory.iloc[0], many=memory.iloc[1],
        rounds=ROUNDS, pairs=times["pairs"].sum(), shortest=SHORTEST, longest=LONGEST, batch=BATCH,
        layers=LAYERS, heads=HEADS, dim=DIM, types=TYPES, seed=SEED, target_ratio=TARGET_RATIO,
        target_growth=TARGET_GROWTH, part=PART,
    )  # fmt: skip


if __name__ == "__main__":
    main()
