"""Kernels, interpreted on the CPU, compute what PyTorch does."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from dpgap.training.fleet.convolution import Window, gradient_rows
from dpgap.training.fleet.gradients import Rows
from dpgap.training.fleet.kernels import launch
from dpgap.training.fleet.layers import FleetConvTanh
from dpgap.training.fleet.network import NativeNetwork
from tests.training.fleet import cases
from tests.training.fleet.cases import normal

EXACT = "ieee"


@pytest.fixture
def kernels(monkeypatch):
    """As if the CPU were a GPU."""
    monkeypatch.setattr(launch, "usable", lambda _: True)


def by_place(x):
    """``[N, C, H, W]`` in the layout of the kernels."""
    return launch.channels_last(x)


def all_of(x):
    return torch.ones(len(x), dtype=torch.bool)


def unpacked(packed, outs, channels, size):
    """Rows in the order of the parameters: weight, then bias if any."""
    count = outs * math.prod(size) * channels
    weight = packed[:, :count].view(-1, outs, *size, channels).permute(0, 1, 4, 2, 3).flatten(1)
    return torch.cat([weight, packed[:, count:]], dim=1)


def assert_statistics(statistics, rows):
    expected = [rows.square().sum(dim=1), rows.abs().sum(dim=1), rows.abs().amax(dim=1)]
    torch.testing.assert_close(statistics, torch.stack(expected, dim=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("channels", "outs", "size", "stride", "padding"),
    [
        (1, 3, (3, 3), (1, 1), (0, 0)),
        (3, 5, (3, 2), (2, 1), (1, 1)),
        (2, 17, (5, 5), (1, 1), (2, 2)),
        (16, 4, (3, 3), (1, 1), (1, 1)),
        (16, 4, (3, 3), (2, 2), (1, 1)),
        (17, 20, (2, 2), (1, 2), (0, 0)),
        (18, 4, (1, 1), (2, 2), (0, 0)),
        (16, 3, (2, 3), (1, 1), (0, 2)),
    ],
)
def test_formed_gradients_of_convolutions_and_their_statistics(channels, outs, size, stride, padding, bias):
    x, window = normal(3, channels, 9, 8), Window(size=size, stride=stride, padding=padding)
    places = functional.conv2d(x, normal(outs, channels, *size), None, stride, padding).shape[2:]
    gradient = normal(3, outs, *places, seed=1)
    twin = gradient_rows(x, gradient, all_of(x), window, bias=bias, products=EXACT).rows
    packed, statistics = launch.conv_rows(
        by_place(x), by_place(gradient), all_of(x), size, stride, padding, bias=bias, precision=EXACT
    )
    found = unpacked(packed, outs, channels, size)
    torch.testing.assert_close(found, twin, rtol=1e-5, atol=1e-4)
    assert_statistics(statistics, found)


def pooled(x, weight, bias, padding=(0, 0)):
    """The same by PyTorch, with the models one after the other."""
    parts = zip(x.chunk(len(weight)), weight, bias, strict=True)
    return torch.cat([functional.conv2d(part, w, b, padding=padding) for part, w, b in parts])


@pytest.mark.parametrize(("channels", "outs", "size", "side"), [(1, 3, 3, 8), (2, 17, 2, 8), (3, 5, 4, 9)])
def test_convolution_pool_and_tanh_in_one(channels, outs, size, side):
    x, weight, bias = normal(6, channels, side, side), normal(2, outs, channels, size, size), normal(2, outs)
    value, argmax = launch.conv_pool_tanh(by_place(x), weight, bias, EXACT)
    tracked, own = x.clone().requires_grad_(), weight.clone().requires_grad_()
    expected = functional.max_pool2d(pooled(tracked, own, bias), 2).tanh()
    torch.testing.assert_close(value.permute(0, 3, 1, 2), expected.detach(), rtol=1e-5, atol=1e-5)
    gradient = normal(*expected.shape, seed=5)
    (of_input,) = torch.autograd.grad(expected, tracked, gradient, retain_graph=True)
    height = side - size + 1
    dense = launch.before_activation(by_place(gradient), value, argmax, height, height)
    found = launch.input_gradient(dense, weight, side, side, EXACT).permute(0, 3, 1, 2)
    torch.testing.assert_close(found, of_input, rtol=1e-4, atol=1e-4)
    packed, statistics = launch.pooled_rows(
        by_place(x), by_place(gradient), value, argmax, all_of(x), (size, size), EXACT
    )
    rows = unpacked(packed, outs, channels, (size, size))
    assert_statistics(statistics, rows)
    window = Window(size=(size, size), stride=(1, 1), padding=(0, 0))
    twin = gradient_rows(x, dense.permute(0, 3, 1, 2), all_of(x), window, bias=True, products=EXACT).rows
    torch.testing.assert_close(rows, twin, rtol=1e-4, atol=1e-4)
    (summed,) = torch.autograd.grad(expected, own, gradient)
    by_model = rows[:, : weight[0].numel()].view(2, 3, -1).sum(dim=1)
    torch.testing.assert_close(by_model, summed.flatten(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("channels", [2, 16])
def test_rows_that_nobody_has_are_not_formed_and_change_no_other(channels):
    x, gradient = by_place(normal(3, channels, 6, 6)), by_place(normal(3, 4, 4, 4, seed=1))
    how = {"size": (3, 3), "stride": (1, 1), "padding": (0, 0), "bias": True, "precision": EXACT}
    there = torch.tensor([True, False, True])
    every, of_every = launch.conv_rows(x, gradient, all_of(x), **how)
    found, statistics = launch.conv_rows(x, gradient, there, **how)
    assert torch.equal(found[there], every[there])
    assert torch.equal(statistics[there], of_every[there])
    assert statistics[1].eq(0).all()


@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_convolution_and_tanh_in_one(padding):
    x, weight, bias = normal(6, 2, 7, 6), normal(2, 5, 2, 3, 3), normal(2, 5)
    found = launch.tanh_of_conv(by_place(x), weight, bias, padding, EXACT).permute(0, 3, 1, 2)
    torch.testing.assert_close(found, pooled(x, weight, bias, padding).tanh(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 5, 8, 8), (4, 3, 7, 9)])
def test_activations_of_sums_and_the_way_back(shape):
    x, bias = normal(*shape), normal(2, shape[1], seed=1)
    shifted = x + bias.repeat_interleave(shape[0] // 2, dim=0)[..., None, None]
    for pool in (True, False):
        tracked = shifted.clone().requires_grad_()
        expected = (functional.max_pool2d(tracked, 2) if pool else tracked).tanh()
        value, argmax = launch.activated(by_place(x), bias, pool=pool)
        torch.testing.assert_close(value.permute(0, 3, 1, 2), expected.detach(), rtol=1e-6, atol=3e-7)
        gradient = normal(*expected.shape, seed=2)
        (before,) = torch.autograd.grad(expected, tracked, gradient)
        found = launch.before_activation(by_place(gradient), value, argmax, *shape[2:])
        torch.testing.assert_close(found.permute(0, 3, 1, 2), before, rtol=1e-5, atol=2e-6)


def test_of_equal_values_the_first_is_the_maximum_and_what_is_not_a_number_stays():
    x = torch.zeros(2, 1, 4, 4)
    x[1, 0, 1, 0] = math.nan
    value, argmax = launch.activated(by_place(x), torch.zeros(1, 1), pool=True)
    assert argmax is not None
    assert argmax[0].eq(0).all()
    assert value[1].isnan().sum() == 1
    assert value[1, 0, 0, 0].isnan()


def test_tanh_is_right_near_0_and_far_from_it():
    x = torch.tensor([0.0, 1e-8, -1e-4, 0.3, -1.0, 9.0, -30.0, 1e4, -math.inf, math.inf]).view(1, 1, 1, -1)
    value, _ = launch.activated(by_place(x), torch.zeros(1, 1), pool=False)
    torch.testing.assert_close(value.flatten(), x.tanh().flatten(), rtol=0, atol=1.5e-7)


@pytest.mark.parametrize("rows", [1, 7, 16, 130, 300])
@pytest.mark.parametrize("size", [1, 17, 1030])
def test_weighted_sums_of_rows_do_not_read_rows_of_weight_0(rows, size):
    weights, x = normal(2, rows, seed=1), normal(2, rows, size)
    expected = torch.einsum("mr,mrp->mp", weights.double(), x.double())
    weights = torch.cat([weights, torch.zeros(2, 3)], dim=1)
    spoilt = torch.cat([x, torch.full((2, 3, size), math.nan)], dim=1)
    found = launch.weighted_rows(weights, spoilt)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("spoilt", [math.nan, math.inf, -math.inf])
def test_statistics_of_a_gradient_that_is_not_finite_are_not(spoilt):
    for channels in (2, 16):
        x, gradient = normal(3, channels, 6, 6), normal(3, 4, 4, 4, seed=1)
        x[1, 0, 2, 2] = spoilt
        _, statistics = launch.conv_rows(
            by_place(x), by_place(gradient), all_of(x), (3, 3), (1, 1), (0, 0), bias=True, precision=EXACT
        )
        assert not statistics[1].isfinite().any()
        assert statistics[[0, 2]].isfinite().all()


def test_rows_of_kernels_are_summed_by_a_kernel_in_the_order_of_the_parameters(kernels):
    packed, factors = normal(2, 5, 3 * 8 + 3), normal(2, 5, seed=1)
    rows = Rows(rows=packed, packing=(3, 2, 2, 2))
    expected = torch.einsum("mr,mrp->mp", factors, rows.dense())
    torch.testing.assert_close(rows.weighted_sum(factors, finite=True), expected)


NETWORKS = {
    "pool without padding": [nn.Conv2d(2, 5, 3), nn.MaxPool2d(2), nn.Tanh()],
    "tanh before the pool": [nn.Conv2d(2, 5, 3), nn.Tanh(), nn.MaxPool2d(2)],
    "tanh of few channels": [nn.Conv2d(2, 4, 3, padding=1), nn.Tanh()],
    "tanh of larger patches": [nn.Conv2d(2, 4, (4, 5)), nn.Tanh()],
    "pool with padding": [nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2)],
    "two in a row": [nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Conv2d(4, 3, 2), nn.MaxPool2d(2), nn.Tanh()],
    "many channels": [nn.Conv2d(2, 16, 3), nn.Tanh(), nn.Conv2d(16, 17, 3, padding=1), nn.Tanh()],
    "patches beyond one kernel": [
        nn.Conv2d(2, 18, 2),
        nn.Tanh(),
        nn.Conv2d(18, 3, 4),
        nn.MaxPool2d(2),
        nn.Tanh(),
    ],
    "stride": [nn.Conv2d(2, 4, 3, stride=2), nn.Tanh(), nn.AdaptiveAvgPool2d(2)],
    "without bias": [nn.Conv2d(2, 4, 3, bias=False), nn.Tanh(), nn.MaxPool2d(2)],
    "other activations": [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)],
}


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_fused_network_says_what_the_plain_one_says(name, copies, monkeypatch):
    side = 9
    torch.manual_seed(0)
    with torch.no_grad():
        width = nn.Sequential(*NETWORKS[name], nn.Flatten())(torch.zeros(1, 2, side, side)).shape[1]
    model = nn.Sequential(*NETWORKS[name], nn.Flatten(), nn.Linear(width, 3))
    x, y = normal(2, 3, copies, 2, side, side), torch.arange(6).view(2, 3) % 3
    plain = cases.looked(NativeNetwork(model, cases.trainable(model)), x, y)
    monkeypatch.setattr(launch, "usable", lambda _: True)
    network = NativeNetwork(model, cases.trainable(model), fused=True)
    absorbed = [layer for layer in network._layers if isinstance(layer, FleetConvTanh)]
    assert len(absorbed) == {"two in a row": 2, "many channels": 2, "patches beyond one kernel": 2}.get(
        name, int(name not in ("stride", "without bias", "other activations"))
    )
    fused = cases.looked(network, x, y)
    torch.testing.assert_close(fused.logits, plain.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fused.losses, plain.losses, rtol=1e-4, atol=1e-4)
    expected, factors = cases.dense(plain), normal(2, 3, seed=4)
    torch.testing.assert_close(cases.dense(fused), expected, rtol=1e-4, atol=1e-4)
    for what, of_all in (("squares", torch.sum), ("absolute", torch.sum), ("largest", torch.amax)):
        ours, theirs = (
            of_all(torch.stack([getattr(layer, what)() for layer in look.gradients]), dim=0)
            for look in (fused, plain)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    sums = [layer.weighted_sum(factors, finite=False) for layer in fused.gradients]
    torch.testing.assert_close(
        torch.cat(sums, dim=1), torch.einsum("mr,mrp->mp", factors, expected), rtol=1e-4, atol=1e-4
    )
