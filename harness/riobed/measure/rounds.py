# SPDX-License-Identifier: Apache-2.0
"""Runs in rounds: each has every guest once, in an order of its own. None always has the warmer host."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal, TypeVar

from riobed.guest import CacheMode, Guest, GuestSetup, open_guest
from riobed.measure.counter import counter
from riobed.plan import Stream, generator
from riobed.vm import Plugin, need_memory

# Time is measured in runs of their own: the plugin that counts instructions slows the emulator.
Kind = Literal["instructions", "time"]
Compared = TypeVar("Compared")


def order(seed: int, what: str, number: int, of: Sequence[Compared]) -> list[Compared]:
    """Return what is compared in the order of round `number` of the runs called `what`."""
    return generator(seed, what, number).sample(of, len(of))


def workload_seed(seed: int, number: int) -> int:
    """Return the workload's seed in a round, the same for all guests, 0 to 2^63 - 1."""
    return Stream.WORKLOAD.of(seed, number).getrandbits(63)


@contextmanager
def guests(
    setup: GuestSetup, modes: Mapping[str, CacheMode], kind: Kind, prefix: str
) -> Iterator[dict[str, Guest]]:
    """Give a guest for each mode, by the mode's key; all stay alive, and are gone afterwards.

    Their folders' names begin with `prefix`. EnvironmentFault if the host has too little memory for all, or
    if the plugin that counts cannot be compiled.
    """
    need_memory(len(modes) * setup.host_memory(), f"{len(modes)} guests at the same time")
    # Each is discarded, even if the user stops riobed while another one is.
    with ExitStack() as stack:
        opened = {}
        for number, (name, mode) in enumerate(modes.items()):
            plugin = _counter(setup, mode) if kind == "instructions" else None
            opened[name] = open_guest(setup, mode, f"{prefix}-{number}", plugin=plugin)
            stack.callback(opened[name].discard)
        yield opened


def _counter(setup: GuestSetup, mode: CacheMode) -> Plugin:
    """Return the plugin that counts, also what goes to the NVDIMM in modes that use it."""
    where = [f"nvdimm={setup.layout(mode).nvdimm_range}"] if mode.nvdimm else []
    return counter(setup.manifest, setup.products(mode).kernel, *where, qemu=setup.qemu)
