"""An analysis drawn: the sections of its page, its table on a terminal, and its cell of a notebook."""

from collections.abc import Iterator

import pandas as pd
from markupsafe import Markup

from attnlab.core import LOSS_CHANGE, Head, counted, shown
from attnlab.figures import COLUMN
from attnlab.figures import draw_heads as draw_matrices
from attnlab.labels import (
    BORDERLINE,
    CONFIRMED,
    CONTROLS,
    LABELS,
    LINKS,
    RELATIONS,
    STRUCTURE_OF_HEAD,
    best_heads,
)
from attnlab.questions.analyze.analysis_notes import RowsDrawn
from attnlab.questions.analyze.figures import (
    NotDrawn,
    draw_heads,
    draw_offsets,
    draw_windows,
    not_drawn,
)
from attnlab.questions.analyze.fits import BITS, EQUAL_BUDGET, RELATIVE, summarise
from attnlab.questions.analyze.head_phrases import (
    SHOWN,
    describe_generation,
    describe_heads,
    describe_roles,
    heads_shown,
    titled_heads,
    varying,
    with_phrases,
    words_of_heads,
)
from attnlab.questions.analyze.overview import highlights_of, overview_of
from attnlab.questions.analyze.question import (
    FIRST_HEADS,
    GENERATED,
    GENERATION_CHANGE,
    SUMMARY,
)
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
    family_words,
    frame_html,
    head_names,
    page_table,
    together,
)

