"""A run is Algorithm 2: it equals an obvious twin, and worlds differ by a mask only."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpgap.data.records import Canaries, Records
from dpgap.errors import InvalidInput, NoAnswer
from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Shuffled
from dpgap.signatures.parse import parse_signature
from dpgap.training.dpsgd import gaussian_noise
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.options import PlainSGD, TrainingOptions
from dpgap.training.sampling import draw
from dpgap.training.step import advance
from dpgap.training.trainer import train
from tests.reference import dpsgd as twin

OPTIONS = TrainingOptions(learning_rate=0.5)
N = 240


@pytest.fixture
def records():
    draws = np.random.default_rng(0)
    y = torch.from_numpy(draws.integers(0, 3, N))
    x = torch.from_numpy(draws.normal(y[:, None], 2.0, (N, 6)).astype(np.float32))
    return Records(x, y, 3)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


@pytest.fixture
def canary():
    return Canaries(torch.full((1, 6), 9.0), torch.tensor([0]))


def mechanism(**changed):
    fields = {"sampling": Poisson(rate=0.4), "clip_norm": 1.0, "noise_multiplier": 0.8}
    return Mechanism(**fields | {"expected_batch": 96.0, "steps": 9} | changed)


def filtered(k=1, every=3, **changed):
    return Filter(signature=parse_signature("linf"), select=SelectTop(k=k), every=every, **changed)


def flat(weights):
    return torch.cat([value.flatten() for value in weights.values()])


def weights_of(*arguments, **options):
    return flat(train(*arguments, **{"options": OPTIONS, "seed": 1} | options).release.weights)


def test_a_filtered_noisy_run_equals_its_twin(records, model):
    run, seed = mechanism(), 5
    trained = train(records, model, run, filtered(), options=OPTIONS, seed=seed)
    steps, size = range(1, run.steps + 1), len(flat(model.state_dict()))
    weights, removed_at = twin.run(
        model,
        records.x,
        records.y,
        [draw(run.sampling, N, step, seed).tolist() for step in steps],
        [gaussian_noise(size, 0.8, step, seed).tolist() for step in steps],
        clip_norm=1.0,
        expected_batch=96.0,
        learning_rate=0.5,
        k=1,
        every=3,
    )
    assert trained.private.removed_at.tolist() == removed_at
    assert sorted(set(removed_at)) == [0, 3, 6, 9]
    np.testing.assert_allclose(flat(trained.release.weights), weights, rtol=1e-5, atol=1e-6)


def test_without_noise_and_with_a_huge_clip_norm_it_is_plain_sgd(records, model):
    run = mechanism(noise_multiplier=0.0, clip_norm=1e9)
    plain = PlainSGD(sampling=run.sampling, expected_batch=96.0, steps=9)
    private_weights = weights_of(records, model, run, filtered())
    np.testing.assert_allclose(
        private_weights, weights_of(records, model, plain, filtered()), rtol=1e-6, atol=1e-7
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    kept = torch.ones(N, dtype=torch.bool)
    removed_at = train(records, model, run, filtered(), options=OPTIONS, seed=1).private.removed_at
    for step in range(1, 10):
        kept &= (removed_at == 0) | (removed_at >= step)
        drawn = draw(run.sampling, N, step, 1) & kept
        optimiser.zero_grad()
        (cross_entropy(model(records.x[drawn]), records.y[drawn], reduction="sum") / 96).backward()
        optimiser.step()
    np.testing.assert_allclose(private_weights, flat(model.state_dict()).detach(), rtol=1e-5, atol=1e-6)


def test_the_model_as_it_comes_is_left_alone(records, model):
    before = flat(model.state_dict()).clone()
    assert not torch.equal(weights_of(records, model, mechanism()), before)
    assert torch.equal(flat(model.state_dict()), before)


def test_a_frozen_parameter_is_released_as_it_was(records, model):
    model[0].requires_grad_(False)
    released = train(records, model, mechanism(), options=OPTIONS, seed=1).release.weights
    assert torch.equal(released["0.weight"], model[0].weight)
    assert not torch.equal(released["2.weight"], model[2].weight)
    assert released.keys() == model.state_dict().keys()


@pytest.mark.parametrize("rate", [0.4, 1e-12])
def test_an_empty_batch_and_an_empty_dataset_still_get_noise(model, records, rate):
    nobody = Records(torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64), 3) if rate == 0.4 else records
    run = mechanism(sampling=Poisson(rate=rate), steps=2)
    with pytest.warns(UserWarning, match="remove up to") if rate == 0.4 else NoWarning():
        trained = train(nobody, model, run, filtered(every=2), options=OPTIONS, seed=3)
    assert trained.private.batch_sizes.tolist() == [0, 0]
    assert trained.private.losses.isnan().all()
    before = flat(model.state_dict()).double()
    noise = sum(gaussian_noise(len(before), 0.8, step, 3) for step in (1, 2))
    expected = before - 0.5 * noise / 96
    np.testing.assert_allclose(flat(trained.release.weights), expected, rtol=1e-6, atol=1e-6)


class NoWarning:
    """A context that does nothing: warnings are errors already."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def test_training_goes_on_with_noise_when_everybody_was_removed(records, model):
    with pytest.warns(UserWarning, match="planned to remove up to 900 of 240 records, more than 10%"):
        trained = train(records, model, mechanism(), filtered(k=100), options=OPTIONS, seed=1)
    assert (trained.private.removed_at == 3).all()
    assert trained.private.batch_sizes[3:].tolist() == [0] * 6
    assert (trained.private.batch_sizes[:3] > 0).all()


