"""Training on a Ray cluster: the one file that imports ray."""

import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, ClassVar, NamedTuple, TextIO, final

from dpgap import _check
from dpgap.errors import DpgapError, InvalidInput
from dpgap.experiments.backends.base import UNPICKLABLE, Backend, Chunk, Crew, failed, trained
from dpgap.experiments.job import Outcome, Worker
from dpgap.experiments.provenance import provenance

_LOG = logging.getLogger("dpgap")
_RETRIES = 3
_REACHED_WITHIN_S = 15.0
_POLL_S = 0.5
"""How soon a node that has joined is noticed."""
_CONNECT = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR')"


@final
@dataclass(frozen=True, kw_only=True)
class RayCluster(Backend):
    """A Ray cluster, with this machine as a node; the page "Run on a cluster" says how to start one.

    ``address`` is ``host:port`` of the head node, or "auto" for the cluster that this machine is in (or that
    RAY_ADDRESS names). A chunk takes ``gpus_per_chunk`` GPUs where the cluster has any and the execution's
    device is not "cpu", and ``cpus_per_chunk`` processors: training gets as many threads.

    **Guarantees**: scores are those of `Local`, to the last bit on one kind of device. Each chunk has a fresh
    process. A chunk whose process or node is lost is begun again, three times at most; then its models are
    failures. Only this process writes the store. Nodes that differ in what decides a result (the versions of
    packages, the kind of device, the data) are refused: one that joins later ends the run, by its name.

    **Edge cases**: nodes may come and go; a new one has work within a second. One chunk more than there is
    room for is handed to Ray, so that a cluster that grows by demand sees the demand. A process that has
    called ``ray.init`` itself keeps its connection; any other is disconnected when the run ends.

    >>> RayCluster(address="ray://head:10001")
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: address must be 'auto' or host:port, got 'ray://head:10001': the store is ...
    """

    id: ClassVar[str] = "ray"

    address: str = "auto"
    cpus_per_chunk: int = 1
    gpus_per_chunk: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.count(cpus_per_chunk=self.cpus_per_chunk, hint="It is the number of threads; write 1.")
        hint = "Write 1, 0.5 to have two chunks share one, or 0 to use none."
        _check.non_negative(gpus_per_chunk=self.gpus_per_chunk, hint=hint)
        host, _, port = self.address.rpartition(":")
        if self.address != "auto" and ("/" in host or not host or not port.isdigit()):
            raise InvalidInput(
                f"address must be 'auto' or host:port, got {self.address!r}: the store is written where this "
                "runs, which must be a node of the cluster. Write head-node:6379, as `ray start` prints it."
            )

    @contextmanager
    def opened(self, worker: Worker) -> Iterator[Crew]:
        """The nodes of the cluster, asked what they are before anything is trained."""
        with _connected(_ray(), self.address):
            yield _Cluster(self, worker)


def _ray() -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing is reported to anyone
    try:
        import ray
    except ModuleNotFoundError as missing:
        raise InvalidInput(
            "backend must be local here, got 'ray': Ray is not installed. Write: pip install 'dpgap[ray]'"
        ) from missing
    return ray


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    if ray.is_initialized():
        if address != "auto":
            there = ray.get_runtime_context().gcs_address
            raise InvalidInput(
                f"address must be left out here, got {address!r}: this process is connected to {there} "
                "already. Or call ray.shutdown() first."
            )
        yield
        return
    _check_reached(address)
    with redirect_stdout(_Quietened(sys.stdout)):
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield
        finally:
            ray.shutdown()


