"""Slow, obvious twins of the accountant, written from the definitions and without dp_accounting.

The pair of one step: ``P = (1-q) N(0, s^2) + q N(1, s^2)`` against ``Q = N(0, s^2)``, or against
``(1-q) N(0, s^2) + q N(-1, s^2)`` under replace-one. A direction is "remove" (P first) or "add" (Q first).
"""

import math

import mpmath
import numpy as np
from scipy import optimize
from scipy.special import ndtr


def gaussian_delta_mp(mu, epsilon, digits=60):
    """delta of N(0, 1) against N(mu, 1) straight from its formula, at 60 digits."""
    with mpmath.workdps(digits):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        # ncdf loses its tail to rounding; erfc does not.
        phi = lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2  # noqa: E731
        return phi(upper) - mpmath.exp(epsilon) * phi(lower)


def gaussian_epsilon_mp(mu, delta, digits=60):
    """The epsilon of mu-GDP by bisection at 60 digits."""
    with mpmath.workdps(digits):
        if gaussian_delta_mp(mu, 0, digits) <= delta:
            return 0.0
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        while gaussian_delta_mp(mu, high, digits) > delta:
            low, high = high, high * 2
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if gaussian_delta_mp(mu, middle, digits) > delta else (low, middle)
        return float(high)


def _log_ratio(x, q, sigma):
    """log P/Q of one step at x; rises with x."""
    return np.logaddexp(math.log1p(-q), math.log(q) + (x - 0.5) / sigma**2)


def one_step_delta(q, sigma, epsilon, direction, points=400_001):
    """The hockey-stick divergence of one step, by the trapezoidal rule over the line."""
    x = np.linspace(-12 * sigma - 1, 12 * sigma + 2, points)
    null = np.exp(-0.5 * (x / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
    moved = lambda c: np.exp(-0.5 * ((x - c) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))  # noqa: E731
    up = (1 - q) * null + q * moved(1)
    if direction == "remove":
        first, second = up, null
    elif direction == "add":
        first, second = null, up
    else:
        first, second = up, (1 - q) * null + q * moved(-1)
    return np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0), x)


def one_step_epsilon(q, sigma, delta, directions=("remove", "add")):
    """The epsilon of one step, the worse of the directions."""

    def one(direction):
        if one_step_delta(q, sigma, 0.0, direction) <= delta:
            return 0.0
        high = 1.0
        while one_step_delta(q, sigma, high, direction) > delta:
            high *= 2
        return optimize.brentq(lambda e: one_step_delta(q, sigma, e, direction) - delta, 0, high, xtol=1e-9)

    return max(one(direction) for direction in directions)


def _step_distribution(q, sigma, direction, h):
    """Grid index of the lowest cell, and the probabilities of one step's loss rounded to the nearest cell."""
    reach = 10.5 * sigma
    ends = _log_ratio(np.array([-reach - 1, reach + 2]), q, sigma)
    if direction == "replace":
        ends = ends - _log_ratio(-np.array([-reach - 1, reach + 2]), q, sigma)
    low, high = (ends[0], ends[1]) if direction != "add" else (-ends[1], -ends[0])
    first, last = math.floor(low / h) - 1, math.ceil(high / h) + 1
    edges = (np.arange(first, last + 2) - 0.5) * h
    if direction == "replace":
        # The loss is odd and increasing: invert it by bisection.
        lo, hi = np.full_like(edges, -4 * reach - 4), np.full_like(edges, 4 * reach + 4)
        for _ in range(100):
            mid = (lo + hi) / 2
            below = _log_ratio(mid, q, sigma) - _log_ratio(-mid, q, sigma) < edges
            lo, hi = np.where(below, mid, lo), np.where(below, hi, mid)
        x = hi
    else:
        gain = np.expm1(edges if direction != "add" else -edges) + q
        with np.errstate(divide="ignore", invalid="ignore"):
            x = np.where(gain > 0, 0.5 + sigma**2 * np.log(np.maximum(gain, 0) / q), -np.inf)
    if direction == "add":
        cdf = ndtr(-x / sigma)
        # Differences of small upper tails, not of numbers near 1.
        mass = np.where(x[1:] > 0, np.diff(cdf), -np.diff(ndtr(x / sigma)))
    else:
        below = (1 - q) * ndtr(x / sigma) + q * ndtr((x - 1) / sigma)
        above = (1 - q) * ndtr(-x / sigma) + q * ndtr(-(x - 1) / sigma)
        mass = np.where(x[1:] > 0, -np.diff(above), np.diff(below))
    return first, np.maximum(mass, 0)


