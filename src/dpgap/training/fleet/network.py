"""A network in M versions, by its own ``forward``; or record by record where a layer has no fleet version."""

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from dpgap.errors import InvalidInput
from dpgap.training.fleet.device import arithmetic
from dpgap.training.fleet.gradients import LayerGradient, Rows
from dpgap.training.fleet.kernels import launch
from dpgap.training.fleet.layers import NATIVE, FleetConvTanh, FleetLayer, Tape
from dpgap.training.options import Precision
from dpgap.training.per_sample import per_sample, tile_function, unflatten

_LOG = logging.getLogger("dpgap")
_TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """What M models say of R rows each; means over copies, gradients unclipped and layer by layer."""

    logits: Float[Tensor, "M R C"]
    losses: Float[Tensor, "M R"]
    gradients: list[LayerGradient]


class Network(ABC):
    """M versions of one model, whose trainable parameters lie in a row each of ``[M, P]``.

    ``parameters`` has the shapes; their order is that of P.
    """

    def __init__(self, model: nn.Module, parameters: Mapping[str, Tensor], precision: Precision) -> None:
        self.parameters = dict(parameters)
        self.precision: Precision = precision
        self.device = next(iter(parameters.values())).device

    @abstractmethod
    def prepare(self, weights: Float[Tensor, "M P"]) -> None:
        """Take these weights from now on."""

    @abstractmethod
    def logits(self, x: Float[Tensor, "M R ..."]) -> Float[Tensor, "M R C"]:
        """The outputs alone."""

    @abstractmethod
    def look(self, x: Float[Tensor, "M R K ..."], y: Int[Tensor, "M R"], there: Bool[Tensor, "M R"]) -> Look:
        """Outputs, losses and per-sample gradients; ``x`` has K copies of each row.

        **Guarantees**: row r of model m is a function of that row and of that model. What is found of rows
        that are not ``there`` is of no use, and may be anything.
        """


@final
class NativeNetwork(Network):
    """The model's own ``forward`` on all rows at once, with fleet layers for those that have parameters."""

    def __init__(
        self,
        model: nn.Module,
        parameters: Mapping[str, Tensor],
        precision: Precision = "fp32",
        *,
        fused: bool = False,
    ) -> None:
        super().__init__(model, parameters, precision)
        self._tape, self._fused = Tape(precision=precision), fused
        self._layers: list[FleetLayer] = []
        self._module = self._replaced(copy.deepcopy(model), "")
        self._module.requires_grad_(requires_grad=False)

    def prepare(self, weights: Float[Tensor, "M P"]) -> None:
        """Take these weights from now on."""
        named = unflatten(weights, self.parameters)
        self._tape.models = len(weights)
        self._tape.prepared = {layer.name: layer.prepare(named) for layer in self._layers}

    @torch.no_grad()
    def logits(self, x: Float[Tensor, "M R ..."]) -> Float[Tensor, "M R C"]:
        """The outputs alone."""
        with arithmetic(self.precision):
            logits = self._module(x.flatten(0, 1).to(self._tape.dtype))
        return logits.float().unflatten(0, x.shape[:2])

    def look(self, x: Float[Tensor, "M R K ..."], y: Int[Tensor, "M R"], there: Bool[Tensor, "M R"]) -> Look:
        """One forward, one backward to the layers' outputs, then each layer's gradients."""
        tape = self._tape
        models, tape.rows, tape.copies = x.shape[:3]
        tape.there = there[..., None].expand(x.shape[:3]).flatten()
        tape.taps = []
        with torch.enable_grad(), arithmetic(self.precision):
            logits = self._module(x.flatten(0, 2).to(tape.dtype)).float()
            taps, tape.taps = tape.taps, []
            labels = y[..., None].expand(-1, -1, tape.copies).flatten()
            each, slopes = cross_entropy(logits.detach(), labels)
            losses = each.view(models, tape.rows, tape.copies).mean(dim=2)
            outputs = torch.autograd.grad(logits, [tap.output for tap in taps], slopes / tape.copies)
            found = {
                tap.layer.name: tap.layer.gradient(tap.kept, output, tape.prepared[tap.layer.name])
                for tap, output in zip(taps, outputs, strict=True)
            }
        return Look(
            logits=logits.detach().view(*x.shape[:3], -1).mean(dim=2),
            losses=losses,
            gradients=[found[layer.name] for layer in self._layers],
        )

    def _replaced(self, module: nn.Module, name: str) -> nn.Module:
        own = [value for value in module.parameters(recurse=False) if value.requires_grad]
        if own:
            make = NATIVE.get(type(module))
            if make is None or not make.takes(module) or len(own) < len(list(module.parameters())):
                raise Unsupported(f"{type(module).__name__} at {name!r}")
            layer = make(module, name, self._tape)
            self._layers.append(layer)
            return layer
        children = list(module.named_children())
        for place, (child, each) in enumerate(children):
            path = f"{name}.{child}" if name else child
            following = [other for _, other in children[place:]] if isinstance(module, nn.Sequential) else []
            absorbed = _activation(following) if self._fused else 0
            if absorbed and isinstance(each, nn.Conv2d):
                layer = FleetConvTanh(each, path, self._tape, pool=absorbed == 2)
                self._layers.append(layer)
                module.add_module(child, layer)
                for other, _ in children[place + 1 : place + 1 + absorbed]:
                    module.add_module(other, nn.Identity())
            elif module.get_submodule(child) is each:
                module.add_module(child, self._replaced(each, path))
        return module


