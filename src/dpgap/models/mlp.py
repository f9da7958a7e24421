"""Networks without convolutions: several linear layers, or one."""

import itertools
import math

from torch import nn


def mlp(
    input_shape: tuple[int, ...], num_classes: int, hidden: tuple[int, ...] = (256, 256)
) -> nn.Sequential:
    """Linear layers with ReLU between them; three with 256 hidden units are the paper's."""
    widths = (math.prod(input_shape), *hidden, num_classes)
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def logistic(input_shape: tuple[int, ...], num_classes: int) -> nn.Sequential:
    """Multinomial logistic regression: one linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), num_classes))
