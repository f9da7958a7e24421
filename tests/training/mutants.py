"""Broken variants of the method, each a small change that looks harmless and breaks the privacy contract.

A variant replaces one function of the trainer; `broken` puts it in place for a while.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from dpgap.training import step as step_module
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.step import State, Task
from tests.training.contract import Table

advance, keep, after, scores = step_module.advance, SelectTop.keep, Filter.after, Table.scores
Advance = Callable[[Task, State, Tensor, Tensor], State]
Keep = Callable[[SelectTop, Tensor, Tensor, Tensor], Tensor]


def _never_due(task: Task) -> Task:
    """The same task, which scores but removes nobody."""
    return replace(task, filter=replace(task.filter, every=10**9, offset=0))


def one_prefetch_late(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """The batch was drawn before the last removal: whoever left then contributes once more."""
    drawn_early = state.active | ((state.removed_at == state.step) & (state.step > 0))
    moved = advance(_never_due(task), replace(state, active=drawn_early), coins, noise)
    kept, scored = task.filter.after(moved.step, moved.scores, task.records.y, state.active)
    left = torch.where(state.active & ~kept, moved.step, state.removed_at)
    return replace(moved, active=kept, removed_at=left, scores=scored)


def _flagged(sign: float) -> Advance:
    def until_the_next_draw(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
        flagged = state.active & (state.removed_at > 0)
        turned = torch.where(flagged[:, None], sign * task.gradients, task.gradients)
        moved = advance(_never_due(replace(task, gradients=turned)), state, coins, noise)
        open_to_choice = state.active & ~flagged
        kept, scored = task.filter.after(moved.step, moved.scores, task.records.y, open_to_choice)
        left = torch.where(open_to_choice & ~kept, moved.step, state.removed_at)
        return replace(moved, active=state.active & ~(flagged & coins), removed_at=left, scores=scored)

    return until_the_next_draw


def _by_group(choose: Callable[[SelectTop, int], int]) -> Keep:
    """The k of each group is computed from how many are active in it."""

    def chosen(self: SelectTop, scores: Tensor, labels: Tensor, active: Tensor) -> Tensor:
        groups = labels if self.scope == "class" else torch.zeros_like(labels)
        kept = active.clone()
        for group in groups[active].unique():
            members = active & (groups == group)
            k = choose(self, int(members.sum()))
            if k > 0:
                kept &= ~members | keep(SelectTop(k=k), scores, torch.zeros_like(labels), members)
        return kept

    return chosen


def stops_when_nobody_is_left(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """The run ends early, which tells that everybody was removed."""
    return advance(task, state, coins, noise) if state.active.any() else state


def records_come_back(
    self: Filter, step: int, scores: Tensor, labels: Tensor, active: Tensor
) -> tuple[Tensor, Tensor]:
    """Each time the filter chooses among everybody, and those that it does not choose train again."""
    return after(self, step, scores, labels, torch.ones_like(active) if self.due(step) else active)


def ties_by_who_is_present(self: SelectTop, scores: Tensor, labels: Tensor, active: Tensor) -> Tensor:
    """An unstable sort: which of equal scores comes first depends on how many rows there are."""
    order = torch.argsort(torch.arange(len(scores)) * 7919 % (len(scores) + 1))
    kept = keep(self, scores[order], labels[order], active[order])
    return torch.zeros_like(active).index_put((order,), kept)


def ties_by_place_from_the_end(self: SelectTop, scores: Tensor, labels: Tensor, active: Tensor) -> Tensor:
    """Of equal scores the middle ones first, as a selection by partition might."""
    order = (torch.arange(len(scores)) - len(scores) // 2).abs().argsort(stable=True)
    kept = keep(self, scores[order], labels[order], active[order])
    return torch.zeros_like(active).index_put((order,), kept)


def not_finite_scores_compare_as_they_may(
    self: SelectTop, scores: Tensor, labels: Tensor, active: Tensor
) -> Tensor:
    """A comparison with a NaN is false, so a NaN stays where a simple search for the highest passes it."""
    kept = active.clone()
    groups = labels if self.scope == "class" else torch.zeros_like(labels)
    for group in groups[active].unique():
        for _ in range(self.k):
            best = None
            for i in (kept & (groups == group)).nonzero().flatten().tolist():
                if best is None or scores[i] > scores[best]:
                    best = i
            if best is not None:
                kept[best] = False
    return kept


def above_a_quantile(self: SelectTop, scores: Tensor, labels: Tensor, active: Tensor) -> Tensor:
    """A threshold from the data, and however many lie above it."""
    if not active.any():
        return active
    return active & (scores.nan_to_num() <= scores.nan_to_num()[active].quantile(0.7))


def centred_within_the_batch(self: Table, view: Any, memory: Tensor) -> tuple[Tensor, Tensor]:
    """A score less the batch's mean score."""
    own, kept = scores(self, view, memory)
    return own - own.nan_to_num(0, 0, 0).clamp(-9, 9).mean(), kept


