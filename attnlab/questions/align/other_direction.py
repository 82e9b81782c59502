"""Heads of a model of the other direction, chosen alike, and the links of both directions made one."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from attnlab.alignment import (
    Link,
    StatisticalAligner,
    Symmetrization,
    count_links,
    symmetrized,
)
from attnlab.core import InputError, NothingUsableError, usable_device
from attnlab.corpora import split_pair
from attnlab.models import Model, Run
from attnlab.questions.align.chosen_heads import Direction, choices, halves
from attnlab.questions.align.compared_systems import System
from attnlab.questions.align.question import (
    REVERSE,
    SYMMETRIZATIONS,
    AlignmentSettings,
    Choice,
    both_named,
)
from attnlab.questions.align.word_reading import Part, WordPairs, model_of_languages


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
        pair, other = (split_pair(run.settings.corpus.pair) for run in (forward, model))
        if other != pair[::-1]:
            msg = (
                f"The model of the other direction translates {'-'.join(other)}, and this one "
                f"{'-'.join(pair)}; give one of {'-'.join(pair[::-1])}."
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
    choice: Choice,
    settings: AlignmentSettings,
    statistical: StatisticalAligner | None,
) -> Direction | None:
    """Heads of the model of the other direction, chosen as those of this one; None where there is none.

    Args:
        model: that of the other direction.
        pairs: with gold links or without.
        choice: how heads are chosen.
        settings: those of the question.
        statistical: the aligner of the pairs as they are.

    Raises:
        InputError: the model cannot be read on the pairs, or nothing tells its heads apart.
    """
    if model is None:
        return None
    exchanged = None if statistical is None else statistical.exchanged
    what = "Reading the other direction"
    try:
        read = halves(model, pairs.in_case_of(model), settings, what=what, turned=True)
    except NothingUsableError as error:
        msg = f"By the model of the other direction, {model.label}: {error}"
        raise NothingUsableError(msg) from error
    chosen = choices(read.calibration, exchanged).get(choice)
    if chosen is None:
        msg = "Nothing tells the heads of the other direction apart in these pairs; give more of them."
        raise InputError(msg)
    return Direction(model, read, chosen)


def exchanged_links(
    links: Mapping[int, Mapping[Link, float]],
) -> dict[int, dict[Link, float]]:
    """The links of each pair with source and target exchanged."""
    return {
        number: {(target, source): weight for (source, target), weight in of_pair.items()}
        for number, of_pair in links.items()
    }


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
        sides = [links[number] for links in (forward, backward) if number in links]
        # Of one side alone nothing is to be made one.
        links = symmetrized(sides[0], sides[-1], how)
        weights = {link: [side[link] for side in sides if link in side] for link in links}
        joined[number] = {link: sum(each) / len(each) for link, each in weights.items()}
    return joined


def systems_of_both(report: Part, forward: Direction, other: Direction | None) -> Iterator[System]:
    """The links of the other direction, and those of both made one in every way."""
    if other is None:
        return
    back = exchanged_links(other.links)
    alone = {number: back.get(number, {}) for number in report.numbers}
    yield System(REVERSE, "choice", count_links([*alone.values()], report.links), other.chosen)
    ahead = report.links_of(forward.chosen)
    reverse = {number: links for number, links in alone.items() if number in back}
    for how in SYMMETRIZATIONS:
        joined = joined_links(ahead, reverse, how)
        links = [joined[number] for number in report.numbers]
        yield System(both_named(how), "choice", count_links(links, report.links))
