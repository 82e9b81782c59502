"""Models from any source: a run, a folder or name of transformers, a pair that was handed in."""

from pathlib import Path
from typing import Any

from attnlab.attention import PLAN_ENTRY, install_saved, saved_plan
from attnlab.core import InputError, model_on_meta, model_source, read_pretrained, reason
from attnlab.models.loaded import Model, Source, handed_in
from attnlab.models.run import load
from attnlab.models.run_folder import is_run
from attnlab.models.safe_loading import (
    UNREADABLE,
    DamagedModelError,
    check_generation_config,
    check_has_tokenizer,
    load_body,
)
from attnlab.models.tokenizer import read_tokenizer

CONFIGURATION = "config.json"


def model_of(source: Source, *, scores: bool = True, tokenizes: bool = True) -> Model:
    """The model that `source` is or names, with its tokenizer.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, what
            `attnlab.load` returned, or a pair (model, tokenizer).
        scores: whether a transformers model must score tokens, where there is one that does.
        tokenizes: whether its tokenizer is needed.

    Raises:
        InputError: it cannot be loaded.
        AttnlabError: it is a run that holds no trained model yet.
    """
    given = handed_in(source)
    if isinstance(given, Model):
        return given
    if is_run(given):
        return load(given)
    return load_transformers(given, scores=scores, tokenizes=tokenizes)


def skeleton_of(source: Source) -> Any:
    """The model that `source` is or names, of a configuration alone without memory for its numbers.

    Args:
        source: as for `model_of`; of a transformers folder only its `config.json` is read.

    Raises:
        InputError: it cannot be made.
    """
    given = handed_in(source)
    if isinstance(given, str | Path) and not is_run(given):
        folder = Path(given)
        if (folder / CONFIGURATION).is_file():
            return _skeleton(folder)
    return model_of(source, tokenizes=False).model


def _skeleton(folder: Path) -> Any:
    """The model of the class that a configuration names, or the body of one."""
    import transformers

    try:
        config: Any = read_pretrained(transformers.AutoConfig, folder)
        named = list(config.architectures or ())
        kind = getattr(transformers, named[0], None) if named else None
        is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
        return model_on_meta(kind if is_model else transformers.AutoModel, config)
    except UNREADABLE as error:
        msg = (
            f"No model can be made of {folder / CONFIGURATION} ({reason(error)}); restore the file."
        )
        raise InputError(msg) from error


def load_transformers(source: str | Path, *, scores: bool, tokenizes: bool = True) -> Model:
    """The model with its tokenizer in a transformers folder, or of that name on the hub.

    Args:
        source: the folder or the name.
        scores: whether the model must score tokens, where there is one that does.
        tokenizes: whether its tokenizer is needed; without, what stands there is not looked at.

    Raises:
        InputError: they cannot be loaded.
    """
    from transformers import AutoConfig

    name = model_source(source)
    config: Any = None
    try:
        config = read_pretrained(AutoConfig, name)
        check_generation_config(name)
        model = load_body(_auto_class(config, scores=scores), name, scores=scores)
        tokenizer = _tokenizer(name) if tokenizes else None
    except UNREADABLE as error:
        if getattr(config, "quantization_config", None):
            msg = (
                f"{source} is quantized and cannot be loaded here ({reason(error)}); install what it needs, "
                "or load it with transformers where it can be, and give the folder to which the model that "
                "model.dequantize() returns is saved."
            )
            raise InputError(msg) from error
        what = "is a folder" if Path(source).is_dir() else "is no folder here"
        msg = (
            f"No model could be loaded from {str(source)!r}, which {what} ({reason(error)}); give a run of "
            "attnlab, a transformers folder, or the name of a model on the hub."
        )
        raise InputError(msg) from error
    if Path(name).is_dir() and saved_plan(Path(name)) is not None:
        install_saved(model, Path(name))
    elif hasattr(config, PLAN_ENTRY):
        msg = f"{source} was saved with mechanisms in it; download it and give its folder."
        raise InputError(msg)
    return Model(model, tokenizer, str(source))


def _auto_class(config: Any, *, scores: bool) -> Any:
    """The class of transformers that loads a model of this configuration with the head that is needed."""
    from transformers import (
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForMaskedLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSpeechSeq2Seq,
    )
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    )

    if config.is_encoder_decoder:
        hears = type(config) in MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING
        reads = type(config) in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
        return AutoModelForSpeechSeq2Seq if hears and not reads else AutoModelForSeq2SeqLM
    if (
        scores
        and type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
        # BERT and its like could be given scores, but read both ways.
        and (type(config) not in MODEL_FOR_MASKED_LM_MAPPING or config.is_decoder)
    ):
        return AutoModelForCausalLM
    return AutoModelForMaskedLM if scores and _scores_masked(config) else AutoModel


def _tokenizer(name: str) -> Any:
    """The tokenizer of a model; raises one of `UNREADABLE` where there is none that can be used."""
    from transformers import AutoTokenizer

    check_has_tokenizer(name)
    try:
        return read_tokenizer(AutoTokenizer, name)
    except Exception as error:
        msg = f"its tokenizer cannot be used: {reason(error)}"
        raise DamagedModelError(msg) from error


def _scores_masked(config: Any) -> bool:
    """Whether the layer that scores masked tokens was saved with the model."""
    names = getattr(config, "architectures", None) or ()
    return any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in names)
