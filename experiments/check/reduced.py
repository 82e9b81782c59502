"""Every mismatch in a few lines of torch and transformers, without attnlab, and what causes it.

python experiments/check/reduced.py yoso "padding on the right"
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from experiments.check.small_models import small_model

TOKENS, GAP = 24, 3
Reduced = Callable[[Any, Tensor], tuple[Tensor, Tensor]]


def states(model: Any, ids: Tensor, **given: Any) -> Tensor:
    """What the model gives for each token: scores, or states where it scores nothing."""
    found = model(input_ids=ids, **given)
    return found.logits if "logits" in found else found.last_hidden_state


def right_padding(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """A text alone, and with padding behind it that the mask hides."""
    padded = torch.nn.functional.pad(ids, (0, GAP))
    mask = torch.nn.functional.pad(torch.ones_like(ids), (0, GAP))
    return states(model, ids), states(model, padded, attention_mask=mask)[:, :TOKENS]


def left_padding(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """A text alone, and with padding before it that the mask hides."""
    padded = torch.nn.functional.pad(ids, (GAP, 0))
    mask = torch.nn.functional.pad(torch.ones_like(ids), (GAP, 0))
    return states(model, ids), states(model, padded, attention_mask=mask)[:, GAP:]


def left_padding_with_positions(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The same with position_ids as `generate` hands them in."""
    padded = torch.nn.functional.pad(ids, (GAP, 0))
    mask = torch.nn.functional.pad(torch.ones_like(ids), (GAP, 0))
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    given = {"attention_mask": mask, "position_ids": positions}
    return states(model, ids), states(model, padded, **given)[:, GAP:]


