"""What an audit concluded is kept with the scores that it compared, and is all that a report needs."""

from dataclasses import replace

import numpy as np
import pytest

from dpgap._plain import plain
from dpgap.experiments import conclude as conclude_module
from dpgap.experiments.conclude import conclude
from dpgap.experiments.converter import from_plain
from dpgap.experiments.from_experiment import job_of
from dpgap.experiments.run import run
from dpgap.report.curves import removed_of, thresholds_of
from dpgap.report.facts import facts_of
from dpgap.report.page import page
from dpgap.report.words import at_least
from dpgap.store.records import REMOVED_BY_CLASS
from dpgap.store.store import Store
from tests.experiments.jobs import SPEC, experiment, job

DESIGNS = [
    ({"kind": "shadow-pairs", "models": 8}, "random-binary", True),
    ({"kind": "shadow-pairs", "models": 12, "target": 0.5}, "random-binary", True),
    ({"kind": "group", "size": 3, "models": 6}, "random-binary", True),
    ({"kind": "one-run", "canaries": 20}, "random-binary", False),
    ({"kind": "every-record", "models": 40}, None, False),
    ({"kind": "canary-through-others", "models": 12}, "blank", False),
]


@pytest.mark.parametrize(("design", "canary", "independent"), DESIGNS, ids=lambda value: str(value)[:40])
def test_every_design_has_a_report(design, canary, independent):
    spec = {name: value for name, value in SPEC.items() if name not in ("canary", "filter")}
    store = Store(":memory:")
    audit = run(job_of(from_plain(spec | {"design": design} | ({"canary": canary} if canary else {}))), store)
    found = facts_of(store, audit.key)
    assert (found.bounds, found.upper_bound) == (audit.bounds, audit.upper_bound)
    assert found.independent == independent
    assert found.compared == design.get("size", 1)
    assert (thresholds_of(found).band is not None) == (independent and "target" not in design)
    assert at_least(audit.headline.value) in page([found])


def test_a_conclusion_is_the_audit_and_the_worlds_it_compared():
    store, whole = Store(":memory:"), job()
    audit = run(whole, store)
    kept = store.conclusion(whole.key)
    assert kept.audit == plain(audit)
    statistics = store.array(whole.key, "statistic")[:, 0]
    assert kept.inside.tolist() == statistics[::2].tolist()
    assert kept.outside.tolist() == statistics[1::2].tolist()


def test_concluding_again_counts_no_bound_twice_and_replaces_what_was_kept():
    store, whole = Store(":memory:"), job()
    run(whole, store)
    before = facts_of(store, whole.key)
    conclude(replace(whole, notes=("later",)), store)
    after = facts_of(store, whole.key)
    assert after.looks == before.looks
    assert after.notes == ("later",)


def test_very_many_scores_are_thinned_to_evenly_spaced_ones(monkeypatch):
    monkeypatch.setattr(conclude_module, "_SHOWN", 5)
    assert conclude_module._thinned(np.array([3.0, 1.0])).tolist() == [3.0, 1.0]
    assert conclude_module._thinned(np.arange(21.0)[::-1]).tolist() == [0, 5, 10, 15, 20]


def test_removals_are_kept_by_class_with_the_sizes_of_the_classes_first():
    filtered = experiment(filter={"signature": "linf", "select": {"k": 2}, "every": 1})
    store = Store(":memory:")
    audit = run(job_of(filtered), store)
    for table in store.arrays(audit.key, REMOVED_BY_CLASS):
        assert table[:, 0].tolist() == [0, 1, 2, 3]
        assert table[0, 1:].sum() == 1437
        assert ((table[1:, 1:] <= 2) & (table[1:, 1:] >= 1)).all()
    removed = removed_of(facts_of(store, audit.key))
    assert removed is not None
    assert removed.shares[-1].max() < 0.1


def test_without_a_filter_no_removals_are_kept():
    spec = {name: value for name, value in SPEC.items() if name != "filter"}
    store = Store(":memory:")
    audit = run(job_of(from_plain(spec)), store)
    assert store.arrays(audit.key, REMOVED_BY_CLASS) == []
    assert "there was no filter" in page([facts_of(store, audit.key)])
