"""The mechanisms that can replace full attention at a budget of keys, made ready for each layer.

Tables are learned on training sentences; the setting of each mechanism at a site is chosen on validation
sentences.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.attention import (
    AttentionRecord,
    Mechanism,
    PerHead,
    ScoreRule,
    Sigma,
    SigmaAttention,
    SigmaTables,
    Specification,
    Tally,
    Window,
    make,
    sides,
)
from attnlab.budget.running_sums import Layer, Measurements
from attnlab.budget.uniform import FIXED, refusals, uniform, uniform_mechanisms
from attnlab.core import Side, sides_of
from attnlab.reading import Observed, Sentence, Sentences

ONE_KEY_PATTERNS = ("self", "previous", "next")
CAUSAL_PATTERNS = ("self", "previous")

Apply = Callable[[Observed], Tensor]


@dataclass(frozen=True)
class Candidate:
    """A mechanism in place of full attention, at one layer.

    Attributes:
        name: its name in tables.
        setting: its specification, or what it is in words.
        level: `oracle` (chosen from the very matrices it is measured on) or `calibrated` (on training and
            validation sentences).
        mechanism: what computes it, ready for the layer.
        multiply_adds: work of one head on a sentence of mean length.
    """

    name: str
    setting: str
    level: str
    mechanism: Mechanism
    multiply_adds: int

    def matrices(self, layer: Observed) -> Tensor:
        """Its implied matrices `[batch, head, query, key]`."""
        # A module that is there already is not moved.
        return self.mechanism.to(layer.query.device).implied_matrix(
            layer.query, layer.key, layer.visible, **layer.call_context()
        )


Candidates = Mapping[Layer, Sequence[tuple[int, Candidate]]]


@dataclass(frozen=True)
class SiteTypes:
    """A site with what its candidates depend on of the sentences.

    Attributes:
        site: encoder, decoder or cross.
        counts: how often each token type of the keys, by id, occurs in training text.
        queries: mean number of queries of a validation sentence, for the work.
        keys: mean number of keys.
        longest: most keys of a sentence.
        rules: what the model does to the scores of any of its layers.
    """

    site: str
    counts: Int[Tensor, " type"]
    queries: int
    keys: int
    longest: int
    rules: frozenset[ScoreRule] = frozenset()

    def with_counted_ids(self, layer: Observed) -> Observed:
        """The layer with ids that all have a count; padding gets any."""
        return replace(layer, token_ids=layer.token_ids.clamp(max=len(self.counts) - 1))


def types_of_site(
    site: str,
    type_counts: tuple[Int[Tensor, " _"], ...],
    validation: Sentences,
    learning: Sentences,
    test: Sentences,
    *,
    rules: frozenset[ScoreRule] = frozenset(),
) -> SiteTypes:
    """The site with its numbers of keys and queries, and how often each token type occurs in training text.

    Args:
        site: encoder, decoder or cross.
        type_counts: how often each type of the sources and of the targets occurs in training text, by id.
        validation: sentences to choose on.
        learning: training sentences.
        test: sentences to report on.
        rules: what the model does to the scores of the site.
    """
    chosen, before, last = (
        [_ids(site, sentence) for sentence in part.usable] for part in (validation, learning, test)
    )
    queries, keys = (
        max(1, round(sum(len(side[part]) for side in chosen) / len(chosen))) for part in (0, 1)
    )
    longest = max(len(ids) for _, ids in [*chosen, *before, *last])
    counts = type_counts[site == "decoder"]
    return SiteTypes(site, counts, queries, keys, longest, rules)


def _ids(site: str, sentence: Sentence) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of the queries and of the keys of one sentence."""
    pair: dict[Side, tuple[int, ...]] = {"source": sentence.source}
    if sentence.target is not None:
        pair["target"] = sentence.target
    return sides_of(site, pair)


