"""``dpgap audit``: run or resume an audit of dpgap's own training, as a file describes it."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from dpgap.cli._install import need_torch
from dpgap.cli._print import CHOOSE_ONE, print_bounds, print_json
from dpgap.errors import InvalidInput
from dpgap.training.execution import Device

if TYPE_CHECKING:
    from dpgap.audits.result import Audit
    from dpgap.experiments.backends.base import Backend
    from dpgap.experiments.experiment import Experiment
    from dpgap.store.records import Removals
    from dpgap.store.store import Store

_INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `audit` can be told.

    Args:
        store: The file that keeps what is trained; the same command goes on from there.
        data: The folder of the published data files; else DPGAP_DATA.
        epsilon: In place of mechanism.epsilon in the file.
        filter: In place of filter, such as linf:5/class, or none.
        canary: In place of canary, by its kind, such as blank.
        attack: In place of attack, by its kind: loss or lira.
        models: In place of design.models.
        seed: In place of seed.
        set: Any other field, such as mechanism.steps=30; may be repeated.
        backend: Where to train: local is this machine, ray a cluster of which it is a node.
        processes: On this machine, how many processes train at once; 0 trains in this one.
        address: With ray, the head node's host:port; else RAY_ADDRESS, or the cluster running here.
        device: Where to train: auto takes a GPU if there is one. An audit stays on one kind of device.
        models_at_once: Models trained and kept together; what ends a run loses as many.
        json: Print JSON.
    """

    store: Path = Path("dpgap.sqlite")
    data: Path | None = None
    epsilon: float | None = None
    filter: str | None = None
    canary: str | None = None
    attack: str | None = None
    models: int | None = None
    seed: int | None = None
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    backend: Literal["local", "ray"] = "local"
    processes: int | None = None
    address: str | None = None
    device: Device = "auto"
    models_at_once: int | None = None
    json: bool = False


_PLACES = {
    "epsilon": "mechanism.epsilon",
    "filter": "filter",
    "canary": "canary",
    "attack": "attack",
    "models": "design.models",
    "seed": "seed",
}


def audit(
    spec: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SPEC")],
    options: Annotated[Options, tyro.conf.arg(name="")],
) -> None:
    """Train the models of an audit and bound what they betray; stopped, the same command goes on.

    Args:
        spec: A .toml or .json file, or the key of a run in the store (or how it begins).
        options: What changes the file, and how it is run.
    """
    need_torch("dpgap audit")
    from contextlib import closing

    from dpgap.experiments.from_experiment import job_of
    from dpgap.experiments.progress import watched
    from dpgap.experiments.run import run
    from dpgap.store.store import Store
    from dpgap.training.execution import Execution

    execution = Execution(device=options.device)
    backend = _backend(options)
    audits: list[Audit] = []
    with closing(Store(options.store)) as store:
        for experiment in _experiments(spec, options, store):
            job = job_of(experiment, options.data, execution)
            try:
                with watched() as watcher:
                    audits.append(run(job, store, backend=backend, watcher=watcher))
            except KeyboardInterrupt as interrupted:
                print(*getattr(interrupted, "__notes__", ["Interrupted."]), sep="\n", file=sys.stderr)
                sys.exit(_INTERRUPTED)
            if not options.json:
                _print(audits[-1], options.store)
    if options.json:
        print_json({"audits": audits})


def _backend(options: Options) -> "Backend":
    from dpgap.experiments.backends.local import Local
    from dpgap.experiments.backends.ray import RayCluster

    is_local = options.backend == "local"
    name, misplaced = ("address", options.address) if is_local else ("processes", options.processes)
    if misplaced is not None:
        raise InvalidInput(
            f"{name} must be left out with --backend {options.backend}, got {misplaced!r}: --processes is "
            "for this machine, and --address for a Ray cluster."
        )
    if is_local:
        return Local(processes=options.processes or 0, models_at_once=options.models_at_once)
    return RayCluster(address=options.address or "auto", models_at_once=options.models_at_once)


def _experiments(spec: str, options: Options, store: "Store") -> "list[Experiment]":
    from dpgap.experiments.spec import changed, expanded, read_experiments

    flags = {place: getattr(options, flag) for flag, place in _PLACES.items()}
    changes = [f"{place}={value}" for place, value in flags.items() if value is not None]
    changes += options.set
    path = Path(spec)
    if path.suffix in (".toml", ".json") or path.exists():
        return read_experiments(path, changes)
    stored = store.description(store.find(spec))
    if "experiment" not in stored.specification:
        raise InvalidInput(
            f"Run {stored.key[:12]} audits a function of yours ({stored.title}), which the store does not "
            "hold. Call dpgap.audit(...) again, as before, and it goes on."
        )
    return expanded(changed(stored.specification["experiment"], changes))


def _print(audit: "Audit", store: Path) -> None:
    """The two numbers, what they cost, then every other bound of the same scores."""
    from dpgap.report.words import spread

    headline, claim = audit.headline, audit.upper_bound
    print_bounds(f"{audit.title} ({audit.key[:12]})", audit.bounds)
    print(
        f"eps_lb {headline.value:.2f}: {headline.validity} by the {headline.rule} rule, confidence "
        f"{100 * headline.confidence:.6g} %, delta {headline.delta:g} ({headline.adjacency.value}, "
        f"{headline.threat_model})."
    )
    if claim is None:
        print("eps_ub: none; nothing is proved of this training.")
    else:
        print(f"eps_ub {claim.value:.2f}: {claim.validity} by {claim.accountant} ({claim.covers}).")
    if audit.refuted:
        print("eps_lb exceeds eps_ub: the claim is refuted, at the stated confidence.")
    print(f"Models: {_models(audit)}")
    print(f"Accuracy: train {spread(audit.train_accuracy)}, test {spread(audit.test_accuracy)}.")
    if audit.removals:
        print(f"Canary: {_removals(audit.removals)}")
    print(f"Bounds computed from these scores so far: {audit.looks}.")
    print(*audit.notes, CHOOSE_ONE, sep="\n")
    print(f"A page to hand over: dpgap report {audit.key[:12]} --store {store}\n")


def _models(audit: "Audit") -> str:
    return f"{audit.models} of {audit.planned}, {audit.status}; {audit.seconds_per_model:.2g} s each."


def _removals(removals: "Removals") -> str:
    share = f"filtered in {removals.removed} of {removals.planted} models that had it"
    if removals.median is None:
        return f"{share}."
    return f"{share}, at epoch {removals.median / removals.steps_per_epoch:.1f} (median)."
