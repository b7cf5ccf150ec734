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
import socket
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import dask
import yaml
from distributed import Client, KilledWorker, Reschedule, Scheduler, Worker, WorkerPlugin, get_worker
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.versions import VersionMismatchWarning
from riobed_results.store import WORKER, Provenance

from riobed.campaign.workers import Attempt, Guests, Stopped
from riobed.errors import EnvironmentFault, RiobedError, UsageError
from riobed.faults import Fault
from riobed.guest import GuestSetup, guest_setup, provenance
from riobed.plan import CampaignSpec, PlannedTrial, spec_data, stored_spec

# Of this process as a worker; the campaign's own --connect is for its own host.
URI_VARIABLE = "RIOBED_LIBVIRT_URI"
_CONNECT_S = 15
_BREATH_S = 0.5


class CampaignPlugin(WorkerPlugin):
    """On each worker: the guests of a campaign, as long as the campaign runs.

    `spec` is the text the store has, `token` the name of plugin and resource.
    """

    def __init__(self, name: str, spec: str, wanted: Provenance, token: str) -> None:
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
        except Exception as error:  # whatever it is, it is the matter of this worker alone
            text = f"worker {socket.gethostname()} ({worker.address}) is refused: {in_short(error)}"
            await worker.scheduler.log_event(topic=self.name, msg=text)
            return
        if worker.plugins.get(self.name) is self:
            await worker.set_resources(**{self.name: count})
        else:  # the campaign went meanwhile
            await self.teardown(worker)

    async def teardown(self, worker: Worker) -> None:
        """End the campaign's guests here."""
        if self.guests:
            await asyncio.to_thread(self.guests.close)

    def _make_guests(self, count: int) -> Guests:
        spec = stored_spec(self._campaign, self._spec)
        uri = os.environ.get(URI_VARIABLE)
        setup = guest_setup(spec.machine, uri, spec.workload)
        if difference := self._wanted.difference(host_provenance(setup, spec), WORKER):
            raise UsageError(
                f"its {difference}; set it up from the campaign's sources, as the campaign's host"
            )
        return Guests(spec, setup, count)


def host_provenance(setup: GuestSetup, spec: CampaignSpec) -> Provenance:
    """What trials of a campaign are made on and with on this host."""
    here = provenance(setup, str(spec.seed), spec.workload.path, spec.cache_modes)
    return here.model_copy(update={"dask": version("distributed")})


class FarewellPlugin(SchedulerPlugin):
    """On the scheduler: when a campaign goes, by its end, Ctrl-C or SIGKILL, its guests go."""

    name = "riobed-farewell"
    idempotent = True

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Take the campaign's plugin from the workers."""
        if (token := token_of(client)) in scheduler.worker_plugins:
            scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, token)


def in_short(error: BaseException) -> str:
    """An exception in one line; one that is none of riobed's with its kind."""
    if isinstance(error, RiobedError):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())


def check_certificates(address: str) -> None:
    """UsageError for a scheduler behind TLS if Dask has no certificates here; its own message is a page."""
    if address.startswith("tls://") and not dask.config.get("distributed.comm.tls.ca-file"):
        raise UsageError(
            f"scheduler {address}: Dask has no certificates here; set them as docs/cluster.md says"
        )


def wrong_address(address: str, error: ValueError) -> UsageError:
    """What is said of an address that Dask cannot read."""
    return UsageError(f"scheduler {address}: {error}; an address is like tcp://host:8786")


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
        wanted = host_provenance(setup, spec)
        check_certificates(address)
        # What matters arrives as exceptions, and what must be equal is compared.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        warnings.simplefilter("ignore", VersionMismatchWarning)
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except ValueError as error:
            raise wrong_address(address, error) from None
        except OSError:
            raise self._gone() from None
        self._token = token_of(self._client.id)
        try:
            self._check_scheduler()
            self._register(spec, wanted)
        except OSError:
            self.close()
            raise self._gone() from None
        except BaseException:
            self.close()
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
        # In the middle of connecting again, Dask's client ends with an error of its own.
        with suppress(OSError, RuntimeError):
            self._client.close()

    def _check_scheduler(self) -> None:
        """Plugins go to it as pickles, which takes riobed there and the same Dask."""
        here = version("distributed")
        try:
            there = self._client.run_on_scheduler(version, "distributed")
            self._client.register_plugin(FarewellPlugin())
            wrong = "" if there == here else f"its Dask is {there}, the campaign's is {here}"
        except OSError:
            raise
        except Exception as error:
            wrong = in_short(error)
        if wrong:
            raise EnvironmentFault(
                f"scheduler {self._address}: {wrong}; start it from the campaign's sources: "
                ".venv/bin/dask scheduler"
            )

    def _register(self, spec: CampaignSpec, wanted: Provenance) -> None:
        """Have all workers compared; one that hangs is waited for only as long as there is no other."""
        text = yaml.safe_dump(spec_data(spec), sort_keys=False)
        plugin = CampaignPlugin(spec.name, text, wanted, self._token)
        asking = threading.Thread(target=self._ask, args=(plugin,), daemon=True)
        asking.start()
        patience = time.monotonic() + _CONNECT_S
        while asking.is_alive() and not (self._offers and time.monotonic() > patience):
            asking.join(_BREATH_S)
            self._look()
        self._look()
        if not self._offers:
            raise EnvironmentFault(
                f"scheduler {self._address}: has no worker for this campaign; "
                f"run 'riobed worker {self._address}' on a host set up from the same sources"
            )

    def _ask(self, plugin: CampaignPlugin) -> None:
        try:
            self._client.register_plugin(plugin)
        except Exception as error:  # of one worker, the others have been asked all the same
            if self._client.status == "running":
                self._say(f"a worker could not be asked: {in_short(error)}")

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
