"""The rows of a pruning curve: how good a model is that has so many heads left, beside the unpruned run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from attnlab.addresses import Head
from attnlab.attribution.significance import bleu_difference, loss_difference

# Voita et al. 2019 prune as far as 0.15 BLEU below; 1,000 sentences cannot tell less than this apart.
TOLERANCE = 0.5


@dataclass(frozen=True)
class Measured:
    """What a model did on the sentences of one split.

    Attributes:
        losses: each sentence's loss in nats, summed over its target tokens.
        tokens: target tokens of each sentence.
        translations: greedy translations, one a sentence.
        references: what they are scored against.
    """

    losses: Float[Tensor, " sentence"]
    tokens: Float[Tensor, " sentence"]
    translations: tuple[str, ...]
    references: tuple[str, ...]


@dataclass(frozen=True)
class Curve:
    """What every row of one curve has in common.

    Attributes:
        heads: every head of the model.
        before: by split, what the unpruned run does.
        seed: of the bootstrap.
    """

    heads: tuple[Head, ...]
    before: Mapping[str, Measured]
    seed: int

    def rows(
        self,
        kind: str,
        after: Mapping[str, Measured],
        *,
        closed: Iterable[Head] = (),
        penalty: float | None = None,
        unsettled: int | None = None,
        steps: int = 0,
    ) -> list[dict[str, Any]]:
        """One row per split, with the columns of `attnlab.studies.pruning.columns.CURVE`.

        Args:
            kind: `unpruned`, `fine-tuned`, `pruned` or `random`.
            after: by split, what the model does.
            closed: its closed heads.
            penalty: that it was pruned at.
            unsettled: gates that are neither open nor closed for sure.
            steps: how long it was trained after the run.
        """
        gone = set(closed)
        left = [head for head in self.heads if head not in gone]
        by_site = {
            f"{site}_left": sum(head.site == site for head in left)
            for site in dict.fromkeys(head.site for head in self.heads)
        }
        return [
            {
                "kind": kind,
                "penalty": penalty,
                "split": split,
                "heads": len(self.heads),
                "heads_left": len(left),
                **by_site,
                **self._changes(split, found),
                "unsettled": unsettled,
                "steps": steps,
                "seed": self.seed,
            }
            for split, found in after.items()
        ]

    def _changes(self, split: str, found: Measured) -> dict[str, Any]:
        before = self.before[split]
        loss = loss_difference(before.losses, found.losses, before.tokens, seed=self.seed)
        bleu = bleu_difference(
            before.translations, found.translations, before.references, seed=self.seed
        )
        return {
            "loss_nats": loss.after,
            "loss_change": loss.change,
            "loss_change_low": loss.low,
            "loss_change_high": loss.high,
            "bleu": bleu.after,
            "bleu_change": bleu.change,
            "bleu_change_low": bleu.low,
            "bleu_change_high": bleu.high,
            "bleu_p_value": bleu.p_value,
            "sentences": len(found.losses),
        }


def fewest_heads(curve: pd.DataFrame, tolerance: float = TOLERANCE) -> float | None:
    """The penalty that leaves fewest heads at most `tolerance` BLEU below the unpruned run.

    It is chosen on validation, so that the test figures beside it are not chosen; None where every
    penalty that closes a head costs more.
    """
    pruned = curve[(curve["kind"] == "pruned") & (curve["split"] == "validation")]
    pruned = pruned[pruned["heads_left"] < pruned["heads"]]
    good = pruned[pruned["bleu_change"] >= -tolerance]
    if good.empty:
        return None
    best = good.sort_values(["heads_left", "bleu"], ascending=[True, False]).iloc[0]
    return float(best["penalty"])
