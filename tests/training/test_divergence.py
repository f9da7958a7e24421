"""Two steps with a filter in between, exactly: no worse than without one, but worse when it is broken."""

import itertools
from dataclasses import replace

import jaxtyping
import pytest
import torch

from dpgap.training.step import start
from tests.reference.divergence import Mixture, excess
from tests.training.contract import Case, Row, World, inserted, moment, without
from tests.training.mutants import broken

NOISE = 1.0


def law(world: World, rate: float) -> Mixture:
    """The law of both sums, by every outcome of everybody's coins."""
    n, mixture = world.coins.shape[1], {}
    outcomes = [torch.tensor(coins, dtype=torch.bool) for coins in itertools.product((False, True), repeat=n)]
    weight = [rate ** int(coins.sum()) * (1 - rate) ** int((~coins).sum()) for coins in outcomes]
    for i, first in enumerate(outcomes):
        begun = moment(replace(world, coins=first[None]), start(world.task, world.members), 0)
        after = replace(begun.after, weights=torch.zeros(2))
        for j, second in enumerate(outcomes):
            done = moment(replace(world, coins=torch.stack([first, second])), after, 1)
            means = (float(begun.totals[0][0]), float(done.totals[0][0]))
            mixture[means] = mixture.get(means, 0.0) + weight[i] * weight[j]
    return mixture


def excess_of(case: Case) -> float:
    here, there = (law(world, case.rate) for world in (without(case), inserted(case)))
    return excess(here, there, rate=case.rate, clip_norm=case.clip_norm, noise=NOISE)


def case_of(extra, *rows, **changed) -> Case:
    """Rows by their label, score and contribution."""
    extra, *common = (Row(label, (score,), (value, 0.0)) for label, score, value in (extra, *rows))
    none = (False,) * len(common)
    fields = {"place": 0, "coins": (none, none), "extra_coins": (False, False)} | changed
    return Case(tuple(common), extra, **fields)


Z, Y, Y2 = (0, 2.0, 1.0), (0, 1.0, -1.0), (0, 1.0, 1.0)
CASES = {
    "the extra leaves in another's place": case_of(Z, Y),
    "everybody leaves": case_of(Z, Y, k=3),
    "ties": case_of((0, 1.0, -1.0), (0, 1.0, 1.0), (0, 1.0, -1.0), place=1),
    "a class of its own": case_of((3, 5.0, 1.0), Y, Y2),
    "often drawn": case_of(Z, Y, Y2, rate=0.9),
    "seldom drawn": case_of(Z, Y, Y2, rate=0.1),
    "global": case_of(Z, (1, 3.0, -1.0), Y, scope="global"),
}
LOWER, LITTLE = (0, 0.0, -1.0), (0, 2.0, 0.2)
BROKEN = {
    "a flagged record is unlearnt by ascent before it goes": case_of(Z, Y, Y2, rate=0.9),
    "k as a share of the group": case_of(
        (0, 3.0, 1.0), (0, 1.0, 0.2), LOWER, (0, 1.0, -1.0), place=3, rate=0.1
    ),
    "small groups are spared": case_of((0, 1.0, -1.0), Y2, (0, 1.0, -1.0), place=1),
    "a class is never emptied": case_of(Z, Y),
    "ties by a place that shifts": case_of(Z, Y, Y2, rate=0.1),
    "a threshold from quantiles": case_of(Z, Y),
    "scores centred within a batch": case_of(LOWER, Y, Y2, place=2),
    "a batch is truncated in silence": case_of(Y2, Y2, (0, 1.0, -1.0), (0, 3.0, 0.2), place=0, k=2, rate=0.9),
    "class weights from the data": case_of(Y2, Y2, (1, 1.0, 0.2), LITTLE, rate=0.9),
}


@pytest.fixture(autouse=True)
def _without_shape_checks():
    """Every outcome of everybody's coins is a step; shapes are checked elsewhere."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("name", CASES)
def test_the_filter_costs_nothing(name):
    assert excess_of(CASES[name]) <= 1e-9


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_variant_exceeds_the_unfiltered_bound_and_the_right_code_does_not(name):
    assert excess_of(BROKEN[name]) <= 1e-9
    with broken(name):
        assert excess_of(BROKEN[name]) > 2e-3
