"""A fleet of M models is M runs of the single trainer, each with its own seed and its own rows."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from dpgap.data.augmentation import CropFlip
from dpgap.data.records import Canaries, Records
from dpgap.models.build import build_model
from dpgap.privacy.mechanism import Adjacency, BallsInBins, Poisson, Shuffled
from dpgap.signatures.parse import SHORT_NAMES
from dpgap.training.fleet.fleet import train_fleet
from dpgap.training.options import PlainSGD, TrainingOptions
from dpgap.training.trainer import train
from tests.training.fleet import cases
from tests.training.fleet.cases import (
    OPTIONS,
    N,
    canaries,
    filtered,
    mechanism,
    records,
    small_cnn,
    small_mlp,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:The filter is planned to remove", "ignore:The clipped L2 norm of every record"
)
AUGMENTED = TrainingOptions(learning_rate=0.5, augmentation=CropFlip(padding=1), copies=2)


@dataclass
class Run:
    """What both are told."""

    records: Records
    model: nn.Module
    mechanism: object
    filter: object = None
    options: TrainingOptions = OPTIONS
    canaries: Canaries | None = None
    membership: torch.Tensor | None = None
    seeds: tuple[int, ...] = (3, 1)

    def fleet(self, **changed):
        shared = {"options": self.options, "canaries": self.canaries}
        own = {"seeds": self.seeds, "membership": self.membership}
        return train_fleet(self.records, self.model, self.mechanism, self.filter, **shared | own | changed)

    def single(self, m):
        shared = {"options": self.options, "canaries": self.canaries}
        membership = None if self.membership is None else self.membership[m]
        return train(
            self.records,
            self.model,
            self.mechanism,
            self.filter,
            **shared,
            seed=self.seeds[m],
            membership=membership,
        )


def assert_equal(run, tolerance=1e-5):
    """The fleet that was compared."""
    fleet = run.fleet()
    for m in range(len(run.seeds)):
        single = run.single(m)
        start = cases.trainable(run.model)
        weights = cases.flat({name: single.release.weights[name] for name in start})
        assert not torch.equal(weights, cases.flat(start))
        torch.testing.assert_close(cases.flat(fleet.model(m)), weights, rtol=tolerance, atol=tolerance)
        assert fleet.removed_at[m].tolist() == single.private.removed_at.tolist()
        torch.testing.assert_close(
            fleet.scores[m], single.private.scores, rtol=1e-3, atol=1e-4, equal_nan=True
        )
        drawn, losses, right = fleet.tallies[m].unbind(dim=1)
        assert drawn.tolist() == single.private.batch_sizes.tolist()
        torch.testing.assert_close(
            losses / drawn, single.private.losses, rtol=1e-4, atol=1e-5, equal_nan=True
        )
        torch.testing.assert_close(right / drawn, single.private.accuracies, equal_nan=True)
    return fleet


@pytest.mark.parametrize("name", SHORT_NAMES)
def test_every_signature_removes_whom_the_single_trainer_removes(name):
    run = Run(records(), small_mlp(), mechanism(steps=9), filtered(name))
    fleet = assert_equal(run)
    assert (fleet.removed_at > 0).sum(dim=1).tolist() == [9, 9]


@pytest.mark.parametrize("name", ["linf", "kurtosis", "uniqueness", "margin"])
def test_signatures_of_images_with_copies_are_those_of_the_single_trainer(name):
    run = Run(records((1, 8, 8)), small_cnn(), mechanism(), filtered(name), AUGMENTED)
    assert_equal(run)


@pytest.mark.parametrize("stale", ["keep", "reset"])
@pytest.mark.parametrize("scope", ["class", "global"])
def test_scopes_and_stale_scores_are_those_of_the_single_trainer(scope, stale):
    chosen = filtered(k=2, every=2, scope=scope, stale=stale, offset=1)
    run = Run(records(), small_mlp(), mechanism(steps=8, sampling=Poisson(rate=0.2)), chosen)
    fleet = assert_equal(run)
    assert fleet.removed_at.unique().tolist() == [0, 1, 3, 5, 7]


@pytest.mark.parametrize(
    "run",
    [
        mechanism(sampling=Shuffled(batch=30, records=N), adjacency=Adjacency.ZERO_OUT),
        mechanism(sampling=Shuffled(batch=40, records=N), adjacency=Adjacency.ZERO_OUT),
        mechanism(sampling=BallsInBins(batches=3)),
        mechanism(sampling=Poisson(rate=1.0)),
        mechanism(sampling=Poisson(rate=0.01)),
    ],
)
def test_every_sampler_draws_what_the_single_trainer_draws(run):
    assert_equal(Run(records(), small_mlp(), run, filtered(every=3)))


@pytest.mark.parametrize("name", ["linf", "l2-clipped"])
def test_the_paper_s_network_learns_as_in_the_single_trainer(name):
    model = build_model("mnist-cnn", (1, 28, 28), 10, seed=0)
    run = mechanism(sampling=Poisson(rate=0.5), expected_batch=30.0, steps=3)
    data = records((1, 28, 28), n=60, classes=10)
    assert_equal(Run(data, model, run, filtered(name, every=2), seeds=(5, 6)))


def test_a_network_without_a_fleet_version_learns_as_in_the_single_trainer(caplog):
    model = cases.seeded(lambda: nn.Sequential(cases.Scaled(), nn.Linear(6, 3)))
    assert_equal(Run(records(), model, mechanism(), filtered("kurtosis")))
    assert "vmapped" in caplog.text


def test_frozen_layers_stay_and_the_others_learn_as_in_the_single_trainer():
    model = small_mlp()
    model[0].requires_grad_(requires_grad=False)
    fleet = assert_equal(Run(records(), model, mechanism(), filtered()))
    assert list(fleet.weights) == ["2.weight", "2.bias"]


def one_hot(size, *values):
    gradients = torch.zeros(len(values), size)
    gradients[torch.arange(len(values)), torch.arange(len(values)) + 7] = torch.tensor(values)
    return gradients


GIVEN = {
    "ordinary": (0.3, -2.0),
    "zero": (0.0, 0.0),
    "huge": (1e30, -1e30),
    "not finite": (float("nan"), float("inf")),
    "one of them": (0.5, float("-inf")),
}


@pytest.mark.parametrize(
    ("given", "name"),
    [*((given, "linf") for given in GIVEN), *(("huge", name) for name in ("l1", "l2-clipped", "uniqueness"))]
    + [("not finite", name) for name in ("linf-clipped", "cosine", "loss")],
)
def test_given_gradients_take_the_place_of_the_canaries_own(given, name):
    planted = canaries(gradients=one_hot(53, *GIVEN[given]))
    members = torch.ones(2, N + 2, dtype=torch.bool)
    members[0, -1] = members[1, -2] = False
    run = mechanism(sampling=Poisson(rate=0.8), expected_batch=72.0)
    chosen = filtered(name, every=4)
    fleet = assert_equal(Run(records(), small_mlp(), run, chosen, canaries=planted, membership=members))
    assert all(value.isfinite().all() for value in fleet.weights.values())


@pytest.mark.parametrize("name", ["linf", "linf-clipped", "l2"])
def test_a_large_record_is_clipped_as_in_the_single_trainer(name):
    data = records()
    data.x[:3] = torch.tensor([1e6, -1e10, 1e15])[:, None]
    model = cases.seeded(lambda: nn.Sequential(nn.Linear(6, 3)))
    run = mechanism(sampling=Poisson(rate=1.0), expected_batch=90.0, steps=3)
    assert_equal(Run(data, model, run, filtered(name, every=2)))


@pytest.mark.parametrize("name", ["linf", "linf-clipped", "l2", "l2-clipped"])
def test_a_gradient_whose_norm_is_beyond_float32_counts_as_one_that_is_not_finite(name):
    """Unlike in the single trainer, whose norms are float64; so it contributes 0."""
    data, members = records(), torch.ones(2, N + 2, dtype=torch.bool)
    data.x[10] = 1e25
    model = cases.seeded(lambda: nn.Sequential(nn.Linear(6, 3)))
    planted = canaries(gradients=torch.full((2, 21), 3e38))
    once = mechanism(sampling=Poisson(rate=1.0), expected_batch=90.0, steps=1)
    run = Run(data, model, once, filtered(name, every=1), canaries=planted)
    fleet = run.fleet()
    members[:, -2:] = members[:, 10] = False
    without = run.fleet(membership=members)
    torch.testing.assert_close(fleet.weights["0.weight"], without.weights["0.weight"], rtol=1e-6, atol=1e-7)
    if name != "linf":
        assert not fleet.scores[:, [10, -2, -1]].isfinite().any()
        assert (fleet.removed_at[:, [10, -2, -1]] == 1).all()


def test_each_world_has_its_own_rows():
    generator = torch.Generator().manual_seed(0)
    members = torch.rand(4, N + 2, generator=generator) < 0.5
    members[0], members[1] = True, False
    run = Run(
        records(),
        small_mlp(),
        mechanism(),
        filtered(),
        canaries=canaries(),
        membership=members,
        seeds=(1,) * 4,
    )
    fleet = assert_equal(run)
    assert not ((fleet.removed_at > 0) & ~members).any()
    assert not ((fleet.scores > 0) & ~members).any()
    assert fleet.tallies[1].eq(0).all()


def test_a_switched_off_canary_equals_no_canary():
    members = torch.ones(2, N + 2, dtype=torch.bool)
    members[:, -2:] = False
    run = Run(records(), small_mlp(), mechanism(), filtered(), canaries=canaries(), membership=members)
    off, without = run.fleet(), Run(records(), small_mlp(), mechanism(), filtered()).fleet()
    assert torch.equal(off.removed_at[:, :-2], without.removed_at)
    assert torch.equal(off.scores[:, :-2], without.scores)
    assert all(torch.equal(off.weights[name], without.weights[name]) for name in off.weights)


@pytest.mark.parametrize("chosen", [None, filtered(), filtered("kurtosis", stale="reset")])
def test_plain_sgd_filters_as_the_single_trainer_does(chosen):
    plain = PlainSGD(sampling=Poisson(rate=0.4), expected_batch=36.0, steps=6)
    assert_equal(Run(records(), small_mlp(), plain, chosen))


def test_training_goes_on_with_noise_when_everybody_was_removed():
    fleet = assert_equal(Run(records(), small_mlp(), mechanism(), filtered(k=100)))
    assert (fleet.removed_at == 3).all()
    assert fleet.tallies[:, 3:].eq(0).all()


@pytest.mark.parametrize("n", [N, 0])
def test_steps_that_draw_nobody_have_noise(n):
    run = mechanism(sampling=Poisson(rate=1e-12), steps=3)
    data = Records(torch.zeros(n, 6), torch.zeros(n, dtype=torch.int64), 3)
    assert_equal(Run(data, small_mlp(), run, filtered(every=2)))


@pytest.mark.parametrize("private", [True, False])
def test_a_record_whose_gradient_is_not_finite_contributes_0_and_leaves_first(private):
    class Root(nn.Module):
        def forward(self, x):
            return torch.where(x > -50, x, float("nan"))

    spoilt = records()
    spoilt.x[11] = -100.0
    model, run = nn.Sequential(Root(), *small_mlp()), mechanism(sampling=Poisson(rate=1.0))
    fleet = assert_equal(Run(spoilt, model, run, filtered()))
    assert fleet.removed_at[:, 11].tolist() == [3, 3]
    members = torch.ones(2, N, dtype=torch.bool)
    members[:, 11] = False
    short = mechanism(sampling=Poisson(rate=1.0), steps=1)
    beside = Run(spoilt, model, short).fleet()
    without = Run(records(), small_mlp(), short, membership=members).fleet()
    for ours, theirs in zip(beside.weights.values(), without.weights.values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_the_observer_sees_every_model_after_every_step_and_changes_nothing():
    seen, seeds = {}, (3, 1, 4)
    run = Run(records(), small_mlp(), mechanism(), filtered(), seeds=seeds)

    def observer(step, weights):
        seen.setdefault(step, []).append({name: value.clone() for name, value in weights.items()})
        for value in weights.values():
            value.zero_()

    watched, alone = run.fleet(observer=observer), run.fleet()
    assert list(seen) == [1, 2, 3, 4, 5, 6]
    shorter = Run(records(), small_mlp(), mechanism(steps=4), filtered(), seeds=seeds).fleet()
    for name, value in alone.weights.items():
        assert torch.equal(watched.weights[name], value)
        assert torch.equal(torch.cat([tile[name] for tile in seen[6]])[:3], value)
        assert torch.equal(torch.cat([tile[name] for tile in seen[4]])[:3], shorter.weights[name])


def test_a_finished_model_says_what_its_weights_say():
    run = Run(records((1, 8, 8)), small_cnn(), mechanism(steps=2))
    fleet = run.fleet()
    for m in range(2):
        twin = small_cnn()
        twin.load_state_dict(fleet.model(m))
        with torch.no_grad():
            expected = twin(run.records.x)
        torch.testing.assert_close(fleet.logits(m, run.records.x), expected, rtol=1e-5, atol=1e-5)


def test_the_model_as_it_comes_is_left_alone():
    model = small_mlp()
    before = cases.flat(model.state_dict()).clone()
    Run(records(), model, mechanism(), filtered()).fleet()
    assert torch.equal(cases.flat(model.state_dict()), before)
