"""Where chunks are trained: in this process, or each in a process of its own."""

import multiprocessing
import os
import pickle
import threading
from collections.abc import Generator, Iterator, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from dpgap.audits.base import Assignment
from dpgap.errors import InvalidInput
from dpgap.experiments.job import Failure, Outcome, Worker, explained

Chunk = Sequence[Assignment]


def train_chunks(worker: Worker, chunks: Iterator[Chunk], processes: int) -> Generator[list[Outcome]]:
    """The outcomes of each chunk, in the order they are done; a chunk is asked for when there is room.

    **Guarantees**: with processes, each chunk has a fresh one, so no global state passes between chunks; a
    process that dies costs its own chunk, which comes back as failures; none outlives this one.
    """
    if processes:
        yield from _in_processes(_pickled(worker), chunks, processes)
    else:
        yield from map(worker, chunks)


def _pickled(worker: Worker) -> bytes:
    try:
        return pickle.dumps(worker)
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise InvalidInput(
            f"processes must be 0 here: what trains cannot be sent to another process ({problem}). Define "
            "train at the top level of a file that can be imported, and its arguments with it."
        ) from problem


def _in_processes(worker: bytes, chunks: Iterator[Chunk], processes: int) -> Iterator[list[Outcome]]:
    running: dict[Any, tuple[BaseProcess, Chunk]] = {}
    try:
        while True:
            while len(running) < processes and (chunk := next(chunks, None)) is not None:
                connection, process = _started(worker, chunk)
                running[connection] = process, chunk
            if not running:
                return
            for connection in wait(running):
                yield _received(connection, *running.pop(connection))
    finally:
        for process, _ in running.values():
            process.kill()


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
        outcomes = pickle.loads(worker)(chunk)
    except Exception as problem:  # a child that cannot even begin says why
        outcomes = [Failure(model=each.model, message=explained(problem)) for each in chunk]
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
        return [Failure(model=each.model, message=died) for each in chunk]
    finally:
        process.join()
        connection.close()
