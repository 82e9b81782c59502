"""Structural labels from sums equal those from all the sentences at once."""

import pytest
import torch

from attnlab.core.errors import InputError
from attnlab.matrices.coded_supports import Search
from attnlab.matrices.families import CODED
from attnlab.matrices.labels import label_heads, sum_labels

SIZES = torch.tensor([[11, 7], [4, 3], [9, 7], [11, 1], [5, 6]])


def corpus(sizes: torch.Tensor, *, causal: bool = False) -> torch.Tensor:
    """Rows `[sentence, head, query, key]` that are 0 in the padding; three heads of peaked weights."""
    generator = torch.Generator().manual_seed(2)
    queries, keys = sizes.amax(0).tolist()
    scores = torch.randn(len(sizes), 3, queries, keys, generator=generator, dtype=torch.float64)
    seen = torch.zeros(len(sizes), 1, queries, keys, dtype=torch.bool)
    for number, (rows, columns) in enumerate(sizes.tolist()):
        seen[number, :, :rows, :columns] = True
    seen = seen.tril() if causal else seen
    return (3 * scores).masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0)


def same(found, expected) -> None:
    for name in ("bits", "bits_per_row", "eta", "margin"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))
    for name in ("chosen", "runner_up"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    for family in CODED:
        for name, value in expected.parameters[family].items():
            assert found.parameters[family][name].tolist() == value.tolist(), (family, name)


@pytest.mark.parametrize("causal", [False, True])
def test_sums_of_any_batches_give_the_labels_of_the_whole(causal: bool) -> None:
    sizes = SIZES.amin(1, keepdim=True).expand(-1, 2) if causal else SIZES
    H = corpus(sizes, causal=causal)
    search = Search(window=3, causal=causal)
    whole = label_heads(H.movedim(1, 0), window=3, causal=causal, sizes=sizes[None])
    for parts in ([5], [1, 3, 1], [2, 3]):
        batches = zip(H.split(parts), sizes.split(parts), strict=True)
        cut = [
            sum_labels(h[..., : int(s[:, 0].max()), : int(s[:, 1].max())], s[:, None], search)
            for h, s in batches
        ]
        total = cut[-1]
        for one in cut[:-1]:
            total = total + one
        same(total.labels, whole)
        assert (total.rows, total.sentences) == (int(sizes[:, 0].sum()), 5)


def test_sentences_shorter_than_a_block_are_coded_alike() -> None:
    sizes = torch.tensor([[3, 3], [2, 2]])
    H = corpus(sizes)
    found = sum_labels(H, sizes[:, None], Search(window=5)).labels
    same(found, label_heads(H.movedim(1, 0), window=5, sizes=sizes[None]))


def test_sums_over_other_candidates_are_refused() -> None:
    H, sizes = corpus(SIZES), SIZES[:, None]
    with pytest.raises(InputError, match="different candidates"):
        sum_labels(H, sizes, Search(window=3)) + sum_labels(H, sizes, Search(window=2))


def test_memory_follows_lengths_not_sentences() -> None:
    H, sizes = corpus(SIZES), SIZES[:, None]
    one = sum_labels(H, sizes, Search())
    assert (one + one + one).groups.tolist() == one.groups.tolist()
