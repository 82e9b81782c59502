import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from scipy.optimize import minimize_scalar
from weight_matrices import attention, weight_matrices

from attnlab.core.errors import InputError
from attnlab.matrices.coded_supports import Rows, Search, candidates, log2_choose, shortest_code
from attnlab.matrices.families import CODED
from attnlab.matrices.labels import label_heads, sum_labels
from attnlab.matrices.synthetic import draw_corpus


def bits_of_rows(
    H: list[list[float]], supports: list[list[int]], eta: float, keys: list[int] | None = None
) -> float:
    """The cross-entropy of rows coded as a support and noise, one entry at a time."""
    total = 0.0
    for i, (row, support) in enumerate(zip(H, supports, strict=True)):
        n = keys[i] if keys else len(row)
        for j, h in enumerate(row[:n]):
            if support:
                inside = (1 - eta) / len(support) if j in support else 0.0
                x = inside + eta / n
            else:
                x = 1 / n
            total -= h * math.log2(x) if h > 0 else 0.0
    return total


def shortest(H: list[list[float]], supports: list[list[int]], keys: list[int] | None = None):
    return minimize_scalar(
        lambda eta: bits_of_rows(H, supports, eta, keys),
        bounds=(1e-9, 1),
        method="bounded",
        options={"xatol": 1e-9},
    )


def test_eta_and_bits_are_those_of_a_plain_minimisation() -> None:
    H = attention(5, 7)
    supports = [[0, 1], [1], [], [2, 3, 4], [6]]
    captured = torch.tensor([sum(H[i, j].item() for j in s) for i, s in enumerate(supports)])
    rows = Rows(H.sum(-1), torch.full((5,), 7.0, dtype=H.dtype))
    found = shortest_code(rows, captured.double(), torch.tensor([len(s) for s in supports]))
    expected = shortest(H.tolist(), supports)
    assert float(found.bits) == pytest.approx(expected.fun, abs=1e-6)
    assert float(found.eta) == pytest.approx(expected.x, abs=1e-4)


def test_the_share_of_noise_is_that_of_halving_and_of_each_head_alone() -> None:
    generator = torch.Generator().manual_seed(3)
    shape, drawn = (40, 9), {"generator": generator, "dtype": torch.float64}
    # From a few keys to a million, and from all mass on the support to none.
    keys = (10 ** (6 * torch.rand(shape, **drawn))).ceil()
    support = (keys * torch.rand(shape, **drawn) ** 3).long()
    total = torch.rand(shape, **drawn)
    captured = total * torch.rand((40, 1), **drawn).mul(3).sub(1).clamp(0, 1) * (support > 0)
    found = shortest_code(Rows(total, keys), captured, support)
    for head in range(40):
        low, high = 0.0, 1.0
        for _ in range(60):
            eta, slope = (low + high) / 2, 0.0
            row = (of[head].tolist() for of in (captured, total, keys, support))
            for c, r, n, m in zip(*row, strict=True):
                if m > 0:
                    slope += c * (m - n) / ((1 - eta) * n + eta * m) + (r - c) / eta
            low, high = (eta, high) if slope > 0 else (low, eta)
        assert float(found.eta[head]) == pytest.approx(high, abs=1e-11)
        alone = shortest_code(Rows(total[[head]], keys[[head]]), captured[[head]], support[[head]])
        assert float(alone.eta) == float(found.eta[head])
    assert 0 < int((found.eta == 1).sum()) < 30
    assert 0 < int((found.eta < 1e-12).sum()) < 30


def test_log2_choose() -> None:
    for n in range(9):
        for k in range(n + 1):
            found = float(
                log2_choose(torch.tensor(float(n)).double(), torch.tensor(float(k)).double())
            )
            assert found == pytest.approx(math.log2(math.comb(n, k)), abs=1e-9)


