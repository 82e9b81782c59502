"""Several processes that share the work of one command, as torchrun or accelerate start them.

What they send each other are plain values and tensors as bytes; nothing is pickled.
"""

import dataclasses
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from operator import add
from typing import Any, TypeVar

import torch
from safetensors.torch import load, save
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from attnlab.core.errors import (
    INTERRUPTED,
    AttnlabError,
    InputError,
    ReportedElsewhereError,
    reason,
)
from attnlab.core.launcher import launched, with_launcher
from attnlab.core.signals import ending_at_once

# Where the first process that fails on its own writes its number, beside what torch keeps there.
_FAILED = "attnlab_failed"
# Processes meet equally often, so that each counts the same.
_MEETINGS = itertools.count()
# How long processes wait for the others to start: torchrun starts all together, and what stands in an
# environment without it may be left from a work that ended long ago.
MEETING, MEETING_WITHOUT_LAUNCHER = timedelta(minutes=5), timedelta(seconds=40)
_LOST = "Another process ended before its work was done; see what it printed."
Key = TypeVar("Key")
Value = TypeVar("Value")


class Sums(dict[Key, Value]):
    """Values by key; `+` adds the values of a key that both sides have and keeps the others."""

    def __add__(self, other: Mapping[Key, Value]) -> "Sums[Key, Value]":
        result = Sums(self)
        for key, value in other.items():
            result[key] = _added(self[key], value) if key in self else value
        return result


def _added(first: Any, other: Any) -> Any:
    if isinstance(first, Tensor) and first.shape != other.shape:
        msg = (
            f"Sums of different models do not add up: one has shape {tuple(first.shape)}, the "
            f"other {tuple(other.shape)}."
        )
        raise InputError(msg)
    return add(first, other)


# What can be sent: None, bool, int, float, str, tensors, dataclasses, and tuples, lists, sets,
# dictionaries and `Sums` of these.
Plain = Any
CONTAINERS = {kind.__name__: kind for kind in (tuple, list, frozenset, set)}
MAPPINGS = {kind.__name__: kind for kind in (dict, Sums)}
_PLAIN = "plain"


@dataclass
class _Line:
    """Whether the processes still meet at the same calls."""

    open: bool = True


