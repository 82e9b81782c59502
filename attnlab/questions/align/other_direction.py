"""Heads of a model of the other direction, chosen alike, and the links of both directions made one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from attnlab.alignment import Link, Symmetrization, count_links, symmetrized
from attnlab.core import InputError, NothingUsableError, usable_device
from attnlab.corpora import split_pair
from attnlab.models import Model, Run
from attnlab.questions.align.chosen_heads import (
    BothDirections,
    Chosen,
    Part,
    choices,
    found_links,
    greedy_paths,
    halves,
    heads_without_gold,
    part_of,
)
from attnlab.questions.align.compared_systems import System
from attnlab.questions.align.question import (
    REVERSE,
    SYMMETRIZATIONS,
    AlignmentSettings,
    Choice,
    both_named,
)
from attnlab.questions.align.word_reading import AlignedPairs, WordPairs, model_of_languages

# Is being done, for the progress.
_WHAT = "Reading the other direction"


@dataclass(frozen=True)
class OtherDirection:
    """What a model of the other direction links.

    Attributes:
        model: with its tokenizer.
        shape: its decoder layers, and heads of each.
        chosen: its heads.
        chosen_on: number of pairs that they were chosen on.
        links: with their weights, source and target as in the pairs, by number of the pair.
    """

    model: Model
    shape: tuple[int, int]
    chosen: Chosen
    chosen_on: int
    links: Mapping[int, Mapping[Link, float]]


def reverse_model(forward: Model, settings: AlignmentSettings) -> Model:
    """The model of the other direction, its tokenizer set to the languages, on the device.

    Args:
        forward: the model of the pairs.
        settings: those of the question.

    Raises:
        InputError: it translates in another direction, where both are runs, or is the same model in the same
            direction; see `model_of_languages`.
    """
    exchanged = replace(
        settings,
        source_language=settings.target_language,
        target_language=settings.source_language,
    )
    assert settings.reverse is not None  # noqa: S101 - it is asked for
    model = model_of_languages(settings.reverse, exchanged)
    if isinstance(forward, Run) and isinstance(model, Run):
        own, other = (split_pair(run.settings.corpus.pair) for run in (forward, model))
        if other != own[::-1]:
            msg = (
                f"The model of the other direction translates {'-'.join(other)}, and this one "
                f"{'-'.join(own)}; give one of {'-'.join(own[::-1])}."
            )
            raise InputError(msg)
    # A model of many languages is that of both directions.
    elif settings.target_language is None and model.checksum == forward.checksum:
        msg = (
            f"The model of the other direction, {model.label}, has the weights of this one; give the model "
            "that translates the other way, or of a model of many languages source_language and "
            "target_language."
        )
        raise InputError(msg)
    model.move_to(usable_device(settings.device))
    return model


def other_direction(
    model: Model | None,
    pairs: WordPairs,
    wanted: Choice,
    settings: AlignmentSettings,
    statistical: BothDirections | None,
) -> OtherDirection | None:
    """Heads of the model of the other direction, chosen as those of this one; None where there is none.

    Args:
        model: that of the other direction.
        pairs: with gold links or without.
        wanted: how heads are chosen.
        settings: those of the question.
        statistical: the aligner of the pairs as they are.

    Raises:
        InputError: the model cannot be read on the pairs, or nothing tells its heads apart.
    """
    if model is None:
        return None
    exchanged = None if statistical is None else statistical.exchanged
    pairs = pairs.in_case_of(model)
    try:
        if pairs.links:
            found = halves(model, pairs, settings, what=_WHAT, turned=True)
            aligned, read, calibration = found.aligned, found.read, found.calibration
            paths = greedy_paths(calibration)
            chosen = choices(calibration, paths, exchanged, aligned.shape[1]).get(wanted)
        else:
            turned = pairs.turned()
            aligned = AlignedPairs(model, turned, memory=settings.memory)
            read = aligned.read(settings, _WHAT)
            calibration = part_of(turned, read)
            chosen = heads_without_gold(calibration, exchanged)
    except NothingUsableError as error:
        msg = f"By the model of the other direction, {model.label}: {error}"
        raise NothingUsableError(msg) from error
    if chosen is None:
        msg = "Nothing tells the heads of the other direction apart in these pairs; give more of them."
        raise InputError(msg)
    links = {number: exchanged_links(one) for number, one in found_links(read, chosen).items()}
    return OtherDirection(model, aligned.shape, chosen, len(calibration.numbers), links)


def exchanged_links(links: Mapping[Link, float]) -> dict[Link, float]:
    """The links with source and target exchanged."""
    return {(target, source): weight for (source, target), weight in links.items()}


def joined_links(
    forward: Mapping[int, Mapping[Link, float]],
    backward: Mapping[int, Mapping[Link, float]],
    how: Symmetrization,
) -> dict[int, dict[Link, float]]:
    """The links of both directions made one, by number of the pair.

    A link's weight is the mean over the directions that have it. A pair that one model cannot read has the
    links of the other.

    Args:
        forward: of the model that reads sources and writes targets.
        backward: of the other one, source and target as in `forward`.
        how: see `symmetrized`.
    """
    joined = {}
    for number in sorted({*forward, *backward}):
        sides = [one[number] for one in (forward, backward) if number in one]
        # Of one side alone nothing is to be made one.
        links = symmetrized(sides[0], sides[-1], how)
        weights = {link: [one[link] for one in sides if link in one] for link in links}
        joined[number] = {link: sum(each) / len(each) for link, each in weights.items()}
    return joined


def systems_of_both(report: Part, chosen: Chosen, other: OtherDirection | None) -> Iterator[System]:
    """The links of the other direction, and those of both made one in every way."""
    if other is None:
        return
    own = {number: links for number, links in other.links.items() if number in report.numbers}
    alone = [own.get(number, {}) for number in report.numbers]
    counts = count_links(alone, report.links)
    yield System(REVERSE, "choice", counts, other.chosen, other.shape[1])
    forward = found_links(report, chosen)
    for how in SYMMETRIZATIONS:
        joined = joined_links(forward, own, how)
        links = [joined[number] for number in report.numbers]
        yield System(both_named(how), "choice", count_links(links, report.links))
