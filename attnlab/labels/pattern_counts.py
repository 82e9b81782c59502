"""How often all heads hit patterns, and the figures of one head beside those of its controls."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from attnlab.core import Head, Sums
from attnlab.labels.counts import CHOOSING, REPORTED, RatioCounts
from attnlab.labels.label_columns import (
    HIT,
    MASS,
    PATTERN,
    SHUFFLED,
    TRANSFORMER_LENS,
    UNTRAINED,
)
from attnlab.labels.pattern_keys import (
    CONTROL_OFFSETS,
    PatternBatch,
    PatternHits,
    PatternRows,
    PatternTexts,
    count_chance,
    count_offsets,
    count_rows,
    count_transformer_lens,
    pattern_hits,
    pattern_rows,
)
from attnlab.labels.patterns import OF_RELATIONS, Pattern
from attnlab.reading import LayerWeights

# A head must be so far above what controls reach.
MARGIN = 0.1


@dataclass(frozen=True)
class TextRows:
    """The rows of a text that count for a pattern: each query with its largest key, and hits."""

    number: int
    looks: list[str]
    hits: list[float]

    @property
    def hit(self) -> float:
        """Share of the rows that hit."""
        return sum(self.hits) / len(self.hits)


@dataclass
class PatternCounts:
    """How often heads hit patterns, fed layer by layer.

    Attributes:
        known: what is known of the texts.
        patterns: those of each site.
        watched: heads with the patterns for which the rows of each text are kept.
        hits: by pattern, site and layer, of all heads.
        masses: likewise.
        products: likewise, the figure of TransformerLens for its own patterns.
        of_site: by figure (`chance`, `offsets`, `eligible`), pattern and site.
        rows: by head and pattern, of those that are watched.
    """

    known: PatternTexts
    patterns: Mapping[str, Sequence[Pattern]]
    watched: Collection[tuple[Head, Pattern]] = ()
    hits: Sums[tuple[Pattern, str, int], RatioCounts] = field(default_factory=Sums)
    masses: Sums[tuple[Pattern, str, int], RatioCounts] = field(default_factory=Sums)
    products: Sums[tuple[Pattern, str, int], RatioCounts] = field(default_factory=Sums)
    of_site: Sums[tuple[str, Pattern, str], Any] = field(default_factory=Sums)
    rows: dict[tuple[Head, Pattern], list[TextRows]] = field(default_factory=dict)
    _batches: dict[str, tuple[PatternBatch, dict[Pattern, PatternRows]]] = field(
        default_factory=dict
    )

    def update(self, layer: LayerWeights) -> None:
        """Adds one layer's weights for one batch."""
        batch, rows = self._facts(layer)
        for pattern, of in rows.items():
            hits = pattern_hits(pattern, batch, of, layer)
            at = (pattern, layer.site, layer.layer)
            self.hits += {at: count_rows(hits.hit, of, batch.scope)}
            self.masses += {at: count_rows(hits.mass, of, batch.scope)}
            products = count_transformer_lens(pattern, batch, layer)
            if products is not None:
                self.products += {at: products}
            for head, watched in self.watched:
                if watched == pattern and head[:2] == (layer.site, layer.layer):
                    kept = self.rows.setdefault((head, pattern), [])
                    kept += _rows_of_texts(batch, of, hits, head.head, words=pattern.of_words)

    def _facts(self, layer: LayerWeights) -> tuple[PatternBatch, dict[Pattern, PatternRows]]:
        """The batch with the rows of each pattern, worked out once for all layers of a site."""
        cached = self._batches.get(layer.site)
        if cached is not None and cached[0].layer.sentences == layer.sentences:
            return cached
        batch = self.known.batch(layer)
        rows = {pattern: pattern_rows(pattern, batch) for pattern in self.patterns[layer.site]}
        for pattern, of in rows.items():
            self.of_site += {
                ("chance", pattern, layer.site): count_chance(of, batch.scope),
                ("offsets", pattern, layer.site): count_offsets(pattern, batch, of),
                ("eligible", pattern, layer.site): int(of.eligible.sum()),
            }
        self._batches[layer.site] = batch, rows
        return batch, rows

    def counted(self, pattern: Pattern, site: str) -> int:
        """How many rows count for a pattern at a site."""
        return int(self.of_site["chance", pattern, site].denominator.sum())


def _rows_of_texts(
    batch: PatternBatch, of: PatternRows, hits: PatternHits, head: int, *, words: bool
) -> Iterator[TextRows]:
    """The rows of a head in each text."""
    sides = zip(*(batch.word_names if words else batch.token_names), strict=True)
    columns = (of.rows.cpu(), hits.largest[:, head].cpu(), hits.hit[:, head].cpu())
    texts = zip(batch.layer.sentences, sides, *columns, strict=True)
    for number, (queries, keys), counted, largest, hit in texts:
        rows = counted.nonzero().flatten().tolist()
        if rows:
            looks = [f"{queries[row]} > {keys[int(largest[row])]}" for row in rows]
            yield TextRows(number, looks, hit[rows].tolist())


class Bars(NamedTuple):
    """Hits above which a head does more than controls, and below which it does no more."""

    above: float
    below: float


