"""Options of the training of word vectors; nothing heavy is imported."""

from dataclasses import dataclass
from typing import Annotated

from attnlab.core import LARGEST_SEED, SIDES, Option, Settings, Side

_BOTH = "both"
ARCHITECTURES = ("skip-gram", "cbow")


@dataclass(frozen=True, kw_only=True)
class SkipGramSettings(Settings):
    """Options of the training of skip-gram or CBOW vectors (Mikolov et al. 2013)."""

    architecture: Annotated[
        str,
        Option(
            "What is predicted: by skip-gram each word of the window from the one in its middle, by cbow "
            "that one from the mean of the others.",
            choices=ARCHITECTURES,
        ),
    ] = "skip-gram"
    dim: Annotated[int, Option("Size of the vectors.", least=1, most=16_384)] = 128
    window: Annotated[
        int,
        Option(
            "Number of tokens to the left and to the right that are predicted, or predict.",
            least=1,
            most=10_000,
        ),
    ] = 5
    epochs: Annotated[
        int, Option("Number of passes over the sentences.", least=1, most=100_000)
    ] = 10
    negatives: Annotated[
        int, Option("Number of noise words drawn for each predicted one.", least=1, most=10_000)
    ] = 5
    learning_rate: Annotated[float, Option("Learning rate, which falls to nearly 0.", above=0)] = (
        0.025
    )
    subsample: Annotated[
        float,
        Option("Share of all tokens above which a type is met less often; 0: never.", least=0),
    ] = 1e-3
    seed: Annotated[
        int, Option("Seed of the vectors and the noise.", least=0, most=LARGEST_SEED)
    ] = 0


@dataclass(frozen=True, kw_only=True)
class SideSettings(Settings):
    """Options of the language of a corpus that is read."""

    side: Annotated[
        str,
        Option("Language of the pairs that is read.", choices=(*SIDES, _BOTH)),
    ] = _BOTH

    @property
    def sides(self) -> tuple[Side, ...]:
        """The columns of the corpus that are read."""
        return tuple(side for side in SIDES if self.side in {side, _BOTH})
