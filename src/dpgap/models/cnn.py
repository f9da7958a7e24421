"""The paper's two small convolutional networks."""

import torch
from torch import nn

from dpgap.errors import InvalidInput


def _flat_features(trunk: nn.Sequential, input_shape: tuple[int, ...]) -> int:
    """How many numbers the convolutions leave of one image."""
    try:
        return trunk(torch.empty(1, *input_shape, device="meta")).shape[1]
    except RuntimeError as error:
        raise InvalidInput(
            f"input_shape must be (channels, height, width) large enough for this network's convolutions and "
            f"pools, got {input_shape!r}. Write 'mlp' for small or flat records."
        ) from error


def mnist_cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Sequential:
    """Two convolutions (5x5 to 16 channels, 4x4 to 32), each with pool and tanh, then 32 hidden units."""
    trunk = nn.Sequential(
        nn.Conv2d(input_shape[0], 16, 5),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Conv2d(16, 32, 4),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Flatten(),
    )
    head = (nn.Linear(_flat_features(trunk, input_shape), 32), nn.Tanh(), nn.Linear(32, num_classes))
    return nn.Sequential(*trunk, *head)


def cifar_cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Sequential:
    """Six 3x3 convolutions with tanh, in pairs of 32, 64, 128 channels and a pool, then 128 units."""
    layers: list[nn.Module] = []
    before = input_shape[0]
    for channels in (32, 64, 128):
        layers += [nn.Conv2d(before, channels, 3, padding=1), nn.Tanh()]
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2)]
        before = channels
    trunk = nn.Sequential(*layers, nn.Flatten())
    head = (nn.Linear(_flat_features(trunk, input_shape), 128), nn.Tanh(), nn.Linear(128, num_classes))
    return nn.Sequential(*trunk, *head)
