"""Where a fleet's step spends its time on a GPU, beside what that GPU can do.

    python -m benchmarks.kernels

One step runs without a graph, behind a pause long enough that its kernels follow each other without a gap.
Each is timed by events, and set beside the least time that the GPU's measured bandwidth and matrix rate allow
for its operands, each read or written once, and for its products. Prints a table, and writes
``benchmarks/results/kernels_cuda.json``.
"""

import json
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from benchmarks.fleet import RESULTS, Workload, images
from dpgap.signatures.parse import parse_signature
from dpgap.training.execution import Execution
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.fleet.device import arithmetic
from dpgap.training.fleet.fleet import train_fleet
from dpgap.training.fleet.kernels import launch
from dpgap.training.options import Precision, TrainingOptions

PAUSE = 400_000_000
"""Cycles: a fifth of a second, in which the host gets ahead of the GPU."""
MEASURED_STEP = 4
IDLE = {getattr(torch.ops.aten, name) for name in ("empty", "new_empty", "detach", "_local_scalar_dense")}
"""Operations without work for the GPU."""
PRODUCTS: dict[str, Callable[[Tensor, tuple[int, ...], dict[str, Any]], int]] = {
    "conv_pool_tanh": lambda x, _, k: len(x) * 4 * k["PH"] * k["PW"] * k["O"] * k["K"],
    "tanh_of_conv": lambda x, _, k: len(x) * k["OH"] * k["OW"] * k["O"] * k["K"],
    "conv_by_taps": lambda x, _, k: len(x) * k["H"] * k["W"] * k["O"] * k["KH"] * k["KW"] * k["C"],
    "gradient_of_pooled": lambda _, grid, k: grid[0] * 4 * k["PH"] * k["PW"] * k["O"] * k["K"],
    "gradient_of_conv": lambda _, grid, k: grid[0] * k["OH"] * k["OW"] * k["O"] * k["K"],
    "gradient_of_taps": lambda _, grid, k: grid[0] * k["OH"] * k["OW"] * k["O"] * k["KH"] * k["KW"] * k["C"],
}
"""Multiplications with addition of our kernels, from first operand, grid and shapes; others multiply none."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What this GPU was measured to do: bytes a second, and flops a second by precision."""

    bandwidth: float
    rates: dict[str, float]


@dataclass(kw_only=True)
class Kernel:
    """All calls of one kernel in a step."""

    calls: int = 0
    seconds: float = 0.0
    bytes: int = 0
    flops: int = 0
    bound: float = 0.0


@dataclass(kw_only=True, eq=False)
class Ledger:
    """Calls in their order: name, bytes, flops, and the events around each."""

    calls: list[tuple[str, int, int, torch.cuda.Event, torch.cuda.Event]] = field(default_factory=list)

    def timed(self, name: str, run: Callable[[], Any], cost: Callable[[Any], tuple[int, int]]) -> Any:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        result = run()
        end.record()
        self.calls.append((name, *cost(result), begin, end))
        return result

    def kernels(self, machine: Machine, rate: float) -> dict[str, Kernel]:
        torch.cuda.synchronize()
        found: dict[str, Kernel] = {}
        for name, size, flops, begin, end in self.calls:
            kernel = found.setdefault(name, Kernel())
            kernel.calls += 1
            kernel.seconds += begin.elapsed_time(end) / 1e3
            kernel.bytes += size
            kernel.flops += flops
            kernel.bound += max(size / machine.bandwidth, flops / rate)
        return found


