"""However an audit is run, stopped, shared or broken off, its scores are those of the job."""

import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from dpgap.attacks.lira import LiRA
from dpgap.audits.every_record import CanaryThroughOthers, EveryRecord
from dpgap.audits.group import Group
from dpgap.audits.one_run import OneRun
from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.errors import IncomparableBounds, InvalidInput, NoAnswer
from dpgap.experiments import from_experiment, from_function
from dpgap.experiments.backends.base import Backend
from dpgap.experiments.backends.local import Local
from dpgap.experiments.conclude import conclude
from dpgap.experiments.converter import from_plain
from dpgap.experiments.from_experiment import job_of
from dpgap.experiments.progress import Quiet
from dpgap.experiments.run import run
from dpgap.privacy.table import Question
from dpgap.privacy.upper_bound import UpperBound
from dpgap.store.records import REMOVED_AT, STATISTIC
from dpgap.store.store import Store
from tests.experiments.jobs import SPEC, experiment, job, noisy_sum, noting


def scores(store: Store, key: str) -> list[list[float]]:
    return store.array(key, STATISTIC).tolist()


@pytest.fixture
def undisturbed() -> list[list[float]]:
    store, whole = Store(":memory:"), job()
    run(whole, store)
    return scores(store, whole.key)


@pytest.mark.parametrize("models_at_once", [1, 2, 7])
def test_scores_do_not_depend_on_the_models_at_once(undisturbed, models_at_once):
    store = Store(":memory:")
    audit = run(job(), store, backend=Local(models_at_once=models_at_once))
    assert scores(store, audit.key) == undisturbed


def test_scores_do_not_depend_on_the_processes(undisturbed):
    store = Store(":memory:")
    audit = run(job(), store, backend=Local(processes=2, models_at_once=10))
    assert scores(store, audit.key) == undisturbed
    assert audit.status == "finished"


@pytest.mark.parametrize("models_at_once", [1, 2, 7])
def test_trained_networks_do_not_depend_on_the_models_at_once(models_at_once):
    whole, parts = Store(":memory:"), Store(":memory:")
    key = run(job_of(experiment()), whole, backend=Local(models_at_once=8)).key
    run(job_of(experiment()), parts, backend=Local(models_at_once=models_at_once))
    assert scores(whole, key) == scores(parts, key)
    assert whole.array(key, REMOVED_AT).tolist() == parts.array(key, REMOVED_AT).tolist()


def test_trained_networks_do_not_depend_on_the_processes():
    here, apart = Store(":memory:"), Store(":memory:")
    key = run(job_of(experiment()), here).key
    run(job_of(experiment()), apart, backend=Local(processes=2, models_at_once=5))
    assert scores(here, key) == scores(apart, key)


@pytest.mark.parametrize(
    ("changes", "refusal", "said"),
    [
        (
            {"design": ShadowPairs(models=4, target=5.0)},
            InvalidInput,
            "target 5.0 takes .* pairs even if all",
        ),
        ({"attack": LiRA(), "design": ShadowPairs(models=4)}, NoAnswer, "LiRA has 1 models of one world"),
        ({"attack": LiRA(), "design": ShadowPairs(target=1.0)}, InvalidInput, "attack must learn nothing"),
        (
            {"question": Question(threat_model="full-state")},
            IncomparableBounds,
            "works with 'full-state' access",
        ),
    ],
)
def test_what_all_models_could_not_answer_is_refused_before_the_first(changes, refusal, said, tmp_path):
    claimed = job(noting(tmp_path / "log"), upper_bound=UpperBound.claimed(1.0, delta=1e-5))
    with pytest.raises(refusal, match=said):
        run(replace(claimed, **changes), Store(":memory:"))
    assert not (tmp_path / "log").exists()


class _Interrupted(Quiet):
    def advanced(self, done, planned, bound):
        if done >= 9:
            raise KeyboardInterrupt


def test_an_interrupted_run_keeps_its_models_and_goes_on(tmp_path, undisturbed):
    log, path = tmp_path / "log", tmp_path / "store.sqlite"
    with closing(Store(path)) as store, pytest.raises(KeyboardInterrupt) as interruption:
        run(job(noting(log)), store, watcher=_Interrupted())
    said = f"Interrupted with 9 of 20 models kept in {path}. Run the same again to go on."
    assert interruption.value.__notes__ == [said]
    assert len(log.read_text().split()) == 9
    with closing(Store(path)) as store:
        audit = run(job(noting(log)), store)
        assert scores(store, audit.key) == undisturbed
    assert len(log.read_text().split()) == 20


