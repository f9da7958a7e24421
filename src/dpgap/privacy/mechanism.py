"""What a private training run does, in one object that the trainer and the accountant both read."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from dpgap import _check
from dpgap.errors import InvalidInput

if TYPE_CHECKING:
    from dpgap.privacy.upper_bound import Accountant, UpperBound


_MOST_STEPS = 10**18


class Adjacency(StrEnum):
    """Which two datasets count as neighbours.

    - ``ADD_REMOVE``: one has one record more than the other.
    - ``REPLACE_ONE``: one record differs; both may contribute, so a sum moves by twice the clip norm.
    - ``ZERO_OUT``: both have the same public slots; one slot is switched off and contributes 0.
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """At every step each record is drawn with probability ``rate``, independently of everything else.

    >>> Poisson(rate=1.5)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: rate must be above 0 and at most 1, got 1.5. It is the probability ...
    """

    rate: float

    def __post_init__(self) -> None:
        _check.positive(rate=self.rate, hint="It is the probability of a draw; write 1 for full batches.")
        if self.rate > 1:
            raise InvalidInput(
                f"rate must be above 0 and at most 1, got {self.rate!r}. It is the probability that a step "
                "draws a given record; write expected_batch / records."
            )


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """Every epoch visits ``records`` public slots once, in random order, ``batch`` at a time.

    **Edge cases**: when ``batch`` does not divide ``records`` the epoch's last batch is short; it is
    never dropped, so an epoch has ``ceil(records / batch)`` steps.

    >>> Shuffled(batch=4, records=10).steps_per_round
    3
    """

    batch: int
    records: int

    def __post_init__(self) -> None:
        _check.count(batch=self.batch, records=self.records)
        if self.batch > self.records:
            raise InvalidInput(
                f"batch must be at most records={self.records}, got {self.batch}. A shuffled epoch visits "
                "every slot once; write the number of slots in one batch."
            )

    @property
    def rate(self) -> float:
        """The share of the slots that a full batch holds."""
        return self.batch / self.records

    @property
    def steps_per_round(self) -> int:
        """Steps in one epoch."""
        return -(-self.records // self.batch)


@dataclass(frozen=True, kw_only=True)
class BallsInBins:
    """Every round throws each record into one of ``batches`` bins, uniformly and independently."""

    batches: int

    def __post_init__(self) -> None:
        _check.count(batches=self.batches)

    @property
    def rate(self) -> float:
        """The probability that a given batch holds a given record."""
        return 1 / self.batches

    @property
    def steps_per_round(self) -> int:
        """Steps in one round."""
        return self.batches


Sampling = Poisson | Shuffled | BallsInBins


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """DP-SGD as its privacy proof sees it: the one owner of q, sigma, clip norm, denominator and steps.

    Each step releases ``(sum of clipped gradients of the drawn records + N(0, (noise_multiplier
    clip_norm)^2 I)) / expected_batch``.

    **Guarantees**: every field is a public constant, fixed before the data is seen; trainer and
    accountant read this object and recompute none of it.

    **Edge cases**: ``noise_multiplier`` 0 is allowed and has no finite bound. ``Shuffled`` is refused
    under ``ADD_REMOVE``: one record more moves every batch, so the pair of runs to compare is not defined.

    >>> run = Mechanism(sampling=Poisson(rate=0.01), clip_norm=1.0, noise_multiplier=1.0,
    ...                 expected_batch=100, steps=1000)
    >>> round(run.upper_bound(1e-5).value, 2)
    1.83
    """

    sampling: Sampling
    clip_norm: float
    noise_multiplier: float
    expected_batch: float
    steps: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        _check.positive(clip_norm=self.clip_norm, expected_batch=self.expected_batch)
        _check.non_negative(noise_multiplier=self.noise_multiplier)
        _check.count(steps=self.steps)
        if self.steps > _MOST_STEPS:
            raise InvalidInput(
                f"steps must be at most {_MOST_STEPS}, got {self.steps!r}. No run is so long; "
                "write how often it updates its model."
            )
        _check.one_of(tuple(Adjacency), adjacency=self.adjacency)
        if isinstance(self.sampling, Shuffled) and self.adjacency == Adjacency.ADD_REMOVE:
            raise InvalidInput(
                "adjacency must not be add-remove with Shuffled sampling, got 'add-remove'. One record more "
                "moves every later record to another batch, so no bound on one contribution covers it. "
                "Write adjacency=Adjacency.ZERO_OUT: the slots are public and one of them is switched off."
            )

    @property
    def rounds(self) -> int:
        """Rounds (epochs) begun: in each of them a record contributes once at most.

        **Edge cases**: a Poisson run has no rounds; each of its steps counts as one.

        >>> Mechanism(sampling=BallsInBins(batches=15), clip_norm=1.0, noise_multiplier=1.0,
        ...           expected_batch=4000, steps=31).rounds
        3
        """
        if isinstance(self.sampling, Poisson):
            return self.steps
        return -(-self.steps // self.sampling.steps_per_round)

    def upper_bound(self, delta: float, accountant: "Accountant" = "pld") -> "UpperBound":
        """The eps that ``accountant`` proves for this run at ``delta``; see ``dpgap.privacy.accounting``."""
        from dpgap.privacy.accounting import upper_bound

        return upper_bound(self, delta, accountant)
