"""Upper bounds: what a ``Mechanism`` provably leaks, as one eps, as a profile or as a trade-off curve.

The only file that imports ``dp_accounting``, and only inside functions: it takes a second.
"""

import logging
import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap import _check
from dpgap.errors import InvalidInput, NoAnswer
from dpgap.privacy.calibration import least_noise
from dpgap.privacy.composition import Loss, Steps, closed_form
from dpgap.privacy.mechanism import Adjacency, Mechanism, Poisson, Sampling
from dpgap.privacy.tradeoff import Gaussian, TradeOff, from_profile, gaussian_delta, gaussian_epsilon
from dpgap.privacy.upper_bound import EVERYWHERE, Accountant, UpperBound

Floats = NDArray[np.float64]

_SMALLEST_PLD_DELTA = 1e-12
_SMALLEST_PLD_DELTA_A_STEP = 1e-14
_ROUNDING_A_STEP = 1e-15  # what the Fourier transform may lose of delta, measured at most a tenth of it
_LARGEST_STEP_CELLS = 2**16
_LARGEST_COMPOSED_CELLS = 2**20
_SETTLED = 5e-5
_WORTH_SAYING = 1e-3
_WIDEST_CELL = 10.0
_TRADEOFF_DELTA = 1e-10
_LARGEST_EXPONENT = 700.0  # e^700 is still a float
_COARSE_ORDERS = (
    *(1 + k / 20 for k in range(1, 200)),
    *range(11, 64),
    *range(64, 257, 16),
    *(2**k for k in range(9, 15)),
)
_INTEGER_ORDERS = tuple(range(2, 65))

_ROUNDS = "a record contributes once a round, no amplification is claimed, and filters act at round ends only"


class _Composed(Protocol):
    """What is used of dp-accounting's composed privacy-loss distribution."""

    def get_delta_for_epsilon(self, epsilon: Any) -> Any: ...

    def get_epsilon_for_delta(self, delta: float) -> float: ...


def upper_bound(mechanism: Mechanism, delta: float, accountant: Accountant = "pld") -> UpperBound:
    """The eps at which ``accountant`` proves ``mechanism`` (eps, delta)-DP.

    - ``pld``: the privacy-loss distribution of dp-accounting, on a grid refined until eps settles;
    - ``rdp``: Renyi orders, refined about the best; tight conversion (Canonne, Kamath and Steinke 2020);
    - ``rdp-lemma-1``: the same with the looser conversion of the paper's Lemma 1 (Mironov 2017, Prop. 3);
    - ``closed-form``: Mironov, Talwar and Zhang 2019, Theorem 11; see ``closed_form``;
    - ``paper``: what the paper's noise was calibrated with: integer orders; see ``_paper_epsilon``;
    - ``as-if-poisson``: shuffled batches or balls in bins accounted as Poisson samples: heuristic.

    **Guarantees**: the discretised loss of ``pld`` dominates the true one on any grid (Doroshenko et al.
    2022, Theorem 3.3), so a coarse grid costs tightness, never validity; never above the Gaussian bound
    without amplification, which is exact at rate 1. ``Shuffled`` and ``BallsInBins`` are proved as one
    Gaussian a round, mu = sqrt(rounds) / noise_multiplier, twice that under replace-one.

    **Edge cases**: no noise gives inf; ``delta`` 0 gives inf. For delta below 1e-12 or 1e-14 a step,
    and where the grid would not fit into memory, ``pld`` takes the better of RDP and the Gaussian bound,
    and says so. Rates below 1e-50 and noise multipliers beyond 1e-50 or 1e50 are accounted as the nearest
    that leak more.
    An accountant that has no answer raises ``NoAnswer`` with the reason.

    >>> run = Mechanism(sampling=Poisson(rate=1 / 15), clip_norm=1.0, noise_multiplier=1.593,
    ...                 expected_batch=4000, steps=1500)
    >>> [round(upper_bound(run, 1e-5, accountant).value, 1) for accountant in ("pld", "rdp", "paper")]
    [9.0, 9.7, 10.0]
    """
    _check.delta(delta)
    _check.one_of(get_args(Accountant), accountant=accountant)
    steps = _as_poisson(mechanism) if accountant == "as-if-poisson" else _as_accounted(mechanism)
    value, notes = _epsilon(steps, delta, accountant)
    heuristic = accountant == "as-if-poisson"
    if heuristic:
        notes = ("the batches are analysed as Poisson samples, which they are not", *notes)
    elif not isinstance(mechanism.sampling, Poisson):
        notes = (_ROUNDS, *notes)
    return UpperBound(
        value=value,
        delta=delta,
        accountant=accountant,
        adjacency=mechanism.adjacency,
        validity="heuristic" if heuristic else "proved",
        assumptions=(*EVERYWHERE, *notes),
    )


