"""Compare mechanisms at equal budgets at every site of a trained run, and write what came out.

    python experiments/compare_mechanisms.py multi30k runs/multi30k
    python experiments/compare_mechanisms.py tatoeba runs/tatoeba

writes results/compare_NAME/.
"""

import argparse
import time
from pathlib import Path

import pandas as pd
from readme_parts import markdown, provenance

from attnlab.files import write_text
from attnlab.reporting.comparison import write_comparison
from attnlab.reporting.result_folder import comparison_figure
from attnlab.studies.comparison.comparison import Comparison, compare
from attnlab.translation.quiet import quiet
from attnlab.translation.runs.run import Run, load

BUDGETS = (5, 9, 13)
SENTENCES, CALIBRATION = 200, 500
SEED = 0
RESULTS = Path(__file__).resolve().parent.parent / "results"


def main() -> None:
    """Compares and writes tables, figure and README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the results go to results/compare_NAME")
    parser.add_argument("run", type=Path, help="a run directory")
    chosen = parser.parse_args()
    out = RESULTS / f"compare_{chosen.name}"
    begin = time.process_time()
    with quiet():
        found = compare(
            chosen.run, BUDGETS, sentences=SENTENCES, calibration=CALIBRATION, seed=SEED
        )
        run = load(chosen.run)
    seconds = time.process_time() - begin
    write_comparison(found, out)
    write_text(out / "README.md", report(chosen.name, run, found, seconds))
    print(found.summary.to_string(index=False))


def with_interval(table: pd.DataFrame, name: str) -> pd.Series:
    """Mean and interval as text; a dash where there is none."""
    return table.apply(
        lambda row: (
            f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"
            if pd.notna(row[name])
            else "-"
        ),
        axis=1,
    )


def table_of(summary: pd.DataFrame) -> str:
    """The summary of one site as a table with intervals."""
    shown = summary[["budget", "mechanism", "level"]].assign(
        **{
            "attention captured": with_interval(summary, "mass_fraction"),
            "output error": with_interval(summary, "output_error"),
            "keys a row": summary["visible_keys"].map(
                lambda keys: f"{keys:.2f}" if pd.notna(keys) else "-"
            ),
            "multiply-adds": summary["multiply_adds"].map(
                lambda work: f"{work:,.0f}" if pd.notna(work) else "-"
            ),
        }
    )
    return markdown(shown)


def section(site: str, run: Run, found: Comparison) -> str:
    """Figure and table of one site."""
    model = run.settings.model
    layers = model.encoder_layers if site == "encoder" else model.decoder_layers
    queries, keys = found.lengths[site]
    start = f"{site}: "
    notes = [note.removeprefix(start) for note in found.notes if note.startswith(start)]
    notes = [note[0].upper() + note[1:] for note in notes]
    size = (
        f"{layers} layer(s) of {model.heads} heads; {queries} queries and {keys} keys on average."
    )
    return f"""## {site}

{" ".join([size, *notes])}

![attention captured and output error by mechanism]({comparison_figure(site)}.svg)

{table_of(found.summary[found.summary["site"] == site])}
"""


def report(name: str, run: Run, found: Comparison, seconds: float) -> str:
    """The README of the result."""
    corpus = run.record["corpus"]
    return f"""# Mechanisms at equal budgets: {name}

Each head of a model trained with full attention on {run.settings.corpus.pair}, in the encoder, in the
decoder and between the two, against every mechanism with the same queries, keys and values; nothing
is trained again. The decoder reads the reference translations. {found.sentences} test sentences; tables
of sigma, and the fixed pattern of each head, were learned on {found.calibration} training sentences,
none of which is a test sentence.

* *attention captured*: share of full attention that stands on the pairs the mechanism sees;
* *output error*: |X V - H V| / |H V| of a head and sentence, Frobenius norms;
* means over heads and sentences; in brackets 95% percentile bootstrap intervals over sentences
  (1000 draws, seed {SEED}), for the sentences alone: one model, one seed of training.

Levels: *oracle* rows are chosen from the very matrices they are measured on and are no method;
*calibrated* rows use training sentences; *static* rows use positions and chance.
Budgets are {", ".join(map(str, BUDGETS))} keys a row. Rows at the ends of a sentence see fewer, a column
that lies in the band counts once, and rows of Longformer's and BigBird's global tokens see every key:
*keys a row* is what was seen, so in the encoder those two may see more than the others.
*sigma oracle* bounds the kinds of sigma that have columns, not `sigma offsets`, whose entries are
diagonals.
A fixed pattern (self, previous or next) sees one key at every budget. `linear favor` and `linformer`
have the size whose work is nearest to the band's; the other linear kinds have no size. Linformer's
projections are drawn at random and not trained, so its error says nothing of a trained Linformer.

In the decoder every mechanism is causal: a window looks back only, and sigma's columns are chosen
for each row among the tokens up to it, which *sigma oracle* does too. Row i has i + 1 keys, so in
short sentences a budget is soon the whole row: figures of the decoder are no better heads, only
shorter rows. Between decoder and encoder a window lies around the source position with the
number of the target position, whatever the lengths of the two; mechanisms that need one sentence on both
sides are left out.

{chr(10).join(section(site, run, found) for site in found.lengths)}
`heads.csv` has every head, `summary.csv` the tables above. Command:
`python experiments/compare_mechanisms.py {name} RUN`, with the run that
`python experiments/real_text.py {name} PATH` trains (corpus checksum `{corpus["checksum"][:16]}...`).
{seconds:.0f} seconds of processor time. {provenance("torch", "transformers")}
"""


if __name__ == "__main__":
    main()
