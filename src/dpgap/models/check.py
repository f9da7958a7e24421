"""Refuses layers under which a record's gradient is not a function of that record alone."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from dpgap.errors import InvalidInput


def check_model(model: nn.Module) -> None:
    """Every layer of ``model`` treats a record apart from the others, and the same way each time.

    A record's contribution and score must be a function of that record, the released models and its own
    private randomness (rules 0 and 1 of the privacy contract); a layer that averages over the batch, or
    remembers earlier batches, breaks the bound however large the noise. Refused are batch normalisation
    of every kind, instance normalisation with running statistics, dropout (its draws would follow a
    record's place in the batch) and parameters that are not float32.

    **Edge cases**: layers that are written by hand are not known here; per-sample gradients show the model
    one record at a time, so they cannot couple records there, but what they remember could.

    >>> check_model(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: model must treat each record by itself, got BatchNorm1d at '1': ...
    """
    for path, module in model.named_modules():
        problem = _problem(module)
        if problem is not None:
            where = f"at {path!r}" if path else "as the whole model"
            raise InvalidInput(
                f"model must treat each record by itself, got {type(module).__name__} {where}: {problem}"
            )
    _check_parameters(model)


def _problem(module: nn.Module) -> str | None:
    """Why the layer is refused, and what to write instead; None if it is not."""
    if isinstance(module, _BatchNorm):
        return (
            "it normalises a record by the other records of its batch, so one record moves the gradients of "
            f"all. Write nn.GroupNorm(num_groups, {module.num_features}), which normalises each record alone."
        )
    if isinstance(module, _InstanceNorm) and module.track_running_stats:
        return (
            "its running statistics carry records of earlier batches into later ones, and into the released "
            "model, without noise. Write track_running_stats=False."
        )
    if isinstance(module, _DropoutNd) and module.p > 0:
        return _dropout("Remove it, or write p=0.0")
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase) and module.dropout > 0:
        return _dropout("Write dropout=0.0")
    return None


def _dropout(fix: str) -> str:
    return (
        "dropout draws by a record's place in the batch, so a record's score would depend on the others and "
        f"a resumed run would differ. {fix}; noise and clipping already regularise."
    )


def _check_parameters(model: nn.Module) -> None:
    parameters = dict(model.named_parameters())
    if not parameters:
        raise InvalidInput("model must have parameters to train, got none. Register them as nn.Parameter.")
    for name, value in parameters.items():
        if value.dtype != torch.float32:
            raise InvalidInput(
                f"model must have float32 parameters, got {value.dtype} at {name!r}: norms and sums "
                "are stated for float32. Write model.float()."
            )
