"""Buffers, segments and sizes: none of them is seen in a result, and none is too small unnoticed."""

from dataclasses import replace
from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpgap.data.records import Records
from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import Poisson
from dpgap.training.fleet import fleet as fleet_module
from dpgap.training.fleet import run as run_module
from dpgap.training.fleet.batches import drawn_rows, passes, width_for
from dpgap.training.fleet.randomness import HostRandomness
from dpgap.training.fleet.run import Tile
from dpgap.training.fleet.size import Size, cpu_size, cuda_size, kept_bytes
from dpgap.training.options import PlainSGD
from dpgap.training.trainer import make_task
from tests.training.fleet import cases
from tests.training.fleet.cases import N, filtered, mechanism

CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore:The filter is planned to remove")


def task_of(run=None, chosen=None, canaries=None, options=cases.OPTIONS):
    return make_task(cases.records(), cases.small_mlp(), run or mechanism(steps=7), chosen, options, canaries)


def fleet_of(task, size):
    return fleet_module._fleet(task, size, fleet_module._network(task, CPU))


def finished(task, width, seeds=(3, 1), rows=16, observer=None):
    size = Size(models=len(seeds), rows=rows, width=rows, bytes=0)
    tile = Tile(
        fleet_of(task, size),
        len(seeds),
        width=width,
        graph=False,
    )
    members = torch.ones(len(seeds), len(task.records), dtype=torch.bool)
    return tile.train(members, HostRandomness(task, seeds), observer)


def assert_same(found, expected):
    for field in ("weights", "removed_at", "scores", "tallies"):
        assert torch.equal(getattr(found, field), getattr(expected, field)), field


@pytest.mark.parametrize("width", [16, 32, 48, 96])
@pytest.mark.parametrize("chosen", [None, filtered(every=3), filtered("uniqueness", every=2)])
def test_a_step_that_overflows_its_buffer_is_taken_again_with_the_same_coins(chosen, width):
    task = task_of(chosen=chosen)
    expected = finished(task, None)
    assert expected.tallies[..., 0].amax() > 32
    assert_same(finished(task, width), expected)


def test_the_number_of_passes_changes_no_removal_and_weights_by_rounding_only():
    task = task_of(chosen=filtered(every=3))
    few, many = finished(task, None, rows=64), finished(task, None, rows=16)
    assert torch.equal(few.removed_at, many.removed_at)
    torch.testing.assert_close(few.weights, many.weights, rtol=1e-5, atol=1e-6)


def test_a_tile_can_be_trained_again_and_forgets_what_it_did():
    task, seeds = task_of(chosen=filtered("uniqueness", every=2)), (3, 1)
    size = Size(models=2, rows=16, width=16, bytes=0)
    tile = Tile(fleet_of(task, size), 2, width=32, graph=False)
    members = torch.ones(2, N, dtype=torch.bool)
    first = tile.train(members, HostRandomness(task, seeds), None)
    other = tile.train(members, HostRandomness(task, (7, 8)), None)
    assert not torch.equal(other.weights, first.weights)
    assert_same(tile.train(members, HostRandomness(task, seeds), None), first)


@given(st.data())
def test_drawn_rows_are_the_indices_in_their_order_and_then_nobody(data):
    models, n = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 12))
    width = data.draw(st.integers(1, 14))
    rows = st.lists(st.booleans(), min_size=n, max_size=n)
    coins = data.draw(st.lists(rows, min_size=models, max_size=models))
    found = drawn_rows(torch.tensor(coins, dtype=torch.bool).view(models, n), width)
    for m in range(models):
        indices = [i for i in range(n) if coins[m][i]][:width]
        assert found[m].tolist() == indices + [n] * (width - len(indices))


def test_passes_have_one_shape_and_leave_nobody_out():
    for most in (0, 1, 15, 16, 17, 100):
        width = width_for(most, 16)
        assert most <= width < most + 16 + (most == 0)
        parts = list(passes(torch.arange(2 * width).view(2, width), 16))
        assert {part.shape for part in parts} == {(2, 16)}
        assert torch.equal(torch.cat(parts, dim=1), torch.arange(2 * width).view(2, width))


