"""Transformers models with random weights and small word-level tokenizers, for tests."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    NllbTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)

WORDS = ["the", "a", "cat", "dog", "bird", "sees", "runs", "old", "red", ",", ".", "!", "never"]
WORDS += ["il", "gatto", "cane", "vede"]
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]

SENTENCES = [
    "the old cat sees the red bird .",
    "a dog runs .",
    "the bird never sees a dog , a cat !",
    "a zebra runs",
    "the cat runs , the dog runs , the old bird never runs .",
    "old red cat",
    "the dog sees the cat .",
]
PAIRS = [
    (text, " ".join(reversed(text.split())).replace("the", "il").replace("cat", "gatto"))
    for text in SENTENCES
]


def tokenizer(specials: list[str] = SPECIALS) -> PreTrainedTokenizerFast:
    """Words, `<s>` and `</s>` around them."""
    vocabulary = {word: number for number, word in enumerate(specials + WORDS)}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[(mark, vocabulary[mark]) for mark in ("<s>", "</s>")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def seeded(build: object, seed: int = 5) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build()
        # Small initial weights give nearly uniform rows, in which a wrong axis would hide.
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and "norm" not in name:
                parameter.data.normal_(std=0.6)
    return model


TYPES = len(SPECIALS) + len(WORDS)
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def bert() -> PreTrainedModel:
    config = BertConfig(
        vocab_size=TYPES, hidden_size=15, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=11, max_position_embeddings=37, pad_token_id=0,
    )  # fmt: skip
    return seeded(lambda: BertModel(config))


def distilbert() -> PreTrainedModel:
    config = DistilBertConfig(
        vocab_size=TYPES, dim=15, n_layers=2, n_heads=3, hidden_dim=11,
        max_position_embeddings=37, pad_token_id=0,
    )  # fmt: skip
    return seeded(lambda: DistilBertModel(config))


def bart() -> PreTrainedModel:
    config = BartConfig(
        vocab_size=TYPES, d_model=15, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=3, decoder_attention_heads=5, encoder_ffn_dim=11,
        decoder_ffn_dim=7, max_position_embeddings=37, decoder_start_token_id=0,
        forced_eos_token_id=None, **IDS,
    )  # fmt: skip
    return seeded(lambda: BartForConditionalGeneration(config))


def marian(*, encoder_layers: int = 2, decoder_layers: int = 3, heads: int = 5) -> PreTrainedModel:
    """Encoder heads are three; `heads` are those of the decoder."""
    config = MarianConfig(
        vocab_size=TYPES, d_model=15, encoder_layers=encoder_layers, decoder_layers=decoder_layers,
        encoder_attention_heads=3, decoder_attention_heads=heads, encoder_ffn_dim=11,
        decoder_ffn_dim=7, max_position_embeddings=37, decoder_start_token_id=0, **IDS,
    )  # fmt: skip
    return seeded(lambda: MarianMTModel(config))


def small_marian() -> PreTrainedModel:
    """Nine heads, for what is asked of every head."""
    return marian(encoder_layers=1, decoder_layers=1, heads=3)


def nllb() -> PreTrainedModel:
    config = M2M100Config(
        vocab_size=len(nllb_tokenizer()), d_model=15, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=3, decoder_attention_heads=5, encoder_ffn_dim=11,
        decoder_ffn_dim=7, max_position_embeddings=37, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, decoder_start_token_id=2,
    )  # fmt: skip
    return seeded(lambda: M2M100ForConditionalGeneration(config))


def nllb_tokenizer() -> NllbTokenizer:
    """Words, the code of the language before them."""
    vocabulary = {word: number for number, word in enumerate([*_FAIRSEQ, *_marked()])}
    found = NllbTokenizer(vocab=vocabulary, merges=[])
    # Words are whole tokens; merges of letters would spell them out.
    found.backend_tokenizer.model = models.WordLevel(vocabulary, unk_token="<unk>")
    return found


def mbart() -> PreTrainedModel:
    """No start token: the decoder begins with the last token of the translation."""
    config = MBartConfig(
        vocab_size=len(mbart_tokenizer()), d_model=15, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=3, decoder_attention_heads=5, encoder_ffn_dim=11,
        decoder_ffn_dim=7, max_position_embeddings=37, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, forced_eos_token_id=None,
    )  # fmt: skip
    return seeded(lambda: MBartForConditionalGeneration(config))


def mbart_tokenizer() -> MBartTokenizer:
    """Words, the code of the language behind them."""
    return MBartTokenizer(vocab=[(word, 0.0) for word in [*_FAIRSEQ, *_marked()]])


_FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]


def _marked() -> list[str]:
    return [f"▁{word}" for word in WORDS]


def t5() -> PreTrainedModel:
    config = T5Config(
        vocab_size=TYPES, d_model=15, d_kv=5, d_ff=11, num_layers=2, num_heads=3,
        decoder_start_token_id=0, **IDS,
    )  # fmt: skip
    return seeded(lambda: T5ForConditionalGeneration(config))


def llama() -> PreTrainedModel:
    config = LlamaConfig(
        vocab_size=TYPES, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, intermediate_size=11, max_position_embeddings=37, **IDS,
    )  # fmt: skip
    return seeded(lambda: LlamaForCausalLM(config))


def gpt2() -> PreTrainedModel:
    config = GPT2Config(
        vocab_size=TYPES, n_embd=15, n_layer=2, n_head=3, n_positions=37, **IDS,
    )  # fmt: skip
    return seeded(lambda: GPT2LMHeadModel(config))


ONE_STACK = {"bert": bert, "distilbert": distilbert, "llama": llama, "gpt2": gpt2}
TWO_STACKS = {"marian": marian, "bart": bart, "t5": t5}
ALL = ONE_STACK | TWO_STACKS


LETTERS = "abcdefghijklmnopqrstuvwxyz"
# What stands behind them in the vocabulary of Whisper are times.
WHISPER_MARKS = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|translate|>"]
WHISPER_MARKS += ["<|transcribe|>", "<|notimestamps|>"]
WHISPER_TYPES = [*LETTERS, "Ġ", *(f"Ġ{letter}" for letter in LETTERS), *WHISPER_MARKS]


def whisper_tokenizer() -> WhisperTokenizer:
    """A token is a letter, the first of a word with the space before it."""
    return WhisperTokenizer(
        vocab={token: number for number, token in enumerate(WHISPER_TYPES)},
        merges=[("Ġ", letter) for letter in LETTERS],
        additional_special_tokens=WHISPER_MARKS[1:],
    )


def whisper(bins: int = 7) -> PreTrainedModel:
    """Reads one second: 100 columns of mel bins."""
    start = len(WHISPER_TYPES) - len(WHISPER_MARKS)
    config = WhisperConfig(
        vocab_size=len(WHISPER_TYPES), num_mel_bins=bins, d_model=30, encoder_layers=2,
        decoder_layers=3, encoder_attention_heads=3, decoder_attention_heads=5,
        encoder_ffn_dim=11, decoder_ffn_dim=7, max_source_positions=50, max_target_positions=37,
        pad_token_id=start, bos_token_id=start, eos_token_id=start,
        decoder_start_token_id=start + 1, begin_suppress_tokens=None,
    )  # fmt: skip
    return seeded(lambda: WhisperForConditionalGeneration(config))
