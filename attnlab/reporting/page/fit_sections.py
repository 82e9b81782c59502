"""The part of the report that says which structured matrices the heads are near to."""

from pathlib import Path

from attnlab.labels.label_columns import STRUCTURE_OF_HEAD
from attnlab.reading.weights import rows_of_view
from attnlab.reporting.columns import ADDITIVE, BAND, columns_named
from attnlab.reporting.figures import figures_of
from attnlab.reporting.naming import VIEW_NAMES, family_words, head_names
from attnlab.reporting.page.parts import Section, page_table
from attnlab.studies.analysis.columns import BITS, EQUAL_BUDGET, RELATIVE
from attnlab.studies.analysis.description import structure_of_heads
from attnlab.studies.analysis.fits import summarise
from attnlab.studies.analysis.measuring import Analysis

_WINDOWS_SHOWN = (0, 1, 2, 3, 5, 10)
# A matrix of zeros has distance 1 in every row, which the text says.
_REFERENCES = ("uniform", "mean_by_offset")
DESCRIBED = ("structure", "structure_margin_bits_per_row", "structure_runner_up")
# What every reader of these tables must know; on the terminal and on the page.
BUDGET = (
    "At equal budget every family has at most two entries per row on average, one for the structure "
    f"and one for the sparse error E; {ADDITIVE}, so that one shifted diagonal can be nearer. "
    f"{BAND}: distance does not say which family a head belongs to, bits per row do."
)


def fit_sections(analysis: Analysis, figures: str | Path) -> list[Section]:
    """Families at one budget beside their description lengths, then bands of every width."""
    figures = Path(figures)
    return [*_family_sections(analysis), *_band_sections(analysis, figures)]


def _family_sections(analysis: Analysis) -> list[Section]:
    tables, text = [], ""
    if not analysis.fits.empty:
        summary = summarise(analysis.fits)
        names = [name for name in (*EQUAL_BUDGET, *_REFERENCES) if name in summary]
        named = summary.assign(head_name=head_names(summary))
        tables.append(page_table(named, columns_named(["head_name", *names], RELATIVE)))
        count = analysis.fits["sentence"].nunique()
        text = (
            f"{BUDGET} The first table: mean over {count} sentences of the relative l1 distance, "
            "fitted to each matrix itself (oracle). "
        )
    if not analysis.structure.empty:
        for keys in analysis.views:
            found = structure_of_heads(rows_of_view(analysis.structure, keys))
            for name in ("structure", "structure_runner_up"):
                found[name] = found[name].map(family_words)
            named = found.assign(head_name=head_names(found))
            caption = f"Description length: {VIEW_NAMES[keys]}"
            columns = columns_named(["head_name", *DESCRIBED], STRUCTURE_OF_HEAD)
            tables.append(page_table(named, [*columns, *BITS], caption))
        text += (
            f"Description length: {analysis.structure['sentences'].max()} sentences of each head coded "
            "together under the best member of each family, bits that name the member among them; the "
            "structure is the family of the fewest bits."
        )
    if not tables:
        return []
    return [Section("families", "Which family describes each head", text, tuple(tables))]


def _band_sections(analysis: Analysis, figures: Path) -> list[Section]:
    if analysis.fits.empty:
        return []
    summary = summarise(analysis.fits)
    summary = summary.assign(head_name=head_names(summary))
    shown = [f"band_{window}" for window in _WINDOWS_SHOWN]
    references = [name for name in _REFERENCES if name in summary]
    count = analysis.fits["sentence"].nunique()
    return [
        Section(
            "bands",
            "How near each head is to a whole band",
            f"Mean over {count} sentences of the relative l1 distance: the sum of all absolute "
            "differences divided by the sum of the matrix. A band of window w keeps the weights at "
            "most w tokens from the diagonal. A distance alone says nothing: the reference points "
            "stand beside it, and a matrix of zeros has distance 1.",
            (page_table(summary, columns_named(["head_name", *shown, *references], RELATIVE)),),
            figures_of("bands", analysis, figures),
        )
    ]
