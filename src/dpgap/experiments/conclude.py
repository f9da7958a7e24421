"""From what the store holds to what follows from it."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpgap._plain import plain
from dpgap.audits.base import Evidence
from dpgap.audits.result import Audit, Status
from dpgap.errors import InvalidInput, NoAnswer
from dpgap.experiments.job import Job
from dpgap.experiments.progress import duration
from dpgap.privacy.lower_bound import LowerBound
from dpgap.store.records import (
    FINGERPRINT,
    INCLUDED,
    REMOVED_AT,
    STATISTIC,
    Conclusion,
    ModelResult,
    Removals,
    Spread,
)
from dpgap.store.store import Store

_SHOWN = 100_000
"""Scores of a world that are kept for figures; of a model each, there are never so many."""


def conclude(job: Job, store: Store) -> Audit:
    """eps_lb of the models that are there, beside eps_ub; the store counts that it was asked.

    **Edge cases**: models that are missing or failed are left out and named in a note; where a world has
    none at all there is no bound, and the refusal says how many are there.
    """
    results = store.results(job.key)
    evidence = evidence_of(job, store)
    bounds = (headline(job, evidence), *job.design.others(evidence, job.question))
    store.look(job.key, len(results), plain(bounds))
    found = Audit(
        key=job.key,
        title=job.description.title,
        design=job.design.id,
        status=_status(job, evidence, len(results)),
        models=len(results),
        planned=job.design.models,
        upper_bound=job.upper_bound,
        bounds=bounds,
        train_accuracy=Spread.of([result.train_accuracy for result in results]),
        test_accuracy=Spread.of([result.test_accuracy for result in results]),
        removals=_removals(job, store, results),
        seconds_per_model=float(np.mean([result.seconds for result in results])),
        looks=next(summary.bounds for summary in store.experiments() if summary.key == job.key),
        notes=job.notes,
    )
    found = replace(found, notes=(*found.notes, *_saved(found), *_failed(store.failures(job.key))))
    worlds = job.design.worlds(evidence)
    kept = Conclusion(
        audit=plain(found),
        inside=_thinned(worlds.inside),
        outside=_thinned(worlds.outside),
        independent=job.design.independent,
        compared=job.design.compared,
    )
    store.conclude(job.key, kept)
    return found


def _thinned(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """All scores, or evenly spaced order statistics of them where a reader could not tell the difference."""
    if scores.size <= _SHOWN:
        return scores
    return np.sort(scores)[np.linspace(0, scores.size - 1, _SHOWN).round().astype(np.int64)]


def evidence_of(job: Job, store: Store) -> Evidence:
    """The scores of all models that are there, and who was in."""
    models = np.array([result.model for result in store.results(job.key)], dtype=np.int64)
    if not len(models):
        raise NoAnswer(f"None of the {job.design.models} models is there yet, so nothing follows.")
    statistics, included = store.array(job.key, STATISTIC), store.array(job.key, INCLUDED)
    scored = job.attack.scores(statistics, included)
    return Evidence(models=models[scored.models], scores=scored.scores, included=included[scored.models])


def headline(job: Job, evidence: Evidence) -> LowerBound:
    """The design's headline, where both worlds have models."""
    everyone = evidence.included.all()
    if everyone or not evidence.included.any():
        raise NoAnswer(
            f"{len(evidence.models)} of {job.design.models} models are there, and all are of the world "
            f"{'with' if everyone else 'without'} what is scored; a bound compares two. Let the run go on, "
            "then ask again."
        )
    return job.design.headline(evidence, job.question)


def check_distinct(job: Job, store: Store) -> bool:
    """Refuse models that are one model: all of one world equal to the last bit, whatever their seeds.

    False as long as no world has two models, so that nothing can be said yet.
    """
    results = store.results(job.key)
    worlds: dict[bytes, list[bytes]] = {}
    for result, fingerprint in zip(results, store.array(job.key, FINGERPRINT), strict=True):
        worlds.setdefault(job.assignment(result.model).world, []).append(fingerprint.tobytes())
    for copies in worlds.values():
        if len(copies) > 1 and len(set(copies)) == 1:
            raise InvalidInput(
                f"train must use its seed: {len(copies)} models of one world, trained with different seeds, "
                "gave the same outputs to the last bit. Copies of one model are one sample, so no bound "
                "would follow. Seed every source of randomness by the seed given; if training is "
                "deterministic on purpose it is private at no epsilon; if its outputs are so coarse that "
                "equal ones are chance, add independent noise far below their steps, which costs no privacy."
            )
    return any(len(copies) > 1 for copies in worlds.values())


def _removals(job: Job, store: Store, results: list[ModelResult]) -> Removals | None:
    left = store.arrays(job.key, REMOVED_AT)
    if not left:
        return None
    inside = np.stack([job.assignment(result.model).canaries for result in results])
    steps = np.stack(left)
    gone = steps[inside & (steps > 0)]
    return Removals(
        planted=int(inside.sum()),
        removed=len(gone),
        median=float(np.median(gone)) if len(gone) else None,
        steps_per_epoch=job.steps_per_epoch,
    )


def _status(job: Job, evidence: Evidence, models: int) -> Status:
    decision = job.design.decision(evidence, job.question)
    if decision is not None and decision.status != "continue":
        return decision.status
    return "finished" if models == job.design.models else "incomplete"


def _saved(audit: Audit) -> list[str]:
    if not audit.saved:
        return []
    worth = duration(audit.saved * audit.seconds_per_model)
    return [f"Stopping early saved {audit.saved} of {audit.planned} models, some {worth} of training."]


def _failed(failures: dict[int, str]) -> list[str]:
    if not failures:
        return []
    first = min(failures)
    return [
        f"{len(failures)} models failed and are left out, which is sound only if failing has nothing to do "
        f"with the canary; the first is model {first}: {failures[first]}"
    ]
