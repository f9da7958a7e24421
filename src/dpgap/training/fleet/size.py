"""How much of a fleet fits: rows looked at together, models trained together, and the memory they take."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dpgap.errors import InvalidInput
from dpgap.training.fleet.batches import width_for
from dpgap.training.step import Task

_CPU_ROWS, _CPU_MODELS = 64, 32
_CUDA_ROWS, _CUDA_MODELS = 64, 8
_SHARE = 0.5
"""Of a GPU's memory: what a look may take; the rest is for what stays, libraries and fragments."""
_ENOUGH = 12 * 2**30
"""Bytes of rows that keep a GPU busy: more at once would only take more."""
_DEVIATIONS = 6.0
_ALIVE = 4
"""Copies of every activation that live at once: the value, its gradient, and what layers keep of both."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """``models`` make a tile, ``rows`` of each are looked at together, ``width`` is room for a step's rows.

    All are functions of public constants and of the kind of device: no record's score depends on how many
    records there are.
    """

    models: int
    rows: int
    width: int


def row_bytes(task: Task) -> int:
    """What one row takes while it is looked at: its activations, its formed gradient, and its own numbers."""
    copies = task.options.copies
    activations = _activations(task.model, task.parameters, task.records.x.shape[1:])
    formed = sum(value.numel() for value in task.parameters.values())
    return 4 * (copies * (_ALIVE * activations + math.prod(task.records.x.shape[1:])) + 2 * formed)


def kept_bytes(task: Task, models: int) -> int:
    """What a tile keeps from step to step: weights, totals, coins, masks, scores and memories of all rows."""
    parameters = sum(value.numel() for value in task.parameters.values())
    memory = math.prod(task.filter.signature.memory_shape) if task.filter else 0
    a_record = 2 + 3 * 8 + 8 + 4 + 4 * memory  # masks; indices while rows are looked up; removal; score
    return models * (8 * 4 * parameters + len(task.records) * a_record) + task.records.x.nbytes


def cpu_size(models: int, threads: int) -> Size:
    """Small tiles, which stay in the cache, one a thread or more; there is always room for another pass."""
    tiles = max(threads, math.ceil(models / _CPU_MODELS))
    return Size(models=max(1, math.ceil(models / tiles)), rows=_CPU_ROWS, width=_CPU_ROWS)


def cuda_size(task: Task, total_bytes: int) -> Size:
    """As many models as fit, up to eight; fewer rows at once where not even one model does."""
    expected = task.mechanism.expected_batch
    width = width_for(math.ceil(expected + _DEVIATIONS * math.sqrt(expected)), _CUDA_ROWS)
    budget = min(_SHARE * total_bytes, _ENOUGH)
    most_rows = int(_SHARE * total_bytes // row_bytes(task)) // _CUDA_ROWS * _CUDA_ROWS
    if most_rows == 0:
        raise InvalidInput(
            f"The model needs {row_bytes(task) / 2**20:.0f} MiB for each record that is looked at, and this GPU "
            f"has {total_bytes / 2**30:.0f} GiB. Not even {_CUDA_ROWS} records fit at once; take a smaller "
            "model or fewer copies, or device='cpu'."
        )
    looks = math.ceil(width / most_rows)
    rows = width_for(math.ceil(width / looks), _CUDA_ROWS)
    models = max(1, min(_CUDA_MODELS, int(budget // (rows * row_bytes(task)))))
    kept = kept_bytes(task, models)
    if kept > (1 - _SHARE) * total_bytes:
        fit = max(0, int(models * (1 - _SHARE) * total_bytes / kept))
        raise InvalidInput(
            f"A tile of {models} models keeps {kept / 2**30:.1f} GiB from step to step, more than half of this "
            f"GPU's {total_bytes / 2**30:.0f} GiB; the most that would fit is {fit}. A signature without memory, "
            "or fewer records, keeps less."
        )
    return Size(models=models, rows=rows, width=rows * looks)


def _activations(model: nn.Module, parameters: dict[str, Tensor], shape: torch.Size) -> int:
    """How many numbers all layers together give for one record."""
    sizes: list[int] = []
    hooks = [
        module.register_forward_hook(lambda _, __, output: sizes.append(output.numel()))
        for module in model.modules()
        if not list(module.children())
    ]
    try:
        with torch.no_grad():
            functional_call(model, parameters, (next(iter(parameters.values())).new_zeros(1, *shape),))
    finally:
        for hook in hooks:
            hook.remove()
    return sum(sizes)
