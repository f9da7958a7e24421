"""WRN-16-4 with standardised convolutions and group normalisation, so that no record sees another."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

GROUPS = 16


class StandardisedConv2d(nn.Conv2d):
    """A convolution by ``gain (w - mean) / sqrt(var * fan_in + 1e-4)``, each output channel by itself.

    The scaled weight standardisation of Brock, De and Smith (2021), "Characterizing signal propagation to
    close the performance gap in unnormalized ResNets"; it looks at weights only, never at records.
    """

    def __init__(self, before: int, after: int, size: int, *, stride: int = 1) -> None:
        super().__init__(before, after, size, stride=stride, padding=size // 2)
        self.gain = nn.Parameter(torch.ones(after, 1, 1, 1))

    def forward(self, input: Float[Tensor, "B I H W"]) -> Float[Tensor, "B O height width"]:  # noqa: A002
        """The convolution with standardised weights."""
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), correction=0, keepdim=True)
        fan_in = math.prod(self.weight.shape[1:])
        weight = self.gain * (self.weight - mean) * torch.rsqrt(variance * fan_in + 1e-4)
        return functional.conv2d(input, weight, self.bias, self.stride, self.padding)


class Block(nn.Module):
    """GroupNorm, ReLU and a 3x3 convolution, twice, plus the skip."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.GroupNorm(GROUPS, before),
            nn.ReLU(),
            StandardisedConv2d(before, after, 3, stride=stride),
            nn.GroupNorm(GROUPS, after),
            nn.ReLU(),
            StandardisedConv2d(after, after, 3),
        )
        same = before == after and stride == 1
        self.skip = nn.Identity() if same else StandardisedConv2d(before, after, 1, stride=stride)

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B O height width"]:
        """The residual of the block's input and its raw skip, added."""
        return self.skip(x) + self.residual(x)


def wrn_16_4(input_shape: tuple[int, ...], num_classes: int) -> nn.Sequential:
    """A standardised convolution to 16 channels, three groups of two blocks (64, 128, 256), pool, linear."""
    widths = (GROUPS, 64, 64, 128, 128, 256, 256)
    strides = (1, 1, 2, 1, 2, 1)
    blocks = [Block(*sizes) for sizes in zip(widths, widths[1:], strides, strict=False)]
    return nn.Sequential(
        StandardisedConv2d(input_shape[0], GROUPS, 3),
        *blocks,
        nn.GroupNorm(GROUPS, widths[-1]),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(widths[-1], num_classes),
    )


def initialise_wide_resnet(model: nn.Module, generator: torch.Generator) -> None:
    """Convolutions normal with sd ``1 / sqrt(fan_in)``, the head Kaiming normal, biases 0, gains 1."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, StandardisedConv2d):
                nn.init.normal_(
                    module.weight, std=math.prod(module.weight.shape[1:]) ** -0.5, generator=generator
                )
                nn.init.ones_(module.gain)
            elif isinstance(module, nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            elif isinstance(module, nn.GroupNorm):
                nn.init.ones_(module.weight)
            if isinstance(module, StandardisedConv2d | nn.Linear | nn.GroupNorm) and module.bias is not None:
                nn.init.zeros_(module.bias)
