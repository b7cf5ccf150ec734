# SPDX-License-Identifier: Apache-2.0
"""The contract of a virtual machine: what a trial needs of any back-end."""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from riobed.vm.agent import ExecResult

# How QEMU treats a disk's writes and flushes (QEMU's documentation of -drive cache=).
CachePolicy = Literal["unsafe", "writeback", "writethrough", "none", "directsync"]


@dataclass(frozen=True)
class Disk:
    """A writable disk: its image, its size in bytes, and its limits as elements of libvirt's <iotune>."""

    path: Path
    serial: str = ""
    size: int = 0
    cache: CachePolicy = "unsafe"
    limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class DiskUse:
    """How often and how much the disk under test and a mode's devices were used together; sizes in bytes."""

    read_requests: int = 0
    read_bytes: int = 0
    write_requests: int = 0
    write_bytes: int = 0
    flushes: int = 0

    def since(self, before: "DiskUse") -> "DiskUse":
        """Return what was added after `before`."""
        return DiskUse(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))


UNUSED = DiskUse()


@dataclass(frozen=True)
class Nvdimm:
    """Non-volatile memory: the file that is its content, its size in bytes and its physical address.

    The last `canary` bytes of it have a pattern, and no use (riobed.vm.nvdimm.canary).
    """

    path: Path
    size: int
    address: int
    canary: int = 0

    @property
    def used(self) -> int:
        """Its size in bytes without the canary."""
        return self.size - self.canary


@dataclass(frozen=True)
class LostLines:
    """How many cache lines of an NVDIMM were not durable at a loss of power, and how many of them it took.

    `unknown_flushes` since the last power-on or snapshot named a line that is not known.
    """

    found: int
    lost: int
    unknown_flushes: int = 0


@dataclass(frozen=True)
class Plugin:
    """A plugin of the emulator that keeps counters in a file of the machine's folder.

    `arguments` are further ones, as in `name=value`. QEMU splits at commas, so there is none in them.
    """

    path: Path
    counters: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class MachineConfig:
    """What one machine is made of. Sizes in bytes, paths absolute."""

    name: str
    folder: Path
    memory: int
    vcpus: int
    accelerator: str
    kernel: Path
    initrd: Path
    stage0_cmdline: str
    production_cmdline: str
    root_image: Path
    test_disk: Path
    test_cache: CachePolicy = "unsafe"
    test_limits: tuple[tuple[str, int], ...] = ()
    swap_disk: Path | None = None
    workload_image: Path | None = None
    devices: tuple[Disk, ...] = ()
    nvdimm: Nvdimm | None = None
    interactive: bool = False
    plugin: Plugin | None = None
    # None: the host's QEMU.
    qemu: Path | None = None


