"""Attention between words, one entry at a time."""

from collections.abc import Sequence


def merged_by_loops(
    weights: list[list[float]],
    query_unit: Sequence[int | None],
    key_unit: Sequence[int | None],
) -> list[list[float]]:
    """Word by word: over the tokens of the key the sum, over those of the query the mean."""
    rows = 1 + max(unit for unit in query_unit if unit is not None)
    columns = 1 + max(unit for unit in key_unit if unit is not None)
    result = [[0.0] * columns for _ in range(rows)]
    for row in range(rows):
        mine = [i for i, unit in enumerate(query_unit) if unit == row]
        for i in mine:
            for j, unit in enumerate(key_unit):
                if unit is not None:
                    result[row][unit] += weights[i][j] / len(mine)
    return result


def units_by_letters(
    text: str,
    words: Sequence[tuple[int, int]],
    tokens: Sequence[tuple[int, int]],
    special: Sequence[bool],
) -> tuple[list[int | None], list[int]] | None:
    """The unit of each token and of each word, letter by letter; None where they do not match."""
    of_letter = [[n for n, (start, end) in enumerate(words) if start <= i < end]
                 for i in range(len(text))]  # fmt: skip
    touched: list[list[int]] = []
    for (start, end), added in zip(tokens, special, strict=True):
        letters = [i for i in range(start, end) if not text[i].isspace()]
        if added:
            touched.append([])
        elif not letters:
            touched.append([n for n, (first, _) in enumerate(words) if first >= start][:1])
        else:
            mine = sorted({n for i in letters for n in of_letter[i]})
            inside = range(letters[0], letters[-1] + 1)
            # Between two words of a token nothing is that belongs to no word.
            gap = any(
                not of_letter[i] and words[mine[0]][1] <= i < words[mine[-1]][0]
                for i in inside
                if mine
            )
            if not mine or gap:
                return None
            touched.append(list(range(mine[0], mine[-1] + 1)))
    if any(not any(n in mine for mine in touched) for n in range(len(words))):
        return None
    together = [any(n in mine and n + 1 in mine for mine in touched) for n in range(len(words))]
    unit_of_word = [sum(not one for one in together[:n]) for n in range(len(words))]
    return [unit_of_word[mine[0]] if mine else None for mine in touched], unit_of_word
