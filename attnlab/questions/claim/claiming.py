"""Claims about heads checked on texts: how often heads hit patterns, beside controls."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from attnlab.core import Head, InputError, Note, Sums, layers_in_words, options_of
from attnlab.evaluation import model_and_texts, notes_on_texts
from attnlab.labels import (
    CONTROL_OFFSETS,
    OF_RELATIONS,
    RAREST,
    Gold,
    GoldSentence,
    Pattern,
    PatternBatch,
    PatternHits,
    PatternRows,
    PatternTexts,
    RatioCounts,
    TextSide,
    align_corpus,
    count_chance,
    count_offsets,
    count_rows,
    counted_types,
    gold_of_texts,
    pattern_hits,
    pattern_rows,
    shuffled,
    unmet_need,
    untrained_twin,
)
from attnlab.models import Source
from attnlab.questions.claim.grading import bars_of, grade_of, texts_to_decide
from attnlab.questions.claim.question import (
    AGAINST,
    BEST_HIT,
    BETTER,
    BETTER_HIT,
    CLAIMS,
    FOR,
    HIT,
    QUESTION,
    SENTENCES,
    UNDECIDED,
    Claim,
    ClaimSettings,
    RareInTheseTexts,
    WithoutControls,
    WordsUnaligned,
)
from attnlab.reading import (
    KeptMatrices,
    LayerWeights,
    MatrixKeeper,
    Reading,
    Tokens,
    prepare,
    read_sentences,
)
from attnlab.results import Result

# Of a claim so many heads are listed.
MOST_BETTER = 10
# Of the matrices of listed sentences.
KEPT_BYTES = 64 * 2**20
# The halves of the texts, by their numbers.
CHOOSING, REPORTED = 0, 1


@options_of(ClaimSettings)
def claim(source: Source, settings: ClaimSettings) -> Result:
    """Whether heads of the model at `source` attend to what is claimed of them.

    A claim is graded by the whole interval of its hit, the share of rows whose largest weight lies in the
    claimed keys; intervals are simultaneous for all claims of a call. See docs/heads.md, section 11.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair (model,
            tokenizer). A loaded run or a pair is used on the device where it is.
        settings: as keyword arguments.

    Returns:
        The tables `claims` (a row per claim), `better_heads` (a row per claim and head of its site that
        satisfies it better) and `sentences` (those that speak most for each claim and against it). It takes a
        pass over the texts, one for the untrained twin and one for shuffled words.

    Raises:
        InputError: no such model, sentences or head, or a pattern that no row of the texts can meet.
    """
    model, texts = model_and_texts(
        source, sentences=settings.sentences, text=settings.text, corpus=settings.corpus,
        pair=settings.pair, treebank=settings.treebank, gold=True,
    )  # fmt: skip
    model.move_to_named(settings.device, source)
    read = read_sentences(model, texts.texts, texts.origin)
    reading = prepare(model, read, settings.sites, memory=settings.memory, weights=settings.weights)
    named = ((_head(one, reading), one.pattern) for one in settings.claimed)
    # Some may be written in two ways.
    claims = list(dict.fromkeys(named))
    sites = tuple(dict.fromkeys(head.site for head, _ in claims))
    reading = replace(reading, sites=tuple(site for site in reading.sites if site in sites))
    assert texts.gold is not None  # noqa: S101 - it was asked for
    asked = _Asked(settings, reading, claims, texts.gold)
    found = asked.count("Claims", reading, asked.known, keeps_rows=True)
    for head, pattern in claims:
        _check_met(found, head, pattern)
    controls = asked.controls() if settings.controls else {}
    rows = [_Row(found, controls, head, pattern, len(claims)) for head, pattern in claims]
    sentences = pd.DataFrame(
        [one for row in rows for one in _sentences(row, settings.examples)], columns=[*SENTENCES]
    )
    return Result(
        QUESTION.name,
        f"Claims about heads of {model.label}",
        {
            CLAIMS.name: pd.DataFrame([row.cells for row in rows]),
            BETTER.name: pd.DataFrame(
                [one for row in rows for one in row.better], columns=[*BETTER]
            ),
            SENTENCES.name: sentences,
        },
        {
            **model.facts,
            **model.history,
            "Texts": f"{len(read)} from {read.origin}",
            **reading.facts,
        },
        (
            *notes_on_texts(model, texts, {"": read}, settings.sentences, sites),
            *read.dropped,
            *reading.notes,
            *asked.notes,
            *([] if controls else [WithoutControls()]),
        ),
        weights=model.weights,
        matrices=_matrices(reading, sentences["sentence"]),
    )


def _head(claimed: Claim, reading: Reading) -> Head:
    """The head of a claim.

    Raises:
        InputError: the model has no such head, or at several sites.
    """
    name = f"{claimed.layer}.{claimed.head}"
    if not claimed.site and len(reading.sites) > 1:
        written = ", ".join(f"{site}.{name}" for site in reading.sites)
        msg = f"There are several heads {name}; write one of: {written}."
        raise InputError(msg)
    site = claimed.site or reading.sites[0]
    counts = {
        layer: heads
        for (own, layer), heads in reading.attention_sites.heads_of.items()
        if own == site and site in reading.sites
    }
    if not counts:
        msg = f"There is no {site} attention to read; choose from: {', '.join(reading.sites)}."
        raise InputError(msg)
    if claimed.head >= counts.get(claimed.layer, 0):
        heads = counts.get(claimed.layer)
        there = (
            f"{site} has {layers_in_words(sorted(counts))}"
            if heads is None
            else f"the layer has {heads} heads (0 to {heads - 1})"
        )
        msg = f"There is no head {site}.{name}: {there}, counted from 0."
        raise InputError(msg)
    return claimed.at(site)


@dataclass(frozen=True)
class _TextRows:
    """The rows of a text that count for a claim: each query with the key of its largest weight, and hits."""

    number: int
    looks: list[str]
    hits: list[float]

    @property
    def hit(self) -> float:
        """Share of the rows that hit."""
        return sum(self.hits) / len(self.hits)


@dataclass
class ClaimCounts:
    """How often heads hit patterns, fed layer by layer.

    Attributes:
        known: what is known of the texts.
        claims: heads with their patterns.
        hits: by pattern, site and layer, of all heads.
        masses: likewise.
        of_site: by figure (`chance`, `offsets`, `eligible`), pattern and site.
        rows: by head and pattern the rows of each text, of the model alone.
        keeps_rows: whether they are kept.
    """

    known: PatternTexts
    claims: Sequence[tuple[Head, Pattern]]
    hits: Sums[tuple[Pattern, str, int], RatioCounts] = field(default_factory=Sums)
    masses: Sums[tuple[Pattern, str, int], RatioCounts] = field(default_factory=Sums)
    of_site: Sums[tuple[str, Pattern, str], Any] = field(default_factory=Sums)
    keeps_rows: bool = True
    rows: dict[tuple[Head, Pattern], list[_TextRows]] = field(default_factory=dict)
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
            for head, own in self.claims if self.keeps_rows else ():
                if own == pattern and head[:2] == (layer.site, layer.layer):
                    kept = self.rows.setdefault((head, pattern), [])
                    kept += _rows_of_texts(batch, of, hits, head.head, words=pattern.of_words)

    def _facts(self, layer: LayerWeights) -> tuple[PatternBatch, dict[Pattern, PatternRows]]:
        """The batch with the rows of each pattern, worked out once for all layers of a site."""
        known = self._batches.get(layer.site)
        if known is not None and known[0].layer.sentences == layer.sentences:
            return known
        batch = self.known.batch(layer)
        patterns = dict.fromkeys(own for head, own in self.claims if head.site == layer.site)
        rows = {pattern: pattern_rows(pattern, batch) for pattern in patterns}
        for pattern, of in rows.items():
            self.of_site += {
                ("chance", pattern, layer.site): count_chance(of, batch.scope),
                ("offsets", pattern, layer.site): count_offsets(pattern, batch, of),
                ("eligible", pattern, layer.site): int(of.eligible.sum()),
            }
        self._batches[layer.site] = batch, rows
        return batch, rows


def _rows_of_texts(
    batch: PatternBatch, of: PatternRows, hits: PatternHits, head: int, *, words: bool
) -> Iterator[_TextRows]:
    """The rows of a head in each text."""
    sides = zip(*(batch.word_names if words else batch.token_names), strict=True)
    columns = (of.rows.cpu(), hits.largest[:, head].cpu(), hits.hit[:, head].cpu())
    texts = zip(batch.layer.sentences, sides, *columns, strict=True)
    for number, (queries, keys), counted, largest, hit in texts:
        rows = counted.nonzero().flatten().tolist()
        if rows:
            looks = [f"{queries[row]} > {keys[int(largest[row])]}" for row in rows]
            yield _TextRows(number, looks, hit[rows].tolist())


class _Asked:
    """What is read, and what is known of it.

    Args:
        settings: the options.
        reading: the model with the texts.
        claims: heads with their patterns.
        gold: what is known of the texts.

    Raises:
        InputError: no row of the texts can meet a pattern.
    """

    def __init__(
        self,
        settings: ClaimSettings,
        reading: Reading,
        claims: Sequence[tuple[Head, Pattern]],
        gold: Gold,
    ) -> None:
        self.settings, self.reading, self.claims = settings, reading, claims
        texts = reading.sentences.texts
        self.gold = _gold_of_read(gold, reading)
        counts = reading.loaded.type_counts
        self.type_counts = counts or counted_types(reading.loaded.both_tokenizers, texts)
        self.notes: list[Note] = []
        names = {name for _, pattern in claims for name in pattern.names}
        if RAREST in names and counts is None:
            self.notes.append(RareInTheseTexts())
        self.known, reasons = self._known(self.gold, reading)
        if reasons:
            self.notes.append(WordsUnaligned(len(reasons), *next(iter(reasons.items()))))
        for head, pattern in claims:
            unmet = unmet_need(pattern, head.site, self.known, _special(reading, head.site))
            if unmet is not None:
                msg = f"No row can meet '{pattern.text}' at {head}: {unmet}."
                raise InputError(msg)

    def _known(self, gold: Gold, reading: Reading) -> tuple[PatternTexts, dict[str, str]]:
        """What is known of the texts, and why some of them are not aligned with their words."""
        texts, both = reading.sentences.texts, reading.loaded.both_tokenizers
        paired, reasons = reading.sentences.paired, dict[str, str]()

        def side(tokenizer: Any, own: Sequence[GoldSentence], tokens: Sequence[Tokens]) -> TextSide:
            counts = self.type_counts[-1 if own is gold.target else 0]
            trees, seconds = own if gold.trees else (), [text.second for text in tokens]
            if not any(pattern.needs_words for _, pattern in self.claims):
                return TextSide(counts, trees, seconds=seconds)
            aligned = align_corpus(tokenizer, own, tokens)
            reasons.update(aligned.reasons)
            return TextSide(counts, trees, aligned.alignments, seconds)

        targets = [text.target for text in texts if text.target is not None]
        known = PatternTexts(
            [text.text for text in texts],
            side(both.source, gold.source, [text.source for text in texts]),
            side(both.target, gold.target, targets) if paired and gold.target is not None else None,
            gold.pairs if paired else (),
        )
        return known, reasons

    def count(
        self, what: str, reading: Reading, known: PatternTexts, *, keeps_rows: bool = False
    ) -> ClaimCounts:
        """Counts of all heads at the sites of the claims."""
        found = ClaimCounts(known, self.claims, keeps_rows=keeps_rows)
        tell = self.settings.progress
        reading.feed(
            [found],
            batch_size=self.settings.batch_size,
            progress=None if tell is None else lambda done, total: tell(what, done, total),
        )
        return found

    def controls(self) -> dict[str, ClaimCounts]:
        """The same counts of an untrained model, and on shuffled words where a claim is about words."""
        reading, seed = self.reading, self.settings.seed
        twin = reading.by(untrained_twin(reading.model, seed))
        counts = {UNTRAINED: self.count("Control: untrained model", twin, self.known)}
        if any(pattern.names & OF_RELATIONS for _, pattern in self.claims):
            gold = shuffled(self.gold, seed)
            mixed = replace(reading.of_texts(gold.texts), sites=reading.sites)
            counts[SHUFFLED] = self.count(
                "Control: shuffled words", mixed, self._known(gold, mixed)[0]
            )
        return counts


UNTRAINED, SHUFFLED = "untrained", "shuffled"


def _gold_of_read(gold: Gold, reading: Reading) -> Gold:
    """What is known of the texts as the model reads them: pairs of one stack as one text."""
    texts = [text.text for text in reading.sentences.texts]
    if reading.sentences.paired:
        return gold
    if isinstance(texts[0], tuple):
        return gold_of_texts([" ".join(text) for text in texts])
    return gold.without_target()


def _special(reading: Reading, site: str) -> set[str]:
    """The special tokens in the texts that are keys at a site."""
    sentences = reading.sentences
    target = site == "decoder" and sentences.paired
    vocabulary = sentences.target if target else sentences.source
    ids = {
        token
        for sentence in sentences.usable
        for token in (sentence.target if target and sentence.target else sentence.source)
    }
    return set(vocabulary.tokens(sorted(ids & vocabulary.special)))


def _check_met(found: ClaimCounts, head: Head, pattern: Pattern) -> None:
    """Raises InputError where no row was counted."""
    if not found.rows.get((head, pattern)):
        msg = (
            f"No row of the texts can meet '{pattern.text}' at {head}: there is no such key that a query may "
            "look at and one outside the pattern beside it; give other texts or another pattern."
        )
        raise InputError(msg)


@dataclass(frozen=True)
class _Row:
    """A claim with what was counted.

    Attributes:
        found: of the model.
        controls: of other models and texts, by name.
        head: what the claim is about.
        pattern: what it says.
        claims: number of claims of the call.
    """

    found: ClaimCounts
    controls: Mapping[str, ClaimCounts]
    head: Head
    pattern: Pattern
    claims: int

    @property
    def level(self) -> float:
        """Of its interval, such that those of all claims hold together (Bonferroni)."""
        return 1 - 0.05 / self.claims

    @property
    def _at(self) -> tuple[Pattern, str, int]:
        return self.pattern, self.head.site, self.head.layer

    @property
    def cells(self) -> dict[str, Any]:
        """Its row."""
        hits = self.found.hits[self._at].whole()
        estimate = self._estimate(hits, 0, self.head.head)
        controls, cells = self._controls()
        bars = bars_of(controls)
        hit, low, high = estimate
        grade = grade_of(low, high, bars)
        texts, rows = (
            int(values[0, self.head.head]) for values in (hits.sentences, hits.denominator)
        )
        eligible = self.found.of_site["eligible", self.pattern, self.head.site]
        needed = texts_to_decide(hit, low, high, bars, texts) if grade == UNDECIDED else None
        best, _, chosen = self._by_choice()[0]
        return {
            **self.named,
            "grade": grade,
            **HIT.cells(*estimate),
            "mass": float(self.found.masses[self._at].whole().ratio[0, self.head.head]),
            "rows_counted": rows,
            "rows_without": eligible - rows,
            "sentences": texts,
            "bar": bars.above,
            **cells,
            "best_head": str(best),
            **BEST_HIT.cells(*chosen),
            "texts_needed": needed,
        }

    @property
    def named(self) -> dict[str, Any]:
        """The cells that say which claim it is."""
        return {**self.head._asdict(), "pattern": self.pattern.text}

    def _estimate(self, counts: RatioCounts, half: int, index: int) -> tuple[float, float, float]:
        """A share with its interval."""
        ratio, (low, high) = counts.ratio, counts.share_interval(self.level)
        # Without rows the interval is all that there is.
        low, high = (end.masked_fill(ratio.isnan(), math.nan) for end in (low, high))
        return tuple(float(values[half, index]) for values in (ratio, low, high))  # type: ignore[return-value]  # three

    def _controls(self) -> tuple[list[tuple[float, float]], dict[str, Any]]:
        """Figure and upper end of each control, and their cells."""
        site = self.head.site
        chance = self.found.of_site["chance", self.pattern, site].whole()
        value = float(chance.ratio[0, 0])
        ends = [(value, float(chance.interval(self.level)[1][0, 0]))]
        cells: dict[str, Any] = {"chance_hit": value}
        if not self.pattern.is_offset:
            offsets = self.found.of_site["offsets", self.pattern, site].by_half()
            best = int(offsets.ratio[CHOOSING].nan_to_num(-1).argmax())
            value, _, high = self._estimate(offsets, REPORTED, best)
            # One text is of one half: it can choose an offset or show what that hits, not both.
            if offsets.ratio[:, best].isnan().any():
                cells |= {"offset_hit": math.nan, "best_offset": math.nan}
            else:
                ends.append((value, high))
                cells |= {"offset_hit": value, "best_offset": CONTROL_OFFSETS[best]}
        if UNTRAINED in self.controls:
            layers = self._hits_by_layer(self.controls[UNTRAINED])
            most = max(float(hits.whole().ratio.max()) for hits in layers.values())
            value = float(layers[self.head.layer].whole().ratio[0, self.head.head])
            ends.append((value, most))
            cells |= {"untrained_hit": value, "untrained_most": most}
        if SHUFFLED in self.controls and self.pattern.names & OF_RELATIONS:
            hits = self.controls[SHUFFLED].hits
            value, _, high = self._estimate(hits[self._at].whole(), 0, self.head.head)
            ends += [] if math.isnan(value) else [(value, high)]
            cells |= {"shuffled_hit": value}
        return ends, cells

    def _hits_by_layer(self, counts: ClaimCounts) -> dict[int, RatioCounts]:
        return {
            layer: hits
            for (pattern, site, layer), hits in counts.hits.items()
            if (pattern, site) == (self.pattern, self.head.site)
        }

    def _by_choice(self) -> list[tuple[Head, float, tuple[float, float, float]]]:
        """The heads by their hit in the choosing half, the highest first, with that in the other half."""
        halves = {layer: hits.by_half() for layer, hits in self._hits_by_layer(self.found).items()}
        heads = [
            (
                Head(self.head.site, layer, number),
                float(hits.ratio[CHOOSING, number].nan_to_num()),
                self._estimate(hits, REPORTED, number),
            )
            for layer, hits in halves.items()
            for number in range(hits.ratio.shape[1])
        ]
        return sorted(heads, key=lambda one: -one[1])

    @property
    def better(self) -> Iterator[dict[str, Any]]:
        """Rows of the heads that hit more often than this one in the choosing half, the first few."""
        heads = self._by_choice()
        own = next(chosen for head, chosen, _ in heads if head == self.head)
        better = [(head, estimate) for head, chosen, estimate in heads if chosen > own]
        for head, estimate in better[:MOST_BETTER]:
            masses = self.found.masses[self.pattern, head.site, head.layer].by_half()
            yield {
                **self.named,
                "better_head": str(head),
                **BETTER_HIT.cells(*estimate),
                "better_mass": float(masses.ratio[REPORTED, head.head]),
            }


def _sentences(row: _Row, most: int) -> Iterator[dict[str, Any]]:
    """The sentences that speak most for a claim, and those that speak most against it."""
    # Of equal ones the longer first.
    texts = sorted(row.found.rows[row.head, row.pattern], key=lambda one: -len(one.hits))
    for_it = sorted((one for one in texts if one.hit > 0), key=lambda one: -one.hit)[:most]
    others = (one for one in texts if one.hit < 1 and one not in for_it)
    against = sorted(others, key=lambda one: one.hit)[:most]
    for speaks, chosen in ((FOR, for_it), (AGAINST, against)):
        for one in chosen:
            yield {
                **row.named,
                "speaks": speaks,
                "sentence": one.number,
                "sentence_hit": one.hit,
                "sentence_rows": len(one.hits),
                "looks": ", ".join(
                    name if hit else f"[{name}]"
                    for name, hit in zip(one.looks, one.hits, strict=True)
                ),
            }


def _matrices(reading: Reading, numbers: Iterable[int]) -> KeptMatrices:
    """The matrices of the sentences that are listed."""
    chosen = tuple(dict.fromkeys(numbers))
    usable = tuple(one for one in reading.sentences.usable if one.number in chosen)
    keeper = MatrixKeeper(0, KEPT_BYTES, chosen=chosen)
    if usable:
        replace(reading, sentences=replace(reading.sentences, usable=usable)).feed([keeper])
    return keeper.kept()
