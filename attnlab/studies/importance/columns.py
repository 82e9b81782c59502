"""The columns of an importance study."""

from attnlab.columns import HEAD, HEAD_KEYS, Column, Table
from attnlab.studies.change_columns import declared_changes, declared_tests

REPLACED_BY = {
    "zero": "0",
    "mean": "its mean over training sentences",
    "uniform": "what it would be with equal weights on all visible keys",
}
# What the names of the changes of each measure end with.
UNITS = {"loss": "_nats", "bleu": ""}


def _replaced(name: str, measure: str) -> tuple[Column, ...]:
    """Change of loss or BLEU with each head replaced, with its interval and test."""
    changed = (
        f"with the head's output, before the output projection, replaced by {REPLACED_BY[name]}"
    )
    needed, digits = {"loss": ("the loss per token, in nats", 4), "bleu": ("BLEU (greedy)", 2)}[
        measure
    ]
    sign = "above" if measure == "loss" else "below"
    title = f"{measure}, {name}"
    change = declared_changes(
        f"{name}_{measure}",
        title,
        f"Change of {needed}, {changed}; {sign} 0 the model needs the head.",
        digits=digits,
        unit=UNITS[measure],
        heading=title,
        short=f"{'BLEU' if measure == 'bleu' else measure}\n{name}",
    )
    return change + declared_tests(f"{name}_{measure}", title, together="all heads in the column")


_LOSS = tuple(_replaced(name, "loss") for name in REPLACED_BY)
_BLEU = tuple(_replaced(name, "bleu") for name in REPLACED_BY)
# Each change with the column that says whether it is beyond chance: the last of `declared_tests`.
CHANGES = tuple((columns[0], columns[-1]) for columns in (*_LOSS, *_BLEU))
IMPORTANCE_OF_HEADS = Table(
    "importance.csv",
    "head",
    (
        *HEAD,
        Column(
            "gradient_importance",
            "gradient (nats)",
            "Mean over sentences of the absolute derivative of a sentence's summed loss by a gate "
            "on the head, in nats per sentence.",
            3,
            "gradient",
        ),
        Column("gradient_standard_error", "standard error", "Its standard error.", 3),
        Column(
            "gradient_in_layer",
            "gradient in layer",
            "The same divided by the Euclidean norm of its layer.",
            3,
        ),
        *(column for columns in (*_LOSS, *_BLEU) for column in columns),
    ),
    keys=HEAD_KEYS,
)
CUMULATIVE = Table(
    "cumulative.csv",
    "order and number of heads",
    (
        Column(
            "order",
            "order",
            "Heads are removed one after another, the least important first: by `gradient`, by "
            "their `loss` alone, and at `random`. The order by gradient compares "
            "gradient_importance across layers as it is; Michel et al. 2019 divide by the norm of "
            "the layer first (gradient_in_layer), which is not tried as an order.",
        ),
        Column("heads_removed", "removed", "How many heads are removed."),
        Column("removed", "last removed", "The head that went last."),
        Column("loss_nats", "loss (nats)", "Loss per token.", 3, "loss"),
        Column("loss_change_nats", "change (nats)", "Its change from the whole model.", 3),
        Column(
            "loss_change_low",
            "low",
            "Lower end of the 95 % interval of the change, for one step at a time.",
            3,
        ),
        Column("loss_change_high", "high", "Upper end of that interval.", 3),
        Column("replacement", "replacement", "What stands in for a removed head."),
        Column("bleu", "BLEU", "BLEU (greedy), at some numbers of heads.", 1),
        Column("chosen_on", "chosen on", "The sentences on which the orders are chosen."),
        Column("reported_on", "reported on", "The sentences on which loss and BLEU are measured."),
    ),
    keys=("order", "heads_removed"),
)
AGREEMENT_OF_MEASURES = Table(
    "rank_agreement.csv",
    "pair of measures",
    (
        Column("measure", "measure", "A measure of importance."),
        Column("other", "other", "Another one."),
        Column(
            "spearman",
            "Spearman",
            "Rank correlation over heads; measures of BLEU are turned round, so that what the "
            "model needs ranks high in all. A head that another can stand in for costs little "
            "alone.",
            2,
        ),
        Column("heads", "heads", "How many heads have both."),
    ),
    keys=("measure", "other"),
)
TABLES = (IMPORTANCE_OF_HEADS, CUMULATIVE, AGREEMENT_OF_MEASURES)
