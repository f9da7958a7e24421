"""Train what is missing of an audit, keep it chunk by chunk, and conclude."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

from dpgap._plain import plain
from dpgap.audits.base import Assignment
from dpgap.audits.comparable import check_comparable
from dpgap.audits.result import Audit
from dpgap.errors import DpgapError, InvalidInput
from dpgap.experiments.backends import train_chunks
from dpgap.experiments.conclude import check_distinct, conclude, evidence_of, headline
from dpgap.experiments.job import INCLUDED, Failure, Job, Outcome
from dpgap.experiments.progress import Forecast, Quiet, Watcher
from dpgap.experiments.provenance import provenance
from dpgap.store.records import ModelResult
from dpgap.store.store import Store
from dpgap.training.execution import Execution


def run(
    job: Job, store: Store, *, execution: Execution | None = None, watcher: Watcher | None = None
) -> Audit:
    """Begin or resume ``job`` in ``store``, and say what follows from it.

    One model, or one fleet of them, is trained first; what it says of all is told before they are spent.

    **Guarantees**: the scores are a function of the job alone: neither of ``execution``, nor of how often
    and where the run was stopped, killed or shared with other processes on the same store. Who is in which
    model, and which models there are, never depends on a score; a sequential design stops at its own rule.

    **Edge cases**: a model that fails is noted, left out, and tried again by the next run; if the first one
    fails nothing more is spent. Models that another process has claimed are left to it. What the audit
    could not answer with all its models is refused before the first. Ctrl-C keeps what was committed, and
    the `KeyboardInterrupt` has a note that says how to go on.
    """
    execution, watcher = execution or Execution(), watcher or Quiet()
    check_comparable(job.design, job.attack, job.question, job.upper_bound)
    store.add(job.description)
    store.check_device(job.key, job.device_kind)
    try:
        _try_one(job, store, execution, watcher)
        if not _decided(job, store):
            _train_the_rest(job, store, execution, watcher)
        return conclude(job, store)
    except KeyboardInterrupt as interrupted:
        kept = f"{len(store.done(job.key))} of {job.design.models} models"
        interrupted.add_note(f"Interrupted with {kept} kept in {store.path}. Run the same again to go on.")
        raise


def _try_one(job: Job, store: Store, execution: Execution, watcher: Watcher) -> None:
    """The trial: one model, or one fleet, unless some are there already; and the forecast that it allows."""
    done = store.done(job.key)
    if len(done) == job.design.models:
        return
    ceiling = job.design.ceiling(job.question, job.attack)
    if not done:
        size = min(job.usual_chunk, _chunk(job, execution))
        with closing(_kept_chunks(job, store, size, execution)) as chunks:
            first = next(chunks, [])
        for outcome in first:
            if isinstance(outcome, Failure):
                raise InvalidInput(
                    f"The first model failed, so no other was begun: {outcome.message}. Mend it, then run "
                    "this again."
                )
    results = store.results(job.key)
    if results:
        watcher.forecast(
            Forecast(
                seconds=sum(result.seconds for result in results) / len(results),
                done=len(results),
                models=job.design.models,
                processes=execution.processes,
                ceiling=ceiling,
            )
        )


def _chunk(job: Job, execution: Execution) -> int:
    return execution.models_at_once or job.usual_chunk


def _train_the_rest(job: Job, store: Store, execution: Execution, watcher: Watcher) -> None:
    size = _chunk(job, execution)
    done, distinct = len(store.done(job.key)), False
    with closing(_kept_chunks(job, store, size, execution)) as chunks:
        for outcomes in chunks:
            done += sum(isinstance(outcome, ModelResult) for outcome in outcomes)
            distinct = distinct or check_distinct(job, store)
            bound = _bound_so_far(job, store) if watcher.wants_bounds else None
            watcher.advanced(done, job.design.models, bound)
            if _decided(job, store):
                break


def _kept_chunks(job: Job, store: Store, size: int, execution: Execution) -> Generator[list[Outcome]]:
    """What came of chunk after chunk, each handed on when it has been kept."""
    with (
        closing(_claimed_chunks(job, store, size)) as chunks,
        closing(train_chunks(job.worker, chunks, execution.processes)) as outcomes,
    ):
        for chunk in outcomes:
            _keep(job, store, chunk)
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


def _keep(job: Job, store: Store, outcomes: list[Outcome]) -> None:
    results = [_with_bits(job, outcome) for outcome in outcomes if isinstance(outcome, ModelResult)]
    if results:
        store.commit(job.key, results, provenance=provenance(), device_kind=job.device_kind)
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
