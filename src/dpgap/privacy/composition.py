"""One run in normal form, T compositions of a sampled Gaussian: its closed form, and how its loss spreads."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpgap.errors import NoAnswer

Floats = NDArray[np.float64]

_LEAST, _MOST = 1e-50, 1e50
"""Beyond these the squares of rates and noise multipliers are no floats."""


@dataclass(frozen=True)
class Steps:
    """``steps`` compositions of one Gaussian of scale ``sigma``, sampled at ``rate``.

    ``two_sided``: both neighbours contribute, in opposite directions (replace-one).
    """

    rate: float
    sigma: float
    steps: int
    two_sided: bool

    @classmethod
    def within_floats(cls, rate: float, sigma: float, steps: int, two_sided: bool) -> "Steps":
        """These steps, extremes moved to the private side: rarer draws leak less, so does more noise."""
        return cls(max(rate, _LEAST), 0.0 if sigma < _LEAST else min(sigma, _MOST), steps, two_sided)

    @property
    def mu(self) -> float:
        """The mu-GDP of the same steps without sampling, which dominates them by joint convexity."""
        return math.inf if self.sigma == 0 else (1 + self.two_sided) * math.sqrt(self.steps) / self.sigma

    @property
    def is_gaussian(self) -> bool:
        """Whether ``mu`` is exact."""
        return self.rate == 1 or self.sigma == 0

    @property
    def fits_a_grid(self) -> bool:
        """Whether dp-accounting can hold it: it counts cells ** steps, and one step's loss is a number."""
        return self.steps <= 10**6 and self.rate >= 1e-9 and 1e-6 <= self.sigma <= 1e6

    def log_tail(self, delta: float) -> float:
        """What one step may give up to an infinite loss, so that all of them add a 10,000th to ``delta``."""
        return max(math.log(delta * 1e-4 / self.steps), -600.0)


def closed_form(steps: Steps, delta: float) -> float:
    """Mironov, Talwar and Zhang 2019, Theorem 11, with the paper's Lemma 1 as conversion.

    ``min over alpha of T 2 q^2 alpha / sigma^2 + log(1/delta) / (alpha - 1)`` if ``q <= 1/5``,
    ``sigma >= 4`` and, with ``L = log(1 + 1 / (q (alpha - 1)))``, both

    - ``1 < alpha <= sigma^2 L / 2 - 2 log sigma``,
    - ``alpha <= (sigma^2 L^2 / 2 - log 5 - 2 log sigma) / (L + log(q alpha) + 1 / (2 sigma^2))``.

    The paper's Theorem 1 restates it with ``sigma`` where the source has ``sigma^2`` in the divergence, and
    without the first condition on alpha.

    **Edge cases**: where a condition fails, ``NoAnswer`` names it with its value.
    """
    q, sigma = steps.rate, steps.sigma
    if steps.two_sided:
        raise NoAnswer("the closed form has no answer for replace-one: its theorem is about add-remove.")
    if q > 1 / 5:
        raise NoAnswer(
            f"the closed form needs a sampling rate of at most 1/5, got {q:.6g}. Ask 'pld' or 'rdp'."
        )
    if sigma < 4:
        raise NoAnswer(f"the closed form needs a noise multiplier of at least 4, got {sigma:.6g}. Ask 'pld'.")
    price = steps.steps * 2 * q**2 / sigma**2
    # The bound falls up to this order; the admissible orders end somewhere, so none above it helps.
    unconstrained = math.sqrt(-math.log(delta) / price)
    alpha = 1 + unconstrained * np.geomspace(1e-6, 1, 20_000)
    log_term = np.log1p(1 / (q * (alpha - 1)))
    first = sigma**2 * log_term / 2 - 2 * math.log(sigma)
    second = (sigma**2 * log_term**2 / 2 - math.log(5) - 2 * math.log(sigma)) / (
        log_term + np.log(q * alpha) + 1 / (2 * sigma**2)
    )
    admissible = (alpha <= first) & (alpha <= second)
    if not admissible.any():
        name, limit = ("first", first[0]) if alpha[0] > first[0] else ("second", second[0])
        raise NoAnswer(
            f"the closed form's {name} condition on alpha fails at every order: alpha = {alpha[0]:.6g} must "
            f"be at most {limit:.6g}. Ask 'pld' or 'rdp'."
        )
    return float(np.min(price * alpha[admissible] - math.log(delta) / (alpha[admissible] - 1)))


class Loss:
    """One step's privacy loss but for tails of mass ``e^log_tail``: what to choose a grid by.

    No bound rests on it: every grid is valid.
    """

    def __init__(self, steps: Steps, log_tail: float) -> None:
        reach = -float(special.ndtri(0.5 * math.exp(log_tail)))
        z, weight = np.polynomial.hermite_e.hermegauss(80)
        z, weight = np.append(z, (-reach, reach)), np.append(weight, (0, 0)) / math.sqrt(2 * math.pi)
        inner = np.abs(z) <= reach
        z, weight = z[inner], weight[inner]
        place = np.concatenate((z, z + 1 / steps.sigma))
        self._weight = np.concatenate(((1 - steps.rate) * weight, steps.rate * weight))
        self._loss = self._ratio(steps, place) - (self._ratio(steps, -place) if steps.two_sided else 0.0)
        self._steps = steps.steps
        mean = self._weight @ self._loss
        self.spread = math.sqrt(self._weight @ (self._loss - mean) ** 2)
        self.extent = float(np.ptp(self._loss))
        # Finer cells than this hold less than the rounding of their own probability, summed over the steps.
        self.finest = math.sqrt(steps.steps * self.spread * 1e-13)

    @staticmethod
    def _ratio(steps: Steps, place: Floats) -> Floats:
        exponent = place / steps.sigma - 0.5 / steps.sigma**2
        return np.logaddexp(math.log1p(-steps.rate), math.log(steps.rate) + exponent)

    def composed_extent(self) -> float:
        """The width of the composed loss between its Chernoff tails, at the tilts that the library tries."""
        tilt = np.arange(1, 21)[:, None] / self.extent
        chernoff = [
            np.min((self._steps * np.log(np.exp(s * tilt * self._loss) @ self._weight) + 35) / tilt[:, 0])
            for s in (1, -1)
        ]
        return min(float(sum(chernoff)), self._steps * self.extent)