class _Quietened:
    """Standard output, but for what Ray's own thread would print among the results: that goes to the log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if threading.current_thread().name != "ray_listen_error_messages":
            return self._stream.write(text)
        _LOG.debug("%s", text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _check_reached(address: str) -> None:
    """Refuse an address that does not answer, in seconds; Ray itself tries for minutes."""
    address = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    try:
        if address != "auto":
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=_REACHED_WITHIN_S).close()
        # A port that is open need not be Ray's, and Ray cannot be told how long to wait.
        subprocess.run(
            [sys.executable, "-c", _CONNECT, address],
            capture_output=True,
            check=True,
            text=True,
            timeout=_REACHED_WITHIN_S,
        )
    except subprocess.CalledProcessError as ended:
        reason = ended.stderr.strip().rpartition("\n")[2]
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        reason = "no answer" if isinstance(problem, subprocess.TimeoutExpired) else str(problem)
    else:
        return
    raise InvalidInput(
        f"address must be that of a Ray cluster, got {address!r}, where none can be joined from here "
        f"({reason}). Write `ray start --head` on the machine that leads, `ray start --address=HOST:6379` on "
        "every other one, this one too, and give HOST:6379."
    )


@dataclass(frozen=True, kw_only=True)
class _Site:
    """What must be the same wherever models of one audit are trained."""

    versions: dict[str, str]
    machine: str
    device_kind: str
    data: str

    @classmethod
    def of(cls, worker: Worker) -> "_Site":
        made_by = provenance()
        return cls(
            versions=made_by["versions"],
            machine=made_by["machine"],
            device_kind=worker.device_kind(),
            data=worker.data(),
        )

    def facts(self) -> dict[str, str]:
        others = {"machine": self.machine, "kind of device": self.device_kind, "data": self.data[:12]}
        return self.versions | others

    def check(self, expected: "_Site", where: str) -> None:
        """Refuse a machine that differs, by the first difference."""
        ours, theirs = self.facts(), expected.facts()
        for name in theirs.keys() | ours.keys():
            if ours.get(name) != theirs.get(name):
                raise InvalidInput(
                    f"Node {where} differs from the others: {name} is {ours.get(name)!r} there and "
                    f"{theirs.get(name)!r} elsewhere. Models of one audit must be made alike; mend that node "
                    "or leave it out, then run the same again: what is in the store is kept."
                )


def _unpacked(dpgap: str, pickled: bytes) -> tuple[Worker, _Site, str]:
    """What was sent, and what this machine is, with its name: run on the cluster."""
    where, here = socket.gethostname(), version("dpgap")
    if here != dpgap:  # before anything of another version is unpickled
        raise InvalidInput(
            f"Node {where} has dpgap {here} and the machine that leads the run has {dpgap}: results of two "
            "versions are not mixed. Install the same one on every node."
        )
    worker = pickle.loads(pickled)
    try:
        return worker, _Site.of(worker), where
    except DpgapError as problem:
        raise InvalidInput(f"On node {where}: {problem}") from problem


def _found_there(dpgap: str, pickled: bytes) -> tuple[_Site, str]:
    """What a node is, and its name: run on the cluster."""
    return _unpacked(dpgap, pickled)[1:]


def _trained_there(dpgap: str, pickled: bytes, chunk: bytes, cpus: int, expected: _Site) -> bytes:
    """What comes of one chunk: run on the cluster, in a process of its own."""
    # Before torch, or whatever else trains, is loaded: the process is fresh.
    os.environ["OMP_NUM_THREADS"] = str(cpus)
    worker, site, where = _unpacked(dpgap, pickled)
    site.check(expected, where)
    # As bytes, because Ray makes arrays read-only, which training functions need not expect.
    return pickle.dumps(trained(worker, pickle.loads(chunk)))


class _Sent(NamedTuple):
    chunk: Chunk
    lost: tuple[str, ...] = ()


class _Cluster(Crew):
    """The cluster that this process is connected to."""

    def __init__(self, backend: RayCluster, worker: Worker) -> None:
        self._ray, self._cpus = _ray(), backend.cpus_per_chunk
        self._needs = self._needed(backend, worker)
        self._check_room()
        resources = {"num_cpus": self._needs["CPU"], "num_gpus": self._needs.get("GPU", 0)}
        # A fresh process for each chunk; and retries that are told and counted here.
        self._remote = self._ray.remote(max_calls=1, max_retries=0, **resources)
        self._worker = self._ray.put(self._pickled(worker))
        self._site = self._probed(worker)
        self.device_kind = self._site.device_kind
        self.provenance = provenance() | {"versions": self._site.versions, "machine": self._site.machine}

    def _needed(self, backend: RayCluster, worker: Worker) -> dict[str, float]:
        """What a chunk asks Ray for."""
        cpus, device = {"CPU": float(backend.cpus_per_chunk)}, worker.execution.device
        has_gpus = any(node.get("GPU", 0) > 0 for node in self._nodes())
        if device == "cuda" and not has_gpus:
            raise InvalidInput(
                "device must be 'cpu' or 'auto' here, got 'cuda': no node of the Ray cluster has a GPU. "
                "`ray status` shows what is there; `ray start --num-gpus=1` says that a node has one."
            )
        wants_gpus = has_gpus and device != "cpu" and backend.gpus_per_chunk > 0
        return cpus | {"GPU": backend.gpus_per_chunk} if wants_gpus else cpus

    def _nodes(self) -> list[dict[str, float]]:
        """What each node that is alive has."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _check_room(self) -> None:
        if not self._room():
            needs = " and ".join(f"{count:g} {name}" for name, count in self._needs.items())
            raise InvalidInput(
                f"No node of the Ray cluster has {needs}, which a chunk takes. Start a node that has, or ask "
                "for less by cpus_per_chunk and gpus_per_chunk; `ray status` shows what is there."
            )

    def _room(self) -> int:
        return sum(
            min(int(node.get(name, 0.0) / count + 1e-9) for name, count in self._needs.items())
            for node in self._nodes()
        )

    def _pickled(self, worker: Worker) -> bytes:
        try:
            return self._ray.cloudpickle.dumps(worker)
        except UNPICKLABLE as problem:
            raise InvalidInput(
                f"backend must be local here: what trains cannot be sent to another machine ({problem}). "
                "Take open files, locks and connections out of what train refers to; open them inside it."
            ) from problem

    def _probed(self, worker: Worker) -> _Site:
        """What a node is that has room for a chunk; it must have this machine's dpgap and data."""
        found = self._remote(_found_there).remote(version("dpgap"), self._worker)
        site, where = self._got(found)
        site.check(replace(site, data=worker.data()), where)
        return site

    @property
    def at_once(self) -> int:
        return max(1, self._room())

    def train(self, chunks: Iterator[Chunk]) -> Generator[list[Outcome]]:
        running: dict[Any, _Sent] = {}
        again: deque[_Sent] = deque()
        try:
            while True:
                room = self._room() + 1
                while len(running) < room and (sent := again.popleft() if again else _next(chunks)):
                    running[self._begun(sent)] = sent
                if not running:
                    return
                for reference in self._ray.wait(list(running), timeout=_POLL_S)[0]:
                    sent = running.pop(reference)
                    try:
                        outcomes = pickle.loads(self._got(reference))
                    except _LostError as lost:
                        sent = sent._replace(lost=(*sent.lost, str(lost)))
                        if len(sent.lost) <= _RETRIES:
                            again.append(_told(sent))
                            continue
                        outcomes = failed(sent.chunk, _given_up(sent))
                    yield outcomes
        finally:
            for reference in running:
                self._ray.cancel(reference, force=True)

    def _begun(self, sent: _Sent) -> Any:
        chunk = pickle.dumps(sent.chunk)
        return self._remote(_trained_there).remote(
            version("dpgap"), self._worker, chunk, self._cpus, self._site
        )

    def _got(self, reference: Any) -> Any:
        """What a task gave back; a node that refused its work is an error, one that is gone is lost."""
        known = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except known.RayTaskError as refused:
            cause = refused.cause
            if isinstance(cause, DpgapError):
                raise InvalidInput(str(cause)) from None
            raise InvalidInput(
                f"Node {refused.ip} cannot train ({type(cause).__name__}: {cause}). Every node needs the "
                "packages and files that this machine has; `Run on a cluster` says how they get there."
            ) from refused
        except known.RayError as lost:
            raise _LostError(type(lost).__name__) from lost


class _LostError(Exception):
    """A process of the cluster that is gone, or its node."""


def _next(chunks: Iterator[Chunk]) -> _Sent | None:
    chunk = next(chunks, None)
    return None if chunk is None else _Sent(chunk)


def _told(sent: _Sent) -> _Sent:
    _LOG.warning(
        "A worker of the cluster was lost (%s), and with it models %d to %d; they are begun again, %d of %d.",
        sent.lost[-1],
        sent.chunk[0].model,
        sent.chunk[-1].model,
        len(sent.lost),
        _RETRIES,
    )
    return sent


def _given_up(sent: _Sent) -> str:
    return (
        f"its worker on the cluster was lost {len(sent.lost)} times ({', '.join(sent.lost)}): killed, out of "
        "memory, or its node removed; the logs of Ray on that node, in /tmp/ray, say which"
    )
