"""One-run audits: many canaries in one model, each in or out by a coin of its own.

The auditor ranks the m canaries by score, guesses "in" for the highest and "out" for the lowest, and counts
the right guesses. A private run cannot let too many be right (Steinke, Nasr and Jagielski 2023).
"""

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, expit, gammaln, log_expit, ndtr, ndtri

from dpgap import _check
from dpgap.errors import InvalidInput
from dpgap.privacy.guesses import Guesses, HeldOutCanaries, Refuted, largest_refuted, read_canaries
from dpgap.privacy.lower_bound import LowerBound, ThreatModel
from dpgap.privacy.mechanism import Adjacency
from dpgap.privacy.rules import Validity
from dpgap.privacy.tradeoff import gaussian_epsilon

Floats = NDArray[np.float64]
Version = Literal["eps-delta", "gaussian"]

_CONFIDENCE_HINT = "Write 0.95 for a claim that is wrong one time in twenty."


def one_run_bound(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    guesses: Guesses,
    version: Version = "eps-delta",
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    threat_model: ThreatModel = "final",
) -> LowerBound:
    """The largest epsilon that one run refutes by betraying the bits of its canaries.

    ``scores`` holds one number per canary, higher for "in"; ``included`` the bits, drawn by fair and
    independent coins. Version "eps-delta" refutes (eps, delta)-DP (`epsilon_lower_bound`); "gaussian"
    refutes mu-GDP (`mu_lower_bound`) and converts mu to epsilon.

    **Guarantees**: for a certified rule and version "eps-delta", the run's true epsilon at ``delta`` is at
    least ``value``, except with probability ``1 - confidence``; for "gaussian" so if the run's true
    trade-off is Gaussian. **Edge cases**: equal scores are ordered blindly to the bits; 0 when nothing is
    refuted; finite if every guess is right and delta > 0; "gaussian" with delta 0 is 0 or infinite.

    >>> from dpgap.privacy.guesses import FixedGuesses
    >>> bits = np.arange(200) % 2
    >>> bound = one_run_bound(bits, bits, guesses=FixedGuesses(k_in=50, k_out=50))
    >>> round(bound.value, 2), bound.validity, bound.n_inside
    (3.49, 'certified', 100)
    """
    _check.delta(delta)
    _check.probability(confidence=confidence, hint=_CONFIDENCE_HINT)
    _check.one_of(get_args(Version), version=version)
    _check.one_of(get_args(ThreatModel), threat_model=threat_model)
    values, bits = read_canaries(scores, included)

    def test(m: int, level: float, chosen_by_run: bool) -> Refuted:
        if version == "gaussian":
            return _mu_refuted(m, level)
        return (_epsilon_refuted_by_chosen if chosen_by_run else _epsilon_refuted)(m, delta, level)

    verdict = guesses.verdict(values, bits, test, 1 - confidence)
    validity, assumptions = _standing(guesses, version)
    value = verdict.parameter if version == "eps-delta" else float(gaussian_epsilon(verdict.parameter, delta))
    return LowerBound(
        value=value,
        delta=delta,
        confidence=confidence,
        estimator="one-run" if version == "eps-delta" else "one-run-gaussian",
        rule=guesses.id,
        validity=validity,
        adjacency=adjacency,
        threat_model=threat_model,
        n_inside=int(verdict.ranking.bits.sum()),
        n_outside=int((~verdict.ranking.bits).sum()),
        threshold=None,
        fpr=None,
        fnr=None,
        interval=None,
        assumptions=(*assumptions, verdict.summary),
    )


def _standing(guesses: Guesses, version: Version) -> tuple[Validity, tuple[str, ...]]:
    """The weaker validity of rule and version, and what must hold."""
    coins = "each canary was in by a fair coin of its own, independent of all else"
    if version == "eps-delta":
        return guesses.validity, (coins, guesses.assumption)
    assumptions = (coins, guesses.assumption, "the run's true trade-off is Gaussian in each canary")
    if isinstance(guesses, HeldOutCanaries):
        return "heuristic", (*assumptions, "that the same run chose the number of guesses did no harm")
    return ("heuristic" if guesses.validity == "heuristic" else "model-based"), assumptions


