"""Corpora, tokenizers, the encoder-decoder model, training, translating."""
