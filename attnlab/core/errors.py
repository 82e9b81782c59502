"""Errors that a user can cause and mend; the command line prints them as one sentence."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

# The exit status of a command that Ctrl-C ended, as shells give it.
INTERRUPTED = 130


class AttnlabError(Exception):
    """Something that was asked for cannot be done; the message says what, where, and what to do.

    The command line prints the message without a traceback and ends with `exit_status`.

    Attributes:
        options: the options that the message names as Python does.
    """

    exit_status = 1

    def __init__(self, message: str = "", *, options: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)

    def naming(self, names: Mapping[str, str]) -> str:
        """The message with options as they are called somewhere else.

        >>> AttnlabError("leave fine_tune out", options=["fine_tune"]).naming({"fine_tune": "--fine-tune"})
        'leave --fine-tune out'
        """
        message = str(self)
        for option in self.options:
            message = re.sub(rf"\b{re.escape(option)}\b", names.get(option, option), message)
        return message


class InputError(AttnlabError):
    """An option, a file or a text that was handed in cannot be used."""

    exit_status = 2


class NothingUsableError(InputError):
    """None of the texts that were handed in can be used, though others might be."""


class ReportedElsewhereError(AttnlabError):
    """What the first of several processes tells the user; the command line prints nothing more."""


# Letters of what a library says that a sentence repeats.
_MOST_REPEATED = 300


# What these say is of the program that reads, not of what was read.
_OF_THE_PROGRAM = (AssertionError, AttributeError, LookupError, NameError, TypeError)


def reason(error: BaseException) -> str:
    """The first line of an error's message, shortened, to stand in brackets within a sentence.

    Messages of Python about its own objects are not repeated, nor is the advice of torch to load objects.
    """
    if ran_out_of_memory(error):
        return "there is not enough memory for it"
    if isinstance(error, _OF_THE_PROGRAM):
        return "a value in its files is of a kind that does not belong there"
    # The class stands in a module that nothing else here needs.
    if type(error).__name__ == "UnpicklingError":
        return "a file of tensors is damaged, or holds Python objects, which are never loaded"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = lines[0].removesuffix(".")
    return line if len(line) <= _MOST_REPEATED else f"{line[:_MOST_REPEATED]}..."


def panics() -> tuple[type[BaseException], ...]:
    """The classes that libraries in Rust raise where they panic, for an `except`.

    They are no subclasses of Exception and have no public name; each library has its own.
    """
    kinds = BaseException.__subclasses__()
    return tuple(kind for kind in kinds if kind.__name__ == "PanicException")


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be had, of this machine or of a GPU."""
    # torch has no class of its own for what the processor's allocator raises.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )


class Note:
    """A fact about how a result came about, and `str` of it the sentences that tell it.

    Subclasses are frozen dataclasses of its values; one whose words depend on these in more than their places
    has a `__str__` of its own.

    Attributes:
        words: one or two sentences, with the names of values in braces; a tuple is a list with commas.
    """

    words: ClassVar[str]

    def __str__(self) -> str:
        values = vars(self).items()
        return self.words.format(
            **{name: ", ".join(map(str, value)) if isinstance(value, tuple) else value
               for name, value in values}
        )  # fmt: skip


def kinds_of_notes() -> dict[str, type[Note]]:
    """Every kind of note by its name, as far as the modules that declare them are imported."""
    kinds = [Note]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {kind.__name__: kind for kind in kinds[1:]}
