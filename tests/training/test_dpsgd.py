"""The step: every contribution has norm at most C (1 + ETA), and noise has the right law."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from dpgap.training.dpsgd import ETA, clip_factors, clipped_sum, gaussian_noise, updated
from tests.reference import dpsgd as twin


def rows(scale, n=50, size=300):
    return torch.from_numpy(np.random.default_rng(1).normal(0, scale, (n, size)).astype(np.float32))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e20, 1e37])
@pytest.mark.parametrize("clip_norm", [1e-6, 1.0, 1e6])
def test_no_contribution_exceeds_the_clip_norm(scale, clip_norm):
    gradients = rows(scale)
    for row in gradients:
        norm = float(clipped_sum(row[None], clip_norm).norm())
        assert norm <= clip_norm * (1 + ETA)
        assert norm == pytest.approx(min(clip_norm, float(row.double().norm())), rel=1e-9)


def test_one_row_more_moves_the_sum_by_at_most_the_clip_norm():
    gradients = rows(10.0, n=400)
    whole = clipped_sum(gradients, 0.5)
    for i in (0, 200, 399):
        without = torch.cat([gradients[:i], gradients[i + 1 :]])
        assert (whole - clipped_sum(without, 0.5)).norm() <= 0.5 * (1 + ETA)


def test_clipping_equals_its_twin():
    gradients = rows(0.1)
    expected = np.sum([twin.clipped(row.tolist(), 1.7) for row in gradients], axis=0)
    assert (clip_factors(gradients, 1.7) < 1).any()
    assert (clip_factors(gradients, 1.7) == 1).any()
    np.testing.assert_allclose(clipped_sum(gradients, 1.7), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_that_is_not_finite_contributes_exactly_nothing(bad):
    gradients = rows(1.0, n=4)
    spoilt = gradients.clone()
    spoilt[2, 17] = bad
    gradients[2] = 0
    assert torch.equal(clipped_sum(spoilt, 1.0), clipped_sum(gradients, 1.0))


def test_nobody_contributes_zeros():
    assert clipped_sum(torch.zeros(0, 3), 1.0).tolist() == [0.0, 0.0, 0.0]


def test_noise_is_gaussian_of_the_scale_and_keyed_by_step():
    """Kolmogorov-Smirnov at a fixed seed; at a fresh one it would fail with probability 1e-4."""
    noise = gaussian_noise(20_000, 2.5, step=3, seed=1)
    assert kstest(noise / 2.5, "norm").pvalue > 1e-4
    assert torch.equal(noise, gaussian_noise(20_000, 2.5, step=3, seed=1))
    other = gaussian_noise(20_000, 2.5, step=4, seed=1)
    assert abs(np.corrcoef(noise, other)[0, 1]) < 4 / np.sqrt(20_000)


def test_the_update_divides_by_the_public_constant():
    total, noise = torch.tensor([6.0, 0.0]), torch.tensor([2.0, -8.0])
    after = updated(torch.ones(2), total, noise, expected_batch=4.0, learning_rate=0.5)
    assert after.tolist() == [0.0, 2.0]
    assert after.dtype == torch.float32
