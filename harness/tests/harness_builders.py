# SPDX-License-Identifier: Apache-2.0
"""What several tests need: specs, records of a progress log, and a machine that follows a script."""

import heapq
from collections.abc import Callable
from pathlib import Path
from typing import Any

from riobed.errors import InfraError
from riobed.faults import Fault
from riobed.plan.spec import CampaignSpec
from riobed.vm.agent import ExecResult
from riobed.vm.fake import FakeMachine
from riobed.vm.machine import MachineConfig
from riobed_results.store.recovery_report import RecoveryReport

SEED = 0x0123456789ABCDEF


def spec(**fields: Any) -> CampaignSpec:
    """A small valid spec."""
    base: dict[str, Any] = {"name": "test", "modes": ["rio"], "fault_classes": ["kernel_text"]}
    return CampaignSpec.model_validate(base | {"controls": {}} | fields)


def recovery(**parts: Any) -> RecoveryReport:
    """A recovery that found nothing wrong, but for `parts` of its report."""
    base: dict[str, Any] = {part: {} for part in ("entries", "metadata", "data", "seconds")}
    base |= {"registry": "recovered", "e2fsck_status": 0, "mount_error": 0}
    return RecoveryReport.model_validate(base | parts)


def text_fault(index: int, probe: bool = True) -> Fault:
    return Fault(
        index=index,
        fault_class="kernel_text",
        address=0xFFFFFFFF81000000 + index,
        function="vfs_read",
        old=b"\x48\x89\xe5",
        new=b"\x48\x89\xe4",
        probe=probe,
    )


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


class ScriptedMachine(FakeMachine):
    """A machine that runs, for watching and injecting; tests set what it does when it is asked something."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        empty = folder / "none"
        super().__init__(MachineConfig("vm", folder, 1 << 16, 1, "tcg", empty, empty, "", "", folder, empty))
        empty.touch()
        self.clock = clock or Clock()
        self.agent = True
        self.ended: ExecResult | None = None
        self.on_nmi: Callable[[], object] = lambda: None
        self.on_ask: Callable[[], object] = lambda: None
        self.on_spawn: Callable[[], object] = lambda: None
        self.on_run: Callable[[], object] = lambda: None
        self.nmis = 0
        self.reaped = False
        self.commands: list[list[str]] = []
        self.start()

    def nmi(self) -> None:
        super().nmi()
        self.nmis += 1
        self.on_nmi()

    def agent_answers(self, timeout: float) -> bool:
        self.on_ask()
        if not self.agent:
            self.clock.sleep(timeout)
        return self.agent

    def status(self, pid: int) -> ExecResult | None:
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

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        self.commands.append(argv)
        self.on_run()
        if not self.agent:
            raise InfraError("guest agent: no answer in time")
        return ExecResult(0, b"", b"")
