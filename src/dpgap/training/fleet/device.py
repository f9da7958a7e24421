"""Where a fleet computes: precision of products, and one step captured as a graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.backends import cuda, cudnn

from dpgap.errors import InvalidInput
from dpgap.training.execution import Execution
from dpgap.training.options import Precision


@contextmanager
def arithmetic(precision: Precision) -> Iterator[None]:
    """How CUDA multiplies float32 numbers, for as long as the block runs; and always the same way twice.

    Sums of gradients are taken outside of such a block, and so in float32 whatever the precision.
    """
    how = "ieee" if precision == "fp32" else "tf32"
    conv: Any = cudnn.conv  # pyright: ignore[reportAttributeAccessIssue]  made at run time
    before = cuda.matmul.fp32_precision, conv.fp32_precision, cudnn.deterministic
    cuda.matmul.fp32_precision, conv.fp32_precision, cudnn.deterministic = how, how, True
    try:
        yield
    finally:
        cuda.matmul.fp32_precision, conv.fp32_precision, cudnn.deterministic = before


def chosen_device(execution: Execution) -> torch.device:
    """The device that ``execution`` asks for."""
    there = torch.cuda.is_available()
    if execution.device == "cuda" and not there:
        raise InvalidInput(
            "device must be 'cpu' or 'auto' here, got 'cuda': PyTorch sees no CUDA device. Check nvidia-smi, "
            "and that this PyTorch was built for CUDA."
        )
    return torch.device("cuda" if there and execution.device != "cpu" else "cpu")


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """``step`` as a CUDA graph: its launches are recorded once, and replayed without Python in between.

    It runs twice before, on a side stream, so that kernels are compiled and libraries started; the caller
    puts back what it changed.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay
