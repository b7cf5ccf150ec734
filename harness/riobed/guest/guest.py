# SPDX-License-Identifier: Apache-2.0
"""A guest in one cache mode: it is booted once, then restored from a snapshot for each trial."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from riobed.errors import BootError, InfraError, UsageError
from riobed.guest.assembly import GuestSetup, machine_config, make_disks
from riobed.guest.boot import BOOT_S, boot_production, wait_stage0
from riobed.guest.memory.chunks import find_chunks
from riobed.guest.memory.mailbox import open_mailbox, put_command
from riobed.guest.memory.registry import mapped
from riobed.guest.parking import Parking
from riobed.guest.preparing import make_file_system, prepare, start_propagation_log
from riobed.guest.settings.kernel import kernel_config
from riobed.guest.settings.modes import NVDIMM_DRIVERS, CacheMode
from riobed.guest.snapshots import (
    NOTHING,
    hash_memory,
    keep_snapshot,
    made_of,
    restore_disks,
    snapshot_folder,
)
from riobed.guest.workload.commands import ModeWorkload
from riobed.guest.workload.images import unpack_workload
from riobed.vm import (
    REPEATABLE,
    CanaryHits,
    Machine,
    Plugin,
    canary_hits,
    line_plugin,
    scratch_dir,
)

_SNAPSHOT = "ready"
_WARM = "warm"
# riobed-init prints this when the new file system cannot be mounted.
_NO_MOUNT = "production failed: mount of"


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
        # Of the snapshot, when it was taken.
        self.known = NOTHING
        folder = machine.config.folder
        self.parking = Parking(machine, setup.layout(mode), folder / "parked.ram") if setup.parked else None

    @cached_property
    def workload(self) -> ModeWorkload:
        """The workload and its commands in this mode."""
        return self.setup.workload_in(self.mode)

    @cached_property
    def programs(self) -> Path:
        """The folder on the host with what the guest has of its workloads."""
        if not self.setup.workload_image:
            raise InfraError("a guest without a workload has no programs")
        return unpack_workload(self.setup.workload_image, scratch_dir())

    @property
    def snapshot(self) -> str:
        """The memory that trials start from: the first digits of its SHA-256."""
        return self._memory.hex()[:16]

    @property
    def repeatable(self) -> bool:
        """Whether the guest is deterministic, instruction by instruction, as long as nothing talks to it."""
        return self.setup.accelerator == REPEATABLE and not self.setup.propagation

    def boot(self) -> None:
        """Boot the production kernel with a new, empty file system under test mounted."""
        self._snapshot = False
        self._warm = None
        self.machine.destroy()
        make_disks(self.setup, self.machine.config)
        self.machine.start()
        if self.parking:
            self.parking.park()
        wait_stage0(self.machine, BOOT_S)
        make_file_system(self.machine, self.mode)
        try:
            boot_production(self.machine)
        except BootError as error:
            if _NO_MOUNT in str(error):
                raise UsageError(
                    f"{self.mode.filesystem} cannot be mounted with {self.mode.mount!r}; "
                    "correct `mount` or `mkfs` of this mode"
                ) from None
            raise

    def take_snapshot(self, fresh: bool = False) -> None:
        """Bring the guest to where trials begin, and let it run.

        It starts from a cached snapshot, or boots if there is none or if `fresh`.
        """
        kept = None if fresh else self._kept()
        ours = not kept
        if not kept or not kept.exists():
            self.boot()
            self.known = prepare(self.machine, self.setup, self.mode)
            self._save()
            if kept:
                made = made_of(self.setup, self.mode, self.machine.config)
                ours = keep_snapshot(self.machine, kept, made, self.known)
        if kept and not ours:
            self.known = restore_disks(self.machine, kept)
            self.machine.start()
            self.machine.load(_SNAPSHOT)
        self._memory = hash_memory(self.machine)
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
        if self.setup.propagation:
            start_propagation_log(self.machine, self.setup.layout(self.mode).kept)
        return restored and check

    def keep_warm(self, round_seed: str, pid: int) -> WarmStart:
        """Keep this moment, at which the workload `pid` is warm, as the start of this round's trials.

        The guest goes on from there with empty logs.
        """
        # Paused first: what the workload has reported must be what its snapshot thinks it has.
        self.machine.pause()
        progress = self.machine.progress.text()
        self.machine.save(_WARM)
        self._warm = WarmStart(round_seed, pid, progress, hash_memory(self.machine))
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

    def propagation_log(self) -> list[bytes]:
        """Return the chunks of the log of what happened to the file cache; none if the guest has no log."""
        if not self.setup.propagation:
            return []
        with mapped(self.machine.ram_path()) as memory:
            return find_chunks(memory)

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

    def _load(self, check: bool, name: str = _SNAPSHOT, memory: bytes = b"") -> None:
        """Restore a snapshot; with `check`, InfraError if memory differs from the snapshot's."""
        self.machine.load(name)
        if check and hash_memory(self.machine) != (memory or self._memory):
            raise InfraError(f"{self.machine.config.name}: restored memory is not that of the snapshot")

    def _need_agent(self) -> None:
        if not self.machine.agent_answers(10):
            raise InfraError(f"{self.machine.config.name}: no agent after the snapshot was restored")

    def _kept(self) -> Path | None:
        return snapshot_folder(self.setup, self.mode, self.machine.config)

    def _save(self) -> None:
        if self.setup.accelerator == REPEATABLE:
            open_mailbox(self.machine)
        self.machine.save(_SNAPSHOT)

    def _clear_logs(self) -> None:
        for log in (self.machine.console, self.machine.progress, self.machine.evidence):
            log.clear()
