"""Strengths and closest roles of published labels, computed again from the table of controls beside them.

    python -m experiments.shared.strengths

rewrites them, and the README that lists them, by the rules of today; no model is needed. What was
counted, and intervals, are left as they are.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from attnlab.core import HEAD_COLUMNS, write_table
from attnlab.labels import RARE_LABEL, strongest_functions, with_strength
from experiments.heads_of_minilm.readme import readme
from experiments.shared.readme import RESULTS, read_table, write_readme


def main() -> None:
    """Rewrites every pair of tables, and the README that lists strengths."""
    for folder, ending in labelled():
        labels, controls = tables_again(folder, ending)
        write_table(folder / f"labels{ending}.csv", labels)
        write_table(folder / f"controls{ending}.csv", controls)
    minilm = RESULTS / "heads_of_minilm"
    write_readme(minilm, readme(minilm))


def labelled() -> Iterator[tuple[Path, str]]:
    """Folders with labels and the controls behind them, and how the names of these end."""
    for path in sorted(RESULTS.rglob("controls*.csv")):
        # Tables of the language models lack the controls of second figures.
        if "second_control" in pd.read_csv(path, nrows=0):
            yield path.parent, path.stem.removeprefix("controls")


def tables_again(folder: Path, ending: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The labels and the controls of a folder with strengths and closest roles of today."""
    labels, controls = (read_table(folder, f"{name}{ending}") for name in ("labels", "controls"))
    controls = controls.astype({"detail": object, "second_statistic": object})
    rare = controls["label"] == RARE_LABEL.name
    # A random choice among uncommon tokens is what the second figure must exceed.
    chance = controls["second_threshold"]
    controls["control"] = controls["control"].mask(rare, chance)
    controls["second_control"] = controls["second_control"].mask(rare, chance)
    controls = with_strength(controls)
    strongest = strongest_functions(controls)
    of_heads = labels[HEAD_COLUMNS].merge(strongest, on=HEAD_COLUMNS, validate="1:1")
    return labels.assign(**{str(name): of_heads[name] for name in strongest}), controls


if __name__ == "__main__":
    main()
