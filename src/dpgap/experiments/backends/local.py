"""Training on this machine: in this process, or each chunk in a process of its own."""

import multiprocessing
import os
import pickle
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar, final

from dpgap import _check
from dpgap.errors import InvalidInput
from dpgap.experiments.backends.base import UNPICKLABLE, Backend, Chunk, Crew, failed, trained
from dpgap.experiments.job import Outcome, Worker, explained
from dpgap.experiments.provenance import provenance


@final
@dataclass(frozen=True, kw_only=True)
class Local(Backend):
    """This machine. With ``processes`` of 0 chunks are trained one by one in this process.

    With more, that many chunks are trained at a time, each in a process of its own that ends with it.

    **Guarantees**: with processes, no global state passes from one chunk to the next; a process that dies
    costs its own chunk, which comes back as failures; none outlives this one.

    >>> Local(processes=-1)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: processes must be a whole number, 0 or more, got -1. Write 0 for this ...
    """

    id: ClassVar[str] = "local"

    processes: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.count(
            processes=self.processes, at_least=0, hint="Write 0 for this process, 2 for two of them."
        )

    @contextmanager
    def opened(self, worker: Worker) -> Iterator[Crew]:
        """This process, or others beside it."""
        yield _Apart(worker, self.processes) if self.processes else _Here(worker)


class _Here(Crew):
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.device_kind, self.provenance = worker.device_kind(), provenance()

    @property
    def at_once(self) -> int:
        return 1

    def train(self, chunks: Iterator[Chunk]) -> Generator[list[Outcome]]:
        for chunk in chunks:
            yield trained(self._worker, chunk)


class _Apart(Crew):
    def __init__(self, worker: Worker, processes: int) -> None:
        self._pickled, self._processes = _pickled(worker), processes
        self.device_kind, self.provenance = worker.device_kind(), provenance()

    @property
    def at_once(self) -> int:
        return self._processes

    def train(self, chunks: Iterator[Chunk]) -> Generator[list[Outcome]]:
        running: dict[Any, tuple[BaseProcess, Chunk]] = {}
        try:
            while True:
                while len(running) < self._processes and (chunk := next(chunks, None)) is not None:
                    connection, process = _started(self._pickled, chunk)
                    running[connection] = process, chunk
                if not running:
                    return
                for connection in wait(running):
                    yield _received(connection, *running.pop(connection))
        finally:
            for process, _ in running.values():
                process.kill()


def _pickled(worker: Worker) -> bytes:
    try:
        return pickle.dumps(worker)
    except UNPICKLABLE as problem:
        raise InvalidInput(
            f"processes must be 0 here: what trains cannot be sent to another process ({problem}). Define "
            "train at the top level of a file that can be imported, and its arguments with it."
        ) from problem


def _started(worker: bytes, chunk: Chunk) -> tuple[Any, BaseProcess]:
    # A forked child would inherit this process's threads' locks and its hold on the store.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_train_apart, args=(theirs, worker, chunk))
    process.start()
    theirs.close()
    return ours, process


def _train_apart(connection: Any, worker: bytes, chunk: Chunk) -> None:
    """The life of a child: train one chunk, send what came of it, end."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        outcomes = trained(pickle.loads(worker), chunk)
    except Exception as problem:  # a child that cannot even begin says why
        outcomes = failed(chunk, explained(problem))
    connection.send(outcomes)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _received(connection: Any, process: BaseProcess, chunk: Chunk) -> list[Outcome]:
    try:
        return connection.recv()
    except EOFError:
        process.join()
        died = (
            f"its process ended by itself, with exit code {process.exitcode} (-9: killed, or out of memory)"
        )
        return failed(chunk, died)
    finally:
        process.join()
        connection.close()