def bars_of(controls: Iterable[tuple[float, float]]) -> Bars:
    """The bars, given the figure and the upper end of each control.

    >>> bars_of([(0.2, 0.25), (0.25, 0.5)])
    Bars(above=0.5, below=0.35)
    """
    figures, ends = zip(*controls, strict=True)
    below = max(figures) + MARGIN
    above = max([below, *(end for end in ends if not math.isnan(end))])
    # A share above 1 would say no more than 1, above which no interval lies.
    return Bars(min(above, 1.0), below)


@dataclass(frozen=True)
class PatternFigures:
    """The figures of the heads of a site for one pattern, beside those of controls.

    Attributes:
        pattern: what is looked for.
        site: where.
        found: what was counted of the model.
        controls: of other models and texts, by name.
        level: of the intervals.
    """

    pattern: Pattern
    site: str
    found: PatternCounts
    controls: Mapping[str, PatternCounts]
    level: float

    def cells(self, head: Head) -> tuple[dict[str, Any], Bars]:
        """The cells of a head in tables, and the bars that its controls set."""
        at = (self.pattern, self.site, head.layer)
        hits = self.hits[head.layer].whole()
        rows, texts = (int(values[0, head.head]) for values in (hits.denominator, hits.sentences))
        others, cells = self._of_model(head)
        bars = bars_of(self._controls[0] + others)
        products = self.found.products.get(at)
        lens = {} if products is None else {
            TRANSFORMER_LENS.name: float(products.whole().ratio[0, head.head])
        }  # fmt: skip
        return {
            **head._asdict(),
            PATTERN.name: self.pattern.text,
            **HIT.cells(*self.estimate(hits, 0, head.head)),
            MASS.name: float(self.found.masses[at].whole().ratio[0, head.head]),
            **lens,
            "rows_counted": rows,
            "rows_without": self.found.of_site["eligible", self.pattern, self.site] - rows,
            "sentences": texts,
            "bar": bars.above,
            **self._controls[1],
            **cells,
        }, bars

    @cached_property
    def hits(self) -> dict[int, RatioCounts]:
        """Hits of all heads, by layer."""
        return self._hits_of(self.found)

    def _hits_of(self, counts: PatternCounts) -> dict[int, RatioCounts]:
        return {
            layer: hits
            for (pattern, site, layer), hits in counts.hits.items()
            if (pattern, site) == (self.pattern, self.site)
        }

    def estimate(self, counts: RatioCounts, half: int, index: int) -> tuple[float, float, float]:
        """A share with its interval."""
        ratio, (low, high) = counts.ratio, counts.share_interval(self.level)
        # Without rows the interval is all that there is.
        low, high = (end.masked_fill(ratio.isnan(), math.nan) for end in (low, high))
        return tuple(float(values[half, index]) for values in (ratio, low, high))  # type: ignore[return-value]  # three

    @cached_property
    def _controls(self) -> tuple[list[tuple[float, float]], dict[str, Any]]:
        """Figure and upper end of each control that is the same for all heads, and their cells."""
        chance = self.found.of_site["chance", self.pattern, self.site].whole()
        value = float(chance.ratio[0, 0])
        ends = [(value, float(chance.interval(self.level)[1][0, 0]))]
        cells: dict[str, Any] = {"chance_hit": value}
        if not self.pattern.is_offset:
            offsets = self.found.of_site["offsets", self.pattern, self.site].by_half()
            best = int(offsets.ratio[CHOOSING].nan_to_num(-1).argmax())
            value, _, high = self.estimate(offsets, REPORTED, best)
            # One text is of one half: it can choose an offset or show what that hits, not both.
            if offsets.ratio[:, best].isnan().any():
                cells |= {"offset_hit": math.nan, "best_offset": math.nan}
            else:
                ends.append((value, high))
                cells |= {"offset_hit": value, "best_offset": CONTROL_OFFSETS[best]}
        return ends, cells

    @cached_property
    def _untrained(self) -> tuple[dict[int, RatioCounts], float]:
        """Hits of the untrained heads by layer, and the largest of them."""
        layers = {
            layer: hits.whole() for layer, hits in self._hits_of(self.controls[UNTRAINED]).items()
        }
        return layers, max(float(hits.ratio.max()) for hits in layers.values())

    def _of_model(self, head: Head) -> tuple[list[tuple[float, float]], dict[str, Any]]:
        """Figure and upper end of each control that has a figure for each head, and their cells."""
        ends, cells = [], dict[str, Any]()
        if UNTRAINED in self.controls:
            layers, most = self._untrained
            value = float(layers[head.layer].ratio[0, head.head])
            ends.append((value, most))
            cells |= {"untrained_hit": value, "untrained_most": most}
        if SHUFFLED in self.controls and self.pattern.names & OF_RELATIONS:
            hits = self.controls[SHUFFLED].hits[self.pattern, self.site, head.layer]
            value, _, high = self.estimate(hits.whole(), 0, head.head)
            ends += [] if math.isnan(value) else [(value, high)]
            cells |= {"shuffled_hit": value}
        return ends, cells
