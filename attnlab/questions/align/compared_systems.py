"""What chosen heads are compared with: other choices, defaults of engines, baselines, controls, a bound."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from attnlab.alignment import (
    count_links,
    diagonal_links,
    engine_sets,
    symmetrized,
    turned,
)
from attnlab.core import usable_device
from attnlab.labels import untrained_twin
from attnlab.models import Model
from attnlab.questions.align.chosen_heads import (
    BothDirections,
    Chosen,
    Counts,
    Part,
    best_set,
    choices,
    found_links,
    greedy_paths,
    halves,
)
from attnlab.questions.align.question import (
    CHOICE_NAMES,
    DIAGONAL,
    ORACLE,
    SYMMETRIZATIONS,
    AlignmentSettings,
)
from attnlab.questions.align.word_reading import AlignedPairs, WordPairs, model_of_languages


@dataclass(frozen=True)
class System:
    """A way to align, and how its links agree with gold in each pair."""

    name: str
    kind: str
    counts: Counts
    chosen: Chosen | None = None


def of_heads(name: str, kind: str, report: Part, chosen: Chosen) -> System:
    """The links of some heads in the reported pairs."""
    return System(name, kind, report.counts(chosen), chosen)


def other_heads(
    report: Part, found: Mapping[str, Chosen], taken: str, shape: tuple[int, int]
) -> Iterator[System]:
    """The other choices, what engines take, and the bound.

    Args:
        report: the reported pairs.
        found: what can be chosen, by name.
        taken: which of these is.
        shape: layers, and heads of each.
    """
    for name, one in found.items():
        if name != taken:
            yield of_heads(CHOICE_NAMES[name], "choice", report, one)
    # Engines read the row of the token that is predicted, and no other.
    defaults = engine_sets(*shape) if "output" in report.weights else {}
    for default, addresses in defaults.items():
        heads = tuple(layer * shape[1] + head for layer, head in addresses)
        yield of_heads(default, "default", report, Chosen("output", heads))
    yield of_heads(ORACLE, "bound", report, best_set(greedy_paths(report)))


def baselines(report: Part, statistical: BothDirections | None) -> Iterator[System]:
    """The diagonal and the statistical aligner."""
    diagonal = [diagonal_links(len(source), len(target)) for source, target in report.words]
    yield System(DIAGONAL, "baseline", count_links(diagonal, report.links))
    if statistical is None:
        return
    forward = statistical.forward.align(report.words)
    yield System("statistical aligner", "baseline", count_links(forward, report.links))
    name = "statistical aligner, both directions (grow-diag-final-and)"
    both = statistical.links(report.words)
    yield System(name, "baseline", count_links(both, report.links))


def both_directions(
    pairs: WordPairs,
    report: Part,
    chosen: Chosen,
    wanted: str,
    settings: AlignmentSettings,
    *,
    statistical: BothDirections | None,
) -> Iterator[System]:
    """The chosen links made one with those of a model of the other direction, chosen alike."""
    if settings.reverse is None:
        return
    exchanged = replace(
        settings,
        source_language=settings.target_language,
        target_language=settings.source_language,
    )
    model = model_of_languages(settings.reverse, exchanged)
    model.move_to(usable_device(settings.device))
    other = halves(model, pairs, settings, what="Reading the other direction", turned=True)
    calibration = other.calibration
    exchanged_aligner = None if statistical is None else statistical.exchanged
    own = choices(calibration, greedy_paths(calibration), exchanged_aligner).get(wanted)
    if own is None:
        return
    back = found_links(other.read, own)
    forward = found_links(report, chosen)
    for how in SYMMETRIZATIONS:
        links = [
            symmetrized(own, turned(back.get(number, {})), how) for number, own in forward.items()
        ]
        name = f"chosen heads of both directions ({how})"
        yield System(name, "choice", count_links(links, report.links))


def controls(
    model: Model,
    pairs: WordPairs,
    report: Part,
    chosen: Chosen,
    settings: AlignmentSettings,
    *,
    how: tuple[str, BothDirections | None],
) -> Iterator[System]:
    """What is found where there is nothing to find: in an untrained twin, and between other sentences.

    Args:
        model: with its tokenizer.
        pairs: all that were given.
        report: those that are reported on.
        chosen: the heads.
        settings: those of the question.
        how: by what the heads were chosen, and the statistical aligner, for the twin.
    """
    if settings.quick:
        return
    twin = untrained_twin(model.model, model.seed)
    found = halves(model, pairs, settings, what="Control: untrained model", twin=twin)
    wanted, statistical = how
    own = choices(found.calibration, greedy_paths(found.calibration), statistical)[wanted]
    yield of_heads("untrained twin, chosen alike", "control", found.report, own)
    others = AlignedPairs(model, pairs.with_other_sources(), memory=settings.memory)
    read = others.read(settings, "Control: shuffled pairs")
    links = found_links(read, chosen)
    shuffled = [links.get(number, {}) for number in report.numbers]
    name = "chosen heads, sources of other pairs"
    yield System(name, "control", count_links(shuffled, report.links), chosen)
