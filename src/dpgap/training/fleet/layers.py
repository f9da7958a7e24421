"""Layers whose parameters differ from model to model; everything else in a network is used as it is.

A fleet's activations have shape ``[M * R * K, ...]``: R rows of each of M models, K copies of each row. A
layer without parameters need not know. One with parameters finds each model's own in the `Tape`, leaves there
what it was given and what it gave, and forms the per-sample gradients of its parameters from both, once the
gradient of its output is known. To add a layer, write its class here and name it in ``NATIVE``.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from dpgap.models.wide_resnet import StandardisedConv2d
from dpgap.training.fleet.convolution import (
    Activated,
    Activation,
    Window,
    conv_tanh,
    conv_tanh_rows,
    convolved,
    gradient_rows,
)
from dpgap.training.fleet.gradients import LayerGradient, RankOne, Rows
from dpgap.training.fleet.products import filled, product
from dpgap.training.options import Precision

_SMALL_PATCH, _FEW_NUMBERS = 256, 31
"""Numbers in a patch up to which one kernel of ours convolves and takes the tanh, with a pool and without."""


@dataclass(frozen=True, eq=False)
class Tap:
    """One use of a layer: what its gradient needs of the input, and its output."""

    layer: "FleetLayer"
    kept: Any
    output: Tensor


@dataclass(eq=False)
class Tape:
    """What all layers of a fleet share while it looks at some rows."""

    precision: Precision = "fp32"
    models: int = 0
    rows: int = 0
    copies: int = 1
    there: Tensor = field(default_factory=lambda: torch.ones(0, dtype=torch.bool))
    prepared: dict[str, Any] = field(default_factory=dict)
    taps: list[Tap] = field(default_factory=list)

    @property
    def dtype(self) -> torch.dtype:
        """Of activations and of the weights that meet them."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    @property
    def products(self) -> Literal["tf32x3", "tf32"]:
        """How kernels multiply float32 numbers: by three TF32 products, or by one."""
        return "tf32x3" if self.precision == "fp32" else "tf32"


class FleetLayer(nn.Module, ABC):
    """A layer in M versions; ``name`` is that of the layer whose place it takes."""

    def __init__(self, layer: nn.Module, name: str, tape: Tape) -> None:
        super().__init__()
        self.name, self._tape = name, tape
        self.names = [f"{name}.{each}" if name else each for each, _ in layer.named_parameters()]

    @staticmethod
    def takes(layer: Any) -> bool:
        """Whether this class does all that ``layer`` does."""
        return isinstance(layer, nn.Module)

    def prepare(self, parameters: Mapping[str, Float[Tensor, "M ..."]]) -> Any:
        """What `forward` needs of the models' parameters, once a step."""
        return {name.removeprefix(self.name).lstrip("."): parameters[name] for name in self.names}

    def forward(self, x: Tensor) -> Tensor:
        """The output of every row, by its own model's parameters."""
        output, kept = self.apply_to(x, self._tape.prepared[self.name])
        if torch.is_grad_enabled():
            if not output.requires_grad:
                output.requires_grad_()
            self._tape.taps.append(Tap(self, kept, output))
        return output

    @abstractmethod
    def apply_to(self, x: Tensor, prepared: Any) -> tuple[Tensor, Any]:
        """The output, and what `gradient` needs of the input."""

    @abstractmethod
    def gradient(self, kept: Any, outputs: Tensor, prepared: Any) -> LayerGradient:
        """Per-sample gradients, given that of the output; in the order of the layer's parameters."""

    def _by_row(self, x: Tensor) -> Tensor:
        """``[M * R * K, L, F]`` as ``[M * R, K * L, F]``: copies of a row are more positions of it."""
        return x.reshape(self._tape.models * self._tape.rows, -1, x.shape[-1])

    def _summed(self, x: Tensor) -> Tensor:
        """``[M * R * K, ..., F]`` summed over copies and positions: ``[M, R, F]``."""
        return self._by_row(x).sum(dim=1).view(self._tape.models, self._tape.rows, -1)


