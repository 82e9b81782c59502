"""Figures that go into a paper: each function takes a tidy table and returns a figure.

    import attnlab
    figure = attnlab.plot.heads(attnlab.analyze("runs/demo"))
    attnlab.plot.save(figure, "heads.pdf")

Tables can come from a result or from its files (`pandas.read_csv("runs/demo/analysis/summary.csv")`).
Figures are as wide as a column of a paper (`COLUMN`, in inches) unless they hold several panels side by
side; `width` sets it. Nothing here changes matplotlib's settings.
"""

from typing import Any

from attnlab.core import arguments_told, nearest_in_words
from attnlab.figures import COLUMN, PAGE
from attnlab.figures import draw_heads as matrices
from attnlab.figures import draw_mechanism as mechanism
from attnlab.figures import draw_pareto as pareto
from attnlab.figures import draw_receptive_field as receptive_field
from attnlab.figures import draw_scaling as scaling
from attnlab.figures import draw_spectrum as spectrum
from attnlab.figures import draw_training as training
from attnlab.figures import save_figure as save
from attnlab.questions.analyze.figures import draw_distribution as distribution
from attnlab.questions.analyze.figures import draw_head as head
from attnlab.questions.analyze.figures import draw_heads as heads
from attnlab.questions.analyze.figures import draw_offsets as offsets
from attnlab.questions.analyze.figures import draw_windows as windows
from attnlab.questions.compare.comparison_figure import draw_comparison as comparison
from attnlab.questions.importance.view import draw_importance as importance
from attnlab.questions.neighbours.view import draw_embedding_map as embedding_map
from attnlab.questions.prune.view import draw_pruning as pruning
from attnlab.questions.size.model_figure import draw_model as model

__all__ = [
    "COLUMN",
    "PAGE",
    "comparison",
    "distribution",
    "embedding_map",
    "head",
    "heads",
    "importance",
    "matrices",
    "mechanism",
    "model",
    "offsets",
    "pareto",
    "pruning",
    "receptive_field",
    "save",
    "scaling",
    "spectrum",
    "training",
    "windows",
]


# Errors call each function as it is called here.
globals().update(
    {
        name: arguments_told(function, f"plot.{name}")
        for name in __all__
        if callable(function := globals()[name])
    }
)


def __getattr__(name: str) -> Any:
    hint = nearest_in_words(name, __all__)
    msg = f"module 'attnlab.plot' has no attribute {name!r}{hint}; it has: {', '.join(__all__)}."
    raise AttributeError(msg)
