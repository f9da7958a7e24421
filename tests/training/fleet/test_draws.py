"""Coins and noise of the kernels, interpreted: the published generator, the right law, each model its own."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from dpgap.training.fleet.kernels import launch
from tests.reference.philox import philox

COINS, NOISE = 1, 2
ALMOST_NEVER = 1e-9
"""Probability with which a right generator would fail each test of a law here, had its seed been drawn."""


def keys(*models):
    return torch.tensor(models, dtype=torch.int64)


def coins(models, n, step, rate):
    out = torch.zeros(len(models), n, dtype=torch.bool)
    launch.fill_coins(out, keys(*models), step, rate)
    return out


def noise(models, size, step, scale=1.0):
    out = torch.zeros(len(models), size)
    launch.fill_noise(out, keys(*models), step, scale)
    return out


def words(key, index, step, purpose):
    key %= 2**64
    return philox((index, step, purpose, 0), (key & (2**32 - 1), key >> 32))


def test_the_twin_gives_the_published_answers():
    """Random123, kat_vectors, philox4x32 with 10 rounds."""
    ones, pi = 2**32 - 1, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    answers = {
        ((0, 0, 0, 0), (0, 0)): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ((ones,) * 4, (ones,) * 2): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        (pi, (0xA4093822, 0x299F31D0)): (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    }
    for (counter, key), expected in answers.items():
        assert philox(counter, key) == expected


@pytest.mark.parametrize("key", [0, 1, -1, 2**62 + 12345, -(2**63)])
def test_coins_compare_the_words_of_the_generator_with_the_rate(key):
    for step, rate in ((1, 0.5), (7, 0.1), (1500, 1 - 2**-33)):
        found = coins([5, key], 300, step, rate)[1]
        below = math.floor(rate * 2**32)
        assert found.tolist() == [words(key, i, step, COINS)[0] < below for i in range(300)]


@pytest.mark.parametrize("key", [3, -7, 2**40])
def test_noise_is_the_transform_of_two_words_of_the_generator(key):
    found = noise([key, 1], 300, 9, scale=2.5)[0].double()
    pairs = [words(key, i, 9, NOISE)[:2] for i in range(300)]
    expected = [
        2.5 * math.sqrt(-2 * math.log((u + 0.5) / 2**32)) * math.cos(2 * math.pi * v / 2**32)
        for u, v in pairs
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_rate_is_rounded_down_and_its_ends_are_exact():
    assert coins([1, 2], 5000, 3, 1.0).all()
    for nothing in (0.0, 2.0**-33, 1e-12):
        assert not coins([1, 2], 5000, 3, nothing).any()
    some = [words(1, i, 3, COINS)[0] for i in range(50)]
    place = int(np.argmin(some))
    just, above = some[place] / 2**32, (some[place] + 1) / 2**32
    assert not coins([1], 50, 3, just)[0, place]
    assert not coins([1], 50, 3, above - 2.0**-40)[0, place]
    assert coins([1], 50, 3, above)[0, place]


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_coins_are_independent_of_each_other_with_the_right_rate(rate):
    models, steps, n = range(100, 108), (1, 2, 3, 4), 4096
    drawn = torch.stack([coins(models, n, step, rate) for step in steps]).double()
    counts = drawn.sum(dim=2).flatten()
    sd = math.sqrt(n * rate * (1 - rate))
    chi = float((((counts - n * rate) / sd) ** 2).sum())
    assert ALMOST_NEVER / 2 < stats.chi2.cdf(chi, len(counts)) < 1 - ALMOST_NEVER / 2
    centred = (drawn.flatten(0, 1) - rate) / math.sqrt(rate * (1 - rate))
    across = (centred @ centred.T / math.sqrt(n)).triu(1)
    along = (centred[:, 1:] * centred[:, :-1]).sum() / math.sqrt(centred[:, 1:].numel())
    pairs = len(centred) * (len(centred) - 1) / 2
    bound = stats.norm.isf(ALMOST_NEVER / (2 * (pairs + 1)))
    assert across.abs().max() < 1.5 * bound  # a product of rare coins has heavier tails than a Gaussian
    assert along.abs() < 1.5 * bound


def test_noise_is_gaussian_and_independent_across_coordinates_models_and_steps():
    models, n, scale = [11, 12, -3], 20_000, 3.0
    draws = torch.stack([noise(models, n, step, scale) for step in (1, 2)]).double() / scale
    rows = draws.flatten(0, 1)
    assert stats.kstest(rows.flatten().numpy(), "norm").pvalue > ALMOST_NEVER
    assert draws.isfinite().all()
    bound = stats.norm.isf(ALMOST_NEVER / 100)
    for moment, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        z = (rows.pow(moment).mean(dim=1) - mean) / math.sqrt(variance / n)
        assert z.abs().max() < 1.5 * bound, moment
    across = (rows @ rows.T / math.sqrt(n)).triu(1)
    assert across.abs().max() < bound
    along = (rows[:, 1:] * rows[:, :-1]).sum(dim=1) / math.sqrt(n - 1)
    assert along.abs().max() < bound


def test_a_draw_is_a_function_of_model_step_and_place_alone():
    few, many = coins([4], 100, 2, 0.5), coins([9, 4, 4], 3000, 2, 0.5)
    assert torch.equal(few[0], many[1, :100])
    assert torch.equal(many[1], many[2])
    assert not torch.equal(many[0], many[1])
    assert not torch.equal(coins([4], 3000, 3, 0.5)[0], many[1])
    short, long = noise([4], 100, 2), noise([9, 4], 3000, 2)
    assert torch.equal(short[0], long[1, :100])
    assert torch.equal(noise([4], 100, 2, scale=0.0), torch.zeros(1, 100))
