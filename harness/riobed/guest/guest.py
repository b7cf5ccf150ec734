# SPDX-License-Identifier: Apache-2.0
"""A guest in one cache mode: it is booted once, then restored from a snapshot for each trial."""

import hashlib
import os
import shlex
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from riobed.errors import BootError, InfraError, UsageError
from riobed.guest import registry
from riobed.guest import workload as workloads
from riobed.guest.boot import BOOT_S, boot_production, wait_stage0
from riobed.guest.config import MachineSpec
from riobed.guest.images import make_empty_disk
from riobed.guest.kernel import kernel_config, kernel_products
from riobed.guest.layout import LARGE_STAGE0_SIZE, MIB, NVDIMM_START, STAGE0_SIZE, Layout
from riobed.guest.mailbox import open_mailbox, put_command
from riobed.guest.meminfo import CacheUse, cache_use
from riobed.guest.modes import NVDIMM_DRIVERS, CacheMode, Device
from riobed.guest.parking import Parking
from riobed.guest.registry import mapped
from riobed.guest.snapshots import Known, described, keep_snapshot, restore_disks, snapshot_key
from riobed.guest.tree import read_listing, script
from riobed.guest.workload import GUEST_DIR, Beside, Workload
from riobed.products import KernelPart, Manifest
from riobed.vm import (
    REPEATABLE,
    CanaryHits,
    Disk,
    Driver,
    Machine,
    MachineConfig,
    Nvdimm,
    Plugin,
    canary_hits,
    driver,
    emulator_memory,
    line_plugin,
    make_nvdimm,
    memory_files,
    need_room,
    qemu_version,
    scratch_dir,
)

