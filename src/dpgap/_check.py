"""Checks of arguments, whose messages name the argument: ``positive(noise_multiplier=1.1)``."""

import math
from collections.abc import Collection

from dpgap.errors import InvalidInput


def _require(holds: bool, name: str, value: object, expected: str, hint: str) -> None:
    if not holds:
        raise InvalidInput(f"{name} must be {expected}, got {value!r}. {hint}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def positive(*, hint: str = "Write a number such as 1.0.", **values: float) -> None:
    """Each value is a finite number above 0.

    >>> positive(clip_norm=0.0)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: clip_norm must be a finite number above 0, got 0.0. Write a number such as 1.0.
    """
    for name, value in values.items():
        holds = _is_number(value) and 0 < value < math.inf
        _require(holds, name, value, "a finite number above 0", hint)


def non_negative(*, hint: str = "Write a number such as 1.0, or 0.", **values: float) -> None:
    """Each value is a finite number, 0 or more."""
    for name, value in values.items():
        holds = _is_number(value) and 0 <= value < math.inf
        _require(holds, name, value, "a finite number, 0 or more", hint)


def count(*, at_least: int = 1, hint: str = "Write a whole number.", **values: int) -> None:
    """Each value is a whole number, ``at_least`` or more.

    >>> count(steps=2.5)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: steps must be a whole number, 1 or more, got 2.5. Write a whole number.
    """
    for name, value in values.items():
        holds = isinstance(value, int) and not isinstance(value, bool) and value >= at_least
        _require(holds, name, value, f"a whole number, {at_least} or more", hint)


def probability(*, hint: str = "Write a number such as 0.05.", **values: float) -> None:
    """Each value lies strictly between 0 and 1.

    >>> probability(delta=1.0)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: delta must be strictly between 0 and 1, got 1.0. Write a number such as 0.05.
    """
    for name, value in values.items():
        _require(_is_number(value) and 0 < value < 1, name, value, "strictly between 0 and 1", hint)


def delta(value: float) -> None:
    """A failure probability of (eps, delta)-DP: 0 (pure DP) or strictly between 0 and 1.

    >>> delta(1.5)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: delta must be at least 0 and below 1, got 1.5. It is the probability ...
    """
    hint = "It is the probability with which (eps, delta)-DP may fail; write 1e-5 or smaller."
    _require(_is_number(value) and 0 <= value < 1, "delta", value, "at least 0 and below 1", hint)


def one_of(options: Collection[str], *, hint: str = "", **values: str) -> None:
    """Each value is one of ``options``.

    >>> one_of(("pld", "rdp"), accountant="prv")
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: accountant must be one of pld, rdp, got 'prv'.
    """
    for name, value in values.items():
        if value not in options:
            raise InvalidInput(f"{name} must be one of {', '.join(options)}, got {value!r}. {hint}".rstrip())
