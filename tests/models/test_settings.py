import dataclasses
import json

import pytest

from attnlab.core.errors import InputError
from attnlab.core.limits import LARGEST_NUMBER
from attnlab.core.options import option_fields
from attnlab.models.tokenizer import BLANK_TOKENIZERS
from attnlab.models.training_settings import (
    RunSettings,
    TokenizerSettings,
    settings_from,
)


def test_settings_survive_json() -> None:
    settings = settings_from({"model": {"attention": {"encoder": "band(window=2)"}}})
    assert settings_from(json.loads(json.dumps(settings.as_dict()))) == settings


def test_nothing_given_is_the_default() -> None:
    assert settings_from({}) == RunSettings()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modell": {}}, "no settings section 'modell'; choose from: corpus, tokenizer"),
        ({"model": {"head": 3}}, "no setting 'model.head'; choose from: task, kind"),
        ({"model": {"heads": "eight"}}, "model.heads must be a whole number, not 'eight'"),
        ({"model": {"dropout": True}}, "model.dropout must be a number, not True"),
        ({"corpus": {"lowercase": 1}}, "corpus.lowercase must be true or false, not 1"),
        ({"model": 3}, "section 'model' holds keys"),
        ({"model": {"attention": {"encoder": 3}}}, "model.attention must be a table of texts"),
    ],
)
def test_unknown_keys_and_wrong_kinds_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_from(values)


def test_every_whole_number_has_an_upper_bound() -> None:
    sections = [section.default_factory for section in dataclasses.fields(RunSettings)]
    counts = [field for kind in sections for field in option_fields(kind) if int in field.kinds()]
    assert len(counts) > 10
    for field in counts:
        with pytest.raises(InputError, match=f"at most .*, not {LARGEST_NUMBER}"):
            field.refuse(LARGEST_NUMBER)


def test_a_kind_of_tokenizer_that_there_is_not_lists_those_that_there_are() -> None:
    with pytest.raises(InputError, match="kind must be .*bpe, word, not 'spm'"):
        TokenizerSettings(kind="spm")
    (option,) = (one for one in option_fields(TokenizerSettings) if one.name == "kind")
    assert option.option.choices == tuple(BLANK_TOKENIZERS)
