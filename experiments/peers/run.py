"""attnlab beside other tools, each in its own environment: capture, pages, training, decoding, bands, links.

    python experiments/peers/environments.py PEERS
    python experiments/peers/run.py ../shared/data PEERS

writes benchmarks/peers/. Every side is a process of its own with one thread; they take turns, round by
round. The translation model is trained once and stays in runs/peers/.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from attnlab.alignment import GoldLinks, aer, count_links, symmetrized
from attnlab.core import others_share, processor_times, write_table
from experiments.peers import inputs, making
from experiments.peers.environments import NAMES, versions_in
from experiments.peers.inputs import BAND, LENGTHS, PAGE_TOKENS
from experiments.shared.readme import (
    BENCHMARKS,
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import kept_run

OUT = BENCHMARKS / "peers"
ROOT = RESULTS.parent
ROUNDS = 3
# Sides that run in the environment of attnlab.
HERE = ("attnlab", "pytorch")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


class Comparison(NamedTuple):
    """What attnlab does and what a peer does for the same end.

    Attributes:
        topic: of the same inputs, and measured together.
        what: is compared, in words.
        case: of attnlab.
        side: the peer's module.
        peer_case: of the peer.
        peer: its name in words.
        why: what makes the difference.
    """

    topic: str
    what: str
    case: str
    side: str
    peer_case: str
    peer: str
    why: str


def comparisons() -> Iterator[Comparison]:
    """All of them, in the order of the table."""
    yield from _captures()
    for tokens in PAGE_TOKENS:
        for view in ("head_view", "model_view"):
            yield Comparison(
                "page", f"page of {tokens} tokens", f"page_{tokens}", "bertviz", f"{view}_{tokens}",
                f"bertviz {view}",
                "attnlab passes through the model again for queries and keys, and writes a weight as a byte; "
                "bertviz writes weights as decimal numbers",
            )  # fmt: skip
    yield from _translations()
    for tokens in LENGTHS:
        for side, case, peer, why in (
            ("local_attention", "band", "local-attention", "blocks of keys on both sides"),
            ("pytorch", "mask", "SDPA with a mask", "torch scores all pairs"),
            (
                "pytorch",
                "flex",
                "FlexAttention, compiled",
                "a kernel for the processor that skips blocks",
            ),
        ):
            yield Comparison(
                "band", f"band of {2 * BAND + 1} keys, {tokens:,} tokens", f"band_{tokens}", side,
                f"{case}_{tokens}", peer, why,
            )  # fmt: skip
    for side, why in (
        ("eflomal", "three samplers of an HMM with fertilities, in C"),
        ("fast_align", "compiled; words at about the same share of a sentence, no HMM"),
    ):
        yield Comparison("alignment", "links of both directions", "links", side, "links", side, why)


def _captures() -> Iterator[Comparison]:
    for case, words in (("one_by_one", "one by one"), ("batch", "in one batch")):
        for side, name, peer, why in (
            ("pytorch", case, "transformers alone", "statistics of every head come on top"),
            ("nnsight", case, "nnsight", "traces its code at each call"),
            (
                "transformer_lens",
                case,
                "TransformerLens",
                "runs each step of a layer as a module with hooks",
            ),
        ):
            yield Comparison("capture", f"all heads, {words}", case, side, name, peer, why)
    yield Comparison(
        "capture", "all heads, one by one", "one_by_one", "inseq", "one_by_one", "inseq",
        "weights of all layers in one tensor, of a text as prompt and continuation",
    )  # fmt: skip


def _translations() -> Iterator[Comparison]:
    joeynmt = partial(Comparison, side="joeynmt", peer="JoeyNMT")
    training = "padding of sentences of unlike length, scores of the vocabulary at padding"
    yield joeynmt(
        topic="translation", what="training", case="training", peer_case="training",
        why=f"bfloat16 products where the processor has them; {training}",
    )  # fmt: skip
    yield joeynmt(
        topic="translation", what="training in float32", case="training_fp32",
        peer_case="training", why=training,
    )  # fmt: skip
    for case, words in (("greedy", "greedy decoding"), ("beam", "decoding, beam 5")):
        yield joeynmt(
            topic="translation", what=words, case=case, peer_case=case,
            why="keys and values are kept; JoeyNMT reads all tokens again at each step",
        )  # fmt: skip


class Side:
    """A process in the environment of one side, which runs its cases one at a time.

    Args:
        name: of its module.
        folder: of the inputs.
        peers: folder of the environments.
    """

    def __init__(self, name: str, folder: Path, peers: Path) -> None:
        python = sys.executable if name in HERE else str(peers / name / "bin" / "python")
        self.name = name
        self.process = subprocess.Popen(
            [python, "-m", f"experiments.peers.sides.{name}", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env=os.environ | dict.fromkeys(THREADS, "1") | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": ""},
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.communicate()

    def run(self, case: str, write: Path | None = None) -> dict[str, float]:
        """Seconds of the case, and the numbers that it tells.

        Raises:
            RuntimeError: the process ended; what it said is on standard error.
        """
        request = {"case": case, "write": None if write is None else str(write)}
        assert self.process.stdin is not None  # noqa: S101 - pipes
        assert self.process.stdout is not None  # noqa: S101 - as above
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            msg = f"{self.name} ended in {case}."
            raise RuntimeError(msg)
        numbers: dict[str, float] = json.loads(answer)
        return numbers


def measured(
    chosen: Sequence[Comparison], folder: Path, peers: Path, rounds: int
) -> Iterator[dict[str, Any]]:
    """A row for each round of each case, all sides in turn; the first round is not counted."""
    cases = dict.fromkeys(
        pair for one in chosen for pair in (("attnlab", one.case), (one.side, one.peer_case))
    )
    with ExitStack() as stack:
        sides = {
            name: stack.enter_context(Side(name, folder, peers))
            for name in dict.fromkeys(name for name, _ in cases)
        }
        for number in range(-1, rounds):
            for name, case in cases:
                write = folder / f"{name}_{case}.npz" if number < 0 else None
                row = {"side": name, "case": case, "round": number} | sides[name].run(case, write)
                print(row, flush=True)
                if number >= 0:
                    yield row


def error_rate(file: Path, gold: Sequence[GoldLinks], ways: str = "links") -> float:
    """AER of links that a side wrote; those of two directions are made one as attnlab's are.

    Args:
        file: of the side.
        gold: of the sentence pairs that come first.
        ways: `links`: both directions; `forward`: from source to target words.
    """
    by_name = {
        name: [
            frozenset(
                (int(source), int(target)) for _, source, target in rows[rows[:, 0] == number]
            )
            for number in range(len(gold))
        ]
        for name, rows in np.load(file).items()
    }
    found = by_name.get(ways) or [
        symmetrized(forward, backward, "grow-diag-final-and")
        for forward, backward in zip(by_name["forward"], by_name["backward"], strict=True)
    ]
    return float(aer(count_links(found, gold).sum(0).double()))


def outputs_of(one: Comparison) -> tuple[str, str, str] | None:
    """What both sides compute alike, in words, and the cases of attnlab and of the peer that write it."""
    if one.topic == "capture" and one.side != "inseq":
        return "weights of all heads", "matrices", one.peer_case
    if one.topic == "translation":
        return "losses of test sentences", "losses", "losses"
    if one.topic == "band":
        return "output of a band", one.case, one.peer_case
    return None


def differences(chosen: Sequence[Comparison], folder: Path, peers: Path) -> dict[str, float]:
    """The largest absolute difference of what both sides compute alike, by the peer and what it is."""
    found = dict[str, float]()
    for one in chosen:
        if (outputs := outputs_of(one)) is not None:
            what, *cases = outputs
            ours, theirs = (
                written(side, case, folder, peers)
                for side, case in zip(("attnlab", one.side), cases, strict=True)
            )
            name = f"{one.peer}, {what}"
            found[name] = max(found.get(name, 0.0), largest_difference(ours, theirs))
    return found


def written(side: str, case: str, folder: Path, peers: Path) -> Path:
    """The file of what a side computed, which it computes now where there is none yet."""
    file = folder / f"{side}_{case}.npz"
    if not file.exists():
        with Side(side, folder, peers) as process:
            process.run(case, file)
    return file


def largest_difference(one: Path, other: Path) -> float:
    """Of the arrays of two files, which have the same names and shapes."""
    with np.load(one) as ours, np.load(other) as theirs:
        if shapes(ours) != shapes(theirs):
            msg = f"{one.name} and {other.name} do not hold the same arrays."
            raise RuntimeError(msg)
        return max(float(np.abs(ours[name] - theirs[name]).max()) for name in ours)


def shapes(arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Of arrays by name."""
    return {name: array.shape for name, array in arrays.items()}


