"""The mathematics of structured matrices: distances, supports, exact fits."""

from attnlab.matrices.band import fit_band, project_band
from attnlab.matrices.fit import Fit
from attnlab.matrices.residual import fit_residual

__all__ = ["Fit", "fit_band", "fit_residual", "project_band"]