@given(H=weight_matrices(batch=(2, 3)))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_rows_of_any_kind_are_coded_as_one_at_a_time(H: torch.Tensor) -> None:
    found = label_heads(H, window=1, num_pos=1, column_positions=1)
    streamed = sum_labels(H.movedim(0, 1), torch.tensor(H.shape[-2:]).expand(3, 1, 2),
                          Search(window=1, num_pos=1, column_positions=1)).labels  # fmt: skip
    queries, keys = H.shape[-2:]
    for head in range(2):
        rows = H[head].flatten(0, 1).tolist()

        def cost(support_of, rows=rows) -> float:
            supports = [[j for j in support_of(i) if 0 <= j < keys] for i in range(queries)] * 3
            return shortest(rows, supports).fun

        expected = {
            "diffuse": sum(map(sum, rows)) * math.log2(keys),
            "diagonal": min(cost(lambda i, d=d: [i + d]) for d in (-1, 0, 1)) + math.log2(3),
            "band": min(
                cost(lambda i, a=a, b=b: range(i - a, i + b + 1)) for a, b in ((1, 0), (0, 1), (1, 1))
            ) + math.log2(3),
            "column": min(cost(lambda _, t=t: [t]) for t in (0, keys - 1)) + 1,
            "column_band": min(
                cost(lambda i, a=a, b=b, t=t: {t, *range(i + a, i + b + 1)})
                for a, b in ((-1, -1), (1, 1), (0, 0), (-1, 0), (0, 1), (-1, 1))
                for t in (0, keys - 1)
            ) + math.log2(6 * 2),
        }  # fmt: skip
        for labels in (found, streamed):
            for family, bits in expected.items():
                index = CODED.index(family)
                assert float(labels.bits[head, index]) == pytest.approx(bits, abs=1e-5), family
            assert float(labels.eta[head, CODED.index("diffuse")]) == 1


@pytest.mark.parametrize("at", [None, [4, 0, 3], [1]])
@pytest.mark.parametrize(("causal", "columns"), [(False, 5), (True, 5), (False, 7), (False, 3)])
def test_bits_of_every_family(causal: bool, columns: int, at: list[int] | None) -> None:
    H = attention(2, 5, columns)
    if causal:
        H = H.tril()
        H = H / H.sum(-1, keepdim=True)
    queries = list(range(5)) if at is None else at
    H = H[:, queries]
    rows = H.flatten(0, 1).tolist()
    keys = [i + 1 for i in queries] * 2 if causal else None
    options = {"window": 2, "num_pos": 1, "column_positions": 1, "causal": causal}
    found = label_heads(H, **options, positions=None if at is None else torch.tensor(at))

    def cost(support_of, names: float) -> float:
        supports = [support_of(i) for i in queries] * 2
        return shortest(rows, supports, keys).fun + names

    def band(left: int, right: int):
        return lambda i: [j for j in range(columns) if -left <= j - i <= right]

    def beside(first: int, last: int, column: int):
        near = band(-first, last)
        return lambda i: {*near(i), *([column] if not causal or column <= i else [])}

    right = 0 if causal else 2
    # An offset alone or a band, the identity once.
    beside_offsets = {(d, d) for d in range(-2, right + 1)} | {
        (-a, b) for a in range(3) for b in range(right + 1)
    }
    offsets, sides = (
        range(-2, right + 1),
        [(a, b) for a in range(3) for b in range(right + 1) if a + b],
    )
    expected = {
        "diffuse": sum(math.log2(k) for k in keys) if keys else len(rows) * math.log2(columns),
        "diagonal": min(cost(band(-d, d), math.log2(len(offsets))) for d in offsets),
        "band": min(cost(band(a, b), math.log2(len(sides))) for a, b in sides),
        "column": min(cost(lambda i, t=t: [t] if not causal or t <= i else [], 1.0)
                    for t in (0, columns - 1)),
        "column_band": min(
            cost(beside(a, b, t), math.log2(2 * len(beside_offsets)))
            for a, b in beside_offsets
            for t in (0, columns - 1)
        ),
    }  # fmt: skip
    for family, bits in expected.items():
        assert float(found.bits[CODED.index(family)]) == pytest.approx(bits, abs=1e-5), family
    assert float(found.eta[CODED.index("diffuse")]) == 1
    best = expected["diffuse"]
    assert float(found.bits_per_row[0]) == pytest.approx(best / len(rows), abs=1e-9)
    assert found.bits[CODED.index("rare_columns")].isinf() == (at is not None)


