"""Train one model, with membership and given gradients: the readable definition of the method."""

import copy
import secrets
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.func import functional_call

from dpgap.data.records import Canaries, Records
from dpgap.errors import InvalidInput, NoAnswer
from dpgap.models.check import check_model
from dpgap.privacy.mechanism import Mechanism
from dpgap.training.checkpoint import Checkpoint
from dpgap.training.dpsgd import gaussian_noise
from dpgap.training.filter import Filter
from dpgap.training.options import PlainSGD, TrainingOptions
from dpgap.training.per_sample import unflatten
from dpgap.training.release import Private, Release, Trained, tallied
from dpgap.training.sampling import check_slots, draw
from dpgap.training.statement import Statement
from dpgap.training.step import State, Task, advance, start

Observer = Callable[[int, dict[str, Tensor]], None]
_ADVISED_SHARE = 0.1


def train(
    records: Records,
    model: nn.Module,
    mechanism: Mechanism | PlainSGD,
    filter: Filter | None = None,  # noqa: A002
    *,
    options: TrainingOptions,
    canaries: Canaries | None = None,
    membership: Bool[Tensor, " N"] | None = None,
    observer: Observer | None = None,
    seed: int | None = None,
    checkpoint: Path | None = None,
) -> Trained:
    """Train a copy of ``model`` by Algorithm 2 of the paper (5 when shuffled, 1 and 4 without a filter).

    ``w_t = w_{t-1} - learning_rate (sum of clipped gradients of the drawn active records + N(0, (sigma
    C)^2 I)) / expected_batch``, then the filter where it is due. The rows are those of ``records``, then
    those of ``canaries``; ``membership`` says which of them exist (all, unless given): a row that does not
    is never drawn, counted or selected, so two worlds differ by a mask. ``observer`` is called with the step
    and the parameters after each step: the full-state view. ``model`` as it comes is the public start.

    **Guarantees**: rate, noise, clip norm, denominator, steps and the filter's moments come from the
    arguments, never from the rows; the release of all models has the bounds of ``mechanism``, filtered or
    not (paper, Corollary 1). Interrupted and called again with the same ``checkpoint``, it gives the weights
    of an uninterrupted run bit for bit. The file then holds the finished run, so that a result which could
    not be kept is not lost; it is private: delete it once the result is kept.

    **Edge cases**: the seed comes from the system unless given; given, eps_ub holds only while it stays
    secret. No rows, or nobody left: training goes on with noise. A record whose gradient is not finite
    contributes 0; when the model itself has no finite output any more, the run stops, as judged by the
    weights and two public rows alone, so that stopping tells nothing of the records.

    Abadi et al. 2016, Algorithm 1; the paper's Algorithms 2, 3 and 5.

    >>> from dpgap.privacy.mechanism import Poisson
    >>> run = Mechanism(sampling=Poisson(rate=0.5), clip_norm=1.0, noise_multiplier=1.0,
    ...                 expected_batch=2.0, steps=3)
    >>> records = Records(torch.eye(4), torch.tensor([0, 1, 0, 1]), 2)
    >>> trained = train(records, nn.Linear(4, 2), run, options=TrainingOptions(learning_rate=0.1))
    >>> sorted(trained.release.weights), len(trained.private.batch_sizes)
    (['bias', 'weight'], 3)
    """
    task = make_task(records, model, mechanism, filter, options, canaries)
    present = _membership(membership, len(task.records))
    _warn_of_many(task, int(present.sum()))
    saved = Checkpoint(checkpoint, task, present, seed) if checkpoint else None
    found = saved.load() if saved else None
    state, secret = found or (start(task, present), secrets.randbits(128) if seed is None else seed)
    state = _run(replace(task, augmentation_seed=secret), state, secret, observer, saved)
    if saved:
        saved.save(state, secret)
    return _trained(task, state, secret, seed_given=seed is not None)


def _run(task: Task, state: State, seed: int, observer: Observer | None, saved: Checkpoint | None) -> State:
    """All steps that are left, saving the state once an epoch."""
    _check_finite(task, state)
    sampling = task.mechanism.sampling
    between = max(1, round(1 / sampling.rate))
    for step in range(state.step + 1, task.mechanism.steps + 1):
        coins = draw(sampling, len(task.records), step, seed)
        state = advance(task, state, coins, gaussian_noise(len(state.weights), task.noise_scale, step, seed))
        _check_finite(task, state)
        if observer:
            observer(step, unflatten(state.weights.clone(), task.parameters))
        if saved and step % between == 0:
            saved.save(state, seed)
    return state


