# SPDX-License-Identifier: Apache-2.0
"""What several tests need: specs, rows, products, records of a progress log, a machine with a script."""

import heapq
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.faults import Fault
from riobed.guest import MIB, Guest, GuestSetup, MachineSpec, cache_mode
from riobed.guest.assembly import machine_config
from riobed.plan.spec import CampaignSpec
from riobed.products import Manifest
from riobed.trial import TrialRecord
from riobed.trial.observe.watch import Observation
from riobed.trial.verdict import Verdict
from riobed.vm.agent import ExecResult
from riobed.vm.fake import FakeMachine, Program
from riobed.vm.machine import LogFile, MachineConfig
from riobed_results.store import PANICS, CampaignRow, Provenance, RecoveryReport, TrialRow, Vocabulary

SEED = 0x0123456789ABCDEF
KEY = "0" * 16
# What takes no time, on the slowest host; it only keeps a test that fails from waiting for ever.
PATIENCE_S = 240.0


def spec(**fields: Any) -> CampaignSpec:
    """A small valid spec."""
    base: dict[str, Any] = {"name": "test", "modes": ["rio"], "fault_classes": ["kernel_text"]}
    return CampaignSpec.model_validate(base | {"controls": {}} | fields)


def manifest(folder: Path, build_id: str = "0123abcd", image: str = KEY) -> Manifest:
    """Products whose files would lie in `folder`."""
    kernel: dict[str, Any] = {
        name: folder / name for name in ("bzimage", "vmlinux", "system_map", "tree", "config")
    }
    kernel |= {"key": KEY, "release": "6.12.107", "build_id": build_id, "series_commit": KEY}
    tools: dict[str, Any] = {"key": KEY, "root": folder / "root"}
    made = tools | {"key": image, "recovery": folder / "recovery"}
    return Manifest.model_validate({"schema": 1, "toolchain": tools, "kernel": kernel, "image": made})


def provenance(**fields: Any) -> Provenance:
    required = [name for name, field in Provenance.model_fields.items() if field.is_required()]
    return Provenance.model_validate(dict.fromkeys(required, "x") | fields)


def campaign_row(**fields: Any) -> CampaignRow:
    return CampaignRow(
        **{"name": "test", "spec": "", "vocabulary": Vocabulary(), "host": {}}
        | provenance().model_dump()
        | fields
    )


def trial_row(position: int = 0, outcome: Any = "panic", **fields: Any) -> TrialRow:
    base = {"campaign_id": 1, "attempt": 1, "mode": "rio", "fault_class": "kernel_text", "seed": "1"}
    return TrialRow(
        **{"position": position, "outcome": outcome, "started": "", "finished": ""} | base | fields
    )


def recovery(**parts: Any) -> RecoveryReport:
    """A recovery that found nothing wrong, but for `parts` of its report."""
    base: dict[str, Any] = {part: {} for part in ("entries", "metadata", "data", "seconds")}
    base |= {"registry": "recovered", "e2fsck_status": 0, "mount_error": 0}
    return RecoveryReport.model_validate(base | parts)


def survive(record: TrialRecord) -> None:
    """The trial's guest survives, is brought down, and has lost nothing."""
    title = PANICS["nmi"]
    record.observation = Observation("survived", Crash("panic", title), 600.0, "running", "timed out")
    record.verdict = Verdict("survived", "panic", title, "none")


def shell_program(path: Path, body: str) -> Path:
    """An executable that runs `body`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def text_fault(index: int, probe: bool = True) -> Fault:
    code = {"old": b"\x48\x89\xe5", "new": b"\x48\x89\xe4"}
    address = 0xFFFFFFFF81000000 + index
    return Fault(index, "kernel_text", address=address, function="vfs_read", probe=probe, **code)


def crc32c_bitwise(data: bytes) -> int:
    """CRC32C from its definition: polynomial division of the bits, each byte from its lowest up.

    Independent of riobed's: it divides by 1EDC6F41 without reflection and turns the result round.
    """
    remainder = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            top = remainder >> 31 ^ (byte >> bit & 1)
            remainder = (remainder << 1 & 0xFFFFFFFF) ^ (0x1EDC6F41 if top else 0)
    return int(f"{remainder:032b}"[::-1], 2) ^ 0xFFFFFFFF


def record(kind: str, step: int, *words: str, seed: int = SEED) -> bytes:
    """One line of a progress log, as the protocol of workloads/memtest describes it."""
    head = f"{kind} {step} ".encode()
    crc = crc32c_bitwise(seed.to_bytes(8, "little") + head)
    return head + " ".join([f"{crc:08x}", *words]).encode() + b"\n"


class Clock:
    """Stands for the module `time`: sleeping costs nothing and lets what is due happen."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._due: list[tuple[float, int, Callable[[], object]]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        while self._due and self._due[0][0] <= until:
            self.now, _, action = heapq.heappop(self._due)
            action()
        self.now = max(self.now, until)

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._due, (self.now + seconds, len(self._due), action))


