"""attnlab's statistical aligner beside fast_align and eflomal: error rates on gold links, and time.

    python experiments/peers/environments.py PEERS --names eflomal fast_align
    python experiments/aligners/run.py ../shared/data PEERS

writes results/aligners/. A set of gold pairs that the table has with as much text is not aligned again.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from experiments.peers.environments import versions_in
from experiments.peers.making import write_alignment
from experiments.peers.run import Side, error_rate
from experiments.shared.readme import (
    RESULTS,
    known_models,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = RESULTS / "aligners"
OURS, EFLOMAL, FAST_ALIGN = ALIGNERS = ("attnlab", "eflomal", "fast_align")
# By part of XL-WA, the text that is learned from.
SETS = {"it.dev": "en-it", "es.dev": "en-es", "it.test": "en-it"}
REPORTED = "it.test"
PAIRS = 17_000
DIGITS = 4
SET = ("gold", "text_pairs")


def main() -> None:
    """Aligns each set that was not aligned yet, and writes the table and the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of europarl, bible, tatoeba and xlwa")
    parser.add_argument("peers", type=Path, help="folder of the aligners' environments")
    parser.add_argument("--gold", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument(
        "--pairs", type=int, default=PAIRS, help="pairs of text that are learned from, at most"
    )
    options = parser.parse_args()
    for gold in options.gold:
        if (gold, options.pairs) in known_models(OUT, "table", SET):
            continue
        rows = pd.DataFrame(measured(gold, options.pairs, options.data, options.peers))
        put_rows(OUT, "table", dict(zip(SET, (gold, options.pairs), strict=True)), rows)
    write_facts(OUT, __file__)
    write_readme(OUT, readme(OUT))


def measured(gold: str, pairs: int, data: Path, peers: Path) -> Iterator[dict[str, Any]]:
    """A row an aligner; each is a process of its own, with one thread."""
    versions = versions_in(peers, ALIGNERS)
    with TemporaryDirectory() as made:
        folder = Path(made)
        linked = write_alignment(folder, data, pairs, text=SETS[gold], part=gold)
        learned = sum(1 for _ in (folder / "source.txt").open(encoding="utf-8"))
        for name in ALIGNERS:
            file = folder / f"{name}.npz"
            with Side(name, folder, peers) as side:
                seconds = side.run("links", file)["cpu_seconds"]
            rates = {way: error_rate(file, linked, way) for way in ("forward", "links")}
            yield {
                "aligner": name, "version": versions[name], "gold_pairs": len(linked),
                "pairs": learned, "forward_aer": round(rates["forward"], DIGITS),
                "aer": round(rates["links"], DIGITS), "cpu_seconds": round(seconds, 1),
            }  # fmt: skip


def most_text(folder: Path) -> pd.DataFrame:
    """The rows of the reported gold pairs with the most text, by aligner."""
    table = read_table(folder, "table")
    own = table[table["gold"] == REPORTED]
    return own[own["pairs"] == own["pairs"].max()].set_index("aligner")


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(folder, "table")
    shown = table.drop(columns="text_pairs")
    for name in ("forward_aer", "aer"):
        shown[name] = (100 * shown[name]).map("{:.1f}".format)
    return render(
        __file__, read_facts(folder), best=most_text(folder), shown=shown, reported=REPORTED,
        tuned=[gold for gold in SETS if gold != REPORTED],
    )  # fmt: skip


if __name__ == "__main__":
    main()
