# SPDX-License-Identifier: Apache-2.0
"""Trials on a Dask cluster: who is refused, what is run again, what is ended. Only the guests are not real.

Scheduler and workers are in this process, where guests can be replaced; real workers are processes in
integration/test_cluster.py.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest
from campaign_world import SPEC, World, essence, result
from distributed import LocalCluster, get_worker
from distributed.diagnostics.plugin import SchedulerPlugin
from harness_builders import spec
from riobed.campaign import cluster
from riobed.campaign.cluster import ClusterWorkers
from riobed.campaign.workers import Guests
from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.guest.guest import Guest, GuestSetup
from riobed.plan.rounds import plan
from riobed.plan.spec import CampaignSpec
from riobed.trial.record import TrialRecord
from riobed_results.store.models import TrialRow
from riobed_results.store.provenance import Provenance

HOST = Provenance(
    seed="1",
    kernel_release="6.12.107",
    kernel_build_id="0123abcd",
    series_commit="feed",
    qemu_version="QEMU emulator version 7.2.0",
    accelerator="tcg",
    created="",
    harness="5a5a",
    image="feed",
    workload="beef",
    dask="2026.8.0",
)
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
        self.dask = LocalCluster(
            n_workers=0, processes=False, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        )
        world.trial = self.trial

    def provenance(self, *_: object) -> Provenance:
        """What the next host that is asked is; without `hosts` all are the same."""
        return self.hosts.pop(0) if self.hosts else HOST

    def trial(self, guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        self.ran_on[get_worker().address] += 1
        result(guest, spec, record)

    def scale(self, count: int) -> None:
        self.dask.scale(count)
        until(lambda: len(self.dask.scheduler.workers) == count)

    def workers(self, spec: CampaignSpec = FIXED) -> ClusterWorkers:
        return ClusterWorkers(self.dask.scheduler_address, spec, self.world.setup(), self.said.append)

    def run(self) -> list[TrialRow]:
        self.world.campaign(FIXED).run(self.workers(), self.world.reported.append)
        return self.world.rows()

    def lose_this_worker(self) -> None:
        """What Dask does when a host falls silent."""
        self.dask.sync(self.dask.scheduler.remove_worker, get_worker().address, stimulus_id="test")


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(World(monkeypatch, tmp_path))
    monkeypatch.setattr(cluster, "guest_setup", lambda *_: made.world.setup())
    monkeypatch.setattr(cluster, "Guests", partial(Guests, run=made.world.run_trial))
    monkeypatch.setattr(cluster, "host_provenance", made.provenance)
    monkeypatch.setattr(cluster, "_CONNECT_S", 2)
    yield made
    with suppress(TimeoutError):  # one test has ended the scheduler already
        made.dask.close(2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """What threads of one process leave."""
    with pytest.MonkeyPatch.context() as patch:
        return [essence(row) for row in World(patch, tmp_path_factory.mktemp("undisturbed")).run(FIXED)]


def test_the_same_rows_as_without_a_cluster(dask: Cluster, undisturbed: list[tuple[object, ...]]) -> None:
    dask.scale(2)
    rows = dask.run()
    assert sorted(map(essence, rows)) == undisturbed
    assert [row.attempt for row in rows] == [1] * len(rows)
    assert all(row.log and (dask.world.folder / row.log).exists() for row in rows)
    assert len(dask.ran_on) == 2
    until(lambda: all(machine.discards for machine in dask.world.machines))
    assert len(dask.world.machines) == 2 * len(FIXED.modes)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kernel_build_id", "ffff"),
        ("qemu_version", "QEMU emulator version 10.0.2"),
        ("accelerator", "kvm"),
        ("image", "0000"),
        ("workload", "0000"),
        ("harness", "0000"),
        ("dask", "2024.1.0"),
    ],
)
def test_a_worker_that_is_another_is_refused_in_one_line(dask: Cluster, field: str, value: str) -> None:
    dask.scale(1)
    (address,) = dask.dask.scheduler.workers
    # This host asks first.
    dask.hosts = [HOST, HOST.model_copy(update={field: value})]
    with pytest.raises(EnvironmentFault, match="has no worker for this campaign; run 'riobed worker"):
        dask.run()
    (line,) = dask.said
    assert "\n" not in line and f"({address}) is refused: its {field} is {value}, not" in line
    assert not dask.world.started


def test_the_others_work_without_the_refused(dask: Cluster, undisturbed: list[tuple[object, ...]]) -> None:
    dask.scale(2)
    dask.hosts = [HOST, HOST.model_copy(update={"accelerator": "kvm"})]
    assert sorted(map(essence, dask.run())) == undisturbed
    (busy,) = dask.ran_on
    (refused,) = dask.dask.scheduler.workers.keys() - {busy}
    assert [line for line in dask.said if "refused" in line and refused in line]


def test_a_worker_that_is_not_set_up_is_refused(dask: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        raise EnvironmentFault("nothing is set up in /srv/riobed: run make setup")

    monkeypatch.setattr(cluster, "guest_setup", nothing)
    dask.scale(1)
    with pytest.raises(EnvironmentFault, match="has no worker"):
        dask.run()
    assert dask.said[0].endswith("is refused: nothing is set up in /srv/riobed: run make setup")


def test_a_worker_that_breaks_is_refused_in_one_line(dask: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("two\nlines")

    monkeypatch.setattr(cluster, "guest_setup", broken)
    dask.scale(1)
    with pytest.raises(EnvironmentFault, match="has no worker"):
        dask.run()
    (line,) = dask.said
    assert "is refused: KeyError: " in line and "\n" not in line


class HangingWorker:
    """The first of two workers that is asked does not answer until `wake` is set."""

    def __init__(self, dask: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wake = threading.Event()
        self._dask = dask
        self._first = threading.Lock()
        monkeypatch.setattr(cluster, "guest_setup", self.guest_setup)
        dask.scale(2)

    def guest_setup(self, *_: object) -> GuestSetup:
        if self._first.acquire(blocking=False):
            assert self.wake.wait(30)
        return self._dask.world.setup()


def test_the_others_work_without_one_that_hangs(
    dask: Cluster, undisturbed: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = HangingWorker(dask, monkeypatch)
    try:
        assert sorted(map(essence, dask.run())) == undisturbed
        assert len(dask.ran_on) == 1
    finally:
        hanging.wake.set()


def test_a_worker_that_answers_a_campaign_that_is_gone_keeps_nothing(
    dask: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = HangingWorker(dask, monkeypatch)
    workers = dask.workers()
    workers.close()
    until(lambda: workers._token not in dask.dask.scheduler.worker_plugins)
    hanging.wake.set()
    until(lambda: len(dask.world.machines) == 2 * len(FIXED.modes))
    until(lambda: all(machine.discards for machine in dask.world.machines))


def elsewhere_another(name: str) -> str:
    """As importlib.metadata.version; the campaign is run by the main thread, the scheduler is not."""
    return "2024.1.0" if threading.current_thread() is threading.main_thread() else version(name)


def test_a_scheduler_of_another_dask_is_refused(dask: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "version", elsewhere_another)
    dask.scale(1)
    with pytest.raises(EnvironmentFault) as caught:
        dask.run()
    there = f"its Dask is {version('distributed')}, the campaign's is 2024.1.0; start it from"
    assert str(caught.value).startswith(f"scheduler {dask.dask.scheduler_address}: {there}")


def test_a_scheduler_without_riobed_is_refused(dask: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unknown:
        """To be unpickled it takes a module that is not there."""

        name = "unknown"

        def __reduce__(self) -> tuple[object, ...]:
            return __import__, ("riobed_of_another_day",)

    monkeypatch.setattr(cluster, "FarewellPlugin", type("Farewell", (Unknown, SchedulerPlugin), {}))
    dask.scale(1)
    with pytest.raises(EnvironmentFault) as caught:
        dask.run()
    assert ": ModuleNotFoundError: " in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).endswith("start it from the campaign's sources: .venv/bin/dask scheduler")


def test_a_worker_that_comes_later_is_used(
    dask: Cluster, undisturbed: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("riobed.campaign.campaign._LOOK_AGAIN_S", 0.1)
    dask.scale(1)
    meeting = threading.Barrier(2, timeout=20)

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position == 0:
            dask.dask.scale(2)
        if record.planned.position < 2:
            meeting.wait()
        dask.trial(guest, spec, record)

    dask.world.trial = trial
    assert sorted(map(essence, dask.run())) == undisturbed
    assert len(dask.ran_on) == 2


def test_the_trial_of_a_lost_worker_is_run_again(
    dask: Cluster, undisturbed: list[tuple[object, ...]]
) -> None:
    dask.scale(2)
    lost = []

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position == 3 and not lost:
            lost.append(get_worker().address)
            dask.lose_this_worker()
            assert guest.machine.discarded.wait(10)
            raise InfraError("the machine is gone")
        dask.trial(guest, spec, record)

    dask.world.trial = trial
    rows = dask.run()
    assert sorted(map(essence, rows)) == undisturbed
    assert [row.attempt for row in rows] == [1] * len(rows)
    assert dask.world.started.count(3) == 2
    assert [line for line in dask.said if line.startswith(f"worker {lost[0]} is gone")]


def test_a_trial_that_loses_every_worker_stops_the_campaign(dask: Cluster) -> None:
    dask.scale(2)
    dask.dask.scheduler.allowed_failures = 1

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position == 3:
            dask.lose_this_worker()
            assert guest.machine.discarded.wait(10)
        dask.trial(guest, spec, record)

    dask.world.trial = trial
    with pytest.raises(EnvironmentFault, match=r"^trial 3 \(rio, delete_branch\): every worker .* was lost"):
        dask.run()
    assert 3 not in [row.position for row in dask.world.rows()]


def test_an_infra_error_is_a_row_and_the_trial_runs_again(dask: Cluster) -> None:
    dask.scale(1)
    left = [InfraError("QEMU died during a trial")]

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        record.console = b"half a console"
        if record.planned.position == 3 and left:
            raise left.pop()
        dask.trial(guest, spec, record)

    dask.world.trial = trial
    attempts = [row for row in dask.run() if row.position == 3]
    assert [(row.attempt, row.outcome == "infra_error") for row in attempts] == [(1, True), (2, False)]
    assert attempts[0].detail == "QEMU died during a trial" and attempts[0].log


def test_a_worker_without_room_is_named(dask: Cluster) -> None:
    dask.scale(1)
    (address,) = dask.dask.scheduler.workers

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        raise EnvironmentFault("/var/tmp: 3 MiB free, 900 MiB needed; make room there")

    dask.world.trial = trial
    with pytest.raises(EnvironmentFault) as caught:
        dask.run()
    assert str(caught.value).startswith("worker ") and address in str(caught.value)
    assert str(caught.value).endswith("/var/tmp: 3 MiB free, 900 MiB needed; make room there")


def test_ctrl_c_ends_guests_and_trials_under_way(
    dask: Cluster, undisturbed: list[tuple[object, ...]]
) -> None:
    dask.scale(2)

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position == 4:
            assert guest.machine.discarded.wait(10)
            raise InfraError("the machine is gone")
        dask.trial(guest, spec, record)

    def report(row: TrialRow) -> None:
        if row.position >= 5:
            raise KeyboardInterrupt

    dask.world.trial = trial
    with pytest.raises(KeyboardInterrupt):
        dask.world.campaign(FIXED).run(dask.workers(), report)
    until(lambda: all(machine.discards for machine in dask.world.machines))
    dask.world.trial = dask.trial
    rows = dask.run()
    assert sorted(map(essence, rows)) == undisturbed
    assert not [row for row in rows if row.outcome == "infra_error"]


def test_a_campaign_that_is_cut_off_stops_and_its_guests_go(dask: Cluster) -> None:
    """SIGKILL of the campaign and a network that fails are the same to the scheduler."""
    dask.scale(1)
    workers = dask.workers()

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position == 2:
            comm = workers._client.scheduler_comm
            dask.dask.loop.add_callback(comm.comm.abort)
            assert guest.machine.discarded.wait(10)
        dask.trial(guest, spec, record)

    dask.world.trial = trial
    with pytest.raises(EnvironmentFault, match=r"^scheduler .* does not answer"):
        dask.world.campaign(FIXED).run(workers, dask.world.reported.append)
    until(lambda: all(machine.discards for machine in dask.world.machines))
    assert [row.position for row in dask.world.rows()] == [0, 1]
    dask.world.trial = dask.trial
    assert sorted(row.position for row in dask.run()) == [planned.position for planned in PLANNED]


def test_a_scheduler_that_ends_stops_the_campaign(dask: Cluster) -> None:
    dask.scale(1)

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position == 2:
            dask.dask.loop.add_callback(dask.dask.scheduler.close)
            assert guest.machine.discarded.wait(10)
        dask.trial(guest, spec, record)

    dask.world.trial = trial
    start = time.monotonic()
    with pytest.raises(EnvironmentFault, match=r"^scheduler .* does not answer; start it"):
        dask.run()
    assert time.monotonic() - start < 30
    assert [row.position for row in dask.world.rows()] == [0, 1]


def test_two_campaigns_on_one_worker_have_guests_of_their_own(dask: Cluster) -> None:
    dask.scale(1)
    both = [dask.workers(FIXED), dask.workers(FIXED.model_copy(update={"modes": ["rio"]}))]
    for workers in both:
        attempt = workers.submit(PLANNED[1], []).result(20)
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
        ClusterWorkers(address, FIXED, dask.world.setup(), dask.said.append)
    assert str(caught.value).startswith(f"scheduler {address}: ") and "\n" not in str(caught.value)
