"""What only a GPU can show: run ``python -m tests.training.fleet.on_gpu`` where there is one.

Kernels equal their torch twins over shapes and precisions; a fleet on CUDA equals the one on the CPU under
the same coins, noise and weights; tiles, graphs and overflow replays change no bit.
"""

from dataclasses import replace

import torch
from torch import nn

from dpgap.data.records import Canaries, Records
from dpgap.models.build import build_model
from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Shuffled
from dpgap.signatures.parse import SHORT_NAMES, parse_signature
from dpgap.training.execution import Execution
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.fleet import fleet as fleet_module
from dpgap.training.fleet.convolution import Window, gradient_rows
from dpgap.training.fleet.fleet import train_fleet
from dpgap.training.fleet.network import NativeNetwork
from dpgap.training.fleet.randomness import HostRandomness
from dpgap.training.fleet.run import Finished, Tile
from dpgap.training.fleet.size import Size
from dpgap.training.options import TrainingOptions
from dpgap.training.step import Task
from dpgap.training.trainer import make_task

TOLERANCE = {"fp32": 2e-5, "tf32": 0.1, "bf16": 0.5}
CUDA, CPU = torch.device("cuda"), torch.device("cpu")


def networks() -> list[tuple[nn.Module, tuple[int, ...]]]:
    odd = nn.Sequential(
        nn.Conv2d(3, 5, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(5, 24, (3, 2)),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(24 * 4 * 5, 10),
    )
    images = (3, 32, 32)
    return [
        (build_model("mlp-32", (64,), 10, 0), (64,)),
        (build_model("mnist-cnn", (1, 28, 28), 10, 0), (1, 28, 28)),
        (build_model("cifar-cnn", images, 10, 0), images),
        (odd, (3, 12, 12)),
    ]


def check_gradients_and_statistics() -> None:
    for model, shape in networks():
        named = {name: value.detach() for name, value in model.named_parameters()}
        start = torch.cat([value.flatten() for value in named.values()])
        weights = start + 0.01 * torch.randn(3, len(start))
        x, y = torch.randn(3, 5, 2, *shape), torch.randint(10, (3, 5))
        everyone = torch.ones(3, 5, dtype=torch.bool)
        twin = NativeNetwork(model, named)
        twin.prepare(weights)
        expected = torch.cat([layer.dense() for layer in twin.look(x, y, everyone).gradients], dim=2)
        for precision, tolerance in TOLERANCE.items():
            there = {name: value.to(CUDA) for name, value in named.items()}
            network = NativeNetwork(model, there, precision, fused=True)
            network.prepare(weights.to(CUDA))
            layers = network.look(x.to(CUDA), y.to(CUDA), everyone.to(CUDA)).gradients
            found = torch.cat([layer.dense() for layer in layers], dim=2).cpu()
            # A close maximum or ReLU may fall on the other side, and moves its record: so the median.
            errors = (found - expected).norm(dim=2) / expected.norm(dim=2)
            error = float(errors.median())
            assert error < tolerance, (shape, precision, error)
            assert float(errors.max()) < max(0.1, 3 * tolerance), (shape, precision, errors)
            squares = torch.stack([layer.squares() for layer in layers]).sum(dim=0).cpu()
            torch.testing.assert_close(squares, found.square().sum(dim=2), rtol=2e-5, atol=0)
            largest = torch.stack([layer.largest() for layer in layers]).amax(dim=0).cpu()
            torch.testing.assert_close(largest, found.abs().amax(dim=2), rtol=1e-6, atol=0)
            factors = torch.rand(3, 5)
            summed = torch.cat(
                [layer.weighted_sum(factors.to(CUDA), finite=False) for layer in layers], dim=1
            )
            exact = torch.einsum("mr,mrp->mp", factors.double(), found.double())
            assert float((summed.cpu() - exact).norm() / exact.norm()) < 1e-6
            print(f"gradients {shape} {precision}: {error:.1e}", flush=True)


def records(shape: tuple[int, ...], n: int = 240) -> Records:
    generator = torch.Generator().manual_seed(0)
    return Records(torch.randn(n, *shape, generator=generator), torch.arange(n) % 10, 10)


def run(sampling: object = None, **changed: object) -> Mechanism:
    fields = {"sampling": sampling or Poisson(rate=0.3), "clip_norm": 1.0, "noise_multiplier": 0.5}
    return Mechanism(**fields | {"expected_batch": 72.0, "steps": 6} | changed)


def under_the_same_coins(task: Task, seeds: list[int], device: torch.device, rows: int = 64) -> Finished:
    size = Size(models=len(seeds), rows=rows, width=rows, bytes=0)
    fleet = fleet_module._fleet(task, size, fleet_module._network(task, device))
    members = torch.ones(len(seeds), len(task.records), dtype=torch.bool)
    members[1::2, -1] = False
    tile = Tile(fleet, len(seeds), width=None, graph=False)
    return tile.train(members.to(device), HostRandomness(task, seeds), None)


def check_cuda_equals_cpu() -> None:
    samplings = [
        run(),
        run(Shuffled(batch=80, records=241), adjacency=Adjacency.ZERO_OUT, steps=8),
        run(BallsInBins(batches=3)),
    ]
    model = build_model("mnist-cnn", (1, 28, 28), 10, 0)
    canary = Canaries(torch.full((1, 1, 28, 28), 3.0), torch.tensor([3]))
    for mechanism in samplings:
        names = SHORT_NAMES if mechanism is samplings[0] else ("linf",)
        every = getattr(mechanism.sampling, "steps_per_round", 3)
        for name in names:
            chosen = Filter(signature=parse_signature(name), select=SelectTop(k=1), every=every)
            options = TrainingOptions(learning_rate=0.5)
            task = make_task(records((1, 28, 28)), model, mechanism, chosen, options, canary)
            here, there = (under_the_same_coins(task, [0, 1, 2], device) for device in (CPU, CUDA))
            error = float((here.weights - there.weights).abs().max())
            moved = int((here.removed_at != there.removed_at).sum())
            print(
                f"cuda = cpu, {type(mechanism.sampling).__name__}, {name}: {error:.1e}, {moved} removals",
                flush=True,
            )
            assert error < 1e-4
            assert moved == 0


def check_tiles_graphs_and_replays_change_no_bit() -> None:
    model, data = build_model("mnist-cnn", (1, 28, 28), 10, 0), records((1, 28, 28), 2000)
    chosen = Filter(signature=parse_signature("linf"), select=SelectTop(k=2), every=3, stale="reset")
    for precision in ("fp32", "tf32", "bf16"):
        options = TrainingOptions(learning_rate=0.5, precision=precision)

        def trained(mechanism, seeds, graph=True, options=options):
            execution = Execution(device="cuda", compile=graph)
            return train_fleet(
                data, model, mechanism, chosen, options=options, seeds=seeds, execution=execution
            )

        mechanism = run(Poisson(rate=0.1), expected_batch=200.0, steps=9)
        many = trained(mechanism, range(11))
        one = trained(mechanism, [10])
        plain = trained(mechanism, [10], graph=False)
        # The buffer holds 288 rows; with a rate of 0.4 every step overflows it.
        crowded = replace(mechanism, sampling=Poisson(rate=0.4))
        replayed, roomy = trained(crowded, [3]), trained(replace(crowded, expected_batch=800.0), [3])
        for name in many.weights:
            assert torch.equal(many.weights[name][10], one.weights[name][0]), name
            assert torch.equal(one.weights[name], plain.weights[name]), name
        assert torch.equal(many.scores[10], one.scores[0])
        assert int(replayed.tallies[0, :, 0].min()) > 600
        assert torch.equal(replayed.tallies[..., 0][:, :3], roomy.tallies[..., 0][:, :3])
        print(f"tiles, graphs and replays, {precision}: same bits", flush=True)


def check_scores_do_not_depend_on_company() -> None:
    model, data = build_model("mnist-cnn", (1, 28, 28), 10, 0), records((1, 28, 28), 1500)
    chosen = Filter(signature=parse_signature("linf"), select=SelectTop(k=1), every=5)
    for precision in ("fp32", "tf32", "bf16"):
        options = TrainingOptions(learning_rate=1e-9, precision=precision)
        quiet = run(Poisson(rate=0.5), expected_batch=750.0, steps=4, noise_multiplier=0.0)
        scores = [
            train_fleet(
                data,
                model,
                replace(quiet, sampling=Poisson(rate=rate)),
                chosen,
                options=options,
                seeds=seeds,
                execution=Execution(device="cuda"),
            ).scores[0]
            for rate, seeds in ((0.5, [1]), (0.3, [2]), (0.9, [3, 4]))
        ]
        for other in scores[1:]:
            both = (scores[0] > 0) & (other > 0)
            assert int(both.sum()) > 500
            # Without noise and with a vanishing rate all steps score by almost the same model.
            torch.testing.assert_close(scores[0][both], other[both], rtol=1e-5, atol=0)
        print(f"scores in other company, {precision}: same", flush=True)


def check_kernels_of_rows() -> None:
    """Formed gradients of the very same inputs, so that only the products differ."""
    exact = {"fp32": 1e-5, "tf32": 2e-3, "bf16": 5e-3}
    layers = [
        (1, 16, 28, 5, 0),
        (3, 32, 32, 3, 1),
        (32, 32, 32, 3, 1),
        (32, 64, 16, 3, 1),
        (64, 128, 8, 3, 1),
    ]
    for channels, outs, side, size, pad in [
        *layers,
        (128, 128, 8, 3, 1),
        (128, 256, 8, 3, 1),
        (16, 32, 12, 4, 0),
    ]:
        for stride in (1, 2):
            window = Window(size=(size, size), stride=(stride, stride), padding=(pad, pad))
            for precision, tolerance in exact.items():
                dtype = torch.bfloat16 if precision == "bf16" else torch.float32
                x = torch.randn(7, channels, side, side).to(dtype)
                places = (side + 2 * pad - size) // stride + 1
                g = torch.randn(7, outs, places, places).to(dtype)
                products = "tf32x3" if precision == "fp32" else "tf32"
                there, names = torch.arange(7) != 4, {"bias": True, "products": products}
                twin = gradient_rows(x, g, there, window, **names).by_model(1, 1).dense()
                ours = gradient_rows(x.to(CUDA), g.to(CUDA), there.to(CUDA), window, **names)
                assert ours.statistics is not None
                assert ours.statistics[4].eq(0).all()
                found, twin = ours.by_model(1, 1).dense().cpu()[:, there], twin[:, there]
                error = float(((found - twin).norm(dim=2) / twin.norm(dim=2)).max())
                assert error < tolerance, (channels, outs, side, size, stride, precision, error)
    print("formed gradients: right over shapes", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    check_kernels_of_rows()
    check_gradients_and_statistics()
    check_cuda_equals_cpu()
    check_tiles_graphs_and_replays_change_no_bit()
    check_scores_do_not_depend_on_company()
    print("all right")
