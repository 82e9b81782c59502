"""The model card of a folder that holds a model with mechanisms."""

from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any

from transformers import PreTrainedModel

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.plan import AttentionPlan
from attnlab.core import READ_WITH_PLAN, write_text

_SAVE = "save_pretrained"
_CARD = """---
library_name: transformers
tags:
- attnlab
---

# {model} with other attention

Attention heads of this model have mechanisms of attnlab instead of full attention:

| heads | mechanism |
|---|---|
{rows}

An address is a site, a layer or a head (`encoder.0.3`), counted from 0. The longest one decides, and all
other heads have full attention. `config.json` holds the same plan as `attnlab_plan`.

Load it with

```python
from attnlab.attention import load_with_plan

model = load_with_plan("FOLDER").model
```

Plain `from_pretrained` refuses this folder and names `{reader}`: it would give full attention at every head.
"""


def write_cards(model: PreTrainedModel, plan: AttentionPlan) -> None:
    """Lets `model.save_pretrained` also write a model card, where the folder has none of its user's."""
    # A method, so that a deep copy of the model saves the copy.
    vars(model)[_SAVE] = MethodType(partial(_save, plan), model)


def write_no_cards(model: PreTrainedModel) -> None:
    """Lets `model.save_pretrained` write what it always does."""
    vars(model).pop(_SAVE, None)


def _save(
    plan: AttentionPlan,
    model: PreTrainedModel,
    save_directory: Any,
    is_main_process: bool = True,
    *args: Any,
    **kwargs: Any,
) -> None:
    type(model).save_pretrained(model, save_directory, is_main_process, *args, **kwargs)
    path = Path(save_directory) / "README.md"
    if is_main_process and path.parent.is_dir() and (not path.exists() or is_card(path)):
        write_text(path, card_of(model, plan))


def is_card(path: str | Path) -> bool:
    """Whether a file is a card as it was written, which may tell of an older plan."""
    begin, end = _CARD.partition("{model}")[0], _CARD.partition("{rows}")[2]
    path = Path(path)
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return text.startswith(begin) and text.endswith(end.format(reader=READ_WITH_PLAN))


def card_of(model: PreTrainedModel, plan: AttentionPlan) -> str:
    """The text of the card."""
    rows = [f"| {address} | {_mechanism(entry)} |" for address, entry in plan.entries.items()]
    return _CARD.format(model=type(model).__name__, rows="\n".join(rows), reader=READ_WITH_PLAN)


def _mechanism(entry: Any) -> str:
    if isinstance(entry, Mechanism):
        return f"an object of the class `{type(entry).__name__}`, which no folder can bring back"
    return f"`{entry}`"
