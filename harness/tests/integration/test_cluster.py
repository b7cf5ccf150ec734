# SPDX-License-Identifier: Apache-2.0
"""A campaign on real workers with its store on a real PostgreSQL, in the face of SIGKILL."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from distributed import Client
from riobed.vm.host.process import qemus_with
from riobed_results.errors import StoreError
from riobed_results.store.queries import read_results
from riobed_results.store.store import open_store
from riobed_results.store.trial import TrialRow

from .conftest import RIOBED, check_drawn, small_spec

SPEC = small_spec("far", "rio, delayed", "copy_overrun, kernel_text, none", 1)
TRIALS = 6
SHORT = small_spec("near", "rio", "kernel_text, none", 1)
# Longer than it takes to interrupt it.
LONG = small_spec("far", "rio, delayed", "copy_overrun, kernel_text, none", 8)


def until(happened: Callable[[], object], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Site:
    """A scheduler and two workers, each started as its user starts it; what they say is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        (self.folder / "spec.yaml").write_text(SPEC)
        (self.folder / "long.yaml").write_text(LONG)
        (self.folder / "short.yaml").write_text(SHORT)
        where = self.folder / "scheduler.json"
        self.start(
            *(str(Path(sys.executable).with_name("dask")), "scheduler", "--no-dashboard"),
            *("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(where)),
        )
        until(where.exists)
        self.address = str(json.loads(where.read_text())["address"])
        self.workers = [self.start(*RIOBED, "worker", self.address, "--workers", "1") for _ in range(2)]
        # On a busy host a connection takes longer than Dask's usual limit.
        self.client = Client(self.address, timeout=120, set_as_default=False)
        self.client.wait_for_workers(2, timeout=120)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"said-{len(self.processes)}").open("wb") as file:
            self.processes.append(
                subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=self.folder)
            )
        return self.processes[-1]

    def campaign(self, store: str, spec: str = "spec.yaml") -> subprocess.Popen[bytes]:
        return self.start(*RIOBED, "run", spec, "--store", store, "--scheduler", self.address)

    def said(self, process: subprocess.Popen[bytes]) -> str:
        text = (self.folder / f"said-{self.processes.index(process)}").read_text()
        # A terminal that is none is 80 columns wide.
        return " ".join(text.split())

    def at_work(self, worker: subprocess.Popen[bytes]) -> bool:
        """Is it in the middle of a trial?"""
        pids: dict[str, int] = self.client.run(os.getpid)
        busy = self.client.processing()
        return any(pid == worker.pid and busy.get(address) for address, pid in pids.items())

    def end(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            # A worker ends its trial first.
            process.wait(240)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    try:
        made.begin()
        with made.client:
            yield made
    finally:
        made.end()


def rows_in(store: str) -> list[TrialRow]:
    try:
        return read_results(open_store(store)).rows
    except StoreError:
        return []


def guests_of(process: subprocess.Popen[bytes]) -> list[int]:
    return qemus_with(f"riobed-{process.pid}-".encode())


def listens_at(process: subprocess.Popen[bytes]) -> set[str]:
    sockets = psutil.Process(process.pid).net_connections("inet")
    return {found.laddr.ip for found in sockets if found.status == psutil.CONN_LISTEN}


def test_a_campaign_on_workers(site: Site, postgres: str) -> None:
    campaign = site.campaign(postgres, "short.yaml")
    assert campaign.wait(400) == 0, site.said(campaign)
    done = check_drawn(open_store(postgres))
    assert len(done) == 2
    assert all(row.log is None or (site.folder / row.log).exists() for row in done)


@pytest.mark.extended
def test_a_worker_that_is_killed_changes_nothing_in_the_table(site: Site, postgres: str) -> None:
    campaign = site.campaign(postgres)
    victim = site.workers[0]
    until(lambda: rows_in(postgres) and site.at_work(victim) and guests_of(victim))
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert len(rows_in(postgres)) < TRIALS - 2 and guests_of(victim), "it was to be killed in the middle"
    assert campaign.wait(400) == 0, site.said(campaign)
    assert "is gone, its trials are run again" in site.said(campaign)

    done = check_drawn(open_store(postgres))
    assert len(done) == TRIALS
    for row in done:
        assert row.log is None or (site.folder / row.log).exists()
        assert row.started < row.finished
        if row.fault_class == "none":
            assert (row.crash_kind, row.corruption) == ("reset", "none")
    assert any(row.log for row in done)

    near = site.start(*RIOBED, "guest", "run", "rio", "--", "true")
    assert near.wait(400) == 0, site.said(near)
    assert not guests_of(victim), "the next riobed of a host ends what a killed one left there"


@pytest.mark.extended
def test_a_campaign_that_is_killed_leaves_no_guests_and_goes_on(site: Site, postgres: str) -> None:
    first = site.campaign(postgres, "long.yaml")
    until(lambda: rows_in(postgres) and site.at_work(site.workers[0]))
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = [row.position for row in rows_in(postgres)]
    until(lambda: not any(map(guests_of, site.workers)))
    second = site.campaign(postgres, "long.yaml")
    until(lambda: len(rows_in(postgres)) > len(before))
    second.send_signal(signal.SIGINT)
    assert second.wait(240) == 130, site.said(second)
    assert site.said(second).endswith("riobed: stopped; run the same command to go on")
    after = [row.position for row in rows_in(postgres)]
    assert after[: len(before)] == before and len(set(after)) == len(after)
    until(lambda: not any(map(guests_of, site.workers)))


@pytest.mark.extended
def test_a_worker_ends_with_its_scheduler_or_when_told(site: Site) -> None:
    told, left = site.workers
    assert listens_at(told) == {"127.0.0.1"}, "a worker is for those alone who reach its scheduler"
    told.terminate()
    assert told.wait(240) == 0, site.said(told)
    site.processes[0].terminate()
    assert left.wait(240) == 1
    assert site.said(left).endswith("or took this worker for dead; start this worker again"), site.said(left)
    scratch = [path.name for path in Path("/var/tmp").glob("riobed-*")]
    assert not [name for name in scratch if name.startswith((f"riobed-{told.pid}-", f"riobed-{left.pid}-"))]