# Preparing a source tree file by file on a disk of 1996 takes many minutes.
_PREPARE_S = 1800.0
# Commands that are for all workloads, and what follows each but the last.
_TOGETHER = {"prepare": " || exit", "start": " >/dev/null 2>&1 &", "stop": ""}
# Commands that put load on the file system under test; with `sync_on_close` their programs load a library.
_LOADS = ("start", "measure")
_SYNC_ON_CLOSE = "/usr/lib/riobed/sync-on-close.so"
# A shell's words before what the file system under test becomes. mount(8) repeats the options it has. With
# `dirsync` among them the kernel's new calls are refused (fs/super.c, reconfigure_super(), MS_RMT_MASK).
REMOUNT = "LIBMOUNT_FORCE_MOUNT2=always mount /mnt/test -o remount,"
# In the Rio modes sync writes nothing. A file system that becomes read-only writes everything in every mode.
# The kernel then forgets its directories and inodes (fs/super.c, reconfigure_super()), which a tmpfs never
# does, so all are looked at again.
_SETTLE = f"{REMOUNT}ro && {REMOUNT}rw && find /mnt/test -size +0 >/dev/null"
_SNAPSHOT = "ready"
_WARM = "warm"
# Serial number of the swap disk in domain.xml.j2.
_SWAP = "swap"
# Raise this when a driver makes a different machine from the same MachineConfig, e.g. by a change of
# vm/qemu/domain.xml.j2.
_MACHINE = 1
_INJECTOR = "/lib/riobed/riobed_inject.ko"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# riobed-init prints this when the new file system cannot be mounted.
_NO_MOUNT = "production failed: mount of"
_TRACE = "/lib/riobed/riobed_trace.ko"
# Kernel parameters of both stages. After a crash the machine stands still with the report on its console, and
# the harness resets it. An oops is a panic; this is a factor of the experiment, so it is set here.
# no_timer_check: the kernel tests its timer by counting ticks against a busy loop. On a loaded host an
# emulated machine fails ("IO-APIC + timer doesn't work!", check_timer() in arch/x86/kernel/apic/io_apic.c).
# printk.time: riobed.crash tells the kernel's lines from a program's by their time stamps.
_COMMON = ["console=ttyS0,115200", "panic=0", "oops=panic", "unknown_nmi_panic=1", "no_timer_check"]
_COMMON += ["printk.time=1"]
# QEMU never turns the TSC back. After a restore in the same process it is ahead by all the time since the
# snapshot (softmmu/cpu-timers.c, cpu_get_ticks()), and timers, stall detectors and time stamps would jump.
# The HPET is restored with the snapshot.
_CLOCK = ["tsc=unstable", "clocksource=hpet"]
# The processor never sleeps: a clock that counts instructions must also advance while it waits for a disk.
_AWAKE = ["idle=poll"]
# Every trial boots stage 0, and its ACPI tables and PCI links were a third of that; it finds all by the BIOS.
_STAGE0 = ["acpi=off"]
_PRODUCTION = ["root=/dev/vda", "ro", "init=/usr/sbin/riobed-init", "softlockup_panic=1", "nokaslr", *_CLOCK]


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
    # Trace the file cache, for `riobed replay --trace`.
    trace: bool = False
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

    def host_memory(self) -> int:
        """Return the bytes of the host's memory that a guest may take; its NVDIMM is a file."""
        return self.machine.memory_mib * MIB + emulator_memory(self.accelerator)

    def products(self, mode: CacheMode) -> Manifest:
        """Return what guests of a mode run on; build the mode's own kernel first if it is missing."""
        return kernel_products(mode.kernel) if mode.kernel else self.manifest

    def layout(self, mode: CacheMode) -> Layout:
        """Return the memory layout of a mode; a ready kernel may be as large as a distribution's."""
        ready = mode.kernel and mode.kernel.ready
        window = LARGE_STAGE0_SIZE if ready else STAGE0_SIZE
        spec = self.machine
        return Layout(spec.memory_mib * MIB, window, spec.nvdimm_mib * MIB, spec.canary_mib * MIB)

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
    common = [*_COMMON, *(_AWAKE if setup.accelerator == REPEATABLE else [])]
    stage0 = [*common, *_STAGE0, *layout.stage0_parameters, f"riobed.memory={layout.ram}"]
    stage0 += [*mode.file_system.stage0_parameters(mode.filesystem), *mode.nvdimm_parameters]
    if mode.restores_memory:
        stage0.append(f"riobed.registry={layout.registry}")
    production = [*common, *_PRODUCTION, *mode.production_parameters(layout), *layout.nvdimm_parameters]
    if setup.machine.save_memory:
        # Every mode has the swap disk, so all machines are equal; only some modes have memory to save.
        production.append(f"riobed.swap={_SWAP}")
        if mode.restores_memory:
            stage0.append(f"riobed.save={_SWAP}")
    if interactive:
        production.append("riobed.shell")
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


def open_guest(
    setup: GuestSetup, mode: CacheMode, name: str, interactive: bool = False, plugin: Plugin | None = None
) -> "Guest":
    """Make a guest in that mode, powered off; `name` names its folder and is unique in this process.

    With `interactive` its console is a terminal with a shell, with `plugin` its emulator loads that.
    EnvironmentFault if there is no hypervisor.
    """
    config = machine_config(setup, mode, scratch_dir() / name, interactive)
    if setup.loses_lines and config.nvdimm:
        plugin = line_plugin(setup.manifest, config.nvdimm, setup.qemu)
    return Guest(setup, mode, setup.driver(replace(config, plugin=plugin)))


@dataclass(frozen=True)
class WarmStart:
    """Where trials of one round begin: the workload `pid` runs, and has reported `progress`.

    `memory` is the SHA-256 of all memory at that moment.
    """

    round_seed: str
    pid: int
    progress: bytes
    memory: bytes