def make_task(
    records: Records,
    model: nn.Module,
    mechanism: Mechanism | PlainSGD,
    filter: Filter | None,  # noqa: A002
    options: TrainingOptions,
    canaries: Canaries | None,
) -> Task:
    """What a run is told, checked and put together; ``model`` is copied."""
    check_model(model)
    own = copy.deepcopy(model)
    parameters = {name: value.detach() for name, value in own.named_parameters() if value.requires_grad}
    rows = records.with_canaries(canaries) if canaries else records
    check_slots(mechanism.sampling, len(rows))
    if filter:
        filter.check_moments(mechanism.sampling)
    return Task(
        model=own,
        parameters=parameters,
        records=rows,
        gradients=_given(canaries, sum(value.numel() for value in parameters.values())),
        mechanism=mechanism,
        filter=filter,
        options=options,
        augmentation_seed=0,
    )


def _given(canaries: Canaries | None, parameters: int) -> Float[Tensor, "K P"] | None:
    if canaries is None or canaries.gradients is None:
        return None
    if canaries.gradients.shape[1] != parameters:
        raise InvalidInput(
            f"The canaries' gradients have {canaries.gradients.shape[1]} coordinates, the model {parameters} "
            "trainable parameters. A given gradient takes the place of the model's own; make it as long."
        )
    return canaries.gradients


def _membership(membership: Tensor | None, n: int) -> Bool[Tensor, " N"]:
    if membership is None:
        return torch.ones(n, dtype=torch.bool)
    if membership.dtype != torch.bool or membership.shape != (n,):
        raise InvalidInput(
            f"membership must be {n} booleans, one for each record and canary, got shape "
            f"{tuple(membership.shape)} of {membership.dtype}. It says which rows exist; "
            f"start from torch.ones({n}, dtype=torch.bool)."
        )
    return membership


def planned(task: Task) -> int:
    """The most records that the filter may remove."""
    if task.filter is None:
        return 0
    return task.filter.planned_maximum(task.mechanism.steps, task.records.num_classes)


def removes_many(planned: int, present: int) -> str | None:
    """What to say of a filter that may remove more of the records than the paper advises; None if fewer."""
    if planned <= _ADVISED_SHARE * present:
        return None
    return (
        f"The filter is planned to remove up to {planned} of {present} records, more than "
        f"{_ADVISED_SHARE:.0%}. Privacy does not suffer, accuracy will; lower k or filter less often."
    )


def _warn_of_many(task: Task, present: int) -> None:
    if warning := removes_many(planned(task), present):
        warnings.warn(warning, stacklevel=3)


@torch.no_grad()
def _check_finite(task: Task, state: State) -> None:
    """Stop when the released model is of no use any more, judged by itself and two public rows."""
    shape = task.records.x.shape[1:]
    probes = torch.stack([torch.zeros(shape), torch.ones(shape)])
    logits = functional_call(task.model, unflatten(state.weights, task.parameters), (probes,))
    if state.weights.isfinite().all() and logits.isfinite().all():
        return
    if state.step == 0:
        raise InvalidInput(
            "The model's outputs are not finite before the first step. Nothing can be learnt from there; "
            "check its initial weights and what its layers divide by."
        )
    raise NoAnswer(
        f"Training diverged: the weights or the model's outputs, and so its losses, are not finite after "
        f"step {state.step} of {task.mechanism.steps}. Too high a learning rate is the usual cause; lower "
        f"learning_rate={task.options.learning_rate:g}, or raise expected_batch or clip less."
    )


def _trained(task: Task, state: State, seed: int, *, seed_given: bool) -> Trained:
    finished = copy.deepcopy(task.model)
    finished.load_state_dict(unflatten(state.weights, task.parameters), strict=False)
    sizes, losses, accuracies = tallied(state.tallies)
    return Trained(
        release=Release(
            weights={name: value.detach().clone() for name, value in finished.state_dict().items()},
            statement=Statement(
                mechanism=task.mechanism,
                filter=task.filter,
                planned_maximum=planned(task),
                delta=task.options.delta,
                precision=task.options.precision,
                seed_given=seed_given,
            ),
        ),
        private=Private(
            removed_at=state.removed_at,
            scores=state.scores,
            batch_sizes=sizes,
            losses=losses,
            accuracies=accuracies,
            seed=seed,
        ),
    )