def cross_entropy(
    logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]
) -> tuple[Float[Tensor, " N"], Float[Tensor, "N C"]]:
    """The cross-entropy of each row and its gradient, ``softmax - one-hot``.

    Computed with rows side by side: PyTorch's own goes along short rows, and takes three times as long.

    >>> loss, slope = cross_entropy(torch.zeros(1, 2), torch.tensor([1]))
    >>> round(loss.item(), 4), slope.tolist()
    (0.6931, [[0.5, -0.5]])
    """
    by_class, index = logits.t().contiguous(), labels[None]
    largest = by_class.amax(dim=0)
    powers = (by_class - largest).exp_()
    total = powers.sum(dim=0)
    losses = total.log() + (largest - by_class.gather(0, index)[0])
    slopes = powers.div_(total)
    slopes.scatter_add_(0, index, -torch.ones_like(largest)[None])
    return losses, slopes.t()


def _activation(layers: list[nn.Module]) -> int:
    """How many layers `FleetConvTanh` does with the first, a convolution: a tanh and perhaps a pool."""
    if not layers or type(layers[0]) is not nn.Conv2d or not FleetConvTanh.takes(layers[0]):
        return 0
    if not all(value.requires_grad for value in layers[0].parameters()):
        return 0
    following = layers[1:3]
    pools = [layer for layer in following if type(layer) is nn.MaxPool2d and _halves(layer)]
    tanhs = [layer for layer in following if type(layer) is nn.Tanh]
    if pools and tanhs:
        return 2
    return int(type(following[0]) is nn.Tanh) if following else 0


def _halves(pool: nn.MaxPool2d) -> bool:
    """Whether it takes the maximum of each 2 by 2 places, and drops what is left at the edge."""
    sizes = {
        (size, size) if isinstance(size, int) else tuple(size) for size in (pool.kernel_size, pool.stride)
    }
    plain = pool.padding in (0, (0, 0)) and pool.dilation in (1, (1, 1))
    return sizes == {(2, 2)} and plain and not pool.ceil_mode and not pool.return_indices


@final
class VmappedNetwork(Network):
    """Any model: `per_sample`, model after model; exact, general and slow."""

    def __init__(
        self, model: nn.Module, parameters: Mapping[str, Tensor], precision: Precision = "fp32"
    ) -> None:
        super().__init__(model, parameters, precision)
        if precision == "bf16":
            raise InvalidInput(
                "precision must be fp32 or tf32 for this model, got 'bf16': it has a layer without a fleet "
                "version, and only those compute in bf16."
            )
        self._model = model
        self._of_models: list[dict[str, Tensor]] = []

    def prepare(self, weights: Float[Tensor, "M P"]) -> None:
        """Take these weights from now on."""
        named = unflatten(weights, self.parameters)
        self._of_models = [{name: value[m] for name, value in named.items()} for m in range(len(weights))]

    @torch.no_grad()
    def logits(self, x: Float[Tensor, "M R ..."]) -> Float[Tensor, "M R C"]:
        """The outputs alone."""
        pairs = zip(self._of_models, x, strict=True)
        with arithmetic(self.precision):
            return torch.stack([functional_call(self._model, own, (rows,)) for own, rows in pairs])

    def look(self, x: Float[Tensor, "M R K ..."], y: Int[Tensor, "M R"], there: Bool[Tensor, "M R"]) -> Look:
        """All rows of one model at once."""
        with arithmetic(self.precision):
            looks = [
                per_sample(self._model, own, *rows) for own, *rows in zip(self._of_models, x, y, strict=True)
            ]
        return Look(
            logits=torch.stack([look.logits for look in looks]),
            losses=torch.stack([look.losses for look in looks]),
            gradients=[Rows(rows=torch.stack([look.gradients for look in looks]))],
        )


class Unsupported(Exception):
    """A layer has no fleet version."""


def build_network(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    row: Float[Tensor, "..."],
    num_classes: int,
    precision: Precision = "fp32",
) -> Network:
    """The native network where it gives the gradients of the vmapped one, and the vmapped one elsewhere.

    Both are tried on public random weights and rows, so that a ``forward`` that goes around its layers, or
    uses one twice, is found out. The slower way is said once, in the log.
    """
    try:
        problem = (
            None if _agrees(model, parameters, row, num_classes) else "its forward goes around its layers"
        )
    except Unsupported as missing:
        problem = f"{missing} has no fleet version"
    except (AttributeError, KeyError, RuntimeError) as failure:
        problem = f"its layers are not used as they are, each once ({failure})"
    if problem is None:
        return NativeNetwork(model, parameters, precision, fused=launch.usable(row))
    _LOG.warning("The fleet trains this model by vmapped gradients, which is slower: %s.", problem)
    return VmappedNetwork(model, parameters, precision)


def _agrees(model: nn.Module, parameters: Mapping[str, Tensor], row: Tensor, num_classes: int) -> bool:
    """Whether native gradients of two rows of two models are those of ``vmap(grad)``, on the CPU."""
    here = {name: value.cpu() for name, value in parameters.items()}
    apart = copy.deepcopy(model).cpu()
    native, generator = NativeNetwork(apart, here), torch.Generator().manual_seed(0)
    size = sum(value.numel() for value in here.values())
    weights = 0.1 * torch.randn(2, size, generator=generator)
    x = torch.rand(2, 2, 2, *row.shape, generator=generator)  # also valid as tokens: all 0
    y = torch.randint(num_classes, (2, 2), generator=generator)
    native.prepare(weights)
    found = torch.cat(
        [each.dense() for each in native.look(x, y, torch.ones_like(y, dtype=torch.bool)).gradients], dim=2
    )
    for m in range(2):
        own = {name: value[m] for name, value in unflatten(weights, here).items()}
        expected = tile_function(apart, own)(x[m], y[m]).gradients
        if found[m].shape != expected.shape:
            return False
        if not (found[m] - expected).abs().amax() <= _TOLERANCE * expected.abs().amax():
            return False
    return True
