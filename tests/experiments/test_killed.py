"""SIGKILL at any moment loses the running chunk and nothing else."""

import multiprocessing
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.experiments.job import Job
from dpgap.experiments.run import run
from dpgap.store.records import STATISTIC
from dpgap.store.store import Store
from tests.experiments.jobs import job, noting

KILLS, MODELS = 20, 1000


def _job(log: Path) -> Job:
    return job(noting(log), ShadowPairs(models=MODELS))


def _audit(store: Path, log: Path) -> None:
    """What the driver does until it is killed."""
    with closing(Store(store)) as opened:
        run(_job(log), opened)


def _killed_after(seconds: float, store: Path, log: Path) -> None:
    """Begin or resume the audit in a process of its own, and kill it so long after its first model began."""
    process = multiprocessing.get_context("fork").Process(target=_audit, args=(store, log))
    process.start()
    while not log.read_text() and process.is_alive():
        time.sleep(0.001)
    time.sleep(seconds)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, "the audit ended before it could be killed"


def _kept(store: Path, log: Path) -> set[int]:
    with closing(Store(store)) as opened:
        return opened.done(_job(log).key)


def test_twenty_kills_at_random_points_change_no_score_and_repeat_no_model(tmp_path):
    store, log, draws = tmp_path / "store.sqlite", tmp_path / "log", np.random.default_rng(0)
    model_of = {_job(log).assignment(model).seed % 2**32: model for model in range(MODELS)}
    kept: set[int] = set()
    for _ in range(KILLS):
        log.write_text("")
        _killed_after(draws.uniform(0, 0.04), store, log)
        trained = {model_of[int(line)] for line in log.read_text().splitlines()}
        assert not kept & trained, "a model was trained again after it had been kept"
        kept = _kept(store, log)
        assert len(trained - kept) <= 1, "more than the running model was lost"
    with closing(Store(store)) as resumed, closing(Store(":memory:")) as undisturbed:
        audits = run(_job(log), resumed), run(_job(log), undisturbed)
        scores = [opened.array(audits[0].key, STATISTIC).tolist() for opened in (resumed, undisturbed)]
    assert audits[0].bounds == audits[1].bounds
    assert scores[0] == scores[1]
    with closing(sqlite3.connect(store)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