def test_bits_of_rare_columns_name_their_places_in_every_sentence() -> None:
    columns = torch.tensor([[0, 1, 3, 3, 4, 5, 6], [0, 1, 2, 3, 5, 5, 6]])
    H = 0.9 * torch.nn.functional.one_hot(columns, 7).double() + 0.1 / 7
    found = label_heads(H, window=2, num_pos=1)
    index = CODED.index("rare_columns")
    # Blocks of 2 rows in 7, each with 2 columns: log2 C(6, 1) + log2 2; nothing else to choose from.
    supports = [[int(c)] for c in columns.flatten()]
    rows = shortest(H.flatten(0, 1).tolist(), supports)
    assert float(found.bits[index]) == pytest.approx(rows.fun + 2 * math.log2(12), abs=1e-5)
    assert found.parameters["rare_columns"]["block_rows"].tolist() == 2


def test_blocks_of_a_sentence_do_not_depend_on_a_shorter_one_beside_it() -> None:
    """As many blocks as asked for are placed where they fit, however much one alone would capture."""
    H = torch.zeros(2, 20, 20, dtype=torch.float64)
    # The 10 rows in the middle attend one key, which leaves no place for a second block of 10; two capture 5.
    target = torch.full((20,), 5)
    target[:5], target[15:] = 19, 0
    H[0, torch.arange(20), target] = 1
    H[1, 0, 0] = 1
    search, sizes = Search(window=10, num_pos=2), torch.tensor([[20, 20], [1, 1]])

    def blocks(count: int) -> list[torch.Tensor]:
        found = candidates(H[:count], sizes[:count], search)
        return [one.captured[0] for one in found if one.family == "rare_columns"]

    for beside, alone in zip(blocks(2), blocks(1), strict=True):
        torch.testing.assert_close(beside, alone)


@pytest.mark.parametrize("noise", [0.1, 0.3])
@pytest.mark.parametrize("family", CODED)
def test_planted_families_are_recovered(family: str, noise: float) -> None:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(14, 21, (25, 6), generator=generator)
    lengths[:, 0] = 20
    H = torch.stack(
        [
            draw_corpus(family, own, noise=noise, window=5, num_pos=2, generator=generator)
            for own in lengths
        ]
    )
    torch.testing.assert_close(H[0, 0].sum(-1), torch.ones(20, dtype=H.dtype))
    labels = label_heads(H, sizes=lengths[..., None].expand(-1, -1, 2))
    recovered = (labels.chosen == CODED.index(family)).double().mean()
    assert float(recovered) >= 0.95
    assert bool((labels.margin >= 0).all())
    ordered = labels.bits.sort(-1).values
    torch.testing.assert_close(
        labels.bits.gather(-1, labels.runner_up[:, None])[:, 0], ordered[:, 1]
    )
    if family != "diffuse":
        eta = labels.eta[:, CODED.index(family)]
        assert float(eta.mean()) == pytest.approx(noise, abs=0.03)