class LogFile:
    """A file that QEMU appends to: console, progress or evidence log of one machine.

    A crashing kernel writes it, so its content is untrusted: it is bytes, not text, and may be endless.
    Only the first `most` bytes are kept, then a note; the file itself is then emptied at each read.
    """

    def __init__(self, path: Path, most: int = 16 << 20) -> None:
        self.path = path
        self.path.touch()
        self.most = most
        self._kept = bytearray()
        # Offset up to which the file was read, and up to which new() has returned what was kept.
        self._read = self._told = 0
        self._full = False

    @property
    def full(self) -> bool:
        """Whether more than `most` bytes were written since the last clear(), so that text() is not all."""
        self._read_on()
        return self._full

    def clear(self) -> None:
        """Discard what was written so far. The file can be truncated because QEMU appends."""
        self._empty()
        self._kept.clear()
        self._told = 0
        self._full = False

    def text(self, start: int = 0) -> bytes:
        """Return what was written since the last clear(), from byte `start` on."""
        self._read_on()
        return bytes(memoryview(self._kept)[start:])

    def new(self) -> bytes:
        """Return what was written since the last call."""
        data = self.text(self._told)
        self._told += len(data)
        return data

    def follow(self) -> Callable[[], bytes]:
        """Return a function that returns what was written since its last call.

        An incomplete last line is included, and returned again until it is complete.
        """
        at = 0

        def more() -> bytes:
            nonlocal at
            data = self.text(at)
            at += data.rfind(b"\n") + 1
            return data

        return more

    def _read_on(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = b"" if self._full else file.read(self.most + 1 - len(self._kept))
            self._read += len(data)
            self._kept += data
        if not self._full and len(self._kept) > self.most:
            self._full = True
            del self._kept[self.most :]
            self._kept += b"\n=== more than %d bytes were written; the rest is dropped ===\n" % self.most
        if self._full:
            self._empty()

    def _empty(self) -> None:
        with self.path.open("r+b") as file:
            file.truncate(0)
        self._read = 0


class Machine(Protocol):
    """A machine whose guest can be crashed, reset with RAM kept, saved and restored."""

    config: MachineConfig
    console: LogFile
    progress: LogFile
    evidence: LogFile

    def start(self) -> None:
        """Power on; BootError if it cannot be started. Disks and NVDIMM are as their files have them."""

    def destroy(self) -> None:
        """Power off and discard the state; safe to call at any time."""

    def alive(self) -> bool:
        """Whether the process that runs the guest exists."""

    def steal_time(self) -> float:
        """Return for how many seconds since power-on the guest had to wait for a processor of the host.

        The longest wait of its processors, each of which waits only while it could run.
        """

    def disk_use(self) -> DiskUse:
        """Return how the disks under test were used since power-on: completed requests of the guest."""

    def failure(self) -> str:
        """Return why the guest cannot continue, in one line; "" while it can."""

    def pause(self) -> None:
        """Stop the guest's processors; a paused guest uses no CPU time of the host."""

    def resume(self) -> None:
        """Let a paused guest continue."""

    def reset(self) -> None:
        """Press the reset button: processors and devices restart, RAM and NVDIMM are kept."""

    def power_loss(self, seed: int) -> LostLines | None:
        """Lose power and get it back at once: as `reset`, but RAM above the first MiB is noise of `seed`.

        A paused guest runs on. Disks keep what they have taken, flushed or not. The NVDIMM is kept, too, but
        for cache lines if the emulator knows which of them were not durable (riobed.vm.nvdimm.persistence).
        Returns None if it does not.
        """

    def nmi(self) -> None:
        """Raise a non-maskable interrupt, which makes even a hung kernel print its stack."""

    def save(self, name: str) -> None:
        """Save RAM, NVDIMM, devices and disks as a snapshot inside the disks' image files.

        Afterwards the processors are paused and the agent's channel is closed.
        """

    def load(self, name: str) -> None:
        """Restore a snapshot; afterwards the processors are paused and the agent's channel is closed."""

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        """Run a command in the guest to its end; AgentLost if that takes over `timeout` seconds."""

    def spawn(self, argv: list[str], stdin: bytes = b"") -> int:
        """Start a command in the guest; return its process id there."""

    def status(self, pid: int, timeout: float = 10) -> ExecResult | None:
        """Return how a spawned command ended, None while it or a child that keeps its output open runs.

        AgentLost if the answer takes over `timeout` seconds, and the channel must be synchronised again.
        """

    def read_file(self, path: str) -> bytes:
        """Return what is in a file of the guest; InfraError if it cannot be read. No process is started."""

    def write_file(self, path: str, data: bytes, timeout: float = 10) -> None:
        """Write a file of the guest, which need not exist; InfraError if it cannot be. No process is started.

        AgentLost if a part of it takes over `timeout` seconds.
        """

    def agent_answers(self, timeout: float) -> bool:
        """Whether the guest's agent answers within `timeout` seconds."""

    def ram_path(self) -> Path:
        """Return the file that is the guest's RAM, for tests and controls to map."""


def memory_files(machine: Machine) -> list[Path]:
    """Return the files that are all of a running machine's memory: RAM, and its NVDIMM if it has one."""
    nvdimm = machine.config.nvdimm
    return [machine.ram_path(), *([nvdimm.path] if nvdimm else [])]


@runtime_checkable
class HasTerminal(Protocol):
    """A machine whose console can be a terminal."""

    def console_device(self) -> Path:
        """Return the terminal device that is the other end of an interactive console."""


@runtime_checkable
class WritesDisk(Protocol):
    """A machine whose test disk can be changed behind the guest's back."""

    def write_disk(self, byte: int, value: int) -> None:
        """Set byte `byte` of the test disk to `value`."""


@runtime_checkable
class SavesDevices(Protocol):
    """A machine whose processors and devices can be saved and restored apart from its memory."""

    def save_devices(self, name: str, disks: bool = False) -> None:
        """Save processors and devices, with `disks` also the disks, under a name that may be in use.

        The state is lost with the machine's process. Afterwards the processors are paused and the agent's
        channel is closed.
        """

    def load_devices(self, name: str, disks: bool = False) -> None:
        """Restore what `save_devices` saved, after the caller has put memory back.

        The processors are paused before and after, and the agent's channel is closed afterwards.
        """

    def tell(self, line: str) -> None:
        """Write a line into the agent's channel, for a guest that reads it before its agent does."""
