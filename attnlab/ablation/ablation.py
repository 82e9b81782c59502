"""Taking heads away, before the output projection, and what it costs.

Three replacements, each named, since each asks another question:

* `zero`: the head's output is 0; the layer also loses the head's constant part.
* `mean`: the head's output is its mean over a corpus; the layer loses what varies with the input.
* `uniform`: the head looks at all that it may look at alike; it loses where it looks, and keeps
  its values.

Source: Michel et al. 2019 (arXiv 1905.10650), section 3; heads.md, trap 3.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from inspect import signature
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from attnlab.ablation.projections import (
    Change,
    Layer,
    Projection,
    Projections,
    changed_heads,
    watched_heads,
)
from attnlab.ablation.replacements import Replacement
from attnlab.attention import (
    ByLayer,
    MaskedSoftmax,
    Mechanism,
    MultiHeadAttention,
    PerHead,
    TopKAttention,
)
from attnlab.core import AttnlabError, Head, InputError, no_such_head

Means = dict[Layer, Tensor]
# What T5, MPNet and BLOOM call the numbers that they add to scores.
ADDED_TO_SCORES = {"position_bias", "alibi"}
QUERY_NAMES = ("query", "q_proj", "q_lin", "q")
Result = TypeVar("Result")
Batch = TypeVar("Batch")


@contextmanager
def ablated(
    projections: Projections,
    heads: Iterable[Head],
    replacement: Replacement,
    means: Means | None = None,
) -> Iterator[None]:
    """While the block runs, the named heads are replaced; parameters stay untouched.

    Args:
        projections: where the heads are apart.
        heads: which heads; none leaves the model as it is.
        replacement: what stands in for them.
        means: mean outputs by layer `[head, dim]`, from `mean_outputs`; needed by `mean` alone.

    Raises:
        InputError: a head that the model lacks, `mean` without means, or `uniform` in a layer whose
            queries are not projected apart or have a norm over several heads or with a bias, or whose
            scores have a position bias.
    """
    by_layer = _heads_by_layer(projections, heads)
    with ExitStack() as stack:
        if replacement == "uniform":
            for layer, numbers in by_layer.items():
                stack.enter_context(_zeroed_query(layer, projections[layer], numbers))
        else:
            if replacement == "mean" and means is None:
                msg = "Ablation by 'mean' needs the heads' mean outputs; measure them first."
                raise InputError(msg)
            changes = {
                layer: _replaced(numbers, means[layer] if replacement == "mean" and means else None)
                for layer, numbers in by_layer.items()
            }
            stack.enter_context(changed_heads(projections, changes))
        yield


def _heads_by_layer(projections: Projections, heads: Iterable[Head]) -> dict[Layer, list[int]]:
    by_layer: dict[Layer, list[int]] = {}
    for head in heads:
        layer = (head.site, head.layer)
        if layer not in projections or not 0 <= head.head < projections[layer].heads:
            raise no_such_head(head, _heads(projections))
        by_layer.setdefault(layer, []).append(head.head)
    return by_layer


def _heads(projections: Projections) -> Iterator[Head]:
    for (site, layer), projection in projections.items():
        yield from (Head(site, layer, number) for number in range(projection.heads))


def _replaced(heads: list[int], mean: Float[Tensor, "head dim"] | None) -> Change:
    def change(apart: Float[Tensor, "batch query head dim"]) -> Tensor:
        result = apart.clone()
        result[:, :, heads] = 0.0 if mean is None else mean[heads].to(apart)
        return result

    return change


@contextmanager
def _zeroed_query(layer: Layer, projection: Projection, heads: list[int]) -> Iterator[None]:
    """A query of 0 gives every key that may be seen the same score, in rows of global tokens too.

    Additive scores are made 0 themselves.
    """
    attention = projection.attention
    names = ("score",) if getattr(attention, "additive", False) else QUERY_NAMES
    candidates = (getattr(attention, name, None) for name in names)
    query = next((candidate for candidate in candidates if isinstance(candidate, nn.Module)), None)
    if (
        query is None
        or not _scores_by_query_alone(projection)
        or not _zero_stays(attention, query, projection.heads)
    ):
        msg = (
            f"Heads of {layer[0]} layer {layer[1]} cannot be made uniform, since their scores have "
            "a part that does not come from the query alone; use 'zero' or 'mean'."
        )
        raise InputError(msg)

    def hook(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        apart = output.unflatten(-1, (projection.heads, -1)).clone()
        apart[..., heads, :] = 0.0
        return apart.flatten(-2)

    queries = [query]
    if isinstance(attention, MultiHeadAttention) and attention.global_rows is not None:
        queries.append(attention.global_rows.query)
    handles = [
        handle
        for module in queries
        for handle in projection.at_own_call(module.register_forward_hook, hook, inside=True)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _scores_by_query_alone(projection: Projection) -> bool:
    """False for relative positions, sinks, mechanisms that are no softmax, keys chosen by score."""
    attention = projection.attention
    shared = next((part for part in attention.modules() if isinstance(part, ByLayer)), None)
    installed = attention if shared is None else shared[projection.call]
    parts = [part for part in installed.modules() if isinstance(part, Mechanism)]
    added = ADDED_TO_SCORES & set(signature(attention.forward).parameters)
    return (
        not added
        and not hasattr(attention, "sinks")
        and getattr(attention, "relative_attention_bias", None) is None
        and all(
            isinstance(part, MaskedSoftmax | PerHead) and not isinstance(part, TopKAttention)
            for part in parts
        )
    )


def _zero_stays(attention: nn.Module, query: nn.Module, heads: int) -> bool:
    """False where a norm behind the projection makes something of a query of 0, or joins the heads."""
    for name, part in attention.named_children():
        if name.startswith("q") and "norm" in name:
            sizes = [weight.shape[-1] for weight in part.parameters()]
            each = getattr(query, "weight", torch.empty(0)).shape[0] // heads
            if getattr(part, "bias", None) is not None or sizes != [each]:
                return False
    return True


def mean_outputs(
    projections: Projections,
    batches: Iterable[Batch],
    run: Callable[[Batch], Any],
    real: Callable[[Batch, str], Bool[Tensor, "batch query"]],
) -> Means:
    """Each head's mean output over all real tokens, by layer `[head, dim]`.

    Args:
        projections: where the heads are apart.
        batches: the corpus to average over; not the one that the ablation is evaluated on.
        run: calls the model on a batch.
        real: for a batch and a site, True where a query is a real token.
    """
    sums: dict[Layer, Tensor] = {}
    counts: dict[Layer, int] = {}
    for batch in batches:

        def watch(layer: Layer, apart: Tensor, batch: Any = batch) -> None:
            rows = real(batch, layer[0])[:, :, None, None]
            total = (apart.double() * rows).sum((0, 1))
            sums[layer] = sums[layer] + total if layer in sums else total
            counts[layer] = counts.get(layer, 0) + int(rows.sum())

        with torch.no_grad(), watched_heads(projections, watch):
            run(batch)
    return {layer: total / counts[layer] for layer, total in sums.items()}


def ablate_each(
    projections: Projections,
    heads: Sequence[Head],
    replacement: Replacement,
    evaluate: Callable[[], Result],
    means: Means | None = None,
) -> dict[Head, Result]:
    """Results of `evaluate` with each head ablated alone; arguments as in `ablated`."""
    results = {}
    for head in heads:
        with ablated(projections, [head], replacement, means):
            results[head] = evaluate()
    return results


def ablate_cumulatively(
    projections: Projections,
    order: Sequence[Head],
    replacement: Replacement,
    evaluate: Callable[[], Result],
    means: Means | None = None,
) -> list[Result]:
    """Results of `evaluate` with none, the first, the first two, ... and all heads of `order` ablated."""
    results = []
    for count in range(len(order) + 1):
        with ablated(projections, order[:count], replacement, means):
            results.append(evaluate())
    return results


def close_heads(projections: Projections, heads: Iterable[Head]) -> None:
    """Sets the columns of the output projection that read each head to 0, in place.

    ::

        MultiHead(X) = [head_1 ... head_h] W_O,   rows of W_O that belong to a closed head = 0

    (`torch.nn.Linear` stores W_O transposed, so the rows are columns of its weight; GPT-2's `Conv1D`
    stores it as it is.) The layer then gives what ablation by `zero` gives, without a hook; its bias stays.

    Raises:
        AttnlabError: a projection is neither of the two, so it is not known which part reads a head.
    """
    for head in heads:
        projection = projections[head.site, head.layer]
        check_closable(projections, [(head.site, head.layer)])
        with torch.no_grad():
            _input_rows(projection.module).unflatten(0, (projection.heads, -1))[head.head] = 0.0


def check_closable(projections: Projections, layers: Iterable[Layer]) -> None:
    """Raises AttnlabError where `close_heads` could not close heads of one of the layers."""
    for site, layer in layers:
        module = projections[site, layer].module
        if projections[site, layer].module_calls > 1:
            msg = (
                f"{site} layer {layer} shares its output projection with other layers or calls, so its heads "
                "cannot be closed for good without theirs."
            )
            raise AttnlabError(msg)
        if not isinstance(module, nn.Linear | Conv1D):
            msg = (
                f"{site} layer {layer}: heads can be closed for good in torch.nn.Linear and Conv1D only, "
                f"not in {type(module).__name__}."
            )
            raise AttnlabError(msg)


def _input_rows(module: nn.Module) -> Float[Tensor, "input output"]:
    """The weight with a row for each input, as a view."""
    weight: Any = module.weight
    return weight if isinstance(module, Conv1D) else weight.T


def _loaded_weights(module: nn.Module) -> AbstractContextManager[object]:
    """While it lasts the module has its weights, which accelerate may keep elsewhere."""
    if not hasattr(module, "_hf_hook"):
        return nullcontext()
    from accelerate.utils import align_module_device

    return align_module_device(module)


def closed_heads(projections: Projections) -> list[Head]:
    """The heads that `close_heads` has closed: no column that reads them holds anything but 0."""
    heads = []
    for (site, layer), projection in projections.items():
        module = projection.module
        # Other classes, of quantized weights say, may not store a column for every input.
        if type(module) in {nn.Linear, Conv1D}:
            with _loaded_weights(module):
                parts = _input_rows(module).detach().unflatten(0, (projection.heads, -1))
                closed = (parts == 0).flatten(1).all(-1).nonzero().flatten().tolist()
            heads += [Head(site, layer, head) for head in closed]
    return heads