class Guest:
    """One machine in one mode."""

    def __init__(self, setup: GuestSetup, mode: CacheMode, machine: Machine) -> None:
        self.setup = setup
        self.mode = mode
        self.machine = machine
        self._snapshot = False
        self._memory = b""
        self._warm: WarmStart | None = None
        # The file cache when the snapshot was taken; None before.
        self.cache: CacheUse | None = None
        # What was outside the workloads' folders then, as a script of riobed.guest.tree lists it.
        self.outside = b""
        # Which boot of the production kernel the snapshot's memory comes from, as 16 hexadecimal digits.
        self.boot_id = ""
        folder = machine.config.folder
        self.parking = Parking(machine, setup.layout(mode), folder / "parked.ram") if setup.parked else None

    @property
    def reports_steps(self) -> bool:
        """Whether the workload reports its steps."""
        return bool(self.setup.workload and self.setup.workload.progress != "none")

    @property
    def snapshot(self) -> str:
        """The memory that trials start from: the first digits of its SHA-256."""
        return self._memory.hex()[:16]

    @property
    def beside(self) -> tuple[Beside, ...]:
        """The workloads that run beside the one that is judged."""
        return self.setup.beside

    @property
    def streams(self) -> int:
        """How many processes of the workload report, each in a stream of its own; 0: one, in no stream."""
        return self.setup.workload.streams if self.setup.workload else 0

    @property
    def repeatable(self) -> bool:
        """Whether the guest is deterministic, instruction by instruction, as long as nothing talks to it."""
        return self.setup.accelerator == REPEATABLE and not self.setup.trace

    def boot(self) -> None:
        """Boot the production kernel with a new, empty file system under test mounted."""
        self._snapshot = False
        self._warm = None
        self.machine.destroy()
        config = self.machine.config
        disk_size = self.setup.machine.disk_mib * MIB
        swap_size = Layout(config.memory).swap_size if config.swap_disk else 0
        more = sum(device.size for device in config.devices)
        nvdimm = config.nvdimm.size if config.nvdimm else 0
        # Beside it the plugin has what of it is durable, which no snapshot has.
        durable = nvdimm if self.setup.loses_lines else 0
        # The disks, their snapshots with memory in them, and memory itself.
        memory = 2 * (config.memory + nvdimm) + durable
        need_room(config.folder, 2 * (disk_size + more) + swap_size + memory)
        make_empty_disk(config.test_disk, disk_size)
        for device in config.devices:
            make_empty_disk(device.path, device.size)
        if config.swap_disk:
            make_empty_disk(config.swap_disk, swap_size)
        make_nvdimm(config)
        self.machine.start()
        if self.parking:
            self.parking.park()
        wait_stage0(self.machine, BOOT_S)
        self._make_file_system()
        try:
            boot_production(self.machine)
        except BootError as error:
            if _NO_MOUNT in str(error):
                raise UsageError(
                    f"{self.mode.filesystem} cannot be mounted with {self.mode.mount!r}; "
                    "correct `mount` or `mkfs` of this mode"
                ) from None
            raise

    def _make_file_system(self) -> None:
        """Use the guest's own tools; the same tools check the file system after a crash."""
        for mkfs in self.mode.mkfs_commands:
            made = self.machine.run(mkfs, timeout=_PREPARE_S)
            if made.status:
                said = (made.stderr or made.stdout).decode("utf-8", "replace").strip().splitlines()
                raise UsageError(
                    f"{mkfs[0]}: {said[-1] if said else f'status {made.status}'}; correct `mkfs` of this mode"
                )

    def take_snapshot(self, fresh: bool = False) -> None:
        """Bring the guest to where trials begin, and let it run.

        It starts from a cached snapshot, or boots if there is none or if `fresh`.
        """
        kept = None if fresh else self._kept()
        if not kept or not kept.exists():
            self.boot()
            self._prepare()
            self._save()
            if kept:
                keep_snapshot(self.machine, kept, self._made_of, self._known)
        if kept:
            self._known = restore_disks(self.machine, kept)
            self.machine.start()
            self.machine.load(_SNAPSHOT)
        self._memory = self._hash_memory()
        self.machine.resume()
        # After a trial with a fresh boot, the next one starts from the cached snapshot.
        self._snapshot = not (fresh and self._kept())

    def ready(self, fresh: bool = False, check: bool = False) -> bool:
        """Bring the guest to where a trial begins, with empty logs; return whether memory was compared.

        It starts from the snapshot, or from power-on if there is none or if `fresh`. With `check`, restored
        memory is compared with the snapshot's; InfraError if they differ. After power-on nothing is compared.
        """
        restored = self._snapshot and self.machine.alive() and not fresh
        if not restored:
            self.take_snapshot(fresh)
            self._clear_logs()
        else:
            self._load(check)
            # The guest of the previous trial may have printed until now.
            self._clear_logs()
            self.machine.resume()
        self._need_agent()
        if self.setup.trace:
            self._start_trace()
        return restored and check

    def keep_warm(self, round_seed: str, pid: int) -> WarmStart:
        """Keep this moment, at which the workload `pid` is warm, as the start of this round's trials.

        The guest goes on from there with empty logs.
        """
        # Paused first: what the workload has reported must be what its snapshot thinks it has.
        self.machine.pause()
        progress = self.machine.progress.text()
        self.machine.save(_WARM)
        self._warm = WarmStart(round_seed, pid, progress, self._hash_memory())
        self._clear_logs()
        self.machine.resume()
        return self._warm

    def is_warm(self, round_seed: str) -> bool:
        """Whether start_warm() can go back to where this round's trials begin."""
        return bool(self._warm and self._warm.round_seed == round_seed and self.machine.alive())

    def start_warm(self, round_seed: str, check: bool = False) -> WarmStart | None:
        """Go back to where this round's trials begin, with empty logs; None if this guest has not been there.

        With `check`, InfraError if memory is not as it was then.
        """
        warm = self._warm
        if not warm or not self.is_warm(round_seed):
            return None
        self._load(check, _WARM, warm.memory)
        self._clear_logs()
        self.machine.resume()
        self._need_agent()
        return warm

    def start(self, argv: list[str], stdin: bytes, fresh: bool = False, check: bool = False) -> int:
        """Bring a deterministic guest to where a trial begins, as ready() does, and start a command in it.

        Returns the command's process id in the guest.
        """
        if fresh or not self._snapshot or not self.machine.alive():
            self.take_snapshot(fresh)
        self._load(check)
        self._clear_logs()
        pid = put_command(self.machine, argv, stdin)
        self.machine.resume()
        return pid

    def canary_hits(self) -> CanaryHits | None:
        """Return what of the NVDIMM's canary differs; None without one, or if the kernel does not map it."""
        nvdimm = self.machine.config.nvdimm
        return canary_hits(nvdimm) if nvdimm and nvdimm.canary and self.maps_nvdimm else None

    @cached_property
    def maps_nvdimm(self) -> bool:
        """Whether the kernel has drivers that map an NVDIMM, used by the mode or not."""
        return kernel_config(self.setup.products(self.mode).kernel).keys() >= NVDIMM_DRIVERS

    def discard(self) -> None:
        """Destroy the machine; the next ready() starts from power-on."""
        self._snapshot = False
        self._warm = None
        self.machine.destroy()

    def command(self, key: str, *, seed: int, **reported: int | str) -> list[str]:
        """Return one of the workload's commands for this mode; `key` is its key in workload.yaml.

        `reported` is what the check must know: the values of {done}, {intent}, {failed} and {oldest}.
        """
        argv = self._filled(key, getattr(self._workload, key), seed, **reported)
        # The others first: the command's status is that of the workload itself.
        for beside in self.beside if key in _TOGETHER else ():
            text = self._beside_text(beside, key, seed)
            argv[-1] = f"(\n{text}\n){_TOGETHER[key]}\n{argv[-1]}"
        return argv

    def measured(self, seed: int) -> dict[str, str]:
        """Return the texts for sh of the parts of the workload's `measure` in this mode, by name."""
        parts = self._workload.measured
        return {name: self._filled("measure", template, seed)[-1] for name, template in parts.items()}

    def checks(self, seed: int) -> dict[str, list[str]]:
        """Return the checks of what `measure` leaves, by the part after which they come, in that order."""
        return {name: self._filled("check", text, seed) for name, text in self._workload.checks.items()}

    @property
    def names_places(self) -> bool:
        """Whether the workload says which bytes its check looks at, rather than all of its files."""
        return self._workload.places is not None

    @property
    def _workload(self) -> workloads.Workload:
        if not self.setup.workload:
            raise InfraError("a guest without a workload has no commands")
        return self.setup.workload

    def _filled(self, key: str, template: str, seed: int, **reported: int | str) -> list[str]:
        argv = workloads.command(
            template,
            self._workload,
            seed=seed,
            # A measured program makes durable what the mode promises, and nothing else.
            sync=self.mode.sync_writes if key == "measure" else self.mode.tells_fsync,
            needs_fsync=self.mode.needs_fsync,
            options=self.setup.options_in(self.mode),
            place=None,
            **reported,
        )
        if key in _LOADS and self.mode.sync_on_close:
            # A shell of its own, which has the library, too: it opens and closes files for its commands.
            argv[-1] = f"LD_PRELOAD={_SYNC_ON_CLOSE} exec /bin/sh -c {shlex.quote(argv[-1])}"
        return argv

    def check_beside(self, beside: Beside, *, seed: int, **reported: int | str) -> list[str]:
        """Return the check of a workload that ran beside the one that is judged."""
        return ["/bin/sh", "-c", self._beside_text(beside, "check", seed, **reported)]

    def _beside_text(self, beside: Beside, key: str, seed: int, **reported: int | str) -> str:
        mode = self.mode
        return beside.text(key, seed=seed, sync=mode.tells_fsync, needs_fsync=mode.needs_fsync, **reported)

    @property
    def measure_operations(self) -> int | None:
        """How many operations on files the workload's `measure` is; None if the workload does not say."""
        workload = self.setup.workload
        return self._number(workload.measure_operations) if workload else None

    @property
    def measure_bytes(self) -> int | None:
        """How many bytes the workload's `measure` writes to files; None if the workload does not say."""
        workload = self.setup.workload
        mib = self._number(workload.measure_mib) if workload else None
        return None if mib is None else mib * MIB

    def _number(self, template: str | None) -> int | None:
        workload = self.setup.workload
        if not workload or template is None:
            return None
        filled = workloads.filled(template, workload, self.setup.options_in(self.mode))
        return sum(map(int, filled.split("+")))

    def _prepare(self) -> None:
        loaded = self.machine.run(["/sbin/insmod", _INJECTOR])
        if loaded.status:
            raise BootError(f"injector does not load: {loaded.stderr.decode('utf-8', 'replace').strip()}")
        if self.setup.workload and self.setup.workload.prepare:
            done = self.machine.run(self.command("prepare", seed=0), timeout=_PREPARE_S)
            if done.status:
                error = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-200:]
                raise BootError(f"workload's prepare failed with status {done.status}: {error}")
            # A trial tests what is written after injection, not the prepared files.
            self.machine.run(["/bin/sync"], timeout=_PREPARE_S)
        if self.setup.settled:
            settled = self.machine.run(["/bin/sh", "-c", _SETTLE], timeout=_PREPARE_S)
            if settled.status:
                raise BootError(f"the file system cannot be remounted: {settled.error}")
        self.cache = cache_use(self.machine.read_file("/proc/meminfo"), self.machine.config.memory)
        self.boot_id = self._read_boot_id()
        self.outside = self.list_outside(_PREPARE_S)

    def list_outside(self, timeout: float) -> bytes:
        """List what no workload changes: all that is outside their folders. Empty if one does not say so.

        TreeError if something of it is unreadable, AgentLost if it takes over `timeout` seconds.
        """
        text = self._outside
        return read_listing(self.machine, text, timeout) if text else b""

    @property
    def _outside(self) -> str:
        workloads_here = [self.setup.workload, *(beside.workload for beside in self.beside)]
        if not all(workload and workload.confined for workload in workloads_here):
            return ""
        return script([GUEST_DIR, *(beside.place.dir for beside in self.beside)], times=True)

    @property
    def _known(self) -> Known:
        """What is known of the snapshot beside its images."""
        return Known(boot_id=self.boot_id, outside=self.outside.decode("latin-1"), cache=self.cache)

    @_known.setter
    def _known(self, kept: Known) -> None:
        self.boot_id, self.outside, self.cache = kept.boot_id, kept.outside.encode("latin-1"), kept.cache

    def _read_boot_id(self) -> str:
        """Return what the registry says, because recovery reports that of the memory it finds.

        In modes without a registry it is the begin of the kernel's own boot id.
        """
        if self.mode.restores_memory:
            with mapped(self.machine.ram_path()) as memory:
                if found := registry.boot_id(memory, self.setup.layout(self.mode)):
                    return found
        return self.machine.read_file(_BOOT_ID).decode("ascii", "replace").replace("-", "")[:16]

    def _hash_memory(self) -> bytes:
        digest = hashlib.sha256()
        for path in memory_files(self.machine):
            with path.open("rb") as memory:
                hashlib.file_digest(memory, lambda: digest)
        return digest.digest()

    def _load(self, check: bool, name: str = _SNAPSHOT, memory: bytes = b"") -> None:
        """Restore a snapshot; with `check`, InfraError if memory differs from the snapshot's."""
        self.machine.load(name)
        if check and self._hash_memory() != (memory or self._memory):
            raise InfraError(f"{self.machine.config.name}: restored memory is not that of the snapshot")

    def _need_agent(self) -> None:
        if not self.machine.agent_answers(10):
            raise InfraError(f"{self.machine.config.name}: no agent after the snapshot was restored")

    def _kept(self) -> Path | None:
        """Return the folder of this guest's cached snapshot, which may not exist yet; None without a cache.

        What a plugin counts since power-on and what a parked stage 0 had in memory are in no snapshot.
        """
        config = self.machine.config
        if not self.setup.snapshots or config.plugin or config.interactive or self.parking:
            return None
        return self.setup.snapshots / snapshot_key(self._made_of)

    @property
    def _made_of(self) -> dict[str, Any]:
        """All that decides what a snapshot of this guest is, as JSON takes it."""
        setup = self.setup
        prepare = self.command("prepare", seed=0) if setup.workload and setup.workload.prepare else None
        return {
            "driver": _MACHINE,
            "machine": described(self.machine.config),
            "disk_mib": setup.machine.disk_mib,
            "qemu": qemu_version(setup.qemu),
            "mode": self.mode.model_dump(mode="json", exclude={"summary"}),
            "stage0": setup.stage0_kernel(self.mode).build_id,
            "image": setup.products(self.mode).image.key,
            "prepare": prepare,
            "settled": setup.settled,
            "outside": self._outside,
        }

    def _save(self) -> None:
        if self.setup.accelerator == REPEATABLE:
            open_mailbox(self.machine)
        self.machine.save(_SNAPSHOT)

    def _clear_logs(self) -> None:
        for log in (self.machine.console, self.machine.progress, self.machine.evidence):
            log.clear()

    def _start_trace(self) -> None:
        """Start the trace after the snapshot, which is then the same with and without a trace."""
        started = self.machine.run(["/usr/bin/staprun", "-b", "1", "-L", _TRACE])
        if started.status:
            raise InfraError(f"the trace does not start: {started.error}")
