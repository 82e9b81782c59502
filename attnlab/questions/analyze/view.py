"""An analysis drawn: the sections of its page, its table on a terminal, and its cell of a notebook."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd
from markupsafe import Markup

from attnlab.core import Column, Head, counted, is_terminal
from attnlab.figures import COLUMN
from attnlab.figures import draw_heads as draw_matrices
from attnlab.labels import (
    BORDERLINE,
    CONFIRMED,
    CONTROLS,
    LINKS,
    RELATIONS,
    STRUCTURE_OF_HEAD,
    best_heads,
)
from attnlab.questions.analyze.analysis_notes import RowsDrawn
from attnlab.questions.analyze.figures import (
    draw_heads,
    draw_offsets,
    draw_windows,
    not_drawn,
)
from attnlab.questions.analyze.fits import BITS, EQUAL_BUDGET, RELATIVE, summarise
from attnlab.questions.analyze.head_table import (
    SHOWN,
    describe_generation,
    describe_heads,
    describe_roles,
    first_table,
    legend,
    titled_heads,
)
from attnlab.questions.analyze.overview import highlights_of, overview_of
from attnlab.questions.analyze.question import FIRST_HEADS, GENERATED, GENERATION_CHANGE, SUMMARY
from attnlab.questions.analyze.summary import roles_of, structure_of_heads, table_of, views_of
from attnlab.questions.analyze.viewer import viewer_data
from attnlab.reading import ALL, CONTENT, HEADS, VIEWS
from attnlab.results import (
    ADDITIVE,
    BAND,
    MOST_ROWS,
    SITE_NAMES,
    VIEW_NAMES,
    Contents,
    DrawnFigure,
    PageTable,
    Part,
    Result,
    Section,
    TerminalTable,
    columns_named,
    drawn_html,
    first_screen,
    head_names,
    page_table,
    rows_shown,
    together,
)

# Inches: three sites side by side.
PAGE_WIDTH = 3 * COLUMN
_FACTS = (
    "Model",
    "Read",
    "Trained on",
    "Best validation BLEU",
    "Best validation perplexity",
    "Layers",
    "Sentences",
    "Source",
)
_MOST_FACTS = 5
_VIEW_COLUMNS = {
    ALL: (
        "entropy_nats",
        "normalised_entropy",
        "confidence",
        "mass_on_punctuation",
        "mass_on_special",
        "mass_on_opening",
        "mass_on_closing",
        "js_distance_to_others",
    ),
    CONTENT: (
        "content_entropy_nats",
        "content_normalised_entropy",
        "content_confidence",
        "content_mass_on_punctuation",
        "mean_offset",
        "mean_absolute_offset",
    ),
}
# A share is a mean over the rows that could attend to such a token: told where they are fewer.
_FEWER_ROWS = tuple(
    f"rows_seeing_{name}" for name in ("special", "opening", "closing", "punctuation")
)
_BANDS_SHOWN = [f"band_{window}" for window in (0, 1, 2, 3, 5, 10)]
# A matrix of zeros has distance 1 in every row, which the text says.
_REFERENCES = ("uniform", "mean_by_offset")
DESCRIBED = ("structure", "structure_margin_bits_per_row", "structure_runner_up")
FAMILIES_EXPLAINED = (
    "Bits per row: the sentences of a head are coded together under the best member of each family; the "
    "shape is the family of the fewest bits. Distances: relative l1, the sum of all absolute differences "
    "divided by the sum of the matrix, fitted to each matrix itself (oracle), mean over sentences; a matrix "
    "of zeros has 1, and the references stand beside. A band of window w keeps the weights at most w tokens "
    "from the diagonal. At equal budget every family has at most two entries per row on average, one for "
    f"the structure and one for the sparse error E; {ADDITIVE}, so that one shifted diagonal can be nearer. "
    f"{BAND}: distance does not say which family a head belongs to, bits per row do."
)
_WINDOWS_CAPTION = (
    "Relative distance from the best band of each window, a row per head (layer.head). The last row of each "
    "site is that of equal weights: a head that is no nearer to a band of that width does not keep to the "
    "diagonal."
)
_MOST_RELATIONS = 40
# What every reader of a label must know.
DECIDING = (
    "A label is confirmed when the 95 % interval of its figure lies above the threshold, rejected when "
    "it lies below, and borderline when the threshold lies within. It is significant against controls "
    "when it is rejected for the same head of an untrained model, and a relation when it is also "
    "followed clearly more often than on shuffled words; no control is compared with broad."
)
VIEWS_EXPLAINED = (
    "Special tokens often take the largest weight of a row and hide what a head does among words: "
    "with special tokens left out as keys, a row's largest weight is that on a content token."
)
_EVIDENCE = (
    "head_name", "label", "detail", "significance", "statistic", "value", "value_low", "value_high",
    "threshold", "status", "stability", "untrained_value", "untrained_status", "shuffled_value",
    "shuffled_status", "denominator",
)  # fmt: skip
_RELATION = (
    "site", "relation", "direction", "best_head", "accuracy", "accuracy_low", "accuracy_high", "baseline",
    "chance", "aer", "shuffled_accuracy", "untrained_accuracy", "links", "stability", "significance",
)  # fmt: skip
_PROSE = ("role_figure", "control_figure")


def contents(result: Result) -> Contents:
    """What the page of an analysis shows."""
    headings = [name for name in _FACTS if name in result.about]
    kept = result.matrices
    return Contents(
        facts={name: str(result.about[name]) for name in headings[:_MOST_FACTS]},
        tables=(),
        parts=[
            Part(_summary_section(result)),
            *map(Part, label_sections(result)),
            _heads_part(result),
            *_family_parts(result),
            *_matrices_parts(result),
            *_generation_parts(result),
        ],
        overview=overview_of(result),
        viewer=lambda: viewer_data(result, result.title),
        # The page begins with the first sentence that was chosen by its words.
        start=f"#sentence={kept.sentences[0]}" if kept.chosen else "",
    )


def answers(result: Result) -> list[str]:
    """How many heads have a confirmed role, which head is needed most, and what own output changes."""
    sentences = describe_heads(result.table)
    if "generated" in result.tables:
        sentences.append(describe_generation(result.tables["generated"]))
    return sentences


def terminal(result: Result) -> Iterator[TerminalTable]:
    """The first table, the first rows where a model has many and a person looks, with its legend."""
    yield _first_rows(result, MOST_ROWS if is_terminal() else None)


def _first_rows(result: Result, most: int | None = None) -> TerminalTable:
    rows, columns = first_table(result.table)
    views = views_of(result)
    title = [counted(len(rows), "head"), *([VIEW_NAMES[views[0]]] if len(views) > 1 else [])]
    if "Sentences" in result.about:
        title.append(f"sentences: {result.about['Sentences']}")
    lines = ["; ".join(f"{word}: {means}" for word, means in line) for line in legend(rows)]
    more = len(rows) - (most or len(rows))
    return replace(
        rows_shown(rows.head(most or len(rows)), columns, title=", ".join(title)),
        caption=f"and {more} more heads in {SUMMARY.file}" if more > 0 else None,
        legend="\n".join(lines) or None,
        answers=result.answers,
        prose=tuple(column.narrow for column in columns if column.name in _PROSE),
    )


def notebook(result: Result) -> str:
    """Maps of the heads, and the first screen of a terminal, as HTML."""
    names = [name for name in ("role", "structure") if name in result.table]
    maps = [drawn_html(draw_heads(result.table, name), f"heads-{name}") for name in names]
    screen = Markup(first_screen(_first_rows(result), result.notes))  # noqa: S704 - escaped there
    return together(*maps, screen)


def _summary_section(result: Result) -> Section:
    return Section(
        "summary",
        "Every head in one table",
        "The closest role of each head with its figure and its control, both on every other sentence (the "
        "others choose), the shape of its matrices, and what is lost without it. Point at a heading for its "
        "meaning.",
        (page_table(*first_table(result.table)),),
    )


def _generation_parts(result: Result) -> Iterator[Part]:
    """The heads of decoders in what the model writes itself, where that was measured."""
    if "generated" not in result.tables:
        return
    table = _with_names(result.tables["generated"])
    names = ["head_name", "statistic", "teacher_forced", "generated", GENERATION_CHANGE.name]
    yield Part(
        Section(
            "generated",
            "While the model writes itself",
            f"{describe_generation(table)} Rows of a prompt are not counted. In brackets are 95 % "
            "intervals over sentences.",
            (page_table(table, columns_named(names, GENERATED.columns)),),
        )
    )


def _heads_part(result: Result) -> Part:
    view = views_of(result)[0]
    section = Section(
        "heads",
        "Attention statistics of each head",
        "Means over all sentences. A token is what the tokenizer makes, which may be a part of a "
        "word. Rows of special tokens and padding are not counted.",
        _statistics_tables(result),
    )
    caption = (
        f"Mean attention weight ({VIEW_NAMES[view]}) on the token at each offset: -1 is the token before, 0 "
        "the token itself, +1 the next. Offsets that no row may see are left out. The colour follows the "
        "square root, as in all figures of weights."
    )

    def figures() -> Iterator[DrawnFigure]:
        figure = draw_offsets(result.heads, view, width=PAGE_WIDTH)
        yield DrawnFigure("mass_by_offset", figure, caption)

    return Part(section, figures, 1)


def _statistics_tables(result: Result) -> tuple[PageTable, ...]:
    """A table per view of the keys, and one of the rows that were counted; each fits a window."""
    heads, first = result.heads, views_of(result)
    named = _with_names(heads)
    views = [*first, *(keys for keys in VIEWS if keys not in first)]
    counts = ["rows"]
    counts += [n for n in ("empty_rows", "rows_without_content_mass") if heads[n].any()]
    counts += [n for n in _FEWER_ROWS if ((heads[n] < heads["rows"]) & (heads[n] > 0)).any()]
    columns = {VIEW_NAMES[keys]: _VIEW_COLUMNS[keys] for keys in views}
    columns["counted rows"] = tuple(counts)
    return tuple(
        page_table(named, columns_named(["head_name", *measured], HEADS.columns), caption)
        for caption, names in columns.items()
        if (measured := [name for name in names if named[name].notna().any()])
    )


def _matrices_parts(result: Result) -> list[Part]:
    kept = result.matrices
    if not kept.matrices:
        return []
    left_out = not_drawn(kept)
    too_large = {(size.sentence, size.site) for size in left_out}
    heads = _drawn_heads(result)
    layers = {(head.site, head.layer) for head in heads}
    drawn = [
        (number, site, layer)
        for number, site, layer in kept.matrices
        if (site, layer) in layers and (number, site) not in too_large
    ]

    def figures() -> Iterator[DrawnFigure]:
        titles = titled_heads(result.table)
        for number, site, layer in drawn:
            of_layer = [head for head in heads if (head.site, head.layer) == (site, layer)]
            queries, keys = kept.tokens[number, site]
            names = [titles[head] for head in of_layer]
            where = f"{site} layer {layer}"
            if len(of_layer) == 1:
                where, _, name = names[0].partition("\n")
                names = [name]
            figure = draw_matrices(
                kept.matrices[number, site, layer][[head.head for head in of_layer]],
                queries,
                keys,
                title=f"Sentence {number}, {where}",
                names=names,
            )
            caption = f"Sentence {number}, {SITE_NAMES[site]}, layer {layer}."
            name = f"heads_sentence{number}_{site}_layer{layer}"
            yield DrawnFigure(name, figure, caption, fallback=True)

    which = "those of the heads above" if result.details["figures"] == FIRST_HEADS else "all"
    where = f"{which} in figures/ as SVG and PNG" if drawn else "no figure is drawn"
    omitted = "".join(
        f" Not drawn: sentence {size.sentence} of the {size.site}, since it has {size.tokens} tokens "
        f"and at most {size.limit} are drawn."
        for size in left_out
    )
    section = Section(
        "matrices",
        "The kept sentences, matrix by matrix",
        "Rows are queries, columns are keys. The matrices are in matrices.safetensors, "
        f"{where}.{omitted}",
    )
    return [Part(section, figures, len(drawn))]


def _drawn_heads(result: Result) -> list[Head]:
    """The heads whose kept matrices are drawn, in their order."""
    if result.details["figures"] == FIRST_HEADS:
        return sorted(highlights_of(result))
    return list(titled_heads(result.table))


def _family_parts(result: Result) -> list[Part]:
    """Bits of every family, distances from families and whole bands; none where neither was measured."""
    fits = table_of(result, "fits")
    tables = [*_bits_tables(result), *_distance_tables(fits)]
    if not tables:
        return []

    def figures() -> Iterator[DrawnFigure]:
        if not fits.empty:
            figure = draw_windows(fits, width=PAGE_WIDTH)
            yield DrawnFigure("distance_by_window", figure, _WINDOWS_CAPTION)

    rows = [
        f" Of each sentence at most {note.rows} rows, drawn at random, were measured (see the notes)."
        for note in result.notes
        if isinstance(note, RowsDrawn)
    ]
    text = f"{FAMILIES_EXPLAINED}{''.join(rows)}"
    section = Section("families", "Which matrices are near each head", text, tuple(tables))
    return [Part(section, figures, int(not fits.empty))]


def _bits_tables(result: Result) -> Iterator[PageTable]:
    """What each family needs in bits per row, a table per view of the keys."""
    for keys in views_of(result):
        structure = table_of(result, "structure", keys)
        if not structure.empty:
            columns = columns_named(["head_name", *DESCRIBED], STRUCTURE_OF_HEAD)
            table = _with_names(structure_of_heads(structure))
            yield page_table(table, [*columns, *BITS], f"Bits per row, {VIEW_NAMES[keys]}")


def _distance_tables(fits: pd.DataFrame) -> Iterator[PageTable]:
    """Distances at equal budget, which drawn rows do not have, and from whole bands, beside references."""
    if fits.empty:
        return
    means = _with_names(summarise(fits))
    for caption, families in {
        "Relative distance at equal budget": EQUAL_BUDGET,
        "Relative distance from a whole band": (*_BANDS_SHOWN, "diagonal_alone"),
    }.items():
        if {*families} & {*means}:
            names = [name for name in (*families, *_REFERENCES) if name in means]
            yield page_table(means, columns_named(["head_name", *names], RELATIVE), caption)


def _with_names(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(head_name=head_names(table))


def label_sections(result: Result) -> list[Section]:
    """Sections about labels and relations; none where heads were not labelled."""
    if "labels" not in result.tables:
        return []
    evidence = [
        table
        for keys in views_of(result)
        for table in _evidence_table(table_of(result, "controls", keys), VIEW_NAMES[keys])
    ]
    section = Section(
        "labels",
        "What the roles rest on",
        f"{_roles_by_view(result)} {DECIDING} {VIEWS_EXPLAINED} A label is measured on one half of the "
        "sentences; what was picked out of many (an offset, a relation) was picked on the other half. "
        "The tables give the figure of each label that is confirmed or borderline, beside that of the "
        "untrained model and on shuffled words; all figures are in controls.csv.",
        tuple(evidence),
    )
    return [section, *_relation_section(table_of(result, "relations"))]


def _roles_by_view(result: Result) -> str:
    """How many heads have a confirmed role, a sentence per view."""
    sentences = {keys: describe_roles(roles_of(result, keys)) for keys in views_of(result)}
    if len(sentences) > 1 and len(set(sentences.values())) == 1:
        return f"In both views of the keys: {next(iter(sentences.values()))}"
    return " ".join(f"With {VIEW_NAMES[keys]}: {text}" for keys, text in sentences.items())


def _varying(table: pd.DataFrame, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The first column, and those that differ between rows; all where there is one row."""
    first, *others = columns
    several = [
        column
        for column in others
        if len(table) < 2 or table[column.name].nunique(dropna=False) > 1
    ]
    return (first, *several)


