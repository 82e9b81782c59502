"""What every attention head does, what it looks like and what is lost without it."""

from attnlab.results import Listed

LISTED = Listed(
    name="analyze",
    panel="Heads",
    help="Say what every attention head does, what it looks like and what is lost without it.\n\n"
    "--quick leaves out the controls of labels and the loss without each head.",
)
