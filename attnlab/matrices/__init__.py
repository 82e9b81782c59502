"""The mathematics of structured matrices: distances, supports, exact fits."""

import lazy_loader

__getattr__, _, _ = lazy_loader.attach_stub(__name__, __file__)
# What users are promised; other packages import more.
__all__ = [
    "Fit",
    "StaticScores",
    "fit_additive",
    "fit_band",
    "fit_column",
    "fit_column_band",
    "fit_diagonal",
    "fit_rare_columns",
    "fit_residual",
    "fit_sigma",
    "fit_static_scores",
    "project_band",
]


def __dir__() -> list[str]:
    return sorted(__all__)
