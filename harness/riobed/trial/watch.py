# SPDX-License-Identifier: Apache-2.0
"""Watching a guest after injection, until it crashes or the trial's patience ends.

Silence has three meanings and they are told apart, in titles and in an observation's `detail`: no output
(the agent does not answer, and the console has no word even after a non-maskable interrupt), agent lost (the
console answers where it hangs), timed out (all answers when the time is over). Only the last is not a crash.
A trial that is discarded early, `went well`, was never silent.
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
# From the first line of a crash report to its last; a report may itself crash and never end.
_REPORT_S = 3.0
_AGENT_S = 3.0
# How often a loop is looked at, to tell its own function from those it calls.
_LOOKS = 4


@dataclass(frozen=True)
class Observation:
    """What was seen: a crash or none, seconds since injection, and how the workload ended."""

    crash: Crash | None
    seconds: float
    workload_status: str
    detail: str = ""
    # The guest is in stage 0 already: its processor was reset without our doing.
    restarted: bool = False


def crash_on(console: bytes) -> Crash | None:
    """The crash that a console tells of: a report, or else a reset that nobody asked for."""
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
        """`waiting`: indices of faults that come with the kernel's calls, sooner or later."""
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
        """Until a crash or the limit; InfraError when QEMU gives up."""
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
        """Has the workload made a step since this was asked last?"""
        if not self._progress.feed(self._machine.progress.new()):
            return False
        self._alive_at = time.monotonic()
        return True

    def _crashed(self) -> bool:
        """Has it crashed by now, perhaps while it was being asked something?"""
        console = self._machine.console.text()
        return STAGE0 in console or formats.started(console)

    def _goes_well(self, now: float) -> bool:
        """Has no fault been heard of for the spec's time? To be asked when the workload made a step.

        Not while there are faults that are sure to come.
        """
        patience = self._spec.early_discard_s
        if patience is None or now - self._quiet_since <= patience or self._progress.error:
            return False
        activated = read_evidence(self._machine.evidence.text()).activated
        return all(index in activated for index in self._waiting)

    def _seen(self, crash: Crash | None, detail: str = "") -> Observation:
        self._progress.feed(self._machine.progress.new())
        status = self._progress.error or self._status
        # Any crash may end in a triple fault, also in the middle of its report.
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
        """A discard, if the guest is alive: a hang may have begun less than hang_s ago."""
        alive = self._machine.agent_answers(self._spec.hang_s) or self._stepped()
        if self._crashed():
            # The agent may have been that of stage 0.
            return None
        return self._seen(None, "timed out") if alive else self._hung()

    def _silent(self) -> Observation | None:
        """No step for too long: the workload ended, the guest hangs, or both."""
        if not self._machine.agent_answers(_AGENT_S):
            return self._hung()
        try:
            ended = self._machine.status(self._pid)
        except InfraError:
            return self._hung()
        if ended is None and not self._reports_steps:
            # The agent is the only sign of life such a workload gives.
            self._alive_at = time.monotonic()
            return None
        if ended is None:
            return self._stuck()
        self._status = f"exit {ended.status}"
        # Without load the kernel may still crash, but it gets no more than this to do it.
        self._until = min(self._until, time.monotonic() + self._spec.hang_s)
        self._alive_at = float("inf")
        return None

    def _stuck(self) -> Observation | None:
        """The workload waits for ever in a kernel that still answers: ask it where."""
        if self._crashed() or self._stepped():
            return None
        try:
            where = formats.blocked_in(self._ask_sysrq("w"))
            if where == frames.UNKNOWN:
                # It does not wait, it goes round.
                where = formats.looping_in(b"".join(self._ask_sysrq("t") for _ in range(_LOOKS)))
        except InfraError:
            return self._hung()
        if self._stepped():
            return None
        if where == frames.UNKNOWN:
            where = formats.with_telling_line(where, self._machine.console.text())
        return self._seen(Crash("hang", f"workload stuck in {where}"), "workload stuck, agent answers")

    def _ask_sysrq(self, key: str) -> bytes:
        """What the kernel says to that key; InfraError if the agent is lost over it."""
        before = len(self._machine.console.text())
        script = f"echo {key} >/proc/sysrq-trigger"
        self._machine.run(["/bin/sh", "-c", script], timeout=_AGENT_S)
        return self._machine.console.text()[before:]

    def _hung(self) -> Observation | None:
        """A non-maskable interrupt makes a hung kernel print where it is, if anything can."""
        if self._crashed() or self._stepped():
            return None
        console = self._machine.console.text()
        # The clock stops here: what follows is asking.
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
