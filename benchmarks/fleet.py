"""What one step of one private model costs: the fleet, and every usual way, on the same work in one run.

    python -m benchmarks.fleet                 # digits on this CPU
    python -m benchmarks.fleet --device cuda   # MNIST and CIFAR-10 in shape, on this GPU

All ways take the same number of records a step, clip each record's gradient, sum, add noise and update; those
of dpgap also sample, score and filter. Prints a table, and writes rows to ``benchmarks/results/NAME.json``.
"""

import argparse
import copy
import itertools
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from dpgap.data.records import Records
from dpgap.models.build import build_model
from dpgap.privacy.mechanism import Mechanism, Poisson
from dpgap.signatures.parse import parse_signature
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.fleet.fleet import train_fleet
from dpgap.training.options import Precision, TrainingOptions
from dpgap.training.trainer import train

RESULTS = Path(__file__).with_name("results")
REPETITIONS = 3


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A model, records in its shape, and how many of them a step takes."""

    name: str
    model: nn.Module
    records: Records
    batch: int
    learning_rate: float

    def mechanism(self, steps: int) -> Mechanism:
        rate = self.batch / len(self.records)
        return Mechanism(
            sampling=Poisson(rate=rate),
            clip_norm=1.0,
            noise_multiplier=1.0,
            expected_batch=self.batch,
            steps=steps,
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way, measured: the median over repetitions, the fastest and the slowest."""

    name: str
    workload: str
    device: str
    precision: str
    models: int
    batch: int
    ms_per_model_step: float
    fastest: float
    slowest: float


def digits() -> Workload:
    from dpgap.data.load import load

    records = load("digits").train
    model = build_model("mlp-32", tuple(records.x.shape[1:]), 10, seed=0)
    return Workload(name="digits mlp-32", model=model, records=records, batch=256, learning_rate=4.0)


def images(name: str, shape: tuple[int, ...], records: int, batch: int) -> Workload:
    """Random pixels in the shape of real ones: no way is faster or slower for it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(records, *shape, generator=generator)
    y = torch.randint(10, (records,), generator=generator)
    model = build_model(name, shape, 10, seed=0)
    return Workload(name=name, model=model, records=Records(x, y, 10), batch=batch, learning_rate=3.0)


def fleet(work: Workload, models: int, *, filtered: bool, options: TrainingOptions) -> Callable[[int], None]:
    epoch = max(1, round(len(work.records) / work.batch))
    chosen = (
        Filter(signature=parse_signature("linf"), select=SelectTop(k=1), every=epoch) if filtered else None
    )

    def run(steps: int) -> None:
        train_fleet(
            work.records, work.model, work.mechanism(steps), chosen, options=options, seeds=range(models)
        )

    return run


def trainer(work: Workload) -> Callable[[int], None]:
    chosen = Filter(signature=parse_signature("linf"), select=SelectTop(k=1), every=6)
    options = TrainingOptions(learning_rate=work.learning_rate)

    def run(steps: int) -> None:
        train(work.records, work.model, work.mechanism(steps), chosen, options=options, seed=0)

    return run


def vmapped(work: Workload, device: torch.device) -> Callable[[int], None]:
    """DP-SGD in twenty lines, as in many papers' code: ``vmap(grad)``, clip, sum, noise."""
    model = work.model.to(device)
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    x, y = work.records.x.to(device), work.records.y.to(device)

    def loss(weights: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, weights, (row[None],)), label[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))

    def run(steps: int) -> None:
        own = dict(weights)
        for _ in range(steps):
            drawn = torch.randint(len(x), (work.batch,), device=device)
            gradients = each(own, x[drawn], y[drawn])
            norms = torch.cat([g.flatten(1) for g in gradients.values()], dim=1).norm(dim=1)
            factors = 1 / norms.clamp(min=1.0)
            for name, g in gradients.items():
                total = torch.einsum("b,b...->...", factors, g)
                step = (total + torch.randn_like(total)) / work.batch
                own[name] = own[name] - work.learning_rate * step

    return run


def plain(work: Workload, device: torch.device) -> Callable[[int], None]:
    """SGD without any privacy, eager."""
    model = copy.deepcopy(work.model).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=work.learning_rate)
    x, y = work.records.x.to(device), work.records.y.to(device)

    def run(steps: int) -> None:
        for _ in range(steps):
            drawn = torch.randint(len(x), (work.batch,), device=device)
            optimiser.zero_grad()
            cross_entropy(model(x[drawn]), y[drawn]).backward()
            optimiser.step()

    return run