class FleetLinear(FleetLayer):
    """``nn.Linear``, also of sequences."""

    def __init__(self, layer: nn.Linear, name: str, tape: Tape) -> None:
        super().__init__(layer, name, tape)
        self.bias = layer.bias is not None

    def prepare(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The transposed weights, in rows of whole multiples of 64 bytes."""
        own = dict(super().prepare(parameters))
        own["transposed"] = filled(filled(own["weight"], 1), 2).to(self._tape.dtype).mT
        return own

    def apply_to(self, x: Tensor, prepared: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """One product a model."""
        rows = x.reshape(self._tape.models, -1, x.shape[-1])
        outputs = torch.bmm(filled(rows, 2), prepared["transposed"])[..., : prepared["weight"].shape[1]]
        if self.bias:
            outputs = outputs + prepared["bias"][:, None].to(outputs.dtype)
        return outputs.reshape(*x.shape[:-1], -1), x.detach()

    def gradient(self, kept: Tensor, outputs: Tensor, prepared: dict[str, Tensor]) -> LayerGradient:
        """Of rank one for a record seen once; formed for sequences and copies."""
        kept, outputs = kept.float(), outputs.float()
        if kept.ndim == 2 and self._tape.copies == 1:
            shape = (self._tape.models, self._tape.rows, -1)
            return RankOne(inputs=kept.view(shape), outputs=outputs.reshape(shape), bias=self.bias)
        formed = product(self._by_row(outputs).mT, self._by_row(kept)).flatten(1)
        weight = formed.view(self._tape.models, self._tape.rows, -1)
        return Rows(rows=torch.cat([weight, self._summed(outputs)], dim=2) if self.bias else weight)


class FleetEmbedding(FleetLayer):
    """``nn.Embedding``."""

    @staticmethod
    def takes(layer: nn.Embedding) -> bool:
        """Without options that change what is looked up or how it is counted."""
        return layer.max_norm is None and not layer.scale_grad_by_freq and layer.padding_idx is None

    def apply_to(self, x: Tensor, prepared: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Rows of each model's own table."""
        table = prepared["weight"]
        which = x.reshape(self._tape.models, -1)
        found = torch.gather(table, 1, which[..., None].expand(-1, -1, table.shape[2]))
        return found.reshape(*x.shape, -1).to(self._tape.dtype), x

    def gradient(self, kept: Tensor, outputs: Tensor, prepared: dict[str, Tensor]) -> LayerGradient:
        """The outputs' gradients, added where they were looked up."""
        table, by_row = prepared["weight"], self._by_row(outputs.float())
        which = kept.reshape(*by_row.shape[:2], 1).expand_as(by_row)
        rows = by_row.new_zeros(len(by_row), *table.shape[1:]).scatter_add_(1, which, by_row)
        return Rows(rows=rows.view(self._tape.models, self._tape.rows, -1))


class FleetLayerNorm(FleetLayer):
    """``nn.LayerNorm`` with weight and bias."""

    def __init__(self, layer: nn.LayerNorm, name: str, tape: Tape) -> None:
        super().__init__(layer, name, tape)
        self._shape, self._eps = layer.normalized_shape, layer.eps

    @staticmethod
    def takes(layer: nn.LayerNorm) -> bool:
        """With both."""
        return layer.elementwise_affine and layer.bias is not None

    def apply_to(self, x: Tensor, prepared: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Normalised, then scaled and shifted by each model's own."""
        normal = functional.layer_norm(x, self._shape, eps=self._eps)
        by_model = normal.view(self._tape.models, -1, *self._shape)
        scaled = by_model * prepared["weight"][:, None] + prepared["bias"][:, None]
        return scaled.view_as(x).to(x.dtype), normal.detach()

    def gradient(self, kept: Tensor, outputs: Tensor, prepared: dict[str, Tensor]) -> LayerGradient:
        """Sums over copies and positions."""
        flat = (*kept.shape[: kept.ndim - len(self._shape)], math.prod(self._shape))
        outputs = outputs.float()
        scale = self._summed((outputs * kept).reshape(flat))
        return Rows(rows=torch.cat([scale, self._summed(outputs.reshape(flat))], dim=2))


class FleetGroupNorm(FleetLayer):
    """``nn.GroupNorm`` with weight and bias."""

    def __init__(self, layer: nn.GroupNorm, name: str, tape: Tape) -> None:
        super().__init__(layer, name, tape)
        self._groups, self._eps = layer.num_groups, layer.eps

    @staticmethod
    def takes(layer: nn.GroupNorm) -> bool:
        """With both."""
        return layer.affine

    def apply_to(self, x: Tensor, prepared: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Normalised, then scaled and shifted by each model's own."""
        normal = functional.group_norm(x, self._groups, eps=self._eps)
        by_model = normal.reshape(self._tape.models, -1, x.shape[1], math.prod(x.shape[2:]))
        weight, bias = prepared["weight"][:, None, :, None], prepared["bias"][:, None, :, None]
        return (by_model * weight + bias).reshape(x.shape).to(x.dtype), normal.detach()

    def gradient(self, kept: Tensor, outputs: Tensor, prepared: dict[str, Tensor]) -> LayerGradient:
        """Sums over copies and places."""
        outputs = outputs.float()
        scale, shift = (outputs * kept).flatten(2).sum(dim=2), outputs.flatten(2).sum(dim=2)
        return Rows(rows=torch.cat([self._summed(scale[:, None]), self._summed(shift[:, None])], dim=2))


class FleetConv2d(FleetLayer):
    """``nn.Conv2d`` of any stride and padding by zeros."""

    def __init__(self, layer: nn.Conv2d, name: str, tape: Tape) -> None:
        super().__init__(layer, name, tape)
        self._window = Window.of(layer)
        self.bias = layer.bias is not None

    @staticmethod
    def takes(layer: nn.Conv2d) -> bool:
        """Without groups or dilation, and with padding in numbers."""
        plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
        return plain and not isinstance(layer.padding, str)

    def apply_to(self, x: Tensor, prepared: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """One convolution a model."""
        outputs = convolved(x, prepared["weight"], prepared.get("bias"), self._window)
        return outputs, x.detach()

    def gradient(self, kept: Tensor, outputs: Tensor, prepared: dict[str, Tensor]) -> LayerGradient:
        """Formed, as a record's gradient has no cheaper exact norm."""
        tape, window = self._tape, self._window
        rows = gradient_rows(kept, outputs, tape.there, window, bias=self.bias, products=tape.products)
        return rows.by_model(self._tape.models, self._tape.copies)


class FleetConvTanh(FleetLayer):
    """A convolution with ``nn.Tanh``, and with ``nn.MaxPool2d(2)`` before or after it, by kernels."""

    def __init__(self, layer: nn.Conv2d, name: str, tape: Tape, *, pool: bool) -> None:
        super().__init__(layer, name, tape)
        window = Window.of(layer)
        patch = math.prod(layer.weight.shape[1:])
        at_once = patch <= _SMALL_PATCH and (layer.padding == (0, 0) if pool else patch <= _FEW_NUMBERS)
        self._how = Activated(window=window, pool=pool, at_once=at_once, products=tape.products)

    @staticmethod
    def takes(layer: nn.Conv2d) -> bool:
        """Of stride 1 and with bias."""
        return FleetConv2d.takes(layer) and layer.stride == (1, 1) and layer.bias is not None

    def apply_to(self, x: Tensor, prepared: dict[str, Tensor]) -> tuple[Tensor, Activation]:
        """Only what is left of the pool and the tanh is kept."""
        return conv_tanh(x, prepared["weight"], prepared["bias"], self._how)

    def gradient(self, kept: Activation, outputs: Tensor, prepared: dict[str, Tensor]) -> LayerGradient:
        """Formed, from the places that the maxima came from."""
        rows = conv_tanh_rows(kept, outputs, self._tape.there, self._how)
        return rows.by_model(self._tape.models, self._tape.copies)


class FleetStandardisedConv2d(FleetConv2d):
    """`StandardisedConv2d`: a convolution by standardised weights, and the chain rule through those."""

    def prepare(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Centred weights and their scale, once a step; ``weight`` is what convolves."""
        own = dict(super().prepare(parameters))
        raw = own["weight"].flatten(2)
        variance, mean = torch.var_mean(raw, dim=2, correction=0, keepdim=True)
        own["centred"] = raw - mean
        own["scale"] = torch.rsqrt(variance * raw.shape[2] + 1e-4)
        own["gains"] = own["gain"].flatten(2)
        own["weight"] = (own["gains"] * own["centred"] * own["scale"]).view_as(own["weight"])
        return own

    def gradient(self, kept: Tensor, outputs: Tensor, prepared: dict[str, Tensor]) -> LayerGradient:
        """``s (h - mean h) - u s^3 <h, u>`` with ``h = gain g``, ``u`` centred weights, ``s`` their scale."""
        formed = super().gradient(kept, outputs, prepared).dense()
        centred, scale = prepared["centred"][:, None], prepared["scale"][:, None]
        size = centred[0].numel()
        by_channel = formed[..., :size].unflatten(2, centred.shape[2:])
        along = (by_channel * centred).sum(dim=3, keepdim=True)
        gains = prepared["gains"][:, None]
        raw = gains * (
            scale * (by_channel - by_channel.mean(dim=3, keepdim=True)) - centred * scale**3 * along
        )
        return Rows(rows=torch.cat([raw.flatten(2), formed[..., size:], (along * scale).flatten(2)], dim=2))


NATIVE: dict[type[nn.Module], Any] = {
    nn.Linear: FleetLinear,
    nn.Embedding: FleetEmbedding,
    nn.LayerNorm: FleetLayerNorm,
    nn.GroupNorm: FleetGroupNorm,
    nn.Conv2d: FleetConv2d,
    StandardisedConv2d: FleetStandardisedConv2d,
}
"""The layers that have a fleet version, by their exact type: a subclass may do something else."""