def packing(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The second half of a text alone, and behind the first with position_ids that begin again."""
    half = TOKENS // 2
    positions = torch.arange(half).repeat(2)[None]
    alone = states(model, ids[:, half:], use_cache=False)
    return alone, states(model, ids, position_ids=positions, use_cache=False)[:, half:]


def cache(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """A text at once, and one token at a time with a cache."""
    held, found = None, []
    for token in ids[0]:
        output = model(input_ids=token[None, None], past_key_values=held, use_cache=True)
        held = output.past_key_values
        found.append(output.logits)
    return states(model, ids, use_cache=False), torch.cat(found, 1)


def cache_of_whole_texts(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """A text at once, and one token at a time, all before it handed in again beside the cache."""
    held, found = None, []
    for end in range(1, TOKENS + 1):
        output = model(input_ids=ids[:, :end], past_key_values=held, use_cache=True)
        held = output.past_key_values
        found.append(output.logits[:, -1:])
    return states(model, ids, use_cache=False), torch.cat(found, 1)


def cache_of_halves(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """A text at once, and its second half behind the first in a cache; a translation of itself with fsmt."""
    name = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
    given = {"input_ids": ids}
    whole = model(**given | {name: ids}, use_cache=False).logits
    first, second = ids.split(TOKENS // 2, dim=1)
    begun = model(**given | {name: first}, use_cache=True)
    kept = "cache_params" if "cache_params" in begun else "past_key_values"
    ended = model(**given | {name: second, kept: begun[kept]}, use_cache=True)
    return whole, torch.cat([begun.logits, ended.logits], 1)


def another_last_token(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """All tokens but the last, of two texts that differ in the last alone."""
    other = torch.cat([ids[:, :-1], ids[:, -1:] + 1], 1)
    one, two = (states(model, text, use_cache=False)[:, :-1] for text in (ids, other))
    return one, two


def flex(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """A text with eager attention, and with FlexAttention, which on a CPU need not be compiled."""
    model.set_attn_implementation("eager")
    eager = states(model, ids, use_cache=False)
    model.set_attn_implementation("flex_attention")
    with torch.compiler.set_stance("force_eager"):
        return eager, states(model, ids, use_cache=False)


def weights_of_last_query(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Whether the last query of the first layer with weights has some for every key."""
    model.set_attn_implementation("eager")
    shown = model(input_ids=ids, output_attentions=True, use_cache=False).attentions
    weights = next(one for one in shown if one is not None)[0, :, -1]
    return torch.ones_like(weights), (weights > 0).float()


def unmixed(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The first token in two texts that differ in all others: an encoder that attends tells them apart."""
    others = torch.cat([ids[:, :1], ids[:, 1:].flip(1)], 1)
    return states(model, ids)[:, :1], states(model, others)[:, :1]


DEFECT, DESIGN, SETTING = "defect", "by design", "settings"
RIGHT, LEFT, PACKED = "padding on the right", "padding on the left", "packing"
HALVES = "cache, two halves"


class Cause(NamedTuple):
    """Why properties of architectures are not as expected, as reading their code showed.

    Attributes:
        names: of the architectures.
        property: as `attnlab check` calls it.
        kind: a defect, a design that no mask reaches, or settings that contradict each other.
        said: what it is.
        reduced: shows it without attnlab.
    """

    names: str
    property: str
    kind: str
    said: str
    reduced: Reduced


CAUSES = (
    Cause(
        "mra",
        "causality",
        DEFECT,
        "Where there is no GPU its CUDA kernel is not loaded, and its attention returns zeros without a "
        "warning: no token reads another.",
        unmixed,
    ),
    Cause(
        "yoso",
        RIGHT,
        DEFECT,
        "Its attention takes 1 + mask / 10,000 where the mask holds 1 and 0: padding weighs 1 beside 1.0001, "
        "and is read as text.",
        right_padding,
    ),
    Cause(
        "bamba",
        "cache",
        DEFECT,
        "Without position_ids each call counts positions from 0, whatever the cache holds; `generate` hands "
        "them in.",
        cache,
    ),
    Cause(
        "bamba",
        HALVES,
        DEFECT,
        "Without position_ids each call counts positions from 0, whatever the cache holds; `generate` hands "
        "them in.",
        cache_of_halves,
    ),
    Cause(
        "falcon_mamba jamba mamba",
        HALVES,
        DEFECT,
        "Where several tokens come behind a cache, its recurrence begins from zero and not from the state "
        "that the cache holds; only its convolution goes on.",
        cache_of_halves,
    ),
    Cause(
        "fsmt",
        HALVES,
        DEFECT,
        "With a cache it makes no causal mask, since it takes tokens to come one at a time: where several "
        "come, they read those after them.",
        cache_of_halves,
    ),
    Cause(
        "doge",
        "eager against flex",
        DEFECT,
        "Its attention adds a bias of its own to the mask, and in place of FlexAttention's mask hands on the "
        "bias alone: tokens read those after them, and padding.",
        flex,
    ),
    Cause(
        "cpmant",
        "causality",
        DESIGN,
        "All tokens that it is given count as context, which every token reads, those before it too.",
        another_last_token,
    ),
    Cause(
        "cpmant",
        "cache",
        DESIGN,
        "All tokens that it is given count as context, so a token read later changes those before it, which "
        "a cache keeps as they were.",
        cache_of_whole_texts,
    ),
    Cause(
        "convbert",
        RIGHT,
        DESIGN,
        "A convolution over tokens reads states at padding.",
        right_padding,
    ),
    Cause(
        "mobilebert",
        RIGHT,
        DESIGN,
        "A token is read with the embeddings of its neighbours, of padding too.",
        right_padding,
    ),
    Cause("funnel", RIGHT, DESIGN, "It averages neighbouring tokens, padding too.", right_padding),
    Cause(
        "nystromformer",
        RIGHT,
        DESIGN,
        "Its landmarks are means over segments of all tokens, of padding too.",
        right_padding,
    ),
    Cause("rwkv", LEFT, DESIGN, "It does not use the mask, and warns so.", left_padding),
    Cause(
        "recurrent_gemma",
        LEFT,
        DESIGN,
        "Convolutions over tokens get no mask and read states at padding.",
        left_padding_with_positions,
    ),
    Cause(
        "trocr whisper",
        LEFT,
        DESIGN,
        "Positions are counted from the first column, padding too, and the decoder alone takes no "
        "position_ids.",
        left_padding,
    ),
    Cause(
        "deepseek_v4",
        LEFT,
        DESIGN,
        "Keys are compressed in groups of columns counted from the first, padding too.",
        left_padding_with_positions,
    ),
    Cause(
        "deepseek_v4",
        PACKED,
        DESIGN,
        "Groups of columns whose keys are compressed reach over the boundary of texts.",
        packing,
    ),
    Cause(
        "bailing_hybrid bamba falcon_h1 inkling2_text inkling_text jamba lfm3 minimax nemotron_h olmo_hybrid "
        "qwen3_5_moe_text qwen3_5_text qwen3_next recurrent_gemma zamba2 zaya",
        PACKED,
        DESIGN,
        "The masks of its attention keep packed texts apart; its recurrent layers, or convolutions over "
        "tokens (of inkling and zaya within attention), go on from one text to the next.",
        packing,
    ),
    Cause(
        "minimax",
        "keys read",
        SETTING,
        "layer_types says full_attention; these layers heed sliding_window too, which is set here and not "
        "by default.",
        weights_of_last_query,
    ),
)


def cause_of(name: str, what: str) -> Cause | None:
    """The cause of a mismatch; None where nobody looked."""
    return next((c for c in CAUSES if name in c.names.split() and c.property == what), None)


@torch.no_grad()
def change_of(name: str, what: str) -> float:
    """The largest difference of what should be the same, as a share of the largest number.

    Of what should differ (`unmixed`) it is 0 where it does not.
    """
    cause = cause_of(name, what)
    if cause is None:
        msg = f"Nobody has looked into {what} of {name}."
        raise KeyError(msg)
    model = small_model(name).eval()
    ids = torch.randint(5, 100, (1, TOKENS), generator=torch.Generator().manual_seed(1))
    one, other = cause.reduced(model, ids)
    return float((one - other).abs().max() / one.abs().max())


@torch.no_grad()
def modules_across(name: str) -> list[str]:
    """The innermost classes of modules by which the second of two packed texts moves with the first.

    Each module runs again on what enters it, with noise at the last three tokens of the first text.
    """
    model, half = small_model(name).eval(), TOKENS // 2
    across: dict[str, nn.Module] = {}
    again = False

    def look(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        nonlocal again
        states = next((one for one in (*args, *kwargs.values()) if _is_states(one)), None)
        before = output[0] if isinstance(output, tuple) else output
        if again or states is None or not _is_states(before):
            return
        noise = torch.zeros_like(states)
        noise[:, half - 3 : half] = torch.randn(3, states.shape[-1]) * 2 * states.std()
        moved = [states + noise if one is states else one for one in args]
        named = {key: states + noise if one is states else one for key, one in kwargs.items()}
        again = True
        try:
            after = module(*moved, **named)
        finally:
            again = False
        after = after[0] if isinstance(after, tuple) else after
        if float((after - before)[:, half:].abs().max()) > 1e-5 * float(before.abs().max()):
            across[type(module).__name__] = module

    for module in model.modules():
        if any(True for _ in module.children()) and not isinstance(module, PreTrainedModel):
            module.register_forward_hook(look, with_kwargs=True)
    ids = torch.randint(5, 100, (1, TOKENS), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(half).repeat(2)[None]
    model(input_ids=ids, position_ids=positions, use_cache=False)
    inner = {
        name: module
        for name, module in across.items()
        if not any(type(part).__name__ in across for part in [*module.modules()][1:])
    }
    return sorted(inner)


def _is_states(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim == 3 and value.shape[1] == TOKENS


if __name__ == "__main__":
    print(change_of(*sys.argv[1:3]))
