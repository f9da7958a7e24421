"""What a fleet refuses before it trains anything, and what it warns of."""

import pytest
import torch

from dpgap.errors import InvalidInput
from dpgap.training.execution import Execution
from dpgap.training.fleet.fleet import train_fleet
from dpgap.training.fleet.network import VmappedNetwork
from dpgap.training.fleet.randomness import HostRandomness
from dpgap.training.options import TrainingOptions
from tests.training.fleet import cases
from tests.training.fleet.cases import N


def trained(**changed):
    told = {"options": cases.OPTIONS, "seeds": range(2)} | changed
    chosen = told.pop("chosen", None)
    return train_fleet(cases.records(), cases.small_mlp(), cases.mechanism(), chosen, **told)


@pytest.mark.parametrize("shape", [(2, N + 1), (3, N), (1, N)])
def test_a_membership_of_another_shape_is_refused(shape):
    with pytest.raises(
        InvalidInput, match=rf"booleans of shape \(2, {N}\).*got shape \({shape[0]}, {shape[1]}\)"
    ):
        trained(membership=torch.ones(shape, dtype=torch.bool))


def test_no_seeds_are_refused():
    with pytest.raises(InvalidInput, match="at least one"):
        trained(seeds=[])


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_a_precision_of_matrix_units_is_refused_on_a_cpu(precision):
    options = TrainingOptions(learning_rate=0.5, precision=precision)
    with pytest.raises(InvalidInput, match=f"precision must be 'fp32' on a CPU, got '{precision}'"):
        trained(options=options, execution=Execution(device="cpu"))


def test_a_network_without_a_fleet_version_is_refused_in_bf16():
    model = cases.small_mlp()
    with pytest.raises(InvalidInput, match="fp32 or tf32 for this model, got 'bf16'"):
        VmappedNetwork(model, cases.trainable(model), "bf16")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(InvalidInput, match="PyTorch sees no CUDA device"):
        trained(execution=Execution(device="cuda"))


def test_many_removals_are_warned_of_by_the_smallest_world():
    members = torch.ones(2, N, dtype=torch.bool)
    members[1, 50:] = False
    with pytest.warns(UserWarning, match="planned to remove up to 6 of 50 records, more than 10%"):
        trained(membership=members, chosen=cases.filtered())


def test_when_one_tile_fails_the_others_end_with_their_step(monkeypatch):
    real, taken = HostRandomness._draw, []

    def draw(self, step, coins, noise):
        if 0 in self._seeds and step == 3:
            raise RuntimeError("one tile fails")
        taken.append(step)
        real(self, step, coins, noise)

    monkeypatch.setattr(HostRandomness, "_draw", draw)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(RuntimeError, match="one tile fails"):
            train_fleet(
                cases.records(),
                cases.small_mlp(),
                cases.mechanism(steps=5000),
                options=cases.OPTIONS,
                seeds=range(2),
            )
    finally:
        torch.set_num_threads(threads)
    assert max(taken) < 5000
