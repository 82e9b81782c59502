"""What chosen heads are compared with: other choices, defaults of engines, baselines, controls, a bound."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attnlab.alignment import (
    ENGINE_ROW,
    count_links,
    diagonal_links,
    engine_sets,
    published_sets,
)
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
    AlignmentSettings,
    Choice,
)
from attnlab.questions.align.word_reading import AlignedPairs, WordPairs


@dataclass(frozen=True)
class System:
    """A way to align, and how its links agree with gold in each pair.

    Attributes:
        name: of the way.
        kind: see the table `systems`.
        counts: how its links agree with gold.
        chosen: its heads; None: no attention is read, or that of two models.
        heads_per_layer: of a model that is not the one that is asked about.
    """

    name: str
    kind: str
    counts: Counts
    chosen: Chosen | None = None
    heads_per_layer: int | None = None


def of_heads(name: str, kind: str, report: Part, chosen: Chosen) -> System:
    """The links of some heads in the reported pairs."""
    return System(name, kind, report.counts(chosen), chosen)


def other_heads(
    report: Part, found: Mapping[Choice, Chosen], taken: Choice, shape: tuple[int, int]
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
    if ENGINE_ROW in report.weights:
        sets = [("default", engine_sets(*shape)), ("baseline", published_sets(*shape))]
        for kind, some in sets:
            for default, addresses in some.items():
                heads = tuple(layer * shape[1] + head for layer, head in addresses)
                yield of_heads(default, kind, report, Chosen(ENGINE_ROW, heads))
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


def controls(
    model: Model,
    pairs: WordPairs,
    report: Part,
    chosen: Chosen,
    settings: AlignmentSettings,
    *,
    how: tuple[Choice, BothDirections | None],
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
    paths, per_layer = greedy_paths(found.calibration), found.aligned.shape[1]
    own = choices(found.calibration, paths, statistical, per_layer)[wanted]
    yield of_heads("untrained twin, chosen alike", "control", found.report, own)
    if len(pairs) < 2:
        return
    others = AlignedPairs(model, pairs.with_other_sources(), memory=settings.memory)
    read = others.read(settings, "Control: shuffled pairs")
    links = found_links(read, chosen)
    shuffled = [links.get(number, {}) for number in report.numbers]
    name = "chosen heads, sources of other pairs"
    yield System(name, "control", count_links(shuffled, report.links), chosen)
