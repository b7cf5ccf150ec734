# SPDX-License-Identifier: Apache-2.0
"""Watch a guest after injection, until it crashes or the trial's time is over.

Titles and an observation's `detail` distinguish two kinds of silence:

- `no output`: the agent does not answer, and the console stays silent even after a non-maskable interrupt.
- `agent lost`: the agent does not answer, but the console says where the kernel hangs.

A guest that survives until the time is over has the detail `timed out`. If the trial ended before, it is
`steps made`, `went well` or `workload ended`. A step is the sign of life that is preferred, because it comes
unasked: a question to the agent of a damaged kernel may itself be what crashes it.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from riobed_results.store import Ending, Outcome

from riobed.crash import formats, frames
from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.guest import STAGE0
from riobed.plan import CampaignSpec
from riobed.trial.observe.clock import unstolen_time
from riobed.trial.observe.evidence import read_evidence
from riobed.trial.observe.progress import Progress, Streams, poll_progress
from riobed.vm import Machine

_POLL_S = 0.05
# Time for a crash report to end; a report may itself crash and never end.
_REPORT_S = 3.0
_AGENT_S = 3.0
# Number of stack samples of a loop, to tell the looping function from those it calls.
_LOOKS = 4


@dataclass(frozen=True)
class Observation:
    """What was observed: the outcome, the crash, seconds since injection, and how the workload ended.

    `crash` is None as long as a guest that survived is still up. `steps_after_fault` counts, of a guest that
    survived, the workload's steps since a fault was last injected or first activated.
    """

    outcome: Outcome
    crash: Crash | None
    seconds: float
    workload_status: str
    detail: str = ""
    # The guest is already in stage 0: its processor reset itself.
    restarted: bool = False
    steps_after_fault: int | None = None


def crash_on(console: bytes) -> Crash | None:
    """Return the crash that a console shows: a crash report, or else an unrequested reset."""
    before, stage0, _ = console.partition(STAGE0)
    if crash := formats.recognise(before):
        return crash
    return Crash("reset", formats.with_telling_line("processor reset", before)) if stage0 else None


def crash_outcome(crash: Crash) -> Outcome:
    """Return the outcome of a machine that crashed by itself."""
    return "hang" if crash.kind == "hang" else "panic"


class Watcher:
    """Follows one trial from injection on."""

    def __init__(
        self,
        machine: Machine,
        spec: CampaignSpec,
        progress: Progress | Streams,
        workload_pid: int,
        reports_steps: bool = True,
        waiting: Collection[int] = (),
        agent: Collection[int] = (),
        panic_sync_s: float = 0.0,
    ) -> None:
        """`waiting` has the indices of faults that wait for calls of the kernel and are sure to come.

        `agent` has the process ids of the agent's threads. A kernel that panics may write for `panic_sync_s`
        seconds before it stops.
        """
        self._waiting = waiting
        self._agent = agent
        self._report_s = _REPORT_S + panic_sync_s
        self._reports_steps = reports_steps
        self._machine = machine
        self._now = partial(unstolen_time, machine)
        self._spec = spec
        self._progress = progress
        self._pid = workload_pid
        self._start = self._now()
        self._until = self._start + spec.limit_s
        self._alive_at = self._start
        # When the agent last answered although the workload makes no step.
        self._answered_at = self._start
        self._ask_s = spec.hang_s if spec.ask_s is None else spec.ask_s
        # When a fault was last injected or first activated, and the steps done by then.
        self._quiet_since = self._start
        self._steps_then = progress.done
        self._status = "running"
        # What the harness did when the guest crashed, and the outcome if it was the victim itself.
        self._over = ""
        self._otherwise: Outcome = "stuck"

    def watch(self) -> Observation:
        """Watch until a crash or the limit; InfraError if the machine fails.

        Unless a step tells that the guest lives, this ends up to twice `hang_s` after the limit.
        """
        more = self._machine.console.follow()
        while True:
            if failure := self._machine.failure():
                raise InfraError(f"{self._machine.config.name}: {failure}")
            said = more()
            if STAGE0 in said and (crash := crash_on(self._machine.console.text())):
                return self._seen(crash)
            if formats.started(said):
                return self._seen(self._read_report())
            now = self._now()
            stepped = self._stepped()
            if self._machine.evidence.new():
                self._quiet_since, self._steps_then = now, self._progress.done
            silence = None
            if stepped and (why := self._early_end(now)):
                return self._survived(why)
            if self._status == "running" and self._alive_at > self._until:
                return self._survived("timed out")
            if now - max(self._alive_at, self._answered_at) > self._ask_s:
                silence = self._silent()
            elif now > self._until and not self._steps_expected():
                silence = self._out_of_time()
            if silence:
                return silence
            time.sleep(_POLL_S)

    def _stepped(self) -> bool:
        """Whether the workload has made a step since the last call."""
        if not poll_progress(self._machine, self._progress):
            return False
        self._alive_at = self._now()
        if self._progress.finished and self._status == "running":
            self._ended("ended")
        return True

    def _steps_expected(self) -> bool:
        """Whether the workload reports steps and has not ended."""
        return self._reports_steps and self._status == "running"

    def _crashed(self) -> bool:
        """Whether the guest has crashed by now, perhaps while it was being asked something."""
        console = self._machine.console.text()
        return STAGE0 in console or formats.started(console)

    def _answers(self, timeout: float, otherwise: Outcome) -> bool:
        """Ask the agent for a sign of life, and note if the guest crashed over the question.

        The outcome is `otherwise` if it died of the question.
        """
        until = self._now() + timeout
        # The agent counts the host's seconds, of which the guest may have got a part.
        while not (answers := self._machine.agent_answers(timeout)):
            if (timeout := until - self._now()) < _POLL_S:
                break
        if self._crashed():
            self._over, self._otherwise = "crashed when the agent was asked", otherwise
        return answers

    def _early_end(self, now: float) -> Ending | None:
        """Return why to end the trial before the limit; None if there is no reason.

        No fault was injected or activated for the spec's `survivor_steps`, or for its `quiet_s`. Call it when
        the workload has made a step. It is None while faults that are sure to come are outstanding.
        """
        steps, patience = self._spec.survivor_steps, self._spec.quiet_s
        why: Ending | None = None
        # After an error, too: a run that is ended by time makes more steps in a fast mode.
        if steps is not None and self._steps_after_fault() >= steps:
            why = "steps made"
        elif patience is not None and now - self._quiet_since > patience and not self._progress.error:
            why = "went well"
        if not why:
            return None
        activated = read_evidence(self._machine.evidence.text()).activated
        return why if all(index in activated for index in self._waiting) else None

    def _steps_after_fault(self) -> int:
        return self._progress.done - self._steps_then

    def _seen(self, crash: Crash) -> Observation:
        victim = formats.victim(self._machine.console.text())
        ours = self._over and victim and victim.pid in self._agent
        outcome = self._otherwise if ours else crash_outcome(crash)
        return replace(self._observed(outcome, self._over), crash=crash)

    def _survived(self, detail: Ending) -> Observation:
        seen = self._observed("survived", detail)
        return replace(seen, steps_after_fault=self._steps_after_fault()) if self._reports_steps else seen

    def _observed(self, outcome: Outcome, detail: str = "") -> Observation:
        poll_progress(self._machine, self._progress)
        # Any crash may end in a triple fault, even in the middle of its report.
        restarted = STAGE0 in self._machine.console.text()
        seconds = self._now() - self._start
        return Observation(outcome, None, seconds, self._status, detail, restarted)

    def _read_report(self) -> Crash:
        deadline = self._now() + self._report_s
        while self._now() < deadline:
            # The age of what is lost is counted from when its step was heard.
            poll_progress(self._machine, self._progress)
            if formats.ended(self._machine.console.text()):
                break
            time.sleep(_POLL_S)
        console = self._machine.console.text()
        return formats.recognise(console) or Crash("panic", formats.with_telling_line("unknown", console))

    def _out_of_time(self) -> Observation | None:
        """End the trial if the guest is alive; a hang may have begun less than hang_s seconds ago."""
        alive = self._answers(self._spec.hang_s, "survived") or self._stepped()
        if self._crashed():
            # The answer may have come from stage 0's agent.
            return None
        ended: Ending = "timed out" if self._status == "running" else "workload ended"
        return self._survived(ended) if alive else self._hung()

    def _silent(self) -> Observation | None:
        """Handle a workload without a step: it ended, the guest hangs, or both; or nothing is known yet."""
        if not self._answers(_AGENT_S, "stuck"):
            return self._hung()
        try:
            ended = self._machine.status(self._pid)
        except InfraError:
            return self._hung()
        if ended is None and not self._reports_steps:
            # Without step reports the agent's answer is the only sign of life.
            self._alive_at = self._now()
            return None
        if ended is None and self._now() - self._alive_at <= self._spec.hang_s:
            self._answered_at = self._now()
            return None
        if ended is None:
            return self._stuck()
        self._ended(f"exit {ended.status}")
        return None

    def _ended(self, status: str) -> None:
        """Note that there is no load any more; the kernel may still crash, and gets `hang_s` seconds more."""
        self._status = status
        self._until = min(self._until, self._now() + self._spec.hang_s)
        self._alive_at = float("inf")

    def _stuck(self) -> Observation | None:
        """Report a workload that is stuck in a kernel that answers, and where it is.

        That is settled before anybody asks where, because a damaged kernel may not survive the answer.
        """
        if self._crashed() or self._stepped():
            return None
        seen = self._observed("stuck", "workload stuck, agent answers")
        before = len(self._machine.console.text())
        where, lost = self._where_stuck()
        crash = crash_on(self._machine.console.text(before))
        if self._stepped() and not crash:
            return None
        if crash or lost:
            what = f"crashed: {crash.title}" if crash else "lost"
            seen = replace(seen, detail=f"{seen.detail}; when asked where, {what}")
        title = Crash("hang", f"workload stuck in {where}")
        return replace(seen, crash=title, restarted=STAGE0 in self._machine.console.text())

    def _where_stuck(self) -> tuple[str, bool]:
        """Ask where the workload is stuck; return the place, and whether the agent was lost over it."""
        lost = False
        try:
            where = formats.blocked_in(self._ask_sysrq("w"))
            if where == frames.UNKNOWN:
                # It is not blocked but looping.
                where = formats.looping_in(b"".join(self._ask_sysrq("t") for _ in range(_LOOKS)))
        except InfraError:
            if failure := self._machine.failure():
                raise InfraError(f"{self._machine.config.name}: {failure}") from None
            where, lost = frames.UNKNOWN, True
        if where == frames.UNKNOWN:
            where = formats.with_telling_line(where, self._machine.console.text())
        return where, lost

    def _ask_sysrq(self, key: str) -> bytes:
        """Send a SysRq key; return what the kernel prints. InfraError if the agent is lost."""
        before = len(self._machine.console.text())
        self._machine.write_file("/proc/sysrq-trigger", key.encode(), timeout=_AGENT_S)
        return self._machine.console.text()[before:]

    def _hung(self) -> Observation | None:
        """Report a hang; a non-maskable interrupt makes the kernel print where it is, if anything can."""
        if self._crashed() or self._stepped():
            return None
        console = self._machine.console.text()
        # The time to the crash ends here; the diagnosis does not count.
        observation = self._observed("hang")
        self._machine.nmi()
        deadline = self._now() + _REPORT_S
        while self._now() < deadline and not formats.ended(self._machine.console.text()):
            time.sleep(_POLL_S)
        said = self._machine.console.text()[len(console) :]
        detail = "agent lost" if said.strip() else "no output"
        where = formats.hung_in(said)
        title = f"hang in {where}" if where else formats.with_telling_line(f"hang, {detail}", console + said)
        answer = formats.recognise(said)
        crash = Crash("hang", title, answer.damage if answer else "")
        return replace(observation, crash=crash, detail=detail, restarted=STAGE0 in said)
