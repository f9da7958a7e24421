"""What the tests of the fleet share: small records, small networks, both kinds of them side by side."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpgap.data.records import Canaries, Records
from dpgap.models.wide_resnet import StandardisedConv2d
from dpgap.privacy.mechanism import Mechanism, Poisson
from dpgap.signatures.parse import parse_signature
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.fleet.network import Look, Network
from dpgap.training.options import TrainingOptions

N = 90
Made = TypeVar("Made", bound=nn.Module)
OPTIONS = TrainingOptions(learning_rate=0.5)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def records(shape: tuple[int, ...] = (6,), n: int = N, classes: int = 3, seed: int = 0) -> Records:
    y = torch.arange(n) % classes
    return Records(normal(n, *shape, seed=seed) + y.view(-1, *[1] * len(shape)), y, classes)


def canaries(shape: tuple[int, ...] = (6,), gradients: Tensor | None = None) -> Canaries:
    rows = torch.stack([torch.full(shape, 9.0), torch.full(shape, -4.0)])
    return Canaries(rows, torch.tensor([0, 2]), gradients)


def seeded(make: Callable[..., Made], *arguments: object, **options: object) -> Made:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make(*arguments, **options)


def small_mlp() -> nn.Sequential:
    return seeded(lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)))


def small_cnn(channels: int = 1, side: int = 8, classes: int = 3) -> nn.Sequential:
    def make() -> nn.Sequential:
        convolutions = [nn.Conv2d(channels, 4, 3), nn.MaxPool2d(2), nn.Tanh(), nn.Conv2d(4, 5, 2), nn.Tanh()]
        return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(5 * ((side - 2) // 2 - 1) ** 2, classes))

    return seeded(make)


def mechanism(**changed: object) -> Mechanism:
    fields = {"sampling": Poisson(rate=0.4), "clip_norm": 1.0, "noise_multiplier": 0.8}
    return Mechanism(**fields | {"expected_batch": 36.0, "steps": 6} | changed)


def filtered(
    name: str = "linf", k: int = 1, every: int = 3, scope: str = "class", **changed: object
) -> Filter:
    return Filter(signature=parse_signature(name), select=SelectTop(k=k, scope=scope), every=every, **changed)


def flat(weights: dict[str, Tensor]) -> Tensor:
    return torch.cat([value.detach().flatten() for value in weights.values()])


def trainable(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}


def looked(network: Network, x: Tensor, y: Tensor, spread: float = 0.1) -> Look:
    """What M models, all close to the network's own parameters, say of ``x [M, R, K, ...]``."""
    start = flat(network.parameters)
    network.prepare(start + spread * normal(len(x), len(start), seed=7))
    return network.look(x, y, torch.ones_like(y, dtype=torch.bool))


def dense(look: Look) -> Tensor:
    return torch.cat([layer.dense() for layer in look.gradients], dim=2)


class Tokens(nn.Module):
    """Embeddings of five tokens, normalised by position, then linear on sequences."""

    def __init__(self, *, bias: bool = True) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(5, 5), nn.LayerNorm(5)
        self.each, self.out = nn.Linear(5, 7, bias=bias), nn.Linear(7, 3, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.each(self.norm(self.table(x.long())))).mean(dim=1))


class Around(nn.Module):
    """Uses its layer's weight, not the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.fc.weight, self.fc.bias)


class Scaled(nn.Module):
    """A module with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def image_layers() -> dict[str, nn.Module]:
    """Networks of images of 2 by 7 by 6, each around one kind of layer."""
    tail = [nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]

    def ended(*layers: nn.Module, channels: int) -> nn.Module:
        return nn.Sequential(*layers, *tail, nn.Linear(4 * channels, 3))

    return {
        "conv": ended(nn.Conv2d(2, 4, 3), channels=4),
        "conv without bias": ended(nn.Conv2d(2, 4, (2, 3), bias=False), channels=4),
        "conv with padding": ended(nn.Conv2d(2, 3, 3, padding=(1, 2)), channels=3),
        "conv with stride": ended(nn.Conv2d(2, 3, 2, stride=(2, 1), padding=1), channels=3),
        "two convs": ended(nn.Conv2d(2, 4, 2), nn.Tanh(), nn.Conv2d(4, 3, 2, stride=2), channels=3),
        "standardised": ended(StandardisedConv2d(2, 3, 3), channels=3),
        "standardised with stride": ended(StandardisedConv2d(2, 4, 3, stride=2), channels=4),
        "group norm": ended(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), channels=4),
        "layer norm of images": ended(nn.Conv2d(2, 3, 3), nn.LayerNorm((3, 5, 4)), channels=3),
    }
