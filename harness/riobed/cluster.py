# SPDX-License-Identifier: Apache-2.0
"""Trials on other hosts: the workers of a Dask cluster.

A campaign leaves with Dask's scheduler a plugin, which each worker starts, also one that comes later. It
compares the worker with the campaign; a worker that is the same offers guests, as a resource of Dask of
the campaign's name, and only where that is do its trials run. A trial whose worker is lost is run again by
Dask. The store is written by the campaign alone.
"""

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import dask
import yaml
from distributed import Client, KilledWorker, Reschedule, Scheduler, Worker, WorkerPlugin, get_worker
from distributed.diagnostics.plugin import SchedulerPlugin

from riobed.artifacts import load_manifest
from riobed.basis import Basis, basis
from riobed.errors import EnvironmentFault, RiobedError, UsageError
from riobed.faults import Fault
from riobed.guest import GuestSetup
from riobed.plan import PlannedTrial
from riobed.scratch import scratch_dir
from riobed.setup import guest_setup
from riobed.spec import CampaignSpec
from riobed.stored import spec_data, stored_spec
from riobed.workers import Attempt, Guests, Stopped

# Of this process as a worker; the campaign's own --connect is for its own host.
URI_VARIABLE = "RIOBED_LIBVIRT_URI"
_CONNECT_S = 15
_BREATH_S = 0.5


class CampaignPlugin(WorkerPlugin):
    """On each worker: the guests of a campaign, as long as the campaign runs.

    `spec` is the text the store has, `token` the name of plugin and resource.
    """

    def __init__(self, name: str, spec: str, wanted: Basis, token: str) -> None:
        self.name = token
        self._campaign = name
        self._spec = spec
        self._wanted = wanted
        self.guests: Guests | None = None

    async def setup(self, worker: Worker) -> None:
        """Offer guests, or say why not."""
        count = worker.state.nthreads
        try:
            self.guests = await asyncio.to_thread(self._make_guests, count)
        except RiobedError as refusal:
            text = f"worker {socket.gethostname()} ({worker.address}) is refused: {refusal}"
            await worker.scheduler.log_event(topic=self.name, msg=text)
            return
        await worker.set_resources(**{self.name: count})

    async def teardown(self, worker: Worker) -> None:
        """End the campaign's guests here."""
        if self.guests:
            await asyncio.to_thread(self.guests.close)

    def _make_guests(self, count: int) -> Guests:
        spec = stored_spec(self._campaign, self._spec)
        uri = os.environ.get(URI_VARIABLE)
        setup = guest_setup(spec.machine, uri, spec.workload)
        if difference := self._wanted.difference(basis(setup, spec.workload.path)):
            raise UsageError(
                f"its {difference}; set it up from the campaign's sources, as the campaign's host"
            )
        return Guests(spec, setup, uri, count)


class FarewellPlugin(SchedulerPlugin):
    """On the scheduler: when a campaign goes, by its end, Ctrl-C or SIGKILL, its guests go."""

    name = "riobed-farewell"
    idempotent = True

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Take the campaign's plugin from the workers."""
        if (token := token_of(client)) in scheduler.worker_plugins:
            scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, token)


def token_of(client: str) -> str:
    """Name of what belongs to a campaign, from Dask's name of its connection."""
    return f"riobed-{client}"


def run_on_worker(token: str, planned: PlannedTrial, faults: list[Fault]) -> Attempt:
    """Dask's task: a trial in the guests that the plugin keeps here."""
    worker = get_worker()
    plugin = worker.plugins.get(token)
    try:
        if not isinstance(plugin, CampaignPlugin) or not plugin.guests:
            raise Stopped("the campaign has left this worker")
        return plugin.guests.attempt(planned, faults)
    except Stopped:
        # The worker is leaving, or the campaign, which no longer wants it.
        time.sleep(_BREATH_S)
        raise Reschedule from None
    except RiobedError as error:
        raise EnvironmentFault(f"worker {socket.gethostname()} ({worker.address}): {error}") from None


