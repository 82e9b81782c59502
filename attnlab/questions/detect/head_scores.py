"""How far heads attend to what was planted, with intervals; and which tokens a model emits."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.ablation import paired_differences, ratio
from attnlab.core import FEWEST_FOR_INTERVAL
from attnlab.labels import wilson_interval
from attnlab.questions.detect.planted import Planted, Target, Targets
from attnlab.reading import LayerWeights, Reading, inputs_of, ready_to_show, without_cache

# Numbers of a vocabulary that are scored at once: half a GB in single precision.
_MOST_SCORES = 2**27
Figures = Float[Tensor, "head figure"]


class Scores:
    """Sums over the rows of each text of what its targets say, fed layer by layer.

    Attributes:
        targets: what is planted.
        sums: by site and layer and by detector.
        by_rows: some rows of a matrix can be handed in at a time.
    """

    by_rows = True

    def __init__(self, targets: Targets) -> None:
        self.targets = targets
        self.sums: dict[tuple[str, int], dict[str, Float[Tensor, "head text"]]] = {}

    def update(self, layer: LayerWeights) -> None:
        """Adds some rows of one layer for one batch."""
        texts = self.targets.get(layer.site, ())
        if not texts:
            return
        by_name = self.sums.setdefault((layer.site, layer.layer), {})
        for index, number in enumerate(layer.sentences):
            for name, target in texts[number].items():
                empty = torch.zeros(layer.weights.shape[1], len(texts), dtype=torch.float64)
                sums = by_name.setdefault(name, empty)
                sums[:, number] += _sum_of(layer.wide[index], layer.positions, target)

    def totals(self, site: str, name: str) -> Float[Tensor, " text"]:
        """How many rows of each text count."""
        rows = [len(text[name].rows) if name in text else 0 for text in self.targets[site]]
        return torch.tensor(rows, dtype=torch.float64)


def _sum_of(
    weights: Float[Tensor, "head query key"], positions: Tensor, target: Target
) -> Float[Tensor, " head"]:
    here = torch.isin(target.rows, positions.cpu())
    target = target.at(here)
    # The rows at hand are in order.
    rows = torch.searchsorted(positions, target.rows.to(positions.device))
    own = weights[:, rows]
    start, end = (edge.to(own.device)[:, None] for edge in (target.start, target.end))
    if target.largest:
        most, key = own.max(-1)
        hits = (key >= start.T) & (key <= end.T) & (most > 0)
        return hits.sum(-1).double().cpu()
    key = torch.arange(own.shape[-1], device=own.device)
    return (own * ((key >= start) & (key <= end))).sum((-1, -2), dtype=torch.float32).double().cpu()


def figures(
    sums: Float[Tensor, "head text"], totals: Float[Tensor, " text"], *, share: bool
) -> Figures:
    """The mean over rows of each head, and the ends of its interval over texts; NaN where no row counts.

    A share that is the same in all texts has Wilson's interval, as if each were one observation. Of few texts
    there is none.
    """
    counted = totals > 0
    sums, totals = sums[:, counted], totals[counted]
    if not len(totals):
        return torch.full((len(sums), 3), torch.nan, dtype=torch.float64)

    means = paired_differences(None, [torch.stack([head, totals], -1) for head in sums], ratio)
    table = torch.tensor([(mean.after, mean.low, mean.high) for mean in means], dtype=torch.float64)
    if share and len(totals) >= FEWEST_FOR_INTERVAL:
        same = (sums / totals == table[:, :1]).all(1)
        texts = torch.full_like(table[same, 0], len(totals))
        table[same, 1:] = torch.stack(wilson_interval(table[same, 0] * texts, texts), 1)
    return table


@torch.inference_mode()
def emitted(
    reading: Reading, planted: Planted, name: str, batch_size: int
) -> list[Bool[Tensor, " row"]] | None:
    """Whether the model's likeliest token is the key's, at the rows of a detector in each text.

    None of a model that scores no tokens.
    """
    model, hits = reading.model, {}
    (texts,) = planted.targets.values()
    longest = max(len(text.source) for text in planted.sentences.usable)
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    size = max(1, min(batch_size, _MOST_SCORES // (longest * vocabulary)))
    with ready_to_show(model):
        for batch in planted.sentences.batches(size, weights_a_cell=1):
            inputs = inputs_of(model, planted.sentences.axes(batch, model.device))
            outputs = model(**inputs, **without_cache(model), return_dict=True)
            if getattr(outputs, "logits", None) is None:
                return None
            for text, logits in zip(batch, outputs.logits, strict=True):
                target = texts[text.number][name]
                likeliest = logits[target.rows.to(logits.device)].argmax(-1).cpu()
                hits[text.number] = likeliest == torch.tensor(text.source)[target.start]
    return [hits[number] for number in range(len(texts))]


def only_emitted(planted: Planted, name: str, emitted_rows: list[Bool[Tensor, " row"]]) -> Targets:
    """The targets with the rows of a detector that predict what the model emits."""
    (site,) = planted.targets
    texts: list[Mapping[str, Target]] = [
        {**text, name: text[name].at(rows)}
        for text, rows in zip(planted.targets[site], emitted_rows, strict=True)
    ]
    return {site: texts}
