"""The sequential audit of one epsilon, from scratch after every pair, one bin at a time."""

import math
from collections.abc import Sequence

from dpgap.privacy.sequential import CUT_SHARES, EAGERNESS, PRIOR_COUNT, REFIT_GROWTH

Bins = list[float]


def log_wealths(
    inside: Sequence[float], outside: Sequence[float], epsilon: float, delta: float
) -> list[float]:
    """The log wealth against (epsilon, delta)-DP after each pair."""
    looks, total = [], 0.0
    of_cut = [0.0] * len(CUT_SHARES)
    fitted = 0
    for n in range(len(inside)):
        if fitted:
            gains = [
                _gain(share, inside[:fitted], outside[:fitted], inside[n], outside[n], epsilon, delta)
                for share in CUT_SHARES
            ]
            top = max(of_cut)
            weights = [math.exp(EAGERNESS * (wealth - top)) for wealth in of_cut]
            mean = sum(w * math.exp(gain) for w, gain in zip(weights, gains, strict=True)) / sum(weights)
            total += math.log(mean)
            of_cut = [wealth + gain for wealth, gain in zip(of_cut, gains, strict=True)]
        looks.append(total)
        if fitted == 0 or n + 1 >= max(fitted + 1, math.ceil(REFIT_GROWTH * fitted)):
            fitted = n + 1
    return looks


def _gain(
    share: float,
    inside: Sequence[float],
    outside: Sequence[float],
    x: float,
    y: float,
    epsilon: float,
    delta: float,
) -> float:
    low, high = _cut(sorted([*inside, *outside]), share)
    p, q = (_rates([_bin(score, low, high) for score in world]) for world in (inside, outside))
    alpha = best_alpha(p, q, epsilon)
    nu, omega = tilts(p, q, alpha, epsilon)
    ratio = math.exp(epsilon)
    g = [alpha + nu[b] - ratio * omega[b] for b in range(3)]
    h = [2 - alpha - ratio * nu[b] + omega[b] for b in range(3)]
    paid = 2 * math.log1p(delta * (max(nu) + max(omega)) / 2)
    return math.log(g[_bin(x, low, high)]) + math.log(h[_bin(y, low, high)]) - paid


def _cut(pooled: list[float], share: float) -> tuple[float, float]:
    n = len(pooled)
    rank = min(max(round(n * share), 1), n - 1)
    ends = sorted((rank, n - rank))
    return _between(pooled[ends[0] - 1], pooled[ends[0]]), _between(pooled[ends[1] - 1], pooled[ends[1]])


def _between(below: float, above: float) -> float:
    return below / 2 + above / 2 if math.isfinite(below) and math.isfinite(above) else above


def _bin(score: float, low: float, high: float) -> int:
    if score < low:
        return 0
    return 1 if score < high else 2


def _rates(bins: list[int]) -> Bins:
    return [(bins.count(b) + PRIOR_COUNT) / (len(bins) + 3 * PRIOR_COUNT) for b in range(3)]


def tilts(p: Bins, q: Bins, alpha: float, epsilon: float) -> tuple[Bins, Bins]:
    """nu and omega of each bin: the smallest that keep p/g and q/h within e^epsilon of each other."""
    ratio, beta = math.exp(epsilon), 2 - alpha
    nu, omega = [0.0] * len(p), [0.0] * len(p)
    for b in range(len(p)):
        if p[b] / alpha > ratio * q[b] / beta:
            nu[b] = (p[b] * beta - ratio * q[b] * alpha) / (ratio * (p[b] + q[b]))
        elif q[b] / beta > ratio * p[b] / alpha:
            omega[b] = (q[b] * alpha - ratio * p[b] * beta) / (ratio * (p[b] + q[b]))
    return nu, omega


def best_alpha(p: Bins, q: Bins, epsilon: float) -> float:
    """The alpha at which p/g sums to 1, by bisection."""
    low, high = 0.0, 2.0
    for _ in range(60):
        alpha = (low + high) / 2
        nu, omega = tilts(p, q, alpha, epsilon)
        mass = sum(p[b] / (alpha + nu[b] - math.exp(epsilon) * omega[b]) for b in range(len(p)))
        low, high = (alpha, high) if mass > 1 else (low, alpha)
    return (low + high) / 2
