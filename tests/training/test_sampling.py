"""Samplers have the right marginal and joint counts, and need no generator's state.

Each chi-square below is at a fixed seed; at a fresh one a right sampler would fail it with probability 1e-4.
"""

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import BallsInBins, Poisson, Shuffled
from dpgap.training.sampling import draw

ERROR = 1e-4


def history(sampling, n, steps, seed=0):
    """One row a step, one column a record."""
    return torch.stack([draw(sampling, n, step, seed) for step in range(1, steps + 1)]).numpy()


def is_plausible(counts, expected, freedom):
    """Whether Pearson's statistic stays below its 1 - ERROR quantile."""
    counts, expected = np.asarray(counts, float), np.broadcast_to(expected, np.shape(counts))
    return ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - ERROR, freedom)


def joint(first, second):
    """Counts of (neither, second only, first only, both)."""
    return np.bincount(2 * first.astype(int).ravel() + second.astype(int).ravel(), minlength=4)


def test_poisson_draws_each_record_at_the_rate_in_each_step():
    drawn = history(Poisson(rate=0.3), n=40, steps=3000).sum(axis=0)
    assert is_plausible(np.stack([drawn, 3000 - drawn]), [[900], [2100]], freedom=40)


@pytest.mark.parametrize("pair", ["records", "steps"])
def test_poisson_coins_are_independent(pair):
    coins = history(Poisson(rate=0.3), n=40, steps=3000)
    if pair == "records":
        counts, total = joint(coins[:, ::2], coins[:, 1::2]), 20 * 3000
    else:
        counts, total = joint(coins[::2], coins[1::2]), 40 * 1500
    assert is_plausible(counts, total * np.array([0.49, 0.21, 0.21, 0.09]), freedom=4)


def test_poisson_with_rate_one_draws_everybody():
    assert history(Poisson(rate=1), n=7, steps=3).all()


def test_a_shuffled_epoch_visits_every_slot_once_in_full_batches():
    coins = history(Shuffled(batch=4, records=10), n=10, steps=300)
    assert (coins.reshape(100, 3, 10).sum(axis=1) == 1).all()
    assert (coins.sum(axis=1).reshape(100, 3) == [4, 4, 2]).all()


def test_shuffled_slots_share_batches_as_a_uniform_permutation_does():
    coins = history(Shuffled(batch=4, records=10), n=10, steps=3 * 4000).reshape(4000, 3, 10)
    marginal = coins.sum(axis=0)
    assert is_plausible(marginal[:, 3], np.array([0.4, 0.4, 0.2]) * 4000, freedom=2)
    together = (coins[:, :, 0] & coins[:, :, 1]).any(axis=1).sum()
    share = (2 * 4 * 3 + 2) / 90
    assert is_plausible([together, 4000 - together], [4000 * share, 4000 * (1 - share)], freedom=1)


def test_epochs_are_shuffled_anew():
    coins = history(Shuffled(batch=5, records=10), n=10, steps=2 * 4000).reshape(4000, 2, 10)
    first = coins[:, 0, 0]
    assert is_plausible(joint(first[::2], first[1::2]), 500, freedom=3)


def test_a_round_throws_every_record_into_one_bin_uniformly_and_independently():
    coins = history(BallsInBins(batches=3), n=12, steps=3 * 3000).reshape(3000, 3, 12)
    assert (coins.sum(axis=1) == 1).all()
    bins = coins.argmax(axis=1)
    assert is_plausible(np.bincount((3 * bins[:, ::2] + bins[:, 1::2]).ravel(), minlength=9), 2000, freedom=8)
    assert is_plausible(np.bincount((3 * bins[::2] + bins[1::2]).ravel(), minlength=9), 2000, freedom=8)


@pytest.mark.parametrize(
    "sampling", [Poisson(rate=0.5), Shuffled(batch=8, records=30), BallsInBins(batches=4)]
)
def test_a_draw_depends_on_seed_and_step_alone(sampling):
    again = draw(sampling, 30, 7, seed=3)
    assert torch.equal(draw(sampling, 30, 7, seed=3), again)
    assert not torch.equal(draw(sampling, 30, 7, seed=4), again)
    assert not torch.equal(draw(sampling, 30, 11, seed=3), again)


def test_shuffled_refuses_another_number_of_rows_than_its_slots():
    with pytest.raises(InvalidInput, match="10 public slots but there are 11 rows"):
        draw(Shuffled(batch=4, records=10), 11, 1, seed=0)
