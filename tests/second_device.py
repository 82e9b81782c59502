"""A device beside the CPU on any machine: what holds of it holds of a GPU, but for kernels and rounding.

Its tensors keep their values on the CPU and say that they are elsewhere. As on a GPU, an operation refuses
tensors of both devices, but for copies, numbers and indices, and NumPy refuses its tensors.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils import backend_registration as registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "second"
aten = torch.ops.aten
COPIES = {aten.copy_.default, aten._to_copy.default}
# Their indices may lie on the CPU.
INDEXED = {
    aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_put.default, aten.index_put_.default,
    aten._index_put_impl_.default, aten._unsafe_index_put.default,
}  # fmt: skip
# In place, they change what a tensor says of itself.
RESHAPED = {f"aten::{name}_" for name in ("squeeze", "unsqueeze", "transpose", "t", "as_strided")}
_THERE = [False]


class _Module(registration._DummyBackendModule):
    """What torch asks of a device; where no block of `second_device` lasts there is none."""

    def is_available(self) -> bool:
        return _THERE[0]

    def device_count(self) -> int:
        return int(_THERE[0])

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.zeros(8, dtype=torch.uint8)

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def synchronize(self, device: Any = None) -> None:
        pass


class _Hook(registration._DummyPrivateUse1Hook):
    def is_available(self) -> bool:
        return _THERE[0]


class Elsewhere(Tensor):
    """A tensor of the device; `inner` has its values."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Elsewhere":
        made = Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, layout=inner.layout, device=torch.device(NAME, 0),
        )  # fmt: skip
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, given: tuple[Any, ...] = (), named: Any = None
    ) -> Any:
        return _call(function, given, named or {})

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def tolist(self) -> Any:
        return self.inner.tolist()

    def __deepcopy__(self, known: dict[int, Any]) -> "Elsewhere":
        copy = Elsewhere(self.inner.clone()).requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copy._is_param = True
        known[id(self)] = copy
        return copy

    def __format__(self, written: str) -> str:
        return format(self.inner, written)

    def __repr__(self) -> str:
        return f"Elsewhere({self.inner!r})"


class _Calls(TorchDispatchMode):
    """Every operation of the block, those of the CPU too."""

    def __init__(self) -> None:
        super().__init__()
        # Below all other modes.
        self._mode_key = torch._C._TorchDispatchModeKey.FAKE

    def __torch_dispatch__(
        self, function: Any, types: Any, given: tuple[Any, ...] = (), named: Any = None
    ) -> Any:
        return _call(function, given, named or {})


def _call(function: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    flat, shape = pytree.tree_flatten((given, named))
    there = [one for one in flat if isinstance(one, Elsewhere)]
    if there and function not in COPIES:
        _refuse_both(function, given, flat)
    wanted = named.get("device")
    elsewhere = bool(there) if wanted is None else torch.device(wanted).type == NAME
    inner = [one.inner if isinstance(one, Elsewhere) else one for one in flat]
    given_inner, named_inner = pytree.tree_unflatten(inner, shape)
    if wanted is not None and elsewhere:
        named_inner["device"] = torch.device("cpu")
    if function is aten.histc.default:
        # Counts integers too on a GPU.
        given_inner = (given_inner[0].float(), *given_inner[1:])
    with torch._C._DisableTorchDispatch():
        found = function(*given_inner, **named_inner)
        if elsewhere and function._schema.name in RESHAPED:
            function(*given, **named)
    if not elsewhere:
        return found
    same = {id(one.inner): one for one in there}
    return pytree.tree_map_only(
        Tensor, lambda one: same[id(one)] if id(one) in same else Elsewhere(one), found
    )


def _refuse_both(function: Any, given: tuple[Any, ...], flat: list[Any]) -> None:
    if function in INDEXED:
        flat = [given[0], *given[2:3]]
    # A number may come from the CPU.
    mixed = [one for one in flat if isinstance(one, Tensor) and (one.ndim or one is flat[0])]
    if len({isinstance(one, Elsewhere) for one in mixed}) == 2:
        msg = f"{function}: tensors of {NAME} and of the CPU."
        raise RuntimeError(msg)


def register() -> None:
    """Tells torch of the device, which it must know before it computes gradients for the first time.

    From then on it does so in threads, which no forked process has.
    """
    if not hasattr(torch, NAME):
        registration._setup_privateuseone_for_python_backend(
            NAME, _Module(), _Hook(), registration._DummyDeviceGuard()
        )


def _enter_without_gradients(self: torch.inference_mode) -> None:
    """Tensors that torch's own code does not make cannot be views within inference mode."""
    self._inference_mode_context = torch.no_grad()
    self._inference_mode_context.__enter__()


@contextmanager
def second_device() -> Iterator[str]:
    """The name of the device, which is there while the block lasts."""
    register()
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    _THERE[0] = True
    entered = torch.inference_mode.__enter__
    torch.inference_mode.__enter__ = _enter_without_gradients
    try:
        with _Calls():
            yield NAME
    finally:
        torch.inference_mode.__enter__ = entered
        _THERE[0] = False
        torch._C._set_only_lift_cpu_tensors(before)
