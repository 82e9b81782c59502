"""Studies whose cells are quick, and make trouble on demand; a distribution of their own."""

import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pandas as pd
import torch

from attnlab.core.options import Option, Settings
from attnlab.studies.study import Study
from attnlab.studies.trained_models import (
    CORPUS_LOCATIONS,
    CorpusCellSettings,
    corpus_checksum,
    corpus_of_cell,
)

TROUBLES = ("none", "raise", "raise once", "kill", "kill once", "wait once")
# Longer than any test: a cell that waits is ended from outside.
WAIT_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class ToySettings(Settings):
    """One cell; `marks` is a folder that gets a file whenever the cell is begun."""

    number: Annotated[int, Option("Its number.")]
    scale: Annotated[float, Option("A factor.")] = 1.0
    trouble: Annotated[str, Option("What goes wrong.", choices=TROUBLES)] = "none"
    marks: Annotated[str, Option("A folder.")] = ""


def toy_rows(settings: ToySettings) -> pd.DataFrame:
    times = 1
    if settings.marks:
        folder = Path(settings.marks)
        (folder / f"{settings.number}-{uuid.uuid4().hex}").touch()
        times = len(list(folder.glob(f"{settings.number}-*")))
    if settings.trouble == "wait once" and times == 1:
        time.sleep(WAIT_SECONDS)
    if settings.trouble == "kill" or (settings.trouble == "kill once" and times == 1):
        os._exit(9)
    if settings.trouble == "raise" or (settings.trouble == "raise once" and times == 1):
        raise ValueError(f"cell {settings.number} raises")
    # Not seeded here, and summed in an order that depends on the number of threads.
    drawn = torch.rand(200, 200)
    return pd.DataFrame(
        {
            "row": [0, 1, 2],
            "value": [settings.number * settings.scale / 3, float("nan"), drawn.sum().item()],
            "thread_sum": (drawn @ drawn).sum(0)[:3].double().numpy(),
            "text": ["a, b", 'quoted "c"', "NA"],
        }
    )


@dataclass(frozen=True, kw_only=True)
class ToyOptions(Settings):
    """Which cells; a trouble is written as `3:kill`."""

    count: Annotated[int, Option("How many cells.", least=1)] = 4
    scale: Annotated[float, Option("A factor.")] = 1.0
    troubles: Annotated[Sequence[str], Option("What goes wrong.", ("--trouble",))] = ()
    marks: Annotated[str, Option("A folder.")] = ""


def toy_cells(options: ToyOptions) -> list[ToySettings]:
    troubles = dict(one.split(":") for one in options.troubles)
    return [
        ToySettings(
            number=number,
            scale=options.scale,
            trouble=troubles.get(str(number), "none"),
            marks=options.marks,
        )
        for number in range(options.count)
    ]


TOY = Study(
    name="toy",
    summary="What is a third of each number?",
    options=ToyOptions,
    cells=toy_cells,
    settings=ToySettings,
    rows=toy_rows,
    # Where marks lie changes no row.
    locations=("marks",),
)


def corpus_rows(settings: CorpusCellSettings) -> pd.DataFrame:
    corpus = corpus_of_cell(settings)
    return pd.DataFrame({"pairs": [len(corpus.train)], "first": [corpus.train[0]["source"]]})


TOY_CORPUS = Study(
    name="toy_corpus",
    summary="How many pairs are there?",
    options=CorpusCellSettings,
    cells=lambda options: [options],
    settings=CorpusCellSettings,
    rows=corpus_rows,
    data_checksum=corpus_checksum,
    locations=CORPUS_LOCATIONS,
)
