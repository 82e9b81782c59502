"""How well each mechanism stands in for full attention at equal budgets."""

from attnlab.results import Listed

LISTED = Listed(
    name="compare",
    panel="What could replace them",
    help="Compare mechanisms at equal budgets of attended keys: error, loss, BLEU, time.\n\n"
    "Every mechanism replaces all heads of each site where it can be, and of these sites together, without "
    "retraining and with --fine-tune STEPS again after so many training batches. Its setting is the "
    "nearest to full attention within the budget, chosen on validation sentences. The loss is "
    "that of the tokens that a model scores; of an encoder without a head how far its final states move.",
)
