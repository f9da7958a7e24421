"""Train many models at once: each equals `dpgap.training.trainer.train` with its own seed and membership."""

import copy
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from threading import Event

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dpgap.data.records import Canaries, Records
from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import Mechanism
from dpgap.training.execution import Execution
from dpgap.training.filter import Filter
from dpgap.training.fleet.device import chosen_device
from dpgap.training.fleet.network import Network, build_network
from dpgap.training.fleet.randomness import DeviceRandomness, HostRandomness
from dpgap.training.fleet.run import Finished, FleetObserver, Tile
from dpgap.training.fleet.seen import Given
from dpgap.training.fleet.size import Size, cpu_size, cuda_size, measured_row_bytes
from dpgap.training.fleet.step import Fleet
from dpgap.training.options import PlainSGD, TrainingOptions
from dpgap.training.per_sample import flatten, unflatten
from dpgap.training.step import Task
from dpgap.training.trainer import make_task, planned, removes_many

_EVALUATED = 4096
"""Rows at once when finished models are asked."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FleetResult:
    """M finished models, in the order of their seeds; all but ``weights`` is private.

    ``tallies`` holds, of each step, the rows drawn, the sum of their losses, and how many of them the model
    before the step classified rightly.
    """

    weights: dict[str, Float[Tensor, "M ..."]]
    removed_at: Int[Tensor, "M N"]
    scores: Float[Tensor, "M N"]
    tallies: Float[Tensor, "M T 3"]
    network: Network

    def model(self, m: int) -> dict[str, Tensor]:
        """The trained parameters of model ``m``."""
        return {name: value[m] for name, value in self.weights.items()}

    def logits(self, m: int, x: Float[Tensor, "N ..."]) -> Float[Tensor, "N C"]:
        """What model ``m`` says of each row of ``x``, by itself: no other model changes a bit of it."""
        flat = flatten(self.model(m))[None]
        device = self.network.device
        self.network.prepare(flat.to(device))
        parts = [self.network.logits(part[None].to(device))[0] for part in x.split(_EVALUATED)]
        return torch.cat(parts).cpu()


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
    """Train a copy of ``model`` for each of ``seeds``, all of them together, by the algorithm of `train`.

    ``membership`` has a row for each seed and says which rows exist in that model (all, unless given): worlds
    with and without a canary, or with records left out at random, differ by this mask alone. ``observer``
    is called after each step with the step and the parameters of a tile of models, stacked.

    **Guarantees**: model m is the one that `train` gives for ``seeds[m]`` and ``membership[m]``, up to float
    rounding, and with the same removals unless scores lie closer than that. On a CPU it is the same bit for
    bit whatever other models are trained with it. A row's score is the same whoever is drawn with it.

    **Edge cases**: on a GPU coins and noise come from the GPU's own generators, so its models are others,
    of the same law. A layer without a fleet version is trained more slowly, and the log says so. What
    cannot fit is refused before the first step. A gradient whose squares overflow float32 counts as one that
    is not finite and contributes 0, where `train` clips it. No model here is for release: `train` makes that.

    >>> from dpgap.privacy.mechanism import Poisson
    >>> run = Mechanism(sampling=Poisson(rate=0.5), clip_norm=1.0, noise_multiplier=1.0,
    ...                 expected_batch=2.0, steps=3)
    >>> records = Records(torch.eye(4), torch.tensor([0, 1, 0, 1]), 2)
    >>> fleet = train_fleet(records, nn.Linear(4, 2), run, options=TrainingOptions(learning_rate=0.1),
    ...                     seeds=range(5))
    >>> fleet.weights["weight"].shape
    torch.Size([5, 2, 4])
    """
    execution, seeds = execution or Execution(), list(seeds)
    if not seeds:
        raise InvalidInput("seeds must hold at least one, got none. Write range(5) for five models.")
    device = chosen_device(execution)
    task = make_task(records, model, mechanism, filter, options, canaries)
    members = _membership(membership, len(seeds), len(task.records))
    if warning := removes_many(planned(task), int(members.sum(dim=1).amin())):
        warnings.warn(warning, stacklevel=2)
    network = _network(task, device)
    size = _size(task, network, len(seeds), 1 if observer else torch.get_num_threads())
    crew = _Crew(
        task=task,
        size=size,
        network=network,
        seeds=seeds,
        members=members,
        graph=execution.compile,
        observer=observer,
    )
    return _joined(crew.train(), len(seeds), network)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Crew:
    """Who trains the tiles: a GPU one after the other; a CPU as many at once as PyTorch has threads.

    Each tile has one thread for itself, so no result depends on how many there are.
    """

    task: Task
    size: Size
    network: Network
    seeds: list[int]
    members: Bool[Tensor, "M N"]
    graph: bool
    observer: FleetObserver | None
    stop: Event = field(default_factory=Event)

    def train(self) -> list[Finished]:
        """The finished tiles, in their order."""
        models, size = range(len(self.seeds)), self.size.models
        tiles = [_filled(models[start : start + size], size) for start in models[::size]]
        if self.network.device.type == "cuda":
            return self._one_after_the_other(tiles)
        threads = torch.get_num_threads()
        workers = 1 if self.observer else max(1, min(threads, len(tiles)))
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            try:
                parts = pool.map(self._one_after_the_other, (tiles[w::workers] for w in range(workers)))
                finished = list(parts)
            finally:
                self.stop.set()  # whoever still trains when one failed, or at Ctrl-C, ends with this step
                torch.set_num_threads(threads)
        return [finished[place % workers][place // workers] for place in range(len(tiles))]

    def _one_after_the_other(self, tiles: list[list[int]]) -> list[Finished]:
        if not tiles:
            return []
        device = self.network.device
        on_cpu = device.type == "cpu"
        fleet = _fleet(self.task, self.size, copy.deepcopy(self.network))
        width, graph = None if on_cpu else self.size.width, self.graph and not on_cpu
        tile = Tile(fleet, self.size.models, width=width, graph=graph, stop=self.stop)
        finished: list[Finished] = []
        for models in tiles:
            seeds = [self.seeds[m] for m in models]
            draws = HostRandomness(self.task, seeds) if on_cpu else DeviceRandomness(self.task, seeds, device)
            finished.append(tile.train(self.members[models].to(device), draws, self.observer))
        return finished


def _filled(models: range, size: int) -> list[int]:
    """The models of a tile, the last one repeated up to ``size``: kernels may differ with the number."""
    return [*models, *[models[-1]] * (size - len(models))]


def _joined(tiles: list[Finished], models: int, network: Network) -> FleetResult:
    weights, removed_at, scores, tallies = (
        torch.cat([getattr(tile, field.name) for tile in tiles])[:models] for field in fields(Finished)
    )
    return FleetResult(
        weights=unflatten(weights, network.parameters),
        removed_at=removed_at,
        scores=scores,
        tallies=tallies,
        network=network,
    )


def _fleet(task: Task, size: Size, network: Network) -> Fleet:
    records, device = task.records, network.device
    nobody = records.x.new_zeros(1, *records.x.shape[1:])
    given = None
    if task.gradients is not None:
        given = Given(gradients=task.gradients.to(device), first=len(records) - len(task.gradients))
    return Fleet(
        task=task,
        network=network,
        x=torch.cat([records.x, nobody]).to(device),
        labels=torch.cat([records.y, records.y.new_zeros(1)]).to(device),
        start=flatten(task.parameters).to(device),
        given=given,
        rows=size.rows,
    )


def _network(task: Task, device: torch.device) -> Network:
    parameters = {name: value.to(device) for name, value in task.parameters.items()}
    row = task.records.x.new_zeros(task.records.x.shape[1:]).to(device)
    model = copy.deepcopy(task.model).to(device)
    return build_network(model, parameters, row, task.records.num_classes, task.options.precision)


def _membership(membership: Tensor | None, models: int, n: int) -> Bool[Tensor, "M N"]:
    if membership is None:
        return torch.ones(models, n, dtype=torch.bool)
    if membership.dtype != torch.bool or membership.shape != (models, n):
        raise InvalidInput(
            f"membership must be booleans of shape ({models}, {n}), a row for each seed and a column for "
            f"each record and canary, got shape {tuple(membership.shape)} of {membership.dtype}. It says "
            f"which rows exist in which model; start from torch.ones({models}, {n}, dtype=torch.bool)."
        )
    return membership


def _size(task: Task, network: Network, models: int, threads: int) -> Size:
    device = network.device
    if device.type == "cpu":
        if task.options.precision != "fp32":
            raise InvalidInput(
                f"precision must be 'fp32' on a CPU, got {task.options.precision!r}, which a GPU's matrix "
                "units compute in. Write 'fp32', or device='cuda'."
            )
        return cpu_size(task, models, threads)
    row = task.records.x.new_zeros(task.records.x.shape[1:]).to(device)
    start = flatten(task.parameters).to(device)
    taken = measured_row_bytes(network, start, row, task.options.copies)
    return cuda_size(task, taken, torch.cuda.get_device_properties(device).total_memory)
