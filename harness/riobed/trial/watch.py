# SPDX-License-Identifier: Apache-2.0
"""Watch a guest after injection, until it crashes or the trial's time is over.

Titles and an observation's `detail` distinguish three kinds of silence:

- `no output`: the agent does not answer, and the console stays silent even after a non-maskable interrupt.
- `agent lost`: the agent does not answer, but the console says where the kernel hangs.
- `timed out`: the guest still answers when the time is over. Only this is not a crash.

A trial that is discarded early, with `went well`, was never silent.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from riobed.crash import formats, frames
from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.guest import STAGE0
from riobed.plan import CampaignSpec
from riobed.trial.evidence import read_evidence
from riobed.trial.progress import Progress
from riobed.vm import Machine

_POLL_S = 0.05
# Time for a crash report to end; a report may itself crash and never end.
_REPORT_S = 3.0
_AGENT_S = 3.0
# Number of stack samples of a loop, to tell the looping function from those it calls.
_LOOKS = 4


@dataclass(frozen=True)
class Observation:
    """What was observed: a crash or none, seconds since injection, and how the workload ended."""

    crash: Crash | None
    seconds: float
    workload_status: str
    detail: str = ""
    # The guest is already in stage 0: its processor reset itself.
    restarted: bool = False


def crash_on(console: bytes) -> Crash | None:
    """Return the crash that a console shows: a crash report, or else an unrequested reset."""
    before, stage0, _ = console.partition(STAGE0)
    if crash := formats.recognise(before):
        return crash
    return Crash("reset", formats.with_telling_line("processor reset", before)) if stage0 else None


class Watcher:
    """Follows one trial from injection on."""

    def __init__(
        self,
        machine: Machine,
        spec: CampaignSpec,
        progress: Progress,
        workload_pid: int,
        reports_steps: bool = True,
        waiting: Collection[int] = (),
    ) -> None:
        """`waiting` has the indices of faults that wait for calls of the kernel and are sure to come."""
        self._waiting = waiting
        self._reports_steps = reports_steps
        self._machine = machine
        self._spec = spec
        self._progress = progress
        self._pid = workload_pid
        self._start = time.monotonic()
        self._until = self._start + spec.limit_s
        self._alive_at = self._start
        self._quiet_since = self._start
        self._status = "running"

    def watch(self) -> Observation:
        """Watch until a crash or the limit; InfraError if the machine fails."""
        more = self._machine.console.follow()
        while True:
            if trouble := self._machine.trouble():
                raise InfraError(f"{self._machine.config.name}: {trouble}")
            said = more()
            if STAGE0 in said:
                return self._seen(crash_on(self._machine.console.text()))
            if formats.started(said):
                return self._seen(self._read_report())
            now = time.monotonic()
            if self._machine.evidence.new():
                self._quiet_since = now
            silence = None
            if self._stepped() and self._goes_well(now):
                return self._seen(None, "went well")
            if now > self._until:
                silence = self._out_of_time()
            elif now - self._alive_at > self._spec.hang_s:
                silence = self._silent()
            if silence:
                return silence
            time.sleep(_POLL_S)

    def _stepped(self) -> bool:
        """Whether the workload has made a step since the last call."""
        if not self._progress.feed(self._machine.progress.new()):
            return False
        self._alive_at = time.monotonic()
        return True

    def _crashed(self) -> bool:
        """Whether the guest has crashed by now, perhaps while it was being asked something."""
        console = self._machine.console.text()
        return STAGE0 in console or formats.started(console)

    def _goes_well(self, now: float) -> bool:
        """Whether to discard early: no fault was injected or activated for the spec's `early_discard_s`.

        Call it when the workload has made a step. It is false while faults that are sure to come are
        outstanding.
        """
        patience = self._spec.early_discard_s
        if patience is None or now - self._quiet_since <= patience or self._progress.error:
            return False
        activated = read_evidence(self._machine.evidence.text()).activated
        return all(index in activated for index in self._waiting)

    def _seen(self, crash: Crash | None, detail: str = "") -> Observation:
        self._progress.feed(self._machine.progress.new())
        status = self._progress.error or self._status
        # Any crash may end in a triple fault, even in the middle of its report.
        restarted = STAGE0 in self._machine.console.text()
        return Observation(crash, time.monotonic() - self._start, status, detail, restarted)

    def _read_report(self) -> Crash:
        deadline = time.monotonic() + _REPORT_S
        while time.monotonic() < deadline:
            if formats.ended(self._machine.console.text()):
                break
            time.sleep(_POLL_S)
        console = self._machine.console.text()
        return formats.recognise(console) or Crash("panic", formats.with_telling_line("unknown", console))

    def _out_of_time(self) -> Observation | None:
        """Discard the trial if the guest is alive; a hang may have begun less than hang_s seconds ago."""
        alive = self._machine.agent_answers(self._spec.hang_s) or self._stepped()
        if self._crashed():
            # The answer may have come from stage 0's agent.
            return None
        return self._seen(None, "timed out") if alive else self._hung()

    def _silent(self) -> Observation | None:
        """Handle a workload without a step for too long: it ended, the guest hangs, or both."""
        if not self._machine.agent_answers(_AGENT_S):
            return self._hung()
        try:
            ended = self._machine.status(self._pid)
        except InfraError:
            return self._hung()
        if ended is None and not self._reports_steps:
            # Without step reports the agent's answer is the only sign of life.
            self._alive_at = time.monotonic()
            return None
        if ended is None:
            return self._stuck()
        self._status = f"exit {ended.status}"
        # Without load the kernel may still crash; it gets hang_s seconds more.
        self._until = min(self._until, time.monotonic() + self._spec.hang_s)
        self._alive_at = float("inf")
        return None

    def _stuck(self) -> Observation | None:
        """Find where a workload is stuck in a kernel that still answers."""
        if self._crashed() or self._stepped():
            return None
        try:
            where = formats.blocked_in(self._ask_sysrq("w"))
            if where == frames.UNKNOWN:
                # It is not blocked but looping.
                where = formats.looping_in(b"".join(self._ask_sysrq("t") for _ in range(_LOOKS)))
        except InfraError:
            return self._hung()
        if self._stepped():
            return None
        if where == frames.UNKNOWN:
            where = formats.with_telling_line(where, self._machine.console.text())
        return self._seen(Crash("hang", f"workload stuck in {where}"), "workload stuck, agent answers")

    def _ask_sysrq(self, key: str) -> bytes:
        """Send a SysRq key; return what the kernel prints. InfraError if the agent is lost."""
        before = len(self._machine.console.text())
        script = f"echo {key} >/proc/sysrq-trigger"
        self._machine.run(["/bin/sh", "-c", script], timeout=_AGENT_S)
        return self._machine.console.text()[before:]

    def _hung(self) -> Observation | None:
        """Report a hang; a non-maskable interrupt makes the kernel print where it is, if anything can."""
        if self._crashed() or self._stepped():
            return None
        console = self._machine.console.text()
        # The time to the crash ends here; the diagnosis does not count.
        observation = self._seen(None)
        self._machine.nmi()
        deadline = time.monotonic() + _REPORT_S
        while time.monotonic() < deadline and not formats.ended(self._machine.console.text()):
            time.sleep(_POLL_S)
        said = self._machine.console.text()[len(console) :]
        detail = "agent lost" if said.strip() else "no output"
        where = formats.hung_in(said)
        title = f"hang in {where}" if where else formats.with_telling_line(f"hang, {detail}", console + said)
        answer = formats.recognise(said)
        crash = Crash("hang", title, answer.damage if answer else "")
        return replace(observation, crash=crash, detail=detail, restarted=STAGE0 in said)
