"""One step of a run, as a function of its coins and its noise (Algorithms 2 and 5)."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dpgap.data.records import Records
from dpgap.privacy.mechanism import Mechanism
from dpgap.signatures.base import RecordView
from dpgap.training.dpsgd import clipped_sum, updated
from dpgap.training.filter import Filter
from dpgap.training.options import PlainSGD, TrainingOptions
from dpgap.training.per_sample import flatten, per_sample, pieces, unflatten


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """What stays the same throughout a run; ``records`` end with the canaries' rows.

    ``gradients`` are the given ones of the last K rows. ``parameters`` are the initial model's, and
    ``augmentation_seed`` keys the augmented copies.
    """

    model: nn.Module
    parameters: dict[str, Tensor]
    records: Records
    gradients: Float[Tensor, "K P"] | None
    mechanism: Mechanism | PlainSGD
    filter: Filter | None
    options: TrainingOptions
    augmentation_seed: int

    @property
    def clip_norm(self) -> float | None:
        """The clip norm; None in plain SGD."""
        return self.mechanism.clip_norm if isinstance(self.mechanism, Mechanism) else None

    @property
    def noise_scale(self) -> float:
        """Standard deviation of the noise on the sum: sigma C, and 0 in plain SGD."""
        mechanism = self.mechanism
        return mechanism.noise_multiplier * mechanism.clip_norm if isinstance(mechanism, Mechanism) else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """Where a run stands after ``step`` steps; all but ``weights`` is private.

    ``removed_at`` is the step after which a record left, 0 for one that has not. ``tallies`` has a row a
    step: records drawn, sum of their losses, how many the model before the step classified rightly.
    """

    step: int
    weights: Float[Tensor, " P"]
    active: Bool[Tensor, " N"]
    scores: Float[Tensor, " N"]
    memory: Float[Tensor, "N ..."]
    removed_at: Int[Tensor, " N"]
    tallies: Float[Tensor, "T 3"]


def start(task: Task, membership: Bool[Tensor, " N"]) -> State:
    """The state before the first step: the rows that exist are active, and nobody has a score."""
    n, signature = len(task.records), task.filter.signature if task.filter else None
    return State(
        step=0,
        weights=flatten(task.parameters),
        active=membership.clone(),
        scores=torch.zeros(n),
        memory=signature.fresh_memory(n) if signature else torch.zeros(n),
        removed_at=torch.zeros(n, dtype=torch.int64),
        tallies=torch.zeros(task.mechanism.steps, 3, dtype=torch.float64),
    )


def advance(task: Task, state: State, coins: Bool[Tensor, " N"], noise: Float[Tensor, " P"]) -> State:
    """The next state: sum the contributions of the active drawn records, add noise, update, filter.

    **Guarantees**: pure; ``coins`` of rows that are not active change nothing; noise is added whoever was
    drawn; a record that leaves contributes to no later step.

    **Edge cases**: with nobody drawn, or nobody left, the step is the noise alone.

    Algorithm 2 of the paper, with its denominator a public constant.
    """
    step, drawn = state.step + 1, (state.active & coins).nonzero().squeeze(1)
    parameters = unflatten(state.weights, task.parameters)
    displacement = state.weights - flatten(task.parameters)
    scores, memory = state.scores.clone(), state.memory.clone()
    total, tallies = torch.zeros_like(noise), state.tallies.clone()
    for piece in pieces(len(drawn), parameters):
        rows = drawn[piece]
        view = _view(task, parameters, displacement, rows, step)
        total += _contribution(view)
        tallies[step - 1] += _tally(view)
        if task.filter:
            scores[rows], memory[rows] = task.filter.signature.scores(view, memory[rows])
    active, left = state.active, state.removed_at
    if task.filter:
        active, scores = task.filter.after(step, scores, task.records.y, active)
        left = torch.where(state.active & ~active, step, left)
    weights = updated(
        state.weights,
        total,
        noise,
        expected_batch=task.mechanism.expected_batch,
        learning_rate=task.options.learning_rate,
    )
    return replace(
        state,
        step=step,
        weights=weights,
        active=active,
        scores=scores,
        memory=memory,
        removed_at=left,
        tallies=tallies,
    )


def _view(
    task: Task, parameters: dict[str, Tensor], displacement: Tensor, rows: Int[Tensor, " B"], step: int
) -> RecordView:
    """What the model says of ``rows``, their given gradients in place of their own."""
    labels = task.records.y[rows]
    said = per_sample(task.model, parameters, _copies(task, rows, step), labels)
    return RecordView(
        logits=said.logits,
        labels=labels,
        losses=said.losses,
        gradients=_with_given(task, rows, said.gradients),
        clip_norm=task.clip_norm,
        displacement=displacement,
    )


def _copies(task: Task, rows: Int[Tensor, " B"], step: int) -> Float[Tensor, "B K ..."]:
    x, options = task.records.x[rows], task.options
    if options.augmentation is None:
        return x[:, None]
    return options.augmentation.augmented(
        x, rows, step=step, copies=options.copies, seed=task.augmentation_seed
    )


def _with_given(task: Task, rows: Int[Tensor, " B"], gradients: Float[Tensor, "B P"]) -> Float[Tensor, "B P"]:
    if task.gradients is None:
        return gradients
    canary = rows - (len(task.records) - len(task.gradients))
    given = task.gradients[canary.clamp(min=0)]
    return torch.where((canary >= 0)[:, None], given, gradients)


def _contribution(view: RecordView) -> Float[Tensor, " P"]:
    if view.clip_norm is None:
        return view.gradients.sum(dim=0, dtype=torch.float64)
    return clipped_sum(view.gradients, view.clip_norm)


def _tally(view: RecordView) -> Float[Tensor, " 3"]:
    right = (view.logits.argmax(dim=1) == view.labels).sum()
    return torch.stack([torch.tensor(len(view.labels)), view.losses.sum(), right]).double()