def compared(
    rows: pd.DataFrame, chosen: Sequence[Comparison], versions: Mapping[str, str]
) -> pd.DataFrame:
    """A row for each comparison: medians of both sides, and the median of the ratios of a round."""
    sides = {key: some.set_index("round") for key, some in rows.groupby(["side", "case"])}
    return pd.DataFrame([
        {
            "topic": one.topic, "what": one.what, "case": one.case, "side": one.side,
            "peer": one.peer, "peer_case": one.peer_case, "version": versions[one.side],
            **_ratios(sides["attnlab", one.case], sides[one.side, one.peer_case]),
        }
        for one in chosen
    ])  # fmt: skip


def _ratios(ours: pd.DataFrame, theirs: pd.DataFrame) -> dict[str, float]:
    found = dict[str, float]()
    for clock in ("cpu_seconds", "seconds"):
        # Of equal work, or for each token where sides count them.
        one, other = (
            some[clock] / some["units"]
            if "units" in some and some["units"].notna().all()
            else some[clock]
            for some in (ours, theirs)
        )
        found |= {
            f"attnlab_{clock}": ours[clock].median(), f"peer_{clock}": theirs[clock].median(),
            f"{clock.removesuffix('seconds')}ratio": (other / one).median(),
        }  # fmt: skip
    for name in ("bytes", "aer", "units"):
        if name in ours:
            found |= {f"attnlab_{name}": ours[name].median(), f"peer_{name}": theirs[name].median()}
    return found