@dataclass(frozen=True)
class Processes:
    """This process among those that work together; on its own by default.

    All of them take the same way through the program and meet at each `gather`. What they exchange
    are tensors and JSON.

    Attributes:
        index: number of this process, from 0; the first one prints and writes.
        count: how many there are.
        local_index: number among the processes of this machine, which chooses the GPU.
    """

    index: int = 0
    count: int = 1
    local_index: int = 0
    _line: _Line = field(default_factory=_Line, repr=False, compare=False)

    @property
    def first(self) -> bool:
        """Whether this process prints and writes."""
        return self.index == 0

    def gather(self, value: Plain) -> list[Plain]:
        """The values that all processes hand in here, in their order, the same list in each.

        Args:
            value: see `Plain`.

        Raises:
            AttnlabError: another process failed before it got here; the message is its own.
        """
        if self.count == 1:
            return [value]
        return [unwrapped(data) for data in self._exchanged(b"=" + wrapped(value))]

    def sum(self, value: Plain) -> Plain:
        """The sum of the values that all processes hand in here, in their order, the same in each.

        Raises:
            AttnlabError: as `gather` does.
        """
        return reduce(add, self.gather(value))

    def any(self, value: bool) -> bool:
        """Whether it holds in any process; the others wait here until all have said.

        Raises:
            AttnlabError: as `gather` does.
        """
        if self.count == 1:
            return value
        holds = torch.tensor([int(value)])
        try:
            distributed.all_reduce(holds, distributed.ReduceOp.MAX)
        except RuntimeError as error:
            raise _FailedTogether(_LOST, 1, disconnected=True) from error
        return bool(holds)

    def by_first(self, action: Callable[[], object]) -> None:
        """Has the first process do something; the others wait until it is done.

        Raises:
            AttnlabError: as `gather` does.
        """
        if self.first:
            action()
        self.gather(None)

    @contextmanager
    def together(self, *, gpus: bool = False) -> Iterator[None]:
        """Until the block ends no process waits for one that has failed.

        One that fails says so at the next `gather` of the others, and all of them raise. Nobody
        leaves before all are done.

        Args:
            gpus: whether libraries exchange tensors on GPUs within the block.

        Raises:
            AttnlabError: another process failed; the first process raises it with the message.
            ReportedElsewhereError: the same in every other process, so that a user reads it once.
        """
        if self.count == 1:
            yield
            return
        with _meeting(self, gpus=gpus):
            try:
                yield
                self.gather(None)
            except _FailedTogether as failure:
                if not self._line.open and self._failed_first():
                    raise AttnlabError(failure.message) from failure
                raise self._reported_error(failure.message, failure.exit_status) from None
            except KeyboardInterrupt as error:
                if self._failed_first():
                    raise
                raise _reported_elsewhere(str(error), INTERRUPTED) from error
            except Exception as error:
                mine = (_sentence(error), getattr(error, "exit_status", 1))
                if not self._line.open:
                    if self._failed_first():
                        raise
                    raise _reported_elsewhere(*mine) from error
                first = self._first_failure(mine)
                if self.first and first == mine:
                    raise
                raise self._reported_error(*first) from error

    @contextmanager
    def on_its_own(self) -> Iterator[None]:
        """Within `together`: a process that fails in the block ends at once, and the launcher the others.

        For code of libraries that exchange tensors of their own, where no process can say that it
        failed: the others are not at a `gather`. The first one that fails tells the user.
        """
        try:
            yield
        except BaseException:
            self._line.open = False
            raise

    def _failed_first(self) -> bool:
        """Whether no other process failed before this one did."""
        mine = str(self.index)
        try:
            store = distributed.distributed_c10d._get_default_store()  # noqa: SLF001 - no public way
            return store.compare_set(_FAILED, "", mine) == mine.encode()
        except RuntimeError:  # what keeps the store is gone
            return False

    def _first_failure(self, mine: tuple[str, int]) -> tuple[str, int]:
        """Tells the others of a failure; what comes back is that of the first process that failed."""
        try:
            self._exchanged(b"!" + wrapped(mine))
        except _FailedTogether as failure:
            return mine if failure.disconnected else (failure.message, failure.exit_status)
        return mine

    def _reported_error(self, message: str, status: int) -> AttnlabError:
        if not self.first:
            return _reported_elsewhere(message, status)
        error = AttnlabError(message)
        error.exit_status = status
        return error

    def _exchanged(self, mine: bytes) -> list[bytes]:
        """Everybody's bytes; a first byte of `!` says that its sender failed."""
        try:
            messages = _all_gathered(mine, self.count)
        except RuntimeError as error:
            raise _FailedTogether(_LOST, 1, disconnected=True) from error
        for data in messages:
            if data[:1] == b"!":
                raise _FailedTogether(*unwrapped(data[1:]))
        return [data[1:] for data in messages]


class _FailedTogether(Exception):  # noqa: N818 - says what happened, and never leaves this file
    """Every process knows that one of them failed."""

    def __init__(self, message: str, exit_status: int, *, disconnected: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.exit_status = exit_status
        self.disconnected = disconnected


def launched_processes() -> Processes:
    """This process as its launcher describes it in the environment; on its own without one."""
    placement = launched()
    return Processes(*placement) if placement else Processes()


def _reported_elsewhere(message: str, status: int) -> ReportedElsewhereError:
    error = ReportedElsewhereError(message)
    error.exit_status = status
    return error


@contextmanager
def _meeting(processes: Processes, *, gpus: bool) -> Iterator[None]:
    """Connects the processes, unless the caller has already done so over a backend for the CPU."""
    if distributed.is_initialized():
        yield
        return
    # Libraries wait for the others without hearing of signals; nothing is written yet.
    with ending_at_once():
        try:
            patience = MEETING if with_launcher() else MEETING_WITHOUT_LAUNCHER
            connections = rendezvous("env://", processes.index, processes.count, timeout=patience)
            store, index, count = next(connections)
            store.set_timeout(distributed.constants.default_pg_timeout)
        except (RuntimeError, ValueError) as error:
            msg = (
                f"The other processes, of {processes.count} by WORLD_SIZE, cannot be met; start all "
                "with torchrun, or unset RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT."
            )
            raise AttnlabError(msg) from error
    # A launcher's store outlives a meeting, and with it the addresses of an earlier one.
    name = f"attnlab_{next(_MEETINGS)}"
    store = distributed.PrefixStore(name, store)  # type: ignore[attr-defined]  # torch's stubs
    backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
    distributed.init_process_group(backend, store=store, rank=index, world_size=count)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _all_gathered(mine: bytes, count: int) -> list[bytes]:
    """The bytes of every process; lengths are gathered first, since all tensors must be of one size."""
    length = torch.tensor([len(mine)])
    lengths = [torch.zeros_like(length) for _ in range(count)]
    distributed.all_gather(lengths, length)
    longest = max(int(size) for size in lengths)
    padded = torch.frombuffer(bytearray(mine.ljust(longest, b"\0")), dtype=torch.uint8)
    parts: list[Tensor] = [torch.zeros_like(padded) for _ in range(count)]
    distributed.all_gather(parts, padded)
    return [part[: int(size)].numpy().tobytes() for part, size in zip(parts, lengths, strict=True)]


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, AttnlabError) else f"{type(error).__name__}: {error}"


