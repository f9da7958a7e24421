"""One step of a whole fleet, as a function of its coins and its noise: `training.step` for M models."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dpgap.data.augmentation import augmentation_key
from dpgap.training.dpsgd import updated
from dpgap.training.fleet.batches import drawn_rows, passes, width_for
from dpgap.training.fleet.network import Network
from dpgap.training.fleet.seen import Given, Seen, scored
from dpgap.training.step import Task

ETA = 2.0**-14
"""Norms are float32 sums of squares: of 2^22 terms, added in blocks, they are right to 2^-15 of their value."""


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
    seeds: list[int]


@dataclass(kw_only=True, eq=False)
class FleetState:
    """Where M runs stand after ``step`` steps; changed in place. The last column of the N1 is nobody's."""

    step: int
    weights: Float[Tensor, "M P"]
    active: Bool[Tensor, "M N"]
    scores: Float[Tensor, "M N1"]
    memory: Float[Tensor, "M N1 ..."]
    removed_at: Int[Tensor, "M N"]
    tallies: Float[Tensor, "M T 3"]


def begin(fleet: Fleet, membership: Bool[Tensor, "M N"]) -> FleetState:
    """All models as they start, with the rows that exist in each."""
    task, (models, n) = fleet.task, membership.shape
    shape = task.filter.signature.memory_shape if task.filter else ()
    make = fleet.start.new_zeros
    return FleetState(
        step=0,
        weights=fleet.start.repeat(models, 1),
        active=membership.clone(),
        scores=make(models, n + 1),
        memory=make(models, n + 1, *shape),
        removed_at=torch.zeros(models, n, dtype=torch.int64, device=membership.device),
        tallies=make(models, task.mechanism.steps, 3),
    )


def advance(
    fleet: Fleet, state: FleetState, coins: Bool[Tensor, "M N"], noise: Float[Tensor, "M P"]
) -> None:
    """Take every model one step further: look at who was drawn, sum, add noise, update, filter.

    **Guarantees**: those of `dpgap.training.step.advance`, for each model by itself; the rows are looked at
    in parts of one fixed shape, so a row's score does not depend on the number of rows drawn.
    """
    drawn = state.active & coins
    table = drawn_rows(drawn, width_for(int(drawn.sum(dim=1).amax()), fleet.rows))
    state.step += 1
    learn(fleet, state, table, noise)
    apply_filter(fleet, state)


def learn(fleet: Fleet, state: FleetState, table: Int[Tensor, "M W"], noise: Float[Tensor, "M P"]) -> None:
    """The weights after this step, and the scores of the rows of ``table``, all in place."""
    fleet.network.prepare(state.weights)
    total = torch.zeros_like(state.weights)
    for part in passes(table, fleet.rows):
        seen = _look(fleet, state, part)
        total += seen.total()
        _keep(fleet, state, seen)
    task = fleet.task
    state.weights.copy_(
        updated(
            state.weights,
            total,
            noise,
            expected_batch=task.mechanism.expected_batch,
            learning_rate=task.options.learning_rate,
        )
    )


def apply_filter(fleet: Fleet, state: FleetState) -> None:
    """Let the highest scores leave, where that is due."""
    chosen = fleet.task.filter
    if chosen is None or not chosen.due(state.step):
        return
    scores, labels = state.scores[:, :-1], fleet.labels[:-1]
    active, scores = chosen.after(state.step, scores, labels, state.active)
    state.removed_at.masked_fill_(state.active & ~active, state.step)
    state.active.copy_(active)
    state.scores[:, :-1] = scores


def _look(fleet: Fleet, state: FleetState, table: Int[Tensor, "M R"]) -> Seen:
    labels = fleet.labels[table]
    return Seen(
        look=fleet.network.look(_copies(fleet, state.step, table), labels),
        table=table,
        there=table < len(fleet.x) - 1,
        labels=labels,
        displacement=state.weights - fleet.start,
        clip_norm=fleet.task.clip_norm,
        given=fleet.given,
    )


def _copies(fleet: Fleet, step: int, table: Int[Tensor, "M R"]) -> Float[Tensor, "M R K ..."]:
    options, rows = fleet.task.options, table.flatten()
    x = fleet.x.index_select(0, rows)
    if options.augmentation is None:
        return x.unflatten(0, table.shape)[:, :, None]
    keys = torch.tensor([augmentation_key(seed, step) for seed in fleet.seeds], device=table.device)
    keys = keys[:, None].expand_as(table).flatten()
    return options.augmentation.keyed(x, rows, keys, options.copies).unflatten(0, table.shape)


def _keep(fleet: Fleet, state: FleetState, seen: Seen) -> None:
    """Scores, memories and tallies of what was seen."""
    there, look = seen.there, seen.look
    right = there & (look.logits.argmax(dim=2) == seen.labels)
    losses = torch.where(there, look.losses, 0.0)
    state.tallies[:, state.step - 1] += torch.stack([there.sum(1), losses.sum(1), right.sum(1)], dim=1)
    chosen = fleet.task.filter
    if chosen is None:
        return
    models = torch.arange(len(seen.table), device=there.device)[:, None]
    scores, memory = scored(chosen.signature, seen, state.memory[models, seen.table])
    state.scores.scatter_(1, seen.table, scores)
    if chosen.signature.memory_shape:
        state.memory[models, seen.table] = memory
