"""Loss and BLEU of a changed model beside those of the model before, in one set of cells."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from attnlab.ablation import (
    Difference,
    add_significance,
    all_heads,
    bleu_differences,
    loss_differences,
)
from attnlab.core import (
    BLEU,
    BLEU_CHANGE,
    LOSS,
    LOSS_CHANGE,
    SITES,
    Estimate,
    Processes,
    Progress,
)
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.shared_settings import Steps


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


def changes_without_heads(
    evaluator: Evaluator,
    sites: Sequence[str] = SITES,
    *,
    progress: Progress | None = None,
    processes: Processes | None = None,
) -> pd.DataFrame:
    """The loss without each head, one at a time, its output before the projection set to zero.

    One row per head: `site, layer, head` and the columns of `LOSS_CHANGE`, in nats per target token (loss
    without the head minus loss with it), with its interval over sentences.

    Args:
        evaluator: the model with sentences to evaluate it on.
        sites: where the heads are.
        progress: called with (what is being done, heads done, heads in all).
        processes: who share the heads; None: this one alone.

    Cost: a forward pass over the evaluator's sentences for each head.
    """
    chosen_heads = [head for head in all_heads(evaluator.projections) if head.site in sites]
    processes = processes or Processes()
    mine = chosen_heads[processes.index :: processes.count]
    before = Quality(evaluator.whole_losses(), evaluator.tokens)
    losses = evaluator.losses_without(mine, "zero", Steps("Taking heads away", len(mine), progress))
    changes = Change.each(before, [Quality(after, before.tokens) for after in losses.values()])
    rows = [head._asdict() | change.cells() for head, change in zip(losses, changes, strict=True)]
    shares = processes.gather(rows)
    # The heads were dealt out in turn.
    dealt = [
        shares[index % len(shares)][index // len(shares)] for index in range(len(chosen_heads))
    ]
    return pd.DataFrame(dealt)
