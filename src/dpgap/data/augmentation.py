"""Random crops and flips, keyed by record and step and never by the place in a batch."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from dpgap import _check, _seeds

# The increment and the multipliers of SplitMix64 (Steele, Lea and Flood, 2014, figure 16), as int64.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


@dataclass(frozen=True, kw_only=True)
class CropFlip:
    """A crop of the original size after padding by ``padding`` zeros, then a mirror image half of the time.

    Every place of the crop is equally likely. A zero is the mean pixel once pixels are normalised.
    """

    padding: int = 4

    def __post_init__(self) -> None:
        _check.count(padding=self.padding, at_least=0)

    def augmented(
        self, x: Float[Tensor, "B C H W"], records: Int[Tensor, " B"], *, step: int, copies: int, seed: int
    ) -> Float[Tensor, "B copies C H W"]:
        """``copies`` random views of each record's image; ``records`` holds the records' indices.

        **Guarantees**: a view is a function of its image and of (seed, record, step, copy): whoever else is
        in the batch, in whatever order, on whatever device, it is the same bit for bit. So augmentation is a
        record's own private randomness, as the proof that filtering costs nothing asks.

        **Edge cases**: an empty batch gives an empty result; a ``padding`` of 0 leaves the flips.

        >>> images, records = torch.rand(3, 1, 8, 8), torch.tensor([5, 0, 7])
        >>> views = CropFlip().augmented(images, records, step=2, copies=4, seed=1)
        >>> alone = CropFlip().augmented(images[1:2], records[1:2], step=2, copies=4, seed=1)
        >>> views.shape, torch.equal(views[1:2], alone)
        (torch.Size([3, 4, 1, 8, 8]), True)
        """
        return self.keyed(x, records, torch.full_like(records, augmentation_key(seed, step)), copies)

    def keyed(
        self, x: Float[Tensor, "B C H W"], records: Int[Tensor, " B"], keys: Int[Tensor, " B"], copies: int
    ) -> Float[Tensor, "B copies C H W"]:
        """The same where each row has an `augmentation_key` of its own."""
        height, width, places = x.shape[2], x.shape[3], 2 * self.padding + 1
        down, right, mirror = _draws(records, keys, copies)
        rows = (down % places)[..., None] + torch.arange(height, device=x.device)
        columns = torch.arange(width, device=x.device)
        columns = torch.where((mirror % 2 == 1)[..., None], columns.flip(0), columns)
        columns = (right % places)[..., None] + columns
        record = torch.arange(len(x), device=x.device)[:, None, None, None, None]
        channel = torch.arange(x.shape[1], device=x.device)[:, None, None]
        padded = pad(x, (self.padding,) * 4)
        return padded[record, channel, rows[:, :, None, :, None], columns[:, :, None, None, :]]


def augmentation_key(seed: int, step: int) -> int:
    """What keys all views of one step of one run."""
    return int(_seeds.stream(seed, "augmentation", step).integers(2**63))


def _draws(records: Int[Tensor, " B"], keys: Int[Tensor, " B"], copies: int) -> list[Int[Tensor, "B copies"]]:
    """Three independent whole numbers in [0, 2^63) for each copy of each record."""
    of_record = _mixed(keys, records)
    of_copy = _mixed(of_record[:, None], torch.arange(copies, device=records.device))
    return [_mixed(of_copy, torch.full_like(of_copy, draw)) & (2**63 - 1) for draw in range(3)]


def _mixed(state: Tensor, counter: Tensor) -> Tensor:
    """The ``counter``-th output of SplitMix64 from ``state``; int64 arithmetic wraps modulo 2^64."""
    mixed = state + (counter + 1) * _GOLDEN
    mixed = (mixed ^ _shifted(mixed, 30)) * _FIRST
    mixed = (mixed ^ _shifted(mixed, 27)) * _SECOND
    return mixed ^ _shifted(mixed, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """``x >> bits`` of the unsigned number; PyTorch's own shift copies the sign."""
    return (x >> bits) & (2 ** (64 - bits) - 1)
