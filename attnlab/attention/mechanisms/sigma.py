"""Sigma attention: the project's band + columns + sparse entries, chosen before any score is computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.attention.kernels.union import Indices, Union, best, draws, running_best
from attnlab.attention.mechanism import Context, Positions, Setup, Traits, ordinals, visible_or_all
from attnlab.attention.mechanisms.sparse import UnionSoftmax
from attnlab.attention.padding import real_first
from attnlab.attention.specification import Specification, sides
from attnlab.core import LONGEST_TEXT, AttnlabError, InputError

BY_TOKEN = ("salience", "frequency")


@dataclass(frozen=True)
class Sigma(Specification):
    """A band, `num_pos` columns chosen before scoring, and `extra` entries in each row."""

    name: ClassVar[str] = "sigma"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "columns": ("salience", "frequency", "first", "random"),
        "entries": ("random", "offsets"),
    }
    window: Any
    num_pos: Any = 2
    columns: Any = "salience"
    extra: Any = 0
    entries: Any = "random"
    seed: Any = 0

    def __post_init__(self) -> None:
        self.shorten_window()
        for option in ("num_pos", "extra", "seed"):
            self.check_integer(option, 0)
        self.check_at_most(LONGEST_TEXT, "num_pos", "extra")
        self.check_chosen()


class SigmaAttention(UnionSoftmax):
    """Softmax over a band, `num_pos` columns of the sentence, and `extra` entries in each row.

    Columns are the keys of highest priority: a learned number for each head and token id
    (`columns="salience"`), rarity (`"frequency"`), the first positions (`"first"`) or chance
    (`"random"`). When causal, row i chooses among the keys up to i. Entries stand at offsets learned
    with the salience (`entries="offsets"`) or at positions drawn for each row (`"random"`).
    Cost: O(query * (left + right + 1 + num_pos + extra)). Source: attention as the sum of the
    thesis's Sigma2, Sigma3 and sparse error (section 3.2).
    """

    specification: ClassVar[type[Specification] | None] = Sigma
    source: ClassVar[str] = "this project; thesis, sections 3.1 and 3.2"
    traits: ClassVar[Traits] = Traits(subquadratic=True)
    positions: ClassVar[Positions] = "offsets"

    def __init__(self, spec: Sigma, setup: Setup) -> None:
        left, right = sides(self.name, spec.window)
        self.window = (left, 0 if setup.causal else right)
        super().__init__(spec, setup)
        self._claim(setup)

    def _claim(self, setup: Setup) -> None:
        """Makes room for the tables that calibration fills."""
        spec = self.spec
        self.uses_tokens = spec.columns in BY_TOKEN and spec.num_pos > 0
        self.uses_offsets = spec.entries == "offsets" and spec.extra > 0
        if self.uses_tokens and (setup.vocabulary is None or setup.heads is None):
            msg = (
                f"'{spec}' keeps a number for each head and token id: say how many with "
                "make(spec, heads=..., vocabulary=...)."
            )
            raise InputError(msg)
        if self.uses_offsets and setup.heads is None:
            msg = f"'{spec}' keeps offsets for each head: say how many with make(spec, heads=...)."
            raise InputError(msg)
        # What is not learned yet is NaN, so that it cannot pass for a table.
        if self.uses_tokens:
            table = torch.full((setup.heads or 0, setup.vocabulary or 0), torch.nan)
            self.register_buffer("priority", table)
        if self.uses_offsets:
            rows = torch.zeros(setup.heads or 0, spec.extra, dtype=torch.long)
            self.register_buffer("offsets", rows)

    def load_tables(
        self,
        priority: Float[Tensor, "head token"] | None = None,
        offsets: Int[Tensor, "head extra"] | None = None,
    ) -> None:
        """Takes over what calibration learned: a priority for each token, the offsets of entries."""
        with torch.no_grad():
            if self.uses_tokens and priority is not None:
                self.get_buffer("priority").copy_(priority)
            if self.uses_offsets and offsets is not None:
                self.get_buffer("offsets").copy_(offsets)

    def first_and_recent(self) -> tuple[int, int] | None:
        """The columns where they are the first keys, and the band; None with columns or entries elsewhere."""
        spec = self.spec
        if spec.extra or (spec.num_pos and spec.columns != "first"):
            return None
        return spec.num_pos, self.window[0] + 1

    def slots(self) -> int:
        """The band, the columns and the entries; causal rows choose columns of their own."""
        return sum(self.window) + 1 + self.spec.num_pos + self.spec.extra

    def fetched(self) -> int:
        """The entries, and the columns where each row has its own."""
        return self.spec.extra + (self.spec.num_pos if self.causal else 0)

    def union(self, query: Tensor, key: Tensor, context: Context) -> Union:
        """Band, columns and entries."""
        visible = visible_or_all(key, context.visible)
        rows = range(context.first_query, context.first_query + query.shape[-2])
        columns, parts = None, []
        if self.spec.num_pos:
            priority = self._priorities(visible, query.shape[1], context)
            if self.causal:
                parts.append(running_best(priority, visible, self.spec.num_pos, rows))
            else:
                eligible = visible[:, None].expand(priority.shape)
                columns = Indices(*best(priority, eligible, self.spec.num_pos))
        if self.spec.extra:
            parts.append(self._entries(visible, query.shape[1], rows))
        entries = _joined(parts) if parts else None
        return Union(self.window, 1, columns, entries, causal=self.causal)

    def _priorities(self, visible: Tensor, heads: int, context: Context) -> Tensor:
        """Priority of each key as a column, `[batch, head, key]`."""
        spec, ordinal = self.spec, ordinals(visible)
        if spec.columns == "first":
            return -ordinal[:, None].double()
        if spec.columns == "random":
            table = draws(spec.seed, visible.shape[-1], heads).T.to(visible.device)
            return table[:, ordinal].transpose(0, 1)
        if context.token_ids is None:
            msg = f"'{spec}' chooses columns by token: hand over the token ids of the keys (token_ids=)."
            raise AttnlabError(msg)
        priority = self.get_buffer("priority")
        chosen = priority[:, context.token_ids].transpose(0, 1)
        if bool(chosen.isnan().any()):
            how = "attnlab.attention.calibrate" if spec.columns == "salience" else "load_tables"
            msg = f"'{spec}' has not learned its table of tokens yet: call {how} first."
            raise AttnlabError(msg)
        return chosen

    def _entries(self, visible: Tensor, heads: int, rows: range) -> Indices:
        """Keys of the entries of each row, `[batch, head, query, extra]`."""
        keys = visible.shape[-1]
        row = torch.arange(rows.start, rows.stop, device=visible.device)
        if self.uses_offsets:
            index = (self.get_buffer("offsets")[:, None] + row[:, None])[None]
            usable = (index >= 0) & (index < keys)
            return Indices(index.clamp(0, keys - 1), usable)
        # Rows and keys are counted among real tokens; of another sentence's queries all count.
        row = row.expand(len(visible), -1) if self.cross else ordinals(visible)[:, row]
        table = draws(self.spec.seed, rows.stop, heads * self.spec.extra).to(visible.device)
        chance = table[row].unflatten(-1, (heads, -1)).transpose(1, 2)
        # A row draws among the keys up to its own when causal, else among those of its sentence.
        counts = row + 1 if self.causal else visible.sum(-1, keepdim=True)
        counts = counts[:, None, :, None]
        drawn = torch.minimum((chance * counts).long(), (counts - 1).clamp(min=0))
        index = real_first(visible).gather(1, drawn.flatten(1)).view(drawn.shape)
        return Indices(index, (counts > 0).expand(index.shape))


def _joined(parts: list[Indices]) -> Indices:
    batch = max(part.index.shape[0] for part in parts)
    heads = max(part.index.shape[1] for part in parts)
    index = [part.index.expand(batch, heads, -1, -1) for part in parts]
    usable = [part.usable.expand(batch, heads, -1, -1) for part in parts]
    return Indices(torch.cat(index, -1), torch.cat(usable, -1))
