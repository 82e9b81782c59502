"""Which form a mechanism takes when it may choose: the one that is quicker at that length."""

import pytest
import torch

from attnlab.attention.registry import make


@pytest.mark.parametrize(
    ("spec", "causal", "tokens", "expected"),
    [
        ("band(window=16)", False, 256, "dense"),
        ("band(window=16)", False, 512, "fast"),
        ("band(window=300)", False, 1024, "dense"),
        ("sigma(window=16, num_pos=8, columns='first')", False, 512, "fast"),
        # A causal row has columns of its own, which must be fetched for it alone.
        ("sigma(window=16, num_pos=8, columns='first')", True, 512, "dense"),
        ("sigma(window=16, num_pos=8, columns='random', extra=2)", True, 1024, "dense"),
        ("sigma(window=16, num_pos=8, columns='random', extra=2)", True, 2048, "fast"),
    ],
)
def test_form_by_length(
    spec: str, causal: bool, tokens: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = make(spec, causal=causal, heads=1)
    taken = []
    for form in ("dense", "fast"):
        original = getattr(mechanism, form)

        def noted(*inputs: object, form: str = form, original: object = original) -> torch.Tensor:
            taken.append(form)
            return original(*inputs)

        monkeypatch.setattr(mechanism, form, noted)
    query, key, value = torch.randn(3, 1, 1, tokens, 2, generator=torch.Generator().manual_seed(1))
    mechanism(query, key, value)
    assert taken == [expected]