class Kernels(Program):
    """Boots stage 0 and, when the host asks for it, the production kernel."""

    # What riorecover says at each boot.
    report = recovery()

    def boot(self, machine: FakeMachine) -> None:
        self.files = {
            "/proc/meminfo": b"Buffers: 1 kB\nCached: 1 kB\nDirty: 1 kB\nShmem: 0 kB\n",
            "/proc/sys/kernel/random/boot_id": b"5d6f9f54-1aeb-4952-9ad0-5c4791c91712\n",
            "/run/recovery.json": self.report.model_dump_json().encode(),
        }
        self.comes_up(machine, "stage 0")

    def written(self, machine: FakeMachine, path: str) -> None:
        if path == "/run/boot":
            self.comes_up(machine, "production")

    def comes_up(self, machine: FakeMachine, kernel: str) -> None:
        machine.say(machine.console, f"riobed: {kernel} ready\n".encode())


def booting_guest(
    folder: Path,
    mode: str,
    program: Kernels,
    make: Callable[[MachineConfig, Kernels], FakeMachine] = FakeMachine,
    **made_of: Any,
) -> Guest:
    """A guest of a fake machine, powered off; with 4 MiB of RAM, so in a mode without a registry."""
    setup = GuestSetup(manifest(folder), MachineSpec(disk_mib=32), "tcg", **made_of)
    config = machine_config(setup, cache_mode(mode), folder / "vm")
    return Guest(setup, cache_mode(mode), make(replace(config, memory=4 * MIB), program))


class ScriptedMachine(FakeMachine):
    """A machine that runs, for watching and injecting; tests set what it does when it is asked something."""

    on_nmi = on_ask = on_spawn = on_run = staticmethod(lambda: None)

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        empty = folder / "none"
        super().__init__(MachineConfig("vm", folder, 1 << 16, 1, "tcg", empty, empty, "", "", folder, empty))
        empty.touch()
        self.clock = clock or Clock()
        self.agent, self.reaped = True, False
        self.nmis = self.asked = 0
        self.ended: ExecResult | None = None
        self.commands: list[list[str]] = []
        self.files: dict[str, bytes] = {}
        self.start()

    def later(self, seconds: float, log: LogFile, data: bytes) -> None:
        """What the guest prints after so many seconds."""
        self.clock.after(seconds, lambda: self.say(log, data))

    def nmi(self) -> None:
        super().nmi()
        self.nmis += 1
        self.on_nmi()

    def agent_answers(self, timeout: float) -> bool:
        self.asked += 1
        self.on_ask()
        if not self.agent:
            self.clock.sleep(timeout)
        return self.agent

    def status(self, pid: int, timeout: float = 10) -> ExecResult | None:
        if not self.agent:
            raise InfraError("guest agent: no answer in time")
        if self.reaped:
            raise InfraError("guest agent: PID 77 does not exist")
        self.reaped = self.ended is not None
        return self.ended

    def spawn(self, argv: list[str], stdin: bytes = b"") -> int:
        self.commands.append(argv)
        self.on_spawn()
        return 77

    def read_file(self, path: str) -> bytes:
        """A command of which the path is the only word."""
        self.run([path])
        return self.files[path]

    def write_file(self, path: str, data: bytes, timeout: float = 10) -> None:
        """A command of which path and data are the words."""
        self.run([path, data.decode()])

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        self.commands.append(argv)
        self.on_run()
        if not self.agent:
            raise InfraError("guest agent: no answer in time")
        return ExecResult(0, b"", b"")
