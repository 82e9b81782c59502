"""The labels of an analysis that was made with labels."""

from attnlab.studies.analysis.labelling import Labelling
from attnlab.studies.analysis.measuring import Analysis


def labelling_of(analysis: Analysis) -> Labelling:
    """What each head does, with every key counted.

    Raises:
        ValueError: the analysis has no labels.
    """
    if analysis.labelling is None:
        msg = "the analysis was made without labels"
        raise ValueError(msg)
    return analysis.labelling.view("all")
