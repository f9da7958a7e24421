"""Per-sample gradients of one model, whose bits do not depend on the batch around a record.

A filter ranks records by floating-point scores, so a score must not change in its last bit with the
records computed beside it. Batches are therefore cut into tiles of one fixed shape, the last one padded,
and a record's row of a tile must depend neither on its slot nor on the other rows. Whether it does is up
to the kernels. Measured on a CPU with AVX-512 under torch 2.13, with 1 and 2 threads, tiles of 8 to 64 and
neighbours that are ordinary, huge, denormal, infinite or NaN:

- convolutions (oneDNN), also standardised, pools, group normalisation and tanh: it never does;
- products with a matrix (MKL, 562 pairs of widths): it never does where rows are whole multiples of 64
  bytes, and it does in one pair of eleven, all of them with ten outputs or fewer and rows that begin at
  uneven addresses (5 to 10 features, or 77 to 7).

So nothing is assumed: each model's tile is tried once, on public random weights and records, and if any
two slots disagree in any bit the tile holds one record, which is slower and identical by construction.
Parameters and records are copied first, so that their alignment is that of the trial.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional

from dpgap.errors import InvalidInput

TILE = 32
"""Records computed at once: more gains little, and a tile of WRN-16-4 already holds 0.7 GB."""

PIECE_FLOATS = 2**27
"""Half a GiB of gradients at once."""

Tile = Callable[[Tensor, Tensor], "PerSample"]
_tile_sizes: WeakKeyDictionary[nn.Module, dict[tuple[object, ...], int]] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class PerSample:
    """What one model says of each record; means over augmented copies, gradients unclipped."""

    logits: Float[Tensor, "B C"]
    losses: Float[Tensor, " B"]
    gradients: Float[Tensor, "B P"]


def per_sample(
    model: nn.Module, parameters: Mapping[str, Tensor], x: Float[Tensor, "B K ..."], y: Int[Tensor, " B"]
) -> PerSample:
    """Cross-entropy, logits and unclipped gradient of each record, averaged over its K copies.

    ``g_i = (1/K) sum_k grad loss(parameters; x_ik, y_i)``. ``x`` holds K augmented copies of each record
    (``x[:, None]`` without augmentation); ``parameters`` stand in for those of ``model`` that they name
    (all of them: ``dict(model.named_parameters())``), and their order is the order of the P columns.

    **Guarantees**: row i is a function of record i and the parameters, bit for bit, whatever the other
    records, their number and the place of i among them (rules 0 and 1 of the privacy contract), as long
    as device and number of threads stay the same. The model sees one record's copies at a time, so no
    layer can couple two records. Batches of any length may be cut anywhere: see `pieces`.

    **Edge cases**: no records give empty rows; a record whose loss is not finite has such a row, and the
    others are as without it.

    >>> model = nn.Linear(2, 2)
    >>> named = dict(model.named_parameters())
    >>> result = per_sample(model, named, torch.zeros(3, 1, 2), torch.zeros(3).long())
    >>> result.gradients.shape, result.gradients[:, :4].abs().sum().item()
    (torch.Size([3, 6]), 0.0)
    """
    parameters = {name: value.detach().clone() for name, value in parameters.items()}
    if not parameters:
        raise InvalidInput(
            "parameters must name at least one tensor, got none. Pass model.named_parameters()."
        )
    compute = tile_function(model, parameters)
    tiles = [compute(*tile) for tile in _tiles(x.detach(), y, _tile_size(model, parameters, x))]
    return PerSample(
        logits=torch.cat([tile.logits for tile in tiles])[: len(y)],
        losses=torch.cat([tile.losses for tile in tiles])[: len(y)],
        gradients=torch.cat([tile.gradients for tile in tiles])[: len(y)],
    )


def flatten(parameters: Mapping[str, Tensor]) -> Float[Tensor, " P"]:
    """All parameters as one vector, in the order of the mapping.

    >>> flatten({"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])}).tolist()
    [1.0, 2.0, 3.0]
    """
    return torch.cat([value.detach().reshape(-1) for value in parameters.values()])


def unflatten(vector: Float[Tensor, "*M P"], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `flatten`: named parameters with the shapes of ``like``; leading axes are models.

    >>> unflatten(torch.tensor([1.0, 2.0, 3.0]), {"weight": torch.zeros(1, 2), "bias": torch.zeros(1)})
    {'weight': tensor([[1., 2.]]), 'bias': tensor([3.])}
    """
    parts = vector.split([value.numel() for value in like.values()], dim=-1)
    return {
        name: part.view(*vector.shape[:-1], *value.shape)
        for (name, value), part in zip(like.items(), parts, strict=True)
    }


def pieces(records: int, parameters: Mapping[str, Tensor]) -> Iterator[slice]:
    """Slices that cover a batch in order, each of which has at most half a GiB of gradients.

    **Edge cases**: no records give no slice; a model too large for that gives a tile at a time.

    >>> list(pieces(2000, {"weight": torch.zeros(1000, 100)}))
    [slice(0, 1312, None), slice(1312, 2000, None)]
    """
    tiles = PIECE_FLOATS // (TILE * sum(value.numel() for value in parameters.values()))
    step = TILE * max(1, tiles)
    return (slice(start, min(start + step, records)) for start in range(0, records, step))


def tile_function(model: nn.Module, parameters: dict[str, Tensor]) -> Tile:
    """A function of one tile: every record by itself, all of them at once."""

    def loss(parameters: dict[str, Tensor], copies: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        logits = functional_call(model, parameters, (copies,))
        return functional.cross_entropy(logits, label.expand(len(copies))), logits.mean(dim=0)

    each = vmap(grad_and_value(loss, has_aux=True), in_dims=(None, 0, 0))

    def compute(x: Tensor, y: Tensor) -> PerSample:
        gradients, (losses, logits) = each(parameters, x, y)
        rows = torch.cat([gradients[name].flatten(1) for name in parameters], dim=1)
        return PerSample(logits=logits.detach(), losses=losses.detach(), gradients=rows)

    return compute


def _tiles(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Fresh buffers of exactly ``size`` records, at least one, the last padded with zeros."""
    for start in range(0, max(len(y), 1), size):
        rows, labels = x[start : start + size], y[start : start + size]
        tile, tile_labels = x.new_zeros(size, *x.shape[1:]), y.new_zeros(size)
        tile[: len(rows)], tile_labels[: len(rows)] = rows, labels
        yield tile, tile_labels


def _tile_size(model: nn.Module, parameters: Mapping[str, Tensor], x: Tensor) -> int:
    """`TILE` if its slots agree for this model, shape, device and number of threads; otherwise 1."""
    sizes = _tile_sizes.setdefault(model, {})
    key = (tuple(parameters), x.shape[1:], x.device, torch.get_num_threads())
    if key not in sizes:
        sizes[key] = 1
        with suppress(IndexError):  # indices, such as tokens, cannot be tried on random numbers
            sizes[key] = TILE if _slots_agree(model, parameters, x) else 1
    return sizes[key]


def _slots_agree(model: nn.Module, parameters: Mapping[str, Tensor], x: Tensor) -> bool:
    """Whether public records keep their rows one slot further on, and beside numbers that spoil sums."""
    generator = torch.Generator().manual_seed(0)
    weights = {name: _public_weights(value, generator) for name, value in parameters.items()}
    compute = tile_function(model, weights)
    records = torch.randn(TILE, *x.shape[1:], generator=generator).to(x.device)
    labels = torch.zeros(TILE, dtype=torch.int64, device=x.device)
    spoilt = records.clone()
    for slot, neighbour in enumerate((math.nan, math.inf, 1e30, 1e-40)):
        spoilt[2 * slot :: 8] = neighbour
    here, further = _rows(compute(records, labels)), _rows(compute(records.roll(1, dims=0), labels))
    beside = _rows(compute(spoilt, labels))
    return torch.equal(here, further.roll(-1, dims=0)) and torch.equal(here[1::2], beside[1::2])


def _public_weights(like: Tensor, generator: torch.Generator) -> Tensor:
    """Gaussian weights that keep activations near 1, whatever the state of training."""
    fan_in = like[0].numel() if like.ndim > 1 else 1
    return (torch.randn(like.shape, generator=generator) / math.sqrt(fan_in)).to(like.device)


def _rows(result: PerSample) -> Tensor:
    return torch.cat([result.logits, result.losses[:, None], result.gradients], dim=1)
