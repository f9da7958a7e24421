"""Slow, obvious twin of the per-sample gradients: one backward pass for each record."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def microbatches_of_one(model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, losses and gradients of each record, each averaged over its copies one at a time."""
    rows = [[_one_copy(model, copy, label) for copy in copies] for copies, label in zip(x, y, strict=True)]
    parts = ([copy[part] for copy in copies] for part in range(3) for copies in rows)
    means = [torch.stack(copies).mean(dim=0) for copies in parts]
    n = len(y)
    return torch.stack(means[:n]), torch.stack(means[n : 2 * n]), torch.stack(means[2 * n :])


def _one_copy(model: nn.Module, copy: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    logits = model(copy[None])
    loss = functional.cross_entropy(logits, label[None])
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return logits[0].detach(), loss.detach(), torch.cat([gradient.reshape(-1) for gradient in gradients])