# Inches: three sites side by side.
PAGE_WIDTH = 3 * COLUMN
_FACTS = (
    "Model",
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
# A share is a mean over the rows that could attend to such a token: said where they are fewer.
_FEWER_ROWS = tuple(
    f"rows_seeing_{name}" for name in ("special", "opening", "closing", "punctuation")
)
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
_MOST_RELATIONS = 40
# What every reader of a label must know; on the terminal and on the page.
DECIDING = (
    "A label is confirmed when the 95 % interval of its figure lies above the threshold, rejected when "
    "it lies below, and borderline when the threshold lies within. It is significant against controls "
    "when it is rejected for the same head of an untrained model, and a relation when it is also "
    "followed clearly more often than on shuffled words; no control is compared with broad."
)
ABLATION = (
    "loss: how much it changes when the head's output is set to zero, in nats per target token; a "
    "label says where a head attends, this says whether the model needs it."
)
_FIRST_TABLE = (
    "head_name",
    "phrase",
    "labels",
    "significant_labels",
    "borderline",
    "undecided",
    "stability",
    "mass_on_special",
)
_SECOND_TABLE = (
    "The tables behind them give the figure of each label that is confirmed or borderline, beside the "
    "same figure of the untrained model and on shuffled words. "
)
VIEWS_SAID = (
    "Special tokens often take the largest weight of a row and hide what a head does among words: "
    "with special tokens left out as keys, a row's largest weight is that on a content token."
)
_EVIDENCE = [
    "head_name",
    "label",
    "detail",
    "significance",
    "statistic",
    "value",
    "value_low",
    "value_high",
    "threshold",
    "status",
    "stability",
    "untrained_value",
    "untrained_status",
    "shuffled_value",
    "shuffled_status",
    "denominator",
]
_RELATION = [
    "site",
    "relation",
    "direction",
    "best_head",
    "accuracy",
    "accuracy_low",
    "accuracy_high",
    "baseline",
    "chance",
    "aer",
    "shuffled_accuracy",
    "untrained_accuracy",
    "links",
    "stability",
    "significance",
]
# The mark stands behind the role, the interval behind the loss; the note says which heads have no output.
_ELSEWHERE = ("mark", LOSS_CHANGE.low, LOSS_CHANGE.high, "output")
_PROSE = ("evidence", "structure")
# Beside the name of a head whose output is nothing.
_WITHOUT_OUTPUT = "x"
# Behind a change of loss; a * says more elsewhere: that it is so with all heads taken together.
_BEYOND = "†"
_WIDTH = 80


def contents(result: Result) -> Contents:
    """What the page of an analysis shows."""
    known = [name for name in _FACTS if name in result.about]
    kept = result.matrices
    return Contents(
        describe_heads(result.table),
        facts={name: str(result.about[name]) for name in known[:_MOST_FACTS]},
        tables=(),
        parts=[
            Part(_summary_section(result)),
            *map(Part, label_sections(result)),
            _heads_part(result),
            *_family_parts(result),
            *_band_parts(result),
            *_matrices_parts(result),
            *_generation_parts(result),
        ],
        overview=overview_of(result),
        viewer=lambda: viewer_data(result, result.title),
        # The page begins with the first sentence that was chosen by its words.
        start=f"#sentence={kept.sentences[0]}" if kept.chosen else "",
    )


def terminal(result: Result) -> Iterator[TerminalTable]:
    """One row per head, the first ones where a model has many, and what its words and marks mean."""
    summary, columns = heads_shown(result.table)
    columns = tuple(column for column in columns if column.name not in _ELSEWHERE)
    heads = summary.head(MOST_ROWS)
    more = len(summary) - len(heads)
    below = [f"and {more} more heads in {SUMMARY.file}"] if more > 0 else []
    below.append(legend(result.table))
    if "generated" in result.tables:
        below.append(describe_generation(result.tables["generated"]))
    below += describe_heads(result.table)
    yield TerminalTable(
        tuple(column.narrow for column in columns),
        tuple(tuple(_cell(column.name, row) for column in columns) for _, row in heads.iterrows()),
        tuple(column.narrow for column in columns if column.digits is not None),
        f"{counted(len(summary), 'head')}, {VIEW_NAMES[views_of(result)[0]]}",
        "\n".join(filter(None, below)),
        prose=tuple(column.narrow for column in columns if column.name in _PROSE),
    )


def notebook(result: Result) -> str:
    """Maps of the heads, their table and what its words mean, as HTML."""
    names = [name for name in ("role", "structure") if name in result.table]
    maps = [drawn_html(draw_heads(result.table, name), f"heads-{name}") for name in names]
    lines = (
        Markup("<dt>{}</dt><dd>{}</dd>").format(*pair) for pair in words_of_heads(result.table)
    )
    words = Markup("<dl>{}</dl>").format(Markup().join(lines))
    return together(*maps, frame_html(*heads_shown(result.table)), words, notes=result.notes)


def legend(summary: pd.DataFrame) -> str:
    """What the words and marks of the table mean, as many of them a line as have room."""
    words = [f"{word}: {meaning}" for word, meaning in words_of_heads(summary)]
    if LOSS_CHANGE.name in summary:
        heads = counted(len(summary), "head")
        known = summary[LOSS_CHANGE.low].notna().any()
        words.append(
            f"{_BEYOND}: 95 % interval without 0, not corrected for {heads}"
            if known
            else "too few sentences to tell losses from chance"
        )
    if "output" in summary:
        words.append(f"{_WITHOUT_OUTPUT}: without output, see the notes")
    lines = words[:1]
    for word in words[1:]:
        together = f"{lines[-1]}; {word}"
        lines[-1:] = [together] if len(together) <= _WIDTH else [lines[-1], word]
    return "\n".join(lines)


def _cell(name: str, row: pd.Series) -> str:

    if name == "head_name":
        return f"{row[name]} {_WITHOUT_OUTPUT}" if row.get("output") else row[name]
    if name == "role":
        return f"{shown(row[name])} {row['mark']}".strip()
    if name == LOSS_CHANGE.name:
        low, high = LOSS_CHANGE.ends(row.to_dict())
        beyond = low > 0 or high < 0
        return f"{SUMMARY[name].shown(row[name], signed=True)}{_BEYOND if beyond else ' '}"
    if name == "strength":
        return SUMMARY[name].shown(row[name])
    # A cell is wrapped at spaces, and a sign alone on a line says nothing.
    return shown(row[name]).replace(" %", "%") if name in _PROSE else shown(row[name])


def _summary_section(result: Result) -> Section:
    table, columns = heads_shown(result.table)
    return Section(
        "summary",
        "Every head in one table",
        "The closest role of each head with its strength and figure, the family of its matrices, and "
        "what is lost without it. Point at a heading for its meaning.",
        (page_table(table, columns),),
    )


def _generation_parts(result: Result) -> Iterator[Part]:
    """The heads of decoders in what the model writes itself, where that was measured."""
    if "generated" not in result.tables:
        return
    table = result.tables["generated"]
    table = table.assign(head_name=head_names(table))
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

    return Part(section, figures)


def _statistics_tables(result: Result) -> tuple[PageTable, ...]:
    """A table per view of the keys, and one of the rows that were counted; each fits a window."""
    heads, first = result.heads, views_of(result)
    named = heads.assign(head_name=head_names(heads))
    views = [*first, *(keys for keys in VIEWS if keys not in first)]
    counts = ["rows"]
    counts += [n for n in ("empty_rows", "rows_without_content_mass") if heads[n].any()]
    counts += [n for n in _FEWER_ROWS if ((heads[n] < heads["rows"]) & (heads[n] > 0)).any()]
    columns = {VIEW_NAMES[keys]: _VIEW_COLUMNS[keys] for keys in views}
    columns["counted rows"] = tuple(counts)
    return tuple(
        page_table(named, columns_named(["head_name", *known], HEADS.columns), caption)
        for caption, wanted in columns.items()
        if (known := [name for name in wanted if named[name].notna().any()])
    )


def _matrices_parts(result: Result) -> list[Part]:
    kept = result.matrices
    if not kept.matrices:
        return []
    left_out = not_drawn(kept)
    too_large = {(one.sentence, one.site) for one in left_out}

    def figures() -> Iterator[DrawnFigure]:
        titles, drawn = titled_heads(result.table), _drawn_heads(result)
        for (number, site, layer), weights in kept.matrices.items():
            heads = [head for head in drawn if (head.site, head.layer) == (site, layer)]
            if not heads or (number, site) in too_large:
                continue
            queries, keys = kept.tokens[number, site]
            figure = draw_matrices(
                weights[[head.head for head in heads]],
                queries,
                keys,
                title=f"Sentence {number}, {site} layer {layer}",
                names=[titles[head] for head in heads],
            )
            caption = f"Sentence {number}, {SITE_NAMES[site]}, layer {layer}."
            name = f"heads_sentence{number}_{site}_layer{layer}"
            yield DrawnFigure(name, figure, caption, fallback=True)

    layers = {(head.site, head.layer) for head in _drawn_heads(result)}
    any_drawn = any(
        (number, site) not in too_large and (site, layer) in layers
        for number, site, layer in kept.matrices
    )
    which = "those of the heads above" if result.details["figures"] == FIRST_HEADS else "all"
    where = f"{which} in figures/ as SVG and PNG" if any_drawn else "no figure is drawn"
    section = Section(
        "matrices",
        "The kept sentences, matrix by matrix",
        "Rows are queries, columns are keys. The matrices are "
        f"in matrices.safetensors, {where}.{''.join(map(_said, left_out))}",
    )
    return [Part(section, figures)]


def _drawn_heads(result: Result) -> list[Head]:
    """The heads whose kept matrices are drawn, in their order."""
    if result.details["figures"] == FIRST_HEADS:
        return sorted(highlights_of(result))
    return list(titled_heads(result.table))


def _said(one: NotDrawn) -> str:
    return (
        f" Not drawn: sentence {one.sentence} of the {one.site}, since it has {one.tokens} tokens "
        f"and at most {one.limit} are drawn."
    )


def _family_parts(result: Result) -> list[Part]:
    tables, text = [], ""
    fits, structure = table_of(result, "fits"), table_of(result, "structure")
    summary = pd.DataFrame() if fits.empty else summarise(fits)
    # Of drawn rows nothing is compared at equal budget.
    if {*EQUAL_BUDGET} & {*summary}:
        names = [name for name in (*EQUAL_BUDGET, *_REFERENCES) if name in summary]
        named = summary.assign(head_name=head_names(summary))
        tables.append(page_table(named, columns_named(["head_name", *names], RELATIVE)))
        count = fits["sentence"].nunique()
        text = (
            f"{BUDGET} The first table: mean over {count} sentences of the relative l1 distance, "
            "fitted to each matrix itself (oracle). "
        )
    if not structure.empty:
        for keys in views_of(result):
            found = structure_of_heads(table_of(result, "structure", keys))
            for name in ("structure", "structure_runner_up"):
                found[name] = found[name].map(family_words)
            named = found.assign(head_name=head_names(found))
            caption = f"Description length: {VIEW_NAMES[keys]}"
            columns = columns_named(["head_name", *DESCRIBED], STRUCTURE_OF_HEAD)
            tables.append(page_table(named, [*columns, *BITS], caption))
        text += (
            f"Description length: {structure['sentences'].max()} sentences of each head coded "
            "together under the best member of each family, bits that name the member among them; the "
            f"structure is the family of the fewest bits.{_rows_said(result)}"
        )
    if not tables:
        return []
    return [Part(Section("families", "Which family describes each head", text, tuple(tables)))]


def _rows_said(result: Result) -> str:
    """How many rows were measured, where they are not all; nothing otherwise."""
    drawn = [note.rows for note in result.notes if isinstance(note, RowsDrawn)]
    if not drawn:
        return ""
    return f" Of each sentence at most {drawn[0]} rows, drawn at random, were measured (see the notes)."


def _band_parts(result: Result) -> list[Part]:
    fits = table_of(result, "fits")
    if fits.empty:
        return []
    summary = summarise(fits)
    summary = summary.assign(head_name=head_names(summary))
    shown_bands = [f"band_{window}" for window in _WINDOWS_SHOWN]
    references = [name for name in _REFERENCES if name in summary]
    count = fits["sentence"].nunique()
    caption = (
        "Relative distance from the best band of each window, a row per head (layer.head); a matrix of "
        "zeros has 1. The last row of each site is that of equal weights: a head that is no nearer to a "
        "band of that width does not keep to the diagonal."
    )

    def figures() -> Iterator[DrawnFigure]:
        yield DrawnFigure("distance_by_window", draw_windows(fits, width=PAGE_WIDTH), caption)

    section = Section(
        "bands",
        "How near each head is to a whole band",
        f"Mean over {count} sentences of the relative l1 distance: the sum of all absolute "
        "differences divided by the sum of the matrix. A band of window w keeps the weights at "
        "most w tokens from the diagonal. A distance alone says nothing: the reference points "
        f"stand beside it, and a matrix of zeros has distance 1.{_rows_said(result)}",
        (
            page_table(
                summary,
                columns_named(["head_name", *shown_bands, "diagonal_alone", *references], RELATIVE),
            ),
        ),
    )
    return [Part(section, figures)]


def label_sections(result: Result) -> list[Section]:
    """Sections about labels and relations; none where heads were not labelled."""
    if "labels" not in result.tables:
        return []
    views = {keys: VIEW_NAMES[keys] for keys in views_of(result)}
    labels = {keys: table_of(result, "labels", keys) for keys in views}
    tables = [_label_table(labels[keys], name) for keys, name in views.items()]
    evidence = [
        table
        for keys, name in views.items()
        for table in _evidence_table(table_of(result, "controls", keys), name)
    ]
    beside = f" Beside the labels, {ABLATION}" if LOSS_CHANGE.name in result.labels else ""
    section = Section(
        "labels",
        "What each head does",
        f"{_roles_said(result)} {DECIDING} {VIEWS_SAID} A label is measured on one half "
        "of the sentences; what was picked out of many (an offset, a relation) was picked on the "
        f"other half. {_SECOND_TABLE if evidence else ''}All figures, those of labels that "
        f"are rejected too, are in controls.csv.{beside}",
        (*tables, *evidence),
    )
    return [section, *_relation_section(table_of(result, "relations"))]


def _roles_said(result: Result) -> str:
    """How many heads have a confirmed role, a sentence per view."""
    said = {keys: describe_roles(roles_of(result, keys)) for keys in views_of(result)}
    if len(said) > 1 and len(set(said.values())) == 1:
        return f"In both views of the keys: {next(iter(said.values()))}"
    return " ".join(f"With {VIEW_NAMES[keys]}: {what}" for keys, what in said.items())


def _label_table(labels: pd.DataFrame, caption: str) -> PageTable:
    labels = with_phrases(labels).assign(head_name=head_names(labels))
    names = [name for name in _FIRST_TABLE if name in labels]
    columns = columns_named(names, (*LABELS.columns, *SHOWN))
    return page_table(labels, varying(labels, columns), f"Labels: {caption}")


def _evidence_table(controls: pd.DataFrame, caption: str) -> list[PageTable]:
    if controls.empty or not controls["status"].isin([CONFIRMED, BORDERLINE]).any():
        return []
    holding = controls[controls["status"].isin([CONFIRMED, BORDERLINE])]
    # Words can be wrapped, identifiers cannot.
    statistic = holding["statistic"].str.replace("_", " ")
    named = holding.assign(head_name=head_names(holding), statistic=statistic)
    columns = columns_named([name for name in _EVIDENCE if name in named], CONTROLS.columns)
    return [
        page_table(
            named,
            varying(named, columns),
            f"What the labels rest on: {caption}",
        )
    ]


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
    table = page_table(named, varying(named, columns))
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
