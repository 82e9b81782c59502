"""An attention plan: which mechanism stands at which head, as a value and as a JSON file."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.attention.mechanism import Form, Mechanism
from attnlab.attention.mechanisms.full import Full
from attnlab.attention.mechanisms.keys import Keys
from attnlab.attention.multihead import PerHead
from attnlab.attention.registry import make, parse
from attnlab.attention.specification import Specification
from attnlab.core import (
    SITES,
    Head,
    InputError,
    briefly,
    counted,
    layer_name,
    layers_in_words,
    read_json,
    write_json,
)

# Of the first format, layers without attention were not counted.
PLAN_FORMAT = "attnlab attention plan 2"

# Entries that a notebook shows of a plan.
_SHOWN = 4
# Of a layer or a head.
_NUMBER = re.compile("[0-9]{1,9}")

Entry = Specification | Mechanism


@dataclass(frozen=True)
class AttentionPlan:
    """Mechanisms by address: a site (`encoder`), a layer (`encoder.0`) or a head (`encoder.0.3`).

    The longest address that fits a head decides; a head that none fits has full attention. Layers are counted
    as the model counts them, those without attention too.

    >>> plan = plan_of({"encoder": "band(window=3)", "encoder.0.1": "full"})
    >>> [str(plan.at("encoder", 0, head)) for head in (0, 1)]
    ['band(window=3)', 'full']
    """

    entries: Mapping[str, Entry]
    tokenizer: str | None = None
    """Checksum of the tokenizer whose token ids the mechanisms name; None where it is not known."""

    def for_tokenizer(self, checksum: str) -> "AttentionPlan":
        """The plan with this checksum, unless it names no token ids."""
        named = any(isinstance(entry, Keys) and entry.tokens for entry in self.entries.values())
        return replace(self, tokenizer=checksum if named else None)

    def check_same_tokenizer(self, checksum: str, name: str) -> None:
        """Refuses a tokenizer whose token ids are other words than those that the plan means.

        Args:
            checksum: of the tokenizer.
            name: of the plan, for the message.

        Raises:
            InputError: see above; a plan without a checksum is never refused.
        """
        if self.tokenizer not in {None, checksum}:
            msg = (
                f"{name} names token ids of another tokenizer; use it with runs of the corpus, as much of it "
                "as then, and the tokenizer settings that it was searched for, or search without the "
                "families tokens and blocks."
            )
            raise InputError(msg)

    def __repr__(self) -> str:
        shown = [f"{address}: {entry}" for address, entry in list(self.entries.items())[:_SHOWN]]
        more = len(self.entries) - len(shown)
        return f"AttentionPlan({', '.join([*shown, *([f'and {more} more'] if more else [])])})"

    def at(self, site: str, layer: int, head: int) -> Entry:
        """The mechanism at one head."""
        for address in (str(Head(site, layer, head)), layer_name(site, layer), site):
            if address in self.entries:
                return self.entries[address]
        return Full()

    def mechanism(
        self,
        site: str,
        layer: int,
        heads: int,
        *,
        dropout: float = 0.0,
        vocabulary: int | None = None,
        form: Form = "auto",
    ) -> Mechanism:
        """One mechanism for a layer: that of all its heads, or one that hands each group its own.

        The decoder's own attention is causal. A user's mechanism object is copied, so that layers
        do not share what it learns.

        Raises:
            InputError: a mechanism cannot do what the site asks for.
        """
        groups: list[tuple[Entry, list[int]]] = []
        for head in range(heads):
            entry = self.at(site, layer, head)
            same = [members for other, members in groups if other is entry or other == entry]
            if same:
                same[0].append(head)
            else:
                groups.append((entry, [head]))
        made = []
        for entry, members in groups:
            part = make(
                copy.deepcopy(entry) if isinstance(entry, Mechanism) else entry,
                causal=site == "decoder",
                cross=site == "cross",
                dropout=dropout,
                heads=len(members),
                vocabulary=vocabulary,
                form=form,
            )
            made.append((members, part))
        return made[0][1] if len(made) == 1 else PerHead(made)

    def check_within(self, layers: Mapping[str, Sequence[int]], heads: Mapping[str, int]) -> None:
        """Refuses addresses that the model does not have.

        Args:
            layers: numbers of the layers of each site of the model, in ascending order.
            heads: number of heads of a layer of each site.

        Raises:
            InputError: the address, and what there is.
        """
        for address in self.entries:
            site, layer, head = _parts(address)
            if site not in layers:
                sites = ", ".join(layers)
                msg = f"The plan names '{address}', but the model has no {site} attention; it has: {sites}."
                raise InputError(msg)
            if (layer is not None and layer not in layers[site]) or (head or 0) >= heads[site]:
                numbers, each = layers_in_words(layers[site]), counted(heads[site], "head")
                msg = (
                    f"The plan names '{address}', but the model's {site} has attention in {numbers} "
                    f"with {each} each, counted from 0."
                )
                raise InputError(msg)

    def has_equal_layers(self, site: str, layers: Sequence[int], heads: int) -> bool:
        """Whether each of these layers has the mechanisms of the first, head by head."""
        first, *others = layers
        return all(
            self.at(site, first, head) == self.at(site, layer, head)
            for layer in others
            for head in range(heads)
        )

    def as_written(self) -> dict[str, Any]:
        """The content of its file: format, tokenizer, mechanisms as text, null for a mechanism object."""
        mechanisms = {
            address: None if isinstance(entry, Mechanism) else str(entry)
            for address, entry in self.entries.items()
        }
        named = {} if self.tokenizer is None else {"tokenizer": self.tokenizer}
        return {"format": PLAN_FORMAT, **named, "mechanisms": mechanisms}

    def as_dict(self) -> dict[str, str]:
        """Addresses and mechanisms as text.

        Raises:
            InputError: an entry is a mechanism object, which has no text.
        """
        for address, entry in self.entries.items():
            if isinstance(entry, Mechanism):
                msg = (
                    f"The plan holds a mechanism object at '{address}', which cannot be written to a "
                    "file; only mechanisms written as text can."
                )
                raise InputError(msg)
        return {address: str(entry) for address, entry in self.entries.items()}


def plan_of(entries: Mapping[str, str | Specification | Mechanism]) -> AttentionPlan:
    """The plan of a mapping from addresses to mechanisms.

    Raises:
        InputError: an address or a mechanism that does not read.
    """
    for address in entries:
        _parts(address)
    read = {
        address: parse(entry) if isinstance(entry, str) else entry
        for address, entry in entries.items()
    }
    return AttentionPlan(read)


def load_plan(path: str | Path) -> AttentionPlan:
    """The plan that a JSON file holds.

    Raises:
        InputError: the file does not exist, is no plan, or names what cannot be read.
    """
    advice = "write one with: attnlab plan RUN --budget N --out FOLDER"
    content = read_json(path, Any, fault="is no attention plan", advice=advice)
    return read_plan(content, str(path))


def read_plan(content: Any, origin: str) -> AttentionPlan:
    """The plan in what a file holds; `origin` says which, for messages.

    Raises:
        InputError: it is no plan, names what cannot be read, or stands for a mechanism object.
    """
    entries = content.get("mechanisms") if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        msg = f'{origin} is no attention plan: it needs "format": "{PLAN_FORMAT}" and "mechanisms".'
        raise InputError(msg)
    if content.get("format") != PLAN_FORMAT:
        msg = (
            f"{origin} has another format than this version writes, and its layers may be counted without "
            "those that have no attention; write the plan again, or correct its numbers and set "
            f'"format": "{PLAN_FORMAT}".'
        )
        raise InputError(msg)
    for address, text in entries.items():
        if text is None:
            msg = (
                f"{origin}: a mechanism object stood at '{address}', which no file can bring back; load "
                "the model with transformers and install the mechanism again."
            )
            raise InputError(msg)
        if not isinstance(text, str):
            msg = f"{origin}: the mechanism at '{address}' is a text such as \"full\", not {briefly(text)}."
            raise InputError(msg)
    tokenizer = content.get("tokenizer")
    if not isinstance(tokenizer, str | None):
        msg = f'{origin}: "tokenizer" is the checksum of a tokenizer, not {briefly(tokenizer)}.'
        raise InputError(msg)
    return replace(plan_of(entries), tokenizer=tokenizer)


def write_plan(path: str | Path, plan: AttentionPlan) -> None:
    """Writes the plan as JSON, atomically."""
    plan.as_dict()  # refuses mechanism objects
    write_json(path, plan.as_written())


def _parts(address: str) -> tuple[str, int | None, int | None]:
    site, *numbers = address.split(".")
    if site not in SITES or len(numbers) > 2 or not all(map(_NUMBER.fullmatch, numbers)):
        msg = (
            f"{briefly(address)} names no attention; write a site ({', '.join(SITES)}), a layer such as "
            "encoder.0, or a head such as encoder.0.3."
        )
        raise InputError(msg)
    layer, head = [*(int(number) for number in numbers), None, None][:2]
    return site, layer, head
