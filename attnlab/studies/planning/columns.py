"""The columns of a plan search."""

from attnlab.core.columns import HEAD, HEAD_KEYS, Column, Table, with_interval

BUDGET = Column("budget", "budget", "Keys per row that a plan may use, on average over all heads.")
ERROR = Column(
    "error",
    "error",
    "|X - H| / |H| in l1 on the test sentences, H full attention and X the mechanism's matrix: 0 is "
    "exact, 2 the most. A row without visible keys gets the largest error, 2, as keys without "
    "attention do, so that leaving a head out is no better than keys of little weight.",
    3,
)
KEYS = Column(
    "keys_per_row",
    "keys per row",
    "Keys that a row saw on the test sentences, counted: fewer at the ends of a sentence, all in rows "
    "of global tokens.",
    2,
    short="keys",
)


def _gain(name: str, measure: str, meaning: str, digits: int) -> tuple[Column, ...]:
    heading = f"{measure} gain of searched over this"
    short = f"{measure} gain of\nsearched over this"
    said = f"{meaning}; above 0 the searched is better."
    return with_interval(Column(name, heading, said, digits, short))


HEADS = Table(
    "plan_heads.csv",
    "budget and head of the searched plan",
    (
        BUDGET,
        *HEAD,
        Column(
            "family",
            "family",
            "`none`, `band`, `offsets`, `ends` (offsets with the first or last keys), `tokens` (columns of "
            "token ids), `blocks` (such columns within reach: Sigma3), `static` (weights by offset) or "
            "`full`.",
        ),
        Column("mechanism", "mechanism", "As `--attention` takes it."),
        Column(
            "level",
            "level",
            "`calibrated`, keys chosen on training sentences; `static`, weights too.",
        ),
        Column(
            "validation_error",
            "validation error",
            "The same as `error` on the validation sentences, on which the mechanism was chosen.",
            3,
        ),
        Column(
            "validation_keys",
            "validation keys",
            "Keys per row on these, which the budget limits.",
            2,
        ),
        ERROR,
        KEYS,
        Column(
            "oracle_error",
            "oracle error",
            "Error of the best rows of probabilities that see as many keys each, chosen from the test "
            "matrices themselves: a bound and no method.",
            3,
        ),
        Column(
            "lower_bound",
            "lower bound",
            "Error that no matrix with as many entries goes below.",
            3,
        ),
    ),
    keys=("budget", *HEAD_KEYS),
)
SCORES = Table(
    "plan_scores.csv",
    "budget and plan, on the test sentences",
    (
        BUDGET,
        Column(
            "plan",
            "plan",
            "`searched`, one mechanism for each head; `band`, `longformer`, `bigbird`, one setting for "
            "all heads of a site, the best on validation under the same total budget; `full`, the run as "
            "it is.",
        ),
        Column(
            "level",
            "level",
            "`calibrated`: settings chosen on validation sentences, and for `searched` keys and fixed "
            "weights learned on training sentences; empty for `full`.",
        ),
        Column(
            "written",
            "written",
            "Mechanisms by site; for `searched` how many heads got each family; empty for `full`.",
        ),
        KEYS,
        *with_interval(ERROR),
        Column(
            "error_bound",
            "error bound (validation)",
            "On validation sentences no choice of the same candidates within the budget has a smaller error.",
            3,
        ),
        Column(
            "loss_nats", "loss (nats)", "Loss per target token, without label smoothing.", 3, "loss"
        ),
        *with_interval(
            Column("loss_change", "change of loss", "Change against the run as it is.", 3)
        ),
        *_gain("loss_gain", "loss", "Loss of this plan less that of the searched one", 3),
        Column("bleu", "BLEU", "Greedy.", 1),
        *with_interval(
            Column("bleu_change", "change of BLEU", "Change against the run as it is.", 1)
        ),
        Column(
            "length_ratio",
            "length ratio",
            "Length of the translations divided by that of the references, in words: above 1 where a "
            "model repeats itself, which costs BLEU.",
            3,
        ),
        *_gain("bleu_gain", "BLEU", "BLEU of the searched plan less that of this one", 1),
        Column("sentences", "sentences", "How many test sentences."),
        Column(
            "validation_sentences",
            "validation sentences",
            "How many sentences the choice is made on.",
        ),
        Column(
            "calibration_sentences",
            "calibration sentences",
            "How many training sentences the candidates are learned on.",
        ),
        Column("seed", "seed", "Seed of the bootstrap."),
    ),
)
TABLES = (HEADS, SCORES)
