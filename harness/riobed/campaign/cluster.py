# SPDX-License-Identifier: Apache-2.0
"""Run trials on other hosts: the workers of a Dask cluster.

A campaign registers a plugin with Dask's scheduler, and every worker starts it, even one that joins later.
The plugin compares the worker's provenance with the campaign's. If they match, the worker offers its guests
as a Dask resource named after the campaign, and the campaign's trials run only where that resource is. If a
worker is lost, Dask reruns its trials elsewhere. Only the campaign writes to the store.
"""

import asyncio
import logging
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
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

# The libvirt URI of a worker; the campaign's --connect applies to the campaign's host only.
URI_VARIABLE = "RIOBED_LIBVIRT_URI"
_BREATH_S = 0.5


class CampaignPlugin(WorkerPlugin):
    """Runs on each worker and holds the guests of a campaign while the campaign runs.

    `spec` is the spec's text as stored, `token` the name of plugin and resource.
    """

    def __init__(self, name: str, spec: str, wanted: Provenance, token: str) -> None:
        self.name = token
        self._campaign = name
        self._spec = spec
        self._wanted = wanted
        self.guests: Guests | None = None

    async def setup(self, worker: Worker) -> None:
        """Offer guests, or report to the campaign why this worker is refused."""
        count = worker.state.nthreads
        try:
            self.guests = await asyncio.to_thread(self._make_guests, count)
        except Exception as error:  # any error concerns only this worker
            text = f"worker {socket.gethostname()} ({worker.address}) is refused: {in_short(error)}"
            await worker.scheduler.log_event(topic=self.name, msg=text)
            return
        if worker.plugins.get(self.name) is self:
            await worker.set_resources(**{self.name: count})
        else:  # the campaign ended in the meantime
            await self.teardown(worker)

    async def teardown(self, worker: Worker) -> None:
        """End the campaign's guests on this worker."""
        if self.guests:
            await asyncio.to_thread(self.guests.close)

    def _make_guests(self, count: int) -> Guests:
        spec = stored_spec(self._campaign, self._spec)
        uri = os.environ.get(URI_VARIABLE)
        setup = guest_setup(spec.machine, uri, spec.workload, spec.parked is not None, spec.loses_lines)
        if difference := self._wanted.difference(host_provenance(setup, spec), WORKER):
            raise UsageError(f"its {difference}; set it up from the same sources as the campaign's host")
        return Guests(spec, setup, count)


def host_provenance(setup: GuestSetup, spec: CampaignSpec) -> Provenance:
    """Return the provenance of a campaign's trials on this host."""
    here = provenance(setup, str(spec.seed), spec.workload.folders, spec.cache_modes)
    return here.model_copy(update={"dask": version("distributed")})


class CleanupPlugin(SchedulerPlugin):
    """Runs on the scheduler: ends a campaign's guests when the campaign ends, even by Ctrl-C or SIGKILL."""

    name = "riobed-cleanup"
    idempotent = True

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Remove the campaign's plugin from the workers."""
        if (token := token_of(client)) in scheduler.worker_plugins:
            scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, token)


def in_short(error: BaseException) -> str:
    """Return an exception in one line, with its type unless it is a RiobedError."""
    if isinstance(error, RiobedError):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())


def check_certificates(address: str) -> None:
    """Raise UsageError for a TLS scheduler if Dask has no certificates; Dask's own message fills a page."""
    if address.startswith("tls://") and not dask.config.get("distributed.comm.tls.ca-file"):
        raise UsageError(
            f"scheduler {address}: Dask has no certificates here; set them as docs/cluster.md says"
        )


def wrong_address(address: str, error: ValueError) -> UsageError:
    """Make the error for an address that Dask cannot parse."""
    return UsageError(f"scheduler {address}: {error}; an address is like tcp://host:8786")


def token_of(client: str) -> str:
    """Return the name of a campaign's plugin and resource, from Dask's name of its connection."""
    return f"riobed-{client}"


def run_on_worker(token: str, planned: PlannedTrial, faults: list[Fault]) -> Attempt:
    """Run a trial in the guests of this worker's plugin; this is Dask's task."""
    worker = get_worker()
    plugin = worker.plugins.get(token)
    try:
        if not isinstance(plugin, CampaignPlugin) or not plugin.guests:
            raise Stopped("the campaign has left this worker")
        attempt = plugin.guests.attempt(planned, faults)
        attempt.record.worker = f"{worker.name} {attempt.record.worker}"
        return attempt
    except Stopped:
        # The worker is leaving, or the campaign has ended and no longer needs the trial.
        time.sleep(_BREATH_S)
        raise Reschedule from None
    except RiobedError as error:
        raise EnvironmentFault(f"worker {socket.gethostname()} ({worker.address}): {error}") from None


