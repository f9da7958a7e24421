"""A Ray cluster of real processes has this machine's scores, whatever is killed, removed or added."""

import logging
import socket
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from dpgap.errors import InvalidInput
from dpgap.experiments.backends import ray as ray_backend
from dpgap.experiments.backends.local import Local
from dpgap.experiments.backends.ray import RayCluster
from dpgap.experiments.from_experiment import job_of
from dpgap.experiments.progress import Quiet
from dpgap.experiments.run import run
from dpgap.store.records import STATISTIC
from dpgap.store.store import Store
from dpgap.testing import check_backend
from dpgap.training.execution import Execution
from tests.experiments.jobs import experiment, job, noisy_sum
from tests.experiments.light import Light, dies_or_raises, killed_once, moved, nothing

ROOT = Path(__file__).parents[2]
SMALL = {"object_store_memory": 80_000_000, "include_dashboard": False}
# A node is known to be dead after a second, not after the usual half minute.
SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_failure_threshold": 3,
}


@pytest.fixture(scope="module")
def cluster():
    """A head that trains nothing, a node of two processors, and this process, which has joined them."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(ROOT))
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        environment.delenv("RAY_ADDRESS", raising=False)
        head = {"num_cpus": 0, "_system_config": SOON, **SMALL}
        whole = Cluster(initialize_head=True, head_node_args=head)
        whole.add_node(num_cpus=2, **SMALL)
        ray.init(whole.address, log_to_driver=False, logging_level=logging.ERROR)
        yield whole
        ray.shutdown()
        whole.shutdown()


@pytest.fixture
def fours(cluster) -> RayCluster:
    """Chunks of four models."""
    return RayCluster(models_at_once=4)


def light(first=nothing):
    return replace(job(), worker=Light(first=first))


def scores(store: Store, key: str) -> bytes:
    return store.array(key, STATISTIC).tobytes()


def locally(whole) -> bytes:
    store = Store(":memory:")
    return scores(store, run(whole, store).key)


def losses(caplog) -> list[str]:
    return [record.message for record in caplog.records if "was lost" in record.message]


def test_ray_keeps_the_contract_of_backends(cluster):
    check_backend(RayCluster())


@pytest.mark.parametrize("processes", [0, 2])
def test_this_machine_keeps_the_contract_of_backends(processes):
    check_backend(Local(processes=processes))


def test_networks_trained_with_two_threads_elsewhere_have_the_scores_of_this_process_bit_for_bit(cluster):
    store, backend = Store(":memory:"), RayCluster(cpus_per_chunk=2, models_at_once=8)
    audit = run(job_of(experiment()), store, backend=backend)
    assert audit.status == "finished"
    assert scores(store, audit.key) == locally(job_of(experiment()))


def test_a_closure_travels_and_has_as_many_threads_as_its_chunk_has_processors(cluster):
    import torch

    store, digit = Store(":memory:"), 2.0**-33

    def threads(x, y, seed):
        return lambda rows, labels: [torch.get_num_threads() + digit * seed] * len(rows)

    backend = RayCluster(cpus_per_chunk=2, models_at_once=19)
    key = run(job(threads), store, backend=backend).key
    assert {int(value) for value in store.array(key, STATISTIC).ravel()} == {2}


def test_what_cannot_travel_is_refused(cluster):
    with socket.socket() as held, pytest.raises(InvalidInput, match=r"backend must be local here.*socket"):
        run(job(lambda x, y, seed: held), Store(":memory:"), backend=RayCluster())


def holds_no_store(x, y, seed):
    held = [file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    assert not [each for each in held if ".sqlite" in each.name], held
    return noisy_sum(x, y, seed)


class _Interrupted(Quiet):
    def advanced(self, done, planned, bound):
        raise KeyboardInterrupt


def test_the_driver_alone_writes_the_store_and_another_backend_goes_on(fours, tmp_path):
    whole = job(holds_no_store)
    with closing(Store(tmp_path / "store.sqlite")) as store:
        with pytest.raises(KeyboardInterrupt):
            run(whole, store, backend=fours, watcher=_Interrupted())
        assert store.failures(whole.key) == {}
        assert len(store.done(whole.key)) == 5
        audit = run(replace(whole, worker=job().worker), store)
        assert scores(store, audit.key) == locally(job())


def test_three_workers_killed_in_mid_chunk_are_counted_and_change_no_score(cluster, tmp_path, caplog):
    store, whole = Store(":memory:"), light(partial(killed_once, folder=tmp_path))
    audit = run(whole, store, backend=RayCluster(models_at_once=10))
    assert {file.name for file in tmp_path.iterdir()} == {"3", "9", "16"}
    assert len(losses(caplog)) == 3
    assert all("WorkerCrashedError" in told for told in losses(caplog))
    assert (audit.status, audit.models, audit.notes) == ("finished", 20, ())
    assert scores(store, audit.key) == locally(light())


def test_a_chunk_is_given_up_after_four_losses_and_after_one_exception(cluster, tmp_path):
    store, log = Store(":memory:"), tmp_path / "log"
    backend = RayCluster(models_at_once=3)
    audit = run(light(partial(dies_or_raises, log=log)), store, backend=backend)
    begun = log.read_text().split()
    assert (begun.count("7"), begun.count("14")) == (4, 1)
    lost = store.failures(audit.key)
    assert set(lost) == {7, 8, 9, 13, 14, 15}
    assert "its worker on the cluster was lost 4 times (WorkerCrashedError, " in lost[7]
    assert "RuntimeError: out of luck" in lost[14]
    assert store.done(audit.key) == set(range(20)) - set(lost)


class _Moving(Quiet):
    """Adds a node after the trial; when a chunk is there, takes it away and adds another."""

    def __init__(self, cluster, folder: Path):
        self._cluster, self._folder = cluster, folder

    def _added(self, role: str):
        return self._cluster.add_node(num_cpus=1, env_vars={"ROLE": role}, **SMALL)

    def forecast(self, forecast):
        self._doomed = self._added("doomed")
        (self._folder / "trial is over").touch()

    def advanced(self, done, planned, bound):
        if not (self._folder / "removed").exists():
            (self._folder / "removed").touch()
            self._cluster.remove_node(self._doomed, allow_graceful=False)
            self.late = self._added("late")


def test_a_node_removed_and_one_added_in_mid_run_change_no_score(cluster, fours, tmp_path, caplog):
    store, watcher = Store(":memory:"), _Moving(cluster, tmp_path)
    audit = run(light(partial(moved, folder=tmp_path)), store, backend=fours, watcher=watcher)
    cluster.remove_node(watcher.late)
    assert (tmp_path / "began on late").exists()
    assert len(losses(caplog)) == 1
    assert (audit.status, audit.models, audit.notes) == ("finished", 20, ())
    assert scores(store, audit.key) == locally(light())


@dataclass
class _Adding(Quiet):
    cluster: Cluster

    def forecast(self, forecast):
        self.added = self.cluster.add_node(num_cpus=2, env_vars={"KIND": "cuda T4"}, **SMALL)


def test_a_node_that_joins_with_another_kind_of_device_ends_the_run(cluster, fours):
    store, watcher = Store(":memory:"), _Adding(cluster)
    with pytest.raises(InvalidInput, match=r"kind of device is 'cuda T4' there and 'cpu x' elsewhere"):
        run(light(), store, backend=fours, watcher=watcher)
    cluster.remove_node(watcher.added)
    assert store.done(light().key)


def test_data_that_differ_from_the_drivers_are_refused_before_the_first_model(cluster, monkeypatch):
    store = Store(":memory:")
    monkeypatch.setenv("ROWS", "of the driver")
    with pytest.raises(InvalidInput, match=r"data is 'rows' there and 'of the drive' elsewhere"):
        run(light(), store, backend=RayCluster())
    assert not store.done(light().key)


def test_another_version_of_dpgap_is_refused(cluster, monkeypatch):
    monkeypatch.setattr(ray_backend, "version", lambda _: "9.9")
    with pytest.raises(InvalidInput, match=r"has dpgap 0.* and the machine that leads the run has 9\.9"):
        run(light(), Store(":memory:"), backend=RayCluster())


def test_the_device_is_that_of_the_nodes(cluster, monkeypatch):
    monkeypatch.setenv("KIND", "cuda of the driver")
    store = Store(":memory:")
    run(light(), store, backend=RayCluster(models_at_once=19))
    (summary,) = store.experiments()
    assert summary.device_kind == "cpu x"


def test_a_chunk_takes_a_gpu_where_there_is_one_unless_it_is_told_not_to(cluster):
    on_cpu = Light(execution=Execution(device="cpu"))
    added = cluster.add_node(num_cpus=4, num_gpus=1, **SMALL)
    with RayCluster(gpus_per_chunk=0.5).opened(Light()) as crew:
        assert crew.at_once == 2
    for backend, worker in ((RayCluster(), on_cpu), (RayCluster(gpus_per_chunk=0), Light())):
        with backend.opened(worker) as crew:
            assert crew.at_once == 6
    cluster.remove_node(added)


def test_what_no_node_has_is_refused_at_once(cluster):
    with pytest.raises(InvalidInput, match="No node of the Ray cluster has 64 CPU"):
        run(light(), Store(":memory:"), backend=RayCluster(cpus_per_chunk=64))
    on_gpu = replace(light(), worker=Light(execution=Execution(device="cuda")))
    with pytest.raises(InvalidInput, match="no node of the Ray cluster has a GPU"):
        run(on_gpu, Store(":memory:"), backend=RayCluster())


def test_a_process_that_has_joined_a_cluster_itself_stays_in_it(cluster):
    with pytest.raises(InvalidInput, match="address must be left out here"):
        run(light(), Store(":memory:"), backend=RayCluster(address=cluster.address))
    assert ray.is_initialized()


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r"pip install 'dpgap\[ray\]'"):
        run(light(), Store(":memory:"), backend=RayCluster())


@pytest.mark.parametrize("address", ["ray://head:10001", "head", ":6379", "local"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(InvalidInput, match="address must be 'auto' or host:port"):
        RayCluster(address=address)