def fails_in_model_seven(x, y, seed):
    if seed == job().assignment(7).seed % 2**32:
        raise RuntimeError("out of luck")
    return noisy_sum(x, y, seed)


def test_a_model_that_raises_is_reported_and_the_others_are_kept():
    store = Store(":memory:")
    audit = run(job(fails_in_model_seven), store)
    assert (audit.models, audit.status) == (19, "incomplete")
    (note,) = audit.notes
    assert "1 models failed" in note
    assert "model 7: RuntimeError: out of luck (" in note
    assert store.done(audit.key) == set(range(20)) - {7}


def test_a_failed_model_is_tried_again_by_the_next_run():
    store = Store(":memory:")
    broken = job(fails_in_model_seven)
    run(broken, store)
    mended = replace(broken, worker=replace(broken.worker, train=noisy_sum))
    audit = run(mended, store)
    assert (audit.models, audit.status, audit.notes) == (20, "finished", ())


def always_fails(x, y, seed):
    raise RuntimeError("no such layer")


def test_nothing_more_is_spent_when_the_first_model_fails():
    store = Store(":memory:")
    with pytest.raises(InvalidInput, match=r"first model failed.*no such layer"):
        run(job(always_fails), store)
    assert list(store.failures(job(always_fails).key)) == [0]


def dies(x, y, seed):
    import os
    import signal

    if seed == job().assignment(7).seed % 2**32:
        os.kill(os.getpid(), signal.SIGKILL)
    return noisy_sum(x, y, seed)


def test_a_process_that_dies_costs_its_own_chunk_only():
    store = Store(":memory:")
    audit = run(job(dies), store, backend=Local(processes=2, models_at_once=10))
    lost = set(store.failures(audit.key))
    assert 7 in lost
    assert len(lost) <= 10
    assert store.done(audit.key) == set(range(20)) - lost
    assert "exit code -9" in store.failures(audit.key)[7]


def test_a_function_that_cannot_travel_is_refused_with_processes():
    with pytest.raises(InvalidInput, match="processes must be 0 here"):
        run(
            job(lambda x, y, seed: noisy_sum(x, y, seed + 1)),
            Store(":memory:"),
            backend=Local(processes=1),
        )