def wrapped(value: Plain) -> bytes:
    """The value as one safetensors file; tensors keep type and shape and come back on the CPU.

    Raises:
        TypeError: something that cannot be sent, see `Plain`.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_described(value, tensors))
    return save(tensors, {_PLAIN: text})


def unwrapped(data: bytes) -> Plain:
    """The value that `wrapped` was given.

    Raises:
        TypeError: it holds a dataclass that this process has not imported.
    """
    # safetensors puts a length of 8 bytes and a JSON header in front, where the metadata stands.
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    described = json.loads(header["__metadata__"][_PLAIN])
    return _restored(described, load(data))


def _described(value: Plain, tensors: dict[str, Tensor]) -> Any:
    """JSON in which everything but scalars is a pair (kind, content)."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        name = str(len(tensors))
        # A clone, since safetensors refuses tensors that share memory.
        tensors[name] = value.detach().cpu().contiguous().clone()
        return ["tensor", name]
    if type(value) in MAPPINGS.values():
        pairs = [[_described(part, tensors) for part in pair] for pair in value.items()]
        return [type(value).__name__, pairs]
    if type(value) in CONTAINERS.values():
        return [type(value).__name__, [_described(part, tensors) for part in value]]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _described(getattr(value, field.name), tensors)
            for field in dataclasses.fields(value)
        }
        return ["dataclass", [type(value).__module__, type(value).__name__, fields]]
    msg = f"A {type(value).__name__} cannot be sent between processes."
    raise TypeError(msg)


def _restored(described: Any, tensors: dict[str, Tensor]) -> Plain:
    if not isinstance(described, list):
        return described
    kind, content = described
    if kind == "tensor":
        return tensors[content]
    if kind == "dataclass":
        module, name, fields = content
        return _dataclass(module, name)(
            **{field: _restored(part, tensors) for field, part in fields.items()}
        )
    if kind in MAPPINGS:
        return MAPPINGS[kind]([_restored(part, tensors) for part in pair] for pair in content)
    return CONTAINERS[kind](_restored(part, tensors) for part in content)


def _dataclass(module: str, name: str) -> type:
    # Nothing is imported and nothing but a dataclass is called: what is sent is data, no program.
    kind = getattr(sys.modules.get(module), name, None)
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        msg = f"{module}.{name} cannot be received from another process."
        raise TypeError(msg)
    return kind


def usable_device(name: str | None) -> torch.device:
    """The device of that name, such as `cpu` or `cuda`; None: a GPU if there is one.

    Raises:
        InputError: it cannot be used on this machine.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        # So torch says that it was built without one.
        absent = isinstance(error, AssertionError)
        why = "this torch is built without it" if absent else reason(error)
        msg = f"Device '{name}' cannot be used here ({why}); try cpu."
        raise InputError(msg) from error
    return torch.device(name)


def input_device(device: torch.device) -> torch.device:
    """The device for inputs of a model whose first weights are on a device.

    Those that accelerate keeps elsewhere meanwhile are on 'meta'; it moves inputs to where it computes.
    """
    return torch.device("cpu") if device.type == "meta" else device


def device_of_process(device: str | None, processes: Processes) -> str | None:
    """The device of this process: while the machine has enough GPUs, one that no other process uses."""
    if processes.count > 1 and device in {None, "cuda"} and torch.cuda.is_available():
        return f"cuda:{processes.local_index % torch.cuda.device_count()}"
    return device
