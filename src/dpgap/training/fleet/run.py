"""All steps of one tile of models, replayed as a graph on a GPU."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from threading import Event

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dpgap.training.fleet.batches import width_for
from dpgap.training.fleet.device import captured
from dpgap.training.fleet.randomness import Randomness
from dpgap.training.fleet.step import Fleet, apply_filter, begin, learn
from dpgap.training.per_sample import unflatten
from dpgap.training.step import Task

FleetObserver = Callable[[int, dict[str, Tensor]], None]
_LONGEST = 64
"""Steps between two looks at whether a buffer was too small."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Finished:
    """What a tile of models came to, on the host."""

    weights: Float[Tensor, "M P"]
    removed_at: Int[Tensor, "M N"]
    scores: Float[Tensor, "M N"]
    tallies: Float[Tensor, "M T 3"]


class Tile:
    """M models trained together, from their start to their end, any number of times.

    With a ``width`` a step's rows have a buffer of that size, and nothing is copied from the device while
    steps run; should a step have drawn more, the steps since the last look are taken again from where they
    started, without a buffer: coins and noise are keyed by the step, so they are the same. With None each
    step gets what it needs. ``graph`` captures the step once and replays it. No step begins after ``stop``.
    """

    def __init__(
        self, fleet: Fleet, models: int, *, width: int | None, graph: bool, stop: Event | None = None
    ) -> None:
        self._fleet, self._width, self._graph = fleet, width, graph
        self._stop = stop or Event()
        n = len(fleet.task.records)
        self._state = begin(fleet, torch.ones(models, n, dtype=torch.bool))
        self._coins = torch.zeros_like(self._state.active)
        self._noise = torch.zeros_like(self._state.weights)
        self._keys = self._state.removed_at.new_zeros(models)
        self._replay: Callable[[], None] | None = None

    def train(
        self, membership: Bool[Tensor, "M N"], randomness: Randomness, observer: FleetObserver | None
    ) -> Finished:
        """Take every step."""
        state, task = self._state, self._fleet.task
        state.put(begin(self._fleet, membership))
        tallies = state.tally.new_zeros(len(membership), task.mechanism.steps, 3)
        for steps in _segments(task, each=observer is not None):
            self._take_all(steps, randomness, tallies)
            apply_filter(self._fleet, state, steps[-1])
            if observer:
                observer(steps[-1], unflatten(state.weights.clone(), task.parameters))
        return Finished(
            weights=state.weights.to("cpu", copy=True),
            removed_at=state.removed_at.to("cpu", copy=True),
            scores=state.scores[:, :-1].to("cpu", copy=True),
            tallies=tallies.cpu(),
        )

    def _take_all(self, steps: range, randomness: Randomness, tallies: Tensor) -> None:
        before = self._state.copy() if self._width else None
        self._take_each(steps, randomness, tallies, self._width)
        if before and self._width and int(self._state.drawn) > self._width:
            self._state.put(before)
            self._take_each(steps, randomness, tallies, None)

    def _take_each(self, steps: range, randomness: Randomness, tallies: Tensor, width: int | None) -> None:
        for step in steps:
            if self._stop.is_set():
                raise InterruptedError(f"stopped before step {step}")
            randomness.draw(step, self._coins, self._noise, self._keys)
            if width and self._graph:
                self._replay = self._replay or self._captured(width)
                self._replay()
            else:
                self._learn(width or self._needed())
            tallies[:, step - 1] = self._state.tally

    def _learn(self, width: int) -> None:
        learn(self._fleet, self._state, self._coins, self._noise, self._keys, width)

    def _needed(self) -> int:
        drawn = (self._state.active & self._coins).sum(dim=1)
        return width_for(int(drawn.amax()), self._fleet.rows)

    def _captured(self, width: int) -> Callable[[], None]:
        before = self._state.copy()
        replay = captured(partial(self._learn, width))
        self._state.put(before)
        return replay


def _segments(task: Task, *, each: bool) -> Iterator[range]:
    """Steps that follow each other without the filter or anybody looking: to the next due step at most."""
    first = 1
    for step in range(1, task.mechanism.steps + 1):
        due = task.filter is not None and task.filter.due(step)
        if each or due or step - first + 1 == _LONGEST or step == task.mechanism.steps:
            yield range(first, step + 1)
            first = step + 1
