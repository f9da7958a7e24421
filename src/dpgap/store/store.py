"""One SQLite file of experiments: what was trained, what it scored, and what was concluded from it.

Readable by anything that reads SQLite. A model's results exist once the transaction that holds them has
committed; whatever kills the process loses the running chunk and nothing else.
"""

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.errors import InvalidInput, NoAnswer
from dpgap.store.claims import Claims
from dpgap.store.database import Database
from dpgap.store.records import Conclusion, Description, ModelResult, Summary

DEFAULT_STORE = Path("dpgap.sqlite")


class Store:
    """Experiments in one file, made when missing unless ``read_only``.

    **Guarantees**: several processes may use one file: none sees half a chunk, and a model that one of
    them has claimed is not trained by another. A claim ends with the process that made it, however it ends.

    **Edge cases**: a file that is no store, or one of a newer dpgap, is refused; an older one opens.

    >>> store = Store(":memory:")
    >>> store.add(Description(key="ab12", title="digits", specification={}, inputs="", upper_bound=None))
    >>> result = ModelResult(model=3, seconds=1.0, train_accuracy=None, test_accuracy=0.9,
    ...                      arrays={"scores": np.array([0.5])})
    >>> store.commit("ab12", [result], provenance={}, device_kind="cpu")
    >>> store.done("ab12"), store.array("ab12", "scores").tolist()
    ({3}, [[0.5]])
    """

    def __init__(self, path: str | Path = DEFAULT_STORE, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._claims = Claims(self.path)
        self._database = Database(self.path, read_only=read_only)

    def close(self) -> None:
        """Let go of the file, and of every claim."""
        self._database.connection.close()
        self._claims.close()

    def add(self, description: Description) -> None:
        """Enter an experiment, or check that the one of this key is the same."""
        row = (
            description.key,
            description.title,
            _json(description.specification),
            description.inputs,
            _json(description.upper_bound),
            _now(),
        )
        with self._database.transaction() as database:
            found = database.execute(
                "SELECT inputs, upper_bound FROM experiments WHERE key = ?", row[:1]
            ).fetchone()
            if found is None:
                database.execute(
                    "INSERT INTO experiments (key, title, description, inputs, upper_bound, created) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    row,
                )
            elif found[0] != description.inputs:
                raise InvalidInput(
                    f"{self.path} holds experiment {description.key[:12]} with other data: the rows "
                    f"behind {description.title!r} have changed since. Mixing both would audit neither; name "
                    "another store, or put the data back."
                )

    def find(self, prefix: str) -> str:
        """The key that begins with ``prefix``, which must be the only one."""
        keys = [summary.key for summary in self.experiments()]
        matching = [key for key in keys if key.startswith(prefix)]
        if len(matching) == 1:
            return matching[0]
        known = ", ".join(key[:12] for key in (matching or keys)) or "none yet"
        what = "begins several runs" if matching else "begins no run"
        raise InvalidInput(f"{prefix!r} {what} of {self.path}. Write more of one of these keys: {known}.")

    def description(self, key: str) -> Description:
        """An experiment as it was entered."""
        row = self._experiment(key)
        return Description(
            key=key,
            title=row["title"],
            specification=json.loads(row["description"]),
            inputs=row["inputs"],
            upper_bound=json.loads(row["upper_bound"]),
        )

    def experiments(self) -> list[Summary]:
        """Every experiment, the oldest first."""
        rows = self._database.rows(
            "SELECT key, title, device_kind, created, "
            "(SELECT count(*) FROM models WHERE experiment = experiments.id) AS models, "
            "(SELECT count(*) FROM failures WHERE experiment = experiments.id) AS failures, "
            "(SELECT coalesce(sum(json_array_length(bounds)), 0) FROM looks "
            " WHERE experiment = experiments.id) AS bounds FROM experiments ORDER BY id"
        )
        return [Summary(**dict(row)) for row in rows]

    def done(self, key: str) -> set[int]:
        """The models whose results are there."""
        rows = self._database.rows("SELECT model FROM models WHERE experiment = ?", self._id(key))
        return {row["model"] for row in rows}

    def claim(self, key: str, models: Sequence[int]) -> list[int]:
        """Those of ``models`` that are neither done nor claimed elsewhere, now claimed by this process."""
        experiment = self._id(key)
        claimed = [model for model in models if self._claims.take(experiment, model)]
        done = self.done(key)  # read after locking: whoever held a lock has committed before letting go
        self.release(key, [model for model in claimed if model in done])
        return [model for model in claimed if model not in done]

    def release(self, key: str, models: Sequence[int]) -> None:
        """Give claimed models back."""
        experiment = self._id(key)
        for model in models:
            self._claims.give_back(experiment, model)

    def commit(
        self, key: str, results: Sequence[ModelResult], *, provenance: dict[str, Any], device_kind: str
    ) -> None:
        """Keep the results of a chunk, all or none, and let go of its claims."""
        experiment = self._id(key)
        with self._database.transaction() as database:
            self.check_device(key, device_kind)
            database.execute("UPDATE experiments SET device_kind = ? WHERE id = ?", (device_kind, experiment))
            chunk = database.execute(
                "INSERT INTO chunks (experiment, provenance, committed) VALUES (?, ?, ?)",
                (experiment, _json(provenance), _now()),
            ).lastrowid
            for result in results:
                _insert(database, experiment, chunk, result)
        self.release(key, [result.model for result in results])

    def fail(self, key: str, model: int, message: str) -> None:
        """Note why a model could not be trained; it is tried again by the next run."""
        experiment = self._id(key)
        with self._database.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)", (experiment, model, message, _now())
            )
        self.release(key, [model])

    def failures(self, key: str) -> dict[int, str]:
        """The models that failed at their last try, with the reason."""
        rows = self._database.rows("SELECT model, message FROM failures WHERE experiment = ?", self._id(key))
        return {row["model"]: row["message"] for row in rows}

    def results(self, key: str) -> list[ModelResult]:
        """What is kept of every model but its arrays, by number."""
        rows = self._database.rows(
            "SELECT model, seconds, train_accuracy, test_accuracy FROM models WHERE experiment = ? "
            "ORDER BY model",
            self._id(key),
        )
        return [ModelResult(**dict(row)) for row in rows]

    def arrays(self, key: str, name: str) -> list[NDArray[Any]]:
        """The array ``name`` of every model, in the order of `results`; empty if none was kept."""
        rows = self._database.rows(
            "SELECT dtype, shape, data FROM arrays WHERE experiment = ? AND name = ? ORDER BY model",
            self._id(key),
            name,
        )
        return [_array(row) for row in rows]

    def array(self, key: str, name: str) -> NDArray[Any]:
        """The same as one array, one row a model."""
        arrays = self.arrays(key, name)
        if not arrays:
            raise NoAnswer(f"Run {key[:12]} of {self.path} holds no {name!r}: nothing of the kind was kept.")
        return np.stack(arrays)

    def provenance(self, key: str) -> list[dict[str, Any]]:
        """How each chunk was made, without repetition, in the order of their making."""
        rows = self._database.rows(
            "SELECT provenance FROM chunks WHERE experiment = ? GROUP BY provenance ORDER BY min(id)",
            self._id(key),
        )
        return [json.loads(row["provenance"]) for row in rows]

    def look(self, key: str, models: int, bounds: Sequence[dict[str, Any]]) -> None:
        """Keep bounds computed from ``models`` models; the same bounds of the same models count once."""
        experiment = self._id(key)
        with self._database.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO looks (experiment, models, bounds, computed) VALUES (?, ?, ?, ?)",
                (experiment, models, _json(list(bounds)), _now()),
            )

    def bounds(self, key: str) -> list[dict[str, Any]]:
        """The bounds of the last look; none if nobody looked."""
        rows = self._database.rows(
            "SELECT bounds FROM looks WHERE experiment = ? ORDER BY id DESC LIMIT 1",
            self._id(key),
        )
        return json.loads(rows[0]["bounds"]) if rows else []

    def conclude(self, key: str, conclusion: Conclusion) -> None:
        """Keep what followed from an experiment, in place of what followed before."""
        worlds = [_float64(world).tobytes() for world in (conclusion.inside, conclusion.outside)]
        kind = int(conclusion.independent), conclusion.compared
        experiment = self._id(key)
        with self._database.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO conclusions VALUES (?, ?, ?, ?, ?, ?, ?)",
                (experiment, _json(conclusion.audit), *worlds, *kind, _now()),
            )

    def conclusion(self, key: str) -> Conclusion:
        """What followed from an experiment when somebody last asked."""
        experiment = self._id(key)
        known = self._database.rows("SELECT name FROM sqlite_schema WHERE name = 'conclusions'")
        rows = known and self._database.rows("SELECT * FROM conclusions WHERE experiment = ?", experiment)
        if not rows:
            raise NoAnswer(
                f"Nothing has been concluded from run {key[:12]} of {self.path} yet. Let its audit end: "
                f"dpgap audit {key[:12]} --store {self.path}, or call dpgap.audit again as before."
            )
        inside, outside = (np.frombuffer(rows[0][world], "<f8") for world in ("inside", "outside"))
        return Conclusion(
            audit=json.loads(rows[0]["audit"]),
            inside=inside,
            outside=outside,
            independent=bool(rows[0]["independent"]),
            compared=rows[0]["compared"],
        )

    def check_device(self, key: str, device_kind: str) -> None:
        """Refuse to go on with an experiment on another kind of device."""
        known = self._experiment(key)["device_kind"]
        if known not in (None, device_kind):
            raise InvalidInput(
                f"Run {key[:12]} was begun on {known!r} and this is {device_kind!r}. Models of one audit "
                "must be made alike, and rounding differs between devices; go on there, or name another "
                "store."
            )

    def _id(self, key: str) -> int:
        return self._experiment(key)["id"]

    def _experiment(self, key: str) -> sqlite3.Row:
        rows = self._database.rows("SELECT * FROM experiments WHERE key = ?", key)
        if not rows:
            raise InvalidInput(f"{self.path} holds no run {key!r}. Write: dpgap runs --store {self.path}")
        return rows[0]


def _insert(database: sqlite3.Connection, experiment: int, chunk: int | None, result: ModelResult) -> None:
    model = (experiment, result.model)
    database.execute(
        "INSERT INTO models VALUES (?, ?, ?, ?, ?, ?)",
        (*model, chunk, result.seconds, result.train_accuracy, result.test_accuracy),
    )
    for name, array in result.arrays.items():
        kept = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        row = (*model, name, kept.dtype.str, _json(kept.shape), kept.tobytes())
        database.execute("INSERT INTO arrays VALUES (?, ?, ?, ?, ?, ?)", row)
    database.execute("DELETE FROM failures WHERE experiment = ? AND model = ?", model)


def _array(row: sqlite3.Row) -> NDArray[Any]:
    return np.frombuffer(row["data"], dtype=row["dtype"]).reshape(json.loads(row["shape"]))


def _float64(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.ascontiguousarray(values, dtype="<f8")


def _json(content: Any) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
