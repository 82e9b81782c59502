"""A model drawn from its configuration: its blocks, the shapes of their matrices, their parameters."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import nn
from transformers import PreTrainedModel

from attnlab.core import counted
from attnlab.figures import INK, PAGE, blank, colour, panel, style
from attnlab.models import Source, skeleton_of
from attnlab.questions.size.sizing import (
    ATTENTION,
    EMBEDDINGS,
    FEED_FORWARD,
    NORMALISATION,
    OTHER,
    OUTPUT,
    part_of,
    replaceable_attention,
)

CROSS = "cross-attention"
# Other parts that stand before all layers, such as the patches of an image or convolutions over sound.
INPUT = "input"
_CROSS = re.compile(r"cross|encdec|encoder_attn", re.IGNORECASE)
# From the first that a token passes.
_ORDER = (EMBEDDINGS, ATTENTION, CROSS, FEED_FORWARD, NORMALISATION, OTHER, OUTPUT, INPUT)
_MOST_SHAPES = 4
# Inches.
_BOX, _GAP, _NAME = 0.36, 0.08, 0.22


@dataclass(frozen=True)
class Box:
    """A part of a model: its name, the shapes of its matrices, and how many parameters it has."""

    name: str
    shapes: str
    parameters: int


@dataclass(frozen=True)
class Stack:
    """Layers of a model, told by the first of them: how many, in words, and the parameters of all."""

    name: str
    layers: str
    boxes: tuple[Box, ...]
    parameters: int


Parts = dict[str, list[nn.Parameter]]


def blocks_of(model: PreTrainedModel) -> tuple[list[Box], list[Stack]]:
    """The parts of a model outside its stacks of layers with attention, and these stacks."""
    modules, output = dict(model.named_modules()), model.get_output_embeddings()
    outside: Parts = defaultdict(list)
    stacks: dict[str, dict[str, Parts]] = {}
    for path, parameter in model.named_parameters():
        owner = path.rpartition(".")[0]
        part = part_of(owner, modules[owner], output)
        stack, layer = _layer_of(path)
        if not layer:
            outside[INPUT if part == OTHER and not _attends(stacks) else part].append(parameter)
            continue
        name = CROSS if part == ATTENTION and _CROSS.search(path) else part
        layers = stacks.setdefault(stack, {})
        layers.setdefault(layer, defaultdict(list))[name].append(parameter)
    seen = False
    for stack, layers in [*stacks.items()]:
        if not _attends({stack: layers}):
            del stacks[stack]
            outside[OTHER if seen else INPUT] += [
                one for parts in layers.values() for group in parts.values() for one in group
            ]
        seen = seen or stack in stacks
    boxes = [_box(part, outside[part]) for part in _ORDER if part in outside]
    return boxes, [_stack(model, path, layers) for path, layers in stacks.items()]


def _attends(stacks: Mapping[str, Mapping[str, Parts]]) -> bool:
    """Whether any of these layers has attention."""
    return any(
        {ATTENTION, CROSS} & {*parts} for layers in stacks.values() for parts in layers.values()
    )


def _layer_of(path: str) -> tuple[str, str]:
    """The stack that a parameter is in and the number of its layer; empty where it is in none."""
    names = path.split(".")
    at = next((index for index, name in enumerate(names) if name.isdecimal()), None)
    return ("", "") if at is None else (".".join(names[:at]), names[at])


def _box(name: str, parameters: Sequence[nn.Parameter]) -> Box:
    shapes = Counter(tuple(parameter.shape) for parameter in parameters if parameter.ndim > 1)
    texts = [
        (f"{count} of " if count > 1 else "") + " x ".join(f"{size:,}" for size in shape)
        for shape, count in shapes.items()
    ]
    more = [f"{len(texts) - _MOST_SHAPES} more"] if len(texts) > _MOST_SHAPES else []
    total = sum(parameter.numel() for parameter in parameters)
    return Box(name, ", ".join([*texts[:_MOST_SHAPES], *more]), total)


def _stack(model: PreTrainedModel, path: str, layers: Mapping[str, Parts]) -> Stack:
    every = [
        tuple(_box(name, parts[name]) for name in _ORDER if name in parts)
        for parts in layers.values()
    ]
    within = [at for at in replaceable_attention(model) if at.path.startswith(f"{path}.")]
    passed = {(at.site == "cross", layer) for at in within for layer in at.layers}
    depth = max((sum(cross == kind for cross, _ in passed) for kind in (False, True)), default=0)
    words, heads = counted(len(every), "layer"), {at.heads for at in within}
    if len(heads) == 1:
        words += f" of {counted(heads.pop(), 'head')}"
    if depth > len(every):
        words += f", passed {depth} times"
    if len({*every}) > 1:
        words += ", the first drawn"
    sites = {at.site for at in within} - {"cross"}
    (name,) = sites if len(sites) == 1 else (path,)
    total = sum(box.parameters for boxes in every for box in boxes)
    return Stack(name, words, every[0], total)


def draw_model(source: Source, *, width: float = PAGE) -> Figure:
    """The blocks of a model from its input up, with the shapes of their matrices and parameters.

    Args:
        source: as for `attnlab.size`; of a transformers folder its config.json is enough.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: no such source.
    """
    model = skeleton_of(source)
    boxes, stacks = blocks_of(model)
    below = [box for box in boxes if box.name in {EMBEDDINGS, INPUT}]
    above = [box for box in boxes if box.name not in {EMBEDDINGS, INPUT}]
    step = _BOX + _GAP
    framed = max((len(stack.boxes) for stack in stacks), default=0) * step + _GAP + _NAME
    height = step * len(boxes) + framed + 3 * _GAP + _NAME
    with style():
        figure = blank(width, height)
        axes = panel(figure, 0.0, 0.0, width, height)
        axes.set(xlim=(0, width), ylim=(0, height))
        axes.axis("off")
        title = f"{type(model).__name__}: {model.num_parameters():,} parameters"
        axes.text(_GAP, height - _NAME, title, fontsize=9)
        bottom = _GAP
        for box in below:
            _draw_box(axes, box, _GAP, bottom, width - 2 * _GAP)
            bottom += step
        across = (width - _GAP) / max(len(stacks), 1)
        for number, stack in enumerate(stacks):
            _draw_stack(axes, stack, _GAP + number * across, bottom, (across - _GAP, framed))
        bottom += framed + _GAP
        for box in above:
            _draw_box(axes, box, _GAP, bottom, width - 2 * _GAP)
            bottom += step
    return figure


def _draw_stack(
    axes: Axes, stack: Stack, left: float, bottom: float, size: tuple[float, float]
) -> None:
    """A frame with the boxes of a layer, from the first up, and its name at the top."""
    axes.add_patch(Rectangle((left, bottom), *size, fill=False, edgecolor=INK, linewidth=0.8))
    for number, box in enumerate(stack.boxes):
        height = bottom + _GAP + number * (_BOX + _GAP)
        _draw_box(axes, box, left + _GAP, height, size[0] - 2 * _GAP)
    top = bottom + size[1] - _NAME + 0.05
    axes.text(left + _GAP, top, f"{stack.name}: {stack.layers}", fontsize=8)
    axes.text(left + size[0] - _GAP, top, f"{stack.parameters:,}", ha="right", fontsize=8)


def _draw_box(axes: Axes, box: Box, left: float, bottom: float, width: float) -> None:
    shade = colour(_ORDER.index(box.name))
    axes.add_patch(Rectangle((left, bottom), width, _BOX, facecolor=shade, alpha=0.18, linewidth=0))
    axes.add_patch(Rectangle((left, bottom), 0.05, _BOX, facecolor=shade, linewidth=0))
    line, edge = bottom + _BOX - 0.06, left + width - 0.06
    axes.text(left + 0.12, line, box.name, va="top", fontsize=8)
    axes.text(edge, line, f"{box.parameters:,}", va="top", ha="right", fontsize=8)
    axes.text(left + 0.12, bottom + 0.05, box.shapes, va="bottom", fontsize=7, color=INK)
