"""Train many models at once: each equals `dpgap.training.trainer.train` with its own seed and membership."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dpgap.data.records import Canaries, Records
from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import Mechanism
from dpgap.training.dpsgd import gaussian_noise
from dpgap.training.execution import Execution
from dpgap.training.filter import Filter
from dpgap.training.fleet.network import build_network
from dpgap.training.fleet.seen import Given
from dpgap.training.fleet.step import Fleet, FleetState, advance, begin
from dpgap.training.options import PlainSGD, TrainingOptions
from dpgap.training.per_sample import flatten
from dpgap.training.sampling import draw
from dpgap.training.step import Task
from dpgap.training.trainer import make_task

FleetObserver = Callable[[int, dict[str, Tensor]], None]
ROWS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class FleetResult:
    """M finished models, in the order of the seeds; all but ``weights`` is private."""

    weights: dict[str, Float[Tensor, "M ..."]]
    removed_at: Int[Tensor, "M N"]
    scores: Float[Tensor, "M N"]
    tallies: Float[Tensor, "M T 3"]


def train_fleet(
    records: Records,
    model: nn.Module,
    mechanism: Mechanism | PlainSGD,
    filter: Filter | None = None,  # noqa: A002
    *,
    options: TrainingOptions,
    seeds: Sequence[int],
    canaries: Canaries | None = None,
    membership: Bool[Tensor, "M N"] | None = None,
    observer: FleetObserver | None = None,
    execution: Execution | None = None,
) -> FleetResult:
    task = make_task(records, model, mechanism, filter, options, canaries)
    fleet = _fleet(task, list(seeds))
    if membership is None:
        membership = torch.ones(len(seeds), len(task.records), dtype=torch.bool)
    state = begin(fleet, membership)
    n = len(task.records)
    for step in range(1, mechanism.steps + 1):
        coins = torch.stack([draw(mechanism.sampling, n, step, seed) for seed in seeds])
        noise = torch.stack([gaussian_noise(state.weights.shape[1], task.noise_scale, step, seed) for seed in seeds])
        advance(fleet, state, coins, noise)
        if observer:
            observer(step, fleet.network.named(state.weights.clone()))
    return FleetResult(
        weights=fleet.network.named(state.weights),
        removed_at=state.removed_at,
        scores=state.scores[:, :-1],
        tallies=state.tallies,
    )


def _fleet(task: Task, seeds: list[int]) -> Fleet:
    records = task.records
    nobody = records.x.new_zeros(1, *records.x.shape[1:])
    given = None
    if task.gradients is not None:
        given = Given(gradients=task.gradients, first=len(records) - len(task.gradients))
    return Fleet(
        task=task,
        network=build_network(task.model, task.parameters, nobody[0], records.num_classes),
        x=torch.cat([records.x, nobody]),
        labels=torch.cat([records.y, records.y.new_zeros(1)]),
        start=flatten(task.parameters),
        given=given,
        rows=ROWS_AT_ONCE,
        seeds=seeds,
    )
