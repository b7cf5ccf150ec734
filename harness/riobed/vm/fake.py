# SPDX-License-Identifier: Apache-2.0
"""A machine in memory, for tests of everything above the hypervisor.

It fulfils the contract of riobed.vm.machine: test_machine_contract.py tests it like libvirt's machine.
It runs a Program instead of a kernel. No scheme of `--connect` selects it: its results would mean nothing.
"""

import itertools
import pickle
from pathlib import Path

from riobed.errors import BootError, InfraError
from riobed.vm.agent import AgentLost, ExecResult
from riobed.vm.machine import UNUSED, DiskUse, LogFile, LostLines, MachineConfig, memory_files
from riobed.vm.nvdimm.image import check_nvdimm
from riobed.vm.nvdimm.power import lose_memory

# In the test disk's file this line separates disk and snapshots; QEMU keeps its own in the qcow2 image, too.
_SNAPSHOTS = b"\nsnapshots of a fake machine\n"


class Program:
    """What runs in a FakeMachine. Its attributes are the guest's state, pickled into snapshots."""

    # Whether the guest's agent answers.
    agent = True

    def __init__(self) -> None:
        # By path.
        self.files: dict[str, bytes] = {}

    def boot(self, machine: "FakeMachine") -> None:
        """Called at power-on and reset."""

    def nmi(self, machine: "FakeMachine") -> None:
        """Called at a non-maskable interrupt."""

    def written(self, machine: "FakeMachine", path: str) -> None:
        """Called when the host has written a file of the guest."""

    def execute(self, machine: "FakeMachine", argv: list[str], stdin: bytes) -> ExecResult | None:
        """Return how a command ends; None if it runs until FakeMachine.end()."""
        return ExecResult(0, b"", b"")


class FakeMachine:
    """Implements riobed.vm.machine.Machine."""

    def __init__(self, config: MachineConfig, program: Program | None = None) -> None:
        self.config = config
        self.program = program or Program()
        config.folder.mkdir(parents=True, exist_ok=True)
        self.console = LogFile(config.folder / "console.log")
        self.progress = LogFile(config.folder / "progress.log")
        self.evidence = LogFile(config.folder / "evidence.log")
        # A Program adds what it does to the disk.
        self.used: DiskUse = UNUSED
        self._on = self._paused = False
        self._pids = itertools.count(77)
        self._processes: dict[int, ExecResult | None] = {}

    def say(self, log: LogFile, data: bytes) -> None:
        """Let the guest print."""
        with log.path.open("ab") as file:
            file.write(data)

    def end(self, pid: int, result: ExecResult) -> None:
        """Let a command of the guest end."""
        self._processes[pid] = result

    def die(self) -> None:
        """Let the process that runs the guest end unexpectedly."""
        self._on = False

    def start(self) -> None:
        self.destroy()
        if not self.config.test_disk.exists():
            raise BootError(f"{self.config.name}: no disk {self.config.test_disk}")
        check_nvdimm(self.config)
        for log in (self.console, self.progress, self.evidence):
            log.clear()
        with self._ram.open("wb") as ram:
            ram.truncate(self.config.memory)
        self._on, self._paused, self.used = True, False, UNUSED
        self.program.boot(self)

    def destroy(self) -> None:
        self._on = False
        self._processes.clear()
        self._ram.unlink(missing_ok=True)

    def alive(self) -> bool:
        return self._on

    def steal_time(self) -> float:
        return 0.0

    def disk_use(self) -> DiskUse:
        self._running()
        return self.used

    def failure(self) -> str:
        return "" if self._on else "the machine is not running"

    def pause(self) -> None:
        self._running()
        self._paused = True

    def resume(self) -> None:
        self._running()
        self._paused = False

    def reset(self) -> None:
        self._running()
        self._processes.clear()
        self.program.boot(self)

    def power_loss(self, seed: int) -> LostLines | None:
        self.pause()
        lose_memory(self._ram, seed)
        self.reset()
        self.resume()
        return None

    def nmi(self) -> None:
        self._running()
        self.program.nmi(self)

    def save(self, name: str) -> None:
        self.pause()
        disk, snapshots = self._disk()
        memory = [path.read_bytes() for path in memory_files(self)]
        snapshots[name] = pickle.dumps((self.program, self._processes)), memory
        self.config.test_disk.write_bytes(disk + _SNAPSHOTS + pickle.dumps(snapshots))

    def load(self, name: str) -> None:
        self.pause()
        _, snapshots = self._disk()
        if name not in snapshots:
            raise InfraError(f"{self.config.name}: no snapshot {name}")
        state, memory = snapshots[name]
        self.program, self._processes = pickle.loads(state)
        for path, content in zip(memory_files(self), memory, strict=True):
            # Written in place: the file may be mapped.
            with path.open("r+b") as file:
                file.write(content)

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        ended = self.status(self.spawn(argv, stdin))
        if ended is None:
            raise AgentLost(f"guest command took over {timeout:.0f} s: {argv}")
        return ended

    def spawn(self, argv: list[str], stdin: bytes = b"") -> int:
        self._talk()
        pid = next(self._pids)
        self._processes[pid] = self.program.execute(self, argv, stdin)
        return pid

    def status(self, pid: int, timeout: float = 10) -> ExecResult | None:
        self._talk()
        if pid not in self._processes:
            raise InfraError(f"guest agent: PID {pid} does not exist")
        ended = self._processes[pid]
        if ended is not None:
            del self._processes[pid]
        return ended

    def read_file(self, path: str) -> bytes:
        self._talk()
        if path not in self.program.files:
            raise InfraError(f"guest agent: failed to open file '{path}'")
        return self.program.files[path]

    def write_file(self, path: str, data: bytes, timeout: float = 10) -> None:
        self._talk()
        self.program.files[path] = data
        self.program.written(self, path)

    def agent_answers(self, timeout: float) -> bool:
        return self._on and not self._paused and self.program.agent

    def ram_path(self) -> Path:
        self._running()
        return self._ram

    @property
    def _ram(self) -> Path:
        return self.config.folder / "ram"

    def _running(self) -> None:
        if failure := self.failure():
            raise InfraError(f"{self.config.name}: {failure}")

    def _talk(self) -> None:
        if not self.agent_answers(0):
            raise AgentLost("guest agent: no answer in time")

    def _disk(self) -> tuple[bytes, dict[str, tuple[bytes, list[bytes]]]]:
        disk, _, snapshots = self.config.test_disk.read_bytes().partition(_SNAPSHOTS)
        return disk, pickle.loads(snapshots) if snapshots else {}
