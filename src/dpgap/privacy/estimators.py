"""Estimators: from the errors of a test to the privacy loss that they refute."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, betaincinv, ndtri

from dpgap.privacy.accounting import tradeoff
from dpgap.privacy.counts import ErrorCounts
from dpgap.privacy.intervals import clopper_pearson_upper, jeffreys_upper
from dpgap.privacy.mechanism import Adjacency, Mechanism, Poisson
from dpgap.privacy.rules import Candidates, Validity
from dpgap.privacy.tradeoff import TradeOff, gaussian_epsilon

Floats = NDArray[np.float64]

_LEAST_NOISE = 2.0**-20
_SUREST = 1 - 1e-12  # what a posterior, summed with rounding, is certain to reach


class Estimator(ABC):
    """How limits on two error rates become a lower bound on epsilon."""

    id: ClassVar[str]
    validity: ClassVar[Validity]
    assumptions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def upper(self, errors: ArrayLike, trials: int, level: ArrayLike) -> Floats:
        """The upper limit of one error rate."""

    @abstractmethod
    def best(self, candidates: Candidates, delta: float) -> tuple[int, float]:
        """The index of the candidate that refutes most, and the epsilon that it refutes (maybe negative)."""

    @abstractmethod
    def quantile(self, fpr: Floats, fnr: Floats, delta: float, share: float) -> float:
        """The ``share`` quantile of the epsilons that pairs of error rates, known exactly, refute."""

    def interval(
        self, candidates: Candidates, index: int, delta: float, confidence: float
    ) -> tuple[float, float] | None:
        """Its own two-sided interval for the epsilon of a candidate, if it has one."""
        return None

    def limits(self, candidates: Candidates) -> tuple[Floats, Floats]:
        """The upper limits of both error rates at every candidate."""
        charged = candidates.charged
        return (
            self._limits(charged.false_positives, charged.n_outside, candidates.fpr_level),
            self._limits(charged.false_negatives, charged.n_inside, candidates.fnr_level),
        )

    def _limits(self, errors: NDArray[np.int64], trials: int, level: Floats) -> Floats:
        # A rule's level depends on the count alone, and a band charges few counts at many thresholds.
        counts, first, inverse = np.unique(errors, return_index=True, return_inverse=True)
        return self.upper(counts, trials, level[first])[inverse]


class Separable(Estimator):
    """An estimator whose strength is the largest of sums of a part of fpr and a part of fnr.

    So it can be tabulated by count, which bounds 60,000 records at every threshold in seconds.
    """

    @abstractmethod
    def parts(self, fpr: Floats, fnr: Floats, delta: float) -> tuple[tuple[Floats, Floats], ...]:
        """Pairs of (part of fpr, part of fnr); the strength is the largest sum of a pair."""

    @abstractmethod
    def epsilon(self, strength: Floats, delta: float) -> Floats:
        """The epsilon of a strength: increasing."""

    def strength(self, fpr: Floats, fnr: Floats, delta: float) -> Floats:
        """The strength of each pair of rates."""
        with np.errstate(invalid="ignore"):
            sums = np.fmax.reduce([one + other for one, other in self.parts(fpr, fnr, delta)])
        # A test that flags nobody, or everybody, sums infinities of both signs: it refutes nothing.
        return np.where(np.isnan(sums), -np.inf, sums)

    def best(self, candidates: Candidates, delta: float) -> tuple[int, float]:
        """The strongest candidate."""
        strength = self.strength(*self.limits(candidates), delta)
        index = int(np.argmax(strength))
        return index, float(self.epsilon(strength[index : index + 1], delta)[0])

    def quantile(self, fpr: Floats, fnr: Floats, delta: float, share: float) -> float:
        """The epsilon of a quantile of the strengths, as one increases with the other."""
        strength = np.quantile(self.strength(fpr, fnr, delta), share, method="inverted_cdf", keepdims=True)
        return float(self.epsilon(strength, delta)[0])


def _refuted_epsilon(fpr: Floats, fnr: Floats, delta: float) -> tuple[tuple[Floats, Floats], ...]:
    """(eps, delta)-DP asks that 1 - fnr <= e^eps fpr + delta, and the same with the worlds exchanged."""
    with np.errstate(divide="ignore"):
        return (
            (-np.log(fpr), np.log(np.maximum(1.0 - delta - fnr, 0.0))),
            (np.log(np.maximum(1.0 - delta - fpr, 0.0)), -np.log(fnr)),
        )


@final
@dataclass(frozen=True)
class ClopperPearson(Separable):
    """Assumes nothing: (eps, delta)-DP is refuted by a test whose error rates are too small for it.

    eps_lb is the larger of ``log((1 - fnr - delta)/fpr)`` and ``log((1 - fpr - delta)/fnr)`` at
    Clopper-Pearson upper limits of both rates (Jagielski, Ullman and Oprea 2020, Algorithm 1).

    **Guarantees**: certified with any certified rule.
    """

    id: ClassVar[str] = "clopper-pearson"
    validity: ClassVar[Validity] = "certified"

    def upper(self, errors: ArrayLike, trials: int, level: ArrayLike) -> Floats:
        """The Clopper-Pearson limit."""
        return clopper_pearson_upper(errors, trials, level)

    def parts(self, fpr: Floats, fnr: Floats, delta: float) -> tuple[tuple[Floats, Floats], ...]:
        """Both directions of the inequality, in logarithms."""
        return _refuted_epsilon(fpr, fnr, delta)

    def epsilon(self, strength: Floats, delta: float) -> Floats:
        """The strength itself."""
        return strength


@final
@dataclass(frozen=True)
class Jeffreys(Separable):
    """As Clopper-Pearson, with posterior quantiles under Jeffreys' prior in place of the limits.

    **Guarantees**: Bayesian, with that prior on each rate; none over repetitions.
    """

    id: ClassVar[str] = "jeffreys"
    validity: ClassVar[Validity] = "model-based"
    assumptions: ClassVar[tuple[str, ...]] = ("Bayesian: Jeffreys' prior on each error rate",)

    def upper(self, errors: ArrayLike, trials: int, level: ArrayLike) -> Floats:
        """The posterior quantile."""
        return jeffreys_upper(errors, trials, level)

    def parts(self, fpr: Floats, fnr: Floats, delta: float) -> tuple[tuple[Floats, Floats], ...]:
        """Both directions of the inequality, in logarithms."""
        return _refuted_epsilon(fpr, fnr, delta)

    def epsilon(self, strength: Floats, delta: float) -> Floats:
        """The strength itself."""
        return strength


@final
@dataclass(frozen=True)
class Gaussian(Separable):
    """Extrapolates along a Gaussian trade-off curve: the paper's "GDP extrapolation".

    The largest ``mu = Phi^-1(1 - fpr) - Phi^-1(fnr)`` at Clopper-Pearson limits, turned into the epsilon
    of mu-GDP at delta in the log domain (Dong, Roth and Su 2022, Corollary 2.13; Nasr et al. 2023).

    **Guarantees**: certified only if the true trade-off is Gaussian, which that of DP-SGD is not
    (the paper's Corollaries 2 and 3).
    """

    id: ClassVar[str] = "gaussian"
    validity: ClassVar[Validity] = "model-based"
    assumptions: ClassVar[tuple[str, ...]] = ("the true trade-off curve is Gaussian",)

    def upper(self, errors: ArrayLike, trials: int, level: ArrayLike) -> Floats:
        """The Clopper-Pearson limit."""
        return clopper_pearson_upper(errors, trials, level)

    def parts(self, fpr: Floats, fnr: Floats, delta: float) -> tuple[tuple[Floats, Floats], ...]:
        """The two terms of mu."""
        return ((-ndtri(fpr), -ndtri(fnr)),)

    def epsilon(self, strength: Floats, delta: float) -> Floats:
        """The epsilon of mu-GDP."""
        return np.asarray(gaussian_epsilon(np.maximum(strength, 0.0), delta))


@final
@dataclass(frozen=True)
class JointBeta(Estimator):
    """The posterior of both rates at once, under Jeffreys' priors (Zanella-Beguelin et al. 2023).

    eps_lb is the largest eps such that the rates satisfy (eps, delta)-DP, in both directions, with
    posterior probability at most the level. Only the 8 candidates that are best by `Jeffreys` are tried.

    **Guarantees**: Bayesian, with that prior on each rate; none over repetitions.
    """

    id: ClassVar[str] = "joint-beta"
    validity: ClassVar[Validity] = "model-based"
    assumptions: ClassVar[tuple[str, ...]] = ("Bayesian: independent Jeffreys' priors on both error rates",)

    def upper(self, errors: ArrayLike, trials: int, level: ArrayLike) -> Floats:
        """The quantile of the rate's own posterior."""
        return jeffreys_upper(errors, trials, level)

    def best(self, candidates: Candidates, delta: float) -> tuple[int, float]:
        """The candidate whose posterior refutes most."""
        strength = Jeffreys().strength(*self.limits(candidates), delta)
        few = np.sort(np.argsort(-strength, kind="stable")[:8])
        level = candidates.fpr_level[few] + candidates.fnr_level[few]
        epsilons = _Posterior(candidates.charged, few).refuted(level, delta)
        index = int(np.argmax(epsilons))
        return int(few[index]), float(epsilons[index])

    def interval(
        self, candidates: Candidates, index: int, delta: float, confidence: float
    ) -> tuple[float, float]:
        """The central interval of the posterior."""
        posterior, tail = _Posterior(candidates.seen, np.array([index])), (1 - confidence) / 2
        low, high = (posterior.refuted(np.array([level]), delta)[0] for level in (tail, 1 - tail))
        return float(low), float(high)

    def quantile(self, fpr: Floats, fnr: Floats, delta: float, share: float) -> float:
        """As of Clopper-Pearson: rates that are known have no posterior left."""
        return ClopperPearson().quantile(fpr, fnr, delta, share)


@lru_cache
def _quadrature() -> tuple[Floats, Floats]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(256)
    return (nodes + 1) / 2, weights / 2


class _Posterior:
    """The posterior of (fpr, fnr) at several candidates, integrated over the quantiles of fpr."""

    def __init__(self, errors: ErrorCounts, at: NDArray[np.int64]) -> None:
        positives = errors.false_positives[at, None] + 0.5
        negatives = errors.false_negatives[at, None] + 0.5
        shares, self._weights = _quadrature()
        self._fpr = betaincinv(positives, errors.n_outside + 1 - positives, shares)
        self._fnr_beta = negatives, errors.n_inside + 1 - negatives

    def private(self, epsilon: Floats, delta: float) -> Floats:
        """The probability that the rates satisfy (epsilon, delta)-DP."""
        grown = np.exp(epsilon)[:, None]
        least = np.maximum(1 - delta - grown * self._fpr, (1 - delta - self._fpr) / grown)
        return betaincc(*self._fnr_beta, np.clip(least, 0.0, 1.0)) @ self._weights

    def refuted(self, level: Floats, delta: float) -> Floats:
        """The largest epsilon that holds with probability at most ``level``; 0 where none does."""
        level = np.minimum(level, _SUREST)
        low, high = np.zeros_like(level), np.ones_like(level)
        while np.any(short := self.private(high, delta) <= level):
            low, high = np.where(short, high, low), np.where(short, 2 * high, high)
        for _ in range(20):
            middle = (low + high) / 2
            below = self.private(middle, delta) <= level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return low


@final
@dataclass(frozen=True, kw_only=True)
class SubsampledGaussian(Estimator):
    """Extrapolates along the exact trade-off curve of DP-SGD, at the run's own rate, steps and adjacency.

    A point (fpr, fnr) of Clopper-Pearson limits refutes every noise multiplier whose curve passes above
    it; eps_lb is the epsilon at delta of the smallest noise that some candidate refutes.

    **Guarantees**: certified only if the leak has the shape of DP-SGD's own worst case at some noise.
    The noise is found to one part in a thousand, on the refuted side.
    """

    sample_rate: float
    steps: int
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    id: ClassVar[str] = "subsampled-gaussian"
    validity: ClassVar[Validity] = "model-based"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the true trade-off curve is that of DP-SGD's worst case at the given sample rate and steps",
    )

    def __post_init__(self) -> None:
        self._run(1.0)

    def upper(self, errors: ArrayLike, trials: int, level: ArrayLike) -> Floats:
        """The Clopper-Pearson limit."""
        return clopper_pearson_upper(errors, trials, level)

    def best(self, candidates: Candidates, delta: float) -> tuple[int, float]:
        """The candidate that refutes the smallest noise."""
        fpr, fnr = self.limits(candidates)
        noise = self._refuted_noise(fpr, fnr, 1.0, delta)
        return int(np.argmax(self._curve(noise)(fpr) - fnr)), self._run(noise).upper_bound(delta).value

    def quantile(self, fpr: Floats, fnr: Floats, delta: float, share: float) -> float:
        """The epsilon of the smallest noise that all but a ``share`` of the points refute."""
        return self._run(self._refuted_noise(fpr, fnr, share, delta)).upper_bound(delta).value

    def _curve(self, noise_multiplier: float) -> TradeOff:
        return _curve_of(self._run(noise_multiplier))

    def _run(self, noise_multiplier: float) -> Mechanism:
        return Mechanism(
            sampling=Poisson(rate=self.sample_rate),
            clip_norm=1.0,
            noise_multiplier=noise_multiplier,
            expected_batch=1.0,
            steps=self.steps,
            adjacency=self.adjacency,
        )

    def _refuted_noise(self, fpr: Floats, fnr: Floats, share: float, delta: float) -> float:
        """The smallest noise, to 0.1 %, that all but a ``share`` of the points refute; 1 means any point.

        Without any, the first power of two whose epsilon is 0; if error rates of 0 refute all noise, none.
        """

        def refuted(noise: float) -> bool:
            return bool(np.sum(fnr < self._curve(noise)(fpr)) > (1 - share) * (fpr.size - 1))

        high = 1.0
        while not refuted(high):
            if self._curve(high).epsilon(delta) == 0:
                return high
            high *= 2
        low = high / 2
        while refuted(low):
            if low < _LEAST_NOISE:
                return 0.0
            low, high = low / 2, low
        while high / low > 1.001:
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if refuted(middle) else (middle, high)
        return high


@lru_cache(maxsize=4096)
def _curve_of(run: Mechanism) -> TradeOff:
    return tradeoff(run)
