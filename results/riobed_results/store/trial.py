# SPDX-License-Identifier: Apache-2.0
"""The rows of trials and of their faults. Rows are only added, never changed.

Each fact of a trial is declared here and nowhere else: a column with its meaning, unit and use, or a property
that follows from columns. Summaries, JSON, Parquet, the migration of older stores and docs/columns.md follow
from these declarations. The checks are part of the schema, so no program can store a row that tables would
count wrongly.
"""

import re
from typing import Any, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column, relationship

from riobed_results.store.base import AnyText, Base, Json, JsonOf, Seconds, fact, one_of, used_as
from riobed_results.store.check_report import CheckReport
from riobed_results.store.recovery_report import (
    FirstMount,
    RecoveryReport,
    came_in_time,
    cut_short,
    is_direct,
)

# How a trial ended; docs/decisions/034-every-run-judged.md defines the first four. `crash` and `discard` are
# of stores before schema 3: a crash was a panic, a hang or stuck, a discard survived and was not judged.
Outcome = Literal["panic", "hang", "stuck", "survived", "crash", "discard", "infra_error"]
CrashKind = Literal["panic", "oops", "trap", "hang", "reset"]
Corruption = Literal["none", "direct", "indirect", "unclassified"]
# What that says of the mechanism, in the words of tables. It is no outcome: a file differs in each.
MECHANISM = {"direct": "wrong checksum or canary", "indirect": "right checksums"}
CorruptionWhere = Literal["cache", "disk"]
# By what promise of a mode files are judged: each step, or what was synced and states that files had since.
PromiseKind = Literal["steps", "synced"]
# Joins the states of files of a trial: a change is lost that is older than the mode permits.
LOST_TOO_MUCH = "lost too much"
Restart = Literal["reset", "parked", "both", "power", "power-lines"]
# The restarts that only non-volatile memory and disks survive.
LOSSES_OF_POWER: frozenset[Restart] = frozenset({"power", "power-lines"})
# By its key, the title of a crash that the harness asked a sound kernel for.
PANICS = {"nmi": "panic on request, by NMI", "sysrq": "panic on request, by SysRq"}
# Why a run that survived was ended. `steps made`: those that its spec asks of a survivor.
Ending = Literal["steps made", "went well", "timed out", "workload ended"]
# Begins the detail of an infra error of which two checks of one crash are the cause.
CHECKS_DISAGREE = "the check with the host's help and that in the guest disagree"
# Ends the name of a fault's parameter that has the kernel symbol of the address in another one.
SYMBOL = "_symbol"
# Titles of stuck workloads begin so. Stores before schema 3 called them crashes.
STUCK_TITLE = "workload stuck"
# A kernel worker's name has the processor and what it is for (kernel/workqueue.c).
_WORKER = re.compile(r"(kworker|ksoftirqd|migration|swapper|rcuop|cpuhp)\b.*")
_JUDGED = "outcome NOT IN ('discard', 'infra_error')"


