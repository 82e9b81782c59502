"""The columns of a pruning."""

from attnlab.addresses import SITES
from attnlab.columns import HEAD, HEAD_KEYS, Column, Table

PENALTY = Column("penalty", "penalty", "Price of an open head, in nats per token.")


def _change(name: str, of: str, digits: int) -> tuple[Column, ...]:
    return (
        Column(f"{name}_change", f"change of {of}", "Change against the unpruned run.", digits),
        Column(
            f"{name}_change_low",
            f"change of {of}, low",
            "Lower end of its 95 % interval, a paired bootstrap over sentences; another draw of "
            "gates or heads may change more.",
            digits,
        ),
        Column(f"{name}_change_high", f"change of {of}, high", "Upper end of it.", digits),
    )


CURVE = Table(
    "curve.csv",
    "model and part of the corpus",
    (
        Column(
            "kind",
            "model",
            "`unpruned`, the run; `fine-tuned`, the run trained as many steps further with every "
            "head; `pruned`, heads closed by learned gates; `random`, as many heads of each site "
            "closed by chance from the first step.",
        ),
        PENALTY,
        Column("split", "part", "`validation`, on which a penalty may be chosen, or `test`."),
        Column("heads", "heads", "Heads of the run."),
        Column("heads_left", "heads left", "How many of them are open.", short="heads\nleft"),
        *(
            Column(
                f"{site}_left",
                f"{site} left",
                f"Open heads of the site {site}.",
                short=f"{site}\nleft",
            )
            for site in SITES
        ),
        Column(
            "loss_nats",
            "loss (nats)",
            "Loss per target token, without label smoothing.",
            2,
            "loss",
        ),
        *_change("loss", "loss", 2),
        Column("bleu", "BLEU", "Greedy; empty for a language model.", 1),
        *_change("bleu", "BLEU", 1),
        Column("bleu_p_value", "p of BLEU", "Its p-value by the same bootstrap.", 3),
        Column("sentences", "sentences", "How many sentences were scored."),
        Column(
            "unsettled",
            "unsettled",
            "Gates that are neither 0 nor 1 with probability 0.9 at the end.",
        ),
        Column("steps", "steps", "Training steps after the run."),
        Column("seed", "seed", "Seed of gates, random heads and bootstrap."),
    ),
)
GATES = Table(
    "gates.csv",
    "penalty and head",
    (
        PENALTY,
        *HEAD,
        Column("p_zero", "P(0)", "Probability that the head's gate is exactly 0.", 2),
        Column("p_one", "P(1)", "Probability that it is exactly 1.", 2),
        Column("open", "open", "Whether 0 is not the likelier of the two."),
    ),
    keys=("penalty", *HEAD_KEYS),
)
TRAINING = Table(
    "training.csv",
    "penalty and step",
    (
        PENALTY,
        Column("step", "step", "Training step, from 1."),
        Column(
            "loss_nats",
            "loss (nats)",
            "Loss of the batch in training, with dropout and label smoothing, without the penalty.",
            3,
        ),
        Column("expected_open", "expected open", "Gates that are not 0 on average.", 1),
    ),
    keys=("penalty", "step"),
)
TABLES = (CURVE, GATES, TRAINING)
