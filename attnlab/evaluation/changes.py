"""Loss and BLEU of a changed model beside those of the model before, in one set of cells."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from attnlab.ablation import Difference, add_significance, bleu_differences, loss_differences
from attnlab.core import BLEU, BLEU_CHANGE, LOSS, LOSS_CHANGE, Estimate


@dataclass(frozen=True)
class Quality:
    """Losses and translations of a model on held-out sentences.

    Attributes:
        losses: each sentence's loss, summed over its tokens.
        tokens: how many tokens each loss sums over.
        translations: greedy translations; none where they were not asked for.
        references: what they are scored against.
    """

    losses: Float[Tensor, " sentence"]
    tokens: Float[Tensor, " sentence"]
    translations: Sequence[str] = ()
    references: Sequence[str] = ()


@dataclass(frozen=True)
class Change:
    """Loss and BLEU of a changed model beside those of the model before, on the same sentences.

    Attributes:
        loss: per token.
        bleu: of greedy translations; None where there are none.
    """

    loss: Difference
    bleu: Difference | None = None

    @classmethod
    def of(cls, before: Quality, after: Quality) -> "Change":
        """The change from one model to another."""
        return cls.each(before, [after])[0]

    @classmethod
    def each(cls, before: Quality, afters: Sequence[Quality]) -> list["Change"]:
        """The changes from one model to several others."""
        losses = loss_differences(before.losses, [after.losses for after in afters], before.tokens)
        if not before.translations:
            return [cls(loss) for loss in losses]
        translations = [after.translations for after in afters]
        bleus = bleu_differences(before.translations, translations, before.references)
        return list(map(cls, losses, bleus))

    @classmethod
    def table(
        cls, before: Quality, afters: Sequence[Quality], *estimates: Estimate
    ) -> pd.DataFrame:
        """The cells of the changes to several models, a row each, with significance where it is tested."""
        table = pd.DataFrame([change.cells(*estimates) for change in cls.each(before, afters)])
        for estimate in estimates:
            if estimate.p in table:
                add_significance(table, estimate)
        return table

    @property
    def scores(self) -> dict[str, float]:
        """The cells of loss and BLEU of the changed model."""
        bleu = {} if self.bleu is None else {BLEU.name: self.bleu.after}
        return {LOSS.name: self.loss.after} | bleu

    def cells(self, loss: Estimate = LOSS_CHANGE, bleu: Estimate = BLEU_CHANGE) -> dict[str, float]:
        """The cells of both changes, with p-values where the estimates are tested."""
        return self.loss.cells(loss) | ({} if self.bleu is None else self.bleu.cells(bleu))
