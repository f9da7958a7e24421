"""Who leaves: exactly min(k, active) of each group, in one total order, at public moments."""

import math

import numpy as np
import pytest
import torch

from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import BallsInBins, Poisson, Shuffled
from dpgap.signatures.parse import parse_signature
from dpgap.training.filter import Filter, SelectTop, parse_filter
from tests.reference import dpsgd as twin

NAN, INF = math.nan, math.inf


def left(select, scores, labels=None, active=None):
    """The indices that leave."""
    scores = torch.as_tensor(scores, dtype=torch.float32)
    labels = torch.zeros(len(scores), dtype=torch.int64) if labels is None else torch.as_tensor(labels)
    active = torch.ones(len(scores), dtype=torch.bool) if active is None else torch.as_tensor(active)
    kept = select.keep(scores, labels, active)
    assert not (kept & ~active).any()
    return (active & ~kept).nonzero().squeeze(1).tolist()


@pytest.fixture
def linf():
    return parse_signature("linf")


def test_the_highest_of_each_class_or_of_all_leave():
    scores, labels = [5, 4, 3, 9, 8], [0, 0, 0, 1, 1]
    assert left(SelectTop(k=1), scores, labels) == [0, 3]
    assert left(SelectTop(k=2, scope="global"), scores, labels) == [3, 4]


def test_scores_that_are_not_finite_tie_as_the_highest():
    scores = [3e38, -INF, NAN, INF, 1.0]
    assert left(SelectTop(k=1), scores) == [1]
    assert left(SelectTop(k=2), scores) == [1, 2]
    assert left(SelectTop(k=4), scores) == [0, 1, 2, 3]


def test_of_equal_scores_the_lower_index_leaves_first_in_any_size():
    for n in (3, 17, 5000):
        assert left(SelectTop(k=2), [1.0] * n) == [0, 1]
    assert left(SelectTop(k=1), [0.0, -0.0]) == left(SelectTop(k=1), [-0.0, 0.0]) == [0]


def test_a_group_smaller_than_k_leaves_whole_and_a_group_without_active_records_loses_nobody():
    labels, active = [0, 0, 1, 1, 2], [True, False, True, True, False]
    assert left(SelectTop(k=3), [1, 9, 1, 1, 9], labels, active) == [0, 2, 3]
    assert left(SelectTop(k=3), [1, 2], active=[False, False]) == []


@pytest.mark.parametrize("scope", ["class", "global"])
def test_many_models_are_selected_from_as_each_by_itself(scope):
    draws = np.random.default_rng(0)
    for _ in range(50):
        models, n = int(draws.integers(1, 5)), int(draws.integers(0, 12))
        scores = torch.from_numpy(draws.choice([0.0, 1.0, 2.5, NAN, INF, -INF], (2, models, n))).float()
        labels = torch.from_numpy(draws.integers(0, 3, n))
        active = torch.from_numpy(draws.random((2, models, n)) < 0.7)
        select = SelectTop(k=int(draws.integers(1, 4)), scope=scope)
        kept = select.keep(scores, labels, active)
        for a in range(2):
            assert torch.equal(select.keep(scores[a], labels, active[a]), kept[a])
            for m in range(models):
                assert torch.equal(select.keep(scores[a, m], labels, active[a, m]), kept[a, m])


def test_select_top_equals_its_twin():
    draws = np.random.default_rng(0)
    for _ in range(200):
        n, k = int(draws.integers(1, 30)), int(draws.integers(1, 6))
        scores = draws.choice([0.0, 1.0, 2.0, NAN, INF, -INF, -1.0], n).tolist()
        labels, active = draws.integers(0, 3, n).tolist(), (draws.random(n) < 0.7).tolist()
        groups = [[i for i in range(n) if active[i] and labels[i] == c] for c in range(3)]
        expected = sorted(i for group in groups for i in twin.top(scores, group, k))
        assert left(SelectTop(k=k), scores, labels, active) == expected


@pytest.mark.parametrize("k", [0, -1])
def test_k_is_a_count_and_no_share(k):
    with pytest.raises(InvalidInput, match=r"k must be a whole number, 1 or more.*never a share"):
        SelectTop(k=k)


def test_moments_depend_on_every_and_offset_alone(linf):
    select = SelectTop(k=5)
    paper = Filter(signature=linf, select=select, every=4)
    scripts = Filter.in_epochs(2, signature=linf, select=select, every=3, offset=1)
    assert [t for t in range(1, 13) if paper.due(t)] == [4, 8, 12]
    assert [t for t in range(1, 15) if scripts.due(t)] == [2, 8, 14]
    assert paper.planned_maximum(12, 10) == 150
    assert scripts.planned_maximum(13, 10) == 100
    everything = Filter(signature=linf, select=SelectTop(k=5, scope="global"), every=4)
    assert everything.planned_maximum(12, 10) == 15


def test_between_moments_nothing_changes_and_stale_scores_are_kept_or_reset(linf):
    scores, labels, active = torch.tensor([1.0, 2.0]), torch.zeros(2, dtype=torch.int64), torch.ones(2).bool()
    for stale, expected in (("keep", [1.0, 2.0]), ("reset", [0.0, 0.0])):
        rule = Filter(signature=linf, select=SelectTop(k=1), every=2, stale=stale)
        waiting, same = rule.after(1, scores, labels, active)
        assert (waiting.tolist(), same.tolist()) == ([True, True], [1.0, 2.0])
        kept, after = rule.after(2, scores, labels, active)
        assert (kept.tolist(), after.tolist()) == ([True, False], expected)


@pytest.mark.parametrize("field", [{"every": 0}, {"every": 3, "offset": 3}])
def test_a_filter_refuses_moments_that_cannot_be(linf, field):
    with pytest.raises(InvalidInput, match=list(field)[-1]):
        Filter(signature=linf, select=SelectTop(k=1), **field)


def test_filters_inside_an_epoch_or_round_are_refused_with_the_reason(linf):
    inside = Filter(signature=linf, select=SelectTop(k=1), every=2)
    at_ends = Filter.in_epochs(3, signature=linf, select=SelectTop(k=1), every=2, offset=1)
    shifted = Filter(signature=linf, select=SelectTop(k=1), every=6, offset=1)
    for sampling in (Shuffled(batch=4, records=10), BallsInBins(batches=3)):
        for refused in (inside, shifted):
            with pytest.raises(InvalidInput, match="inside a round of 3 steps"):
                refused.check_moments(sampling)
        at_ends.check_moments(sampling)
    inside.check_moments(Poisson(rate=0.1))


def test_the_command_line_names_a_filter(linf):
    expected = Filter(signature=linf, select=SelectTop(k=5), every=15)
    assert parse_filter("linf:5", 15) == parse_filter("linf:5/class", 15) == expected
    assert parse_filter("linf:5/global", 15).select == SelectTop(k=5, scope="global")


@pytest.mark.parametrize("text", ["linf", "linf:5%", "linf:0.05", "linf:5/every", "linf:0", "lnif:5"])
def test_a_filter_that_cannot_be_read_says_how_to_write_it(text):
    with pytest.raises(InvalidInput):
        parse_filter(text, 15)
