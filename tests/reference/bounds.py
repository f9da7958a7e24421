"""Lower bounds the slow and obvious way: one threshold at a time, in plain Python."""

from math import inf, log

from scipy import stats

from dpgap.privacy.intervals import band_levels


def clopper_pearson(errors: int, trials: int, level: float) -> float:
    """By bisection on the binomial tail that defines the limit."""
    if errors == trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if stats.binom.cdf(errors, trials, middle) > level else (low, middle)
    return high


def refuted(fpr: float, fnr: float, delta: float) -> float:
    """Both directions of the (eps, delta) inequality."""
    forward = log((1 - fnr - delta) / fpr) if 1 - fnr - delta > 0 else -inf
    backward = log((1 - fpr - delta) / fnr) if 1 - fpr - delta > 0 else -inf
    return max(forward, backward)


def best_over_thresholds(
    inside: list[float], outside: list[float], delta: float, confidence: float, *, band: bool
) -> float:
    """Clopper-Pearson eps_lb over every threshold, at the band's local levels or at the full one."""
    level = (1 - confidence) / 2
    best = 0.0
    for threshold in sorted({*inside, *outside}):
        limits = []
        for errors, trials in (
            (sum(score >= threshold for score in outside), len(outside)),
            (sum(score < threshold for score in inside), len(inside)),
        ):
            spent, charged = level, errors
            if band:
                levels = band_levels(trials, level)
                spent, charged = float(levels.levels[errors]), int(levels.counts[errors])
            limits.append(clopper_pearson(charged, trials, spent))
        best = max(best, refuted(limits[0], limits[1], delta))
    return best
