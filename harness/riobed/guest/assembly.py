# SPDX-License-Identifier: Apache-2.0
"""The parts of a guest: its machine's description, its kernels' command lines, its empty disks."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from riobed.guest.memory.layout import MIB, NVDIMM_START, Layout
from riobed.guest.settings import parameters
from riobed.guest.settings.config import MachineSpec
from riobed.guest.settings.kernel import kernel_products
from riobed.guest.settings.modes import CacheMode, Device
from riobed.guest.workload.commands import ModeWorkload
from riobed.guest.workload.description import Beside, Workload
from riobed.guest.workload.images import make_empty_disk
from riobed.products import KernelPart, Manifest
from riobed.vm import (
    REPEATABLE,
    Disk,
    Driver,
    MachineConfig,
    Nvdimm,
    driver,
    emulator_memory,
    make_nvdimm,
    need_room,
)

# Serial number of the swap disk in domain.xml.j2.
_SWAP = "swap"
# Every trial boots stage 0, and its ACPI tables and PCI links were a third of that; it finds all by the BIOS.
_STAGE0 = ["acpi=off"]


@dataclass(frozen=True)
class GuestSetup:
    """Everything a guest is made of, except its mode."""

    manifest: Manifest
    machine: MachineSpec
    accelerator: str
    workload: Workload | None = None
    workload_image: Path | None = None
    options: dict[str, str | int] | None = None
    # Restart crashed guests by a stage 0 that was kept, not by a reset.
    parked: bool = False
    # Workloads that run beside it.
    beside: tuple[Beside, ...] = ()
    # A loss of power takes lines of the NVDIMM that were not written back (riobed.vm.nvdimm.persistence).
    loses_lines: bool = False
    # None: the host's QEMU.
    qemu: Path | None = None
    # Log what happens to the file cache, for `riobed replay --propagation`.
    propagation: bool = False
    # When the snapshot is taken, the disk has all that was written before.
    settled: bool = False
    # Folder of the snapshot cache, from which guests start; None: no cache.
    snapshots: Path | None = None
    # The back-end that makes its machine.
    driver: Driver = field(default_factory=driver)

    def options_in(self, mode: CacheMode) -> dict[str, str | int]:
        """Return the workload's options in a mode; UsageError if it cannot fill the mode's share of RAM."""
        given = dict(self.options or {})
        if self.workload and mode.cache_share:
            given |= self.workload.filling(mode.cache_share * self.machine.memory_mib * MIB, given)
        return given

    def workload_in(self, mode: CacheMode) -> ModeWorkload:
        """Return the workload as a mode runs it; UsageError if it cannot fill the mode's share of RAM."""
        return ModeWorkload(self.workload, mode, self.options_in(mode), self.beside)

    def host_memory(self) -> int:
        """Return the bytes of the host's memory that a guest may take; its NVDIMM is a file."""
        return self.machine.memory_mib * MIB + emulator_memory(self.accelerator)

    def products(self, mode: CacheMode) -> Manifest:
        """Return what guests of a mode run on; build the mode's own kernel first if it is missing."""
        return kernel_products(mode.kernel) if mode.kernel else self.manifest

    def layout(self, mode: CacheMode) -> Layout:
        """Return the memory layout of a mode."""
        spec = self.machine
        return Layout(spec.memory_mib * MIB, mode.stage0_size, spec.nvdimm_mib * MIB, spec.canary_mib * MIB)

    def stage0_kernel(self, mode: CacheMode) -> KernelPart:
        """Return the recovery kernel of a mode: its own kernel, which can read its file system.

        A ready kernel lacks what stage 0 needs built in; the checkout's kernel recovers for it.
        """
        ready = mode.kernel and mode.kernel.ready
        return (self.manifest if ready else self.products(mode)).kernel


def machine_config(
    setup: GuestSetup, mode: CacheMode, folder: Path, interactive: bool = False
) -> MachineConfig:
    """Describe a mode's machine, with its files in `folder`; UsageError if mode and machine do not fit."""
    mode.check_machine(setup.machine)
    layout = setup.layout(mode)
    common = [*parameters.COMMON, *(parameters.AWAKE if setup.accelerator == REPEATABLE else [])]
    stage0 = [*common, *_STAGE0, *layout.stage0_parameters, f"riobed.memory={layout.ram}"]
    stage0 += [*mode.file_system.stage0_parameters(mode.filesystem), *mode.nvdimm_parameters]
    if mode.restores_memory:
        stage0.append(f"riobed.registry={layout.registry}")
    # The mode's own are the last that the kernel reads: a `--` among them ends its parameters.
    production = [*common, *parameters.PRODUCTION]
    production += [f"{parameters.MEMMAP}={place}" for place in layout.nvdimm_places]
    production += mode.production_parameters(layout)
    if setup.machine.save_memory:
        # Every mode has the swap disk, so all machines are equal; only some modes have memory to save.
        # A mode may name more disks, and riobed-init swaps to all of them.
        production.append(f"riobed.swap={_SWAP}")
        if mode.restores_memory:
            stage0.append(f"riobed.save={_SWAP}")
    if interactive:
        production.append(parameters.SHELL)
    products = setup.products(mode)
    return MachineConfig(
        name=f"riobed-{os.getpid()}-{folder.name}",
        folder=folder,
        memory=layout.ram,
        vcpus=setup.machine.vcpus,
        accelerator=setup.accelerator,
        kernel=setup.stage0_kernel(mode).bzimage,
        initrd=products.image.recovery,
        stage0_cmdline=" ".join(stage0),
        production_cmdline=" ".join(production),
        root_image=products.image.root,
        test_disk=folder / "test.qcow2",
        test_cache=mode.cache,
        test_limits=mode.disk_throttle(setup.machine).iotune(),
        swap_disk=folder / "swap.qcow2" if setup.machine.save_memory else None,
        workload_image=setup.workload_image,
        devices=tuple(_disk(device, folder) for device in mode.devices),
        nvdimm=Nvdimm(folder / "nvdimm", layout.nvdimm, NVDIMM_START, layout.canary)
        if layout.nvdimm
        else None,
        interactive=interactive,
        qemu=setup.qemu,
    )


def _disk(device: Device, folder: Path) -> Disk:
    # No other file in the folder has this prefix.
    path = folder / f"device-{device.name}.qcow2"
    return Disk(path, device.name, device.size_mib * MIB, device.cache, device.throttle.iotune())


def make_disks(setup: GuestSetup, config: MachineConfig) -> None:
    """Make a machine's disks and NVDIMM anew, empty; EnvironmentFault if the host has no room for them."""
    disk_size = setup.machine.disk_mib * MIB
    swap_size = Layout(config.memory).swap_size if config.swap_disk else 0
    more = sum(device.size for device in config.devices)
    nvdimm = config.nvdimm.size if config.nvdimm else 0
    # Beside it the plugin has what of it is durable, which no snapshot has.
    durable = nvdimm if setup.loses_lines else 0
    # The disks, their snapshots with memory in them, and memory itself.
    memory = 2 * (config.memory + nvdimm) + durable
    need_room(config.folder, 2 * (disk_size + more) + swap_size + memory)
    make_empty_disk(config.test_disk, disk_size)
    for device in config.devices:
        make_empty_disk(device.path, device.size)
    if config.swap_disk:
        make_empty_disk(config.swap_disk, swap_size)
    make_nvdimm(config)
