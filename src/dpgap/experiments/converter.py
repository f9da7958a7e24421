"""Experiments to plain values and back: every variant by its kind, every mistake by its place."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import Any, Literal, get_args, get_origin

import cattrs
from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn

from dpgap.attacks.base import Attack
from dpgap.audits.base import Design
from dpgap.canaries.base import Canary
from dpgap.errors import DpgapError, InvalidInput
from dpgap.experiments import variants  # noqa: F401  a variant is known once its module is loaded
from dpgap.experiments.experiment import Calibrated, Dataset, Experiment, Network
from dpgap.privacy.guesses import Guesses
from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Sampling, Shuffled
from dpgap.signatures.base import Signature
from dpgap.signatures.parse import SHORT_NAMES, parse_signature
from dpgap.training.filter import parse_filter
from dpgap.training.options import PlainSGD

_CLOSED: dict[Any, dict[str, type]] = {
    Sampling: {"poisson": Poisson, "shuffled": Shuffled, "balls-in-bins": BallsInBins},
    Mechanism | Calibrated | PlainSGD: {"dp-sgd": Mechanism, "calibrated": Calibrated, "plain-sgd": PlainSGD},
}
_OPEN = (Signature, Canary, Attack, Design, Guesses)
_NAMED = (Dataset, Network)
"""Classes that a bare string stands for, as their name."""


def to_plain(experiment: Experiment) -> dict[str, Any]:
    """The experiment as dictionaries, lists, strings and numbers; what has its usual value is left out."""
    return _converter().unstructure(experiment)


def variant_to_plain(variant: Any, family: type) -> dict[str, Any]:
    """One of a ``family``'s variants, such as a `Canary`, with its kind."""
    return _converter().unstructure(variant, unstructure_as=family)


def from_plain(content: Mapping[str, Any]) -> Experiment:
    """The experiment that `to_plain` came from; also short forms: a kind or a name for its whole table.

    The short form of a filter is that of the command line, such as linf:5/class, or "none".

    **Edge cases**: an unknown key is refused with the nearest known one; a value of another type is refused,
    never converted: no string for a number, no 1 for true.
    """
    content = dict(content)
    short = content.pop("filter") if isinstance(content.get("filter"), str) else None
    try:
        experiment = _converter().structure(content, Experiment)
    except (BaseValidationError, DpgapError) as problem:
        mistakes = cattrs.transform_error(problem, path="", format_exception=_explained)
        raise InvalidInput("; ".join(map(_placed, mistakes))) from problem
    if short in (None, "none"):
        return experiment
    try:
        return replace(experiment, filter=parse_filter(short, max(1, round(experiment.steps_per_epoch))))
    except InvalidInput as problem:
        raise InvalidInput(f"filter: {problem}") from problem


@cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, omit_if_default=True)
    for kind, hook in _SCALARS.items():
        converter.register_structure_hook(kind, hook)
    for number in (float, int | float):
        converter.register_unstructure_hook(number, float)
    converter.register_structure_hook_func(lambda wanted: get_origin(wanted) is Literal, _literal)
    converter.register_structure_hook_factory(is_dataclass, partial(_table, converter))
    for union, kinds in _CLOSED.items():
        _register(converter, union, lambda kinds=kinds: kinds)
    for base in _OPEN:
        _register(
            converter, base, lambda base=base: {cls.id: cls for cls in sorted(base.__subclasses__(), key=_id)}
        )
    return converter


def _register(converter: cattrs.Converter, family: Any, kinds: Callable[[], dict[str, Any]]) -> None:
    """A member of ``family`` is a table with its kind, or the kind alone."""

    def structure(value: Any, _: Any) -> Any:
        if family is Signature and isinstance(value, str) and value in SHORT_NAMES:
            return parse_signature(value)
        table = {"kind": value} if isinstance(value, str) else dict(_mapping(value))
        kind = table.pop("kind", None)
        if kind not in kinds():
            names = list(kinds()) + (list(SHORT_NAMES) if family is Signature else [])
            raise InvalidInput(f"kind must be one of {', '.join(names)}, got {kind!r}.{_near(kind, names)}")
        return converter.structure(table, kinds()[kind])

    def unstructure(value: Any) -> dict[str, Any]:
        kind = next(name for name, member in kinds().items() if type(value) is member)
        return {"kind": kind, **converter.unstructure(value, unstructure_as=type(value))}

    converter.register_structure_hook_func(lambda wanted: wanted == family, structure)
    converter.register_unstructure_hook_func(lambda wanted: wanted == family, unstructure)


def _table(converter: cattrs.Converter, cls: Any) -> Callable[[Any, Any], Any]:
    structure = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True)

    def structured(value: Any, kind: Any) -> Any:
        if cls in _NAMED and isinstance(value, str):
            value = {"name": value}
        return structure(dict(_mapping(value)), kind)

    return structured


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"must be a table, got {value!r}")
    return value


def _id(variant: Any) -> str:
    return variant.id


def _float(value: Any, _: Any) -> float:
    if value in ("inf", "-inf"):
        return float(value)
    return float(_strict(value, int | float, "a number"))


def _int(value: Any, _: Any) -> int:
    return _strict(value, int, "a whole number")


def _bool(value: Any, _: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"must be true or false, got {value!r}")
    return value


def _str(value: Any, _: Any) -> str:
    return _strict(value, str, "a string")


def _strict(value: Any, kind: Any, name: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidInput(f"must be {name}, got {value!r}")
    return value


def _adjacency(value: Any, _: Any) -> Adjacency:
    return Adjacency(_one_of(value, list(Adjacency)))


def _literal(value: Any, kind: Any) -> Any:
    return _one_of(value, get_args(kind))


def _one_of(value: Any, names: Sequence[str]) -> str:
    if value not in names:
        raise InvalidInput(f"must be one of {', '.join(names)}, got {value!r}.{_near(value, names)}")
    return value


_SCALARS: dict[Any, Callable[[Any, Any], Any]] = {
    float: _float,
    int: _int,
    int | float: _float,
    bool: _bool,
    str: _str,
    Adjacency: _adjacency,
}


def _explained(problem: BaseException, kind: type | None) -> str:
    match problem:
        case ForbiddenExtraKeysError():
            known = [each.name for each in fields(problem.cl)]
            wrong = sorted(problem.extra_fields)
            return f"unknown key {wrong[0]!r}.{_near(wrong[0], known)} The keys are {', '.join(known)}"
        case KeyError():
            return "is missing"
        case DpgapError():
            return str(problem)
        case _:
            return f"cannot be {getattr(kind, '__name__', kind)}: {problem}"


def _placed(mistake: str) -> str:
    """Cattrs says "what @ .where"; people read the place first."""
    what, _, where = mistake.rpartition(" @ ")
    return f"{where.lstrip('.')}: {what}" if where else what


def _near(word: object, words: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(word), words, n=2)
    return f" Did you mean {' or '.join(near)}?" if near else ""
