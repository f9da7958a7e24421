"""The file behind a store: its format, its transactions, and what is said when SQLite refuses."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpgap.errors import InvalidInput

VERSION = 2
"""2 added conclusions; an older file gets its table when it is opened for writing."""
_APPLICATION = 0x6470_6761  # "dpga", by which `file` and we know the format
_PATIENCE_S = 30.0
_SCHEMA = """
CREATE TABLE experiments (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, title TEXT NOT NULL, description TEXT NOT NULL,
  inputs TEXT NOT NULL, upper_bound TEXT NOT NULL, device_kind TEXT, created TEXT NOT NULL) STRICT;
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY, experiment INTEGER NOT NULL REFERENCES experiments, provenance TEXT NOT NULL,
  committed TEXT NOT NULL) STRICT;
CREATE TABLE models (
  experiment INTEGER NOT NULL REFERENCES experiments, model INTEGER NOT NULL,
  chunk INTEGER NOT NULL REFERENCES chunks, seconds REAL NOT NULL, train_accuracy REAL, test_accuracy REAL,
  PRIMARY KEY (experiment, model)) STRICT, WITHOUT ROWID;
CREATE TABLE arrays (
  experiment INTEGER NOT NULL REFERENCES experiments, model INTEGER NOT NULL, name TEXT NOT NULL,
  dtype TEXT NOT NULL, shape TEXT NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (experiment, model, name)) STRICT, WITHOUT ROWID;
CREATE TABLE failures (
  experiment INTEGER NOT NULL REFERENCES experiments, model INTEGER NOT NULL, message TEXT NOT NULL,
  happened TEXT NOT NULL, PRIMARY KEY (experiment, model)) STRICT, WITHOUT ROWID;
CREATE TABLE looks (
  id INTEGER PRIMARY KEY, experiment INTEGER NOT NULL REFERENCES experiments, models INTEGER NOT NULL,
  bounds TEXT NOT NULL, computed TEXT NOT NULL, UNIQUE (experiment, models, bounds)) STRICT;
"""
_CONCLUSIONS = """
CREATE TABLE IF NOT EXISTS conclusions (
  experiment INTEGER PRIMARY KEY REFERENCES experiments, audit TEXT NOT NULL, inside BLOB NOT NULL,
  outside BLOB NOT NULL, independent INTEGER NOT NULL, compared INTEGER NOT NULL,
  concluded TEXT NOT NULL) STRICT;
"""


class Database:
    """One SQLite file with the tables of a store, made when missing unless ``read_only``.

    **Edge cases**: a file that is no store, or one of a newer dpgap, is refused; an older one is brought up
    to date when it is opened for writing.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path, self._read_only = path, read_only
        self.connection = _open(path, read_only)
        with self._explained("opened"):
            self._prepare()

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """The rows that ``query`` finds."""
        with self._explained("read"):
            return self.connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is written in the block, or nothing."""
        with self._explained("written"):
            self.connection.execute("BEGIN IMMEDIATE")
            with self.connection:
                yield self.connection

    @contextmanager
    def _explained(self, attempted: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as problem:
            raise InvalidInput(
                f"{self.path} could not be {attempted}: {problem}. {_advice(problem)}"
            ) from problem

    def _prepare(self) -> None:
        """Check whose file this is; give an empty one its tables."""
        self.connection.execute("BEGIN")  # one look, whatever another process does to an empty file meanwhile
        with self.connection:
            application = self.connection.execute("PRAGMA application_id").fetchone()[0]
            version = self.connection.execute("PRAGMA user_version").fetchone()[0]
            tables = self.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if application == 0 and tables == 0:
            self._create()
        elif application != _APPLICATION:
            raise InvalidInput(f"{self.path} is a database of another program. Name another --store.")
        elif version > VERSION:
            raise InvalidInput(
                f"{self.path} is of version {version}, and this dpgap reads up to {VERSION}. It was written "
                "by a newer one; update dpgap."
            )
        elif version < VERSION and not self._read_only:
            self.connection.execute("BEGIN IMMEDIATE")
            with self.connection:
                self.connection.execute(_CONCLUSIONS)
                self.connection.execute(f"PRAGMA user_version = {VERSION}")

    def _create(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        with self.connection:
            if self.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0:
                for statement in filter(str.strip, (_SCHEMA + _CONCLUSIONS).split(";")):
                    self.connection.execute(statement)
                self.connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                self.connection.execute(f"PRAGMA user_version = {VERSION}")


def _open(path: Path, read_only: bool) -> sqlite3.Connection:
    if read_only and not path.is_file():
        raise InvalidInput(f"There is no store {path}. Run an audit first, or name its file with --store.")
    if str(path) != ":memory:" and not path.parent.is_dir():
        raise InvalidInput(f"{path.parent} is no folder, so {path} cannot be made there. Make it first.")
    target = str(path) if str(path) == ":memory:" else f"{path.absolute().as_uri()}?mode="
    target += "" if target == ":memory:" else ("ro" if read_only else "rwc")
    try:
        database = sqlite3.connect(target, timeout=_PATIENCE_S, isolation_level=None, uri=True)
    except sqlite3.Error as problem:
        raise InvalidInput(f"{path} could not be opened: {problem}. {_advice(problem)}") from problem
    database.row_factory = sqlite3.Row
    database.execute("PRAGMA foreign_keys = ON")
    return database


def _advice(problem: sqlite3.Error) -> str:
    message = str(problem)
    if "locked" in message:
        return f"Another process held it for over {_PATIENCE_S:g} s; end that, then run this again."
    if "readonly" in message:
        return "It is read-only for you; give yourself write access, or copy it elsewhere."
    if "full" in message:
        return "The disk is full; free some space, then run this again: nothing that was kept is lost."
    if "not a database" in message or "malformed" in message:
        return "It is no store of dpgap, or damaged; name another --store or put a backup in its place."
    return "Check the path, then run this again."
