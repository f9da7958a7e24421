"""Per-sample gradients: right, and the same to the last bit whatever the batch."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from dpgap.errors import InvalidInput
from dpgap.models.build import build_model
from dpgap.models.wide_resnet import StandardisedConv2d
from dpgap.training import per_sample as module
from dpgap.training.per_sample import PerSample, flatten, per_sample, pieces, unflatten
from tests.reference.per_sample import microbatches_of_one

CLASSES = 4
SPOILERS = (math.nan, math.inf, 1e30, 1e-40)


def _flat(*layers: nn.Module, features: int) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, CLASSES))


class _Attention(nn.Module):
    """Scaled dot-product self-attention over the rows of one record."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(6, 18)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.mix(x).chunk(3, dim=-1)
        return torch.softmax(query @ key.transpose(-1, -2) / 6**0.5, dim=-1) @ value


LAYERS = {
    "linear": ((12,), lambda: _flat(features=12)),
    "linear of odd widths": ((7,), lambda: nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, CLASSES))),
    "linear without bias": ((7,), lambda: _flat(nn.Linear(7, 16, bias=False), features=16)),
    "conv1d": ((2, 9), lambda: _flat(nn.Conv1d(2, 3, 3), features=21)),
    "conv2d": ((2, 8, 8), lambda: _flat(nn.Conv2d(2, 3, 3, padding=1), features=192)),
    "conv2d, strided": ((2, 9, 9), lambda: _flat(nn.Conv2d(2, 3, 3, stride=2), features=48)),
    "conv2d, dilated": ((2, 9, 9), lambda: _flat(nn.Conv2d(2, 3, 3, dilation=2), features=75)),
    "conv2d in groups": ((4, 8, 8), lambda: _flat(nn.Conv2d(4, 8, 3, groups=4), features=288)),
    "transposed conv2d": ((2, 5, 5), lambda: _flat(nn.ConvTranspose2d(2, 3, 2, stride=2), features=300)),
    "standardised conv2d": ((3, 8, 8), lambda: _flat(StandardisedConv2d(3, 8, 3, stride=2), features=128)),
    "group norm": ((6, 4, 4), lambda: _flat(nn.GroupNorm(3, 6), nn.ReLU(), features=96)),
    "layer norm": ((11,), lambda: _flat(nn.LayerNorm(11), features=11)),
    "instance norm": ((3, 5, 5), lambda: _flat(nn.InstanceNorm2d(3, affine=True), features=75)),
    "pools": ((3, 8, 8), lambda: _flat(nn.MaxPool2d(2), nn.AvgPool2d(2), features=12)),
    "prelu": ((12,), lambda: _flat(nn.PReLU(), features=12)),
    "attention": ((5, 6), lambda: _flat(_Attention(), features=30)),
}
MODELS = {
    "mnist-cnn": (1, 28, 28),
    "cifar-cnn": (3, 16, 16),
    "wrn-16-4": (3, 8, 8),
    "mlp": (446,),
    "logistic": (5,),
}


