# SPDX-License-Identifier: Apache-2.0
"""Trials on a Dask cluster: who is refused, what is run again, what is ended. Only the guests are not real.

Scheduler and workers are in this process, where guests can be replaced; real workers are processes in
integration/test_cluster.py.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from campaign_world import SPEC, Rows, World, failing, results, undisturbed
from distributed import LocalCluster, get_worker
from distributed.diagnostics.plugin import SchedulerPlugin
from harness_builders import PATIENCE_S, provenance, spec
from riobed.campaign import cluster
from riobed.campaign.cluster import ClusterWorkers
from riobed.campaign.workers import Guests
from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.guest.assembly import GuestSetup
from riobed.guest.guest import Guest
from riobed.plan import CampaignSpec, plan
from riobed.trial.record import TrialRecord
from riobed_results.store import Provenance, TrialRow

HOST = provenance(accelerator="tcg", harness="5a5a", image="feed", workload="beef", dask="2026.8.0")
# As many trials as crashes: the number of workers then makes no difference to the plan.
FIXED = spec(**(SPEC.model_dump() | {"crashes_per_cell": 4, "max_trials_per_cell": 4}))
PLANNED = list(plan(FIXED))


class Cluster:
    """A scheduler, workers, and a campaign that has its trials run by them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.said: list[str] = []
        self.ran_on: Counter[str] = Counter()
        self.hosts: list[Provenance] = []
        self.patience_s = PATIENCE_S
        self.dask = LocalCluster(
            n_workers=0, processes=False, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        )

    def provenance(self, *_: object) -> Provenance:
        """What the next host that is asked is; without `hosts` all are the same."""
        return self.hosts.pop(0) if self.hosts else HOST

    def run_trial(self, guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        self.ran_on[get_worker().address] += 1
        self.world.run_trial(guest, spec, record)

    def scale(self, count: int) -> list[str]:
        """Addresses of so many workers."""
        self.dask.scale(count)
        until(lambda: len(self.dask.scheduler.workers) == count)
        return list(self.dask.scheduler.workers)

    def workers(self, spec: CampaignSpec = FIXED) -> ClusterWorkers:
        address, setup = self.dask.scheduler_address, self.world.setup()
        return ClusterWorkers(address, spec, setup, self.said.append, self.patience_s)

    def run(self, workers: ClusterWorkers | None = None) -> list[TrialRow]:
        self.world.campaign(FIXED).run(workers or self.workers(), self.world.reported.append)
        return self.world.rows()

    def lose_this_worker(self) -> None:
        """What Dask does when a host falls silent."""
        self.dask.sync(self.dask.scheduler.remove_worker, get_worker().address, stimulus_id="test")

    def loses(self, disaster: Callable[[], object], at: int) -> None:
        """In the trial at that position, which then waits until its guest is ended."""

        def before(guest: Any, position: int) -> None:
            if position == at:
                disaster()
                assert guest.machine.discarded.wait(PATIENCE_S)

        self.world.before = before

    def all_discarded(self) -> bool:
        return all(machine.discards for machine in self.world.machines)


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(World(monkeypatch, tmp_path))
    monkeypatch.setattr(cluster, "guest_setup", lambda *_: made.world.setup())
    monkeypatch.setattr(cluster, "Guests", partial(Guests, run=made.run_trial))
    monkeypatch.setattr(cluster, "host_provenance", made.provenance)
    yield made
    with suppress(TimeoutError):  # one test has ended the scheduler already
        made.dask.close(2)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What threads of one process leave."""
    with pytest.MonkeyPatch.context() as patch:
        return results(World(patch, tmp_path_factory.mktemp("undisturbed")).run(FIXED))


def test_the_same_rows_as_without_a_cluster(dask: Cluster, expected: Rows) -> None:
    dask.scale(2)
    workers = dask.workers()
    # On a busy host the second one may join after the first has run all trials.
    until(lambda: workers.slots() == 2)
    rows = dask.run(workers)
    assert results(rows) == expected
    assert [row.attempt for row in rows] == [1] * len(rows)
    assert all(row.log and (dask.world.folder / row.log).exists() for row in rows)
    assert len(dask.ran_on) == 2
    until(dask.all_discarded)
    assert len(dask.world.machines) == 2 * len(FIXED.modes)


@pytest.mark.parametrize(
    "field", ["kernel_build_id", "qemu_version", "accelerator", "image", "workload", "harness", "dask"]
)
def test_a_worker_that_is_another_is_refused_in_one_line(dask: Cluster, field: str) -> None:
    (address,) = dask.scale(1)
    # This host asks first.
    dask.hosts = [HOST, HOST.model_copy(update={field: "0000"})]
    with pytest.raises(EnvironmentFault, match="has no worker for this campaign"):
        dask.run()
    (line,) = dask.said
    assert "\n" not in line and f"({address}) is refused: its {field} is 0000, not" in line
    assert not dask.world.started


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (EnvironmentFault("nothing is set up in /srv: run make setup"), "nothing is set up in /srv: run"),
        (KeyError("two\nlines"), "KeyError: "),
    ],
)
def test_a_broken_worker_is_refused(
    dask: Cluster, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(cluster, "guest_setup", broken)
    dask.scale(1)
    with pytest.raises(EnvironmentFault, match="has no worker"):
        dask.run()
    (said,) = dask.said
    assert f"is refused: {line}" in said and "\n" not in said


@pytest.fixture
def hanging(dask: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The first of two workers that is asked does not answer until this is set."""
    wake, first = threading.Event(), threading.Lock()

    def setup(*_: object) -> GuestSetup:
        if first.acquire(blocking=False):
            assert wake.wait(PATIENCE_S)
        return dask.world.setup()

    monkeypatch.setattr(cluster, "guest_setup", setup)
    dask.patience_s = 2.0
    dask.scale(2)
    yield wake
    wake.set()


def test_the_others_work_without_one_that_hangs(
    dask: Cluster, expected: Rows, hanging: threading.Event
) -> None:
    assert results(dask.run()) == expected
    assert len(dask.ran_on) == 1


def test_a_worker_that_answers_too_late_keeps_nothing(dask: Cluster, hanging: threading.Event) -> None:
    workers = dask.workers()
    workers.close()
    until(lambda: workers._token not in dask.dask.scheduler.worker_plugins)
    hanging.set()
    until(lambda: len(dask.world.machines) == 2 * len(FIXED.modes))
    until(dask.all_discarded)


def elsewhere_another(name: str) -> str:
    """As importlib.metadata.version; the campaign is run by the main thread, the scheduler is not."""
    return "2024.1.0" if threading.current_thread() is threading.main_thread() else version(name)


def test_a_scheduler_of_another_dask_is_refused(dask: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "version", elsewhere_another)
    dask.scale(1)
    with pytest.raises(EnvironmentFault, match=r"^scheduler .*its Dask is .*, the campaign's is 2024\.1\.0"):
        dask.run()


def test_a_scheduler_without_riobed_is_refused(dask: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unknown:
        """To be unpickled it takes a module that is not there."""

        name = "unknown"

        def __reduce__(self) -> tuple[object, ...]:
            return __import__, ("riobed_of_another_day",)

    monkeypatch.setattr(cluster, "CleanupPlugin", type("Cleanup", (Unknown, SchedulerPlugin), {}))
    dask.scale(1)
    with pytest.raises(EnvironmentFault, match=r"^[^\n]*: ModuleNotFoundError: .*the campaign's sources"):
        dask.run()


def test_a_late_worker_is_used(dask: Cluster, expected: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riobed.campaign.campaign._LOOK_AGAIN_S", 0.1)
    dask.scale(1)
    meeting = threading.Barrier(2, timeout=PATIENCE_S)

    def before(guest: Guest, position: int) -> None:
        if position == 0:
            dask.dask.scale(2)
        if position < 2:
            meeting.wait()

    dask.world.before = before
    assert results(dask.run()) == expected
    assert len(dask.ran_on) == 2


def test_the_trial_of_a_lost_worker_is_run_again(dask: Cluster, expected: Rows) -> None:
    dask.scale(2)
    lost = []

    def before(guest: Any, position: int) -> None:
        if position == 3 and not lost:
            lost.append(get_worker().address)
            dask.lose_this_worker()
            assert guest.machine.discarded.wait(PATIENCE_S)
            raise InfraError("the machine is gone")

    dask.world.before = before
    rows = dask.run()
    assert results(rows) == expected
    assert [row.attempt for row in rows] == [1] * len(rows)
    assert dask.world.started.count(3) == 2
    assert [line for line in dask.said if line.startswith(f"worker {lost[0]} is gone")]


def test_a_trial_that_loses_every_worker_stops_the_campaign(dask: Cluster) -> None:
    dask.scale(2)
    dask.dask.scheduler.allowed_failures = 1
    dask.loses(dask.lose_this_worker, at=3)
    with pytest.raises(EnvironmentFault, match=r"^trial 3 \(rio, delete_branch\): every worker .* was lost"):
        dask.run()
    assert 3 not in [row.position for row in dask.world.rows()]


def test_an_infra_error_is_a_row_and_the_trial_runs_again(dask: Cluster) -> None:
    dask.scale(1)
    dask.world.before = failing(InfraError("QEMU died during a trial"), lambda at: at == 3, times=1)
    attempts = [row for row in dask.run() if row.position == 3]
    assert [(row.attempt, row.outcome == "infra_error") for row in attempts] == [(1, True), (2, False)]
    assert attempts[0].detail == "QEMU died during a trial" and attempts[0].log


def test_a_worker_without_room_is_named(dask: Cluster) -> None:
    (address,) = dask.scale(1)
    dask.world.before = failing(EnvironmentFault("/var/tmp: 3 MiB free; make room there"), lambda _: True)
    with pytest.raises(EnvironmentFault, match=rf"^worker .*{address}.* 3 MiB free; make room there$"):
        dask.run()


def test_ctrl_c_ends_guests_and_trials_under_way(dask: Cluster, expected: Rows) -> None:
    dask.scale(2)

    def before(guest: Any, position: int) -> None:
        if position == 4:
            assert guest.machine.discarded.wait(PATIENCE_S)
            raise InfraError("the machine is gone")

    def report(row: TrialRow) -> None:
        if row.position >= 5:
            raise KeyboardInterrupt

    dask.world.before = before
    with pytest.raises(KeyboardInterrupt):
        dask.world.campaign(FIXED).run(dask.workers(), report)
    until(dask.all_discarded)
    dask.world.before = undisturbed
    rows = dask.run()
    assert results(rows) == expected and len(rows) == len(expected)


def test_a_campaign_that_is_cut_off_stops_and_its_guests_go(dask: Cluster) -> None:
    """SIGKILL of the campaign and a network that fails are the same to the scheduler."""
    dask.scale(1)
    workers = dask.workers()
    dask.loses(lambda: dask.dask.loop.add_callback(workers._client.scheduler_comm.comm.abort), at=2)
    with pytest.raises(EnvironmentFault, match=r"^scheduler .* does not answer"):
        dask.run(workers)
    until(dask.all_discarded)
    assert [row.position for row in dask.world.rows()] == [0, 1]
    dask.world.before = undisturbed
    assert sorted(row.position for row in dask.run()) == [planned.position for planned in PLANNED]


def test_a_scheduler_that_ends_stops_the_campaign(dask: Cluster) -> None:
    dask.scale(1)
    dask.loses(lambda: dask.dask.loop.add_callback(dask.dask.scheduler.close), at=2)
    with pytest.raises(EnvironmentFault, match=r"^scheduler .* does not answer; start it"):
        dask.run()
    assert [row.position for row in dask.world.rows()] == [0, 1]


def test_a_scheduler_that_ended_is_not_waited_for(dask: Cluster) -> None:
    dask.scale(1)
    dask.patience_s = 100 * PATIENCE_S
    with ThreadPoolExecutor(1) as pool, closing(dask.workers()) as workers:
        dask.dask.sync(dask.dask.scheduler.close)
        assert "does not answer" in str(pool.submit(workers.slots).exception(PATIENCE_S))


def test_a_lost_connection_stays_lost_when_dask_connects_again(dask: Cluster) -> None:
    """Between two trials there is none to be cancelled, and no worker has the campaign's guests any more."""
    dask.scale(1)
    with closing(dask.workers()) as workers:
        lost = workers._client.scheduler_comm
        dask.dask.loop.add_callback(lost.comm.abort)
        until(lambda: workers._client.scheduler_comm not in (None, lost))
        with pytest.raises(EnvironmentFault, match="does not answer"):
            workers.slots()


def test_two_campaigns_on_one_worker_have_guests_of_their_own(dask: Cluster) -> None:
    dask.scale(1)
    both = [dask.workers(FIXED), dask.workers(FIXED.model_copy(update={"modes": ["rio"]}))]
    for workers in both:
        attempt = workers.submit(PLANNED[1], []).result(PATIENCE_S)
        assert attempt.error == "" and attempt.record.planned.mode == "rio"
    folders = [machine.config.folder for machine in dask.world.machines]
    assert len(set(folders)) == len(folders) == len(FIXED.modes) + 1
    for workers in both:
        workers.close()


@pytest.mark.parametrize(
    "address", ["nonsense", "tcp://", "ftp://host:1", "tcp://127.0.0.1:1", "tls://127.0.0.1:1"]
)
def test_an_address_that_leads_nowhere_is_one_line(dask: Cluster, address: str) -> None:
    with pytest.raises((UsageError, EnvironmentFault)) as caught:
        ClusterWorkers(address, FIXED, dask.world.setup(), dask.said.append, patience_s=0.5)
    assert str(caught.value).startswith(f"scheduler {address}: ") and "\n" not in str(caught.value)


def test_a_busy_host_is_given_time_to_connect(dask: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """distributed fails an assertion if the thread of its event loop does not begin within 10 s."""
    real, failures = cluster.Client, [AssertionError()]

    def client(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(*arguments, **options)

    monkeypatch.setattr(cluster, "Client", client)
    dask.scale(1)
    dask.workers().close()
    failures.extend(AssertionError() for _ in range(9))
    with pytest.raises(EnvironmentFault, match=r"^scheduler .*: this host is too busy to connect to it"):
        dask.workers()