def p_value(m: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """How likely so many right guesses are, at most, if the run is (epsilon, delta)-DP in each canary.

    With ``B ~ Binomial(guesses, e^epsilon/(1 + e^epsilon))`` the p-value is
    ``P(B >= correct) + 2 m delta max_{i >= 1} P(correct > B >= correct - i)/i``.

    **Guarantees**: for ``guesses`` fixed in advance and fair, independent coins it is at most ``level``
    with probability at most ``level``; it grows with ``epsilon`` and ``delta`` and falls with ``correct``.
    **Edge cases**: 1 when nothing is right; never above 1.

    Steinke, Nasr and Jagielski 2023, Theorem 5.2 (Proposition 5.1 for delta = 0).

    >>> round(p_value(100, 100, 75, 1.0986122886681098, 0.0), 6)
    0.553471
    """
    _check_counts(m, guesses, correct)
    _check.non_negative(epsilon=epsilon)
    _check.delta(delta)
    tail, slope = _tail_and_slope(guesses, correct, epsilon, delta)
    return min(1.0, tail + 2 * m * delta * slope)


def epsilon_lower_bound(m: int, guesses: int, correct: int, delta: float, confidence: float) -> float:
    """The largest epsilon whose `p_value` is at most ``1 - confidence``; 0 if there is none.

    **Guarantees**: those of `p_value`: it exceeds the true epsilon with probability at most
    ``1 - confidence``. **Edge cases**: finite even if every guess is right; 0 without guesses.

    >>> round(epsilon_lower_bound(1000, 100, 75, 1e-4, 0.95), 6)
    0.672985
    """
    _check_counts(m, guesses, correct)
    _check.delta(delta)
    _check.probability(confidence=confidence, hint=_CONFIDENCE_HINT)
    refuted = _epsilon_refuted(m, delta, 1 - confidence)
    return largest_refuted(lambda epsilon: refuted(guesses, correct, epsilon))


def refutes_curve(
    curve: Callable[[float], ArrayLike], m: int, guesses: int, correct: int, confidence: float
) -> bool:
    """Whether so many right guesses refute that the trade-off curve f holds for each canary.

    Suppose ``P(W >= correct) = level`` for the number W of right guesses and put, for i <= correct,
    ``r_i = E[W 1{W >= i}]/m`` and ``h_i = E[(guesses - W) 1{W >= i}]/m``. Flipping one canary's bit turns
    one right guess into a wrong one, so ``h_i >= f(1 - r_{i+1})``, and by definition
    ``r_i = r_{i+1} + i/(guesses - i) (h_i - h_{i+1})``. Going down from ``i = correct`` with the least h
    allowed, ``r + h`` may not pass ``guesses/m``: if it does, the level was too small.

    **Guarantees**: for ``guesses`` fixed in advance and fair, independent coins, a true curve is refuted
    with probability at most ``1 - confidence``. ``curve`` maps alpha to beta; it must be convex and its
    own inverse (both ways of flipping a bit are neighbours). **Edge cases**: False without guesses.

    Mahloujifar, Melis and Chaudhuri 2024, Algorithm 3.

    >>> refutes_curve(lambda alpha: 1 - alpha, 100, 100, 60, 0.95)
    True
    """
    _check_counts(m, guesses, correct)
    _check.probability(confidence=confidence, hint=_CONFIDENCE_HINT)
    return _curve_refuted(curve, m, guesses, correct, 1 - confidence)


def mu_lower_bound(m: int, guesses: int, correct: int, confidence: float) -> float:
    """The largest mu whose Gaussian trade-off curve the guesses refute; 0 if there is none.

    **Guarantees**: those of `refutes_curve`: it exceeds the true mu of a mu-GDP run with probability at
    most ``1 - confidence``. **Edge cases**: finite even if every guess is right.

    >>> round(mu_lower_bound(1000, 100, 75, 0.95), 6)
    0.269495
    """
    _check_counts(m, guesses, correct)
    _check.probability(confidence=confidence, hint=_CONFIDENCE_HINT)
    refuted = _mu_refuted(m, 1 - confidence)
    return largest_refuted(lambda mu: refuted(guesses, correct, mu))


def _epsilon_refuted(m: int, delta: float, level: float) -> Refuted:
    return lambda guesses, correct, epsilon: p_value(m, guesses, correct, epsilon, delta) <= level


def _epsilon_refuted_by_chosen(m: int, delta: float, level: float) -> Refuted:
    """As `_epsilon_refuted`, where the same run's scores chose the *number* of guesses.

    Given its output, and with it the number g of guesses, the run's right guesses are dominated by
    ``B + F`` with ``E[F] <= 2 m delta`` over all outputs together (the proof of Theorem 5.2), but for one g
    alone F may be larger. Refuting only if ``P(B >= correct) <= level - s`` and the slope is at most
    ``s/(2 m delta)``, s fixed in advance, errs with probability at most
    ``sum_g P(g) (level - s + E[F | g] s/(2 m delta)) <= level``.
    """
    charge = 2 * m * delta
    spent = min(charge, level / 10)

    def refuted(guesses: int, correct: int, epsilon: float) -> bool:
        tail, slope = _tail_and_slope(guesses, correct, epsilon, delta)
        return tail <= level - spent and charge * slope <= spent

    return refuted


def _mu_refuted(m: int, level: float) -> Refuted:
    def refuted(guesses: int, correct: int, mu: float) -> bool:
        return _curve_refuted(lambda alpha: ndtr(-ndtri(alpha) - mu), m, guesses, correct, level)

    return refuted


def _tail_and_slope(guesses: int, correct: int, epsilon: float, delta: float) -> tuple[float, float]:
    """``P(B >= correct)`` and ``max_i P(correct > B >= correct - i)/i``, the latter 0 if ``delta`` is."""
    if correct == 0:
        return 1.0, 0.0
    tail = float(betainc(correct, guesses - correct + 1, expit(epsilon)))
    return tail, 0.0 if delta == 0 else _highest_mean(guesses, correct, epsilon)


def _highest_mean(guesses: int, correct: int, epsilon: float) -> float:
    """The highest mean of B's probabilities over values that end at ``correct - 1``.

    B's law has one peak: as values are added downwards the mean rises, and once it falls it goes on falling.
    """
    width = 4 * math.isqrt(guesses) + 16
    while True:
        values = np.arange(correct - 1, max(correct - 1 - width, -1), -1)
        log_choose = gammaln(guesses + 1.0) - gammaln(values + 1.0) - gammaln(guesses - values + 1.0)
        log_pmf = log_choose + values * log_expit(epsilon) + (guesses - values) * log_expit(-epsilon)
        means = np.cumsum(np.exp(log_pmf)) / np.arange(1, values.size + 1)
        if values[-1] == 0 or means[-1] < means.max():
            return float(means.max())
        width *= 2


def _curve_refuted(
    curve: Callable[[float], ArrayLike], m: int, guesses: int, correct: int, level: float
) -> bool:
    right, wrong = level * correct / m, level * (guesses - correct) / m
    for i in range(correct - 1, -1, -1):
        least = float(np.asarray(curve(1.0 - right)))
        if least <= wrong:
            return False  # Nothing moves any more: every later step would repeat this one.
        right += i / (guesses - i) * (least - wrong)
        wrong = least
        if right + wrong > guesses / m:
            return True
    return False


def _check_counts(m: int, guesses: int, correct: int) -> None:
    _check.count(m=m, hint="It is the number of canaries.")
    _check.count(guesses=guesses, correct=correct, at_least=0, hint="It counts canaries.")
    if not correct <= guesses <= m:
        raise InvalidInput(
            f"correct <= guesses <= m must hold, got correct {correct!r}, guesses {guesses!r}, m {m!r}. "
            "Each canary is guessed at most once; count the right guesses among those made."
        )
