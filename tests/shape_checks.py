"""Checks shapes where there are shapes and types everywhere, at a fraction of jaxtyping's price.

jaxtyping binds the arguments of every call, checks them twice and, for a function inside of another,
builds its checks each time that one is made. Here a function whose annotations hold no shape has
beartype's checks alone, and one inside of another none: mypy reads those. Of each function a test has
the first calls checked: a loop that passes a wrong shape passes it early.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, ForwardRef, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

WITH_SHAPES = jaxtyping.jaxtyped
# For runs that check every package: jaxtyping keeps bytecode by the name of the checker, and while it loads
# a checked module it keeps unchecked ones that this imports under the same name.
everywhere = beartype
# The same kind of error, a TypeError.
AS_JAXTYPING = BeartypeConf(violation_type=jaxtyping.TypeCheckError)
# Of one function in one test.
CHECKED_CALLS = 20
# Which test runs; its beginning starts the count anew.
tests = 0


def begin_test() -> None:
    """Has the next calls of every function checked again."""
    global tests  # noqa: PLW0603 - a counter that every checked function reads
    tests += 1


def has_shape(annotation: object) -> bool:
    """Whether a shape stands anywhere in it."""
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(has_shape, parts(annotation)))


def jaxtyped(checked: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """In the stead of `jaxtyping.jaxtyped` around functions and dataclasses."""
    if checked is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if inspect.isclass(checked):
        if dataclasses.is_dataclass(checked) and "__init__" in vars(checked):
            checked.__init__ = jaxtyped(checked.__init__, typechecker=typechecker)
        return checked
    checked = with_known_annotations(checked)
    shaped = any(map(has_shape, checked.__annotations__.values()))
    if inspect.isgeneratorfunction(checked) and shaped:
        # beartype checks the arguments of a generator when the first value is taken.
        return WITH_SHAPES(checked, typechecker=typechecker)
    if "<locals>" in checked.__qualname__ and not shaped:
        return checked
    return checked_when_called(checked, typechecker, shaped=shaped)


def with_known_annotations(plain: FunctionType) -> FunctionType:
    """A copy whose annotations that are strings are read; Any, where they name what is not loaded."""
    if not any(map(is_in_text, plain.__annotations__.values())):
        return plain
    defaults, closure = plain.__defaults__, plain.__closure__
    copy = FunctionType(plain.__code__, plain.__globals__, plain.__name__, defaults, closure)
    functools.update_wrapper(copy, plain)
    copy.__kwdefaults__ = plain.__kwdefaults__
    copy.__annotations__ = {
        name: read(annotation, plain.__globals__)
        for name, annotation in plain.__annotations__.items()
    }
    del copy.__wrapped__
    return copy


def is_in_text(annotation: object) -> bool:
    """Whether a part of it is text, to be read later."""
    if isinstance(annotation, (str, ForwardRef)):
        return True
    return any(map(is_in_text, parts(annotation)))


def parts(annotation: object) -> Iterable[object]:
    """What an annotation is made of."""
    return annotation if isinstance(annotation, list) else get_args(annotation)


def read(annotation: object, names: dict[str, Any]) -> Any:
    """The annotation with its names resolved, or Any."""

    def example() -> None: ...

    example.__annotations__ = {"value": annotation}
    try:
        return get_type_hints(example, names, include_extras=True)["value"]
    except (AttributeError, NameError, TypeError, ValueError):
        return Any


def checked_when_called(
    plain: Callable[..., Any], typechecker: Callable[..., Any], *, shaped: bool
) -> Callable[..., Any]:
    """The function with its checks, made at the first call: most are never called by one test file."""
    checks = functools.cache(lambda: typechecker(plain, conf=AS_JAXTYPING))
    test, calls = tests, 0

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal test, calls
        if test != tests:
            test, calls = tests, 0
        calls += 1
        if calls > CHECKED_CALLS or jaxtyping.config.jaxtyping_disable:
            return plain(*args, **kwargs)
        if not shaped:
            return checks()(*args, **kwargs)
        with WITH_SHAPES("context"):
            return checks()(*args, **kwargs)

    return call