class LayerCalibration:
    """Attention of one layer on training sentences, as running sums: all that candidates learn from.

    Args:
        site: the site.
        windows: of the bands beside which sigma has columns.

    Attributes:
        heads: number of heads.
        dim: size of a query.
    """

    def __init__(self, site: SiteTypes, windows: Iterable[Window]) -> None:
        causal = site.site == "decoder"
        self.heads, self.dim = 0, 0
        self._tallies = {window: Tally(len(site.counts), window) for window in windows}
        names: tuple[str, ...] = CAUSAL_PATTERNS if causal else ONE_KEY_PATTERNS
        if FIXED in refusals(site.site, site.rules):
            names = ()
        self._patterns = {
            name: make(f"fixed(pattern='{name}')", causal=causal, cross=site.site == "cross")
            for name in names
        }
        self._mass = torch.zeros(len(names), 1, dtype=torch.float64)

    def add(self, layer: Observed) -> None:
        """Counts one batch."""
        self.heads, self.dim = layer.query.shape[1], layer.query.shape[-1]
        record = AttentionRecord(layer.weights, layer.token_ids, layer.visible, layer.real_queries)
        for tally in self._tallies.values():
            tally.add(record)
        masses = [
            (layer.weights * Candidate(name, "", "", part, 0).matrices(layer)).sum((0, 2, 3)).cpu()
            for name, part in self._patterns.items()
        ]
        self._mass = self._mass + torch.stack(masses) if masses else self._mass

    def tables(self, window: Window, extra: int) -> SigmaTables:
        """Salience of tokens, and so many best offsets, outside a band."""
        return self._tallies[window].tables(extra=extra)

    def best_pattern(self) -> tuple[str, Mechanism]:
        """The one-key pattern that holds most of each head's attention, and the choice in words."""
        best = self._mass.argmax(0).tolist()
        groups = [
            ([head for head, index_of_head in enumerate(best) if index_of_head == index], pattern)
            for index, pattern in enumerate(self._patterns.values())
        ]
        words = f"the best of {', '.join(self._patterns)} for each head"
        return words, PerHead([(heads, pattern) for heads, pattern in groups if heads])


def made(spec: str | Specification, heads: int, types: int, site: str) -> Mechanism:
    """The mechanism that a specification names for so many heads of a site and token types, in float64.

    Raises:
        InputError: the site does not allow it.
    """
    # Linformer draws its projections from torch's generator of the CPU: the caller's is left as it is,
    # and those of other devices are not concerned.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        mechanism = make(
            spec, causal=site == "decoder", cross=site == "cross", heads=heads, vocabulary=types
        )
    return mechanism.double().eval()


def mechanism_names() -> tuple[str, ...]:
    """The mechanisms that there are settings for."""
    return (*uniform_mechanisms(), FIXED)


