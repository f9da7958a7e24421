"""A GPU's own randomness, and whole runs by kernels, on a CPU that passes for one."""

import pytest
import torch

from dpgap.privacy.mechanism import Adjacency, BallsInBins, Poisson, Shuffled
from dpgap.training.fleet.fleet import train_fleet
from dpgap.training.fleet.kernels import launch
from dpgap.training.fleet.network import NativeNetwork
from dpgap.training.fleet.randomness import DeviceRandomness
from dpgap.training.options import TrainingOptions
from dpgap.training.trainer import make_task
from tests.training.fleet import cases
from tests.training.fleet.cases import N, mechanism


def drawn(run, seeds, steps, options=cases.OPTIONS):
    """Coins, noise and keys of each step."""
    task = make_task(cases.records(), cases.small_mlp(), run, None, options, None)
    source, found = DeviceRandomness(task, seeds, torch.device("cpu")), []
    for step in steps:
        coins, noise = torch.zeros(len(seeds), N, dtype=torch.bool), torch.zeros(len(seeds), 5000)
        source.draw(step, coins, noise, torch.zeros(len(seeds), dtype=torch.int64))
        found.append((coins, noise))
    return torch.stack([coins for coins, _ in found]), torch.stack([noise for _, noise in found])


@pytest.fixture(params=[True, False])
def with_kernels(request, monkeypatch):
    monkeypatch.setattr(launch, "usable", lambda _: request.param)


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize(
    "run",
    [
        mechanism(sampling=Shuffled(batch=40, records=N), adjacency=Adjacency.ZERO_OUT),
        mechanism(sampling=BallsInBins(batches=3)),
    ],
)
def test_every_row_is_drawn_once_a_round_and_each_round_anew(run):
    coins, _ = drawn(run, (5, 6), range(1, 7))
    for turn in (coins[:3], coins[3:]):
        assert turn.sum(dim=0).eq(1).all()
    assert not torch.equal(coins[:3], coins[3:])
    assert not torch.equal(coins[:, 0], coins[:, 1])
    if isinstance(run.sampling, Shuffled):
        assert coins.sum(dim=2)[:, 0].tolist() == [40, 40, 10] * 2


@pytest.mark.usefixtures("with_kernels")
def test_poisson_coins_and_noise_have_their_rate_and_scale():
    coins, noise = drawn(mechanism(sampling=Poisson(rate=0.3)), (5, 6), range(1, 16))
    # Within six standard deviations: a right generator fails once in 10^8 seeds.
    assert abs(float(coins.double().mean()) - 0.3) < 6 * (0.21 / coins.numel()) ** 0.5
    assert abs(float(noise.double().std()) - 0.8) < 6 * 0.8 / (2 * noise.numel()) ** 0.5
    assert abs(float(noise.double().mean())) < 6 * 0.8 / noise.numel() ** 0.5


@pytest.mark.usefixtures("with_kernels")
def test_a_model_s_draws_are_its_own_whatever_others_there_are_and_can_be_taken_again():
    run = mechanism()
    alone, beside = drawn(run, (6,), [2, 3]), drawn(run, (5, 6), [3, 2, 3])
    for one, two in zip(alone, beside, strict=True):
        assert torch.equal(one[0, 0], two[1, 1])
        assert torch.equal(one[1, 0], two[0, 1])
        assert torch.equal(two[0], two[2])
        assert not torch.equal(two[0], two[1])
        assert not torch.equal(two[0, 0], two[0, 1])


@pytest.mark.filterwarnings("ignore:The filter is planned to remove")
def test_a_run_by_kernels_equals_the_plain_one_and_removes_the_same(monkeypatch):
    model, data = cases.small_cnn(), cases.records((1, 8, 8), n=30)
    run, options = mechanism(steps=2, expected_batch=12.0), TrainingOptions(learning_rate=0.5)

    def trained():
        chosen = cases.filtered("linf-clipped", every=1)
        return train_fleet(data, model, run, chosen, options=options, seeds=(1, 2))

    plain = trained()
    monkeypatch.setattr(launch, "usable", lambda _: True)
    fused = trained()
    assert isinstance(fused.network, NativeNetwork)
    assert fused.network._fused
    assert torch.equal(fused.removed_at, plain.removed_at)
    for found, expected in zip(fused.weights.values(), plain.weights.values(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fused.scores, plain.scores, rtol=1e-3, atol=1e-5)
