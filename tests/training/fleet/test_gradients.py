"""Statistics of per-sample gradients are those of the gradients written out."""

import math

import pytest
import torch

from dpgap.training.fleet.gradients import RankOne, Rows
from tests.training.fleet.cases import normal

M, R = 2, 5


def rank_one(*, bias, scale=1.0):
    return RankOne(inputs=scale * normal(M, R, 4, seed=1), outputs=normal(M, R, 3, seed=2), bias=bias)


def written_out(gradient):
    """Every outer product by loops, then the outputs for the bias."""
    rows = torch.zeros(M, R, 12 + 3 * gradient.bias)
    for m in range(M):
        for r in range(R):
            a, b = gradient.inputs[m, r], gradient.outputs[m, r]
            products = [b[o] * a[i] for o in range(3) for i in range(4)]
            rows[m, r] = torch.stack(products + list(b) * gradient.bias)
    return rows


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("bias", [True, False])
def test_a_gradient_of_rank_one_has_the_statistics_of_what_it_stands_for(bias, scale):
    gradient = rank_one(bias=bias, scale=scale)
    rows = written_out(gradient)
    assert torch.equal(gradient.dense(), rows)
    torch.testing.assert_close(gradient.squares(), rows.square().sum(dim=2))
    torch.testing.assert_close(gradient.absolute(), rows.abs().sum(dim=2))
    torch.testing.assert_close(gradient.largest(), rows.abs().amax(dim=2))
    weights = normal(M, R, seed=3)
    expected = torch.einsum("mr,mrp->mp", weights, rows)
    for finite in (True, False):
        torch.testing.assert_close(gradient.weighted_sum(weights, finite=finite), expected)


def test_rows_have_their_own_statistics():
    rows, weights = normal(M, R, 7), normal(M, R, seed=3)
    gradient = Rows(rows=rows)
    assert torch.equal(gradient.dense(), rows)
    torch.testing.assert_close(gradient.squares(), rows.square().sum(dim=2))
    torch.testing.assert_close(gradient.absolute(), rows.abs().sum(dim=2))
    assert torch.equal(gradient.largest(), rows.abs().amax(dim=2))
    torch.testing.assert_close(
        gradient.weighted_sum(weights, finite=False), torch.einsum("mr,mrp->mp", weights, rows)
    )


def test_packed_rows_are_those_of_the_parameters_in_another_order():
    weight, bias = normal(M, R, 3, 2, 4, 5), normal(M, R, 3, seed=1)
    packed = torch.cat([weight.permute(0, 1, 2, 4, 5, 3).flatten(2), bias], dim=2)
    statistics, factors = normal(M, R, 3, seed=2), normal(M, R, seed=3)
    gradient = Rows(rows=packed, statistics=statistics, packing=(3, 4, 5, 2))
    expected = torch.cat([weight.flatten(2), bias], dim=2)
    assert torch.equal(gradient.dense(), expected)
    torch.testing.assert_close(
        gradient.weighted_sum(factors, finite=True), torch.einsum("mr,mrp->mp", factors, expected)
    )
    given = torch.stack([gradient.squares(), gradient.absolute(), gradient.largest()], dim=2)
    assert torch.equal(given, statistics)


@pytest.mark.parametrize("spoilt", [math.nan, math.inf, -math.inf])
def test_a_row_of_weight_0_adds_nothing_whatever_it_holds(spoilt):
    weights = normal(M, R, seed=3)
    weights[1, 2] = 0
    for gradient in (rank_one(bias=True), rank_one(bias=False), Rows(rows=normal(M, R, 7))):
        before = gradient.weighted_sum(weights, finite=False)
        held = [gradient.rows] if isinstance(gradient, Rows) else [gradient.inputs, gradient.outputs]
        for numbers in held:
            numbers[1, 2] = spoilt
        assert torch.equal(gradient.weighted_sum(weights, finite=False), before)


@pytest.mark.parametrize("spoilt", [math.nan, math.inf])
def test_statistics_of_a_row_that_is_not_finite_are_not_and_those_of_others_stay(spoilt):
    for gradient in (rank_one(bias=True), Rows(rows=normal(M, R, 7))):
        statistics = (gradient.squares, gradient.absolute, gradient.largest)
        before = [each() for each in statistics]
        (gradient.rows if isinstance(gradient, Rows) else gradient.outputs)[0, 3, 1] = spoilt
        for each, old in zip(statistics, before, strict=True):
            new = each()
            assert not new[0, 3].isfinite()
            assert (new == old).sum() == M * R - 1
