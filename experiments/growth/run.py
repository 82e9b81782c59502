"""How time and memory of train, analyze, align and compare grow with sentences, tokens and heads.

    python experiments/growth/run.py [--most-pairs N]

writes benchmarks/growth/. Every measurement is a process of its own; those that the tables have already are
not made again. Linux only: memory is read from /proc.
"""

import argparse
import json
import math
import platform
import random
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import psutil
from transformers import TrainerCallback

from attnlab.core import quiet
from experiments.shared.readme import (
    BENCHMARKS,
    known_models,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = BENCHMARKS / "growth"
SEED = 0
TYPES = 500
# Steps so large that they are above what is paid once and what others on the machine disturb.
FACTOR = 4
STEPS = (0, 1, 2)
SENTENCES = {"train": 4_000, "analyze": 200, "align": 400, "compare": 200}
# Settings of a comparison are tried on every sentence, so it begins with shorter ones.
TOKENS = {"train": 32, "analyze": 32, "align": 32, "compare": 16}


def first_size(question: str, grows: str) -> dict[str, int]:
    """The smallest size from which one part grows: fewer texts where they become long, one head at first."""
    few = SENTENCES[question] // (FACTOR if grows == "tokens" else 1)
    return {"sentences": few, "tokens": TOKENS[question], "heads": 1 if grows == "heads" else 4}


# The highest exponents of time and of memory that the algorithms have, and why.
MOST: dict[str, dict[str, tuple[float, float, str]]] = {
    "train": {
        "sentences": (1, 1, "a pass over the pairs, in batches; up to 100,000 are in memory"),
        "tokens": (2, 1, "as many pairs; the weights of a batch of as many tokens"),
        "heads": (1, 1, "the weights of each head"),
    },
    "analyze": {
        "sentences": (1, 1, "a pass; tokens of every text, and what intervals need of it, are kept"),
        "tokens": (2, 2, "whole matrices"),
        "heads": (2, 1, "distances of all pairs of heads"),
    },
    "align": {
        "sentences": (1, 1, "a pass; the weights between words of every pair are kept to choose by"),
        "tokens": (2, 2, "whole matrices"),
        "heads": (2, 1, "heads are chosen greedily among all"),
    },
    "compare": {
        "sentences": (1, 1, "passes; tokens and losses of every text are kept"),
        "tokens": (2, 2, "whole matrices"),
        "heads": (1, 1, "candidates of each head"),
    },
}  # fmt: skip
# Exponents are read off three sizes of a process that others disturb.
TOLERANCE = 0.25
# Less growth than this share of the smallest is none.
SAME = 0.05
PAIRS = (100_000, 200_000, 1_000_000)
WORK = {"links": "align --links", "encoding": "train up to its first step"}
KEYS = ("question", "grows", "sentences", "tokens", "heads")


def main() -> None:
    """Measures what is not in the tables yet, and writes them with the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most-pairs", type=int, default=PAIRS[-1], help="of the long corpora")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case is not None:
        case = {key: value for key, value in given.case.items() if key != "grows"}
        print(json.dumps(measured(**case)))
        return
    for case in cases():
        fill("table", case)
    for count in (count for count in PAIRS if count <= given.most_pairs):
        for work in WORK:
            size = {"sentences": count, "tokens": 12, "heads": 2}
            fill("corpora", {"question": work, "grows": "sentences", **size})
    write_facts(OUT, __file__, "torch", "transformers", machine=platform.machine())
    write_readme(OUT, readme(OUT))


def cases() -> Iterator[dict[str, Any]]:
    """Every size of every question, the smallest first along each axis."""
    for question, axes in MOST.items():
        for grows in axes:
            size = first_size(question, grows)
            for step in STEPS:
                yield {
                    "question": question,
                    "grows": grows,
                    **size,
                    grows: size[grows] * FACTOR**step,
                }


def fill(table: str, case: dict[str, Any]) -> None:
    """Measures a case in a process of its own, unless the table has it."""
    if tuple(case[key] for key in KEYS) in known_models(OUT, table, KEYS):
        return
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=OUT.parents[1]
    )
    row = json.loads(done.stdout.splitlines()[-1])
    print(case, row, flush=True)
    put_rows(OUT, table, case, pd.DataFrame([row]))


def measured(question: str, sentences: int, tokens: int, heads: int) -> dict[str, float]:
    """Processor seconds of a question, and the most memory that it takes beside what was there."""
    with TemporaryDirectory() as made, quiet():
        folder = Path(made)
        texts = write_pairs(folder / "pairs.tsv", sentences, tokens)
        work = prepared(question, folder, texts, count=sentences, tokens=tokens, heads=heads)
        before, begin = anonymous_bytes(), processor_seconds()
        with watched_memory() as most:
            work()
        seconds = processor_seconds() - begin
    return {"cpu_seconds": round(seconds, 2), "mib": round((max(most) - before) / 2**20, 1)}


def prepared(
    question: str, folder: Path, texts: Path, *, count: int, tokens: int, heads: int
) -> Callable[[], object]:
    """What is measured, with a model that was trained for a moment where the question reads one."""
    import attnlab

    if question in {"train", "encoding"}:
        settings = settings_of(texts, tokens, heads)
        callbacks = [FirstStep()] if question == "encoding" else []
        return partial(attnlab.train, folder / "run", settings, callbacks=callbacks)
    # Others than those that are read: a comparison learns from the training pairs alone.
    few = write_pairs(folder / "few.tsv", 300, tokens, SEED + 1)
    attnlab.train(folder / "run", settings_of(few, tokens, heads))
    run = folder / "run"
    if question == "analyze":
        return partial(attnlab.analyze, run, text=texts, sentences=count)
    if question == "align":
        return partial(attnlab.align, run, texts)
    if question == "links":
        chosen = attnlab.align(run, few, sentences=100).save(folder / "heads") / "heads.json"
        return partial(attnlab.align, run, texts, heads=chosen, links=folder / "links.pharaoh")
    mechanisms = ["band", "top-k"]
    return partial(
        attnlab.compare, run, text=texts, sentences=count, budgets=[5], mechanisms=mechanisms
    )


def settings_of(texts: Path, tokens: int, heads: int) -> Any:
    """A small model that reads words, trained on a file of pairs once."""
    from attnlab.models import settings_from

    return settings_from(
        {
            "corpus": {"name": str(texts), "max_tokens": tokens + 2},
            "tokenizer": {"kind": "word", "vocabulary": TYPES + 10},
            "model": {"dim": 64, "heads": heads, "feed_forward": 64},
            "optimizer": {"epochs": 1, "batch_tokens": 8192, "validation_sentences": 20, "seed": SEED},
        }
    )  # fmt: skip


class FirstStep(TrainerCallback):
    """Ends a training at its first step."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - transformers'
        """Asks for the end."""
        control.should_training_stop = True


def write_pairs(path: Path, count: int, tokens: int, seed: int = SEED) -> Path:
    """Pairs of random words, each side of as many; no two alike."""
    generator = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            source, target = (
                " ".join(f"w{generator.randrange(TYPES)}" for _ in range(tokens)) for _ in range(2)
            )
            file.write(f"{source}\t{target}\n")
    return path


def processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


@contextmanager
def watched_memory() -> Iterator[list[int]]:
    """Yields a list of what the process and its children held while the block ran, every 20 ms."""
    held, ended = [anonymous_bytes()], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            held.append(anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield held
    finally:
        ended.set()
        watcher.join()


def anonymous_bytes() -> int:
    """Memory of this process and its children without what is mapped from files.

    The system may take back what is. Of a page that a forked child shares each has its part.
    """
    own = psutil.Process()
    return sum(_anonymous_bytes(one.pid) for one in [own, *own.children(recursive=True)])


def _anonymous_bytes(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):  # It ended meanwhile.
        return 0
    # A process that ended and that none has asked for has no memory.
    return sum(
        int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss_Anon")
    )


def exponent(values: list[float]) -> float:
    """Of values at n, 4n and 16n, log4 of the ratio of their steps, which what is paid once does not change.

    0 where they grow by less than the share `SAME` in all, NaN where they do not grow throughout.

    >>> exponent([5.0, 6.0, 10.0]), exponent([1.0, 1.01, 1.0]), exponent([5.0, 4.9, 500.0])
    (1.0, 0.0, nan)
    """
    if values[-1] - values[0] <= SAME * values[0]:
        return 0.0
    first, second = (after - before for before, after in pairwise(values))
    both_grow = first > 0 and second > 0
    return round(math.log(second / first, FACTOR), 2) if both_grow else math.nan


def last_exponent(values: list[float]) -> float:
    """Log4 of the last value by the one before, in which what is paid once counts."""
    return math.nan if min(values[1:]) <= 0 else round(math.log(values[-1] / values[-2], FACTOR), 2)


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """How each question grows along each axis, beside the most that it should."""
    rows = []
    for question, axes in MOST.items():
        for axis, (time_most, memory_most, why) in axes.items():
            along = table[(table["question"] == question) & (table["grows"] == axis)].sort_values(
                axis
            )
            seconds, memory = (exponent(along[name].tolist()) for name in ("cpu_seconds", "mib"))
            unknown = math.isnan(seconds) or math.isnan(memory)
            over = seconds > time_most + TOLERANCE or memory > memory_most + TOLERANCE
            rows.append(
                {
                    "question": question, "grows": axis, "time": seconds, "time_at_most": time_most,
                    "memory": memory, "memory_at_most": memory_most, "because": why,
                    "reached": "no" if over else "not measured" if unknown else "yes",
                    "last_time": last_exponent(along["cpu_seconds"].tolist()),
                    "last_memory": last_exponent(along["mib"].tolist()),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, corpora = read_table(folder, "table"), read_table(folder, "corpora")
    corpora["work"] = corpora["question"].map(WORK)
    shown = corpora.rename(columns={"sentences": "pairs"})
    found = exponents(table)
    return render(
        __file__, read_facts(folder), exponents=found.iloc[:, :-2], missed=found[found["reached"] != "yes"],
        corpora=shown[["work", "pairs", "cpu_seconds", "mib"]],
        growth={
            WORK[str(work)]: (int(rows["sentences"].min()), int(rows["sentences"].max()),
                         float(rows["mib"].iloc[-1] / rows["mib"].iloc[0]))
            for work, rows in corpora.sort_values("sentences").groupby("question", sort=False)
        },
        tolerance=TOLERANCE, same=SAME, seed=SEED,
    )  # fmt: skip


if __name__ == "__main__":
    main()
