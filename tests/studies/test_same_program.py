"""The tables of three studies on a small model, as they were before the package was laid out anew.

That of `compare` is younger: its settings are chosen on validation sentences since.

    PYTHONPATH=tests python tests/studies/test_same_program.py     # writes the tables again

Weights are drawn from a fixed seed and no training takes part, so that other processors give the same
figures but for rounding.
"""

from pathlib import Path

import pandas as pd
import pytest
from zoo import random_models
from zoo.random_models import WORDS, tokenizer

import attnlab

TABLES = Path(__file__).with_name("same_program")
SENTENCES = 48
# One of each kind, since settings are many.
MECHANISMS = ("band", "sigma salience", "linear", "fixed", "top-k")


def pairs() -> list[tuple[str, str]]:
    """Sentences of 3 to 11 words in a fixed order of words."""
    rows = []
    for number in range(SENTENCES):
        words = [
            WORDS[(number * 5 + step * (2 + number % 3)) % 12] for step in range(3 + number % 9)
        ]
        rows.append((" ".join(words), " ".join(WORDS[13:][len(word) % 4] for word in words)))
    return rows


def tables() -> dict[str, pd.DataFrame]:
    """All tables of `analyze` with labels, `compare` and `importance`."""
    model = random_models.marian().eval().double()
    for name, weight in model.named_parameters():
        if "q_proj.weight" in name or "k_proj.weight" in name:
            # Weights near 0 make every head broad.
            weight.data.mul_(40)
    source, texts = (model, tokenizer()), pairs()
    analysis = attnlab.analyze(source, sentences=texts, labels=True, fit_sentences=1)
    comparison = attnlab.compare(
        source, [5], sentences=texts[:16], calibration=texts[16:], mechanisms=MECHANISMS
    )
    importance = attnlab.importance(source, sentences=texts, bleu=(), points=3)
    return {
        "analyze_heads": analysis.heads,
        # The earlier layout had no union.
        "analyze_fits": analysis.fits[analysis.fits["approximation"] != "union"],
        "analyze_labels": analysis.labels,
        "analyze_structure": analysis.structure,
        "compare_summary": comparison.summary,
        "importance_heads": importance.importance,
        "importance_cumulative": importance.cumulative,
    }


@pytest.fixture(scope="module")
def found() -> dict[str, pd.DataFrame]:
    return tables()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in TABLES.glob("*.csv")))
def test_tables_are_those_of_the_earlier_layout(
    name: str, found: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    found[name].to_csv(tmp_path / "table.csv", index=False, float_format="%.6g")
    now, before = (pd.read_csv(path) for path in (tmp_path / "table.csv", TABLES / f"{name}.csv"))
    pd.testing.assert_frame_equal(now, before, rtol=1e-4, atol=1e-5, check_dtype=False)


if __name__ == "__main__":
    TABLES.mkdir(exist_ok=True)
    for name, table in tables().items():
        table.to_csv(TABLES / f"{name}.csv", index=False, float_format="%.6g")
