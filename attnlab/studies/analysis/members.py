"""Which member of a family was chosen, in words."""

from attnlab.matrices.fit import (
    Additive,
    Band,
    Column,
    ColumnBand,
    Diagonal,
    Fit,
    Parameters,
    RareColumns,
)


def describe_members(fit: Fit) -> list[str]:
    """One phrase per matrix: its offset, blocks, column or number of entries; of the union, the family."""
    return [_described(fit.parameters, index) for index in range(len(fit.l1))]


def _described(parameters: Parameters, index: int) -> str:
    match parameters:
        case Diagonal():
            return f"offset {int(parameters.offset[index]):+d}"
        case Band():
            left, right = parameters.window
            return f"{int(parameters.kept[index])} entries at offsets {-left}..{right}"
        case RareColumns():
            return _blocks(parameters, index)
        case Additive():
            return _band_and_columns(parameters, index)
        case Column():
            return f"column {int(parameters.column[index])}"
        case ColumnBand():
            left, right = parameters.window
            return f"column {int(parameters.column[index])} + offsets {-left}..{right}"
    return parameters.families[int(parameters.chosen[index])]


def _blocks(parameters: RareColumns, index: int) -> str:
    blocks = zip(
        parameters.used[index].tolist(),
        parameters.start[index].tolist(),
        parameters.rows[index].tolist(),
        parameters.column[index].tolist(),
        strict=True,
    )
    phrases = [
        f"rows {start}-{start + rows - 1} to {column}"
        for used, start, rows, column in blocks
        if used
    ]
    return ", ".join(phrases) or "identity"


def _band_and_columns(parameters: Additive, index: int) -> str:
    columns = parameters.column[index][parameters.used[index]].tolist()
    phrases = []
    if parameters.banded[index]:
        left, right = int(parameters.left[index]), int(parameters.right[index])
        phrases.append(f"offsets {-left}..{right}" if left + right else "offset 0")
    if columns:
        noun = "column" if len(columns) == 1 else "columns"
        phrases.append(f"{noun} {', '.join(map(str, sorted(columns)))}")
    return " + ".join(phrases) or "nothing"
