"""Experiments in files: TOML and JSON both ways, changes by path, and sweeps."""

import itertools
import json
import tomllib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import tomli_w

from dpgap._plain import plain
from dpgap.errors import InvalidInput
from dpgap.experiments.converter import from_plain, to_plain
from dpgap.experiments.experiment import Experiment

SWEEP = "sweep"
"""The table whose lists are tried in all combinations: ``"mechanism.epsilon" = [2, 4, 8]``."""

Plain = dict[str, Any]


def read_experiments(path: Path, changes: Iterable[str] = ()) -> list[Experiment]:
    """The experiments of a .toml or .json file: one, or one for each combination of its ``sweep``.

    ``changes`` are written ``a.b=value``, the value as in TOML or a bare word, and come before the sweep.
    """
    return expanded(changed(_read(path), changes))


def expanded(content: Plain) -> list[Experiment]:
    """One experiment for each combination of the lists in ``sweep``, the last list changing fastest."""
    sweep = content.get(SWEEP, {})
    if not isinstance(sweep, Mapping) or not all(
        isinstance(values, list) and values for values in sweep.values()
    ):
        raise InvalidInput(
            f"{SWEEP} must give a list of values for each path, got {sweep!r}. Write a table: "
            '[sweep], then "mechanism.epsilon" = [2.0, 4.0, 8.0].'
        )
    rest = {name: value for name, value in content.items() if name != SWEEP}
    experiments: list[Experiment] = []
    for values in itertools.product(*sweep.values()):
        one = deepcopy(rest)
        for where, value in zip(sweep, values, strict=True):
            _put(one, where, value)
        experiments.append(from_plain(one))
    return experiments


def changed(content: Plain, changes: Iterable[str]) -> Plain:
    """A copy with each ``a.b=value`` put in its place.

    >>> changed({"design": {"models": 400}}, ["design.models=20", "filter=linf:5/class"])
    {'design': {'models': 20}, 'filter': 'linf:5/class'}
    """
    content = deepcopy(content)
    for change in changes:
        where, equals, value = change.partition("=")
        if not equals or not where:
            raise InvalidInput(f"A change must look like mechanism.steps=30, got {change!r}.")
        _put(content, where.strip(), _value(value.strip()))
    return content


def to_toml(experiment: Experiment) -> str:
    """The experiment as a file that `read_experiments` reads; what has its usual value is left out."""
    return tomli_w.dumps(to_plain(experiment))


def to_json(experiment: Experiment) -> str:
    """The same as JSON; infinities are strings."""
    return json.dumps(plain(to_plain(experiment)), indent=2, allow_nan=False)


def _read(path: Path) -> Plain:
    readers = {".toml": tomllib.loads, ".json": json.loads}
    if path.suffix not in readers:
        raise InvalidInput(f"The specification must be a .toml or .json file, got {str(path)!r}.")
    try:
        content = readers[path.suffix](path.read_text("utf-8"))
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read: {problem.strerror}. Check the path.") from problem
    except ValueError as problem:  # also what TOML, JSON and UTF-8 raise
        raise InvalidInput(
            f"{path} is no {path.suffix[1:].upper()}: {problem}. Mend that place."
        ) from problem
    if not isinstance(content, dict):
        raise InvalidInput(f"{path} must hold an object, got {type(content).__name__}.")
    return content


def _value(text: str) -> Any:
    """What TOML makes of ``text``; a word that is no TOML is itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _put(content: Plain, where: str, value: Any) -> None:
    *tables, last = where.split(".")
    place: Any = content
    for done, name in enumerate(tables):
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            at = ".".join(tables[: done + 1])
            raise InvalidInput(
                f"{where} cannot be set: {at} is the short form {place!r}, without fields of its own. Write "
                f"{at} as a table in the file."
            )
    place[last] = value
