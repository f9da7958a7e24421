"""Networks without convolutions: three linear layers, or one."""

import math

from torch import nn


def mlp(input_shape: tuple[int, ...], num_classes: int) -> nn.Sequential:
    """Three linear layers with 256 hidden units and ReLU."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(input_shape), 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, num_classes),
    )


def logistic(input_shape: tuple[int, ...], num_classes: int) -> nn.Sequential:
    """Multinomial logistic regression: one linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), num_classes))
