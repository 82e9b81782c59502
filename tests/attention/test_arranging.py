"""Real tokens in front of padding, and what was computed of them back where it stood."""

import torch

from attnlab.attention.padding import Arrangement, padding_behind

VISIBLE = torch.tensor(
    [
        [False, False, True, True, True],
        [True, False, True, False, True],
        [True, True, False, True, True],
    ]
)


def test_real_tokens_stand_in_front_and_every_output_returns_to_its_own_row() -> None:
    tokens = torch.arange(3 * 2 * 5 * 2.0).reshape(3, 2, 5, 2)
    order = padding_behind(VISIBLE, rows=True)
    moved = order.of_queries(tokens)
    for sentence, visible in enumerate(VISIBLE):
        real = int(visible.sum())
        assert torch.equal(moved[sentence, :, :real], tokens[sentence][:, visible])
    assert not torch.equal(moved, tokens)
    assert torch.equal(order.output_back(moved), tokens)
    assert torch.equal(order.of_keys(tokens), moved)


def test_queries_that_are_other_tokens_stay_where_they_are() -> None:
    tokens = torch.arange(3 * 2 * 4 * 2.0).reshape(3, 2, 4, 2)
    order = padding_behind(VISIBLE, rows=False)
    assert torch.equal(order.of_queries(tokens), tokens)
    assert torch.equal(order.output_back(tokens), tokens)


def test_matrices_return_by_rows_and_columns_or_by_columns_alone() -> None:
    pairs = torch.arange(3 * 1 * 5 * 5.0).reshape(3, 1, 5, 5)
    for rows in (True, False):
        order = Arrangement(padding_behind(VISIBLE, rows=rows).keys, rows)
        moved = torch.empty_like(pairs)
        for b, keys in enumerate(order.keys.tolist()):
            for i in range(5):
                for j in range(5):
                    moved[b, 0, i, j] = pairs[b, 0, keys[i] if rows else i, keys[j]]
        assert torch.equal(order.matrix_back(moved), pairs)
