"""Trade-off curves: the smallest false-negative rate that a private run allows at each false-positive rate.

A curve ``f`` maps the false-positive rate ``alpha`` of a test between two neighbouring runs to the least
possible false-negative rate ``beta`` (Dong, Roth and Su 2022, Definition 2.1). The same guarantee reads as a
privacy profile, ``delta(epsilon) = max_alpha 1 - f(alpha) - e^epsilon alpha`` (their Proposition 2.12).
"""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpgap import _check
from dpgap.errors import InvalidInput

Floats = NDArray[np.float64]
_LARGEST_EXPONENT = 700.0
_NEWTON_STEPS = 100


def gaussian_delta(mu: ArrayLike, epsilon: ArrayLike) -> Floats:
    """The delta of ``N(0, 1)`` against ``N(mu, 1)`` at ``epsilon``, elementwise.

    ``delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``, computed as
    ``phi(x) (R(x) - R(x + mu))`` with ``x = epsilon/mu - mu/2`` and R the Mills ratio, so that nothing
    overflows and the two terms never cancel after rounding.

    **Edge cases**: ``mu <= 0`` gives ``max(0, 1 - e^epsilon)``; ``mu = inf`` gives 1; a negative epsilon is
    allowed (a profile is defined there too).

    Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 2.13.

    >>> gaussian_delta(1.0, [0.0, 1.0]).round(6).tolist()
    [0.382925, 0.126937]
    """
    mus, epsilons = np.broadcast_arrays(np.asarray(mu, dtype=float), np.asarray(epsilon, dtype=float))
    deltas = np.where(mus > 0, 1.0, np.maximum(-np.expm1(np.minimum(epsilons, 0.0)), 0.0))
    proper = (mus > 0) & np.isfinite(mus)
    m, e = mus[proper], epsilons[proper]
    finite = np.where(np.isfinite(e), e, 0.0)
    value = np.exp(np.minimum(_log_delta(finite / m - m / 2, m)[0], 0.0))
    deltas[proper] = np.where(e == np.inf, 0.0, np.where(e == -np.inf, 1.0, value))
    return deltas


def _log_delta(x: Floats, mu: Floats) -> tuple[Floats, Floats]:
    """``log delta`` at ``epsilon = mu (x + mu/2)``, and its derivative in x."""
    safe = np.maximum(x, -25.0)
    far, near = special.erfcx((safe + mu) / math.sqrt(2)), special.erfcx(safe / math.sqrt(2))
    log_phi = -0.5 * safe**2 - 0.5 * math.log(2 * math.pi)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = math.sqrt(math.pi / 2) * (near - far)
        log_delta = np.where(x > -25.0, log_phi + np.log(difference), _log_delta_of_sure_loss(x, mu))
        slope = -mu * math.sqrt(math.pi / 2) * far / difference
    return log_delta, slope


def _log_delta_of_sure_loss(x: Floats, mu: Floats) -> Floats:
    """``log delta`` where epsilon lies 25 standard deviations below the mean loss: ``Phi(-x)`` is 1."""
    log_second = mu * (x + mu / 2) + special.log_ndtr(-x - mu)
    return np.log1p(-np.exp(np.minimum(log_second, 0.0)))


def gaussian_epsilon(mu: ArrayLike, delta: float) -> Floats:
    """The smallest ``epsilon >= 0`` at which ``N(0, 1)`` against ``N(mu, 1)`` has at most ``delta``.

    Solves ``log delta(epsilon) = log delta`` by Newton's method in ``x = epsilon/mu - mu/2``, from
    ``x = Phi^-1(1 - delta)``, where delta(epsilon) is still below the target. ``log delta`` is concave and
    falling, so the iterates fall to the root and never pass it: no bracket, and rounding on the private side.

    **Edge cases**: ``mu <= 0`` gives 0; ``mu = inf`` gives inf; ``delta = 0`` gives inf for every ``mu > 0``.

    Dong, Roth and Su 2022, Corollary 2.13.

    >>> gaussian_epsilon([0.0, 1.0, 2.0, float("inf")], 1e-5).round(4).tolist()
    [0.0, 4.3772, 9.9973, inf]
    """
    _check.delta(delta)
    mus = np.asarray(mu, dtype=float)
    if np.isnan(mus).any():
        raise InvalidInput("mu must be a number, got nan. It is a distance between two means; write 1.0.")
    epsilons = np.where(mus > 0, np.inf, 0.0)
    if delta > 0:
        epsilons[gaussian_delta(mus, 0.0) <= delta] = 0.0
        solve = (epsilons > 0) & np.isfinite(mus)
        epsilons[solve] = _newton(mus[solve], delta)
    return epsilons