def test_parameters_of_planted_heads_are_found() -> None:
    shifted = torch.eye(11, dtype=torch.float64).roll(-2, 0)[None].repeat(3, 1, 1)
    labels = label_heads(0.9 * shifted + 0.1 / 11)
    assert CODED[int(labels.chosen)] == "diagonal"
    assert int(labels.parameters["diagonal"]["offset"]) == 2
    last = torch.zeros(3, 11, 11, dtype=torch.float64)
    last[:, :, 9] = 1
    labels = label_heads(0.9 * last + 0.1 / 11)
    assert CODED[int(labels.chosen)] == "column"
    assert {k: int(v) for k, v in labels.parameters["column"].items()} == {
        "position": 1,
        "from_end": 1,
    }


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("offset", [-1, 0])
def test_a_sink_with_the_token_before_is_a_column_and_a_band(offset: int, causal: bool) -> None:
    # Most weight on the first key, as in decoders, so that neither part is spread evenly.
    n = 12
    H = torch.full((3, n, n), 0.1 / n, dtype=torch.float64)
    H[:, :, 0] += 0.6
    for i in range(n):
        H[:, i, max(i + offset, 0)] += 0.3
    if causal:
        H = H.tril()
        H = H / H.sum(-1, keepdim=True)
    labels = label_heads(H, causal=causal)
    assert CODED[int(labels.chosen)] == "column_band"
    found = {name: int(value) for name, value in labels.parameters["column_band"].items()}
    assert found == {"first_offset": offset, "last_offset": offset, "position": 0, "from_end": 0}


@pytest.mark.parametrize("family", ["diagonal", "band", "column"])
def test_a_band_or_a_column_alone_costs_fewer_bits_than_both(family: str) -> None:
    n = 12
    i, j = torch.arange(n)[:, None], torch.arange(n)
    support = {"diagonal": j == i - 1, "band": (j - i).abs() <= 1, "column": j == 0 * i}
    H = support[family].double().expand(4, n, n)
    H = torch.where(H.sum(-1, keepdim=True) > 0, H / H.sum(-1, keepdim=True).clamp(min=1), 1 / n)
    labels = label_heads(0.8 * H + 0.2 / n)
    assert CODED[int(labels.chosen)] == family
    both = float(labels.bits[CODED.index("column_band")])
    assert both > float(labels.bits[CODED.index(family)]) + 1


def test_padding_and_order_of_sentences_change_nothing() -> None:
    H = attention(4, 3, 9, 9)
    sizes = torch.tensor([[9, 9], [5, 5], [7, 7]])
    wide = torch.full((4, 3, 13, 13), 7.0, dtype=H.dtype)
    wide[..., :9, :9] = H
    narrow, padded = label_heads(H, sizes=sizes), label_heads(wide, sizes=sizes)
    turned = label_heads(H.flip(1), sizes=sizes.flip(0))
    torch.testing.assert_close(narrow.bits, padded.bits)
    torch.testing.assert_close(narrow.bits, turned.bits)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (6, 6)])
def test_no_amount_of_padding_changes_anything(shape: tuple[int, int], causal: bool) -> None:
    H = attention(2, 3, *shape)
    alone = label_heads(H, causal=causal)
    assert bool(alone.bits.isfinite().all())
    sizes = torch.tensor(shape).expand(3, 2)
    for below, beside, content in [(1, 0, math.nan), (0, 1, math.inf), (9, 5, -1.0)]:
        wide = torch.full((2, 3, shape[0] + below, shape[1] + beside), content, dtype=H.dtype)
        wide[..., : shape[0], : shape[1]] = H
        padded = label_heads(wide, causal=causal, sizes=sizes)
        for name in ("bits", "bits_per_row", "eta", "margin", "chosen", "runner_up"):
            torch.testing.assert_close(getattr(padded, name), getattr(alone, name))


def block_bits(H: torch.Tensor, height: int) -> float:
    """The shortest code with exactly one block of this height, over every block and column."""
    queries, keys = H.shape
    identity = [[i] if i < keys else [] for i in range(queries)]
    found = []
    for start in range(queries - height + 1):
        for column in range(start, min(start + height, keys)):
            supports = list(identity)
            supports[start : start + height] = [[column]] * height
            found.append(shortest(H.tolist(), supports).fun)
    return min(found) + math.log2(queries - height + 1) + math.log2(height)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (4, 7), (5, 3), (6, 2)])