def _evidence_table(controls: pd.DataFrame, caption: str) -> list[PageTable]:
    if controls.empty:
        return []
    near = controls[controls["status"].isin([CONFIRMED, BORDERLINE])]
    if near.empty:
        return []
    # Words can be wrapped, identifiers cannot.
    statistic = near["statistic"].str.replace("_", " ")
    named = near.assign(head_name=head_names(near), statistic=statistic)
    columns = columns_named([name for name in _EVIDENCE if name in named], CONTROLS.columns)
    return [page_table(named, _varying(named, columns), f"Labels: {caption}")]


def _relation_section(relations: pd.DataFrame) -> list[Section]:
    if relations.empty:
        return []
    best = pd.concat([best_heads(rows) for _, rows in relations.groupby("site", sort=False)])
    best = best[best["links"] >= LINKS.needed]
    if best.empty:
        return []
    more = len(best) - _MOST_RELATIONS
    cut = f" {more} more of them are not shown." if more > 0 else ""
    best = best.head(_MOST_RELATIONS)
    named = best.assign(best_head=head_names(best))
    columns = columns_named(
        [name for name in _RELATION if name in named], (*RELATIONS.columns, *SHOWN)
    )
    table = page_table(named, _varying(named, columns))
    return [
        Section(
            "relations",
            "Which head follows which relation",
            "For each relation between two words, and each direction, the head whose largest weight "
            "falls on the other word most often. The head was chosen on one half of the sentences, "
            "the figures are of the other half. The most frequent offset of the relation, picking "
            "a word at random, shuffled words and an untrained model stand beside it. Relations "
            f"with at least {LINKS.needed} pairs; all heads are in relations.csv.{cut}",
            (table,),
        )
    ]
