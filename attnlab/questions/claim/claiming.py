"""Claims about heads checked on texts: how often heads hit patterns, beside controls."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pandas as pd

from attnlab.core import Head, InputError, Note, no_such_head, options_of
from attnlab.evaluation import (
    EveryRowHits,
    LeftOut,
    PatternReading,
    Patterns,
    gold_texts,
    notes_on_texts,
    nothing_left,
)
from attnlab.labels import CHOOSING, HIT, REPORTED, Pattern, PatternCounts, PatternFigures
from attnlab.models import Source
from attnlab.questions.claim.grading import grade_of, texts_to_decide
from attnlab.questions.claim.question import (
    AGAINST,
    ALWAYS,
    BEST_HIT,
    BETTER,
    BETTER_HIT,
    CLAIMS,
    FOR,
    QUESTION,
    SENTENCES,
    UNDECIDED,
    Claim,
    ClaimSettings,
    WithoutControls,
)
from attnlab.reading import KeptMatrices, MatrixKeeper, Reading
from attnlab.results import Result, head_names

# Of a claim so many heads are listed.
MOST_BETTER = 10
# Of the matrices of listed sentences.
KEPT_BYTES = 64 * 2**20


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
        InputError: no such model or sentences, or every claim is of no head, or of a pattern that no row of
            the texts can meet; where only some are, notes say which are left out.
    """
    model, texts, reading = gold_texts(source, settings, weights=settings.weights)
    claims, refused = _claims_at(settings, reading)
    reader = PatternReading(settings, reading, texts, {pattern for _, pattern in claims})
    _leave_out(claims, refused, reader.unmet)
    counts = reader.counts(_by_site(claims), claims)
    _leave_out(claims, refused, partial(reader.unmet_in, counts))
    controls = reader.controls(_by_site(claims)) if settings.controls else {}
    rows = [_Row(counts, controls, head, pattern, len(claims)) for head, pattern in claims]
    sentences = pd.DataFrame(
        [one for row in rows for one in _sentences(row, settings.examples)], columns=[*SENTENCES]
    )
    table = pd.DataFrame([row.cells for row in rows])
    read, sites = (
        reading.sentences,
        tuple(site for site in reading.sites if site in _by_site(claims)),
    )
    return Result(
        QUESTION.name,
        f"Claims about heads of {model.label}",
        {
            CLAIMS.name: table[[name for name in CLAIMS if name in table]],
            BETTER.name: pd.DataFrame(
                [head for row in rows for head in row.better], columns=[*BETTER]
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
            *(LeftOut(what, str(error)) for what, error in refused),
            *reader.notes,
            *([] if controls else [WithoutControls()]),
            *_without_a_miss(table),
        ),
        weights=model.weights,
        matrices=_matrices(replace(reading, sites=sites), sentences["sentence"]),
    )


def _without_a_miss(table: pd.DataFrame) -> list[Note]:
    """A note on claims that every row meets and that are not `always` for want of texts."""
    rows = table[(table[HIT.name] == 1) & (table["grade"] != ALWAYS)]
    names = zip(head_names(rows), rows["pattern"], strict=True)
    return [EveryRowHits(tuple(f"{head}: {what}" for head, what in names))] if len(rows) else []


# Heads with patterns, each as it was given.
_Claims = dict[tuple[Head, Pattern], str]
_Refused = list[tuple[str, InputError]]


def _claims_at(settings: ClaimSettings, reading: Reading) -> tuple[_Claims, _Refused]:
    """The claims by their heads, and those that are none or are of no head, with the reason."""
    read, unread = settings.read
    claims, refused = _Claims(), [*unread]
    for claimed in read:
        try:
            # Some may be written in two ways.
            claims.setdefault((_head(claimed, reading), claimed.pattern), claimed.told_as)
        except InputError as error:
            refused.append((claimed.told_as, error))
    if not claims:
        raise nothing_left(refused)
    return claims, refused


def _leave_out(
    claims: _Claims, refused: _Refused, reason: Callable[[Pattern, str], InputError | None]
) -> None:
    """Moves the claims that there is a reason against to those that are refused.

    Raises:
        InputError: none is left.
    """
    for (head, pattern), told_as in [*claims.items()]:
        error = reason(pattern, head.site)
        if error is not None:
            del claims[head, pattern]
            refused.append((told_as, error))
    if not claims:
        raise nothing_left(refused)


def _by_site(claims: Iterable[tuple[Head, Pattern]]) -> Patterns:
    """The patterns of each site, each once."""
    patterns: dict[str, dict[Pattern, None]] = {}
    for head, pattern in claims:
        patterns.setdefault(head.site, {})[pattern] = None
    return {site: tuple(members) for site, members in patterns.items()}


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
    head = claimed.at(claimed.site or reading.sites[0])
    heads = reading.attention_sites.heads_at(reading.sites)
    if head not in heads:
        raise no_such_head(head, heads)
    return head


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

    found: PatternCounts
    controls: Mapping[str, PatternCounts]
    head: Head
    pattern: Pattern
    claims: int

    @cached_property
    def figures(self) -> PatternFigures:
        """Figures of the heads of its site; intervals of all claims hold together (Bonferroni)."""
        level = 1 - 0.05 / self.claims
        return PatternFigures(self.pattern, self.head.site, self.found, self.controls, level)

    @property
    def cells(self) -> dict[str, Any]:
        """The row of the claim in its table."""
        cells, bars = self.figures.cells(self.head)
        low, high = HIT.ends(cells)
        grade = grade_of(low, high, bars)
        needed = None
        if grade == UNDECIDED:
            needed = texts_to_decide(cells[HIT.name], low, high, bars, cells["sentences"])
        best: dict[str, Any] = {"best_head": None, **BEST_HIT.cells(math.nan)}
        if self._by_choice:
            head, _, reported = self._by_choice[0]
            best = {"best_head": str(head), **BEST_HIT.cells(*reported)}
        return cells | {"grade": grade, "texts_needed": needed} | best

    @property
    def named(self) -> dict[str, Any]:
        """The cells that say which claim it is."""
        return {**self.head._asdict(), "pattern": self.pattern.text}

    @cached_property
    def _by_choice(self) -> list[tuple[Head, float, tuple[float, float, float]]]:
        """The heads by their hit in the choosing half, the highest first, with that in the other half.

        None where a half has no rows, as of one text: it can choose a head or show what that hits, not both.
        """
        halves = {layer: hits.by_half() for layer, hits in self.figures.hits.items()}
        heads = [
            (
                Head(self.head.site, layer, number),
                float(hits.ratio[CHOOSING, number]),
                self.figures.estimate(hits, REPORTED, number),
            )
            for layer, hits in halves.items()
            for number in range(hits.ratio.shape[1])
            if hits.ratio[:, number].isfinite().all()
        ]
        return sorted(heads, key=lambda scored: -scored[1])

    @property
    def better(self) -> Iterator[dict[str, Any]]:
        """Rows of the heads that hit more often than this one in the choosing half, the first few."""
        hit = {head: chosen for head, chosen, _ in self._by_choice}.get(self.head, math.nan)
        better = [(head, estimate) for head, chosen, estimate in self._by_choice if chosen > hit]
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
    texts = sorted(row.found.rows[row.head, row.pattern], key=lambda text: -len(text.hits))
    for_it = sorted((text for text in texts if text.hit > 0), key=lambda text: -text.hit)[:most]
    others = (text for text in texts if text.hit < 1 and text not in for_it)
    against = sorted(others, key=lambda text: text.hit)[:most]
    for speaks, chosen in ((FOR, for_it), (AGAINST, against)):
        for text in chosen:
            yield {
                **row.named,
                "speaks": speaks,
                "sentence": text.number,
                "sentence_hit": text.hit,
                "sentence_rows": len(text.hits),
                "looks": ", ".join(
                    name if hit else f"[{name}]"
                    for name, hit in zip(text.looks, text.hits, strict=True)
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
