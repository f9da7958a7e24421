"""How much of a fleet fits: rows looked at together, models trained together, and the memory they take."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from dpgap.errors import InvalidInput
from dpgap.training.fleet.batches import width_for
from dpgap.training.fleet.network import Network
from dpgap.training.step import Task

_CPU_ROWS, _CPU_MODELS = 64, 64
_CUDA_ROWS, _CUDA_MODELS = 32, 8
_SHARE = 0.5
"""Of a GPU's memory: what rows may take; the rest is for what stays, libraries and fragments."""
_ENOUGH = 5 * 2**30
"""Bytes of rows that keep a GPU busy: more models at once would only take more."""
_DEVIATIONS = 4.0
"""Room for rows beyond the expected; a model's step in 30,000 needs more, and is taken again."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """``models`` make a tile, ``rows`` of each are looked at together, ``width`` is room for a step's rows.

    All are functions of public constants and of the kind of device: no record's score depends on how many
    records there are. ``bytes`` is what a tile takes: what it keeps from step to step, and its rows.
    """

    models: int
    rows: int
    width: int
    bytes: int


def kept_bytes(task: Task, models: int) -> int:
    """What a tile keeps: weights, noise, sums; coins, masks, places, removals, scores, memories."""
    parameters = sum(value.numel() for value in task.parameters.values())
    memory = math.prod(task.filter.signature.memory_shape) if task.filter else 0
    a_record = 2 * (1 + 1 + 8 + 4 + 4 * memory) + 24  # twice, as a step may have to be taken again
    return models * (24 * parameters + len(task.records) * a_record) + task.records.x.nbytes


def cpu_size(task: Task, models: int, threads: int) -> Size:
    """Small tiles, one a thread or more; there is always room for another pass."""
    tiles = max(threads, math.ceil(models / _CPU_MODELS))
    size = max(1, math.ceil(models / tiles))
    return Size(models=size, rows=_CPU_ROWS, width=_CPU_ROWS, bytes=kept_bytes(task, size))


def cuda_size(task: Task, row_bytes: int, total_bytes: int) -> Size:
    """As many models as keep the GPU busy, up to eight; fewer rows at once where not even one model fits.

    >>> from dpgap.privacy.mechanism import Poisson
    >>> from dpgap.training.options import PlainSGD, TrainingOptions
    >>> from dpgap.data.records import Records
    >>> task = Task(model=torch.nn.Linear(2, 2), parameters={"weight": torch.zeros(2, 2)},
    ...             records=Records(torch.zeros(9, 2), torch.zeros(9).long(), 2), gradients=None, filter=None,
    ...             mechanism=PlainSGD(sampling=Poisson(rate=0.1), expected_batch=4000, steps=1),
    ...             options=TrainingOptions(learning_rate=1.0), augmentation_seed=0)
    >>> small, large = cuda_size(task, 100_000, 2**37), cuda_size(task, 50_000_000, 2**37)
    >>> (small.models, small.rows, small.width), (large.models, large.rows, large.width)
    ((8, 4256, 4256), (1, 1088, 4352))
    """
    expected = task.mechanism.expected_batch
    width = width_for(math.ceil(expected + _DEVIATIONS * math.sqrt(expected)), _CUDA_ROWS)
    most = int(_SHARE * total_bytes // row_bytes) // _CUDA_ROWS * _CUDA_ROWS
    if most == 0:
        raise InvalidInput(
            f"The model takes {row_bytes / 2**20:.0f} MiB for each record that is looked at, and this GPU "
            f"has {total_bytes / 2**30:.0f} GiB: not even {_CUDA_ROWS} records fit. Take a smaller model or "
            "fewer copies, or device='cpu'."
        )
    looks = math.ceil(width / most)
    rows = width_for(math.ceil(width / looks), _CUDA_ROWS)
    models = max(1, min(_CUDA_MODELS, int(min(_SHARE * total_bytes, _ENOUGH) // (rows * row_bytes))))
    kept = kept_bytes(task, models)
    if kept > (1 - _SHARE) * total_bytes:
        raise InvalidInput(
            f"A tile of {models} models keeps {kept / 2**30:.1f} GiB from step to step, more than half of "
            f"this GPU's {total_bytes / 2**30:.0f} GiB; {int(models * (1 - _SHARE) * total_bytes / kept)} "
            "would fit. A signature without memory, or fewer records, keeps less; or write device='cpu'."
        )
    return Size(models=models, rows=rows, width=rows * looks, bytes=kept + models * rows * row_bytes)


def measured_row_bytes(
    network: Network, start: Float[Tensor, " P"], row: Float[Tensor, "..."], copies: int
) -> int:
    """What each further row takes on this GPU while it is looked at, measured on zeros and rounded up.

    Rounded to a quarter of its power of two, so that the size of a tile, and with it the bits of its models,
    does not hang on how the allocator cut its blocks.
    """
    network.prepare(start[None])
    few, many = (_peak(network, row, copies, rows) for rows in (_CUDA_ROWS, 4 * _CUDA_ROWS))
    taken = max(4, (many - few) // (3 * _CUDA_ROWS))
    quarter = 2 ** (taken.bit_length() - 3)
    return -(-taken // quarter) * quarter


def _peak(network: Network, row: Tensor, copies: int, rows: int) -> int:
    x = row.new_zeros(1, rows, copies, *row.shape)
    before = torch.cuda.memory_allocated(row.device)
    torch.cuda.reset_peak_memory_stats(row.device)
    nobody = torch.zeros(1, rows, dtype=torch.int64, device=row.device)
    look = network.look(x, nobody, nobody == 0)
    weights = look.losses.new_ones(1, rows)
    for layer in look.gradients:
        layer.weighted_sum(weights, finite=False)
    return torch.cuda.max_memory_allocated(row.device) - before