def test_a_record_contributes_to_no_step_after_its_removal(records, model):
    run, seen = mechanism(sampling=Poisson(rate=1)), []
    trained = train(records, model, run, filtered(k=2), options=OPTIONS, seed=1)
    for step in range(1, 10):
        seen.append(int(((trained.private.removed_at == 0) | (trained.private.removed_at >= step)).sum()))
    assert trained.private.batch_sizes.tolist() == seen == [240] * 3 + [234] * 3 + [228] * 3


def test_a_switched_off_canary_equals_no_canary_bit_for_bit(records, model, canary):
    outside = torch.ones(N + 1, dtype=torch.bool)
    outside[-1] = False
    without = train(records, model, mechanism(), filtered(), options=OPTIONS, seed=1)
    switched_off = train(
        records, model, mechanism(), filtered(), options=OPTIONS, seed=1, canaries=canary, membership=outside
    )
    assert torch.equal(flat(switched_off.release.weights), flat(without.release.weights))
    assert torch.equal(switched_off.private.removed_at[:-1], without.private.removed_at)
    assert (switched_off.private.removed_at[-1], switched_off.private.scores[-1]) == (0, 0)
    assert torch.equal(switched_off.private.batch_sizes, without.private.batch_sizes)


def test_a_canary_is_a_record_as_any_other(records, model, canary):
    trained = train(
        records,
        model,
        mechanism(sampling=Poisson(rate=1)),
        filtered(),
        options=OPTIONS,
        seed=1,
        canaries=canary,
    )
    as_record = records.with_canaries(canary)
    assert torch.equal(
        flat(trained.release.weights),
        weights_of(as_record, model, mechanism(sampling=Poisson(rate=1)), filtered()),
    )


def test_a_given_gradient_takes_the_place_of_the_canarys_own(records, model, canary):
    size = len(flat(model.state_dict()))
    one_hot = torch.zeros(1, size)
    one_hot[0, 7] = 1e30
    run = mechanism(sampling=Poisson(rate=1), noise_multiplier=0.0, steps=1)
    planted = Canaries(canary.rows, canary.labels, one_hot)
    moved = weights_of(records, model, run, canaries=planted) - weights_of(records, model, run)
    assert moved[7] == pytest.approx(-0.5 * 1.0 / 96, rel=1e-5)
    assert torch.equal(moved[:7], torch.zeros(7))
    assert torch.equal(moved[8:], torch.zeros(size - 8))
    not_finite = Canaries(canary.rows, canary.labels, one_hot * float("inf"))
    assert torch.equal(weights_of(records, model, run, canaries=not_finite), weights_of(records, model, run))


def test_the_observer_sees_every_released_model_and_cannot_change_it(records, model):
    seen = {}

    def observer(step, weights):
        seen[step] = flat(weights).clone()
        for value in weights.values():
            value.zero_()

    final = weights_of(records, model, mechanism(), observer=observer)
    assert list(seen) == list(range(1, 10))
    assert torch.equal(seen[9], final)
    assert torch.equal(seen[4], weights_of(records, model, mechanism(steps=4)))
    assert torch.equal(final, weights_of(records, model, mechanism()))


def test_the_seed_comes_from_the_system_unless_given(records, model):
    first, second = (train(records, model, mechanism(), options=OPTIONS) for _ in range(2))
    assert first.private.seed != second.private.seed
    again = train(records, model, mechanism(), options=OPTIONS, seed=first.private.seed)
    assert torch.equal(flat(again.release.weights), flat(first.release.weights))
    assert not torch.equal(flat(second.release.weights), flat(first.release.weights))
    assert any("was given" in line for line in again.release.statement.assumptions)
    assert not any("was given" in line for line in first.release.statement.assumptions)


