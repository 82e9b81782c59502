"""The mathematics of structured matrices: distances, supports, exact fits."""

from attnlab.matrices.additive import fit_additive
from attnlab.matrices.band import fit_band, project_band
from attnlab.matrices.column import fit_column, fit_column_band
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.fit import Fit
from attnlab.matrices.rare_columns import fit_rare_columns
from attnlab.matrices.residual import fit_residual
from attnlab.matrices.sigma import fit_sigma

__all__ = [
    "Fit",
    "fit_additive",
    "fit_band",
    "fit_column",
    "fit_column_band",
    "fit_diagonal",
    "fit_rare_columns",
    "fit_residual",
    "fit_sigma",
    "project_band",
]
