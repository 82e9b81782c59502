"""What heads do in several models, or over the training of one, and which head is which."""

from attnlab.results import Listed

LISTED = Listed(
    name="across",
    panel="Heads",
    help="Compare the heads of several models, or of one over its training.\n\n"
    "Every head of every model gets the strength of each label, as by attnlab analyze, and of the patterns "
    "that are given (attnlab claim --help names them). Heads of the models are matched by what they attend "
    "to on the same sentences, or by number. Models are runs, folders, or names on the hub, also of a "
    "revision: name@revision. What a run keeps over its training (attnlab train --keep-checkpoints) is read "
    "with --checkpoints.",
)
