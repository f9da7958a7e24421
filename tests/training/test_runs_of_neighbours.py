"""Whole runs of two neighbours: what is public of them is the same, and what is accounted is what is run."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from dpgap.data.records import Records
from dpgap.privacy.mechanism import Mechanism, Poisson, Sampling
from dpgap.signatures.parse import parse_signature
from dpgap.training import trainer
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.options import TrainingOptions
from dpgap.training.release import Release, Trained
from dpgap.training.step import State, Task

RUN = Mechanism(sampling=Poisson(rate=0.4), clip_norm=1.0, noise_multiplier=1.0, expected_batch=16.0, steps=6)
RULE = Filter(signature=parse_signature("linf"), select=SelectTop(k=1), every=3)
N = 41


@dataclass(frozen=True)
class Run:
    """A run's results, and each step's coins and noise."""

    trained: Trained
    coins: list[Tensor]
    noises: list[Tensor]


def run_of(rows: int, seed: int | None = 5) -> Run:
    """A run on the first ``rows`` of the same records; the last one alone has its class."""
    generator = torch.Generator().manual_seed(0)
    records = Records(torch.randn(N, 3, generator=generator)[:rows], (torch.arange(N) // (N - 1))[:rows], 2)
    real, seen = trainer.advance, []

    def advance(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
        seen.append((coins, noise))
        return real(task, state, coins, noise)

    model = nn.Linear(3, 2)
    nn.init.zeros_(model.weight)
    with mock.patch.object(trainer, "advance", advance):
        result = trainer.train(
            records, model, RUN, RULE, options=TrainingOptions(learning_rate=0.1), seed=seed
        )
    return Run(result, [coins for coins, _ in seen], [noise for _, noise in seen])


def check_runs() -> None:
    """Raise an AssertionError if anything public tells neighbours apart, or is not what was accounted."""
    here, there = run_of(N - 1), run_of(N)
    for run in (here, there):
        mechanism = run.trained.release.statement.mechanism
        assert len(run.coins) == mechanism.steps == RUN.steps, "steps run are not the steps accounted"
        assert set(run.trained.release.weights) == {"weight", "bias"}, "more than weights is released"
        noises = torch.stack(run.noises)
        assert len(noises.unique(dim=0)) == len(noises), "noise is used twice"
    for ours, theirs in zip(here.coins, there.coins, strict=True):
        assert torch.equal(theirs[: N - 1], ours), "coins of common records differ"
    statements = [run.trained.release.statement.to_dict() for run in (here, there)]
    assert statements[0] == statements[1], "the statement tells neighbours apart"
    fresh = [run_of(N, seed=None).trained.private.seed for _ in range(2)]
    assert fresh[0] != fresh[1], "a seed is used twice"


def test_nothing_public_tells_neighbours_apart():
    check_runs()


draw, run_steps, noise_of, finished = trainer.draw, trainer._run, trainer.gaussian_noise, trainer._trained


def rate_from_the_records(sampling: Sampling, n: int, step: int, seed: int) -> Tensor:
    return draw(replace(sampling, rate=16 / n), n, step, seed)


def one_step_more(task: Task, *rest: Any) -> State:
    tallies = torch.cat([rest[0].tallies, torch.zeros(1, 3, dtype=torch.float64)])
    longer = replace(task, mechanism=replace(task.mechanism, steps=task.mechanism.steps + 1))
    return run_steps(longer, replace(rest[0], tallies=tallies), *rest[1:])


def noise_of_the_first_step(size: int, scale: float, step: int, seed: int) -> Tensor:
    return noise_of(size, scale, 1, seed)


def removals_in_the_statement(task: Task, state: State, seed: int, *, seed_given: bool) -> Trained:
    trained = finished(task, state, seed, seed_given=seed_given)
    count = len(trained.private.removed)
    statement = replace(trained.release.statement, planned_maximum=count)
    return replace(trained, release=replace(trained.release, statement=statement))


def scores_among_the_weights(task: Task, state: State, seed: int, *, seed_given: bool) -> Trained:
    trained = finished(task, state, seed, seed_given=seed_given)
    weights = trained.release.weights | {"scores": state.scores}
    return replace(trained, release=Release(weights=weights, statement=trained.release.statement))


MUTANTS: dict[str, tuple[Any, str, Callable[..., Any], str]] = {
    "q from the number of records": (trainer, "draw", rate_from_the_records, "coins"),
    "a step more than accounted": (trainer, "_run", one_step_more, "steps run"),
    "noise keyed by the seed alone": (trainer, "gaussian_noise", noise_of_the_first_step, "noise"),
    "a seed used again": (secrets, "randbits", lambda _: 12345, "a seed"),
    "the number removed is published": (trainer, "_trained", removals_in_the_statement, "statement"),
    "scores are published": (trainer, "_trained", scores_among_the_weights, "more than weights"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_variant_is_caught(name):
    *place, complaint = MUTANTS[name]
    with mock.patch.object(*place), pytest.raises(AssertionError, match=complaint):
        check_runs()
