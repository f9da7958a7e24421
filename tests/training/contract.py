"""What the privacy contract says of every step, checked on neighbouring datasets stepped together.

The rows have any scores, coins and contributions that a test likes: a row's contribution is given, and its
score is read from the row's own table, by how often it was drawn and by the released model.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar
from unittest import mock

import torch
from torch import Tensor, nn

from dpgap.data.records import Records
from dpgap.privacy.mechanism import Mechanism, Poisson
from dpgap.signatures.base import Needs, Record, Signature
from dpgap.training import step as step_module
from dpgap.training.dpsgd import ETA
from dpgap.training.filter import Filter, Scope, SelectTop, Stale
from dpgap.training.options import TrainingOptions
from dpgap.training.per_sample import PerSample
from dpgap.training.step import State, Task, start
from tests.reference import dpsgd as twin

CLASSES = 4
NOISES = ((0.5, -1.0), (-2.0, 0.25), (1.0, 1.0), (0.0, 3.0), (-1.5, 0.5), (0.75, -0.75))


@dataclass(frozen=True)
class Row:
    """A record by what the mechanism sees of it: ``scores`` of its draws in turn, and its gradient."""

    label: int
    scores: tuple[float, ...]
    gradient: tuple[float, float]


@dataclass(frozen=True)
class Case:
    """A dataset, its neighbour with ``extra`` inserted at ``place``, and everybody's coins, step by step."""

    rows: tuple[Row, ...]
    extra: Row
    place: int
    coins: tuple[tuple[bool, ...], ...]
    extra_coins: tuple[bool, ...]
    k: int = 1
    scope: Scope = "class"
    every: int = 1
    offset: int = 0
    stale: Stale = "keep"
    clip_norm: float = 1.0
    rate: float = 0.5

    @property
    def steps(self) -> int:
        """How many steps the coins last for."""
        return len(self.extra_coins)


@dataclass(frozen=True)
class World:
    """A task with its coins, its membership and the places of the common rows in it."""

    task: Task
    coins: Tensor
    members: Tensor
    common: Tensor


