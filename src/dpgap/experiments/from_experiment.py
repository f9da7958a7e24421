"""An `Experiment` as a job: dpgap's own training, a fleet for each chunk."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dpgap._digest import digest
from dpgap._plain import plain
from dpgap.audits.base import Assignment, Design
from dpgap.audits.result import Audit
from dpgap.canaries.base import Canary
from dpgap.data.load import load
from dpgap.data.records import Canaries, Records
from dpgap.errors import DpgapError, NoAnswer
from dpgap.experiments.backends.base import Backend
from dpgap.experiments.converter import to_plain
from dpgap.experiments.experiment import KEY_VERSION, Experiment
from dpgap.experiments.job import Failure, Job, Outcome, Worker, checked, explained, fingerprint
from dpgap.experiments.progress import watched
from dpgap.experiments.provenance import device_kind
from dpgap.experiments.run import run
from dpgap.models.build import build_model
from dpgap.privacy.mechanism import Mechanism
from dpgap.store.records import FINGERPRINT, REMOVED_AT, REMOVED_BY_CLASS, STATISTIC, Description, ModelResult
from dpgap.store.store import DEFAULT_STORE, Store
from dpgap.training.evaluate import share_right
from dpgap.training.execution import Execution
from dpgap.training.fleet.device import chosen_device
from dpgap.training.fleet.fleet import FleetResult, train_fleet
from dpgap.training.options import PlainSGD
from dpgap.training.trainer import removes_many

_USUAL_CHUNKS = {"cpu": 32, "cuda": 40}
"""Few enough to lose, and enough to be trained together at full speed."""
_DIVERGED = (
    "training diverged: the released weights are not finite. Too high a learning rate is the usual cause; "
    "lower it, or raise expected_batch or clip less"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """What every model of an experiment starts from: data, canaries and the public initial model."""

    train: Records
    test: Records
    canaries: Canaries | None
    model: nn.Module

    @property
    def asked(self) -> dict[str, Float[Tensor, "..."]]:
        """The rows whose logits are wanted of every model."""
        canaries = {"canaries": self.canaries.rows} if self.canaries else {}
        return {"train": self.train.x, "test": self.test.x, **canaries}

    def scored(self, design: Design) -> tuple[str, Int[Tensor, " S"]]:
        """The name and the labels of the rows whose membership is scored."""
        if design.scored == "canaries" and self.canaries:
            return "canaries", self.canaries.labels
        return "train", self.train.y


def run_experiment(
    experiment: Experiment,
    *,
    store: str | Path = DEFAULT_STORE,
    folder: Path | None = None,
    execution: Execution | None = None,
    backend: Backend | None = None,
) -> Audit:
    """Begin or resume ``experiment`` in ``store``, on the data in ``folder`` (else where DPGAP_DATA says).

    The models are trained by ``backend``: in this process, unless given.
    """
    job = job_of(experiment, folder, execution)
    with closing(Store(store)) as opened, watched() as watcher:
        return run(job, opened, backend=backend, watcher=watcher)


def job_of(experiment: Experiment, folder: Path | None = None, execution: Execution | None = None) -> Job:
    """The experiment, ready to run on the data in ``folder`` (else the one that DPGAP_DATA names)."""
    prepared = prepare(experiment, folder)
    mechanism = experiment.resolved
    state = prepared.model.state_dict().values()
    planted = (prepared.canaries.rows, prepared.canaries.labels) if prepared.canaries else ()
    arrays = [prepared.train.x, prepared.train.y, prepared.test.x, prepared.test.y, *planted, *state]
    return Job(
        description=Description(
            key=experiment.key,
            title=experiment.title,
            specification={
                "version": KEY_VERSION,
                "experiment": plain(to_plain(experiment)),
                "mechanism": plain(mechanism),
            },
            inputs=digest(repr(mechanism), *(value.numpy() for value in arrays)),
            upper_bound=plain(experiment.upper_bound),
        ),
        design=experiment.design,
        attack=experiment.attack,
        question=experiment.question,
        upper_bound=experiment.upper_bound,
        worker=Training(
            experiment=experiment,
            mechanism=mechanism,
            folder=folder,
            execution=execution or Execution(),
        ),
        records=len(prepared.train),
        seed=experiment.seed,
        usual_chunks=_USUAL_CHUNKS,
        steps_per_epoch=experiment.steps_per_epoch,
        notes=_notes(experiment, prepared.train),
    )


def _notes(experiment: Experiment, records: Records) -> tuple[str, ...]:
    if experiment.filter is None:
        return ()
    planned = experiment.filter.planned_maximum(experiment.mechanism.steps, records.num_classes)
    warning = removes_many(planned, len(records))
    return (warning,) if warning else ()


@lru_cache(maxsize=1)
def prepare(experiment: Experiment, folder: Path | None) -> Prepared:
    """Load the data, build the initial model, make the canaries; the last experiment's are kept."""
    dataset = experiment.dataset
    splits = load(dataset.name, folder, majority=dataset.majority, num_classes=dataset.num_classes)
    shape = tuple(splits.train.x.shape[1:])
    model = build_model(experiment.model.name, shape, splits.train.num_classes, experiment.model.seed)
    canaries = planted(experiment.canary, experiment.design.planted, splits.train, model)
    return Prepared(train=splits.train, test=splits.test, canaries=canaries, model=model)


