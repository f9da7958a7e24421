"""The paper's study of Clopper-Pearson limits at finite sample size (its Appendix A.2), as rows."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpgap.privacy.intervals import clopper_pearson_upper

Floats = NDArray[np.float64]

PAPER_SIZES = (200, 500, 1000, 5000, 10000)
Panel = Literal["raw", "corrected", "gap", "collapsed"]
_BIN = 0.1


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """The share of count pairs whose ``panel`` value lies in [``low``, ``low`` + 0.1).

    Panels: ``raw`` and ``corrected`` are the two distributions of the first picture, ``gap`` is their
    difference, ``collapsed`` the raw values whose corrected value is 0 (shares are of all pairs studied).
    """

    models: int
    panel: Panel
    low: float
    share: float


@dataclass(frozen=True, kw_only=True)
class StudyFacts:
    """What can be checked at one sample size: extremes, and how much the correction takes."""

    models: int
    largest_raw: float
    worst_collapsed: float
    collapsed_share: float
    mean_gap: float


def finite_sample_study(
    sizes: tuple[int, ...] = PAPER_SIZES, *, tail: float = 0.025, delta: float = 1e-5
) -> tuple[list[StudyRow], list[StudyFacts]]:
    """All pairs of error counts with a finite positive raw value ``log((1 - fnr - delta)/fpr)``, per size.

    The corrected value uses Clopper-Pearson upper limits at ``tail`` for both rates. The largest raw value is
    ``log((1 - delta) models)``; the worst collapsed one stays near ``log 11`` whatever the size.

    >>> rows, [facts] = finite_sample_study((200,))
    >>> round(facts.largest_raw, 4), round(facts.worst_collapsed, 2)
    (5.2983, 2.3)
    """
    rows: list[StudyRow] = []
    facts: list[StudyFacts] = []
    for models in sizes:
        size_rows, size_facts = _one_size(models, tail, delta)
        rows += size_rows
        facts.append(size_facts)
    return rows, facts


def _one_size(models: int, tail: float, delta: float) -> tuple[list[StudyRow], StudyFacts]:
    counts = np.arange(models + 1)
    limits = clopper_pearson_upper(counts, models, tail)
    with np.errstate(divide="ignore"):
        power, corrected_power = (
            np.log(np.maximum(1 - rates - delta, 0)) for rates in (counts / models, limits)
        )
    bins: dict[Panel, Floats] = {p: np.zeros(200) for p in ("raw", "corrected", "gap", "collapsed")}
    pairs, gap_total, worst = 0, 0.0, 0.0
    for false_positives in range(1, models + 1):
        raw = power - np.log(false_positives / models)
        studied = raw > 0
        corrected = np.maximum(corrected_power[studied] - np.log(limits[false_positives]), 0.0)
        raw = raw[studied]
        collapsed = raw[corrected == 0]
        panels: dict[Panel, Floats] = {
            "raw": raw,
            "corrected": corrected,
            "gap": raw - corrected,
            "collapsed": collapsed,
        }
        for panel, values in panels.items():
            bins[panel] += np.bincount((values / _BIN).astype(int), minlength=200)
        pairs, gap_total = pairs + raw.size, gap_total + float(panels["gap"].sum())
        worst = max(worst, float(collapsed.max(initial=0.0)))
    rows = [
        StudyRow(models=models, panel=panel, low=round(int(k) * _BIN, 1), share=float(totals[k] / pairs))
        for panel, totals in bins.items()
        for k in np.flatnonzero(totals)
    ]
    return rows, StudyFacts(
        models=models,
        largest_raw=float(power[0] + np.log(models)),
        worst_collapsed=worst,
        collapsed_share=float(bins["collapsed"].sum() / pairs),
        mean_gap=gap_total / pairs,
    )