@dataclass(frozen=True)
class Moment:
    """What one step added up, and who was active before and after it."""

    before: State
    after: State
    totals: tuple[Tensor, ...]
    noises: tuple[Tensor, ...]
    denominators: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Table(Signature):
    """A record's score by its number of draws and the released model, from the table named by its logit."""

    id: ClassVar[str] = "table"
    needs: ClassVar[Needs] = "history"
    tables: tuple[tuple[float, ...], ...]

    def score(self, record: Record, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The entry that is next."""
        scores = self.tables[round(float(record.logits[0])) % len(self.tables)]
        place = int(memory) + int(8 * record.displacement.abs().sum())
        return torch.tensor(scores[place % len(scores)]), memory + 1


class Model(nn.Module):
    """Two weights, which nobody asks for anything: see `echo`."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))


def echo(model: nn.Module, parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> PerSample:
    """What the model says: the input itself. Gradients are given, so there is nothing to differentiate."""
    return PerSample(logits=x[:, 0], losses=torch.zeros(len(y)), gradients=torch.zeros(len(y), 2))


def task_of(case: Case, rows: tuple[Row, ...]) -> Task:
    """The task of a dataset: public settings from the case, nothing from the number of rows."""
    tables = tuple(dict.fromkeys(row.scores for row in (*case.rows, case.extra)))
    x = torch.zeros(len(rows), CLASSES)
    x[:, 0] = torch.tensor([tables.index(row.scores) for row in rows])
    model = Model()
    return Task(
        model=model,
        parameters={"weight": model.weight.detach()},
        records=Records(x, torch.tensor([row.label for row in rows], dtype=torch.int64), CLASSES),
        gradients=torch.tensor([row.gradient for row in rows], dtype=torch.float32).reshape(-1, 2),
        mechanism=Mechanism(
            sampling=Poisson(rate=case.rate),
            clip_norm=case.clip_norm,
            noise_multiplier=1.0,
            expected_batch=2.0,
            steps=case.steps,
        ),
        filter=Filter(
            signature=Table(tables=tables),
            select=SelectTop(k=case.k, scope=case.scope),
            every=case.every,
            offset=case.offset,
            stale=case.stale,
        ),
        options=TrainingOptions(learning_rate=0.5),
        augmentation_seed=0,
    )


def without(case: Case) -> World:
    """The dataset itself."""
    n = len(case.rows)
    coins = torch.tensor(case.coins, dtype=torch.bool).reshape(case.steps, n)
    return World(task_of(case, case.rows), coins, torch.ones(n, dtype=torch.bool), torch.arange(n))


def inserted(case: Case, *, present: bool = True) -> World:
    """The neighbour, whose extra row exists or is switched off."""
    place, base = case.place, without(case)
    extra = torch.tensor(case.extra_coins)[:, None]
    members = torch.ones(len(case.rows) + 1, dtype=torch.bool)
    members[place] = present
    return World(
        task_of(case, (*case.rows[:place], case.extra, *case.rows[place:])),
        torch.cat([base.coins[:, :place], extra, base.coins[:, place:]], dim=1),
        members,
        torch.tensor([*range(place), *range(place + 1, len(case.rows) + 1)], dtype=torch.int64),
    )


@contextmanager
def recorded() -> Iterator[list[tuple[Tensor, Tensor, float]]]:
    """Every total, noise and denominator that an update is made of."""
    real, calls = step_module.updated, []

    def updated(
        weights: Tensor, total: Tensor, noise: Tensor, *, expected_batch: float, learning_rate: float
    ) -> Tensor:
        calls.append((total.clone(), noise.clone(), expected_batch))
        return real(weights, total, noise, expected_batch=expected_batch, learning_rate=learning_rate)

    with (
        mock.patch.object(step_module, "updated", updated),
        mock.patch.object(step_module, "per_sample", echo),
    ):
        yield calls


def moment(world: World, state: State, step: int) -> Moment:
    """Step number ``step`` of a world, from ``state``."""
    noise = torch.tensor(NOISES[step % len(NOISES)], dtype=torch.float64)
    with recorded() as calls:
        after = step_module.advance(world.task, state, world.coins[step], noise)
    totals, noises, denominators = zip(*calls, strict=True) if calls else ((), (), ())
    return Moment(state, after, totals, noises, denominators)


def check_neighbours(case: Case, worlds: tuple[World, World], moments: list[Moment]) -> None:
    """What the proof needs of one step of both datasets, given the same past."""
    other, (here, there) = worlds[1], moments
    stay, stay_there = here.after.active, there.after.active
    assert (stay <= stay_there[other.common]).all(), "active sets are not nested"
    assert int(stay_there.sum()) - int(stay.sum()) in (0, 1), "active sets differ by more than a record"
    assert [noise.tolist() for noise in here.noises] == [noise.tolist() for noise in there.noises], "noise"
    assert here.denominators == there.denominators, "denominators tell the datasets apart"
    pairs = zip(here.totals, there.totals, strict=True)
    drift = max((float((theirs - ours).norm()) for ours, theirs in pairs), default=0.0)
    assert drift <= case.clip_norm * (1 + ETA), f"sums differ by {drift}, the clip norm is {case.clip_norm}"
    before = here.before.active
    for kind in ("scores", "memory"):
        ours, theirs = (getattr(now.after, kind) for now in (here, there))
        same = _bits(ours)[before] == _bits(theirs[other.common])[before]
        assert same.all(), f"{kind} of common records differ"


def check_rules(case: Case, world: World, now: Moment, step: int) -> None:
    """Noise whoever was drawn; exactly min(k, active) leave each group when due, for good."""
    noise = torch.tensor(NOISES[step % len(NOISES)], dtype=torch.float64)
    assert len(now.noises) == 1, f"{len(now.noises)} updates in a step"
    assert torch.equal(now.noises[0], noise), "a step without its noise"
    assert now.denominators == (world.task.mechanism.expected_batch,)
    assert now.after.step == step + 1, "a step was skipped"
    drawn = (now.before.active & world.coins[step]).tolist()
    rows = [row.tolist() for row, coin in zip(world.task.gradients, drawn, strict=True) if coin]
    parts = [(0.0, 0.0), *(twin.clipped(row, case.clip_norm) for row in rows)]
    expected = [sum(coordinate) for coordinate in zip(*parts, strict=True)]
    torch.testing.assert_close(now.totals[0].tolist(), expected, rtol=1e-12, atol=1e-12 * case.clip_norm)
    left = now.before.active & ~now.after.active
    assert not (now.after.active & ~now.before.active).any(), "a removed record came back"
    due = (step + 1) % case.every == case.offset
    groups = world.task.records.y if case.scope == "class" else torch.zeros_like(world.task.records.y)
    for group in range(CLASSES):
        active, gone = (int((mask & (groups == group)).sum()) for mask in (now.before.active, left))
        assert gone == (min(case.k, active) if due else 0), f"{gone} of {active} left a group, k={case.k}"


def check_switched_off(absent: World, here: Moment, off: Moment) -> None:
    """A row that does not exist changes no bit for the others, and is never active, scored or removed."""
    assert torch.equal(off.after.weights, here.after.weights), "a switched-off row changes the model"
    for kind in ("active", "scores", "memory", "removed_at"):
        ours, theirs = (getattr(now.after, kind) for now in (here, off))
        assert torch.equal(_bits(theirs[absent.common]), _bits(ours)), f"a switched-off row changes {kind}"
        assert not theirs[~absent.members].any(), f"a switched-off row has {kind}"


def _bits(values: Tensor) -> Tensor:
    return values.view(torch.int32) if values.dtype == torch.float32 else values


def lockstep(worlds: Sequence[World], steps: int) -> Iterator[list[Moment]]:
    """Each step of all worlds, from the same released model, as the proof conditions on it.

    It is that of the first world.
    """
    states = [start(world.task, world.members) for world in worlds]
    for step in range(steps):
        moments = [moment(world, state, step) for world, state in zip(worlds, states, strict=True)]
        yield moments
        states = [replace(now.after, weights=moments[0].after.weights) for now in moments]


def check_case(case: Case) -> None:
    """Raise an AssertionError unless every step keeps the contract, rules and proof."""
    worlds = (without(case), inserted(case), inserted(case, present=False))
    for step, moments in enumerate(lockstep(worlds, case.steps)):
        for world, now in zip(worlds, moments, strict=True):
            check_rules(case, world, now, step)
        check_neighbours(case, worlds[:2], moments[:2])
        check_switched_off(worlds[2], moments[0], moments[2])
