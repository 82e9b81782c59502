"""What the heads of decoders do while the model writes itself, beside the same under teacher forcing."""

from collections.abc import Sequence

import pandas as pd
import torch

from attnlab.ablation import paired_differences, ratio
from attnlab.questions.analyze.question import GENERATION_CHANGE
from attnlab.reading import SentenceStatistics


def compare_generated(
    forced: SentenceStatistics, written: SentenceStatistics, numbers: Sequence[int]
) -> pd.DataFrame:
    """A row a head of a decoder and statistic: under teacher forcing, in own output, and the change.

    Intervals are over the sentences with rows of a statistic in both. A statistic that
    no sentence has is left out.

    Args:
        forced: fed the sentences with their references.
        written: fed what the model wrote.
        numbers: of the sentences that were written.
    """
    before, rows = forced.ratios(), []
    for (site, layer), statistics in written.ratios().items():
        for statistic, (sums, counts) in statistics.items():
            first_counts = before[site, layer][statistic][1]
            shared = [
                number for number in numbers if first_counts[number] > 0 and counts[number] > 0
            ]
            if not shared:
                continue
            for head in range(sums.shape[1]):
                first, counted = (
                    torch.stack([part[0][shared, head], part[1][shared]], -1)
                    for part in (before[site, layer][statistic], (sums, counts))
                )
                (difference,) = paired_differences(first, [counted], ratio)
                rows.append(
                    {
                        "site": site, "layer": layer, "head": head, "statistic": statistic,
                        "teacher_forced": difference.before, "generated": difference.after,
                        **difference.cells(GENERATION_CHANGE), "sentences": len(shared),
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)
