"""What `attnlab claim` can be told, and what its columns mean; nothing heavy is imported."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from attnlab.core import (
    HEAD,
    HEAD_KEYS,
    SENTENCE_COUNT,
    SHARED_COLUMNS,
    Estimate,
    Head,
    InputError,
    Note,
    Option,
    Table,
    briefly,
    check_file_exists,
    check_site_names,
    path_label,
    read_columns,
    read_text,
    reason,
)
from attnlab.evaluation import HELD_OUT, PatternTextSettings, TextsAsked, nothing_left
from attnlab.labels import (
    BAR,
    CONTROLS_OF_HIT,
    HIT,
    MASS,
    PATTERN,
    PHRASES,
    ROWS_COUNTED,
    Pattern,
    check_distinct,
    pattern_meant,
    pattern_of,
)
from attnlab.questions.claim import LISTED
from attnlab.reading import ATTENTION, WEIGHTS_OPTION
from attnlab.results import Question

COLUMNS = read_columns(__file__)

ALWAYS, MOSTLY = "always", "mostly"
MORE, NO_MORE, UNDECIDED = "more than controls", "no more than controls", "undecided"
GRADES = (ALWAYS, MOSTLY, MORE, NO_MORE, UNDECIDED)
FOR, AGAINST = "for", "against"

BEST_HIT = Estimate(COLUMNS["best_hit"], HIT.interval)
BETTER_HIT = Estimate(COLUMNS["better_hit"], HIT.interval)
CLAIMS = Table(
    "claims.csv",
    "claim",
    (
        *HEAD,
        PATTERN,
        COLUMNS["grade"],
        *HIT,
        MASS,
        *ROWS_COUNTED,
        SENTENCE_COUNT,
        BAR,
        *CONTROLS_OF_HIT,
        COLUMNS["best_head"],
        *BEST_HIT,
        COLUMNS["texts_needed"],
    ),
    keys=(*HEAD_KEYS, "pattern"),
    heading="Claims",
)
BETTER = Table(
    "better_heads.csv",
    "claim and head that satisfies it better",
    (*HEAD, PATTERN, COLUMNS["better_head"], *BETTER_HIT, COLUMNS["better_mass"]),
    keys=(*HEAD_KEYS, "pattern", "better_head"),
    heading="Heads that satisfy a claim better",
)
SENTENCES = Table(
    "sentences.csv",
    "claim and sentence",
    (
        *HEAD,
        PATTERN,
        COLUMNS["speaks"],
        SHARED_COLUMNS["sentence"],
        *COLUMNS.of("sentence_hit sentence_rows looks"),
    ),
    keys=(*HEAD_KEYS, "pattern", "sentence"),
    heading="Sentences for and against",
)


@dataclass(frozen=True)
class WithoutControls(Note):
    """Neither an untrained model nor shuffled words were read."""

    words = (
        "No untrained model and no shuffled words were read, which a head may reach too: grades beside "
        "chance and the best fixed offset alone are higher; leave out --no-controls."
    )


@dataclass(frozen=True)
class Claim:
    """What somebody says of a head.

    Attributes:
        site: empty where it is not said.
        layer: from 0.
        head: from 0.
        pattern: the keys that it attends to.
        told_as: as it was given, with its place in a file.
    """

    site: str
    layer: int
    head: int
    pattern: Pattern
    told_as: str = field(default="", compare=False)

    def at(self, site: str) -> Head:
        """The head, where its site is known."""
        return Head(site, self.layer, self.head)


_ADDRESS = re.compile(r"\s*(?i:head\s+)?(?:([^\W\d]\w*)\.)?(\d{1,5})\.(\d{1,5})\s*")
_BEHIND = re.compile(r":\s*(?P<pattern>\S.*)|attends\s+to\s+(?P<phrase>\S.*)", re.DOTALL)
_EXAMPLES = "'2.4: offset -1' or '2.4 attends to the previous word'"


# A claim in words, or the address of a head, such as "1.2" or (1, 2), with a pattern or a function.
_Given: TypeAlias = str | tuple[str, Any] | tuple[Sequence[str | int], Any]


def claim_of(given: _Given, *, first: int = 0) -> Claim:
    """The claim of a text, or of the address of a head with a pattern or a function.

    Args:
        given: the claim.
        first: the number of the first layer and of the first head.

    Raises:
        InputError: it is none.
    """
    name, pattern = (given, None) if isinstance(given, str) else given
    address = _address(name)
    if pattern is not None and not isinstance(pattern, str) and not callable(pattern):
        msg = f"{briefly(given)} is no claim; give a head with a pattern or a function."
        raise InputError(msg)
    match = _ADDRESS.match(address)
    behind = _BEHIND.fullmatch(address, match.end()) if match and pattern is None else None
    if match is None or (behind is None if pattern is None else match.end() < len(address)):
        msg = f"{briefly(given)} is no claim; write a head and a pattern, such as {_EXAMPLES}."
        raise InputError(msg)
    site, layer, head = match[1] or "", *(int(number) - first for number in match.groups()[1:])
    if site:
        check_site_names([site])
    if min(layer, head) < 0:
        msg = f"{briefly(given)} names number 0, and from 1 there is none; leave from_1 out."
        raise InputError(msg, options=["from_1"])
    if behind is not None and behind["phrase"]:
        return Claim(site, layer, head, _phrased(behind["phrase"]))
    return Claim(site, layer, head, pattern_of(behind["pattern"] if behind else pattern))  # type: ignore[arg-type]  # one of them is there


def _address(head: str | Sequence[str | int]) -> str:
    return head if isinstance(head, str) else ".".join(map(str, head))


def _told(given: _Given) -> str:
    """A claim as a message calls it."""
    if isinstance(given, str):
        return briefly(given)
    head, pattern = given
    return briefly(f"{_address(head)}: {getattr(pattern, '__name__', pattern)}")


def _phrased(words: str) -> Pattern:
    if " ".join(words.split()).lower() not in PHRASES:
        example = pattern_meant(words) or "offset -1"
        msg = (
            f"What '{words}' means is not known; write a pattern behind a colon, as in '2.4: {example}', or "
            f"one of: {', '.join(PHRASES)}."
        )
        raise InputError(msg)
    return pattern_of(words)


def _claims_in(path: str | Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Heads and patterns of a file with their places; what is missing is empty."""
    check_file_exists(path, "name a file in CSV with the columns head and pattern")
    rows = csv.DictReader(io.StringIO(read_text(Path(path))))
    try:
        if not {"head", "pattern"} <= set(rows.fieldnames or ()):
            msg = f"{path} lacks the columns head and pattern; name them in its first line."
            raise InputError(msg)
        for row in rows:
            yield (
                f"{path_label(path)}, line {rows.line_num}",
                (row["head"] or "", row["pattern"] or ""),
            )
    except csv.Error as error:
        msg = f"{path}, line {rows.reader.line_num} cannot be read as CSV: {reason(error)}."
        raise InputError(msg) from error


