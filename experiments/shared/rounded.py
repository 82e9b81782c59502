"""Tables as results keep them."""

from pathlib import Path

import pandas as pd

from attnlab.core import write_table


def write_rounded(path: Path, table: pd.DataFrame) -> None:
    """Writes the table as CSV, floats with seven significant digits, more than samples tell apart."""
    floats = table.select_dtypes("float")
    rounded = {str(name): [float(f"{value:.7g}") for value in floats[name]] for name in floats}
    write_table(path, table.assign(**rounded))
