"""The paper's networks have its shapes and initialisations, and what couples records is refused."""

import math

import pytest
import torch
from torch import nn

from dpgap.errors import InvalidInput
from dpgap.models.build import MODELS, build_model
from dpgap.models.check import check_model
from dpgap.models.wide_resnet import StandardisedConv2d

SHAPES = {
    "mnist-cnn": (1, 28, 28),
    "cifar-cnn": (3, 32, 32),
    "wrn-16-4": (3, 32, 32),
    "mlp": (600,),
    "logistic": (64,),
}
PARAMETERS = {  # counted by hand from the list of layers
    "mnist-cnn": 416 + 8_224 + 16_416 + 330,
    "cifar-cnn": 896 + 9_248 + 18_496 + 36_928 + 73_856 + 147_584 + 262_272 + 1_290,
    "mlp": 153_856 + 65_792 + 2_570,
    "logistic": 650,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_as_many_as_the_paper_lists(name: str):
    model = build_model(name, SHAPES[name], 10, seed=0)
    assert sum(value.numel() for value in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", MODELS)
def test_each_record_has_one_logit_a_class_and_passes_the_check(name: str):
    model = build_model(name, SHAPES[name], 10, seed=0)
    check_model(model)
    logits = model(torch.randn(2, *SHAPES[name], generator=torch.Generator().manual_seed(0)))
    assert logits.shape == (2, 10)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", MODELS)
def test_the_weights_depend_on_the_seed_alone(name: str):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = build_model(name, SHAPES[name], 10, seed=5).state_dict()
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    same, other = (build_model(name, SHAPES[name], 10, seed=seed).state_dict() for seed in (5, 6))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", ["mnist-cnn", "cifar-cnn", "mlp", "logistic"])
def test_weights_are_xavier_normal_and_biases_a_hundredth(name: str):
    for key, value in build_model(name, SHAPES[name], 10, seed=0).named_parameters():
        if key.endswith("bias"):
            assert (value == 0.01).all()
        else:
            window = value[0, 0].numel() if value.ndim == 4 else 1
            expected = math.sqrt(2 / ((value.shape[0] + value.shape[1]) * window))
            # the relative error of a standard deviation is 1/sqrt(2n): five of them, 1e-6 to fail by chance
            assert value.std().item() == pytest.approx(expected, rel=5 / math.sqrt(2 * value.numel()))


def test_a_wide_resnet_starts_with_fan_in_weights_and_no_bias():
    model = build_model("wrn-16-4", (3, 32, 32), 10, seed=0)
    convolutions = [module for module in model.modules() if isinstance(module, StandardisedConv2d)]
    assert len(convolutions) == 1 + 12 + 3
    for module in convolutions:
        expected = module.weight[0].numel() ** -0.5
        # as above
        assert module.weight.std().item() == pytest.approx(
            expected, rel=5 / math.sqrt(2 * module.weight.numel())
        )
        assert (module.gain == 1).all()
        assert module.bias is not None
        assert not module.bias.any()


def test_a_wide_resnet_halves_the_image_twice():
    model = build_model("wrn-16-4", (3, 32, 32), 10, seed=0)
    assert isinstance(model, nn.Sequential)
    assert model[:7](torch.zeros(1, 3, 32, 32)).shape == (1, 256, 8, 8)


def test_a_standardised_convolution_ignores_shift_and_scale_of_its_weights():
    layer, x = (
        StandardisedConv2d(2, 3, 3),
        torch.randn(1, 2, 5, 5, generator=torch.Generator().manual_seed(0)),
    )
    with torch.no_grad():
        layer.weight.normal_(generator=torch.Generator().manual_seed(1))
        before = layer(x)
        layer.weight.mul_(2.0).add_(3.0)
        torch.testing.assert_close(layer(x), before, rtol=1e-3, atol=1e-4)
        weight = layer.weight.double()
        mean = weight.mean(dim=(1, 2, 3), keepdim=True)
        scaled = (weight - mean) / (
            (weight - mean).square().mean(dim=(1, 2, 3), keepdim=True) * 18 + 1e-4
        ).sqrt()
        twin = nn.functional.conv2d(x.double(), scaled, layer.bias.double(), padding=1)
    torch.testing.assert_close(layer(x).double(), twin, rtol=1e-4, atol=1e-5)


def test_cnn_is_chosen_by_the_images_size():
    colours, cifar = (build_model("cnn", shape, 10, seed=0) for shape in ((3, 28, 28), (3, 32, 32)))
    assert len(list(colours.parameters())) == 8
    assert len(list(cifar.parameters())) == 16


@pytest.mark.parametrize(
    ("name", "shape", "classes", "message"),
    [
        ("resnet", (3, 32, 32), 10, "got 'resnet'"),
        ("logistik", (4,), 2, "Did you mean logistic"),
        ("cnn", (1, 8, 8), 10, "28 or 32 pixels high"),
        ("cnn", (64,), 10, "28 or 32 pixels high"),
        ("mnist-cnn", (64,), 10, "must be .channels, height, width. for mnist-cnn"),
        ("mnist-cnn", (1, 8, 8), 10, "large enough"),
        ("mlp", (4,), 1, "num_classes"),
    ],
)
def test_what_cannot_be_built_is_refused(name: str, shape: tuple[int, ...], classes: int, message: str):
    with pytest.raises(InvalidInput, match=message):
        build_model(name, shape, classes, seed=0)


def _nested(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), layer))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.BatchNorm1d(4), r"BatchNorm1d at '1.1'.*Write nn.GroupNorm"),
        (nn.BatchNorm2d(4, affine=False, track_running_stats=False), r"BatchNorm2d at '1.1'"),
        (nn.SyncBatchNorm(4), r"SyncBatchNorm at '1.1'"),
        (nn.InstanceNorm2d(4, track_running_stats=True), r"Write track_running_stats=False"),
        (nn.Dropout(0.1), r"Dropout at '1.1'.*p=0.0"),
        (nn.AlphaDropout(0.1), r"AlphaDropout at '1.1'"),
        (nn.MultiheadAttention(4, 2, dropout=0.1), r"MultiheadAttention at '1.1'.*dropout=0.0"),
        (nn.LSTM(4, 4, num_layers=2, dropout=0.1), r"LSTM at '1.1'"),
        (nn.Linear(4, 4).half(), r"float16 at '1.1.weight'.*model.float"),
    ],
)
def test_what_couples_records_is_refused_with_path_reason_and_fix(layer: nn.Module, message: str):
    with pytest.raises(InvalidInput, match=message):
        check_model(_nested(layer))


@pytest.mark.parametrize(
    "layer", [nn.GroupNorm(2, 4), nn.LayerNorm(4), nn.InstanceNorm2d(4), nn.Dropout(0.0), nn.LSTM(4, 4)]
)
def test_what_treats_records_apart_is_accepted(layer: nn.Module):
    check_model(_nested(layer))


def test_a_model_without_parameters_is_refused():
    with pytest.raises(InvalidInput, match="got none"):
        check_model(nn.Sequential(nn.ReLU()))
