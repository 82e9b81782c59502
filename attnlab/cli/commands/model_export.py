"""`attnlab export`: a model with a plan, in a form that other programs run."""

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.command_options import OVERWRITE
from attnlab.cli.output import messages
from attnlab.core import InputError

FORMS = ("layer-types",)


def export(
    plan: Annotated[Path, typer.Argument(help="Attention plan (JSON), such as plan_9.json.")],
    model: Annotated[
        str,
        typer.Argument(
            help="A folder of a transformers model that is an encoder or a decoder, or its name on the hub."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder to write the model to.")],
    form: Annotated[
        str,
        typer.Option(
            "--as",
            help="layer-types: layer_types and sliding_window in config.json, which from_pretrained of "
            "transformers runs by itself. Each layer of the plan is full or has the same band.",
        ),
    ] = "layer-types",
    overwrite: OVERWRITE = False,
) -> None:
    """Writes the folder of a model with a plan after comparing its scores."""
    if form not in FORMS:
        msg = f"--as must be one of {', '.join(FORMS)}, not '{form}'."
        raise InputError(msg)
    from attnlab.core import paths_in
    from attnlab.models import check_export_free

    inputs = paths_in({"plan": plan, "model": model})
    check_export_free(out, overwrite=overwrite, inputs=inputs)

    from attnlab.attention import load_plan
    from attnlab.core import quiet
    from attnlab.models import export_layer_types, model_of

    loaded_plan = load_plan(plan)
    with quiet():
        export_layer_types(model_of(model), loaded_plan, out, overwrite=overwrite)
    messages().print(f"Wrote {out}.", soft_wrap=True)
