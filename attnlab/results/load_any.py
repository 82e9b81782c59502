"""Whatever attnlab wrote or can read, loaded by its path or name."""

from pathlib import Path
from typing import cast

from torch import Tensor, nn

from attnlab.attention import AttentionPlan, load_plan
from attnlab.core import (
    MATRIX_SUFFIXES,
    PRETRAINED_MARKS,
    InputError,
    arguments_told,
    holds_result,
)
from attnlab.models import Model, Source, is_run, load_transformers, model_of
from attnlab.models import load as load_run
from attnlab.reading import load_arrays
from attnlab.results.result import Result


@arguments_told
def load(
    source: Source | nn.Module, tokenizer: object = None
) -> Model | Result | AttentionPlan | dict[str, Tensor]:
    """The model, result, plan or matrices at a path, or the model of a name on the hub.

    A model comes with its tokenizer, as every question takes it; one of a run is a `Run`, which translates.

    Args:
        source: a run; the folder of a result, such as `runs/demo/analysis`; a plan file (.json); a file of
            matrices (.npz, .npy, .safetensors), of which the arrays of layers by name are returned (of one
            array: under ""); a transformers model, by folder or name; or a pair (model, tokenizer).
        tokenizer: of a model that is not in a pair with it.

    Raises:
        InputError: it is none of these, or damaged.
        AttnlabError: it is a run that holds no trained model yet.
    """
    if tokenizer is not None:
        return model_of((source, tokenizer))
    if not isinstance(source, str | Path):
        return model_of(cast("Source", source))
    path = Path(source)
    if path.is_file() and path.suffix == ".json":
        return load_plan(path)
    if path.is_file() and path.suffix in MATRIX_SUFFIXES:
        return load_arrays(path)[0]
    if holds_result(path):
        return Result.load(path)
    if not is_run(path) and any((path / name).is_file() for name in PRETRAINED_MARKS):
        return load_transformers(path, scores=True)
    if path.exists():
        return load_run(path)
    try:
        return load_transformers(source, scores=True)
    except InputError as error:
        msg = f"{error} If a run is meant, attnlab train {path} makes it."
        raise InputError(msg) from error
