"""eps_ub as a record: what is proved of a run, and what the proof rests on."""

from dataclasses import dataclass
from typing import Literal

from dpgap import _check
from dpgap.privacy.mechanism import Adjacency

Accountant = Literal["pld", "rdp", "rdp-lemma-1", "closed-form", "paper", "as-if-poisson"]

EVERYWHERE = (
    "rate, noise, clip norm, steps and denominator are public and were fixed before the data was seen",
    "the noise is Gaussian (floating point is not modelled) and the seed is secret",
)
"""What every bound of a mechanism rests on."""


@dataclass(frozen=True, kw_only=True)
class UpperBound:
    """An eps_ub with what it rests on: the run is (value, delta)-DP for ``adjacency``.

    **Guarantees**: where ``validity`` is ``proved`` the bound holds for the release of every model of the
    run (``covers``), hence of the final model alone. A ``heuristic`` one holds for a run that was not made.

    **Edge cases**: ``value`` is inf where nothing finite can be proved. A ``claimed`` bound is somebody's
    word, to be audited; it says for itself whether it covers every model or the ``final`` one alone.
    """

    value: float
    delta: float
    accountant: Accountant | Literal["claimed"]
    adjacency: Adjacency
    validity: Literal["proved", "heuristic", "claimed"]
    covers: Literal["full-state", "final"] = "full-state"
    assumptions: tuple[str, ...] = EVERYWHERE

    @classmethod
    def claimed(
        cls,
        value: float,
        *,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        covers: Literal["full-state", "final"] = "final",
    ) -> "UpperBound":
        """What somebody says of their training: that it is (value, delta)-DP.

        >>> UpperBound.claimed(1.0, delta=1e-5).validity
        'claimed'
        """
        _check.non_negative(value=value, hint="It is the claimed epsilon.")
        _check.delta(delta)
        return cls(
            value=value,
            delta=delta,
            accountant="claimed",
            adjacency=adjacency,
            validity="claimed",
            covers=covers,
            assumptions=("somebody claims so",),
        )