class TrialRow(Base):
    """One attempt at one position of a campaign's plan.

    A column is None where its fact is not known, and in stores of a schema before the one that brought it.
    An infra error is a row of its own; its retry has the next `attempt`. Times of activation are seconds of
    the guest's clock since injection, other columns `*_s` are seconds of the trial's clock since then.
    Columns `*_guest_s` are seconds of the guest's clock since its boot.
    """

    __tablename__ = "trials"
    __table_args__ = (
        one_of("outcome", get_args(Outcome)),
        one_of("crash_kind", get_args(CrashKind)),
        one_of("corruption", get_args(Corruption)),
        one_of("corruption_where", get_args(CorruptionWhere)),
        one_of("promise", get_args(PromiseKind)),
        sa.CheckConstraint(f"({_JUDGED}) = (crash_kind IS NOT NULL)", name="only_judged_have_a_kind"),
        sa.CheckConstraint(f"({_JUDGED}) = (corruption IS NOT NULL)", name="only_judged_have_a_verdict"),
        sa.CheckConstraint(
            "corruption_where IS NULL OR (corruption IS NOT NULL AND corruption <> 'none')",
            name="only_corruption_has_a_place",
        ),
        sa.UniqueConstraint("campaign_id", "position", "attempt", name="one_row_per_attempt"),
        # Neither two simultaneous runs of a campaign nor a resumed one may count a position twice.
        sa.Index(
            "one_result_per_position",
            "campaign_id",
            "position",
            unique=True,
            sqlite_where=sa.text("outcome <> 'infra_error'"),
            postgresql_where=sa.text("outcome <> 'infra_error'"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True, init=False, info=fact("number of the row"))
    campaign_id: Mapped[int] = mapped_column(
        sa.ForeignKey("campaigns.id"), info=fact("campaign that the trial belongs to")
    )
    position: Mapped[int] = mapped_column(info=fact("position in the campaign's plan", use="value"))
    attempt: Mapped[int] = mapped_column(info=fact("attempt at this position, from 1"))
    mode: Mapped[str] = mapped_column(info=fact("cache mode", use="group"))
    fault_class: Mapped[str] = mapped_column(info=fact("fault class, or the control", use="group"))
    seed: Mapped[str] = mapped_column(
        info=fact("seed of everything that is drawn for the trial", use="value")
    )
    outcome: Mapped[Outcome] = mapped_column(AnyText, info=fact("how the trial ended", use="group"))
    started: Mapped[str] = mapped_column(info=fact("when it began", "UTC, ISO 8601", use="value"))
    finished: Mapped[str] = mapped_column(info=fact("when it ended", "UTC, ISO 8601", use="value"))
    crash_kind: Mapped[CrashKind | None] = mapped_column(
        AnyText, default=None, info=fact("how the machine went down, or was brought down", use="group")
    )
    crash_title: Mapped[str | None] = mapped_column(
        default=None, info=fact("first line of the crash report, without addresses and numbers", use="value")
    )
    corruption: Mapped[Corruption | None] = mapped_column(
        AnyText, default=None, info=fact("whether files differed, and how the damage came", use="group")
    )
    corruption_where: Mapped[CorruptionWhere | None] = mapped_column(
        AnyText, default=None, info=fact("`disk`: the file system could not be recovered or mounted")
    )
    workload_status: Mapped[str | None] = mapped_column(
        default=None, info=fact("how the workload ended before the crash")
    )
    workload_error: Mapped[str | None] = mapped_column(
        default=None, info=fact("first error that the workload reported before the crash", since=3)
    )
    workload_errors: Mapped[int | None] = mapped_column(
        default=None, info=fact("errors that the workload reported before the crash", "errors", since=3)
    )
    workload_mismatch: Mapped[bool] = mapped_column(
        default=False,
        info=fact("whether the workload read something other than it had written", since=2, use="group"),
    )
    files_lost: Mapped[int | None] = mapped_column(
        default=None,
        info=fact(
            "files of the workload's model that are not there, or wrong", "files", since=3, use="value"
        ),
    )
    bytes_lost: Mapped[int | None] = mapped_column(
        sa.BigInteger,
        default=None,
        info=fact(
            "bytes of the workload's model that are not there, or wrong", "bytes", since=3, use="value"
        ),
    )
    total_loss: Mapped[bool | None] = mapped_column(
        default=None,
        info=fact("whether no file is right, or the file system cannot be mounted", since=3, use="group"),
    )
    steps_lost: Mapped[int | None] = mapped_column(
        default=None,
        info=fact(
            "steps from the first that is not in the files to the last; None if they are as after none",
            "steps",
            since=4,
            use="value",
        ),
    )
    seconds_lost: Mapped[float | None] = mapped_column(
        default=None,
        info=fact("time in which the harness heard of the lost steps", "s", since=4, use="value"),
    )
    promise: Mapped[PromiseKind | None] = mapped_column(
        AnyText,
        default=None,
        info=fact(
            "promise that the files were judged by: each of the `steps`, or what was `synced`",
            since=8,
            use="group",
        ),
    )
    states: Mapped[str | None] = mapped_column(
        default=None,
        info=fact(
            "states of files other than the newest, of what was judged by `synced`, joined by commas",
            since=8,
            use="group",
        ),
    )
    canary_hits: Mapped[int | None] = mapped_column(
        default=None,
        info=fact(
            "blocks of 4096 bytes of the NVDIMM's canary that differed after the crash",
            "blocks",
            since=4,
        ),
    )
    canary_offset: Mapped[int | None] = mapped_column(
        sa.BigInteger,
        default=None,
        info=fact("offset in the NVDIMM of the first byte of the canary that differed", "bytes", since=4),
    )
    lines_open: Mapped[int | None] = mapped_column(
        default=None,
        info=fact(
            "cache lines of the NVDIMM that were not durable when power was lost",
            "lines",
            since=4,
            use="value",
        ),
    )
    lines_lost: Mapped[int | None] = mapped_column(
        default=None, info=fact("those of them that the loss of power took", "lines", since=4, use="value")
    )
    unknown_flushes: Mapped[int | None] = mapped_column(
        default=None,
        info=fact(
            "flushes since the snapshot whose line the emulator could not tell",
            "flushes",
            since=4,
            use="value",
        ),
    )
    requested: Mapped[int] = mapped_column(
        default=0, info=fact("faults that the plan asked for, or changes to plant", "faults", use="value")
    )
    injected: Mapped[int] = mapped_column(default=0, info=fact("faults that were injected", "faults"))
    activated: Mapped[int] = mapped_column(default=0, info=fact("faults that took effect", "faults"))
    first_activation_s: Mapped[float | None] = mapped_column(
        default=None, info=fact("when the first fault took effect, by the guest's clock since injection", "s")
    )
    time_to_crash_s: Mapped[float | None] = mapped_column(
        default=None, info=fact("when the machine went down, or was brought down", "s", use="value")
    )
    injection_guest_s: Mapped[float | None] = mapped_column(
        default=None, info=fact("guest's time of the first injection", "s", since=3)
    )
    crash_guest_s: Mapped[float | None] = mapped_column(
        default=None, info=fact("guest's time of the first line of the crash report", "s", since=3)
    )
    steal_s: Mapped[float | None] = mapped_column(
        default=None,
        info=fact(
            "time that the guest waited for a processor of the host while it was watched",
            "s",
            since=6,
            use="value",
        ),
    )
    victim: Mapped[str | None] = mapped_column(
        default=None, info=fact("task that ran at the crash, by the crash report", since=4)
    )
    harness_victim: Mapped[bool | None] = mapped_column(
        default=None,
        info=fact("whether that task was init or the guest's agent, by its process id", since=7, use="group"),
    )
    complaints: Mapped[int | None] = mapped_column(
        default=None,
        info=fact("reports of the kernel that it outlived, until its crash", "reports", since=7, use="value"),
    )
    first_complaint: Mapped[str | None] = mapped_column(
        default=None, info=fact("title of the first of them", since=7, use="value")
    )
    steps_at_injection: Mapped[int | None] = mapped_column(
        default=None,
        info=fact("steps that were done when the harness saw the faults in place", "steps", since=3),
    )
    steps_done: Mapped[int] = mapped_column(default=0, info=fact("steps that the workload reported", "steps"))
    steps_after_fault: Mapped[int | None] = mapped_column(
        default=None,
        info=fact(
            "of these, those after a fault was last injected or first activated, of a run that survived",
            "steps",
            since=9,
        ),
    )
    worker: Mapped[str | None] = mapped_column(default=None, info=fact("guest that ran the trial", since=3))
    snapshot: Mapped[str | None] = mapped_column(
        default=None, info=fact("memory that it started from: first digits of its SHA-256", since=3)
    )
    boot: Mapped[str | None] = mapped_column(
        default=None,
        info=fact(
            "boot that this memory comes from: number in the registry, else digits of its id",
            since=4,
        ),
    )
    cache_share: Mapped[float | None] = mapped_column(
        default=None,
        info=fact(
            "file cache's share of RAM: by the registry at the crash, else at the snapshot",
            "0 to 1",
            since=3,
            use="value",
        ),
    )
    dirty_share: Mapped[float | None] = mapped_column(
        default=None, info=fact("the same of dirty pages", "0 to 1", since=3, use="value")
    )
    restart: Mapped[Restart | None] = mapped_column(
        default=None,
        info=fact(
            "how the machine restarted; `both`: by a reset, and by the parked stage 0",
            since=3,
            use="group",
        ),
    )
    restart_differs: Mapped[str | None] = mapped_column(
        default=None, info=fact("fields of the two reports on recovery that differ after `both`", since=3)
    )
    fresh_boot: Mapped[bool] = mapped_column(
        default=False, info=fact("whether the guest was booted for the trial", use="group")
    )
    restore_checked: Mapped[bool] = mapped_column(
        default=False,
        info=fact("whether restored memory was compared with the snapshot's", since=2, use="group"),
    )
    detail: Mapped[str] = mapped_column(
        default="", info=fact("what else was seen, or why it is an infra error")
    )
    recovery: Mapped[RecoveryReport | None] = mapped_column(
        JsonOf(RecoveryReport), default=None, info=fact("report of riorecover")
    )
    check: Mapped[CheckReport | None] = mapped_column(
        JsonOf(CheckReport), default=None, info=fact("report of the workload's check")
    )
    phases: Mapped[Seconds] = mapped_column(default_factory=dict, info=fact("host's time of each phase", "s"))
    log: Mapped[str | None] = mapped_column(
        default=None, info=fact("path of the console log, relative to the store's folder")
    )
    log_damage: Mapped[str | None] = mapped_column(
        default=None, info=fact("what the crash report on the console lacks", since=2)
    )
    faults: Mapped[list["FaultRow"]] = relationship(default_factory=list, order_by="FaultRow.index")

    @property
    def weight(self) -> int:
        """A row and a Group are counted by the same functions."""
        return 1

    @property
    @used_as("group")
    def logged(self) -> bool:
        """Whether there is a console log."""
        return bool(self.log)

    @property
    @used_as("group")
    def log_damaged(self) -> bool:
        """Whether the crash report on the console lacks anything."""
        return self.log_damage is not None

    @property
    @used_as("group")
    def ended_by(self) -> str | None:
        """Why a run with faults that survived was ended, the first words of `detail`; None of other runs."""
        words = self.detail.partition(";")[0]
        return words if self.outcome == "survived" and words in get_args(Ending) else None

    @property
    @used_as("group")
    def panic_by(self) -> str | None:
        """How the harness asked for the panic, a key of PANICS; None if it did not."""
        return next((key for key, title in PANICS.items() if title == self.crash_title), None)

    @property
    @used_as("group")
    def planted(self) -> str | None:
        """The kind of the planted change; None if none was planted."""
        if self.fault_class != "planted" or not self.faults:
            return None
        kind = self.faults[0].params.get("kind")
        return None if kind is None else str(kind)

    @property
    @used_as("group")
    def planted_during(self) -> str | None:
        """When the change was planted, at `rest` or during a `step`; None if nothing says so."""
        return self.faults[0].params.get("during") if self.planted else None

    @property
    @used_as("group")
    def named_by(self) -> str | None:
        """What named the planted change besides the check: `checksum`, `e2fsck`, `canary`; else None."""
        if not self.planted:
            return None
        if self.planted == "canary":
            return "canary" if self.canary_offset == self.faults[0].params.get("offset") else None
        if self.planted == "entry":
            # The word of an entry checks itself.
            return "checksum" if self.recovery and self.recovery.entries.rejected else None
        params, sums = self.faults[0].params, self.recovery.checksums if self.recovery else None
        wrong = sums.mismatches if sums else []
        if any(page.metadata and page.index == params.get("block") for page in wrong):
            return "checksum"
        return "e2fsck" if params.get("e2fsck") else None

    @property
    @used_as("group")
    def asked(self) -> bool:
        """Whether a fault or a planted change was requested."""
        return self.requested > 0

    @property
    @used_as("group")
    def used(self) -> bool:
        """Whether a fault was activated."""
        return self.faults_activated > 0

    @property
    @used_as("group")
    def lost_steps(self) -> bool:
        """Whether some of the newest steps are not in the files, or not as a whole."""
        return bool(self.steps_lost)

    @property
    @used_as("group")
    def lost_every_step(self) -> bool:
        """Whether nothing is left of what the workload did.

        Of files in states of several steps that is only known if all of them are lost.
        """
        as_before = self.promise != "synced" and self.lost_steps and self.steps_lost == self.steps_done
        return bool(self.total_loss) or as_before

    @property
    @used_as("group")
    def recovered(self) -> bool:
        """Whether there is a report on the recovery."""
        return self.recovery is not None

    @property
    @used_as("group")
    def warm(self) -> bool:
        """Whether the registry was found and used."""
        return self.recovery is not None and self.recovery.registry == "recovered"

    @property
    @used_as("group")
    def production(self) -> bool | None:
        """Whether the production kernel came up after recovery; None if it was not started."""
        return self.recovery.production if self.recovery else None

    @property
    def _first_mount(self) -> FirstMount | None:
        """The mount that replays the log; None of a file system without one, and where nothing says so."""
        return self.recovery.first_mount if self.recovery and self.recovery.checker else None

    @property
    @used_as("group")
    def first_mount_failed(self) -> bool | None:
        """Whether the mount that replays the log failed; None if no mount does, or nothing says so."""
        return None if self._first_mount is None else self._first_mount.error != 0

    @property
    @used_as("group")
    def log_unreplayable(self) -> bool | None:
        """Whether the log was why: without it the mount succeeded. None if that was not tried."""
        return None if self._first_mount is None else self._first_mount.without_log

    @property
    @used_as("group")
    def never_mounted(self) -> bool | None:
        """Whether no mount succeeded, even after a repair; None as for `first_mount_failed`."""
        return self.recovery.mount_error != 0 if self.recovery and self._first_mount else None

    @property
    @used_as("group")
    def log_dropped(self) -> bool | None:
        """Whether a repair that throws the log away ran; None if nothing says so."""
        return self.recovery.log_dropped if self.recovery else None

    @property
    @used_as("group")
    def errors_left(self) -> bool | None:
        """Whether the file system's check left errors; None if the report does not name the file system."""
        return self.recovery.errors_left if self.recovery and self.recovery.file_system else None

    @property
    @used_as("group")
    def direct(self) -> bool | None:
        """Whether checksums show a stray store; None if no checksums were kept, or power was lost."""
        return None if self.restart in LOSSES_OF_POWER else is_direct(self.recovery)

    @property
    @used_as("group")
    def canary(self) -> bool | None:
        """Whether a store hit the NVDIMM's canary; None without one."""
        return None if self.canary_hits is None else self.canary_hits > 0

    @property
    @used_as("group")
    def inconsistent(self) -> bool:
        """Whether an undamaged part of the registry makes no sense."""
        return bool(self.recovery and self.recovery.inconsistent)

    @property
    @used_as("group")
    def duplicates(self) -> bool:
        """Whether two dirty entries of the registry are for one page."""
        return bool(self.recovery and self.recovery.entries.duplicates)

    @property
    @used_as("group")
    def cut_short(self) -> str | None:
        """The phase of the recovery that a reset interrupted; None without such a reset."""
        return cut_short(self.recovery)

    @property
    @used_as("group")
    def late(self) -> bool:
        """Whether the reset in recovery came after its end, so that the trial counts for nothing."""
        return not came_in_time(self.recovery)

    @property
    @used_as("group")
    def restarts_differ(self) -> bool:
        """Whether the reports of the two ways to restart differ."""
        return bool(self.restart_differs)

    @property
    @used_as("group")
    def checks_differ(self) -> bool:
        """Whether the host's check and the guest's judged files differently; such a trial has no result."""
        return self.outcome == "infra_error" and self.detail.startswith(CHECKS_DISAGREE)

    @property
    @used_as("group")
    def share_known(self) -> bool:
        """Whether the file cache's share of RAM is known."""
        return self.cache_share is not None

    @property
    @used_as("group")
    def checksummed(self) -> bool:
        """Whether checksums of cached pages were kept."""
        return self.mismatches is not None

    @property
    @used_as("group")
    def wrong_page(self) -> bool:
        """Whether a cached page had a wrong checksum."""
        return bool(self.mismatches)

    @property
    @used_as("group")
    def wrong_dirty_page(self) -> bool:
        """Whether a dirty page had a wrong checksum."""
        sums = self.recovery.checksums if self.recovery else None
        return bool(sums and any(page.dirty for page in sums.mismatches))

    @property
    @used_as("group")
    def stuck(self) -> bool:
        """Whether the workload was stuck; by its title where such an end was called a crash."""
        titled = self.outcome == "crash" and (self.crash_title or "").startswith(STUCK_TITLE)
        return self.outcome == "stuck" or titled

    @property
    @used_as("group")
    def met_error(self) -> bool:
        """Whether the workload met any error, or read wrong bytes."""
        if self.workload_errors is None:
            # Stores before schema 3 do not count errors; there memTest ended at the first.
            return self.workload_mismatch or self.workload_status not in (None, "running")
        return self.workload_mismatch or self.workload_errors > 0

    @property
    @used_as("group")
    def met_damage(self) -> bool:
        """Whether the workload's first error was EUCLEAN, or it read wrong bytes."""
        said = self.workload_error or self.workload_status or ""
        return self.workload_mismatch or said.startswith("EUCLEAN")

    @property
    @used_as("group")
    def task(self) -> str | None:
        """The name of the task that ran at the crash, of a kernel's worker without its number."""
        return self.victim and _WORKER.sub(r"\1", self.victim)

    @property
    @used_as("group")
    def complained(self) -> bool | None:
        """Whether the kernel made a report that it outlived; None if that is not known."""
        return None if self.complaints is None else self.complaints > 0

    @property
    def crash_after_s(self) -> float | None:
        """The guest's seconds from the first injection to the first line of the crash report.

        None if the row lacks one of the two moments.
        """
        if self.injection_guest_s is None or self.crash_guest_s is None:
            return None
        return max(self.crash_guest_s - self.injection_guest_s, 0.0)

    @property
    @used_as("value")
    def guest_s(self) -> float | None:
        """The guest's seconds from the first injection to the first line of the crash report.

        Of a run that was brought down this is how long it was watched. A guest that hangs without a word, or
        whose workload is stuck, writes no such line; then the seconds are those of the trial's clock. None if
        the guest did not tell of the injection.
        """
        if self.injection_guest_s is None:
            return None
        return self.time_to_crash_s if self.crash_after_s is None else self.crash_after_s

    @property
    def latency_s(self) -> float | None:
        """The guest's seconds from the first activation of a fault to the first line of the crash report."""
        if self.crash_after_s is None or self.first_activation_s is None:
            return None
        return max(self.crash_after_s - self.first_activation_s, 0.0)

    @property
    @used_as("group")
    def guest_timed(self) -> bool:
        """Whether these seconds are known."""
        return self.guest_s is not None

    @property
    @used_as("group")
    def opens(self) -> bool:
        """Whether the registry says which pages were open at the crash."""
        return self.open_pages is not None

    @property
    @used_as("group")
    def phase_names(self) -> tuple[str, ...]:
        """The names of the trial's phases."""
        return tuple(self.phases)

    @property
    @used_as("value")
    def phase_seconds(self) -> str:
        """The seconds of these phases as text, which millions of trials leave numpy to read."""
        return " ".join(map(repr, self.phases.values()))

    @property
    @used_as("value")
    def faults_injected(self) -> int:
        """The number of faults that were injected."""
        return sum(fault.injected for fault in self.faults)

    @property
    @used_as("value")
    def faults_watched(self) -> int:
        """The number of injected faults of which it is known whether they were activated."""
        return sum(fault.injected and fault.activated is not None for fault in self.faults)

    @property
    @used_as("value")
    def faults_activated(self) -> int:
        """The number of faults that were activated."""
        return sum(bool(fault.activated) for fault in self.faults)

    @property
    @used_as("value")
    def differences(self) -> int:
        """The number of differences that the workload's check counted; 1 if it gave no number."""
        if self.check is None or self.check.all_equal:
            return 0
        counted = self.check.difference_count
        return 1 if counted is None else counted

    @property
    @used_as("value")
    def mismatches(self) -> int | None:
        """The number of cached pages with a wrong checksum; None if no checksums were kept."""
        return self.recovery.checksum_mismatches if self.recovery else None

    @property
    @used_as("value")
    def open_pages(self) -> int | None:
        """The number of pages that were open to stores at the crash; None where nothing says so."""
        return self.recovery.open_pages if self.recovery else None

    @property
    @used_as("value")
    def listed_pages(self) -> int | None:
        """The number of pages that the registry listed."""
        return self.recovery.entries.entries - self.recovery.entries.free if self.recovery else None

    @property
    @used_as("value")
    def unused_entries(self) -> int | None:
        """The number of registry entries that were damaged or inconsistent."""
        return self.recovery.unused_entries if self.recovery else None

    @property
    @used_as("value")
    def restored_pages(self) -> int | None:
        """The number of pages that recovery wrote back."""
        return self.recovery.restored_pages if self.recovery else None

    @property
    @used_as("value")
    def registry_dirty_bytes(self) -> int | None:
        """The bytes of dirty pages that the registry listed."""
        return self.recovery.dirty_bytes if self.recovery else None

    @property
    @used_as("value")
    def registry_dirty_share(self) -> float | None:
        """The share of RAM that the registry's dirty pages had."""
        return self.recovery.dirty_share if self.recovery else None


def with_symbols(params: dict[str, Any]) -> dict[str, Any]:
    """Return a fault's parameters with the symbol of an address, where the row has it, in its place."""
    return {
        name: params.get(f"{name}{SYMBOL}", value)
        for name, value in params.items()
        if not name.endswith(SYMBOL)
    }


class FaultRow(Base):
    """One fault of a trial, or its planted change."""

    __tablename__ = "faults"

    trial_id: Mapped[int] = mapped_column(
        sa.ForeignKey("trials.id"), primary_key=True, init=False, info=fact("trial that it belongs to")
    )
    index: Mapped[int] = mapped_column(
        primary_key=True, info=fact("number of the fault in its trial, from 0")
    )
    fault_class: Mapped[str] = mapped_column(info=fact("fault class"))
    address: Mapped[str | None] = mapped_column(
        default=None, info=fact("kernel address, `0x…`: such numbers exceed SQL's signed 64 bits")
    )
    function: Mapped[str] = mapped_column(default="", info=fact("kernel function at the address"))
    source: Mapped[str] = mapped_column(default="", info=fact("file and line of the source at the address"))
    old: Mapped[str] = mapped_column(default="", info=fact("bytes before the fault", "hexadecimal digits"))
    new: Mapped[str] = mapped_column(default="", info=fact("bytes that it put there", "hexadecimal digits"))
    old_asm: Mapped[str] = mapped_column(default="", info=fact("instructions before the fault"))
    new_asm: Mapped[str] = mapped_column(default="", info=fact("instructions that it made"))
    injected: Mapped[bool] = mapped_column(default=False, info=fact("whether it was injected"))
    activated: Mapped[bool | None] = mapped_column(
        default=None, info=fact("whether it took effect; None if that cannot be known")
    )
    activated_s: Mapped[float | None] = mapped_column(
        default=None, info=fact("when it took effect, by the guest's clock since injection", "s")
    )
    params: Mapped[Json] = mapped_column(
        default_factory=dict, info=fact("what was drawn for it, and what it hit")
    )
