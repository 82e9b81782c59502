"""What the loss loses with each head, to stand beside its label: attention alone explains nothing."""

from collections.abc import Sequence

import pandas as pd

from attnlab.ablation.ablation import ablate_each
from attnlab.ablation.projections import all_heads
from attnlab.ablation.significance import Difference, loss_difference
from attnlab.core.addresses import SITES, Head
from attnlab.core.errors import AttnlabError
from attnlab.evaluation.evaluator import Evaluator, evaluator_of
from attnlab.evaluation.shared_settings import ABLATION_SENTENCES
from attnlab.evaluation.sources import Subject
from attnlab.reading.batches import TokenizedText
from attnlab.studies.analysis.passes import Passes


def evaluator_for_labels(
    subject: Subject, batch_size: int, texts: Sequence[TokenizedText]
) -> Evaluator | str:
    """The model with the first of its texts to evaluate it on, or why it has no loss on them.

    Which of them are too long is decided as for `importance`, so that both find the same changes.
    """
    try:
        return evaluator_of(subject, batch_size, texts[:ABLATION_SENTENCES])
    except AttnlabError as error:
        return str(error)


def ablate_for_labels(
    evaluator: Evaluator, passes: Passes, sites: Sequence[str] = SITES, *, seed: int
) -> pd.DataFrame:
    """The loss without each head, one at a time, its output before the projection set to zero.

    One row per head: `site, layer, head`, `ablation_loss_change` in nats per target token (loss
    without the head minus loss with it) and its 95 % interval `ablation_low` to `ablation_high`,
    a paired bootstrap over sentences. Several processes share the heads.

    Args:
        evaluator: from `evaluator_for_labels`.
        passes: whose progress and processes count.
        sites: where the heads are.
        seed: of the bootstrap.

    Cost: a forward pass over the evaluator's sentences for each head.
    """
    wanted = [head for head in all_heads(evaluator.projections) if head.site in sites]
    processes = passes.processes
    mine = wanted[processes.index :: processes.count]
    before = evaluator.losses()
    done = 0

    def evaluate() -> Difference:
        nonlocal done
        after = evaluator.losses()
        done += 1
        if passes.progress is not None:
            passes.progress("Taking heads away", done, len(mine))
        return loss_difference(before, after, evaluator.tokens, seed=seed)

    found = ablate_each(evaluator.projections, mine, "zero", evaluate)
    rows = [_row(head, difference) for head, difference in found.items()]
    shares = processes.gather(rows)
    # The heads were dealt out in turn.
    dealt = [shares[index % len(shares)][index // len(shares)] for index in range(len(wanted))]
    return pd.DataFrame(dealt)


def _row(head: Head, difference: Difference) -> dict[str, str | int | float]:
    return {
        **head._asdict(),
        "ablation_loss_change": difference.change,
        "ablation_low": difference.low,
        "ablation_high": difference.high,
    }
