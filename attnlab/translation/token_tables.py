"""What sigma attention must know of tokens before a model is trained with it."""

import torch

from attnlab.attention.bridge.installing import mechanisms_in
from attnlab.attention.calibration import load_frequencies
from attnlab.attention.mechanisms.sigma import Sigma
from attnlab.attention.plan import plan_of
from attnlab.errors import InputError
from attnlab.translation.base import OwnModel
from attnlab.translation.model_settings import ModelSettings
from attnlab.translation.tokenizer import Tokenizers


def refuse_unlearned(settings: ModelSettings) -> None:
    """Raises InputError for attention whose tables come from a trained model's attention."""
    for address, entry in plan_of(settings.attention).entries.items():
        if not isinstance(entry, Sigma):
            continue
        by_salience = entry.columns == "salience" and entry.num_pos > 0
        by_offsets = entry.entries == "offsets" and entry.extra > 0
        if by_salience or by_offsets:
            msg = (
                f"'{entry}' at '{address}' learns its tables from a trained model: train with "
                "columns='frequency', 'first' or 'random' and entries='random', or train with full "
                "attention and then call attnlab.attention.use and attnlab.attention.calibrate."
            )
            raise InputError(msg)


def load_token_counts(model: OwnModel, tokenizers: Tokenizers) -> None:
    """Tells every `sigma(columns="frequency")` of the model how often its keys' types occur."""
    source = torch.tensor(list(tokenizers.source_counts.values()))
    target = torch.tensor(list(tokenizers.target_counts.values()))
    for at, _ in mechanisms_in(model):
        load_frequencies(at.module, target if at.site == "decoder" else source)