class Choosing:
    """Learns tables on training sentences, and chooses settings on validation sentences.

    All settings of a mechanism are measured at all heads of a site: how far the matrices are from full
    attention (l1), and how many keys the rows see, counted, or without a support the work of as many.
    The nearest one within the budget is taken, as for the baselines of the plan search.

    Args:
        by_site: the sites, with their token types.
        budgets: keys per row.
        names: the mechanisms; None: all.
        longest: most tokens of a sentence that a mechanism must take.

    Attributes:
        by_site: the same.
    """

    def __init__(
        self,
        by_site: Mapping[str, SiteTypes],
        budgets: Sequence[int],
        names: Iterable[str] | None,
        *,
        longest: int,
    ) -> None:
        self.by_site, self._budgets = by_site, list(dict.fromkeys(budgets))
        self._names = list(mechanism_names() if names is None else dict.fromkeys(names))
        self._known = {
            name: uniform for name, uniform in uniform_mechanisms().items() if name in self._names
        }
        self._settings = {
            (site, name): uniform(name, site, max(budgets), longest=longest, rules=types.rules)
            for site, types in by_site.items()
            for name in self._known
        }
        self._learned: dict[Layer, LayerCalibration] = {}
        self._measured: Measurements | None = None
        self._chosen: dict[tuple[str, str, int], Specification | None] = {}

    def learn(self, layer: Observed) -> None:
        """Counts one batch of training sentences."""
        at, site = (layer.site, layer.layer), self.by_site[layer.site]
        if at not in self._learned:
            sigmas = [spec for spec in self._site_settings(layer.site) if isinstance(spec, Sigma)]
            windows = dict.fromkeys(sides(sigma.name, sigma.window) for sigma in sigmas)
            self._learned[at] = LayerCalibration(site, windows)
        self._learned[at].add(site.with_counted_ids(layer))

    def measure(self, layer: Observed) -> None:
        """Measures every setting on one batch of validation sentences."""
        if self._measured is None:
            settings_by_layer = {
                at: dict.fromkeys(self._site_settings(at[0]), range(learned.heads))
                for at, learned in self._learned.items()
            }
            self._measured = Measurements(settings_by_layer, detailed=False, build=self._taught)
        self._measured.add(self.by_site[layer.site].with_counted_ids(layer))

    def setting(self, name: str, site: str, budget: int) -> Specification | None:
        """The nearest setting of a mechanism within the budget; None where none fits or it has no form."""
        case = name, site, budget
        if case not in self._chosen:
            most = float(budget * self._rows(site))
            # Of settings of equal error, that of the fewest keys.
            fitting = [
                (error, keys, index)
                for index, specification in enumerate(self._settings[site, name])
                for error, keys in [self._sums(site, specification)]
                if keys <= most
            ]
            self._chosen[case] = self._settings[site, name][min(fitting)[-1]] if fitting else None
        return self._chosen[case]

    def candidates(self) -> Candidates:
        """Every mechanism and budget that has a setting at the site of each layer, ready for the layer."""
        return {
            at: [
                (budget, candidate)
                for budget in self._budgets
                for name in self._names
                if (candidate := self._candidate(name, at, budget)) is not None
            ]
            for at in self._learned
        }

    def tried(self, name: str, site: str) -> int:
        """Number of settings of a mechanism that were measured at a site."""
        return 1 if name == FIXED else len(self._settings[site, name])

    def without_setting(self) -> list[tuple[str, str, int]]:
        """Site, mechanism and budget where it has a form, but no setting within the budget."""
        return [
            (site, name, budget)
            for (site, name), settings in self._settings.items()
            for budget in self._budgets
            if settings and self.setting(name, site, budget) is None
        ]

    def candidate_of(
        self, named: tuple[str, str, str], at: Layer, mechanism: Mechanism
    ) -> Candidate:
        """A mechanism with its name, how it is written and its level, at a layer."""
        site, dim = self.by_site[at[0]], self._learned[at].dim
        work = mechanism.cost(site.queries, site.keys, dim).multiply_adds
        return Candidate(*named, mechanism, work)

    @property
    def heads(self) -> dict[Layer, int]:
        """Number of heads of each layer."""
        return {at: learned.heads for at, learned in self._learned.items()}

    def _candidate(self, name: str, at: Layer, budget: int) -> Candidate | None:
        learned = self._learned[at]
        if name == FIXED and FIXED in refusals(at[0], self.by_site[at[0]].rules):
            return None
        if name == FIXED:
            words, pattern = learned.best_pattern()
            return self.candidate_of((name, words, "calibrated"), at, pattern)
        setting = self.setting(name, at[0], budget)
        if setting is None:
            return None
        mechanism = self._taught(at, setting, learned.heads)
        return self.candidate_of((name, str(setting), self._known[name].level), at, mechanism)

    def _taught(self, at: Layer, specification: Specification, heads: int) -> Mechanism:
        """The mechanism, tables of sigma filled with how often tokens occur or with what the layer did."""
        counts, learned = self.by_site[at[0]].counts, self._learned[at]
        mechanism = made(specification, heads, len(counts), at[0])
        if isinstance(mechanism, SigmaAttention):
            if mechanism.spec.columns == "frequency":
                mechanism.load_tables(-counts.double().expand(learned.heads, -1))
            elif mechanism.uses_tokens or mechanism.uses_offsets:
                tables = learned.tables(mechanism.window, mechanism.spec.extra)
                mechanism.load_tables(tables.salience.double(), tables.offsets)
        return mechanism

    def _site_settings(self, site: str) -> list[Specification]:
        return [spec for name in self._known for spec in self._settings[site, name]]

    def _sums(self, site: str, specification: Specification) -> tuple[float, float]:
        """Error and keys of one setting at all heads of a site."""
        sums = [
            self._measurements.at(at, specification, head)
            for at, count in self.heads.items()
            if at[0] == site
            for head in range(count)
        ]
        return sum(float(row.error) for row in sums), sum(float(row.nonzeros) for row in sums)

    def _rows(self, site: str) -> int:
        """Rows of all heads of a site on the validation sentences."""
        rows = self._measurements.rows
        return sum(rows[at] * count for at, count in self.heads.items() if at[0] == site)

    @property
    def _measurements(self) -> Measurements:
        if self._measured is None:
            msg = "settings are chosen on validation sentences; measure some first"
            raise ValueError(msg)
        return self._measured
