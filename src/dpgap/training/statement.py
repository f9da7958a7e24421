"""The privacy statement of a run: what is proved of it, and what the proof rests on."""

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from dpgap.errors import NoAnswer
from dpgap.privacy.mechanism import Mechanism
from dpgap.privacy.upper_bound import Accountant, UpperBound
from dpgap.training.dpsgd import ETA
from dpgap.training.filter import Filter
from dpgap.training.options import PlainSGD, Precision

_REPORTED: tuple[Accountant, ...] = ("pld", "rdp")
_NO_CLAIM = "plain SGD adds no noise: nothing is proved of it"
_SECRET_SEED = (
    "the seed was drawn from the system and is kept nowhere but in the private results",
    "the seed was given: eps_ub holds only while it stays secret, now and later",
)
_CHOICES = (
    "choices made by looking at the private data (hyper-parameters, this run among several) are not covered"
)
_SCORES = (
    "the filter removes the planned number at public moments, by scores of single records whose bits do "
    "not depend on the batch; it changes no bound"
)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What may be said in public of the privacy of a run; made of public constants only.

    ``eta``: a clipped contribution has norm at most ``clip_norm (1 + eta)``, so the noise multiplier is
    accounted as ``noise_multiplier / (1 + eta)``. ``planned_maximum`` is the most records that the filter
    can remove; how many it did, and whom, is private.

    >>> from dpgap.privacy.mechanism import Poisson
    >>> run = Mechanism(sampling=Poisson(rate=0.01), clip_norm=1.0, noise_multiplier=1.0,
    ...                 expected_batch=100, steps=1000)
    >>> statement = Statement(mechanism=run, filter=None, planned_maximum=0, delta=1e-5,
    ...                       precision="fp32", seed_given=False)
    >>> {name: round(bound.value, 2) for name, bound in statement.upper_bounds.items()}
    {'pld': 1.83, 'rdp': 2.1}
    """

    mechanism: Mechanism | PlainSGD
    filter: Filter | None
    planned_maximum: int
    delta: float
    precision: Precision
    seed_given: bool
    eta: float = ETA
    threat_model: str = "full-state: the attacker sees every released model and may have made any record"

    @cached_property
    def upper_bounds(self) -> dict[Accountant, UpperBound | NoAnswer]:
        """eps_ub by each accountant, or its reason for having none; empty for plain SGD."""
        if isinstance(self.mechanism, PlainSGD):
            return {}
        run = accounted(self.mechanism, self.eta)
        return {name: _answer(run, self.delta, name) for name in _REPORTED}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the figures rest on, for a reader who was not there."""
        if isinstance(self.mechanism, PlainSGD):
            return (_NO_CLAIM,)
        bounds = (bound for bound in self.upper_bounds.values() if isinstance(bound, UpperBound))
        stated = dict.fromkeys(line for bound in bounds for line in bound.assumptions)
        filtered = (_SCORES,) if self.filter else ()
        return (*stated, _SECRET_SEED[self.seed_given], _CHOICES, *filtered)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, which has no infinity: an infinite eps_ub becomes ``"inf"``."""
        return {
            "eps_ub": {name: _plain_bound(bound) for name, bound in self.upper_bounds.items()},
            "delta": self.delta,
            "adjacency": self.mechanism.adjacency.value if isinstance(self.mechanism, Mechanism) else None,
            "threat_model": self.threat_model,
            "assumptions": list(self.assumptions),
            "planned_maximum_of_removals": self.planned_maximum,
            "mechanism": _kind(self.mechanism) | {"sampling": _kind(self.mechanism.sampling)},
            "filter": _plain_filter(self.filter),
            "precision": self.precision,
            "eta": self.eta,
        }


def accounted(mechanism: Mechanism, eta: float = ETA) -> Mechanism:
    """The mechanism to account for where clipped norms reach ``clip_norm (1 + eta)``: with less noise."""
    return replace(mechanism, noise_multiplier=mechanism.noise_multiplier / (1 + eta))


@lru_cache(maxsize=256)
def _answer(mechanism: Mechanism, delta: float, accountant: Accountant) -> UpperBound | NoAnswer:
    """Cached, as an audit asks the same of every model that it trains."""
    try:
        return mechanism.upper_bound(delta, accountant)
    except NoAnswer as reason:
        return reason


def _plain_bound(bound: UpperBound | NoAnswer) -> float | str:
    if isinstance(bound, NoAnswer):
        return f"no answer: {bound}"
    return "inf" if math.isinf(bound.value) else bound.value


def _kind(described: Any) -> dict[str, Any]:
    return {"kind": type(described).__name__} | asdict(described)


def _plain_filter(filter: Filter | None) -> dict[str, Any] | None:  # noqa: A002
    if filter is None:
        return None
    return asdict(filter) | {"signature": repr(filter.signature)}
