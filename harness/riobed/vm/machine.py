# SPDX-License-Identifier: Apache-2.0
"""The contract of a virtual machine: what a trial needs, whatever runs the guest."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from riobed.vm.agent import ExecResult


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
    swap_disk: Path | None = None
    workload_image: Path | None = None
    interactive: bool = False


class LogFile:
    """A file that QEMU appends to: console, progress or evidence of one machine.

    What is in it was written by a crashing kernel, so it is bytes, not text.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()
        self.offset = 0

    def clear(self) -> None:
        """Forget what was written so far (QEMU appends, so the file can be cut)."""
        with self.path.open("r+b") as file:
            file.truncate(0)
        self.offset = 0

    def text(self) -> bytes:
        """Everything since the last clear()."""
        return self.path.read_bytes()

    def new(self) -> bytes:
        """What was written since the last call."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read()
        self.offset += len(data)
        return data


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

    def wait_stage0(self, timeout: float) -> None:
        """Wait for stage 0 to have recovered and answer; BootError after `timeout` seconds."""

    def boot_production(self, timeout: float) -> None:
        """From stage 0 to the production kernel; BootError after `timeout` seconds."""

    def reset(self) -> None:
        """Press the reset button: processors and devices start anew, RAM is kept."""

    def nmi(self) -> None:
        """Raise a non-maskable interrupt, on which a hung kernel still prints its stack."""

    def save(self, name: str) -> None:
        """Snapshot RAM, devices and disk, in the files of the disks."""

    def hang_up(self) -> None:
        """End the conversation with the guest's agent, until something is asked of it again."""

    def load(self, name: str) -> None:
        """Go back to a snapshot, with the processors standing still and nobody talking to the agent."""

    def write_disk(self, byte: int, value: int) -> None:
        """Change one byte of the test disk behind the guest's back."""

    def log_code(self, path: Path | None) -> None:
        """Write each block of code to a file when the emulator meets it first; None: no longer.

        After `load` the emulator has met none.
        """

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