def calibrate(
    epsilon: float,
    delta: float,
    *,
    sampling: Sampling,
    clip_norm: float,
    expected_batch: float,
    steps: int,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    accountant: Accountant = "pld",
) -> Mechanism:
    """The mechanism with the least noise whose bound is at most ``epsilon``.

    **Guarantees**: ``result.upper_bound(delta, accountant).value <= epsilon``, always: the noise multiplier
    is rounded up to five digits and the bound is computed again. It is least to about 0.01 %.

    **Edge cases**: where the accountant has no answer at any noise, its ``NoAnswer`` is raised.

    >>> run = calibrate(10.0, 1e-5, sampling=Poisson(rate=1 / 15), clip_norm=1.0, expected_batch=4000,
    ...                 steps=1500, accountant="paper")
    >>> round(run.noise_multiplier, 3)
    1.593
    """
    _check.positive(epsilon=epsilon)
    _check.probability(delta=delta)
    run = Mechanism(
        sampling=sampling,
        clip_norm=clip_norm,
        noise_multiplier=1.0,
        expected_batch=expected_batch,
        steps=steps,
        adjacency=adjacency,
    )

    def excess(sigma: float) -> float:
        trial = replace(run, noise_multiplier=sigma)
        ratio = upper_bound(trial, delta, accountant).value / epsilon
        return min(max(math.log(ratio), -50.0), 50.0) if ratio > 0 else -50.0

    return replace(run, noise_multiplier=least_noise(excess))


def profile(mechanism: Mechanism, epsilons: ArrayLike) -> Floats:
    """Upper bounds on delta at each epsilon >= 0, both directions of the pair at once.

    **Guarantees**: never below the true profile: a discretised loss dominates the true one on any grid,
    and the Gaussian bound without sampling is taken where it is smaller. Some 0.01 % too high in epsilon.

    **Edge cases**: no noise gives 1. Shuffled batches and balls in bins: see ``upper_bound``.

    >>> run = Mechanism(sampling=Poisson(rate=0.2), clip_norm=1.0, noise_multiplier=0.5,
    ...                 expected_batch=1, steps=3)
    >>> profile(run, [1.0]).round(4).tolist()
    [0.1559]
    """
    asked = np.asarray(epsilons, dtype=float)
    if not (asked >= 0).all():
        raise InvalidInput("epsilons must be 0 or more. A guarantee below 0 says nothing about a neighbour.")
    steps = _as_accounted(mechanism)
    deltas = gaussian_delta(steps.mu, asked)
    composed = None if steps.is_gaussian else _one_grid(steps, fineness=128, cells=2**15)
    return deltas if composed is None else np.clip(_deltas(composed, asked, steps), 0.0, deltas)


def tradeoff(mechanism: Mechanism) -> TradeOff:
    """The trade-off curve of the whole run, both directions of the pair at once, on a coarse grid.

    Lines ``1 - delta - e^epsilon alpha`` and their mirror images from the discretised privacy loss at some
    400 epsilons; exact (``Gaussian``) at rate 1.

    **Guarantees**: never above the true curve, since every delta is an upper estimate. Hence a test whose
    error rates lie below the curve is impossible for this run, and calling the run refuted is safe. The
    curve's own ``epsilon(delta)`` errs upwards, by some 0.2 % where the loss is nearly Gaussian: for an eps
    to quote as an upper bound ask ``upper_bound``.

    **Edge cases**: no noise gives the zero curve; a run too long for the grid gets the Gaussian curve
    without amplification, which lies below the true one as well.

    >>> run = Mechanism(sampling=Poisson(rate=1), clip_norm=1.0, noise_multiplier=3**0.5,
    ...                 expected_batch=1, steps=3)
    >>> round(1 - float(tradeoff(run)(0.1)), 4)
    0.3891
    """
    steps = _as_accounted(mechanism)
    composed = None if steps.is_gaussian else _one_grid(steps, fineness=8, cells=2**12)
    if composed is None:
        return Gaussian(steps.mu)
    top = min(_epsilon_at(composed, _TRADEOFF_DELTA), _LARGEST_EXPONENT)
    epsilons = np.unique(np.concatenate((np.linspace(0, top, 200), np.geomspace(1e-4, 1, 200) * top)))
    return from_profile(
        epsilons, np.clip(_deltas(composed, epsilons, steps), 0.0, gaussian_delta(steps.mu, epsilons))
    )