def _client(address: str, patience_s: float) -> Client:
    """Connect to a scheduler; see the errors of Client.

    distributed gives the thread of its event loop 10 s to begin, then fails an assertion (LoopRunner.start()
    in distributed/utils.py). A busy host may take longer.
    """
    for _ in range(5):
        with suppress(AssertionError):
            return Client(address, timeout=patience_s, set_as_default=False)
    raise EnvironmentFault(f"scheduler {address}: this host is too busy to connect to it; try again later")


class ClusterWorkers:
    """The workers of a Dask cluster that match this host; `say` gets a line when one comes or goes.

    A scheduler has `patience_s` seconds to answer. Once a worker has answered, so have the others; later
    ones join while trials run. Raises UsageError if the address is not valid, EnvironmentFault without a
    scheduler or any such worker.
    """

    def __init__(
        self,
        address: str,
        spec: CampaignSpec,
        setup: GuestSetup,
        say: Callable[[str], None],
        patience_s: float = 15.0,
    ) -> None:
        self._address = address
        self._say = say
        self._patience_s = patience_s
        self._offers: dict[str, int] = {}
        self._told = 0
        wanted = host_provenance(setup, spec)
        check_certificates(address)
        # Errors arrive as exceptions, and provenance covers the versions that matter.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        warnings.simplefilter("ignore", VersionMismatchWarning)
        try:
            self._client = _client(address, patience_s)
        except ValueError as error:
            raise wrong_address(address, error) from None
        except OSError:
            raise self._gone() from None
        self._token = token_of(self._client.id)
        self._connection = self._client.scheduler_comm
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
        """Return the number of slots of the present workers, at least 1."""
        try:
            self._look()
        except OSError:
            raise self._gone() from None
        return max(1, sum(self._offers.values()))

    def choose(self, waiting: Sequence[PlannedTrial]) -> int:
        """Return the first: Dask says where a trial runs."""
        return 0

    def submit(self, planned: PlannedTrial, faults: list[Fault]) -> Future[Attempt]:
        """Submit a trial to a free worker; if that worker is lost, another one reruns it."""
        result: Future[Attempt] = Future()

        def hand_over(done: Future[Attempt]) -> None:
            if done.cancelled():
                result.set_exception(self._gone())
            elif isinstance(error := done.exception(), KilledWorker):
                result.set_exception(
                    EnvironmentFault(
                        f"trial {planned.position} ({planned.mode}, {planned.fault_class}): every worker "
                        f"that ran it was lost, last {error.last_worker.address}; see there why it ended"
                    )
                )
            elif error:
                result.set_exception(error)
            else:
                result.set_result(done.result())

        self._executor.submit(run_on_worker, self._token, planned, faults).add_done_callback(hand_over)
        return result

    def close(self) -> None:
        """Disconnect; the scheduler then ends the guests."""
        # While it reconnects, closing Dask's client raises an error.
        with suppress(OSError, RuntimeError):
            self._client.close()

    def _check_scheduler(self) -> None:
        """Check that the scheduler can load our plugins: pickles need riobed and the same Dask there."""
        here = version("distributed")
        try:
            there = self._client.run_on_scheduler(version, "distributed")
            self._client.register_plugin(CleanupPlugin())
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
        """Let all workers compare themselves; wait for a hanging one only until another offers guests."""
        text = yaml.safe_dump(spec_data(spec), sort_keys=False)
        plugin = CampaignPlugin(spec.name, text, wanted, self._token)
        asking = threading.Thread(target=self._ask, args=(plugin,), daemon=True)
        asking.start()
        patience = time.monotonic() + self._patience_s
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
        except Exception as error:  # it comes from one worker; the others have been asked
            if self._client.status == "running":
                self._say(f"a worker could not be asked: {in_short(error)}")

    def _look(self) -> None:
        """Update the list of workers and report what changed; OSError without the scheduler."""
        refusals, workers = self._known()
        for _, text in refusals[self._told :]:
            self._say(text)
        self._told = len(refusals)
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

    def _known(self) -> tuple[list[tuple[float, str]], dict[str, Any]]:
        """Return the refusals and the workers that the scheduler knows; OSError once the connection is lost.

        Dask tries to connect again, and a question waits up to `patience_s` for that. It would wait in vain:
        the scheduler ends the guests of a campaign whose connection is lost.
        """
        loop: Any = self._client.loop
        asked = asyncio.run_coroutine_threadsafe(self._state(), loop.asyncio_loop)
        try:
            while self._client.scheduler_comm is self._connection:
                if wait([asked], _BREATH_S).done:
                    return asked.result()
            raise ConnectionError
        finally:
            asked.cancel()

    async def _state(self) -> tuple[list[tuple[float, str]], dict[str, Any]]:
        scheduler: Any = self._client.scheduler
        refusals = await scheduler.events(topic=self._token)
        identity = await scheduler.identity(n_workers=-1)
        return refusals, identity["workers"]

    def _gone(self) -> EnvironmentFault:
        return EnvironmentFault(
            f"scheduler {self._address}: does not answer; start it with 'dask scheduler', then run this again"
        )
