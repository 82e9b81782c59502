"""The thesis's random search beside the exact fit, by family, size and number of draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from attnlab.core import LARGEST_SEED, Option, Settings
from attnlab.studies.study import Primary, Study

if TYPE_CHECKING:
    import pandas as pd

STRUCTURES = ("band", "column", "column_band", "diagonal", "diffuse", "rare_columns")
TOKENS = Option("Number of rows and columns.", least=8, most=4096)
NOISE = Option("Share of unstructured weight per row.", least=0, most=1)


@dataclass(frozen=True, kw_only=True)
class SearchSettings(Settings):
    """One planted matrix that is searched for."""

    structure: Annotated[str, Option("Structure that is planted.", choices=STRUCTURES)]
    tokens: Annotated[int, TOKENS]
    attempts: Annotated[int, Option("Number of matrices drawn per coefficient.", least=1)]
    noise: Annotated[float, NOISE]
    seed: Annotated[
        int, Option("Seed of the matrix and of the search.", least=0, most=LARGEST_SEED)
    ]


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Settings):
    """Options of the study."""

    structures: Annotated[
        Sequence[str],
        Option(
            "Structure that is planted; may be given again.", ("--structure",), choices=STRUCTURES
        ),
    ] = STRUCTURES
    tokens: Annotated[int, TOKENS] = 16
    attempts: Annotated[
        Sequence[int],
        Option("Number of matrices drawn per coefficient; may be given again.", least=1),
    ] = (1, 30)
    noise: Annotated[float, NOISE] = 0.2
    seeds: Annotated[int, Option("Number of matrices per structure.", least=1)] = 3


WINDOW, NUM_POS = 3, 2


def search_rows(settings: SearchSettings) -> "pd.DataFrame":
    """l1 distances of the random search, the exact fit and the zero matrix, a row per settings."""
    import pandas as pd
    import torch

    from attnlab.matrices import draw_corpus, fit_sigma
    from attnlab.matrices.random_search import random_search

    generator = torch.Generator().manual_seed(settings.seed)
    H = draw_corpus(
        settings.structure,
        torch.tensor([settings.tokens]),
        noise=settings.noise,
        window=WINDOW,
        num_pos=NUM_POS,
        generator=generator,
    )
    searched = random_search(
        H, window=WINDOW, num_pos=NUM_POS, attempts=settings.attempts, generator=generator
    )
    row = {
        "draws": searched.draws,
        "search_l1": searched.l1.item(),
        "exact_l1": fit_sigma(H, window=WINDOW, num_pos=NUM_POS).l1.item(),
        "zero_l1": H.sum().item(),
    }
    return pd.DataFrame([row])


def search_cells(options: SearchOptions) -> list[SearchSettings]:
    """Every structure with every number of attempts, for each seed."""
    return [
        SearchSettings(
            structure=structure,
            tokens=options.tokens,
            attempts=attempts,
            noise=options.noise,
            seed=seed,
        )
        for structure in options.structures
        for attempts in options.attempts
        for seed in range(options.seeds)
    ]


RANDOM_SEARCH = Study(
    name="random_search",
    summary="How near does the thesis's random search come to planted matrices, beside the exact fit?",
    options=SearchOptions,
    cells=search_cells,
    settings=SearchSettings,
    rows=search_rows,
    primary=Primary("search_l1", "l1 distance of the search", larger=False, within=("structure",)),
)
