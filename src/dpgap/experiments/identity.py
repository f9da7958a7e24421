"""What a function is, so that results of two that differ are never mixed."""

import functools
import inspect
from dataclasses import is_dataclass
from typing import Any

from dpgap.errors import InvalidInput

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))


def identity(function: Any) -> list[str]:
    """The name of ``function``, its source, and the values that it takes along.

    Of a ``functools.partial`` its function and arguments; of an instance of a dataclass its class and fields.
    What a function captures or has as a default counts by its ``repr``, and so do the numbers and strings
    of its module that it names; other modules do not.

    >>> def scaled(by):
    ...     return lambda x: by * x
    >>> identity(scaled(2)) == identity(scaled(2)) != identity(scaled(3))
    True
    """
    if isinstance(function, functools.partial):
        return [*identity(function.func), _described(function.args), _described(function.keywords)]
    if inspect.isfunction(function):
        return [f"{function.__module__}.{function.__qualname__}", _source(function), *_taken_along(function)]
    if inspect.ismethod(function):
        return [*identity(function.__func__), repr(function.__self__)]
    if is_dataclass(function) and not isinstance(function, type) and callable(function):
        return [_source(type(function)), repr(function)]
    raise InvalidInput(
        f"train must be a function, a functools.partial of one, or an instance of a dataclass, got "
        f"{type(function).__name__}. The settings of anything else cannot be seen, so that its results could "
        "be mixed with those of other settings; wrap it: def train(x, y, seed): ..."
    )


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):  # typed at a prompt, or built in: known by its name and code alone
        code = getattr(thing, "__code__", None)
        return repr((code.co_code, code.co_consts, code.co_names)) if code else repr(thing)


def _taken_along(function: Any) -> list[str]:
    named = inspect.getclosurevars(function)
    constants = {name: value for name, value in named.globals.items() if isinstance(value, _CONSTANTS)}
    taken = (named.nonlocals, constants, function.__defaults__, function.__kwdefaults__)
    return [_described(values) for values in taken]


def _described(values: Any) -> str:
    """The ``repr`` of named or listed values, with functions by what they are, not by where they lie."""
    if values is None:
        return ""
    pairs = sorted(values.items()) if isinstance(values, dict) else enumerate(values)
    return repr([(name, identity(value) if inspect.isfunction(value) else value) for name, value in pairs])