def _exact_mean(q, sigma, direction, points=2_000_001):
    """The mean loss of one step by the trapezoidal rule."""
    x = np.linspace(-11 * sigma - 1, 11 * sigma + 2, points)
    null = np.exp(-0.5 * (x / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
    ratio = _log_ratio(x, q, sigma)
    if direction == "add":
        return np.trapezoid(-ratio * null, x)
    loss = ratio - _log_ratio(-x, q, sigma) if direction == "replace" else ratio
    moved = np.exp(-0.5 * ((x - 1) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
    return np.trapezoid(loss * ((1 - q) * null + q * moved), x)


def composed_epsilon(q, sigma, steps, delta, directions=("remove", "add"), cells_per_spread=60):
    """The epsilon of many steps: the loss convolved with itself by one FFT, mean corrected, worse way."""
    return max(_composed_one(q, sigma, steps, delta, d, cells_per_spread) for d in directions)


def _composed_one(q, sigma, steps, delta, direction, cells_per_spread, largest=2**22):
    x = np.linspace(-9 * sigma, 9 * sigma, 20001)
    weight = np.exp(-0.5 * (x / sigma) ** 2)
    loss = _log_ratio(x, q, sigma) - (_log_ratio(-x, q, sigma) if direction == "replace" else 0)
    weight /= weight.sum()
    spread = math.sqrt(weight @ (loss - weight @ loss) ** 2)
    h = spread / cells_per_spread
    while True:
        first, mass = _step_distribution(q, sigma, direction, h)
        mass = mass / mass.sum()
        grid = (first + np.arange(mass.size)) * h
        low, high = _reach(mass, grid, steps)
        size = 1 << math.ceil(math.log2(max((high - low) / h, mass.size) + 2))
        if size <= largest:
            break
        h *= 1.3 * size / largest if size < 1.5 * largest else 2
    total = np.fft.irfft(np.fft.rfft(mass, size) ** steps, size)
    # Index k of the cyclic result stands for every first*steps + k + j*size; take those in the window.
    start = math.floor(low / h)
    order = (start - first * steps + np.arange(size)) % size
    losses = (start + np.arange(size)) * h + steps * (_exact_mean(q, sigma, direction) - mass @ grid)
    return _epsilon_of(total[order], losses, delta)


def _reach(mass, grid, steps, log_tail=-40.0):
    """Where the composed loss lies but for e^-40, by Chernoff's bound over many tilts."""
    bounds = []
    for sign in (1.0, -1.0):
        tilts = np.geomspace(1e-3, 1e4, 60) / max(np.abs(grid).max(), 1e-300)
        best = math.inf
        for t in tilts:
            exponent = sign * t * grid
            top = exponent.max()
            best = min(best, (steps * (top + math.log(mass @ np.exp(exponent - top))) - log_tail) / t)
        bounds.append(min(best, steps * (sign * grid).max()))
    return -bounds[1], bounds[0]


def _epsilon_of(mass, losses, delta):
    def excess(epsilon):
        over = losses > epsilon
        return -np.expm1(epsilon - losses[over]) @ mass[over] - delta

    if excess(0.0) <= 0:
        return 0.0
    return optimize.brentq(excess, 0.0, losses[-1], xtol=1e-12, rtol=1e-10)


def renyi_integer(q, sigma, order):
    """The Renyi divergence of P from Q at an integer order, by its binomial sum, exactly (40 digits)."""
    with mpmath.workdps(40):
        q, sigma = mpmath.mpf(q), mpmath.mpf(sigma)
        total = mpmath.fsum(
            mpmath.binomial(order, k)
            * (1 - q) ** (order - k)
            * q**k
            * mpmath.exp((k * k - k) / (2 * sigma**2))
            for k in range(order + 1)
        )
        return float(mpmath.log(total) / (order - 1))