class Operations(TorchDispatchMode):
    """PyTorch's own operations; those that only look at memory in another way take no time."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if func.is_view or func.overloadpacket in IDLE:
            return func(*args, **options)

        def cost(result: Any) -> tuple[int, int]:
            count = flop_registry.get(func.overloadpacket)
            flops = count(*args, **options, out_val=result) if count else 0
            return _bytes((args, options, result)), flops

        return self._ledger.timed(
            str(func.overloadpacket).removeprefix("aten."), lambda: func(*args, **options), cost
        )


@dataclass(frozen=True, eq=False)
class _Counted:
    """One of our kernels, with its calls in the ledger."""

    name: str
    kernel: Any
    ledger: Ledger

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def call(*args: Any, **shapes: Any) -> None:
            count = PRODUCTS.get(self.name)
            cost = _bytes(args), 2 * count(args[0], grid, shapes) if count else 0
            self.ledger.timed(self.name, lambda: self.kernel[grid](*args, **shapes), lambda _: cost)

        return call


@dataclass(frozen=True, eq=False)
class _Module:
    kernels: Any
    ledger: Ledger

    def __getattr__(self, name: str) -> _Counted:
        return _Counted(name, getattr(self.kernels, name), self.ledger)


@contextmanager
def recorded() -> Iterator[Ledger]:
    """Everything that runs on the GPU within the block."""
    ledger, ours = Ledger(), launch._kernels
    counted = SimpleNamespace(**{name: _Module(each, ledger) for name, each in vars(ours()).items()})
    launch._kernels = lambda: counted
    torch.cuda.synchronize()
    torch.cuda._sleep(PAUSE)
    try:
        with Operations(ledger):
            yield ledger
    finally:
        launch._kernels = ours


def step_of(work: Workload, precision: Precision) -> tuple[Ledger, int]:
    """One step of a full tile, and how many models that is."""
    chosen = Filter(signature=parse_signature("linf"), select=SelectTop(k=1), every=100)
    opened: list[Any] = []
    ledgers: list[Ledger] = []
    models = 0

    def observer(step: int, weights: dict[str, Tensor]) -> None:
        nonlocal models
        models = len(next(iter(weights.values())))
        if step == MEASURED_STEP - 1:
            opened.append(recorded())
            ledgers.append(opened[0].__enter__())
        elif step == MEASURED_STEP:
            opened[0].__exit__(None, None, None)

    train_fleet(
        work.records,
        work.model,
        work.mechanism(MEASURED_STEP),
        chosen,
        options=TrainingOptions(learning_rate=work.learning_rate, precision=precision),
        seeds=[0],
        observer=observer,
        execution=Execution(device="cuda", compile=False),
    )
    return ledgers[0], models


def measured_machine() -> Machine:
    """The best of several copies of 4 GiB, and of products of large matrices."""
    source = torch.empty(2**32, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    bandwidth = 2 * source.nbytes / _best(lambda: target.copy_(source))
    rates = {}
    for precision in ("bf16", "tf32", "fp32"):
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        a, b = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
        with arithmetic(precision):
            rates[precision] = 2 * 8192**3 / _best(lambda a=a, b=b: a @ b)
    return Machine(bandwidth=bandwidth, rates=rates)


def _best(run: Callable[[], object], times: int = 8) -> float:
    ledger = Ledger()
    for _ in range(times):
        ledger.timed("", run, lambda _: (0, 0))
    torch.cuda.synchronize()
    return min(begin.elapsed_time(end) for *_, begin, end in ledger.calls) / 1e3


def _bytes(values: Any) -> int:
    """Of every tensor on the GPU once, whatever shares memory with it."""
    tensors = [value for value in tree_leaves(values) if isinstance(value, Tensor) and value.is_cuda]
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors}.values())


def rows_of(work: Workload, precision: Precision, machine: Machine) -> list[dict[str, Any]]:
    ledger, models = step_of(work, precision)
    kernels = grouped(ledger.kernels(machine, machine.rates[precision]))
    return [
        {"workload": work.name, "precision": precision, "models": models, "kernel": name}
        | {key: value / models if key != "calls" else value for key, value in asdict(kernel).items()}
        for name, kernel in sorted(kernels.items(), key=lambda pair: -pair[1].seconds)
    ]


def grouped(kernels: dict[str, Kernel]) -> dict[str, Kernel]:
    """Those that take a hundredth of the step or more, and all others together."""
    least = sum(kernel.seconds for kernel in kernels.values()) / 100
    large = {name: kernel for name, kernel in kernels.items() if kernel.seconds >= least}
    small = [kernel for name, kernel in kernels.items() if name not in large]
    others = Kernel(**{key: sum(getattr(each, key) for each in small) for key in asdict(Kernel())})
    return large | {f"{len(small)} others": others}


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table("workload", "precision", "kernel", "calls", "us a model-step", "MB", "GFLOP", "us at best")
    for row in rows:
        shown.add_row(
            row["workload"],
            row["precision"],
            row["kernel"],
            str(row["calls"]),
            f"{row['seconds'] * 1e6:.1f}",
            f"{row['bytes'] / 1e6:.1f}",
            f"{row['flops'] / 1e9:.2f}",
            f"{row['bound'] * 1e6:.1f}",
        )
    return shown


def main() -> None:
    machine = measured_machine()
    mnist = images("mnist-cnn", (1, 28, 28), 60_000, 4000)
    cifar = images("cifar-cnn", (3, 32, 32), 50_000, 3125)
    rows = [
        row
        for work in (mnist, cifar)
        for precision in get_args(Precision)
        for row in rows_of(work, precision, machine)
    ]
    content = {
        "machine": f"{platform.machine()}, {torch.cuda.get_device_name()}",
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        **asdict(machine),
        "rows": rows,
    }
    Path(RESULTS).mkdir(parents=True, exist_ok=True)
    (RESULTS / "kernels_cuda.json").write_text(json.dumps(content, indent=1) + "\n")
    Console(width=140).print(table(rows))


if __name__ == "__main__":
    main()
