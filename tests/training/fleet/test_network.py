"""A native network says of M models what the definition says of each; and knows when it cannot."""

import logging

import pytest
import torch
from torch import nn
from torch.nn import functional

from dpgap.models.build import build_model
from dpgap.training.fleet.network import NativeNetwork, VmappedNetwork, build_network, cross_entropy
from tests.training.fleet import cases


def assert_same_look(model, x, y, tolerance=1e-5):
    native, general = (
        cases.looked(make(model, cases.trainable(model)), x, y) for make in (NativeNetwork, VmappedNetwork)
    )
    torch.testing.assert_close(native.logits, general.logits, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(native.losses, general.losses, rtol=tolerance, atol=tolerance)
    expected = cases.dense(general)
    torch.testing.assert_close(
        cases.dense(native), expected, rtol=0, atol=tolerance * float(expected.abs().amax())
    )


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("name", cases.image_layers())
def test_every_layer_of_images_has_the_gradients_of_the_definition(name, copies):
    torch.manual_seed(0)
    model = cases.image_layers()[name]
    for models, rows in ((1, 3), (3, 2)):
        x = cases.normal(models, rows, copies, 2, 7, 6)
        assert_same_look(model, x, torch.arange(models * rows).view(models, rows) % 3)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_embeddings_norms_and_linear_layers_on_sequences_have_the_gradients_of_the_definition(bias, copies):
    model = cases.seeded(cases.Tokens, bias=bias)
    x = torch.randint(5, (2, 4, copies, 3), generator=torch.Generator().manual_seed(0)).float()
    assert_same_look(model, x, torch.arange(8).view(2, 4) % 3)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(
    ("name", "shape", "rows"),
    [
        ("mlp", (8, 8), 5),
        ("logistic", (7,), 5),
        ("mnist-cnn", (1, 28, 28), 3),
        ("cifar-cnn", (3, 32, 32), 2),
        ("wrn-16-4", (3, 32, 32), 1),
    ],
)
def test_every_model_of_the_paper_has_the_gradients_of_the_definition(name, shape, rows, copies, monkeypatch):
    # Trying slots takes long for large networks, and bits are not what is tested here.
    monkeypatch.setattr("dpgap.training.per_sample._slots_agree", lambda *_: False)
    models = 1 if name == "wrn-16-4" else 2
    model = build_model(name, shape, 10, seed=0)
    network = build_network(model, cases.trainable(model), torch.zeros(shape), 10)
    assert isinstance(network, NativeNetwork)
    x, spread = cases.normal(models, rows, copies, *shape), 0.01
    y = torch.arange(models * rows).view(models, rows)
    native = cases.looked(network, x, y, spread)
    general = cases.looked(VmappedNetwork(model, cases.trainable(model)), x, y, spread)
    torch.testing.assert_close(native.logits, general.logits, rtol=1e-4, atol=1e-4)
    expected = cases.dense(general)
    assert (cases.dense(native) - expected).norm() < 1e-5 * expected.norm()


def test_frozen_parts_keep_their_weights_and_have_no_gradient():
    for frozen in (0, 2):
        model = cases.small_mlp()
        model[frozen].requires_grad_(requires_grad=False)
        network = build_network(model, cases.trainable(model), torch.zeros(6), 3)
        assert isinstance(network, NativeNetwork)
        assert_same_look(model, cases.normal(2, 3, 1, 6), torch.zeros(2, 3, dtype=torch.int64))


def test_logits_alone_are_those_of_the_look():
    model, x = cases.small_cnn(), cases.normal(2, 3, 1, 1, 8, 8)
    for make in (NativeNetwork, VmappedNetwork):
        network = make(model, cases.trainable(model))
        look = cases.looked(network, x, torch.zeros(2, 3, dtype=torch.int64))
        torch.testing.assert_close(network.logits(x[:, :, 0]), look.logits)


def shared_layer():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(6, 3))


def shared_by_two_blocks():
    layer = nn.Linear(6, 6)
    return nn.Sequential(nn.Sequential(layer, nn.Tanh()), nn.Sequential(layer, nn.Tanh()), nn.Linear(6, 3))


def tied_weights():
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 3))
    model[2].weight = model[0].weight
    return model


