# SPDX-License-Identifier: Apache-2.0
"""`riobed worker`: run as a worker of a Dask cluster; campaigns bring what it runs."""

import asyncio
import logging
import signal
from contextlib import suppress

import dask
from distributed import Worker
from distributed.comm.addressing import get_local_address_for

from riobed.campaign.cluster import check_certificates, in_short, wrong_address
from riobed.errors import EnvironmentFault
from riobed.products import load_manifest
from riobed.vm import scratch_dir


def serve(address: str, count: int) -> None:
    """Run as a worker with `count` parallel trials, until a signal or the scheduler's end.

    Raises UsageError if the address is not valid, EnvironmentFault if nothing is set up here or the
    scheduler is gone.
    """
    load_manifest()
    check_certificates(address)
    logging.getLogger("distributed").setLevel(logging.WARNING)
    # Guests' memory belongs to no Dask process, and Dask's profiler would wake up a hundred times a second.
    dask.config.set({"distributed.worker.profile.enabled": False})
    print(f"riobed: a worker of {address}, {count} trials at the same time", flush=True)
    asyncio.run(_serve(address, count))


async def _serve(address: str, count: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    worker = _make_worker(address, count)
    told, work = asyncio.create_task(stop.wait()), asyncio.create_task(_work(worker))
    await asyncio.wait({told, work}, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        if error := work.exception():
            raise EnvironmentFault(f"scheduler {address}: {in_short(error.__cause__ or error)}") from None
        raise EnvironmentFault(
            f"scheduler {address}: is gone, or took this worker for dead; start this worker again"
        )
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    await worker.close()


async def _work(worker: Worker) -> None:
    """Wait for the scheduler as long as it takes, then work for it until it ends."""
    async with worker:
        await worker.finished()


def _make_worker(address: str, count: int) -> Worker:
    """Make a worker that listens only towards the scheduler: a worker runs any code it is sent."""
    try:
        return Worker(
            address,
            host=get_local_address_for(address),
            nthreads=count,
            memory_limit=0,
            local_directory=str(scratch_dir() / "dask"),
            dashboard=False,
            dashboard_address="127.0.0.1:0",
        )
    except ValueError as error:
        raise wrong_address(address, error) from None
    except OSError as error:
        raise EnvironmentFault(f"scheduler {address}: {error.strerror or error}") from None
