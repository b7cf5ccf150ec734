# SPDX-License-Identifier: Apache-2.0
"""Real guests for tests: what `make setup` built, booted by the accelerator that works here."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from riobed.artifacts import CHECKOUT, Manifest, cache_dir, load_manifest
from riobed.faults import Catalogue, Fault
from riobed.guest import Guest, GuestSetup, machine_config
from riobed.modes import cache_mode
from riobed.scratch import scratch_dir
from riobed.setup import guest_setup
from riobed.spec import CampaignSpec, MachineSpec, WorkloadSpec
from riobed.vm.connection import connect
from riobed.vm.libvirt import LibvirtMachine

# An instruction that is none: an oops where it is executed.
UD2 = b"\x0f\x0b"
MEMTEST = CHECKOUT / "workloads/memtest"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def manifest() -> Manifest:
    return load_manifest()


@pytest.fixture(scope="session")
def setup() -> GuestSetup:
    return guest_setup(MachineSpec(), None, WorkloadSpec(path=MEMTEST))


@pytest.fixture
def spec() -> CampaignSpec:
    return CampaignSpec(
        name="test",
        modes=["rio"],
        fault_classes=["kernel_text"],
        warmup_s=(0.5, 1.0),
        limit_s=20,
        hang_s=4,
        workload=WorkloadSpec(path=MEMTEST),
    )


@pytest.fixture(scope="session")
def guest_in(setup: GuestSetup) -> Iterator[Callable[[str], Guest]]:
    """A guest in a mode, one for the whole session: trials restore its snapshot anyway."""
    guests: dict[str, Guest] = {}

    def make(mode: str) -> Guest:
        if mode not in guests:
            config = machine_config(setup, cache_mode(mode), scratch_dir() / f"test-{mode}")
            guests[mode] = Guest(setup, cache_mode(mode), LibvirtMachine(connect(), config))
        return guests[mode]

    yield make
    for guest in guests.values():
        guest.discard()
        shutil.rmtree(guest.machine.config.folder)


@pytest.fixture(scope="session")
def fault_in(manifest: Manifest) -> Callable[[str, bytes], Fault]:
    """A fault at the beginning of a function, behind what ftrace patches there."""
    catalogue = Catalogue.open(manifest.kernel.vmlinux, cache_dir())
    lines = manifest.kernel.system_map.read_text().splitlines()
    symbols = {name: int(address, 16) for address, _, name in map(str.split, lines)}

    def make(function: str, new: bytes) -> Fault:
        address = symbols[function] + 5
        old = catalogue.code(address, len(new))
        return Fault(0, "kernel_text", address, function, "", ".text", old, new, "", "", True, {})

    return make


def qemus_with(mark: bytes) -> list[int]:
    """Process ids of the QEMUs with that in their command line."""

    def command_line(process: Path) -> bytes:
        try:
            return (process / "cmdline").read_bytes()
        except OSError:  # it has just ended
            return b""

    lines = {int(path.name): command_line(path) for path in Path("/proc").glob("[0-9]*")}
    return [pid for pid, line in lines.items() if b"qemu-system" in line and mark in line]
