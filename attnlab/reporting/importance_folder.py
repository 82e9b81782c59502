"""Writes an importance study: tables, the figure, and what they say."""

from pathlib import Path

from attnlab.files import write_table, write_text
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.importance_figure import draw_importance
from attnlab.reporting.result_folder import IMPORTANCE, IMPORTANCE_FIGURE
from attnlab.studies.importance.importance import Importance

_COLUMNS = """\
## heads.csv, a row a head

- `gradient_importance`: mean over sentences of the absolute derivative of a sentence's summed loss
  by a gate on the head (nats a sentence), with `gradient_standard_error`; `gradient_in_layer` is
  divided by the Euclidean norm of its layer.
- `zero_...`, `mean_...`, `uniform_...`: the head's output, before the output projection, is replaced
  by 0, by its mean over training sentences, or by what it would be if it looked everywhere alike.
- `..._loss_change_nats`: change of the loss a token; above 0 the model needs the head.
  `..._bleu_change`: change of BLEU (greedy); below 0 it needs the head.
- `..._low`, `..._high`: 95% interval, `..._p_value`: both by a bootstrap over sentences, paired.
  `..._significant`: the p-value is below 5% after Holm's correction for all heads in the column.

## cumulative.csv, a row an order and number of heads

Heads are removed one after another, the least important first: by gradient, by their loss alone, and
at random. The order by gradient compares `gradient_importance` across layers as it is; Michel et al.
2019 divide by the norm of the layer first (`gradient_in_layer`), which is not tried as an order.

The orders are chosen on the sentences of `chosen_on`, loss and BLEU are measured on those of
`reported_on`. Intervals are for one step at a time.

## agreement.csv

Spearman's rank correlation between measures over heads; measures of BLEU are turned round, so that
what the model needs ranks high in all. A head that another can stand in for costs little alone.
"""


def write_importance(found: Importance, folder: str | Path, *, title: str) -> Path:
    """Writes tables, the figure and, last, `importance.md`, which explains them; returns `folder`.

    The older `importance.md` goes first, so that a folder that has one is always one whole study.

    Raises:
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    figure = draw_importance(found)
    (folder / IMPORTANCE.last).unlink(missing_ok=True)
    write_table(folder / "heads.csv", found.heads)
    write_table(folder / "cumulative.csv", found.cumulative)
    write_table(folder / "agreement.csv", found.agreement)
    write_figure(figure, folder, IMPORTANCE_FIGURE)
    write_text(folder / IMPORTANCE.last, _explanation(found, title))
    return folder


def _explanation(found: Importance, title: str) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in found.about.items())
    notes = "".join(f"\nNote: {warning}\n" for warning in found.warnings)
    drawn = f"![What each head is worth]({IMPORTANCE_FIGURE}.svg)"
    return f"# {title}\n\n{facts}\n{notes}\n{drawn}\n\n{_COLUMNS}"
