# SPDX-License-Identifier: Apache-2.0
"""Who stored into the canary of an NVDIMM: the emulator watches all stores (harness/emulator/stores.c)."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from riobed.errors import InfraError
from riobed.faults.sites.vmlinux import Vmlinux
from riobed.guest import GuestSetup, Layout
from riobed.propagation.symbols import Symbols
from riobed.vm import MachineConfig, Nvdimm, Plugin, compiled

NAME = "stores"
# struct stores of stores.c: how many there were, and the first of them.
_TOTAL = struct.Struct("<Q")
_STORE = struct.Struct("<4Q")
_NOTED = 4096


@dataclass(frozen=True)
class Stored:
    """A store of `bytes` bytes: the addresses of the instruction and of the place, virtual and physical."""

    instruction: int
    address: int
    physical: int
    bytes: int


def store_plugin(setup: GuestSetup, layout: Layout) -> Plugin:
    """Return the plugin for guests with a canary; EnvironmentFault if it cannot be compiled."""
    return Plugin(compiled(setup.manifest, NAME, setup.qemu), NAME, (f"range={layout.canary_range}",))


def stores_so_far(config: MachineConfig) -> int:
    """Return how many stores into the canary a machine with the plugin has made."""
    with (config.folder / NAME).open("rb") as file:
        return int(_TOTAL.unpack(file.read(_TOTAL.size).ljust(_TOTAL.size, b"\0"))[0])


def stores_report(config: MachineConfig, since: int, vmlinux: Vmlinux) -> dict[str, Any]:
    """Return the stores after the first `since` ones by instruction, in the order of their first stores."""
    if not (nvdimm := config.nvdimm):
        raise InfraError(f"{config.name}: it has no NVDIMM")
    by_instruction: dict[int, list[Stored]] = {}
    for stored in _noted(config, since):
        by_instruction.setdefault(stored.instruction, []).append(stored)
    symbols = Symbols(vmlinux)
    return {
        "stores": stores_so_far(config) - since,
        "by": [_by(stores, nvdimm, vmlinux, symbols) for stores in by_instruction.values()],
    }


def _by(stores: list[Stored], nvdimm: Nvdimm, vmlinux: Vmlinux, symbols: Symbols) -> dict[str, Any]:
    first = stores[0]
    return {
        "instruction": f"{first.instruction:#x}",
        # A name is found for a return address, which is behind the call.
        "function": symbols.name(first.instruction + 1),
        "source": vmlinux.source(first.instruction),
        "stores": len(stores),
        "offset": first.physical - nvdimm.address,
        "bytes": first.bytes,
        "address": f"{first.address:#x}",
    }


def stores_text(answer: dict[str, Any]) -> list[str]:
    """Return the answer as lines of text."""
    if not answer["stores"]:
        return ["Nothing was stored into the canary."]
    lines = [f"Stores into the canary: {answer['stores']}"]
    for by in answer["by"]:
        source = f" ({by['source']})" if by["source"] else ""
        lines.append(
            f"  {by['instruction']} in {by['function']}{source}: {by['stores']}, the first of {by['bytes']} "
            f"bytes at offset {by['offset']:#x} of the NVDIMM, by address {by['address']}"
        )
    noted = sum(by["stores"] for by in answer["by"])
    return lines + ([f"  {answer['stores'] - noted} more are not known"] if noted < answer["stores"] else [])


def _noted(config: MachineConfig, since: int) -> Iterator[Stored]:
    with (config.folder / NAME).open("rb") as file:
        file.seek(_TOTAL.size + since * _STORE.size)
        for _ in range(since, min(stores_so_far(config), _NOTED)):
            yield Stored(*_STORE.unpack(file.read(_STORE.size)))
