"""``dpgap train``: one private model from a dataset's name to a folder that may be handed over."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from dpgap.cli._install import need_torch
from dpgap.errors import InvalidInput

if TYPE_CHECKING:
    from dpgap.data.load import Splits
    from dpgap.privacy.mechanism import Mechanism
    from dpgap.training.release import Release
    from dpgap.training.trainer import Observer

CHECKPOINT = "private-checkpoint.npz"
_INTERRUPTED = 130
# The initial model is public, so it must not come from the secret seed.
_INITIALISATION_SEED = 0
_MAY_NOT_LEAVE = (
    "who was removed, how many and when; scores; batch sizes; training loss and accuracy; checkpoints; "
    "the seed. None of it was kept."
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `train` can be told.

    Args:
        dataset: A dataset's name, or the path of your own .npz or folder of .npy files.
        out: The folder for the weights and the privacy statement.
        epsilon: The wanted eps_ub; the least noise for it is found.
        epochs: How often each record is drawn on average.
        batch: How many records a step draws on average.
        learning_rate: The step size.
        model: cnn, mnist-cnn, cifar-cnn, wrn-16-4, mlp or logistic.
        filter: Who leaves after every epoch, such as linf:5/class: signature, count, class or global.
        clip_norm: The largest norm of a record's gradient.
        delta: The delta at which the privacy loss is bounded.
        records: The public number of records from which rate and steps follow; for your own data.
        num_classes: The public number of classes; for your own data.
        majority: The share of a class in its own colour; for colored-mnist.
        data: The folder of the published files; else DPGAP_DATA.
        seed: For tests and audits. Unless given it is drawn from the system, as it should be.
    """

    dataset: str
    out: Path
    epsilon: float
    epochs: int
    batch: int
    learning_rate: float
    model: str = "cnn"
    filter: str | None = None
    clip_norm: float = 1.0
    delta: float = 1e-5
    records: int | None = None
    num_classes: int | None = None
    majority: float | None = None
    data: Path | None = None
    seed: int | None = None


def train(options: Annotated[Options, tyro.conf.arg(name="")]) -> None:
    """Train a model by DP-SGD, with the signature filter if asked; interrupted, the same command goes on.

    Args:
        options: What to train, how privately, and where to.
    """
    need_torch("dpgap train")
    _check_out(options.out)
    from dpgap.data.load import load
    from dpgap.models.build import build_model
    from dpgap.training.evaluate import accuracy
    from dpgap.training.filter import parse_filter
    from dpgap.training.options import TrainingOptions
    from dpgap.training.release import save_release
    from dpgap.training.trainer import train as train_model

    splits = load(options.dataset, options.data, majority=options.majority, num_classes=options.num_classes)
    run, steps_per_epoch = _mechanism(options, splits)
    shape = tuple(splits.train.x.shape[1:])
    model = build_model(options.model, shape, splits.train.num_classes, _INITIALISATION_SEED)
    with _plain_warnings():
        rule = parse_filter(options.filter, steps_per_epoch) if options.filter else None
        with _progress(run.steps) as observer:
            trained = train_model(
                splits.train,
                model,
                run,
                rule,
                options=TrainingOptions(learning_rate=options.learning_rate, delta=options.delta),
                observer=observer,
                seed=options.seed,
                checkpoint=options.out / CHECKPOINT,
            )
    save_release(trained.release, options.out)
    (options.out / CHECKPOINT).unlink(missing_ok=True)
    _print(trained.release, accuracy(model, trained.release.weights, splits.test), options)


def _check_out(out: Path) -> None:
    from dpgap.training.release import STATEMENT, WEIGHTS

    taken = [name for name in (STATEMENT, WEIGHTS) if (out / name).exists()]
    if taken:
        raise InvalidInput(
            f"{out} already holds {' and '.join(taken)}. A second run would replace a release that may have "
            "been handed over; choose another --out."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput(f"{out} cannot be made: {problem.strerror}. Choose another --out.") from problem


def _mechanism(options: Options, splits: "Splits") -> "tuple[Mechanism, int]":
    """The calibrated run and its steps an epoch, from public numbers only."""
    from dpgap import _check
    from dpgap.privacy.accounting import calibrate
    from dpgap.privacy.mechanism import Poisson

    _check.count(epochs=options.epochs, batch=options.batch)
    records = _public_size(options, splits)
    sampling, steps_per_epoch = Poisson(rate=options.batch / records), max(1, round(records / options.batch))
    run = calibrate(
        options.epsilon,
        options.delta,
        sampling=sampling,
        clip_norm=options.clip_norm,
        expected_batch=float(options.batch),
        steps=options.epochs * steps_per_epoch,
    )
    return run, steps_per_epoch


def _public_size(options: Options, splits: "Splits") -> int:
    from dpgap.data.load import NAMES

    if options.records is not None:
        return options.records
    if options.dataset in NAMES:
        return len(splits.train)
    raise InvalidInput(
        "records is missing: your own data's size is private, as a neighbour has one record more. Rate and "
        "steps need a public number near it; write --records 60000."
    )


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one line that a user can act on, without the place in our code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: print(f"Note: {message}", file=sys.stderr)
        yield


@contextmanager
def _progress(steps: int) -> "Iterator[Observer]":
    """A bar that the trainer moves; Ctrl-C leaves the checkpoint and says how to go on."""
    from rich.console import Console
    from rich.progress import Progress

    try:
        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task("training", total=steps)
            yield lambda step, _: bar.update(task, completed=step)
    except KeyboardInterrupt:
        print("Interrupted. The same command goes on from the last epoch.", file=sys.stderr)
        sys.exit(_INTERRUPTED)


def _print(release: "Release", accuracy: float, options: Options) -> None:
    from dpgap.privacy.upper_bound import UpperBound
    from dpgap.training.release import STATEMENT, WEIGHTS

    statement = release.statement
    bounds = [
        f"{bound.value:.2f} by {name.upper()}"
        for name, bound in statement.upper_bounds.items()
        if isinstance(bound, UpperBound)
    ]
    print(f"eps_ub at delta {statement.delta:g}: {', '.join(bounds)} (add-remove, release of every model).")
    print(f"Test accuracy {accuracy:.2%}; of the test records, which no bound covers.")
    if options.seed is not None:
        print("The seed was given: eps_ub holds only while it stays secret, in shell histories and logs too.")
    print("\nMay leave the building:")
    for name in (WEIGHTS, STATEMENT):
        print(f"  {options.out / name}")
    print("May not leave it:")
    print(f"  {_MAY_NOT_LEAVE}")