@dataclass(frozen=True, kw_only=True)
class ClaimSettings(PatternTextSettings):
    """What `attnlab claim` can be told.

    Raises:
        InputError: there is no claim that can be read.
    """

    claims: Annotated[
        Sequence[_Given],
        Option(
            f"Claims, such as {_EXAMPLES}. In Python also pairs of a head and a pattern or a function, which "
            "gives a boolean matrix of queries and keys for a text with .queries and .keys.",
            argument=True,
            example="((2, 4), 'offset -1')",
        ),
    ] = field(kw_only=False, default=())
    file: Annotated[
        str | Path | None, Option("File of claims in CSV, with the columns head and pattern.")
    ] = None
    from_1: Annotated[
        bool, Option("Layers and heads of the claims count from 1.", ("--from-1",))
    ] = False
    sentences: Annotated[TextsAsked, HELD_OUT] = 200
    controls: Annotated[
        bool,
        Option(
            "Compare with an untrained model of the same size and with shuffled words.",
            ("--controls/--no-controls",),
        ),
    ] = True
    examples: Annotated[
        int, Option("Number of sentences to list for each claim, and against it.", least=0)
    ] = 5
    weights: Annotated[str, WEIGHTS_OPTION] = ATTENTION

    def __post_init__(self) -> None:
        super().__post_init__()
        claims, refused = self.read
        if not claims and not refused:
            msg = f"Give a claim, such as {_EXAMPLES}, or a file of claims."
            raise InputError(msg)
        if not claims:
            raise nothing_left(refused)
        check_distinct(claim.pattern for claim in claims)

    @cached_property
    def read(self) -> tuple[tuple[Claim, ...], tuple[tuple[str, InputError], ...]]:
        """The claims, each once; and those that cannot be read, as they are given, with the reason."""
        given = [("", claim) for claim in self.claims]
        given += () if self.file is None else _claims_in(self.file)
        claims, refused = dict[Claim, None](), list[tuple[str, InputError]]()
        for place, item in given:
            try:
                claim = claim_of(item, first=int(self.from_1))
            except InputError as error:
                at_place = InputError(f"{place}: {error}", options=error.options)
                refused.append((_told(item), at_place if place else error))
            else:
                told_as = f"{_told(item)} ({place})" if place else _told(item)
                claims.setdefault(replace(claim, told_as=told_as))
        return tuple(claims), tuple(refused)


QUESTION = Question(
    **vars(LISTED),
    what="claims",
    settings=ClaimSettings,
    tables=(CLAIMS, BETTER, SENTENCES),
    run="attnlab.questions.claim.claiming:claim",
    figures=("claims",),
    shows=("head", "pattern", "grade", HIT.name, "mass", "chance_hit", "offset_hit", "untrained_hit",
           "shuffled_hit", "best_head"),
    leading=HIT.name,
    keeps_matrices=True,
    printed=2,
)  # fmt: skip