def planted(canary: Canary | None, count: int, records: Records, model: nn.Module | None) -> Canaries | None:
    """The canaries' rows, checked against the records; None where nothing is planted."""
    if canary is None:
        return None
    canaries = canary.plant(records, model, count)
    records.with_canaries(canaries)
    return canaries


@dataclass(frozen=True, kw_only=True, eq=False)
class Training(Worker):
    """Trains a chunk of an experiment's models together, by `train_fleet`."""

    experiment: Experiment
    mechanism: Mechanism | PlainSGD
    folder: Path | None

    def __call__(self, assignments: Sequence[Assignment]) -> list[Outcome]:
        """What came of each model."""
        prepared = prepare(self.experiment, self.folder)
        began = time.perf_counter()
        try:
            fleet = self._trained(prepared, assignments)
        except DpgapError as problem:
            return [Failure(model=each.model, message=explained(problem)) for each in assignments]
        share = (time.perf_counter() - began) / len(assignments)
        with _one_thread():
            return [self._outcome(prepared, fleet, m, each, share) for m, each in enumerate(assignments)]

    def device_kind(self) -> str:
        """The kind of the device that the execution asks for, or that is there."""
        return device_kind(chosen_device(self.execution))

    def data(self) -> str:
        """A digest of the records as they lie on this machine."""
        prepared = prepare(self.experiment, self.folder)
        rows = (prepared.train.x, prepared.train.y, prepared.test.x, prepared.test.y)
        return digest(*(value.numpy() for value in rows))

    def _trained(self, prepared: Prepared, assignments: Sequence[Assignment]) -> FleetResult:
        members = [
            torch.cat([_members(prepared.train, each), torch.from_numpy(each.canaries)])
            for each in assignments
        ]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The filter is planned")  # said once, in the audit's notes
            return train_fleet(
                prepared.train,
                prepared.model,
                self.mechanism,
                self.experiment.filter,
                options=self.experiment.training,
                seeds=[each.seed for each in assignments],
                canaries=prepared.canaries,
                membership=torch.stack(members),
                execution=self.execution,
            )

    def _outcome(
        self, prepared: Prepared, fleet: FleetResult, m: int, assignment: Assignment, share: float
    ) -> Outcome:
        try:
            return self._asked(prepared, fleet, m, assignment, share)
        except DpgapError as problem:
            return Failure(model=assignment.model, message=explained(problem))

    def _asked(
        self, prepared: Prepared, fleet: FleetResult, m: int, assignment: Assignment, share: float
    ) -> ModelResult:
        began = time.perf_counter()
        weights, start = fleet.model(m), prepared.train
        if not all(value.isfinite().all() for value in weights.values()):
            raise NoAnswer(_DIVERGED)
        logits = {name: fleet.logits(m, x) for name, x in prepared.asked.items()}
        scored, labels = prepared.scored(self.experiment.design)
        statistic = self.experiment.attack.statistic(logits[scored].double().numpy(), labels.numpy())
        arrays = {
            STATISTIC: checked(statistic),
            FINGERPRINT: fingerprint(*(value.numpy() for value in weights.values())),
        }
        members, removed_at = _members(start, assignment), fleet.removed_at[m]
        if self.experiment.filter:
            left, labels = removed_at[: len(start)][members], start.y[members]
            arrays[REMOVED_BY_CLASS] = removed_by_class(left, labels, start.num_classes).numpy()
        if self.experiment.filter and prepared.canaries:
            arrays[REMOVED_AT] = removed_at[len(start) :].numpy()
        return ModelResult(
            model=assignment.model,
            seconds=share + time.perf_counter() - began,
            train_accuracy=share_right(logits["train"][members], start.y[members]),
            test_accuracy=share_right(logits["test"], prepared.test.y),
            arrays=arrays,
        )


def removed_by_class(
    removed_at: Int[Tensor, " N"], labels: Int[Tensor, " N"], classes: int
) -> Int[Tensor, "D C1"]:
    """A row for each step after which records left: the step, then how many of each class; sizes come first.

    >>> removed_by_class(torch.tensor([0, 4, 4, 8]), torch.tensor([0, 0, 1, 1]), 2).tolist()
    [[0, 2, 2], [4, 1, 1], [8, 0, 1]]
    """
    steps = removed_at[removed_at > 0].unique()
    sizes = torch.bincount(labels, minlength=classes)
    counts = [torch.bincount(labels[removed_at == step], minlength=classes) for step in steps]
    moments = torch.cat([steps.new_zeros(1), steps])[:, None]
    return torch.cat([moments, torch.stack([sizes, *counts])], dim=1).int()


@contextmanager
def _one_thread() -> Iterator[None]:
    """So that no score depends on how many cores a machine has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _members(records: Records, assignment: Assignment) -> Bool[Tensor, " N"]:
    if assignment.records is None:
        return torch.ones(len(records), dtype=torch.bool)
    return torch.from_numpy(assignment.records)
