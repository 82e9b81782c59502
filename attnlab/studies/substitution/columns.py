"""The columns of a substitution study."""

from attnlab.budget.columns import ERROR, MASS, VISIBLE_KEYS
from attnlab.core.columns import Column, Table
from attnlab.studies.change_columns import declared_changes

# What the names of the changes of each measure end with.
UNITS = {"loss": "_nats", "bleu": ""}
# The level of what cannot be used, since it looks at what it replaces.
ORACLE = "oracle"
# Fewer things agree in rank by chance too often, and fewer heads give too few different draws.
FEWEST_RANKED, FEWEST_HEADS = 5, 5
SCOPE = Column(
    "scope",
    "scope",
    "What is replaced at a time: a `head`, a `site`, all heads of the `model`, or what a `plan` names.",
)


def _change(stem: str, title: str, what: str, unit: str, digits: int) -> tuple[Column, ...]:
    return declared_changes(
        stem,
        title,
        f"Change of {what} from the model that has full attention and as many `steps`.",
        digits=digits,
        unit=unit,
    )


SUBSTITUTIONS = Table(
    "substitutions.csv",
    "replaced heads, mechanism, budget and steps",
    (
        SCOPE,
        Column("replaced", "replaced", "The head, the site, or `all`."),
        Column(
            "budget",
            "budget",
            "Keys that a row may see on average over the heads of a site, counted on validation "
            "sentences; of a mechanism without a support, the multiply-adds of scoring and mixing as many.",
        ),
        Column(
            "mechanism",
            "mechanism",
            "Name of the mechanism, `full` for none, or the file of the plan.",
        ),
        Column(
            "level",
            "level",
            "`oracle`, chosen from the matrices that it replaces, a bound and no method; `calibrated`, "
            "tables learned on training sentences and the setting chosen on validation sentences.",
        ),
        Column(
            "written",
            "setting",
            "The setting of each site that is nearest to full attention (l1) on validation sentences "
            "within the budget, as `--attention` takes it.",
        ),
        Column(
            "settings_tried",
            "tried",
            "How many settings were measured there, those over the budget among them.",
        ),
        Column(
            "replaced_heads",
            "heads",
            "How many heads were replaced.",
        ),
        Column(
            "steps",
            "steps",
            "Batches of fine-tuning after the replacement, 0 for none; the model that it is "
            "compared with had as many.",
        ),
        MASS,
        ERROR,
        VISIBLE_KEYS,
        Column("loss_nats", "loss (nats)", "Loss per token on test sentences.", 4),
        *_change(
            "loss", "loss", "the loss per token, in nats; above 0 is worse,", UNITS["loss"], 4
        ),
        Column("bleu", "BLEU", "BLEU (greedy) on test sentences; empty where not translated.", 2),
        *_change("bleu", "BLEU", "BLEU; below 0 is worse,", UNITS["bleu"], 2),
        Column(
            "time_ratio",
            "time",
            "Time of the losses of all sentences, divided by that of full attention measured "
            "alternately; attnlab's own code on this device, short sentences.",
            2,
        ),
        Column("sentences", "sentences", "Number of test sentences."),
        Column("validation_sentences", "validation", "Number of validation sentences."),
        Column("calibration_sentences", "calibration", "Number of training sentences."),
    ),
)
PREDICTION = Table(
    "prediction.csv",
    "predictor and site",
    (
        Column("site", "site", "Encoder, decoder or cross-attention, or `all`."),
        Column(
            "predictor",
            "predictor",
            "What predicts the change of loss of a replaced head without running the model on: "
            "`missing_mass`, 1 - attention captured, or `output_error`.",
        ),
        Column(
            "across",
            "across",
            "`pairs` ranks all pairs of a head and a mechanism together; `mechanisms` the mechanisms "
            "of each head, `heads` the heads under each mechanism, both averaged.",
        ),
        Column(
            "spearman",
            "Spearman",
            "Rank correlation with the change of loss; missing where it would rank fewer than "
            f"{FEWEST_RANKED} (pairs, mechanisms or heads, by `across`), or where one does not vary.",
            2,
        ),
        Column(
            "low",
            "low",
            "Lower end of its 95 % interval, a bootstrap over heads; missing for fewer than "
            f"{FEWEST_HEADS} heads, and where all draws agree.",
            2,
        ),
        Column("high", "high", "Upper end of its 95 % interval.", 2),
        Column("heads", "heads", "Number of heads."),
        Column("mechanisms", "mechanisms", "Number of mechanisms and budgets."),
    ),
)
TABLES = (SUBSTITUTIONS, PREDICTION)