def main() -> None:
    """Makes the inputs, measures topic by topic, and writes the folder."""
    options = _options()
    there = [*HERE, *(name for name in NAMES if (options.peers / name / "bin" / "python").exists())]
    chosen = [one for one in comparisons() if one.side in there and one.topic in options.topics]
    before = processor_times()
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as made:
        folder = Path(made)
        gold = write_inputs(folder, options)
        for topic in dict.fromkeys(one.topic for one in chosen):
            some = [one for one in chosen if one.topic == topic]
            rows += measured(some, folder, options.peers, options.rounds)
        largest = differences(chosen, folder, options.peers)
        for row in rows:
            if row["case"] == "links":
                row["aer"] = error_rate(folder / f"{row['side']}_links.npz", gold)
    versions = versions_in(options.peers, there)
    write_table(options.out / "rounds.csv", pd.DataFrame(rows))
    write_table(options.out / "table.csv", compared(pd.DataFrame(rows), chosen, versions))
    write_facts(
        options.out, __file__, "torch", "transformers",
        others_share=round(others_share(before, processor_times()), 2),
        gold_pairs=len(gold), differences=largest, missing=sorted({*NAMES} - {one.side for one in chosen}),
    )  # fmt: skip
    write_readme(options.out, readme(options.out))


def write_inputs(folder: Path, options: argparse.Namespace) -> list[GoldLinks]:
    """What the sides of the chosen topics read; the gold links."""
    if {"capture", "page"} & set(options.topics):
        making.write_models(folder)
    if "translation" in options.topics:
        run = kept_run("translation", making.translation_settings(options.data), options.runs)
        making.write_translation(folder, run)
    return making.write_alignment(folder, options.data) if "alignment" in options.topics else []


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    topics = list(dict.fromkeys(one.topic for one in comparisons()))
    parser.add_argument(
        "data", type=Path, help="folder of multi30k, europarl, bible, tatoeba, xlwa"
    )
    parser.add_argument("peers", type=Path, help="folder of the peers' environments")
    parser.add_argument("--topics", nargs="+", choices=topics, default=topics)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "peers")
    return parser.parse_args()


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, rows = read_table(folder, "table"), read_table(folder, "rounds")
    why = {(one.case, one.side, one.peer_case): one.why for one in comparisons()}
    table["why"] = [
        why[key] for key in table[["case", "side", "peer_case"]].itertuples(index=False, name=None)
    ]
    facts, records = read_facts(folder), table.to_dict("records")
    return render(
        __file__, facts, rows=records, rounds=rows["round"].nunique(), plain=_of_plain(records),
        pages=[row for row in records if row["topic"] == "page"],
        links=[row for row in records if row["topic"] == "alignment"],
        pairs=making.ALIGNED_PAIRS, gold=facts["gold_pairs"], sizes=making, inputs=inputs,
    )  # fmt: skip


def _of_plain(rows: Sequence[Mapping[Hashable, Any]]) -> dict[str, float]:
    """Time of each capture, sentences one by one, over that of transformers alone."""
    times = {row["peer"]: row["cpu_ratio"] for row in rows if row["case"] == "one_by_one"}
    plain = times.pop("transformers alone", None)
    if plain is None:
        return {}
    return {"attnlab with statistics": 1 / plain} | {
        name: time / plain for name, time in times.items()
    }


if __name__ == "__main__":
    main()