class Unused(nn.Sequential):
    """Has a layer that its forward never calls."""

    def forward(self, input):  # noqa: A002
        return self[0](input)


class WithoutEffect(nn.Sequential):
    """Calls a layer whose output it drops."""

    def forward(self, input):  # noqa: A002
        self[1](input)
        return self[0](input)


class OnRows(nn.Module):
    """Sees a row as a signal of one channel."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv1d(1, 2, 3), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.conv(x[:, None]).flatten(1))


def half_frozen():
    model = cases.small_mlp()
    model[0].bias.requires_grad_(requires_grad=False)
    return model


FALLEN_BACK = {
    "own parameter": lambda: nn.Sequential(cases.Scaled(), nn.Linear(6, 3)),
    "conv1d": OnRows,
    "partly frozen layer": half_frozen,
    "used twice": shared_layer,
    "used by two blocks": shared_by_two_blocks,
    "tied weights": tied_weights,
    "functional": cases.Around,
    "never used": lambda: Unused(nn.Linear(6, 3), nn.Linear(6, 3)),
    "without effect": lambda: WithoutEffect(nn.Linear(6, 3), nn.Linear(6, 3)),
    "in place": lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)),
    "grouped": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 3, 1)), nn.Conv2d(2, 2, 1, groups=2), nn.Flatten(), nn.Linear(6, 3)
    ),
}


@pytest.mark.parametrize("name", FALLEN_BACK)
def test_what_has_no_fleet_version_is_trained_by_the_definition_and_the_log_says_so_once(name, caplog):
    model = cases.seeded(FALLEN_BACK[name])
    with caplog.at_level(logging.INFO, logger="dpgap"):
        network = build_network(model, cases.trainable(model), torch.zeros(6), 3)
    assert isinstance(network, VmappedNetwork)
    assert len(caplog.records) == 1
    assert "vmapped gradients, which is slower" in caplog.text
    assert "\n" not in caplog.messages[0]


def test_the_log_names_the_layer_without_a_fleet_version(caplog):
    model = cases.seeded(FALLEN_BACK["own parameter"])
    build_network(model, cases.trainable(model), torch.zeros(6), 3)
    assert "Scaled at '0' has no fleet version" in caplog.text


def test_a_native_network_says_nothing(caplog):
    model = cases.small_mlp()
    assert isinstance(build_network(model, cases.trainable(model), torch.zeros(6), 3), NativeNetwork)
    assert not caplog.records


def test_building_a_network_leaves_the_model_and_the_global_generator_alone():
    model = cases.small_cnn()
    before, state = cases.flat(model.state_dict()), torch.get_rng_state()
    build_network(model, cases.trainable(model), torch.zeros(1, 8, 8), 3)
    assert torch.equal(cases.flat(model.state_dict()), before)
    assert torch.equal(torch.get_rng_state(), state)
    assert type(model[0]) is nn.Conv2d
    assert all(value.requires_grad for value in model.parameters())


def test_cross_entropy_is_that_of_torch_also_far_out():
    logits = torch.cat([5 * cases.normal(40, 4), torch.tensor([[1e4, -1e4, 0, 0], [-1e30, 0, 1e30, 0]])])
    labels = torch.arange(42) % 4
    tracked = logits.clone().requires_grad_()
    expected = functional.cross_entropy(tracked, labels, reduction="none")
    expected.sum().backward()
    losses, slopes = cross_entropy(logits, labels)
    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=2e-7)
    torch.testing.assert_close(slopes, tracked.grad, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("spoilt", [float("nan"), float("inf"), float("-inf")])
def test_the_loss_of_logits_that_are_not_finite_stays_in_its_row(spoilt):
    logits = cases.normal(3, 4)
    alone = cross_entropy(logits, torch.zeros(3, dtype=torch.int64))
    logits[1, 2] = spoilt
    losses, slopes = cross_entropy(logits, torch.zeros(3, dtype=torch.int64))
    assert torch.equal(losses[::2], alone[0][::2])
    assert torch.equal(slopes[::2], alone[1][::2])
    expected = functional.cross_entropy(logits, torch.zeros(3, dtype=torch.int64), reduction="none")
    torch.testing.assert_close(losses, expected, equal_nan=True)
