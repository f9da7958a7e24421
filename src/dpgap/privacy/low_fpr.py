"""How many of the canaries that are in an attack names while it hardly ever names one that is out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap import _check
from dpgap._seeds import stream
from dpgap.errors import InvalidInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]

_RESAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class TruePositiveRate:
    """The true-positive rate at a fixed false-positive rate, pooled over canaries and models.

    ``threshold`` is the lowest one whose false-positive rate, seen as ``fpr``, is at most ``at_most``; None
    where even the highest score names too many. ``low`` and ``high`` describe how the rate varies from one
    set of models to another; they certify nothing about privacy.
    """

    value: float
    at_most: float
    fpr: float
    threshold: float | None
    low: float
    high: float
    confidence: float
    models: int
    canaries: int


def true_positive_rate(
    scores: ArrayLike, included: ArrayLike, *, at_most: float = 0.001, confidence: float = 0.95
) -> TruePositiveRate:
    """The rate from ``scores[canary, model]`` and ``included[canary, model]``, one threshold for all pairs.

    With ``S`` all pairs (canary, model): the largest ``P(score >= t | in)`` over thresholds t with
    ``P(score >= t | out) <= at_most``, both probabilities being shares of pairs.

    **Guarantees**: the interval is the percentile bootstrap over *models*, threshold chosen anew each time:
    scores of one model share its weights, so pairs are no independent draws, and resampling them would give
    an interval that is too short. It is descriptive, and too short for a few models.

    **Edge cases**: with fewer than ``1 / at_most`` pairs outside, no false positive at all is allowed. Equal
    scores are named together or not at all. One model has no interval: refused.

    Carlini et al. 2022, section III, for the measure.

    >>> draws = np.random.default_rng(0)
    >>> included = draws.random((100, 40)) < 0.5
    >>> rate = true_positive_rate(draws.normal(2.0 * included), included)
    >>> round(rate.value, 2), rate.low < rate.value < rate.high
    (0.17, True)
    """
    _check.probability(at_most=at_most, hint="It is a false-positive rate; write 0.001.")
    _check.probability(confidence=confidence, hint="Write 0.95.")
    values, bits = _read(scores, included)
    canaries, models = map(int, values.shape)
    order: Ints = np.argsort(-values, axis=None, kind="stable")
    ranked, model_of = values.ravel()[order], order % models
    ends: Ints = np.append(np.flatnonzero(ranked[:-1] != ranked[1:]), ranked.size - 1)
    ranking = _Ranking(model_of=model_of, inside=bits.ravel()[order], ends=ends)
    value, fpr, named = ranking.rates(np.ones(models, dtype=np.int64), at_most)
    redrawn = _resampled(ranking, bits, at_most)
    tail = (1 - confidence) / 2
    return TruePositiveRate(
        value=value,
        at_most=at_most,
        fpr=fpr,
        threshold=float(ranked[ends[named - 1]]) if named else None,
        low=float(np.quantile(redrawn, tail)),
        high=float(np.quantile(redrawn, 1 - tail)),
        confidence=confidence,
        models=models,
        canaries=canaries,
    )


@dataclass(frozen=True, kw_only=True)
class _Ranking:
    """All pairs from the highest score down; ``ends`` are the last places of equal scores."""

    model_of: Ints
    inside: Bits
    ends: Ints

    def rates(self, times: Ints, at_most: float) -> tuple[float, float, int]:
        """Both rates and how many ``ends`` are named, if model m occurs ``times[m]`` times."""
        weight = times[self.model_of]
        inside: Ints = np.cumsum(weight * self.inside)[self.ends]
        outside: Ints = np.cumsum(weight * ~self.inside)[self.ends]
        # A product such as 0.001 * 3000 may come out just below the whole number that it is.
        named = int(np.searchsorted(outside, at_most * int(outside[-1]) * (1 + 1e-12), side="right"))
        if not named:
            return 0.0, 0.0, 0
        last = named - 1
        return int(inside[last]) / int(inside[-1]), int(outside[last]) / int(outside[-1]), named


def _resampled(ranking: _Ranking, bits: Bits, at_most: float) -> list[float]:
    """The rate of as many models, drawn with replacement; draws without both worlds are passed over."""
    models = bits.shape[1]
    draws = stream(0, "models", models)
    rates: list[float] = []
    while len(rates) < _RESAMPLES:
        times: Ints = draws.multinomial(models, np.full(models, 1 / models))
        chosen = bits[:, times > 0]
        if chosen.any() and not chosen.all():
            rates.append(ranking.rates(times, at_most)[0])
    return rates


def _read(scores: ArrayLike, included: ArrayLike) -> tuple[Floats, Bits]:
    values, bits = np.asarray(scores, dtype=np.float64), np.asarray(included, dtype=np.bool_)
    if values.ndim != 2 or values.shape != bits.shape or values.shape[0] == 0 or values.shape[1] < 2:
        raise InvalidInput(
            f"scores of shape {values.shape} and included of shape {bits.shape} must be one table each: "
            "a row per canary and a column per model, of which the interval needs two or more."
        )
    missing = np.argwhere(np.isnan(values))
    if missing.size:
        raise InvalidInput(
            f"scores hold NaN, the first of canary {missing[0, 0]} in model {missing[0, 1]}. A missing "
            "score is not a low score: drop the model that failed, for all canaries."
        )
    if bits.all() or not bits.any():
        raise InvalidInput(
            f"included says that {bits.sum()} of {bits.size} pairs are in. A true- and a false-positive rate "
            "need pairs of both kinds."
        )
    return values, bits