def _case(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    if name in MODELS:
        return build_model(name, MODELS[name], CLASSES, seed=3), MODELS[name]
    shape, make = LAYERS[name]
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return make(), shape


def _records(count: int, copies: int, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(count, copies, *shape, generator=generator)
    return x, torch.randint(CLASSES, (count,), generator=generator)


def _run(model: nn.Module, x: Tensor, y: Tensor) -> PerSample:
    return per_sample(model, dict(model.named_parameters()), x, y)


def _bits(result: PerSample) -> Tensor:
    return module._rows(result).view(torch.int32)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("name", [*LAYERS, *MODELS])
def test_gradients_are_those_of_microbatches_of_one(name: str, copies: int, monkeypatch: pytest.MonkeyPatch):
    if name == "wrn-16-4":
        monkeypatch.setattr(module, "TILE", 4)  # 2.7 million parameters a record: 32 take a minute
    model, shape = _case(name)
    x, y = _records(3, copies, shape)
    got = _run(model, x, y)
    logits, losses, gradients = microbatches_of_one(model, x, y)
    torch.testing.assert_close(got.logits, logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got.losses, losses, rtol=1e-5, atol=1e-6)
    sizes = [value.numel() for value in model.parameters()]
    for ours, theirs in zip(got.gradients.split(sizes, dim=1), gradients.split(sizes, dim=1), strict=True):
        # A parameter whose terms cancel (one slope for twelve features) is held to the whole gradient.
        scale = 1e-5 * theirs.norm(dim=1) + 1e-6 * gradients.norm(dim=1)
        assert ((ours - theirs).norm(dim=1) <= scale).all()


SMALL_MODELS = ("mnist-cnn", "cifar-cnn", "mlp", "logistic")
BY_TWO_THREADS = ("linear of odd widths", "conv2d", "group norm", *SMALL_MODELS)


@pytest.mark.parametrize(
    ("name", "threads"),
    [*((name, 1) for name in (*LAYERS, *SMALL_MODELS)), *((name, 2) for name in BY_TWO_THREADS)],
)
def test_bits_do_not_depend_on_batch_place_or_buffer(name: str, threads: int):
    model, shape = _case(name)
    x, y = _records(module.TILE + 5, 1, shape)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    wide = torch.cat([x[:5, :, None], x[:5, :, None]], dim=2)
    spoilt = x.clone()
    for slot, spoiler in enumerate(SPOILERS):
        spoilt[2 * slot :: 8] = spoiler
    with _threads(threads):
        expected = _bits(_run(model, x, y))
        for rows in (order, order[:3], order[7:8]):
            assert torch.equal(_bits(_run(model, x[rows], y[rows])), expected[rows])
        assert torch.equal(_bits(_run(model, wide[:, :, 1], y[:5])), expected[:5])
        assert torch.equal(_bits(_run(model, spoilt, y))[1::2], expected[1::2])


def test_the_bits_of_a_wide_resnet_do_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "TILE", 4)
    model, shape = _case("wrn-16-4")
    x, y = _records(6, 1, shape)
    expected = _bits(_run(model, x, y))
    x[1::2] = math.nan
    assert torch.equal(_bits(_run(model, x.flip(0), y.flip(0))).flip(0)[::2], expected[::2])
    assert torch.equal(_bits(_run(model, x[4:5], y[4:5])), expected[4:5])


@pytest.mark.parametrize("size", [1e-40, 1e-30, 1e15])
def test_huge_and_denormal_records_keep_their_bits_too(size: float):
    model, shape = _case("mnist-cnn")
    x, y = _records(5, 1, shape)
    together, alone = _run(model, x * size, y), _run(model, x[3:4] * size, y[3:4])
    assert torch.equal(_bits(together)[3:4], _bits(alone))


def test_slots_that_disagree_leave_one_record_a_tile(monkeypatch: pytest.MonkeyPatch):
    def slotted(_model: nn.Module, _parameters: dict[str, Tensor]) -> module.Tile:
        def compute(x: Tensor, _y: Tensor) -> PerSample:
            rows = x.flatten(1)
            last = torch.arange(len(x)) == module.TILE - 1
            gradients = torch.where(last[:, None], rows.nextafter(torch.tensor(9.0)), rows)
            return PerSample(logits=rows, losses=rows[:, 0], gradients=gradients)

        return compute

    model = nn.Linear(3, 3)
    parameters, x = dict(model.named_parameters()), torch.zeros(1, 1, 3)
    assert module._slots_agree(model, parameters, x)
    monkeypatch.setattr(module, "tile_function", slotted)
    assert not module._slots_agree(model, parameters, x)
    assert module._tile_size(nn.Linear(3, 3), parameters, x) == 1


def test_a_tile_of_one_computes_the_same_gradients(monkeypatch: pytest.MonkeyPatch):
    model, shape = _case("mnist-cnn")
    x, y = _records(4, 1, shape)
    tiles = _run(model, x, y)
    monkeypatch.setattr(module, "_tile_size", lambda *_: 1)
    torch.testing.assert_close(_run(model, x, y).gradients, tiles.gradients, rtol=1e-4, atol=1e-6)


def test_the_given_parameters_count_and_not_the_models_own():
    model, other = (build_model("mlp", (6,), CLASSES, seed=seed) for seed in (0, 1))
    x, y = _records(3, 1, (6,))
    got = per_sample(model, dict(other.named_parameters()), x, y)
    torch.testing.assert_close(got.gradients, microbatches_of_one(other, x, y)[2], rtol=1e-4, atol=1e-6)


def test_nobody_drawn_gives_no_rows():
    model, shape = _case("logistic")
    result = _run(model, torch.zeros(0, 2, *shape), torch.zeros(0, dtype=torch.int64))
    assert (result.logits.shape, result.losses.shape) == ((0, CLASSES), (0,))
    assert result.gradients.shape == (0, 6 * CLASSES)


def test_the_global_generator_and_the_model_are_left_alone():
    model, shape = _case("mnist-cnn")
    before, state = flatten(dict(model.named_parameters())), torch.get_rng_state()
    _run(model, *_records(2, 1, shape))
    assert torch.equal(before, flatten(dict(model.named_parameters())))
    assert torch.equal(state, torch.get_rng_state())
    assert all(value.grad is None for value in model.parameters())


def test_flatten_and_unflatten_are_inverse():
    named = dict(_case("mnist-cnn")[0].named_parameters())
    back = unflatten(flatten(named), named)
    assert list(back) == list(named)
    assert all(torch.equal(back[name], named[name]) for name in named)


@pytest.mark.parametrize("records", [0, 1, 31, 5000])
def test_pieces_cover_a_batch_once_in_order(records: int):
    named = {"weight": torch.zeros(700, 300)}
    slices = list(pieces(records, named))
    assert [row for piece in slices for row in range(records)[piece]] == list(range(records))
    assert all((piece.stop - piece.start) * 700 * 300 <= module.PIECE_FLOATS for piece in slices)


def test_no_parameters_is_refused():
    with pytest.raises(InvalidInput, match="at least one tensor"):
        per_sample(nn.Linear(2, 2), {}, torch.zeros(1, 1, 2), torch.zeros(1, dtype=torch.int64))
