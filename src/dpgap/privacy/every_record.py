"""Bounds for every record at once, when each was in or out at random in each model."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from dpgap import _check
from dpgap._seeds import stream
from dpgap.errors import InvalidInput
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.estimators import ClopperPearson, Separable
from dpgap.privacy.intervals import band_levels
from dpgap.privacy.lower_bound import LowerBound, lower_bound
from dpgap.privacy.rules import AllThresholds, Band

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]

_CELLS = 2_000_000
"""Scores held in memory at once: few enough for the caches, enough to hide the cost of a call."""


@dataclass(frozen=True, kw_only=True)
class RecordBounds:
    """A lower bound per record: ``values[i]`` is record i's, found at ``thresholds[i]``.

    If ``together``, all of them hold at once at ``confidence``, so that the largest may be claimed;
    otherwise each speaks of a record that was named before the scores were seen.
    """

    values: Float[np.ndarray, " records"]
    thresholds: Float[np.ndarray, " records"]
    n_inside: Int[np.ndarray, " records"]
    delta: float
    confidence: float
    estimator: str
    rule: str
    together: bool

    @property
    def strongest(self) -> int:
        """The record with the largest bound."""
        return int(np.argmax(self.values))


def bound_every_record(
    scores: Floats,
    included: Bits,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    estimator: Separable | None = None,
    rule: Band | AllThresholds | None = None,
    together: bool = True,
) -> RecordBounds:
    """`lower_bound` of every record, from ``scores[record, model]`` and ``included[record, model]``.

    Limits depend on counts only, so they are tabulated once per number of inside models, and each
    record's scores are sorted once: 60,000 records in 1,000 models take seconds.

    **Guarantees**: those of `lower_bound`; with ``together`` the level is divided by the number of
    records (Bonferroni), which pays for the search of the strongest. **Edge cases**: a record that was
    in all models, or in none, has no second world: refused by number.

    >>> scores = np.arange(200.0)[None, :]
    >>> round(float(bound_every_record(scores, scores >= 100).values[0]), 2)
    3.02
    """
    _check.delta(delta)
    _check.probability(confidence=confidence, hint="Write 0.95 for a claim that is wrong one time in twenty.")
    estimator, rule = estimator or ClopperPearson(), rule or Band()
    n_inside = _inside_models(scores, included)
    level = (1 - confidence) / (len(scores) if together else 1)
    limits, offset = _limit_tables(n_inside, scores.shape[1], estimator, rule, level)
    tables = estimator.parts(limits, limits, delta)
    strength, thresholds = np.empty(len(scores)), np.empty(len(scores))
    rows = max(_CELLS // scores.shape[1], 1)
    for start in range(0, len(scores), rows):
        chunk = slice(start, start + rows)
        strength[chunk], thresholds[chunk] = _strongest_tests(scores[chunk], included[chunk], tables, offset)
    return RecordBounds(
        values=np.maximum(estimator.epsilon(strength, delta), 0.0),
        thresholds=thresholds,
        n_inside=n_inside,
        delta=delta,
        confidence=confidence,
        estimator=estimator.id,
        rule=rule.id,
        together=together,
    )


def strongest_record(
    scores: Floats,
    included: Bits,
    *,
    share: float = 0.5,
    seed: int = 0,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> tuple[int, LowerBound]:
    """The record that looks most exposed in some of the models, bounded in the others, a ``share`` of them.

    **Guarantees**: certified: the models that evaluate had no part in the search.
    """
    _check.probability(share=share, hint="It is the share of models that evaluate; write 0.5.")
    models = stream(seed, "strongest-record").permutation(scores.shape[1])
    evaluating, selecting = np.split(models, [round(share * models.size)])
    found = bound_every_record(
        scores[:, selecting], included[:, selecting], delta=delta, confidence=confidence, together=False
    )
    record = found.strongest
    mine, bits = scores[record, evaluating], included[record, evaluating]
    return record, lower_bound(AuditScores(mine[bits], mine[~bits]), delta=delta, confidence=confidence)


def _inside_models(scores: Floats, included: Bits) -> Ints:
    """How many models each record was in, after checking that every record has two worlds of numbers."""
    if scores.ndim != 2 or scores.shape != included.shape or scores.size == 0:
        raise InvalidInput(
            f"scores of shape {scores.shape} and included of shape {included.shape} must be one table each, "
            "one row per record and one column per model."
        )
    missing = np.flatnonzero(np.isnan(scores).any(axis=1))
    if missing.size:
        raise InvalidInput(
            f"scores of record {missing[0]} hold NaN. Drop the model that failed, for all records."
        )
    n_inside = included.sum(axis=1)
    one_sided = np.flatnonzero((n_inside == 0) | (n_inside == scores.shape[1]))
    if one_sided.size:
        raise InvalidInput(
            f"included has record {one_sided[0]} in {n_inside[one_sided[0]]} of {scores.shape[1]} models. A "
            "bound compares models with it and without it: leave that record out, or train more models."
        )
    return n_inside


def _limit_tables(
    n_inside: Ints, models: int, estimator: Separable, rule: Band | AllThresholds, level: float
) -> tuple[Floats, Ints]:
    """The limit of every count of errors in every size of world, and where each size's limits begin."""
    sizes = np.union1d(n_inside, models - n_inside)
    offset = np.zeros(models + 1, dtype=np.int64)
    offset[sizes] = np.cumsum(sizes + 1) - (sizes + 1)
    limits: list[Floats] = []
    for size in map(int, sizes):
        counts = np.arange(size + 1, dtype=np.int64)
        levels = np.full(size + 1, level / 2)
        if isinstance(rule, Band):
            band = band_levels(size, level / 2)
            counts, levels = band.counts, band.levels
        limits.append(estimator.upper(counts, size, levels))
    return np.concatenate(limits), offset


def _strongest_tests(
    scores: Float[np.ndarray, "records models"],
    included: Bool[np.ndarray, "records models"],
    tables: tuple[tuple[Float[np.ndarray, " limits"], Float[np.ndarray, " limits"]], ...],
    offset: Int[np.ndarray, " models+1"],
) -> tuple[Float[np.ndarray, " records"], Float[np.ndarray, " records"]]:
    """The largest strength of each row over all thresholds, and the threshold."""
    models = int(scores.shape[1])
    order = np.argsort(-scores, axis=1)
    ranked = np.take_along_axis(scores, order, axis=1)
    caught = np.cumsum(np.take_along_axis(included, order, axis=1), axis=1)
    n_inside = caught[:, -1:]
    flagged = np.arange(1, models + 1, dtype=np.int64)
    false_positives = flagged - caught + offset[models - n_inside]
    false_negatives = n_inside - caught + offset[n_inside]
    strength = np.fmax.reduce([fpr[false_positives] + fnr[false_negatives] for fpr, fnr in tables])
    strength[:, :-1][ranked[:, :-1] == ranked[:, 1:]] = -np.inf
    best = np.argmax(strength, axis=1)[:, None]
    return np.take_along_axis(strength, best, axis=1)[:, 0], np.take_along_axis(ranked, best, axis=1)[:, 0]
