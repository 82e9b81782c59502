"""The families of structured matrices: what each is called, how it is fitted and how it is coded.

Nothing heavy is imported: the mathematics of a family lies in a file of `attnlab.matrices`, which its entry
names. What lists families, in `approximate`, `analyze`, tables and pages, reads `FAMILIES`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from attnlab.core import Column

# What every fit takes; `sizes` where matrices are padded.
_SHARED = ("causal", "error_nnz", "error_bound", "sizes")


@dataclass(frozen=True, kw_only=True)
class Family:
    """A set of matrices.

    Attributes:
        name: in files.
        label: as tables and pages write it.
        fit: `module:function` that finds the nearest members, as `attnlab.matrices.diagonal:fit_diagonal`;
            empty for what is only coded.
        options: what that function takes beside `causal`, the error and `sizes`: of `window`, `num_pos`,
            `values`, `dropout`, `keep` and `budget`. Without `values` its values are free.
        by_default: whether `attnlab approximate` fits it unless told.
        column: of its relative distance at equal budget; None: an analysis does not fit it.
        outlined: what its member is called where a page outlines it; empty where none does.
        supports: `module:function` that gives every member a row can be coded under, as
            `attnlab.matrices.coded_supports:diagonals`; empty for what has no description length.
        members: which members these are, as a sentence.
    """

    name: str
    label: str
    fit: str = ""
    options: tuple[str, ...] = ("window", "values")
    by_default: bool = False
    column: Column | None = None
    outlined: str = ""
    supports: str = ""
    members: str = ""

    def fitted(self, H: Any, options: Mapping[str, Any]) -> Any:
        """The fit of the nearest members, with those of the options that the family takes."""
        names = (*_SHARED, *self.options)
        return _named(self.fit)(H, **{name: options[name] for name in names if name in options})

    @property
    def candidates(self) -> Callable[..., Any]:
        """The function that `supports` names."""
        return _named(self.supports)


def _named(where: str) -> Callable[..., Any]:
    module, _, name = where.partition(":")
    attribute: Callable[..., Any] = getattr(import_module(module), name)
    return attribute


# Of equal weights: what no family needs fewer bits for.
NO_FAMILY = "diffuse"
FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            name=NO_FAMILY,
            label="none",
            supports="attnlab.matrices.coded_supports:nothing",
            members="No family: equal weights on all keys.",
        ),
        Family(
            name="diagonal",
            label="diagonal",
            fit="attnlab.matrices.diagonal:fit_diagonal",
            by_default=True,
            column=Column(
                "diagonal",
                "diagonal + E",
                "Relative distance of the best single offset within 3 tokens, and the sparse error E.",
                2,
                "diagonal",
            ),
            outlined="diagonal and E",
            supports="attnlab.matrices.coded_supports:diagonals",
            members="One offset within 5 tokens.",
        ),
        Family(
            name="band",
            label="band",
            fit="attnlab.matrices.bands:fit_band",
            options=("window", "values", "dropout", "keep"),
            by_default=True,
            # An analysis has whole bands of every width too.
            column=Column(
                "kept_band",
                "band entries + E",
                "Relative distance of the largest entries within 3 tokens of the diagonal, as many as the "
                "matrix has rows, and E.",
                2,
                "band",
            ),
            supports="attnlab.matrices.coded_supports:bands",
            members="Neighbouring offsets within 5 tokens.",
        ),
        Family(
            name="rare_columns",
            label="rare columns",
            fit="attnlab.matrices.rare_columns:fit_rare_columns",
            options=("window", "num_pos", "values"),
            by_default=True,
            column=Column(
                "rare_columns",
                "rare columns + E",
                "Relative distance of the identity with at most 2 blocks of rows with all weight on one "
                "key, and E.",
                2,
                "rare columns",
            ),
            outlined="rare columns and E",
            supports="attnlab.matrices.coded_supports:rare_columns",
            members="Blocks of rows with all weight on one key, placed per sentence.",
        ),
        Family(
            name="column",
            label="column",
            fit="attnlab.matrices.column:fit_column",
            options=("values",),
            supports="attnlab.matrices.coded_supports:fixed_columns",
            members="One of the first or last two tokens, for all rows.",
        ),
        Family(
            name="column_band",
            label="column + band",
            fit="attnlab.matrices.column:fit_column_band",
            supports="attnlab.matrices.coded_supports:columns_and_bands",
            members="One of the first or last two tokens, and an offset or a band within 5 tokens.",
        ),
        Family(
            name="additive",
            label="additive",
            fit="attnlab.matrices.additive:fit_additive",
            options=("window", "num_pos", "budget"),
            by_default=True,
            column=Column(
                "additive",
                "additive",
                "Relative distance of a band, at most 2 whole columns and E that share the same number of "
                "entries in the best way.",
                2,
            ),
            outlined="band, columns and E",
        ),
        Family(
            name="union",
            label="union",
            fit="attnlab.matrices.sigma_sets:fit_union",
            options=("window", "num_pos", "values", "dropout", "keep"),
        ),
    )
}
# Those that have a description length, in the order of its tables.
CODED = tuple(name for name, family in FAMILIES.items() if family.supports)
FITTED = tuple(name for name, family in FAMILIES.items() if family.fit)
AT_EQUAL_BUDGET = tuple(family.column for family in FAMILIES.values() if family.column is not None)
# Of an analysis and of the default of `attnlab approximate`: reach, blocks, and the largest entry of E.
WINDOW, NUM_POS, ERROR_BOUND = 3, 2, 0.5


def fit_at_equal_budget(H: Any, sizes: Any, *, causal: bool) -> dict[str, Any]:
    """The fits of the families of an analysis, by the name of their column, at two entries per row.

    One is for the structure and one for the sparse error (s = n, as in the thesis's code; each at
    most 0.5), on average over the rows: `kept_band` uses the largest entries of the band, as many as
    there are rows, and `additive` splits the whole budget between a band, whole columns and E.
    Window 3 and 2 columns, as `attnlab approximate` takes by default; values `free`.

    Args:
        H: the matrices of one layer, `[*batch query key]`.
        sizes: real queries and keys of each.
        causal: no query attends a later key.
    """
    rows = sizes[..., 0]
    options = {
        "window": WINDOW,
        "num_pos": NUM_POS,
        "keep": rows,
        "budget": 2 * rows,
        "causal": causal,
        "sizes": sizes,
        "error_nnz": rows,
        "error_bound": ERROR_BOUND,
    }
    return {
        family.column.name: family.fitted(H, options)
        for family in FAMILIES.values()
        if family.column is not None
    }
