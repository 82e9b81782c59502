"""Which class of model the settings of a run ask for."""

from attnlab.translation.base import OwnModel
from attnlab.translation.language_model import LanguageModel
from attnlab.translation.model import TranslationModel
from attnlab.translation.model_settings import (
    LANGUAGE_MODEL,
    RECURRENT,
    TRANSFORMER,
    TRANSLATION,
    ModelSettings,
)
from attnlab.translation.recurrent import RecurrentModel

# By task and kind.
MODELS: dict[tuple[str, str], type[OwnModel]] = {
    (TRANSLATION, TRANSFORMER): TranslationModel,
    (TRANSLATION, RECURRENT): RecurrentModel,
    (LANGUAGE_MODEL, TRANSFORMER): LanguageModel,
}


def model_class(settings: ModelSettings) -> type[OwnModel]:
    """The class of the model; its `config_class` is that of the configuration."""
    return MODELS[settings.task, settings.kind]
