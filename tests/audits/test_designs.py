"""Every design keeps its contract: who is in which model, what is concluded, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from dpgap.attacks.lira import LiRA
from dpgap.attacks.loss import LossAttack
from dpgap.audits.base import Design, Evidence
from dpgap.audits.comparable import check_comparable
from dpgap.audits.every_record import CanaryThroughOthers, EveryRecord
from dpgap.audits.group import Group
from dpgap.audits.one_run import OneRun
from dpgap.audits.result import Audit
from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.errors import IncomparableBounds, InvalidInput, NoAnswer
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.lower_bound import lower_bound
from dpgap.privacy.mechanism import Adjacency
from dpgap.privacy.sequential import SequentialAudit
from dpgap.privacy.table import Question
from dpgap.privacy.upper_bound import UpperBound
from dpgap.store.records import Spread
from dpgap.testing import check_design

BUILT_IN = [
    ShadowPairs(models=20),
    ShadowPairs(models=200, target=1.0),
    Group(size=3, models=60),
    Group(size=3, models=60, score="lowest"),
    OneRun(canaries=40),
    OneRun(canaries=10, models=4),
    EveryRecord(models=60),
    CanaryThroughOthers(models=60),
]


@pytest.mark.parametrize("design", BUILT_IN, ids=repr)
def test_a_built_in_design_keeps_its_contract(design):
    check_design(design)


def test_every_built_in_design_is_checked():
    built_in = {kind for kind in Design.__subclasses__() if kind.__module__.startswith("dpgap.")}
    assert built_in == {type(design) for design in BUILT_IN}


class FewSeeds:
    def __getattr__(self, name):
        return getattr(ShadowPairs(models=20), name)

    def assign(self, model, records, seed):
        return replace(ShadowPairs(models=20).assign(model, records, seed), seed=model % 5)


class Boasting:
    def __getattr__(self, name):
        return getattr(ShadowPairs(models=20), name)

    def headline(self, evidence, question):
        return replace(ShadowPairs(models=20).headline(evidence, question), confidence=0.99)


@pytest.mark.parametrize(
    ("design", "said"),
    [
        (FewSeeds(), "FewSeeds must give each model a seed of its own"),
        (Boasting(), "Boasting must keep the confidence asked for"),
        (ShadowPairs(models=2), "plan more models"),
    ],
)
def test_the_kit_finds_a_design_that_breaks_the_contract(design, said):
    with pytest.raises(AssertionError, match=said):
        check_design(design)


def evidence(scores, included) -> Evidence:
    scores, included = np.asarray(scores, np.float64), np.asarray(included, bool)
    return Evidence(models=np.arange(len(scores)), scores=scores, included=included)


def test_half_of_the_models_have_the_canary():
    assigned = [ShadowPairs(models=10).assign(model, 0, 0).canaries[0] for model in range(10)]
    assert sum(assigned) == 5


def test_a_group_is_in_together_or_out_together():
    for model in range(6):
        assert len(set(Group(size=4, models=6).assign(model, 0, 0).canaries.tolist())) == 1


def test_every_record_is_in_half_of_the_models_by_a_coin_of_its_own():
    coins = np.stack([EveryRecord(models=400).assign(model, 50, 0).records for model in range(400)])
    assert abs(coins.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(400)
    together = np.corrcoef(coins.T) - np.eye(50)
    assert abs(together).max() < 5.5 / np.sqrt(400)


def test_the_coins_of_one_run_are_recorded_and_fair():
    coins = OneRun(canaries=10_000).assign(0, 0, 0).canaries
    assert abs(coins.mean() - 0.5) < 5 * 0.5 / np.sqrt(10_000)


def test_a_group_is_scored_by_its_highest_or_lowest_canary():
    draws = np.random.default_rng(0)
    included = np.tile([[True] * 3, [False] * 3], (50, 1))
    scores = draws.standard_normal((100, 3)) + 6 * included
    inside, outside = scores[::2], scores[1::2]
    for score, chosen in (("highest", np.max), ("lowest", np.min)):
        (whole,) = Group(size=3, models=100, score=score).others(evidence(scores, included), Question())
        expected = lower_bound(
            AuditScores(chosen(inside, axis=1), chosen(outside, axis=1)), delta=1e-5, group_size=3
        )
        assert (whole.value, whole.group_size) == (expected.value, 3)


def test_a_group_bounds_one_record_by_less_than_the_group():
    included = np.tile([[True] * 3, [False] * 3], (50, 1))
    found = evidence(included * 1.0, included)
    design = Group(size=3, models=100)
    (whole,) = design.others(found, Question())
    assert 0 < design.headline(found, Question()).value < whole.value


def test_the_sequential_bound_is_that_of_the_pairs_in_their_order():
    draws, design = np.random.default_rng(0), ShadowPairs(models=60, target=0.5)
    scores = draws.standard_normal(60) + np.tile([2.0, 0.0], 30)
    audit = SequentialAudit(target=0.5, max_pairs=30)
    for pair in range(30):
        if audit.update(scores[2 * pair], scores[2 * pair + 1]).status != "continue":
            break
    shuffled = draws.permutation(60)
    found = Evidence(models=shuffled, scores=scores[shuffled, None], included=(shuffled % 2 == 0)[:, None])
    assert design.headline(found, Question()).value == audit.decision().bound
    assert design.decision(found, Question()) == audit.decision()


def test_a_pair_that_is_not_complete_stops_the_sequential_bound_there():
    design = ShadowPairs(models=60, target=0.5)
    bits = np.tile([True, False], 30)[:, None]
    whole = evidence(bits * 1.0, bits)
    there = np.flatnonzero(np.arange(60) != 7)
    partly = Evidence(models=there, scores=whole.scores[there], included=whole.included[there])
    assert design.headline(partly, Question()).n_inside == 3


def test_what_certifies_most_at_best_falls_when_an_attack_learns_from_half_of_the_models():
    design = ShadowPairs(models=400)
    assert design.ceiling(Question(), LiRA()) == ShadowPairs(models=200).ceiling(Question(), LossAttack())
    with pytest.raises(NoAnswer, match="LiRA has 0 models"):
        OneRun(canaries=20).ceiling(Question(), LiRA())


def test_an_attack_that_learns_is_refused_where_an_audit_may_stop_early():
    with pytest.raises(
        InvalidInput, match="attack must learn nothing where an audit may stop early, got 'lira'"
    ):
        check_comparable(ShadowPairs(target=1.0), LiRA(), Question(), None)


@pytest.mark.parametrize("seen", ["full-state", "final-gradient", "full-state-gradient"])
def test_an_attacker_who_sees_more_than_the_claim_covers_is_refused(seen):
    question = Question(threat_model=seen)
    claim = UpperBound.claimed(1.0, delta=1e-5)
    with pytest.raises(IncomparableBounds, match=f"works with '{seen}' access, and the upper bound covers"):
        check_comparable(ShadowPairs(), LossAttack(), question, claim)
    check_comparable(ShadowPairs(), LossAttack(), question, replace(claim, covers="full-state"))


def test_a_group_compares_add_remove_neighbours_only():
    zero_out = Question(adjacency=Adjacency.ZERO_OUT)
    check_comparable(ShadowPairs(), LossAttack(), zero_out, None)
    with pytest.raises(IncomparableBounds, match="'group' compares add-remove neighbours"):
        check_comparable(Group(size=2), LossAttack(), zero_out, None)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ShadowPairs(models=3), "models must be even, got 3"),
        (lambda: ShadowPairs(models=0), "models must be a whole number, 1 or more, got 0"),
        (lambda: ShadowPairs(target=0.0), "target must be a finite number above 0"),
        (lambda: Group(size=0), "size must be a whole number, 1 or more, got 0"),
        (lambda: Group(size=2, models=5), "models must be even, got 5"),
        (lambda: OneRun(canaries=0), "canaries must be a whole number, 1 or more, got 0"),
    ],
)
def test_a_design_that_cannot_be_run_is_refused(make, said):
    with pytest.raises(InvalidInput, match=said):
        make()


def test_what_stopping_saved_is_known_of_audits_that_stopped():
    bound = ShadowPairs(models=20).headline(evidence([[1.0], [0.0]] * 10, [[True], [False]] * 10), Question())
    audit = Audit(
        key="", title="", design="", status="certified", models=60, planned=400, upper_bound=None,
        bounds=(bound,), train_accuracy=None, test_accuracy=None, removals=None, seconds_per_model=1.0,
        looks=1, notes=(),
    )  # fmt: skip
    assert audit.saved == 340
    assert replace(audit, status="incomplete").saved == 0
    claim = UpperBound.claimed(bound.value, delta=1e-5)
    assert not replace(audit, upper_bound=claim).refuted
    assert replace(audit, upper_bound=replace(claim, value=claim.value / 2)).refuted


def test_a_spread_of_what_some_models_lack_is_none():
    assert Spread.of([0.5, None]) is None
    assert Spread.of([]) is None
    assert Spread.of([0.5]) == Spread(mean=0.5, sd=0.0)
