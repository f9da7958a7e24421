"""Train what is missing of an audit, keep it chunk by chunk, and conclude."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from itertools import islice

from dpgap._plain import plain
from dpgap.audits.base import Assignment
from dpgap.audits.comparable import check_comparable
from dpgap.audits.result import Audit
from dpgap.errors import DpgapError, InvalidInput
from dpgap.experiments.backends.base import Backend, Crew
from dpgap.experiments.backends.local import Local
from dpgap.experiments.conclude import check_distinct, conclude, evidence_of, headline
from dpgap.experiments.job import Failure, Job, Outcome
from dpgap.experiments.progress import Forecast, Quiet, Watcher
from dpgap.store.records import INCLUDED, ModelResult
from dpgap.store.store import Store


def run(
    job: Job,
    store: Store,
    *,
    backend: Backend | None = None,
    watcher: Watcher | None = None,
) -> Audit:
    """Begin or resume ``job`` in ``store``, trained by ``backend``, and say what follows from it.

    One model, or one fleet of them, is trained first; what it says of all is told before they are spent.

    **Guarantees**: the scores are a function of the job alone: neither of ``backend``, nor of how often
    and where the run was stopped, killed or shared with other processes on the same store. Who is in which
    model, and which models there are, never depends on a score; a sequential design stops at its own rule.

    **Edge cases**: a model that fails is noted, left out, and tried again by the next run; if the first one
    fails nothing more is spent. Models that another process has claimed are left to it. What the audit
    could not answer with all its models is refused before the first. An audit that has all its models needs
    no backend any more. Ctrl-C keeps what was committed, and the `KeyboardInterrupt` has a note that says
    how to go on.
    """
    backend, watcher = backend or Local(), watcher or Quiet()
    check_comparable(job.design, job.attack, job.question, job.upper_bound)
    store.add(job.description)
    try:
        if not _finished(job, store):
            with backend.opened(job.worker) as crew:
                store.check_device(job.key, crew.device_kind)
                _train(job, store, crew, backend.models_at_once, watcher)
        return conclude(job, store)
    except KeyboardInterrupt as interrupted:
        kept = f"{len(store.done(job.key))} of {job.design.models} models"
        interrupted.add_note(f"Interrupted with {kept} kept in {store.path}. Run the same again to go on.")
        raise


def _finished(job: Job, store: Store) -> bool:
    """Whether nothing is left to be trained."""
    done = store.done(job.key)
    return len(done) == job.design.models or (bool(done) and _decided(job, store))


def _train(job: Job, store: Store, crew: Crew, models_at_once: int | None, watcher: Watcher) -> None:
    usual = job.usual_chunks.get(crew.device_kind.split()[0], 1)
    size = models_at_once or usual
    ceiling = job.design.ceiling(job.question, job.attack)
    if not store.done(job.key):
        _try_one(job, store, crew, min(usual, size))
    _forecast(job, store, crew, ceiling, watcher)
    if not _finished(job, store):
        _train_the_rest(job, store, crew, size, watcher)


def _try_one(job: Job, store: Store, crew: Crew, size: int) -> None:
    """The trial: one model, or one fleet."""
    with closing(_kept_chunks(job, store, crew, size, at_most=1)) as chunks:
        for outcome in next(chunks, []):
            if isinstance(outcome, Failure):
                raise InvalidInput(
                    f"The first model failed, so no other was begun: {outcome.message}. Mend it, then run "
                    "this again."
                )


def _forecast(job: Job, store: Store, crew: Crew, ceiling: float, watcher: Watcher) -> None:
    """What the models that are there say of all."""
    results = store.results(job.key)
    if results:
        watcher.forecast(
            Forecast(
                seconds=sum(result.seconds for result in results) / len(results),
                done=len(results),
                models=job.design.models,
                at_once=crew.at_once,
                ceiling=ceiling,
            )
        )


def _train_the_rest(job: Job, store: Store, crew: Crew, size: int, watcher: Watcher) -> None:
    done, distinct = len(store.done(job.key)), False
    with closing(_kept_chunks(job, store, crew, size)) as chunks:
        for outcomes in chunks:
            done += sum(isinstance(outcome, ModelResult) for outcome in outcomes)
            distinct = distinct or check_distinct(job, store)
            bound = _bound_so_far(job, store) if watcher.wants_bounds else None
            watcher.advanced(done, job.design.models, bound)
            if _decided(job, store):
                break


def _kept_chunks(
    job: Job, store: Store, crew: Crew, size: int, at_most: int | None = None
) -> Generator[list[Outcome]]:
    """What came of chunk after chunk, each handed on when it has been kept."""
    with (
        closing(_claimed_chunks(job, store, size)) as chunks,
        closing(crew.train(islice(chunks, at_most))) as outcomes,
    ):
        for chunk in outcomes:
            _keep(job, store, crew, chunk)
            yield chunk


def _claimed_chunks(job: Job, store: Store, size: int) -> Generator[list[Assignment]]:
    """Chunks of models that are neither done, nor tried in this run, nor claimed by another process."""
    tried: set[int] = set()
    found = True
    try:
        while found:
            missing = sorted(set(range(job.design.models)) - store.done(job.key) - tried)
            found = False
            for start in range(0, len(missing), size):
                if mine := store.claim(job.key, missing[start : start + size]):
                    tried.update(mine)
                    found = True
                    yield [job.assignment(model) for model in mine]
    finally:
        store.release(job.key, sorted(tried))


def _keep(job: Job, store: Store, crew: Crew, outcomes: list[Outcome]) -> None:
    results = [_with_bits(job, outcome) for outcome in outcomes if isinstance(outcome, ModelResult)]
    if results:
        store.commit(job.key, results, provenance=crew.provenance, device_kind=crew.device_kind)
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            store.fail(job.key, outcome.model, outcome.message)


def _with_bits(job: Job, result: ModelResult) -> ModelResult:
    included = job.design.told(job.assignment(result.model))
    return replace(result, arrays=result.arrays | {INCLUDED: included})


def _decided(job: Job, store: Store) -> bool:
    """Whether the design's own rule says to stop."""
    if not job.design.sequential:
        return False
    decision = job.design.decision(evidence_of(job, store), job.question)
    return decision is not None and decision.status != "continue"


def _bound_so_far(job: Job, store: Store) -> float | None:
    """The headline of the models that are there, counted as a look; None while they are too few for one."""
    try:
        evidence = evidence_of(job, store)
        bound = headline(job, evidence)
    except DpgapError:
        return None
    store.look(job.key, len(evidence.models), [plain(bound)])
    return bound.value
