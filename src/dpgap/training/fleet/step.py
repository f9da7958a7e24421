"""One step of a whole fleet, as a function of its coins and its noise: `training.step` for M models."""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dpgap.training.fleet.batches import drawn_rows, passes
from dpgap.training.fleet.network import Network
from dpgap.training.fleet.seen import Given, Seen, scored
from dpgap.training.step import Task

ETA = 2.0**-16
"""Norms are float32 sums of squares, of which none adds more than 512 terms one after the other."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """What stays the same: the task on its device, the network, and how many rows are looked at together.

    ``x`` and ``labels`` have one row more than there are records, of zeros: the place of nobody.
    """

    task: Task
    network: Network
    x: Float[Tensor, "N1 ..."]
    labels: Int[Tensor, " N1"]
    start: Float[Tensor, " P"]
    given: Given | None
    rows: int


@dataclass(kw_only=True, eq=False)
class FleetState:
    """Where M runs stand; changed in place. The last column of the N1 is nobody's.

    ``tally`` is the last step's: rows drawn, sum of their losses, how many the model before the step
    classified rightly; ``drawn`` is the largest number of rows that any model has drawn in a step so far.
    """

    weights: Float[Tensor, "M P"]
    active: Bool[Tensor, "M N"]
    scores: Float[Tensor, "M N1"]
    memory: Float[Tensor, "M N1 ..."]
    removed_at: Int[Tensor, "M N"]
    tally: Float[Tensor, "M 3"]
    drawn: Int[Tensor, ""]

    def copy(self) -> "FleetState":
        """The same in memory of its own."""
        return FleetState(**{field.name: getattr(self, field.name).clone() for field in fields(self)})

    def put(self, other: "FleetState") -> None:
        """Become the same as ``other``, in place."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))


def begin(fleet: Fleet, membership: Bool[Tensor, "M N"]) -> FleetState:
    """All models as they start, with the rows that exist in each."""
    task, (models, n), make = fleet.task, membership.shape, fleet.start.new_zeros
    shape = task.filter.signature.memory_shape if task.filter else ()
    return FleetState(
        weights=fleet.start.repeat(models, 1),
        active=membership.to(fleet.start.device, copy=True),
        scores=make(models, n + 1),
        memory=make(models, n + 1, *shape),
        removed_at=make(models, n, dtype=torch.int64),
        tally=make(models, 3, dtype=torch.float64),
        drawn=make((), dtype=torch.int64),
    )


def learn(
    fleet: Fleet,
    state: FleetState,
    coins: Bool[Tensor, "M N"],
    noise: Float[Tensor, "M P"],
    keys: Int[Tensor, " M"],
    width: int,
) -> None:
    """Look at the active drawn rows, sum what they contribute, add noise, update; all in place.

    ``keys`` are the `augmentation_key` of each model and step.

    **Guarantees**: those of `dpgap.training.step.advance`, for each model by itself. Rows are looked at in
    parts of one fixed shape, so a row's score does not depend on how many were drawn.

    **Edge cases**: rows beyond ``width`` are left out, and ``state.drawn`` then exceeds it: the caller must
    go back and take the step again with more room.
    """
    drawn = state.active & coins
    torch.maximum(state.drawn, drawn.sum(dim=1).amax(), out=state.drawn)
    state.tally.zero_()
    fleet.network.prepare(state.weights)
    total = torch.zeros_like(state.weights)
    for table in passes(drawn_rows(drawn, width), fleet.rows):
        seen = _look(fleet, state, table, keys)
        total += seen.total()
        _keep(fleet, state, seen)
    mean = total.add_(noise).div_(fleet.task.mechanism.expected_batch)
    state.weights.sub_(mean, alpha=fleet.task.options.learning_rate)


def apply_filter(fleet: Fleet, state: FleetState, step: int) -> None:
    """Let the highest scores leave after step ``step``, where that is due."""
    chosen = fleet.task.filter
    if chosen is None or not chosen.due(step):
        return
    active, scores = chosen.after(step, state.scores[:, :-1], fleet.labels[:-1], state.active)
    state.removed_at.masked_fill_(state.active & ~active, step)
    state.active.copy_(active)
    state.scores[:, :-1] = scores


def _look(fleet: Fleet, state: FleetState, table: Int[Tensor, "M R"], keys: Int[Tensor, " M"]) -> Seen:
    labels, there = fleet.labels[table], table < len(fleet.x) - 1
    return Seen(
        look=fleet.network.look(_copies(fleet, table, keys), labels, there),
        table=table,
        there=there,
        labels=labels,
        weights=state.weights,
        start=fleet.start,
        clip_norm=fleet.task.clip_norm,
        given=fleet.given,
    )


def _copies(fleet: Fleet, table: Int[Tensor, "M R"], keys: Int[Tensor, " M"]) -> Float[Tensor, "M R K ..."]:
    options, rows = fleet.task.options, table.flatten()
    x = fleet.x.index_select(0, rows)
    if options.augmentation is None:
        return x.unflatten(0, table.shape)[:, :, None]
    of_row = keys[:, None].expand_as(table).flatten()
    return options.augmentation.keyed(x, rows, of_row, options.copies).unflatten(0, table.shape)


def _keep(fleet: Fleet, state: FleetState, seen: Seen) -> None:
    """Scores, memories and tallies of what was seen."""
    there, look = seen.there, seen.look
    right = there & (look.logits.argmax(dim=2) == seen.labels)
    losses = torch.where(there, look.losses, 0.0)
    state.tally += torch.stack([there.sum(1), losses.sum(1), right.sum(1)], dim=1)
    if fleet.task.filter is None:
        return
    models = torch.arange(len(seen.table), device=there.device)[:, None]
    places = models, seen.table
    state.scores[places], state.memory[places] = scored(
        fleet.task.filter.signature, seen, state.memory[places]
    )
