"""Models with a plan as folders that plain transformers runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.attention import PLAN_FILE, AttentionPlan, is_card, model_with_layer_types
from attnlab.core import (
    EXPORT,
    RESULT_MARK,
    InputError,
    check_not_read,
    interrupted_result,
    path_label,
    paths_in,
    read_json,
    reason,
    recorded_result,
    replacing_result,
    set_usual_permissions,
    write_json,
)
from attnlab.core.installed import __version__
from attnlab.models.loaded import Model
from attnlab.models.run_folder import check_not_run

_WEIGHTS = "model.safetensors"
_READ_TOO = (
    "model*.safetensors", "model*.safetensors.index.json", "generation_config.json",
    "chat_template.jinja", PLAN_FILE,
)  # fmt: skip
# What may look like a path and is none.
_TOKENS_AND_LABELS = ("_token", "_tokens", "tokens_decoder", "id2label")


def export_layer_types(
    model: Model, plan: AttentionPlan, folder: str | Path, *, overwrite: bool = False
) -> None:
    """Writes a model whose `config.json` says what a plan does, with its tokenizer.

    Args:
        model: of one stack, with its tokenizer; left as it is.
        plan: each layer has full attention, or one band that is the same in all layers that have one.
        folder: where it is written.
        overwrite: whether an older model there is replaced.

    Raises:
        InputError: see `attnlab.attention.model_with_layer_types`, the model is an encoder-decoder, or the
            folder holds something else.
        AttnlabError: it could not be written.
    """
    folder = Path(folder)
    check_export_free(folder, overwrite=overwrite, inputs=paths_in({"model": model.name}))
    if model.model.config.is_encoder_decoder:
        msg = (
            "An encoder-decoder has no layer types in its configuration, so transformers alone cannot run "
            "the plan; put it in with attnlab.attention.install, or train a run with it."
        )
        raise InputError(msg)
    made = model_with_layer_types(model.model, plan)
    with replacing_result(folder, _WEIGHTS, _older) as aside:
        write_json(aside / RESULT_MARK, {"result": EXPORT, "attnlab": __version__})
        made.save_pretrained(aside)
        try:
            model.both_tokenizers.source.save_pretrained(aside)
        except ValueError as error:
            msg = f"The tokenizer of {model.label} cannot be written ({reason(error)}); restore its files."
            raise InputError(msg) from error
        # Some of what writes tokenizers notes from which files they were read.
        for path in aside.glob("*config.json"):
            values = read_json(path, dict[str, Any], finite=False)
            write_json(path, _labelled_paths(values))
        set_usual_permissions(aside)


def _labelled_paths(value: Any) -> Any:
    """A value of a configuration with labels for paths, in its parts too."""
    if isinstance(value, dict):
        return {
            name: part if name.endswith(_TOKENS_AND_LABELS) else _labelled_paths(part)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_labelled_paths(part) for part in value]
    return path_label(value) if isinstance(value, str) and "\n" not in value else value


def _older(folder: Path) -> list[Path]:
    """Files that an older model there would be read from, its plan among them, and its card."""
    cards = [path for path in folder.glob("README.md") if is_card(path)]
    return cards + [path for pattern in _READ_TOO for path in folder.glob(pattern)]


def check_export_free(folder: str | Path, *, overwrite: bool, inputs: Mapping[Path, str]) -> None:
    """Raises InputError where `folder` is no place for a model, or holds one that is not to be replaced.

    With `overwrite` it may hold one that was exported, but for `inputs`, which are by path.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is a file; name a folder to write the model to."
        raise InputError(msg)
    check_not_run(folder, "export")
    if not folder.exists() or not any(folder.iterdir()):
        return
    check_not_read([*folder.iterdir()], inputs)
    if (recorded_result(folder) or interrupted_result(folder)) != EXPORT:
        msg = f"{folder} holds something else than an exported model; name another folder."
        raise InputError(msg)
    if not overwrite:
        msg = (
            f"{folder} already holds a model; name another folder, or set overwrite to replace it."
        )
        raise InputError(msg)