def _newton(mu: Floats, delta: float) -> Floats:
    target = math.log(delta)
    x = np.full_like(mu, -float(special.ndtri(delta)))
    active = np.arange(mu.size)
    for _ in range(_NEWTON_STEPS):
        value, slope = _log_delta(x[active], mu[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (target - value) / slope
        moved = np.isfinite(step) & (step < -1e-14 * np.maximum(1.0, np.abs(x[active])))
        x[active] += np.where(moved, step, 0.0)
        active = active[moved]
        if not active.size:
            break
    return np.maximum(mu * (x + mu / 2), 0.0)


class TradeOff(abc.ABC):
    """A convex, non-increasing curve with ``f(alpha) <= 1 - alpha``, and the profile it is dual to.

    Every implementation is final.
    """

    @abc.abstractmethod
    def __call__(self, alpha: ArrayLike) -> Floats:
        """The least false-negative rate at each false-positive rate ``alpha`` in [0, 1]."""

    @abc.abstractmethod
    def delta(self, epsilon: ArrayLike) -> Floats:
        """The privacy profile ``max_alpha 1 - f(alpha) - e^epsilon alpha`` at each ``epsilon``."""

    @abc.abstractmethod
    def epsilon(self, delta: float) -> float:
        """The smallest ``epsilon >= 0`` with ``delta(epsilon) <= delta``; inf where there is none."""


@final
@dataclass(frozen=True)
class EpsilonDelta(TradeOff):
    """The curve of (epsilon, delta)-DP: ``max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha))``.

    Wasserman and Zhou 2010, Theorem 2.4; Dong, Roth and Su 2022, equation (5).

    >>> EpsilonDelta(0.0, 0.1)([0.0, 0.5]).round(6).tolist()
    [0.9, 0.4]
    """

    eps: float
    failure: float

    def __post_init__(self) -> None:
        if not self.eps >= 0:
            raise InvalidInput(f"eps must be 0 or more, got {self.eps!r}. Write that of the guarantee.")
        _check.delta(self.failure)

    def __call__(self, alpha: ArrayLike) -> Floats:
        """The larger of the two lines, and 0."""
        a = np.asarray(alpha, dtype=float)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            steep = np.where(a > 0, 1 - self.failure - np.exp(self.eps + np.log(a)), 1 - self.failure)
        return np.maximum(np.maximum(steep, math.exp(-self.eps) * (1 - self.failure - a)), 0.0)

    def delta(self, epsilon: ArrayLike) -> Floats:
        """``failure`` from ``eps`` on; below it, the loss at the corner."""
        e = np.asarray(epsilon, dtype=float)
        mirror = np.where(e >= 0, self.failure, 1 - (1 - self.failure) * np.exp(np.minimum(e, 0.0)))
        if self.eps == math.inf:
            return np.where(e == np.inf, self.failure, 1.0)
        crossing = np.logaddexp(0.0, np.minimum(e, self.eps)) - np.logaddexp(0.0, self.eps)
        corner = 1 - (1 - self.failure) * np.exp(crossing)
        return np.where(np.abs(e) >= self.eps, mirror, corner)

    def epsilon(self, delta: float) -> float:
        """``eps``, or less where ``delta`` is above ``failure``."""
        _check.delta(delta)
        if delta >= self.failure:
            kept = math.log1p(-delta) - math.log1p(-self.failure) + float(np.logaddexp(0.0, self.eps))
            return min(self.eps, kept + math.log(-math.expm1(-kept)) if kept > math.log(2) else 0.0)
        return math.inf


@final
@dataclass(frozen=True)
class Gaussian(TradeOff):
    """The curve of mu-GDP, ``G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu)``.

    Dong, Roth and Su 2022, Definition 2.6. **Edge cases**: ``mu = inf`` allows no error at all.

    >>> round(float(1 - Gaussian(1.0)(0.1)), 6)
    0.389144
    """

    mu: float

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise InvalidInput(f"mu must be 0 or more, got {self.mu!r}. Write the mu of the GDP guarantee.")

    def __call__(self, alpha: ArrayLike) -> Floats:
        """``G_mu(alpha)``."""
        a = np.asarray(alpha, dtype=float)
        if self.mu == math.inf:
            return np.zeros_like(a)
        return np.asarray(special.ndtr(-special.ndtri(a) - self.mu), dtype=float)

    def delta(self, epsilon: ArrayLike) -> Floats:
        """``gaussian_delta(mu, epsilon)``."""
        return gaussian_delta(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        """``gaussian_epsilon(mu, delta)``."""
        return float(gaussian_epsilon(self.mu, delta))


@final
@dataclass(frozen=True)
class Sampled(TradeOff):
    """``P`` against ``(1 - rate) P + rate Q``, which of the two was drawn staying hidden.

    ``f_rate(alpha) = rate f(alpha) + (1 - rate)(1 - alpha)``, and for ``epsilon >= 0``
    ``delta_rate(epsilon) = rate delta(log(1 + (e^epsilon - 1) / rate))``: one step of a mechanism under
    Poisson sampling, in the direction in which the drawn record is revealed (at ``epsilon >= 0`` the worse
    one). With ``Gaussian(mu)`` this is the pair of the paper's Lemma 7. It is not symmetric:
    ``from_profile`` of its profile is the curve for both directions at once.

    Dong, Roth and Su 2022, Definition 4.1; Balle, Barthe and Gaboardi 2018, Theorem 8.

    >>> round(float(Sampled(Gaussian(1.0), 0.5)(0.5)), 6)
    0.329328
    """

    curve: TradeOff
    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise InvalidInput(f"rate must be above 0 and at most 1, got {self.rate!r}. 1 is no sampling.")

    def __call__(self, alpha: ArrayLike) -> Floats:
        """The mixture of the curve with guessing."""
        a = np.asarray(alpha, dtype=float)
        return self.rate * self.curve(a) + (1 - self.rate) * (1 - a)

    def delta(self, epsilon: ArrayLike) -> Floats:
        """The curve's own profile, at a larger epsilon and times ``rate``."""
        e = np.asarray(epsilon, dtype=float)
        floor = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        above = np.maximum(e, floor)
        with np.errstate(over="ignore", divide="ignore"):
            small = np.log(np.maximum(self.rate + np.expm1(above), 0.0)) - math.log(self.rate)
        large = above - math.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-np.maximum(above, 1.0)))
        # Below the floor the likelihood ratio never falls, so the whole space is the best test.
        return np.where(
            e > floor, self.rate * self.curve.delta(np.where(above > 1, large, small)), -np.expm1(e)
        )

    def epsilon(self, delta: float) -> float:
        """``log(1 + rate (e^inner - 1))`` with the curve's own epsilon at ``delta / rate``."""
        _check.delta(delta)
        if delta >= self.rate:
            return 0.0
        inner = self.curve.epsilon(delta / self.rate)
        if inner <= 1:
            return math.log1p(self.rate * math.expm1(inner))
        return inner + math.log(self.rate + (1 - self.rate) * math.exp(-inner))


@final
@dataclass(frozen=True, eq=False)
class PiecewiseLinear(TradeOff):
    """The convex curve through given corners, with ``alpha`` rising from 0 to 1.

    Only corners can attain the profile, so ``epsilon(delta) = max_i log((1 - beta_i - delta) / alpha_i)``:
    the formula of the paper's Lemma 6. Built by ``from_profile`` and ``convex_envelope``.
    """

    alphas: Floats
    betas: Floats

    def __call__(self, alpha: ArrayLike) -> Floats:
        """Linear interpolation between the corners."""
        return np.asarray(np.interp(np.asarray(alpha, dtype=float), self.alphas, self.betas), dtype=float)

    def delta(self, epsilon: ArrayLike) -> Floats:
        """The loss at the corner where the slope passes ``-e^epsilon``."""
        e = np.asarray(epsilon, dtype=float)
        # A corner is best while e^epsilon lies between the slopes on its two sides.
        steepness = np.maximum(-np.diff(self.betas) / np.diff(self.alphas), 0.0)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            corner = np.searchsorted(-np.log(steepness), -e, side="left")
            lost = np.where(self.alphas[corner] > 0, np.exp(e + np.log(self.alphas[corner])), 0.0)
        return np.maximum(1 - self.betas[corner] - lost, 0.0)

    def epsilon(self, delta: float) -> float:
        """The largest over the corners."""
        _check.delta(delta)
        gained = 1 - self.betas - delta
        useful = gained > 0
        if not useful.any():
            return 0.0
        with np.errstate(divide="ignore"):
            return max(0.0, float(np.max(np.log(gained[useful]) - np.log(self.alphas[useful]))))


def _lower_hull(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Corners of the largest convex function below points whose x rise strictly."""
    hull: list[tuple[float, float]] = []
    for point in zip(x.tolist(), y.tolist(), strict=True):
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    corners = np.array(hull)
    return corners[:, 0], corners[:, 1]


def _slope(left: tuple[float, float], right: tuple[float, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def convex_envelope(alpha: ArrayLike, beta: ArrayLike) -> PiecewiseLinear:
    """The largest convex curve below the points ``(alpha_i, beta_i)``, (0, 1) and (1, 0).

    **Guarantees**: every test between two runs that attains the points can be mixed into every point of the
    envelope. It changes no eps: the paper's Lemma 6.

    >>> convex_envelope([0.1, 0.2], [0.5, 0.7]).alphas.tolist()
    [0.0, 0.1, 1.0]
    """
    a = np.concatenate(([0.0], np.asarray(alpha, dtype=float).ravel(), [1.0]))
    b = np.concatenate(([1.0], np.asarray(beta, dtype=float).ravel(), [0.0]))
    if a.shape != b.shape or not ((a >= 0) & (a <= 1) & (b >= 0) & (b <= 1)).all():
        raise InvalidInput(
            f"alpha and beta must be as many rates in [0, 1], got {a.size - 2} and {b.size - 2} values. "
            "A rate outside [0, 1] is no error rate; write counts divided by the sample size."
        )
    order = np.lexsort((b, a))
    first = np.concatenate(([True], np.diff(a[order]) > 0))
    return PiecewiseLinear(*_lower_hull(a[order][first], b[order][first]))


def from_profile(epsilons: ArrayLike, deltas: ArrayLike) -> PiecewiseLinear:
    """The symmetric curve of all guarantees ``(epsilons_i, deltas_i)`` at once, epsilons >= 0.

    ``f = max_i max(1 - delta_i - e^eps_i alpha, e^-eps_i (1 - delta_i - alpha), 0)``.

    **Guarantees**: exact for exactly these guarantees, hence below the true curve of every mechanism that
    has them, also where a delta is an upper estimate: a point below ``f`` is impossible for the mechanism.

    **Edge cases**: guarantees with epsilon above 700 speak of rates below e^-700 and are left out, which
    lowers the curve.

    Dong, Roth and Su 2022, Proposition 2.12.

    >>> from_profile([0.0], [0.1]).alphas.tolist()
    [0.0, 0.45, 0.9, 1.0]
    """
    e, d = np.asarray(epsilons, dtype=float).ravel(), np.asarray(deltas, dtype=float).ravel()
    if e.shape != d.shape or not ((e >= 0).all() and ((d >= 0) & (d <= 1)).all()):
        raise InvalidInput(
            "epsilons and deltas must be as many numbers, epsilons 0 or more and deltas in [0, 1]. "
            "They are the points of one privacy profile."
        )
    used = e <= _LARGEST_EXPONENT
    gamma, order = np.unique(np.exp(np.append(e[used], 0.0)), return_inverse=True)
    delta = np.ones_like(gamma)
    np.minimum.at(delta, order, np.append(d[used], 1.0))
    return _from_lines(*_lower_hull(gamma, np.minimum.accumulate(delta)))


def _from_lines(gamma: Floats, delta: Floats) -> PiecewiseLinear:
    """The upper envelope of ``1 - delta - gamma alpha`` (gamma >= 1 rising) and its mirror image."""
    slopes, heights = gamma[::-1], 1 - delta[::-1]
    crossings = np.diff(heights) / np.diff(slopes)
    at_crossings = heights[:-1] - slopes[:-1] * crossings
    # The steepest lines come first; from the diagonal on, the mirror image is the higher one.
    kept = int(np.count_nonzero(crossings < at_crossings))
    middle = heights[kept] / (1 + slopes[kept])
    a = np.concatenate(([0.0], crossings[:kept], [middle]))
    b = np.concatenate((heights[:1], at_crossings[:kept], [middle]))
    a, b = np.concatenate((a, b[-2::-1], [1.0])), np.concatenate((b, a[-2::-1], [0.0]))
    # Rounding can put a crossing before the one that it follows.
    rising = np.concatenate(([True], a[1:] > np.maximum.accumulate(a)[:-1]))
    return PiecewiseLinear(a[rising], b[rising])


def mixture(weights: Sequence[float], curves: Sequence[TradeOff], epsilons: ArrayLike) -> PiecewiseLinear:
    """The curve of a mechanism that picks component i with probability ``weights_i`` and says which.

    ``delta(epsilon) = sum_i weights_i delta_i(epsilon)`` at ``epsilons``, joined by ``from_profile``.

    **Guarantees**: never above the true curve, and tangent to it at the slopes ``e^epsilons`` and their
    inverses. If the component stays hidden the curve is higher; for one hidden draw see ``Sampled``.

    >>> mixture([0.5, 0.5], [EpsilonDelta(0.0, 0.0), EpsilonDelta(0.0, 0.2)], [0.0])(0.0).item()
    0.9
    """
    if len(weights) != len(curves) or min(weights, default=-1) < 0 or not math.isclose(sum(weights), 1):
        raise InvalidInput(
            f"weights must be one probability per curve, summing to 1, got {list(weights)} for "
            f"{len(curves)} curves. Write [1 / len(curves)] * len(curves) for equal weights."
        )
    e = np.asarray(epsilons, dtype=float)
    total = np.sum([w * curve.delta(e) for w, curve in zip(weights, curves, strict=True)], axis=0)
    return from_profile(e, np.clip(total, 0.0, 1.0))