def segments(steps, every=None, offset=0, each=False):
    chosen = filtered(every=every, offset=offset) if every else None
    run = mechanism(steps=steps)
    return [list(part) for part in run_module._segments(task_of(run, chosen), each=each)]


@pytest.mark.parametrize("steps", [1, 5, 63, 64, 65, 200])
def test_segments_are_all_steps_in_order_and_end_where_somebody_looks(steps):
    for told in ({}, {"every": 7}, {"every": 70, "offset": 3}, {"every": 1}, {"each": True}):
        parts = segments(steps, **told)
        assert list(chain.from_iterable(parts)) == list(range(1, steps + 1))
        assert all(1 <= len(part) <= 64 for part in parts)
        ends = {part[-1] for part in parts}
        every = told.get("every", 10**6)
        assert ends >= {step for step in range(1, steps + 1) if step % every == told.get("offset", 0)}
        assert not told.get("each") or len(parts) == steps


def public(expected, chosen=None, n=9):
    run = PlainSGD(sampling=Poisson(rate=0.1), expected_batch=expected, steps=1)
    rows = Records(torch.zeros(n, 6), torch.zeros(n, dtype=torch.int64), 3)
    return make_task(rows, cases.small_mlp(), run, chosen, cases.OPTIONS, None)


@pytest.mark.parametrize("expected", [1, 50, 256, 4000])
@pytest.mark.parametrize("row_bytes", [1, 10**5, 10**7, 10**8])
def test_a_size_has_room_for_four_deviations_and_takes_no_more_than_there_is(expected, row_bytes):
    total = 2**37
    size = cuda_size(public(expected), row_bytes, total)
    assert size.width >= expected + 4 * expected**0.5
    assert size.width % size.rows == size.rows % 32 == 0
    assert 1 <= size.models <= 8
    assert size.models * size.rows * row_bytes <= total / 2
    assert size.bytes == kept_bytes(public(expected), size.models) + size.models * size.rows * row_bytes


def test_a_size_is_a_function_of_public_constants_and_not_of_the_records():
    few, many = (cuda_size(public(4000, n=n), 10**5, 2**37) for n in (9, 60_000))
    assert replace(few, bytes=0) == replace(many, bytes=0)
    of_cpu = [cpu_size(public(4000, n=n), 400, 2) for n in (9, 60_000)]
    assert replace(of_cpu[0], bytes=0) == replace(of_cpu[1], bytes=0)


def test_what_cannot_fit_is_refused_with_what_would():
    with pytest.raises(InvalidInput, match="not even 32 records fit"):
        cuda_size(public(4000), 2**32, 2**37)
    uniqueness = filtered("uniqueness", every=1)
    with pytest.raises(InvalidInput, match=r"A tile of 8 models keeps .* GiB.*; [0-7] would fit"):
        cuda_size(public(100, uniqueness, n=300_000), 100, 2**33)


def test_threads_share_the_models_and_a_tile_has_64_at_most():
    for models, threads, tile in ((1, 1, 1), (400, 2, 58), (400, 1, 58), (10, 2, 5), (3, 2, 2), (1, 8, 1)):
        assert cpu_size(public(4000), models, threads).models == tile


def test_what_a_tile_keeps_is_at_least_what_its_tensors_take():
    for name in ("linf", "uniqueness"):
        task, models = task_of(chosen=filtered(name)), 3
        size = Size(models=models, rows=16, width=16, bytes=0)
        tile = Tile(fleet_of(task, size), models, width=16, graph=False)
        state = tile._state
        taken = 2 * sum(value.nbytes for value in vars(state).values()) + tile._noise.nbytes
        assert kept_bytes(task, models) >= 0.95 * (taken + tile._coins.nbytes)
