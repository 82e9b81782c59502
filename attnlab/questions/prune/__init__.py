"""How many heads a trained model can do without."""

from attnlab.results import Listed

LISTED = Listed(
    name="prune",
    panel="What could replace them",
    help="Learn which heads a model can do without: heads left against BLEU or loss by penalty.\n\n"
    "Gates on the heads are trained along with the model; heads whose gate ends nearer to 0 than to 1 are "
    "closed for good.",
)
