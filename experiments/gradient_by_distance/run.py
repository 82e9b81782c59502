"""How much a state of a decoder depends on words far before it: Elman network, GRU, LSTM, transformer.

    python experiments/gradient_by_distance/run.py

writes results/gradient_by_distance/ in a minute: weights as they are drawn, where training begins.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.ablation import over_models
from attnlab.figures import PAGE, blank, colour, panel, save_figure, style
from attnlab.models import model_class, settings_from
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.rounded import write_rounded

OUT = RESULTS / "gradient_by_distance"
# One layer each, vectors of one size.
MODELS: dict[str, dict[str, Any]] = {
    "Elman": {"kind": "recurrent", "cell": "elman"},
    "GRU": {"kind": "recurrent", "cell": "gru"},
    "LSTM": {"kind": "recurrent", "cell": "lstm"},
    "LSTM, forget bias 1": {"kind": "recurrent", "cell": "lstm"},
    "transformer": {"heads": 8, "feed_forward": 512},
}
OPEN = "LSTM, forget bias 1"
DIM, VOCABULARY, TOKENS, SEEDS, TEXTS, DRAWS = 128, 3000, 48, 5, 8, 16
SHOWN, VANISHED = (2, 4, 8, 16, 32), 0.01


def main() -> None:
    """Reads all models, and writes table, figure and README."""
    torch.set_num_threads(1)
    rows = [row for name in MODELS for seed in range(SEEDS) for row in measured(name, seed)]
    write_rounded(OUT / "table.csv", pd.DataFrame(rows))
    write_result(OUT)


def measured(name: str, seed: int) -> list[dict[str, Any]]:
    """A row a distance: the gradient of a model as it is drawn, mean over texts of random tokens."""
    model = drawn(name, seed)
    generator = torch.Generator().manual_seed(seed)
    first, size = 5, (TEXTS, 1, TOKENS)
    sources, targets = (
        torch.randint(first, VOCABULARY, size, generator=generator) for _ in ("source", "target")
    )
    found = torch.stack(
        [
            gradient_by_distance(model, *pair, generator)
            for pair in zip(sources, targets, strict=True)
        ]
    )
    return [
        {"model": name, "seed": seed, "distance": distance, "gradient": gradient}
        for distance, gradient in enumerate(found.mean(0).tolist())
    ]


def drawn(name: str, seed: int) -> Any:
    """The model with the weights that a training of this seed would begin with."""
    settings = settings_from({"model": MODELS[name] | {"dim": DIM, "dropout": 0.0}}).model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind = model_class(settings)
        model = kind(kind.config_class(VOCABULARY, **vars(settings))).eval()
    if name == OPEN:
        # Gates stand in the order enter, forget, change, leave.
        with torch.no_grad():
            model.decoder.cell.bias_ih_l0[DIM : 2 * DIM] += 1
    return model


def gradient_by_distance(
    model: Any,
    source: Int[Tensor, "1 token"],
    target: Int[Tensor, "1 query"],
    generator: torch.Generator,
) -> Float[Tensor, " query"]:
    """Frobenius norms of the derivatives of the last state by the words 0, 1, 2, ... before it.

    ::

        |J|^2 = E |v^T J|^2,    J = d state_n / d word_(n-d),    v standard normal
    """
    states = model(
        input_ids=source, decoder_input_ids=target, output_hidden_states=True
    ).decoder_hidden_states
    words, last = states[0], states[-1][:, -1]
    total = torch.zeros(words.shape[:2])
    for _ in range(DRAWS):
        direction = torch.randn(last.shape, generator=generator)
        (found,) = torch.autograd.grad((last * direction).sum(), words, retain_graph=True)
        total += found.square().sum(-1)
    return (total[0] / DRAWS).sqrt().flip(0)


def relative(table: pd.DataFrame) -> pd.DataFrame:
    """The gradient as a share of that at distance 1, mean over seeds: a column a model."""
    wide = table.pivot_table(index="distance", columns=["model", "seed"], values="gradient")
    return (wide / wide.loc[1]).T.groupby("model", sort=False).mean().T[list(MODELS)]


def reaches(table: pd.DataFrame) -> pd.DataFrame:
    """By model how many words back the gradient is at least `VANISHED` of that of the word before."""
    wide = table.pivot_table(index="distance", columns=["model", "seed"], values="gradient")
    words = (wide.loc[1:] >= VANISHED * wide.loc[1]).cumprod().sum()
    return over_models(words.rename("words").reset_index(), ["model"], ["words"]).set_index("model")


def draw(table: pd.DataFrame) -> Figure:
    """A line a model, on a logarithmic scale."""
    with style():
        figure = blank(PAGE, 2.7)
        axes = panel(figure, 0.95, 0.15, 3.6, 2.0)
        shares = relative(table).loc[1:]
        for place, name in enumerate(MODELS):
            axes.plot(shares.index, shares[name], color=colour(place), label=name)
        axes.set(
            xlabel="words before the state", ylabel="gradient / that at 1 word",
            yscale="log", ylim=(1e-6, 3),
        )  # fmt: skip
        axes.set_yticks([1, 1e-2, 1e-4, 1e-6], ["1", "0.01", "0.0001", "0.000001"])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return figure


def write_result(out: Path) -> None:
    """The figure, the facts and the README of the rows in a folder."""
    save_figure(draw(read_table(out, "table")), out / "gradient.svg")
    write_facts(out, __file__, "torch", "transformers")
    write_readme(out, readme(out))


def readme(out: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(out, "table")
    shares, words = relative(table).to_dict(), reaches(table)["words"].to_dict()
    return render(
        __file__, read_facts(out),
        rows=pd.DataFrame(
            [
                {"model": name}
                | {f"{d} before": f"{shares[name][d]:.2g}" for d in SHOWN}
                | {"words until 1 %": f"{words[name]:.1f}"}
                for name in MODELS
            ]
        ),
        words=words, most=TOKENS - 1, dim=DIM, seeds=SEEDS, texts=TEXTS, open=OPEN,
    )  # fmt: skip


if __name__ == "__main__":
    main()