class ClusterWorkers:
    """The workers of a Dask cluster set up as this host is; `say` gets a line when one comes or goes.

    Raises UsageError for an address that is none, EnvironmentFault if scheduler or such workers are missing.
    """

    def __init__(
        self, address: str, spec: CampaignSpec, setup: GuestSetup, say: Callable[[str], None]
    ) -> None:
        self._address = address
        self._say = say
        self._offers: dict[str, int] = {}
        self._told = 0
        # What matters arrives as exceptions.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except ValueError as error:
            raise UsageError(f"scheduler {address}: {error}; an address is like tcp://host:8786") from None
        except OSError:
            raise self._gone() from None
        self._token = token_of(self._client.id)
        try:
            self._register(spec, basis(setup, spec.workload.path))
        except BaseException:
            self._client.close()
            raise
        self._executor = self._client.get_executor(pure=False, resources={self._token: 1})

    def slots(self) -> int:
        """As many as the workers have that are there now."""
        try:
            self._look()
        except OSError:
            raise self._gone() from None
        return max(1, sum(self._offers.values()))

    def submit(self, planned: PlannedTrial, faults: list[Fault]) -> Future[Attempt]:
        """Have a trial run by a worker that is free, and again by another one if that is lost."""
        result: Future[Attempt] = Future()

        def hand_over(done: Future[Attempt]) -> None:
            if done.cancelled():
                result.set_exception(self._gone())
            elif isinstance(error := done.exception(), KilledWorker):
                result.set_exception(
                    EnvironmentFault(
                        f"trial {planned.position} ({planned.mode}, {planned.fault_class}): every worker "
                        f"that ran it was lost, {error.last_worker.address} the last; see what ended it there"
                    )
                )
            elif error:
                result.set_exception(error)
            else:
                result.set_result(done.result())

        self._executor.submit(run_on_worker, self._token, planned, faults).add_done_callback(hand_over)
        return result

    def close(self) -> None:
        """Leave; the scheduler has the guests ended."""
        self._client.close()

    def _register(self, spec: CampaignSpec, wanted: Basis) -> None:
        text = yaml.safe_dump(spec_data(spec), sort_keys=False)
        self._client.register_plugin(FarewellPlugin())
        self._client.register_plugin(CampaignPlugin(spec.name, text, wanted, self._token))
        self._look()
        if not self._offers:
            raise EnvironmentFault(
                f"scheduler {self._address}: has no worker for this campaign; "
                f"run 'riobed worker {self._address}' on a host set up from the same sources"
            )

    def _look(self) -> None:
        """Which workers are there, and say what changed."""
        refusals = self._client.get_events(self._token)
        for _, text in refusals[self._told :]:
            self._say(text)
        self._told = len(refusals)
        workers: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        offers = {
            address: int(count)
            for address, about in workers.items()
            if (count := about["resources"].get(self._token))
        }
        for address in offers.keys() - self._offers.keys():
            self._say(f"worker {address}: {offers[address]} trials at the same time")
        for address in self._offers.keys() - offers.keys():
            left = "" if offers else "; no worker is left, waiting for one"
            self._say(f"worker {address} is gone, its trials are run again{left}")
        self._offers = offers

    def _gone(self) -> EnvironmentFault:
        return EnvironmentFault(
            f"scheduler {self._address}: does not answer; start it with 'dask scheduler', then run this again"
        )


def serve(address: str, count: int) -> None:
    """Be a worker that runs `count` trials at the same time, until a signal or the scheduler's end.

    Raises UsageError for an address that is none, EnvironmentFault if nothing is set up here or the
    scheduler is gone.
    """
    load_manifest()
    logging.getLogger("distributed").setLevel(logging.WARNING)
    # Guests' memory is no process's of Dask's, and its profiler would wake up a hundred times a second.
    dask.config.set({"distributed.worker.profile.enabled": False})
    print(f"riobed: a worker of {address}, {count} trials at the same time", flush=True)
    asyncio.run(_serve(address, count))


async def _serve(address: str, count: int) -> None:
    try:
        worker = Worker(
            address,
            nthreads=count,
            memory_limit=0,
            local_directory=str(scratch_dir() / "dask"),
            dashboard=False,
        )
    except ValueError as error:
        raise UsageError(f"scheduler {address}: {error}; an address is like tcp://host:8786") from None
    async with worker:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        stopped, gone = asyncio.create_task(stop.wait()), asyncio.create_task(worker.finished())
        await asyncio.wait({stopped, gone}, return_when=asyncio.FIRST_COMPLETED)
    if not stop.is_set():
        raise EnvironmentFault(f"scheduler {address}: is gone; start this worker again when it is back")
