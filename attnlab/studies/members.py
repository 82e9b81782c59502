"""Which member of a family was chosen, in words."""

from attnlab.matrices.fit import Band, Diagonal, Fit, Parameters, RareColumns, Sink


def describe_members(fit: Fit) -> list[str]:
    """One phrase a matrix: its offset, blocks, column or number of entries; of the union, the family."""
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
        case Sink():
            return f"column {int(parameters.column[index])}"
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
