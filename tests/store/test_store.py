"""The store keeps all or nothing, counts every look, opens what is older and refuses what is not its own."""

import math
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpgap.errors import InvalidInput, NoAnswer
from dpgap.store.database import VERSION
from dpgap.store.records import Conclusion, Description, ModelResult
from dpgap.store.store import Store

KEY = "ab" * 32
DESCRIPTION = Description(
    key=KEY, title="digits", specification={"seed": 0}, inputs="rows", upper_bound={"value": 1.0}
)
OLDER = Path(__file__).parents[1] / "data" / "store_of_version_1.sqlite"
"""A store that the first version wrote: 3 models of an audit, one that failed, two bounds."""


def conclusion():
    worlds = {"inside": np.array([1.0, math.inf]), "outside": np.array([-0.5])}
    return Conclusion(audit={"value": 1.0}, independent=True, **worlds)


def result(model: int, **arrays) -> ModelResult:
    return ModelResult(model=model, seconds=0.5, train_accuracy=0.75, test_accuracy=None, arrays=arrays)


def commit(store: Store, *results: ModelResult, device_kind: str = "cpu") -> None:
    store.commit(KEY, results, provenance={"versions": {"dpgap": "0"}}, device_kind=device_kind)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path):
    with closing(Store(path)) as opened:
        opened.add(DESCRIPTION)
        yield opened


def test_what_was_kept_comes_back_as_it_was(store, path):
    arrays = {"scores": np.array([1.5, -np.inf]), "bits": np.array([[True], [False]])}
    commit(store, result(2, **arrays), result(0, **arrays))
    with closing(Store(path, read_only=True)) as again:
        assert again.description(KEY) == DESCRIPTION
        assert [kept.model for kept in again.results(KEY)] == [0, 2]
        assert (again.results(KEY)[1].seconds, again.results(KEY)[1].test_accuracy) == (0.5, None)
        for name, array in arrays.items():
            assert again.array(KEY, name).tolist() == [array.tolist()] * 2
            assert again.array(KEY, name).dtype == array.dtype
        assert again.provenance(KEY) == [{"versions": {"dpgap": "0"}}]


def test_a_chunk_is_kept_whole_or_not_at_all(store):
    commit(store, result(0))
    with pytest.raises(InvalidInput, match="UNIQUE constraint failed"):
        commit(store, result(1), result(0))
    assert store.done(KEY) == {0}
    assert len(store.provenance(KEY)) == 1


def test_tables_take_no_value_of_another_type(store, path):
    with closing(sqlite3.connect(path)) as database, pytest.raises(sqlite3.IntegrityError):
        database.execute("INSERT INTO chunks VALUES (1, 1, '{}', x'00')")


def test_every_bound_computed_is_counted_once(store):
    store.look(KEY, 4, [{"value": 1.0}, {"value": 2.0}])
    store.look(KEY, 4, [{"value": 1.0}, {"value": 2.0}])
    store.look(KEY, 6, [{"value": 3.0}])
    assert [summary.bounds for summary in store.experiments()] == [3]
    assert store.bounds(KEY) == [{"value": 3.0}]


def test_a_failure_is_forgotten_when_the_model_is_kept(store):
    store.fail(KEY, 3, "out of memory")
    assert store.failures(KEY) == {3: "out of memory"}
    commit(store, result(3))
    assert store.failures(KEY) == {}


def test_nothing_of_the_kind_is_said_by_name(store):
    assert store.arrays(KEY, "scores") == []
    assert store.bounds(KEY) == []
    with pytest.raises(NoAnswer, match="holds no 'scores'"):
        store.array(KEY, "scores")


def test_a_key_may_be_shortened_while_it_is_the_only_one(store):
    store.add(Description(key="ac" * 32, title="", specification={}, inputs="", upper_bound=None))
    assert store.find("ab") == KEY
    with pytest.raises(InvalidInput, match=r"'a' begins several runs of .*: abababababab, acacacacacac"):
        store.find("a")
    with pytest.raises(InvalidInput, match="'b' begins no run"):
        store.find("b")
    with pytest.raises(InvalidInput, match="holds no run 'abab'"):
        store.results("abab")


def test_a_claimed_model_is_not_granted_to_another_process(store, path):
    commit(store, result(0))
    assert store.claim(KEY, [0, 1, 2]) == [1, 2]
    assert _claimed_by_another(path) == "[3]"
    store.release(KEY, [2])
    assert _claimed_by_another(path) == "[2, 3]"
    commit(store, result(1))
    assert _claimed_by_another(path) == "[2, 3]"