def _as_accounted(mechanism: Mechanism) -> Steps:
    sampling, two_sided = mechanism.sampling, mechanism.adjacency == Adjacency.REPLACE_ONE
    rate = sampling.rate if isinstance(sampling, Poisson) else 1.0
    return Steps.within_floats(rate, mechanism.noise_multiplier, mechanism.rounds, two_sided)


def _as_poisson(mechanism: Mechanism) -> Steps:
    if isinstance(mechanism.sampling, Poisson):
        raise InvalidInput(
            "accountant must not be as-if-poisson for Poisson sampling, got 'as-if-poisson'. Its figures are "
            "heuristic and this run has a proof; write accountant='pld'."
        )
    two_sided = mechanism.adjacency == Adjacency.REPLACE_ONE
    return Steps.within_floats(
        mechanism.sampling.rate, mechanism.noise_multiplier, mechanism.steps, two_sided
    )


def _epsilon(steps: Steps, delta: float, accountant: Accountant) -> tuple[float, tuple[str, ...]]:
    if steps.sigma == 0 or delta == 0:
        return math.inf, ()
    match accountant:
        case "rdp" | "rdp-lemma-1":
            return _renyi_epsilon(steps, delta, accountant), ()
        case "paper":
            return _paper_epsilon(steps, delta), ()
        case "closed-form":
            return closed_form(steps, delta), ()
        case "pld" | "as-if-poisson":
            return _pld_epsilon(steps, delta)


def _renyi(steps: Steps, orders: Sequence[float]) -> tuple[Floats, Floats]:
    if steps.two_sided and steps.rate < 1:
        raise NoAnswer(
            f"Renyi accounting has no answer for replace-one with sampling rate {steps.rate}: the known "
            "formula compares a sampled Gaussian with an unsampled one, and here both neighbours are "
            "sampled. Ask accountant='pld', or adjacency add-remove or zero-out."
        )
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, rdp  # pyright: ignore[reportMissingTypeStubs]

    sigma = steps.sigma / (1 + steps.two_sided)
    accountant = rdp.RdpAccountant(orders)
    with _without_warnings():
        accountant.compose(PoissonSampledDpEvent(steps.rate, GaussianDpEvent(sigma)), steps.steps)
    # A divergence below rounding may come out negative; rounding is charged, never gained.
    return np.asarray(orders, dtype=float), np.maximum(accountant.rdp, 0.0) + steps.steps * 1e-15


@contextmanager
def _without_warnings() -> Generator[None]:
    """Drop the library's notes on orders that do not converge: they are infinite, so they bound nothing."""
    logger = logging.getLogger("absl")
    logger.addFilter(_about_other_things)
    try:
        yield
    finally:
        logger.removeFilter(_about_other_things)


def _about_other_things(record: logging.LogRecord) -> bool:
    return "failed to converge" not in record.msg


def _renyi_epsilon(steps: Steps, delta: float, conversion: Literal["rdp", "rdp-lemma-1"]) -> float:
    """The least over the orders, and over finer orders about the best; each order is a valid bound."""

    def bounds(orders: Sequence[float]) -> Floats:
        order, divergence = _renyi(steps, orders)
        if conversion == "rdp-lemma-1":
            return divergence - math.log(delta) / (order - 1)
        return divergence + np.log1p(-1 / order) - np.log(delta * order) / (order - 1)

    coarse = bounds(_COARSE_ORDERS)
    best = int(np.argmin(coarse))
    around = _COARSE_ORDERS[max(best - 1, 0)], _COARSE_ORDERS[min(best + 1, len(_COARSE_ORDERS) - 1)]
    fine = bounds(np.linspace(*around, 41).tolist()) if around[1] <= 64 else coarse
    return max(0.0, float(min(coarse.min(), fine.min())))


def _paper_epsilon(steps: Steps, delta: float) -> float:
    """The accountant behind the paper's noise multipliers (5.670 at eps 2, 1.593 at eps 10, on MNIST).

    ``min over integer alpha of T rho(alpha) + log(1 - 1/alpha) - log(delta (alpha - 1)) / (alpha - 1)``.

    **Guarantees**: a valid bound: above the tight conversion (Canonne, Kamath and Steinke 2020,
    Proposition 12), which has ``delta alpha`` in place of ``delta (alpha - 1)``.
    """
    order, divergence = _renyi(steps, _INTEGER_ORDERS)
    bounds = divergence + np.log1p(-1 / order) - np.log(delta * (order - 1)) / (order - 1)
    return max(0.0, float(bounds.min()))


