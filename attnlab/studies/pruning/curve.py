"""The rows of a pruning curve: how good a model is that has so many heads left, beside the unpruned run."""

import math
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
# What a model that translates nothing may lose, in nats per token.
LOSS_TOLERANCE = 0.05
BLEU_COLUMNS = ("bleu", "bleu_change", "bleu_change_low", "bleu_change_high", "bleu_p_value")


@dataclass(frozen=True)
class Measured:
    """What a model did on the sentences of one split.

    Attributes:
        losses: each sentence's loss in nats, summed over its target tokens.
        tokens: target tokens of each sentence.
        translations: greedy translations, one a sentence; none of a language model.
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
        return {
            "loss_nats": loss.after,
            "loss_change": loss.change,
            "loss_change_low": loss.low,
            "loss_change_high": loss.high,
            **self._bleu(before, found),
            "sentences": len(found.losses),
        }

    def _bleu(self, before: Measured, found: Measured) -> dict[str, float]:
        if not before.references:
            return dict.fromkeys(BLEU_COLUMNS, math.nan)
        bleu = bleu_difference(
            before.translations, found.translations, before.references, seed=self.seed
        )
        figures = (bleu.after, bleu.change, bleu.low, bleu.high, bleu.p_value)
        return dict(zip(BLEU_COLUMNS, figures, strict=True))


def has_bleu(curve: pd.DataFrame) -> bool:
    """Whether the models of a curve translate, so that there is BLEU."""
    return bool(curve["bleu"].notna().any())


def fewest_heads(curve: pd.DataFrame, tolerance: float | None = None) -> float | None:
    """The penalty that leaves fewest heads at most `tolerance` BLEU below the unpruned run.

    Without BLEU, at most `tolerance` nats per token above its loss. It is chosen on validation, so
    that the test figures beside it are not chosen; None where every penalty that closes a head costs
    more.

    Args:
        curve: as `Pruning.curve`.
        tolerance: None: `TOLERANCE` for BLEU, `LOSS_TOLERANCE` for the loss.
    """
    pruned = curve[(curve["kind"] == "pruned") & (curve["split"] == "validation")]
    pruned = pruned[pruned["heads_left"] < pruned["heads"]]
    if has_bleu(curve):
        lost, most = -pruned["bleu_change"], TOLERANCE
    else:
        lost, most = pruned["loss_change"], LOSS_TOLERANCE
    good = pruned.assign(lost=lost)[lost <= (most if tolerance is None else tolerance)]
    if good.empty:
        return None
    return float(good.sort_values(["heads_left", "lost"]).iloc[0]["penalty"])