def ranked_within_the_batch(self: Table, view: Any, memory: Tensor) -> tuple[Tensor, Tensor]:
    """A score's rank among those drawn with it."""
    own, kept = scores(self, view, memory)
    return own.argsort(stable=True).argsort(stable=True).float(), kept


def _denominator(count: Callable[[Task, State, Tensor], float]) -> Advance:
    def divided(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
        mechanism = replace(task.mechanism, expected_batch=max(1.0, float(count(task, state, coins))))
        return advance(replace(task, mechanism=mechanism), state, coins, noise)

    return divided


def filter_by_the_epochs_of_the_data(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """How often the filter acts follows from the number of records."""
    every = max(1, len(task.records) // 2)
    return advance(replace(task, filter=replace(task.filter, every=every, offset=0)), state, coins, noise)


def as_many_steps_as_records(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """T follows from the number of records."""
    return advance(task, state, coins, noise) if state.step < len(task.records) else state


def an_empty_batch_is_skipped(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """Nothing to add up, so the step is left out, with its noise."""
    if (state.active & coins).any():
        return advance(task, state, coins, noise)
    return replace(state, step=state.step + 1)


def an_empty_batch_has_no_noise(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """The step counts, but noise comes with records only."""
    return advance(task, state, coins, noise * (state.active & coins).any())


def a_batch_is_truncated(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """A buffer of two: who is drawn third is left out."""
    drawn = state.active & coins
    return advance(task, state, coins & (drawn.cumsum(0) <= 2), noise)


def class_weights(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """Gradients are weighted by how rare the class is in the data."""
    weight = len(task.records) / task.records.y.bincount(minlength=4)[task.records.y]
    return advance(replace(task, gradients=task.gradients * weight[:, None]), state, coins, noise)


def normalised_by_the_data(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """The mean that is subtracted from the records is that of the private data."""
    x = task.records.x - task.records.x.mean(dim=0)
    return advance(replace(task, records=replace(task.records, x=x)), state, coins, noise)


def coupled_gradients(task: Task, rows: Tensor, gradients: Tensor) -> Tensor:
    """Each gradient less the batch's mean, as batch normalisation and contrastive losses couple records."""
    own = gradients if task.gradients is None else task.gradients[rows]
    return own - own.nan_to_num(0, 0, 0).mean(dim=0) if len(rows) else own


def mixed_with_the_next(task: Task, rows: Tensor, step: int) -> Tensor:
    """Mixup: half of each record is the one beside it."""
    x = task.records.x[rows]
    return ((x + x.roll(1, dims=0)) / 2)[:, None]


def augmented_by_place_in_the_batch(task: Task, rows: Tensor, step: int) -> Tensor:
    """Private randomness keyed by position, not by record: here, what is added to an input."""
    return (task.records.x[rows] + torch.arange(len(rows))[:, None])[:, None]


def filtered_inside_a_step(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """Virtual batches: the filter acts after the first two records drawn, before the others are added."""
    first = coins & ((state.active & coins).cumsum(0) <= 2)
    with mock.patch.object(step_module, "updated", lambda weights, *_, **__: weights):
        half = advance(task, state, first, noise)
    moved = advance(_never_due(task), state, first | (coins & half.active), noise)
    return replace(moved, active=half.active, removed_at=half.removed_at)


def a_switched_off_row_is_selected(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """The filter counts rows that were never there among those that may leave."""
    moved = advance(_never_due(task), state, coins, noise)
    kept, scored = task.filter.after(moved.step, moved.scores, task.records.y, state.removed_at == 0)
    left = torch.where((state.removed_at == 0) & ~kept, moved.step, state.removed_at)
    return replace(moved, active=state.active & kept, removed_at=left, scores=scored)


def a_switched_off_row_is_drawn(task: Task, state: State, coins: Tensor, noise: Tensor) -> State:
    """The draw looks at who has left, and forgets who was never there."""
    moved = advance(task, replace(state, active=state.removed_at == 0), coins, noise)
    return replace(moved, active=moved.active & state.active)


def _spared(share: Callable[[SelectTop, int], int]) -> tuple[type, str, Keep]:
    return SelectTop, "keep", _by_group(share)


def _advance(changed: Advance) -> tuple[Any, str, Any]:
    return step_module, "advance", changed


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "removal one prefetch late": _advance(one_prefetch_late),
    "a flagged record stays until its next draw": _advance(_flagged(1.0)),
    "a flagged record is unlearnt by ascent before it goes": _advance(_flagged(-1.0)),
    "k as a share of the group": _spared(lambda _, active: -(-active // 3)),
    "small groups are spared": _spared(lambda self, active: self.k if active > 2 * self.k else 0),
    "a class is never emptied": _spared(lambda self, active: min(self.k, active - 1)),
    "the run stops when nobody is left": _advance(stops_when_nobody_is_left),
    "removed records come back": (Filter, "after", records_come_back),
    "ties by who is present": (SelectTop, "keep", ties_by_who_is_present),
    "ties by a place that shifts": (SelectTop, "keep", ties_by_place_from_the_end),
    "scores that are not finite have no place in the order": (
        SelectTop,
        "keep",
        not_finite_scores_compare_as_they_may,
    ),
    "a threshold from quantiles": (SelectTop, "keep", above_a_quantile),
    "scores centred within a batch": (Table, "scores", centred_within_the_batch),
    "scores ranked within a batch": (Table, "scores", ranked_within_the_batch),
    "divided by the realised batch": _advance(_denominator(lambda _, s, coins: (s.active & coins).sum())),
    "divided by the active count": _advance(_denominator(lambda _, s, __: s.active.sum())),
    "divided by a share of the records": _advance(_denominator(lambda task, *_: 0.5 * len(task.records))),
    "m from the number of records": _advance(filter_by_the_epochs_of_the_data),
    "T from the number of records": _advance(as_many_steps_as_records),
    "an empty batch is skipped": _advance(an_empty_batch_is_skipped),
    "an empty batch has no noise": _advance(an_empty_batch_has_no_noise),
    "a batch is truncated in silence": _advance(a_batch_is_truncated),
    "class weights from the data": _advance(class_weights),
    "normalisation from the data": _advance(normalised_by_the_data),
    "gradients coupled within a batch": (step_module, "_with_given", coupled_gradients),
    "mixup": (step_module, "_copies", mixed_with_the_next),
    "randomness keyed by the place in the batch": (step_module, "_copies", augmented_by_place_in_the_batch),
    "the filter acts inside a step": _advance(filtered_inside_a_step),
    "a switched-off row is selected": _advance(a_switched_off_row_is_selected),
    "a switched-off row is drawn": _advance(a_switched_off_row_is_drawn),
}
"""Each by what it does: where it is put, under which name, and the broken function."""


@contextmanager
def broken(name: str) -> Iterator[None]:
    """The variant called ``name`` in the place of the right function."""
    with mock.patch.object(*MUTANTS[name]):
        yield