def _pld_epsilon(steps: Steps, delta: float) -> tuple[float, tuple[str, ...]]:
    gaussian = float(gaussian_epsilon(steps.mu, delta))
    if steps.rate == 1:
        return gaussian, ("rate 1: the Gaussian bound, which is exact",)
    least = max(_SMALLEST_PLD_DELTA, steps.steps * _SMALLEST_PLD_DELTA_A_STEP)
    if delta < least:
        return _without_grid(
            steps, delta, gaussian, f"delta is below {least:.0e}, where the grid is rounding"
        )
    if not steps.fits_a_grid:
        return _without_grid(steps, delta, gaussian, "no grid can hold the run")
    target, log_tail = delta - steps.steps * _ROUNDING_A_STEP, steps.log_tail(delta)
    loss = Loss(steps, log_tail)
    finest = max(
        loss.finest, loss.extent / _LARGEST_STEP_CELLS, loss.composed_extent() / _LARGEST_COMPOSED_CELLS
    )
    width = max(min(loss.spread / 2, _WIDEST_CELL), loss.finest)
    if width < finest:
        return _without_grid(steps, delta, gaussian, "no grid can hold the run")
    value, error, ratio = _epsilon_at(_compose(steps, width, log_tail), target), math.inf, 2.0
    while error > _SETTLED * value and width > finest:
        ratio = min(ratio, width / finest)
        width /= ratio
        finer = _epsilon_at(_compose(steps, width, log_tail), target)
        # What a grid adds to eps is proportional to the square of its width.
        error = abs(value - finer) / max(ratio**2 - 1, 1.0) if math.isfinite(value) else math.inf
        known = math.isfinite(error) and finer > 0
        ratio = min(max(math.sqrt(error / (_SETTLED * finer)), 2.0), 8.0) if known else 2.0
        value = min(value, finer)
    coarse = error > _WORTH_SAYING * value
    notes = ("the grid could be refined no further: a valid bound, not the least",) if coarse else ()
    return min(value, gaussian), notes


def _without_grid(steps: Steps, delta: float, gaussian: float, reason: str) -> tuple[float, tuple[str, ...]]:
    if steps.two_sided:
        return gaussian, (f"{reason}: the Gaussian bound without amplification",)
    return min(gaussian, _renyi_epsilon(steps, delta, "rdp")), (f"{reason}: the better of RDP and Gaussian",)


def _one_grid(steps: Steps, *, fineness: int, cells: int) -> _Composed | None:
    """The composed loss with ``fineness`` cells to a spread, or wider ones so that a step has ``cells``."""
    if not steps.fits_a_grid:
        return None
    log_tail = steps.log_tail(_TRADEOFF_DELTA)
    loss = Loss(steps, log_tail)
    width = max(
        loss.spread / fineness, loss.extent / cells, loss.composed_extent() / (16 * cells), loss.finest
    )
    return _compose(steps, width, log_tail) if width <= _WIDEST_CELL else None


def _compose(steps: Steps, width: float, log_tail: float) -> _Composed:
    from dp_accounting import NeighboringRelation  # pyright: ignore[reportMissingTypeStubs]
    from dp_accounting.pld import privacy_loss_distribution  # pyright: ignore[reportMissingTypeStubs]

    relation = NeighboringRelation.REPLACE_ONE if steps.two_sided else NeighboringRelation.ADD_OR_REMOVE_ONE
    one = privacy_loss_distribution.from_gaussian_mechanism(
        steps.sigma,
        value_discretization_interval=width,
        log_mass_truncation_bound=log_tail,
        sampling_prob=steps.rate,
        neighboring_relation=relation,
    )
    return one.self_compose(steps.steps)


def _deltas(composed: _Composed, epsilons: Floats, steps: Steps) -> Floats:
    ordered, inverse = np.unique(epsilons, return_inverse=True)
    small = composed.get_delta_for_epsilon(ordered[ordered <= _LARGEST_EXPONENT])
    large = [composed.get_delta_for_epsilon(float(e)) for e in ordered[ordered > _LARGEST_EXPONENT]]
    rounding = steps.steps * _ROUNDING_A_STEP
    return np.concatenate((small, large))[inverse].reshape(epsilons.shape) + rounding


def _epsilon_at(composed: _Composed, delta: float) -> float:
    if composed.get_delta_for_epsilon(0.0) <= delta:
        return 0.0
    # Where the mass of the other run underflows the library's ratio is inf, and so is the bound.
    with np.errstate(over="ignore"):
        return float(composed.get_epsilon_for_delta(delta))
