# SPDX-License-Identifier: Apache-2.0
"""The contract of a virtual machine: what a trial needs, whatever runs the guest."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from riobed.vm.agent import ExecResult

# What QEMU does with a disk's writes and flushes (its documentation of -drive cache=).
CachePolicy = Literal["unsafe", "writeback", "writethrough", "none", "directsync"]


@dataclass(frozen=True)
class Disk:
    """A disk that can be written: its image, and its limits as elements of libvirt's <iotune>."""

    path: Path
    serial: str = ""
    size: int = 0
    cache: CachePolicy = "unsafe"
    limits: tuple[tuple[str, int], ...] = ()


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
    interactive: bool = False


class LogFile:
    """A file that QEMU appends to: console, progress or evidence of one machine.

    What is in it was written by a crashing kernel, so it is bytes, not text, and may be without end: of more
    than `most` bytes the first are kept, with a note, and the file is emptied each time it is looked at.
    """

    def __init__(self, path: Path, most: int = 16 << 20) -> None:
        self.path = path
        self.path.touch()
        self._most = most
        self._kept = bytearray()
        # How far the file was read, and how much of what is kept new() has told.
        self._read = self._told = 0
        self.full = False

    def clear(self) -> None:
        """Forget what was written so far (QEMU appends, so the file can be cut)."""
        self._empty()
        self._kept.clear()
        self._told = 0
        self.full = False

    def text(self, start: int = 0) -> bytes:
        """Everything since the last clear(), from byte `start` on."""
        self._read_on()
        return bytes(memoryview(self._kept)[start:])

    def new(self) -> bytes:
        """What was written since the last call."""
        data = self.text(self._told)
        self._told += len(data)
        return data

    def follow(self) -> Callable[[], bytes]:
        """A function that returns what was written since its last call, in whole lines but for the last.

        A line is repeated until it is complete.
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
            data = b"" if self.full else file.read(self._most + 1 - len(self._kept))
            self._read += len(data)
            self._kept += data
        if not self.full and len(self._kept) > self._most:
            self.full = True
            del self._kept[self._most :]
            self._kept += b"\n=== more than %d bytes were written; the rest is dropped ===\n" % self._most
        if self.full:
            self._empty()

    def _empty(self) -> None:
        with self.path.open("r+b") as file:
            file.truncate(0)
        self._read = 0


class Machine(Protocol):
    """A guest that can be crashed, reset with its RAM kept, saved and restored."""

    config: MachineConfig
    console: LogFile
    progress: LogFile
    evidence: LogFile

    def start(self) -> None:
        """Power on; BootError if it cannot be started."""

    def destroy(self) -> None:
        """Power off and forget; safe to call at any time."""

    def alive(self) -> bool:
        """Is the process that runs the guest there?"""

    def trouble(self) -> str:
        """Why the guest cannot run on, in one line; "" while it can."""

    def pause(self) -> None:
        """Stop the guest's processors, which then cost nothing."""

    def resume(self) -> None:
        """Let a paused guest run on."""

    def reset(self) -> None:
        """Press the reset button: processors and devices start anew, RAM is kept."""

    def nmi(self) -> None:
        """Raise a non-maskable interrupt, on which a hung kernel still prints its stack."""

    def save(self, name: str) -> None:
        """Snapshot RAM, devices and disk, in the files of the disks.

        The processors stand still from then on, and nobody talks to the agent.
        """

    def load(self, name: str) -> None:
        """Go back to a snapshot; the processors stand still, and nobody talks to the agent."""

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        """Run a command in the guest to its end."""

    def spawn(self, argv: list[str], stdin: bytes = b"") -> int:
        """Start a command in the guest; its process id there."""

    def status(self, pid: int) -> ExecResult | None:
        """How a spawned command ended, None while it runs."""

    def agent_answers(self, timeout: float) -> bool:
        """Does the guest still answer?"""

    def ram_path(self) -> Path:
        """The file that is the guest's RAM, to be mapped by tests and controls."""


@runtime_checkable
class HasTerminal(Protocol):
    """A machine whose console can be a terminal."""

    def console_device(self) -> Path:
        """The terminal device that is the other end of an interactive console."""


@runtime_checkable
class WritesDisk(Protocol):
    """A machine whose test disk can be changed behind the guest's back."""

    def write_disk(self, byte: int, value: int) -> None:
        """Change one byte of the test disk."""


@runtime_checkable
class LogsCode(Protocol):
    """A machine that knows which code its guest executes: an emulator."""

    def log_code(self, path: Path | None) -> None:
        """Write each block of code to a file when the emulator meets it first; None: no longer.

        After `load` the emulator has met none.
        """
