"""The privacy contract as properties of two neighbouring datasets, whatever their scores and coins."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dpgap.data.augmentation import CropFlip
from dpgap.data.records import Records
from dpgap.models.build import build_model
from dpgap.privacy.mechanism import Mechanism, Poisson
from dpgap.signatures.parse import SHORT_NAMES, parse_signature
from dpgap.training import step as step_module
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.options import TrainingOptions
from dpgap.training.step import Task
from tests.training.cases import SCORES, cases
from tests.training.contract import (
    CLASSES,
    Case,
    Row,
    check_case,
    check_neighbours,
    inserted,
    lockstep,
    task_of,
    without,
)


@given(cases())
@settings(max_examples=300)
def test_every_step_of_neighbouring_datasets_keeps_the_contract(case):
    """Nested active sets, sums within C (1 + eta), the same noise, exact removals, blind scores."""
    check_case(case)


@given(st.data(), SCORES)
def test_distinct_records_with_equal_scores_leave_in_one_order(data, score):
    """Lemma 5 of the paper, for records that its proof confuses: equal in score, not in anything else."""
    check_case(data.draw(cases(scores=st.just(score))))


@given(cases(labels=st.just(CLASSES - 1)))
def test_a_class_that_only_one_dataset_has_leaves_whole(case):
    check_case(case)


@given(cases(most=0))
def test_an_empty_dataset_gets_noise_and_its_neighbour_one_contribution(case):
    check_case(case)


@given(cases())
def test_a_dataset_of_whom_nobody_is_ever_drawn_gets_noise(case):
    nobody = tuple((False,) * len(case.rows) for _ in case.coins)
    check_case(replace(case, coins=nobody, extra_coins=(False,) * case.steps))


def _one(gradient: tuple[float, float]) -> Case:
    """One common row and one like it in score, both drawn at every step."""
    row = Row(0, (1.0,), (1.0, 0.0))
    return Case((row,), Row(0, (1.0,), gradient), 0, ((True,),) * 2, (True,) * 2, every=2)


def test_a_world_that_replaces_a_record_needs_twice_the_clip_norm():
    """Its noise must be calibrated for replace-one, or the record must be added: so we add."""
    case = _one((-1.0, 0.0))
    here = without(case)
    replaced = replace(here, task=task_of(case, (case.extra,)))
    with pytest.raises(AssertionError, match=r"sums differ by 2\.0"):
        check_neighbours(case, (here, replaced), next(lockstep((here, replaced), 1)))
    check_case(case)


def test_augmented_copies_as_records_of_their_own_are_two_extras():
    """So a record's copies are averaged into one gradient, with one score and one removal."""
    case = _one((0.5, 0.0))
    once = inserted(case)
    twice = replace(
        once,
        task=task_of(case, (case.extra, case.extra, *case.rows)),
        coins=once.coins[:, [0, 0, 1]],
        members=once.members[[0, 0, 1]],
        common=once.common + 1,
    )
    worlds = (without(case), twice)
    with pytest.raises(AssertionError, match="differ by more than a record"):
        check_neighbours(case, worlds, next(lockstep(worlds, 1)))


MODELS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "convolutions": (
        nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(108, 3)),
        (1, 8, 8),
    ),
    # One of the shapes whose products depend on the slot unless a tile holds one record.
    "ten features or fewer": (build_model("logistic", (1, 1, 7), 5, seed=0), (1, 1, 7)),
}
SCALES = st.sampled_from([1.0, 1.0, 1e-3, 1e3, 1e30, -1e30, 1e-40, 3e38, 0.0])
SIGNATURES = [name for name in SHORT_NAMES if name != "l2-clipped"]


def _image_task(name: str, scales: list[float]) -> Task:
    model, shape = MODELS[name]
    x = torch.randn(len(scales), *shape, generator=torch.Generator().manual_seed(1)).clamp(-1, 1)
    x = x * torch.tensor(scales)[:, None, None, None]
    return Task(
        model=model,
        parameters={key: value.detach() for key, value in model.named_parameters()},
        records=Records(x, torch.arange(len(scales)) % 3, 3),
        gradients=None,
        mechanism=Mechanism(
            sampling=Poisson(rate=0.5), clip_norm=1.0, noise_multiplier=1.0, expected_batch=2.0, steps=1
        ),
        filter=Filter(signature=parse_signature("linf"), select=SelectTop(k=1), every=1),
        options=TrainingOptions(learning_rate=0.5, augmentation=CropFlip(padding=1), copies=2),
        augmentation_seed=3,
    )


def _score_bits(task: Task, rows: Tensor) -> Tensor:
    """Every signature's score of each row, as the trainer computes them, and every contribution."""
    displacement = torch.ones(sum(value.numel() for value in task.parameters.values()))
    view = step_module._view(task, task.parameters, displacement, rows, 5)
    signatures = [parse_signature(name) for name in SIGNATURES]
    scores = [each.scores(view, each.fresh_memory(len(rows)))[0] for each in signatures]
    return torch.cat([torch.stack(scores, dim=1), view.gradients], dim=1).view(torch.int32)


@pytest.mark.parametrize("name", MODELS)
@given(st.data())
@settings(max_examples=15)
def test_scores_are_bit_identical_in_any_batch_position_and_buffer(name, data):
    scales = data.draw(st.lists(SCALES, min_size=2, max_size=40))
    rows = torch.tensor(data.draw(st.lists(st.sampled_from(range(len(scales))), min_size=1, unique=True)))
    task = _image_task(name, scales)
    everybody = _score_bits(task, torch.arange(len(scales)))
    assert torch.equal(_score_bits(task, rows), everybody[rows])
    x = task.records.x
    elsewhere = torch.cat([x.new_full((1,), math.pi), x.flatten()])[1:].view(x.shape)
    moved = replace(task, records=replace(task.records, x=elsewhere))
    assert torch.equal(_score_bits(moved, rows), everybody[rows])
