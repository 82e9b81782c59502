"""Which mechanism each head should have under one budget of keys for all heads."""

from attnlab.results import Listed

LISTED = Listed(
    name="plan",
    panel="What could replace them",
    help="Search which mechanism each head should have under one budget of keys for all heads.\n\n"
    "Candidates are learned on training sentences, chosen on validation sentences by what they cost, and "
    "reported on held-out sentences beside one band, Longformer and BigBird for all heads. With --out each "
    "budget's plan is written too, as OUT/plan_BUDGET.json, ready for `train --attention`.",
)
