"""Options of the substitution study."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from attnlab.core.errors import InputError
from attnlab.core.options import Option
from attnlab.evaluation.shared_settings import SEED, SENTENCE_FLAGS, StudySettings, words_in

DEFAULT_BUDGET = 5
SCOPES = ("head", "site", "model")


@dataclass(frozen=True, kw_only=True)
class SubstitutionSettings(StudySettings):
    """What `attnlab substitute` can be told.

    Raises:
        InputError: a value out of range, or nothing to replace.
    """

    budgets: Annotated[
        Sequence[int],
        Option(
            "Number of keys per row, counted, on average over the heads of a site; may be given again.",
            ("--budget",),
            least=1,
        ),
    ] = (DEFAULT_BUDGET,)
    scopes: Annotated[
        Sequence[str],
        Option(
            "What is replaced at a time: any of head, site, model; commas between.",
            choices=SCOPES,
            read=words_in,
        ),
    ] = SCOPES
    mechanisms: Annotated[
        Sequence[str] | None,
        Option(
            "Mechanisms by their names in the table, commas between.",
            shown="all that have a form for a model",
            read=words_in,
        ),
    ] = None
    plans: Annotated[
        Sequence[str | Path],
        Option("Attention plan (JSON) that is tried as a whole; may be given again.", ("--plan",)),
    ] = ()
    sentences: Annotated[
        int, Option("Maximum number of test sentences.", SENTENCE_FLAGS, least=2)
    ] = 500
    calibration: Annotated[
        int, Option("Maximum number of training sentences to learn tables on.", least=1)
    ] = 500
    validation: Annotated[
        int,
        Option("Maximum number of validation sentences, which choose the settings.", least=1),
    ] = 200
    bleu: Annotated[
        bool, Option("Translate with every site and model replaced.", ("--bleu/--no-bleu",))
    ] = True
    steps: Annotated[
        int,
        Option(
            "Number of training batches of a short fine-tuning of every replaced site and model; 0 "
            "for none.",
            ("--fine-tune",),
            least=0,
        ),
    ] = 0
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.budgets:
            msg = f"There is no budget; give at least one, such as {DEFAULT_BUDGET}."
            raise InputError(msg)
        if not self.scopes and not self.plans:
            msg = f"There is nothing to replace; choose from: {', '.join(SCOPES)}."
            raise InputError(msg)
        names = [Path(plan).name for plan in self.plans]
        for name in names:
            if names.count(name) > 1:
                msg = (
                    f"Two plans are called {name}, as tables call them; give their files two names."
                )
                raise InputError(msg)