def test_shuffled_and_balls_in_bins_filter_at_the_ends_of_rounds_only(records, model):
    slots = mechanism(sampling=Shuffled(batch=80, records=N), adjacency=Adjacency.ZERO_OUT)
    bins = mechanism(sampling=BallsInBins(batches=3))
    for run in (slots, bins):
        trained = train(records, model, run, filtered(every=3), options=OPTIONS, seed=1)
        assert trained.private.removed_at.unique().tolist() == [0, 3, 6, 9]
        assert trained.private.batch_sizes.reshape(3, 3).sum(dim=1).tolist() == [240, 237, 234]
        with pytest.raises(InvalidInput, match="inside a round"):
            train(records, model, run, filtered(every=2), options=OPTIONS)


def test_shuffled_slots_include_the_canaries(records, model, canary):
    run = mechanism(sampling=Shuffled(batch=80, records=N), adjacency=Adjacency.ZERO_OUT)
    with pytest.raises(InvalidInput, match="240 public slots but there are 241 rows"):
        train(records, model, run, options=OPTIONS, canaries=canary)


def test_bad_input_is_refused_with_the_reason(records, model, canary):
    with pytest.raises(InvalidInput, match="membership must be 240 booleans"):
        train(records, model, mechanism(), options=OPTIONS, membership=torch.ones(N + 1, dtype=torch.bool))
    wrong = Canaries(canary.rows, canary.labels, torch.zeros(1, 5))
    with pytest.raises(InvalidInput, match="have 5 coordinates, the model 53"):
        train(records, model, mechanism(), options=OPTIONS, canaries=wrong)
    normalised = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    with pytest.raises(InvalidInput, match="GroupNorm"):
        train(records, normalised, mechanism(), options=OPTIONS)
    with pytest.raises(InvalidInput, match="copies=2 without augmentation"):
        TrainingOptions(learning_rate=0.1, copies=2)


@pytest.mark.parametrize("plain", [False, True])
def test_a_diverging_run_stops_with_the_step_and_a_hint(records, model, plain):
    model[1] = nn.ReLU()
    run = mechanism(sampling=Poisson(rate=1))
    if plain:
        run = PlainSGD(sampling=run.sampling, expected_batch=96.0, steps=9)
    options = TrainingOptions(learning_rate=1e30)
    with pytest.raises(NoAnswer, match=r"not finite after step [1-9] of 9.*lower learning_rate=1e\+30"):
        train(records, model, run, options=options, seed=1)


def test_a_model_without_finite_outputs_is_refused_before_the_first_step(records, model):
    with torch.no_grad():
        model[2].bias[0] = float("nan")
    with pytest.raises(InvalidInput, match="before the first step"):
        train(records, model, mechanism(), options=OPTIONS)


def test_a_record_without_a_finite_gradient_does_not_stop_a_private_run_and_leaves_first(records, model):
    class Root(nn.Module):
        def forward(self, x):
            return torch.where(x > -50, x, float("nan"))

    x = records.x.clone()
    x[11] = -100.0
    spoilt = Records(x, records.y, 3)
    run = mechanism(sampling=Poisson(rate=1))
    trained = train(spoilt, nn.Sequential(Root(), *model), run, filtered(), options=OPTIONS, seed=1)
    assert trained.private.removed_at[11] == 3
    assert flat(trained.release.weights).isfinite().all()
    mask = torch.ones(N, dtype=torch.bool)
    mask[11] = False
    one_step = mechanism(sampling=Poisson(rate=1), steps=1)
    assert torch.equal(
        weights_of(spoilt, nn.Sequential(Root(), *model), one_step),
        weights_of(records, model, one_step, membership=mask),
    )


def test_private_metrics_are_those_of_the_drawn_records(records, model):
    run = mechanism(sampling=Poisson(rate=1), steps=1)
    private = train(records, model, run, options=OPTIONS, seed=1).private
    with torch.no_grad():
        logits = model(records.x)
    assert private.losses[0] == pytest.approx(float(cross_entropy(logits, records.y)), rel=1e-6)
    assert private.accuracies[0] == pytest.approx(float((logits.argmax(1) == records.y).double().mean()))


def test_advance_is_pure_and_blind_to_coins_of_rows_that_left(records, model, monkeypatch):
    states = []

    def recorded(task, state, coins, noise):
        states.append((task, state, coins, noise, advance(task, state, coins, noise)))
        return states[-1][-1]

    monkeypatch.setattr("dpgap.training.trainer.advance", recorded)
    train(records, model, mechanism(), filtered(), options=OPTIONS, seed=1)
    task, state, coins, noise, after = states[5]
    assert not state.active.all()
    other = advance(task, state, coins | ~state.active, noise)
    again = advance(task, state, coins & state.active, noise)
    for name, value in vars(after).items():
        for result in (other, again):
            same = getattr(result, name)
            assert same == value if name == "step" else torch.equal(same, value)