def test_two_processes_on_one_store_share_the_models(tmp_path, undisturbed):
    log, path = tmp_path / "log", tmp_path / "store.sqlite"
    script = (
        "from pathlib import Path; from dpgap.store.store import Store\n"
        "from dpgap.experiments.run import run; from tests.experiments.jobs import job, noting\n"
        f"run(job(noting(Path({str(log)!r}))), Store({str(path)!r}))\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) for _ in range(2)]
    for process in both:
        said = process.communicate()[1].decode()
        assert process.returncode == 0 or "a bound compares two" in said, said
    with closing(Store(path)) as store:
        audit = run(job(noting(log)), store)
        assert scores(store, audit.key) == undisturbed
    assert len(log.read_text().split()) == 20


def test_other_data_under_the_same_key_is_refused():
    store, known = Store(":memory:"), job()
    run(known, store)
    changed = replace(known, description=replace(known.description, inputs="other"))
    with pytest.raises(InvalidInput, match="other"):
        run(changed, store)


def test_to_go_on_with_another_kind_of_device_is_refused(monkeypatch):
    store = Store(":memory:")
    with pytest.raises(KeyboardInterrupt):
        run(job(), store, watcher=_Interrupted())
    monkeypatch.setattr(from_function, "cpu_kind", lambda: "cuda NVIDIA H200")
    with pytest.raises(InvalidInput, match=r"was begun on 'cpu.*this is 'cuda NVIDIA H200'"):
        run(job(), store)


class _Unavailable(Backend):
    def opened(self, worker):
        raise AssertionError("nothing is left to be trained")


def test_a_finished_audit_needs_no_backend():
    store = Store(":memory:")
    finished = run(job(), store)
    assert run(job(), store, backend=_Unavailable()).bounds == finished.bounds


def far_sum(x, y, seed):
    return noisy_sum(100 * x, y, seed)


def test_a_sequential_audit_stops_when_its_target_is_certified_and_says_what_it_saved():
    store, design = Store(":memory:"), ShadowPairs(models=200, target=1.0)
    audit = run(job(far_sum, design), store)
    assert audit.status == "certified"
    assert audit.headline.value == 1.0
    assert audit.headline.rule == "anytime"
    assert audit.models == 200 - audit.saved < 60
    (note,) = audit.notes
    assert f"Stopping early saved {audit.saved} of 200 models, some " in note
    assert run(job(far_sum, design), store).models == audit.models


def nothing(x, y, seed):
    return noisy_sum(0 * x, y, seed)


def test_a_sequential_audit_stops_when_its_target_is_out_of_reach():
    audit = run(job(nothing, ShadowPairs(models=200, target=2.0)), Store(":memory:"))
    assert audit.status == "futile"
    assert audit.saved > 100


@pytest.mark.parametrize("models_at_once", [1, 7])
def test_a_sequential_audit_reports_the_same_bound_whatever_was_trained_beyond_its_end(models_at_once):
    audit = run(
        job(far_sum, ShadowPairs(models=200, target=1.0)),
        Store(":memory:"),
        backend=Local(models_at_once=models_at_once),
    )
    assert (audit.headline.value, audit.headline.n_inside) == (1.0, audit.headline.n_outside)


def ignores_its_seed(x, y, seed):
    return noisy_sum(x, y, 0)


def test_models_that_are_copies_of_one_are_reported_at_once():
    store = Store(":memory:")
    with pytest.raises(InvalidInput, match="train must use its seed: 2 models of one world"):
        run(job(ignores_its_seed), store)
    assert len(store.done(job(ignores_its_seed).key)) == 3


def test_with_one_world_only_there_is_no_bound():
    store = Store(":memory:")
    with pytest.raises(KeyboardInterrupt):
        run(job(), store, watcher=_InterruptedAtOnce())
    with pytest.raises(NoAnswer, match="1 of 20 models are there, and all are of the world with"):
        conclude(job(), store)


class _InterruptedAtOnce(Quiet):
    def forecast(self, forecast):
        raise KeyboardInterrupt


class _Listening(Quiet):
    wants_bounds = True

    def __init__(self):
        self.forecasts, self.bounds = [], []

    def forecast(self, forecast):
        self.forecasts.append(str(forecast))

    def advanced(self, done, planned, bound):
        self.bounds.append((done, planned, bound))


def test_the_forecast_comes_after_one_model_and_every_bound_shown_is_counted():
    listener = _Listening()
    audit = run(job(), Store(":memory:"), watcher=listener)
    (forecast,) = listener.forecasts
    assert "the other 19 take about" in forecast
    assert "All 20 can certify at most" in forecast
    done, planned, bounds = zip(*listener.bounds, strict=True)
    assert (done, set(planned)) == (tuple(range(2, 21)), {20})
    assert audit.looks == len(audit.bounds) + sum(bound is not None for bound in bounds)


@pytest.mark.parametrize(
    ("design", "canary"),
    [
        ({"kind": "group", "size": 3, "models": 6}, "random-binary"),
        ({"kind": "one-run", "canaries": 20}, "random-binary"),
        ({"kind": "every-record", "models": 40}, None),
        ({"kind": "canary-through-others", "models": 12}, "blank"),
    ],
)
def test_every_design_runs_from_end_to_end(design, canary):
    spec = {name: value for name, value in SPEC.items() if name not in ("canary", "filter")}
    audited = from_plain(spec | {"design": design} | ({"canary": canary} if canary else {}))
    audit = run(job_of(audited), Store(":memory:"))
    assert isinstance(audited.design, Group | OneRun | EveryRecord | CanaryThroughOthers)
    assert audit.status == "finished"
    assert audit.headline.validity == "certified"
    assert 0.05 < audit.test_accuracy.mean < 1


def test_a_model_of_a_fleet_that_cannot_be_scored_costs_no_other(monkeypatch):
    real, asked = from_experiment.checked, []

    def checked(statistic):
        asked.append(statistic)
        return real(statistic if len(asked) != 6 else statistic * np.nan)

    monkeypatch.setattr(from_experiment, "checked", checked)
    store = Store(":memory:")
    audit = run(job_of(experiment()), store, backend=Local(models_at_once=4))
    ((lost, reason),) = store.failures(audit.key).items()
    assert "statistic holds NaN" in reason
    assert store.done(audit.key) == set(range(8)) - {lost}


def test_the_audit_stands_beside_what_is_proved_and_what_it_cost():
    audit = run(job_of(experiment()), Store(":memory:"))
    assert audit.upper_bound is not None
    assert audit.upper_bound.accountant == "pld"
    assert audit.removals is not None
    assert audit.removals.planted == 4
    assert audit.train_accuracy.sd > 0
    assert audit.seconds_per_model > 0
    assert [bound.estimator for bound in audit.bounds][-1] == "gaussian"
    assert audit.bounds[-1].rule == "paper"