def opacus(work: Workload, mode: str) -> Callable[[int], None]:
    """Opacus as its tutorial has it, with a loader that samples."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    def run(steps: int) -> None:
        model = copy.deepcopy(work.model)
        optimiser = torch.optim.SGD(model.parameters(), lr=work.learning_rate)
        loader = DataLoader(TensorDataset(work.records.x, work.records.y), batch_size=work.batch)
        private = PrivacyEngine().make_private(
            module=model,
            optimizer=optimiser,
            data_loader=loader,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            grad_sample_mode=mode,
            criterion=nn.CrossEntropyLoss(),
        )
        wrapped: Any = private[0]
        optimiser, loader = private[1], private[-1]
        judge: Any = private[2] if mode == "ghost" else nn.CrossEntropyLoss()
        taken = 0
        while taken < steps:
            for x, y in loader:
                optimiser.zero_grad()
                judge(wrapped(x), y).backward()
                optimiser.step()
                taken += 1
                if taken == steps:
                    break

    return run


def measured(run: Callable[[int], None], models: int, steps: int, device: torch.device) -> list[float]:
    """Milliseconds a model and step, once a repetition, without what a run costs before its first step."""
    run(2)
    times = []
    for _ in range(REPETITIONS):
        short, long = _seconds(run, 2, device), _seconds(run, 2 + steps, device)
        times.append((long - short) / steps / models * 1e3)
    return times


def _seconds(run: Callable[[int], None], steps: int, device: torch.device) -> float:
    began = time.perf_counter()
    run(steps)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


Case = tuple[str, str, int, Callable[[int], None], int]
"""Name, precision, models, what runs, and how many steps are timed."""


def cpu_cases(work: Workload) -> list[Case]:
    options = TrainingOptions(learning_rate=work.learning_rate)
    cpu = torch.device("cpu")
    fleets: list[Case] = [
        ("dpgap fleet", "fp32", models, fleet(work, models, filtered=True, options=options), 40)
        for models in (1, 8, 32, 128, 512)
    ]
    return [
        *fleets,
        ("dpgap fleet, no filter", "fp32", 128, fleet(work, 128, filtered=False, options=options), 40),
        ("dpgap trainer", "fp32", 1, trainer(work), 6),
        ("vmap(grad)", "fp32", 1, vmapped(work, cpu), 200),
        ("Opacus, hooks", "fp32", 1, opacus(work, "hooks"), 100),
        ("Opacus, ghost", "fp32", 1, opacus(work, "ghost"), 100),
        ("plain SGD, no privacy", "fp32", 1, plain(work, cpu), 200),
    ]


GPU_FLEETS: dict[str, list[tuple[Precision, int, int]]] = {
    "mnist-cnn": [
        ("bf16", 16, 60),
        ("tf32", 16, 60),
        ("fp32", 16, 60),
        ("bf16", 1, 100),
        ("bf16", 8, 100),
        ("bf16", 64, 60),
        ("bf16", 1000, 10),
    ],
    "cifar-cnn": [("bf16", 2, 48), ("tf32", 2, 32), ("fp32", 2, 16)],
    "wrn-16-4": [("bf16", 1, 8), ("fp32", 1, 2)],
}
"""Precision, models and timed steps of each filtered fleet."""


def cuda_cases(work: Workload) -> list[Case]:
    cuda, fleets = torch.device("cuda"), GPU_FLEETS[work.name]
    cases: list[Case] = []
    for precision, models, steps in fleets:
        options = TrainingOptions(learning_rate=work.learning_rate, precision=precision)
        cases.append(
            ("dpgap fleet", precision, models, fleet(work, models, filtered=True, options=options), steps)
        )
    precision, models, steps = fleets[0]
    options = TrainingOptions(learning_rate=work.learning_rate, precision=precision)
    unfiltered = fleet(work, models, filtered=False, options=options)
    cases.append(("dpgap fleet, no filter", precision, models, unfiltered, steps))
    if work.name != "wrn-16-4":  # a batch of its per-sample gradients does not fit
        cases.append(("vmap(grad)", "fp32", 1, vmapped(work, cuda), 20))
    return [*cases, ("plain SGD, no privacy", "fp32", 1, plain(work, cuda), 40)]


def rows_of(work: Workload, cases: list[Case], device: torch.device) -> Iterator[Row]:
    for name, precision, models, run, steps in cases:
        times = measured(run, models, steps, device)
        row = Row(
            name=name,
            workload=work.name,
            device=device.type,
            precision=precision,
            models=models,
            batch=work.batch,
            ms_per_model_step=statistics.median(times),
            fastest=min(times),
            slowest=max(times),
        )
        print(
            f"{work.name}, {name}, {precision}, {models} models: {row.ms_per_model_step:.4g} ms", flush=True
        )
        yield row


def machine(device: torch.device) -> dict[str, str | int]:
    there = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    return {
        "repetitions": REPETITIONS,
        "machine": f"{platform.machine()}, {there}",
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }


def table(rows: list[Row]) -> Table:
    """Every way beside the fleet's best on the same workload."""
    shown = Table(
        "workload",
        "way",
        "precision",
        "models",
        "ms a model-step",
        "fastest to slowest",
        "times the best fleet",
    )
    for row in rows:
        best = min(
            other.ms_per_model_step
            for other in rows
            if other.workload == row.workload and other.name == "dpgap fleet"
        )
        shown.add_row(
            row.workload,
            row.name,
            row.precision,
            str(row.models),
            f"{row.ms_per_model_step:.3g}",
            f"{row.fastest:.3g} to {row.slowest:.3g}",
            f"{row.ms_per_model_step / best:.1f}",
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description="What one step of one private model costs.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    device = torch.device(chosen.device)
    warnings.filterwarnings("ignore")  # Opacus warns of everything it does
    if chosen.device == "cpu":
        works = [(digits(), cpu_cases)]
    else:
        mnist = images("mnist-cnn", (1, 28, 28), 60_000, 4000)
        cifar = images("cifar-cnn", (3, 32, 32), 50_000, 3125)
        resnet = images("wrn-16-4", (3, 32, 32), 50_000, 3125)
        works = [(mnist, cuda_cases), (cifar, cuda_cases), (resnet, cuda_cases)]
    chosen.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for row in itertools.chain.from_iterable(rows_of(work, cases(work), device) for work, cases in works):
        rows.append(row)  # kept at once, as a borrowed GPU may be gone before the last
        content = machine(device) | {"rows": [asdict(each) for each in rows]}
        (chosen.out / f"fleet_{chosen.device}.json").write_text(json.dumps(content, indent=1) + "\n")
    Console(width=140).print(table(rows))


if __name__ == "__main__":
    main()
