"""The search for the least noise that meets a wanted bound."""

import math
from collections.abc import Callable

from dpgap.errors import NoAnswer

_LARGEST_LOG_NOISE = 60.0


def least_noise(excess: Callable[[float], float]) -> float:
    """The least noise multiplier, to five digits, with ``excess`` at most 0; it falls as noise grows."""
    from scipy.optimize import brentq

    refusal = NoAnswer(
        "no noise multiplier meets the wanted epsilon with this accountant. Write accountant='pld', or a "
        "larger epsilon."
    )

    def tolerant(log_noise: float) -> float:
        nonlocal refusal
        try:
            return excess(math.exp(log_noise))
        except NoAnswer as reason:
            refusal = reason
            return 50.0

    high = 0.0
    while tolerant(high) > 0:
        if high > _LARGEST_LOG_NOISE:
            raise refusal
        high += 1.0
    low = high - 1.0
    while tolerant(low) <= 0:
        low, high = low - 1.0, low
    return _round_up(math.exp(float(brentq(tolerant, low, high, xtol=1e-6))), excess)


def _round_up(noise: float, excess: Callable[[float], float]) -> float:
    """Five digits, the last one raised until the rounded noise is itself without excess."""
    unit = 10.0 ** (math.floor(math.log10(noise)) - 4)
    ticks = math.ceil(noise / unit)
    while excess(float(f"{ticks * unit:.5g}")) > 0:
        ticks += 1
    return float(f"{ticks * unit:.5g}")