def test_blocks_are_the_shortest_code_where_every_row_has_a_key_of_its_own(
    shape: tuple[int, int],
) -> None:
    differences = []
    for seed in range(3):
        H = attention(*shape, seed=seed)
        found = float(label_heads(H[None], window=2, num_pos=1).bits[CODED.index("rare_columns")])
        differences.append(found - block_bits(H, 2))
    if shape[0] <= shape[1]:
        assert differences == pytest.approx([0.0] * 3, abs=1e-5)
    else:  # an upper bound
        assert min(differences) >= -1e-5


def test_blocks_may_cost_more_than_need_be_with_more_queries_than_keys() -> None:
    # Rows 2 and 3 gain a tenth on column 2, but row 3 costs less without any support.
    rows = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.45, 0.45, 0.1], [1 / 3] * 3]
    H = torch.tensor(rows, dtype=torch.float64)
    found = float(label_heads(H[None], window=2, num_pos=1).bits[CODED.index("rare_columns")])
    assert found > block_bits(H, 2) + 0.1


def test_causal_names_are_counted_as_causal_heads_can_have_them() -> None:
    # A head that is its noise: under every candidate the rows cost what they cost as uniform.
    H = torch.ones(3, 3, 3, dtype=torch.float64).tril()
    H = H / H.sum(-1, keepdim=True)
    found = label_heads(H, window=2, num_pos=1, column_positions=2, causal=True)
    uniform = float(found.bits[CODED.index("diffuse")])
    named = {"diagonal": math.log2(3), "column": math.log2(4)}
    for family, bits in named.items():
        assert float(found.bits[CODED.index(family)]) <= uniform + bits + 1e-6
    # One block of 2 rows in 3: 2 starts, and its first column is the only one that all rows see.
    blocks = float(found.bits[CODED.index("rare_columns")])
    columns = [[0, 0, 2], [0, 1, 1]]
    captured = [sum(float(H[0, i, c]) for i, c in enumerate(each)) for each in columns]
    best = columns[captured.index(max(captured))]
    rows = shortest(H.flatten(0, 1).tolist(), [[c] for c in best] * 3, [1, 2, 3] * 3)
    assert blocks == pytest.approx(rows.fun + 3 * math.log2(2), abs=1e-5)


def test_a_block_is_placed_even_where_it_does_not_help() -> None:
    H = torch.eye(4, dtype=torch.float64)[None] * 0.9 + 0.025
    found = label_heads(H, window=2, num_pos=1)
    best = min(
        shortest(H[0].tolist(), [[c] for c in each]).fun
        for each in ([0, 0, 2, 3], [1, 1, 2, 3], [0, 1, 1, 3], [0, 1, 2, 2])
    )
    bits = float(found.bits[CODED.index("rare_columns")])
    assert bits == pytest.approx(best + math.log2(3) + 1, abs=1e-5)
    assert bits > shortest(H[0].tolist(), [[i] for i in range(4)]).fun + math.log2(3) + 1 + 0.5


def test_more_noise_leaves_a_smaller_margin() -> None:
    margins = []
    for noise in (0.1, 0.3, 0.6):
        generator = torch.Generator().manual_seed(0)
        lengths = torch.full((5,), 14)
        H = draw_corpus("column", lengths, noise=noise, window=3, num_pos=1, generator=generator)
        margins.append(float(label_heads(H).margin))
    assert all(b < a for a, b in pairwise(margins))


def test_beside_a_column_there_is_as_often_an_offset_as_a_band() -> None:
    generator = torch.Generator().manual_seed(0)
    single = 0
    for _ in range(300):
        H = draw_corpus(
            "column_band", torch.tensor([12]), noise=0.0, window=3, num_pos=1, generator=generator
        )
        # Rows in the middle are far from the column, which is one of two keys at either end.
        single += int((H[0, 5, 2:10] > 0).sum()) == 1
    # 3 standard deviations of a fair coin.
    assert abs(single - 150) < 26


def test_unknown_family_is_refused() -> None:
    with pytest.raises(InputError, match="choose from: diffuse, diagonal"):
        draw_corpus(
            "stripes",
            torch.tensor([9]),
            noise=0.1,
            window=3,
            num_pos=1,
            generator=torch.Generator(),
        )