def _claimed_by_another(path: Path) -> str:
    """What a process that ends at once without letting go is granted of models 0 to 3."""
    script = (
        "import os, sys; from dpgap.store.store import Store\n"
        f"print(Store(sys.argv[1]).claim({KEY!r}, [0, 1, 2, 3]), flush=True); os._exit(1)"
    )
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def test_claims_need_a_file_system_that_can_lock(store, monkeypatch):
    def without_locks(*arguments):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("dpgap.store.claims.fcntl.lockf", without_locks)
    with pytest.raises(InvalidInput, match="claims cannot be locked: No locks available"):
        store.claim(KEY, [0])


def test_other_data_under_one_key_are_refused(store):
    other = Description(key=KEY, title="digits", specification={}, inputs="others", upper_bound=None)
    with pytest.raises(InvalidInput, match=r"holds experiment abababababab with other data"):
        store.add(other)


def test_another_kind_of_device_is_refused_and_keeps_nothing(store):
    commit(store, result(0))
    with pytest.raises(InvalidInput, match="was begun on 'cpu' and this is 'NVIDIA H200'"):
        commit(store, result(1), device_kind="NVIDIA H200")
    assert store.done(KEY) == {0}


def test_a_full_disk_is_named_and_nothing_kept_is_lost(store):
    commit(store, result(0, scores=np.zeros(3)))
    pages = store._database.connection.execute("PRAGMA page_count").fetchone()[0]
    store._database.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(InvalidInput, match=r"could not be written: .*full\. The disk is full"):
        commit(store, result(1, scores=np.zeros(10_000)))
    assert store.done(KEY) == {0}
    assert store._database.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_a_read_only_store_is_read_and_not_written(store, path):
    commit(store, result(0))
    with closing(Store(path, read_only=True)) as opened:
        assert opened.done(KEY) == {0}
        with pytest.raises(InvalidInput, match="It is read-only for you; give yourself write access"):
            commit(opened, result(1))


def test_a_store_that_another_process_holds_is_named(store, path, monkeypatch):
    monkeypatch.setattr("dpgap.store.database._PATIENCE_S", 0.05)
    with closing(Store(path)) as waiting, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            InvalidInput, match=r"database is locked\. Another process held it for over 0\.05 s"
        ):
            commit(waiting, result(0))


def test_a_database_of_another_program_is_refused(path):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE theirs (a)")
    with pytest.raises(InvalidInput, match="is a database of another program"):
        Store(path)


def test_a_file_that_is_no_database_is_refused(path):
    path.write_text("x,y\n" * 500)
    with pytest.raises(InvalidInput, match="It is no store of dpgap, or damaged"):
        Store(path)


def test_a_store_of_a_newer_version_is_refused(store, path):
    store._database.connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(InvalidInput, match=f"is of version {VERSION + 1}, and this dpgap reads up to"):
        Store(path)


def test_an_older_store_opens_and_can_be_gone_on_with(tmp_path):
    """The file is never written again: whatever the schema becomes, this must pass."""
    path = tmp_path / OLDER.name
    shutil.copy(OLDER, path)
    with closing(Store(path)) as store:
        (summary,) = store.experiments()
        assert (summary.models, summary.failures, summary.bounds, summary.device_kind) == (3, 1, 2, "cpu")
        described = store.description(summary.key)
        assert described.upper_bound == {"value": 1.0}
        assert store.array(summary.key, "statistic").tolist() == [[0.5], [-1.5], [2.5]]
        assert store.failures(summary.key) == {3: "out of memory"}
        assert store.bounds(summary.key) == [{"value": 0.5}, {"value": 0.25}]
        assert store.claim(summary.key, range(4)) == [3]
        store.commit(summary.key, [result(3)], provenance={}, device_kind="cpu")
        assert store.done(summary.key) == {0, 1, 2, 3}
        with pytest.raises(NoAnswer, match="Nothing has been concluded"):
            store.conclusion(summary.key)
        store.conclude(summary.key, conclusion())
        assert store.conclusion(summary.key).independent


def test_an_older_store_that_may_only_be_read_is_left_as_it_is(tmp_path):
    path = tmp_path / OLDER.name
    shutil.copy(OLDER, path)
    with closing(Store(path, read_only=True)) as store:
        (summary,) = store.experiments()
        with pytest.raises(NoAnswer, match="Nothing has been concluded"):
            store.conclusion(summary.key)
    assert path.read_bytes() == OLDER.read_bytes()


def test_a_conclusion_takes_the_place_of_the_one_before(store):
    store.conclude(KEY, conclusion())
    store.conclude(KEY, replace(conclusion(), audit={"value": 2.0}, independent=False))
    found = store.conclusion(KEY)
    assert found.audit == {"value": 2.0}
    assert not found.independent
    assert found.inside.tolist() == [1.0, math.inf]
    assert found.outside.tolist() == [-0.5]
