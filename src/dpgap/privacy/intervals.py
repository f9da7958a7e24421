"""Upper limits for error rates: at one threshold, or at all thresholds at once (the band)."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.special import betainccinv, gammaln, xlogy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_ORDER_STATISTICS = 2000


def clopper_pearson_upper(errors: ArrayLike, trials: int, level: ArrayLike) -> Floats:
    """The largest error rate that is not refuted at ``level`` by ``errors`` among ``trials``.

    It is the ``1 - level`` quantile of Beta(errors + 1, trials - errors) (Clopper and Pearson 1934).

    **Guarantees**: for independent trials, the true rate exceeds the limit with probability at most
    ``level``. **Edge cases**: 1 when every trial is an error.

    >>> round(float(clopper_pearson_upper(5, 100, 0.05)), 7)
    0.1022534
    """
    return _beta_upper(np.asarray(errors) + 1.0, trials - np.asarray(errors, dtype=np.float64), level)


def clopper_pearson_lower(errors: ArrayLike, trials: int, level: ArrayLike) -> Floats:
    """The smallest error rate that is not refuted at ``level``: the mirror of the upper limit.

    >>> round(float(clopper_pearson_lower(95, 100, 0.05)), 7)
    0.8977466
    """
    return 1.0 - clopper_pearson_upper(trials - np.asarray(errors), trials, level)


def jeffreys_upper(errors: ArrayLike, trials: int, level: ArrayLike) -> Floats:
    """The ``1 - level`` quantile of the error rate's posterior under Jeffreys' prior, Beta(1/2, 1/2).

    **Guarantees**: none over repetitions; it is Bayesian. **Edge cases**: 1 when every trial is an error.
    """
    misses = np.asarray(errors, dtype=np.float64)
    return np.where(misses >= trials, 1.0, _beta_upper(misses + 0.5, trials - misses + 0.5, level))


def _beta_upper(a: Floats, b: Floats, level: ArrayLike) -> Floats:
    certain = b <= 0
    limit = betainccinv(a, np.where(certain, 1.0, b), np.asarray(level, dtype=np.float64))
    return np.where(certain, 1.0, limit)


@dataclass(frozen=True, kw_only=True)
class BandLevels:
    """How a band reads each count of errors, 0 to n: round it up to ``counts``, then spend ``levels``."""

    counts: Ints
    levels: Floats


@lru_cache(maxsize=1024)
def band_levels(trials: int, level: float) -> BandLevels:
    """Local levels at which the Clopper-Pearson limits of *all* thresholds hold together.

    Let V_(1) < ... < V_(n) be the order statistics of n uniform variables: for continuous scores, V_(j)
    is the error rate of the threshold at the j-th score, and ties only make it smaller. A limit L(c),
    increasing in the count c, is broken at some threshold just when V_(c+1) > L(c) for some c < n. With
    L(c) the Clopper-Pearson limit at local level ``s w(c)``, ``w(c) = (n + 1)/(c + 1) + 4``, the scale s
    is solved so that this event has probability ``level``. The weights never look at the data; they
    spend most where errors are few, which is where audits win, and some everywhere.

    **Guarantees**: with probability at least ``1 - level`` every limit holds, whatever the scores' law.
    **Edge cases**: above 2,000 trials only 2,000 order statistics chosen in advance carry limits and a
    count is rounded up to the next of them: fewer thresholds, still valid.

    Equal local levels are the statistic of Berk and Jones (1979).
    """
    ends = _order_statistics(trials)
    last = ends - 1
    weights = (trials + 1) / ends + 4.0

    def limits(scale: float) -> Floats:
        return clopper_pearson_upper(last, trials, np.minimum(scale * weights, 1.0))

    def excess(log_scale: float) -> float:
        return np.log(crossing_probability(trials, ends, limits(np.exp(log_scale)))) - np.log(level)

    # One limit alone fails with its own level, all of them with at most their sum: a bracket of the scale.
    bracket = np.log(level / weights.sum()) - 1e-6, np.log(level / weights.max())
    log_scale = bracket[1] if excess(bracket[1]) <= 0 else brentq(excess, *bracket, xtol=1e-9)
    while excess(log_scale) > 0:
        log_scale -= 1e-9
    block = np.searchsorted(last, np.arange(trials))
    return BandLevels(
        counts=np.append(last[block], trials),
        levels=np.append((np.exp(log_scale) * weights)[block], level),
    )


def _order_statistics(trials: int) -> Ints:
    """Which order statistics carry a limit: all, or at most 2,000, dense where errors are few."""
    if trials <= MOST_ORDER_STATISTICS:
        return np.arange(1, trials + 1)
    few = MOST_ORDER_STATISTICS // 10
    rest = np.geomspace(few, trials, MOST_ORDER_STATISTICS - few + 1)
    return np.unique(np.concatenate([np.arange(1, few), np.round(rest)]).astype(np.int64))


def crossing_probability(trials: int, ends: Ints, limits: Floats) -> float:
    """P(V_(ends[k]) > limits[k] for some k) for the order statistics of ``trials`` uniform variables.

    The number N(x) of variables below x is a Poisson process of rate n given N(1) = n, so the law of the
    count runs through the limits by convolution with Poisson increments (Khmaladze and Shinjikashvili
    2001; Moscovich and Nadler 2017), and what falls below ``ends[k]`` at ``limits[k]`` has crossed there,
    for the first time. All terms are positive: small probabilities keep their relative precision.
    ``ends`` and ``limits`` increase.
    """
    total = _log_poisson(trials, float(trials))
    law, lowest, reached, crossed = np.ones(1), 0, 0.0, 0.0
    for end, limit in zip(ends.tolist(), limits.tolist(), strict=True):
        start, increment = _poisson(trials * (limit - reached))
        law, lowest, reached = _convolve(law, increment), lowest + start, limit
        short = max(end - lowest, 0)
        if short:
            counts = np.arange(lowest, lowest + min(short, law.size), dtype=np.int64)
            later = _log_poisson(trials - counts, trials * (1.0 - limit))
            crossed += float(law[:short] @ np.exp(later - total))
            law, lowest = law[short:], lowest + short
        law = law[: max(min(trials, _highest(trials * limit)) - lowest + 1, 0)]
        if law.size == 0:
            break
    return min(crossed, 1.0)


def _highest(mean: float) -> int:
    """A value that a Poisson variable exceeds with probability below 1e-18."""
    return int(mean + 9.0 * np.sqrt(mean) + 25.0)


def _poisson(mean: float) -> tuple[int, Floats]:
    """The probabilities of a Poisson variable from a first value on, without tails below 1e-18."""
    values = np.arange(max(0, int(2 * mean) - _highest(mean)), _highest(mean) + 1)
    return int(values[0]), np.exp(_log_poisson(values, mean))


def _log_poisson(values: NDArray[np.int64] | int, mean: float) -> Floats:
    return xlogy(values, mean) - mean - gammaln(np.asarray(values) + 1.0)


def _convolve(law: Floats, increment: Floats) -> Floats:
    if min(law.size, increment.size) < 64:
        return np.convolve(law, increment)
    size = law.size + increment.size - 1
    padded = next_fast_len(size, real=True)
    return np.maximum(irfft(rfft(law, padded) * rfft(increment, padded), padded)[:size], 0.0)
