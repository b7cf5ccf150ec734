# SPDX-License-Identifier: Apache-2.0
"""The tables of a results store. Rows are only added, never changed.

`campaigns`, `trials`, `faults` and `runs` are what was seen. `digests` follows from trials: it has of each
trial what tables count, in a row so narrow that a million of them can be read in seconds.

The checks are part of the schema, so no program can store a row that tables would count wrongly. All column
types are generic, so the same models serve SQLite and PostgreSQL.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, ClassVar, Literal, get_args

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, TypeAdapter
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column, relationship

from riobed_results.store.check_report import CheckReport
from riobed_results.store.provenance import KernelProvenance, Provenance
from riobed_results.store.recovery_report import RecoveryReport, counts, cut_short, is_direct

SCHEMA_VERSION = 4

# How a trial ended; docs/decisions/034-every-run-judged.md defines the first four. `crash` and `discard` are
# of stores before schema 3: a crash was a panic, a hang or stuck, a discard survived and was not judged.
Outcome = Literal["panic", "hang", "stuck", "survived", "crash", "discard", "infra_error"]
CrashKind = Literal["panic", "oops", "trap", "hang", "reset"]
Corruption = Literal["none", "direct", "indirect", "unclassified"]
CorruptionWhere = Literal["cache", "disk"]
Restart = Literal["reset", "parked", "both", "power", "power-lines"]
# The restarts that only non-volatile memory and disks survive.
LOSSES_OF_POWER: frozenset[Restart] = frozenset({"power", "power-lines"})
RunKind = Literal["instructions", "time"]
# `wrong`: the work left something else than it should, so its cost is that of other work.
RunOutcome = Literal["measured", "wrong", "infra_error"]
Json = dict[str, Any]
Kernels = dict[str, KernelProvenance]
Seconds = dict[str, float]
Events = dict[str, int]
PartEvents = dict[str, Events]


class DiskCounts(BaseModel):
    """How the disks under test were used: completed requests of the guest; sizes in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    read_requests: int
    read_bytes: int
    write_requests: int
    write_bytes: int
    flushes: int


class AnyText(sa.types.TypeDecorator[str]):
    """Text from a crashed guest: NUL and lone surrogates become escapes, because databases refuse them."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the stored form of `value`; ordinary text is unchanged."""
        if value is None:
            return None
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


class JsonOf(sa.types.TypeDecorator[Any]):
    """JSON of one type, validated when written and read; pydantic's ValidationError if the shape is wrong.

    Unset fields of a model are not stored, so a row reads back exactly as it was written.
    """

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, of: Any) -> None:
        super().__init__()
        self.of = of
        self._adapter: TypeAdapter[Any] = TypeAdapter(of)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the stored form of `value`."""
        if value is None:
            return None
        checked = self._adapter.validate_python(value)
        return self._adapter.dump_python(checked, exclude_unset=True)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return the value of a row."""
        return None if value is None else self._adapter.validate_python(value)


def utc_now() -> str:
    """Return the current time as the store keeps all times: UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _one_of(column: str, values: Iterable[str]) -> sa.CheckConstraint:
    quoted = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({quoted})", name=f"known_{column}")


class Base(MappedAsDataclass, DeclarativeBase, kw_only=True):
    """Common base: every row is a dataclass with keyword-only fields."""

    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy's own way to declare it)
        str: AnyText,
        Outcome: AnyText,
        CrashKind: AnyText,
        Corruption: AnyText,
        CorruptionWhere: AnyText,
        Json: sa.JSON(none_as_null=True),
        RecoveryReport: JsonOf(RecoveryReport),
        CheckReport: JsonOf(CheckReport),
        Kernels: JsonOf(Kernels),
        Seconds: JsonOf(Seconds),
        RunKind: AnyText,
        RunOutcome: AnyText,
        Events: JsonOf(Events),
        PartEvents: JsonOf(PartEvents),
        DiskCounts: JsonOf(DiskCounts),
    }


def columns(model: type[Base]) -> list[Any]:
    """Return the columns of a table in order; each has the name of the row's attribute."""
    return list(model.__table__.columns)


def values(row: "Base") -> dict[str, Any]:
    """Return a row's columns by name, with models as plain JSON values."""
    found = {column.name: getattr(row, column.name) for column in columns(type(row))}
    return {
        name: value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
        for name, value in found.items()
    }


class MetaRow(Base):
    """Facts about the store itself; `schema_version` is the only key."""

    __tablename__ = "meta"

    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class CampaignRow(Base):
    """One campaign: its spec (YAML text), its provenance, and the host it was started on."""

    __tablename__ = "campaigns"

    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    name: Mapped[str] = mapped_column(unique=True)
    spec: Mapped[str]
    seed: Mapped[str]
    kernel_release: Mapped[str]
    kernel_build_id: Mapped[str]
    series_commit: Mapped[str]
    qemu_version: Mapped[str]
    accelerator: Mapped[str]
    host: Mapped[Json]
    kernels: Mapped[Kernels] = mapped_column(default_factory=dict)
    harness: Mapped[str | None] = mapped_column(default=None)
    image: Mapped[str | None] = mapped_column(default=None)
    workload: Mapped[str | None] = mapped_column(default=None)
    created: Mapped[str] = mapped_column(default_factory=utc_now)

    @property
    def provenance(self) -> Provenance:
        """The provenance of the campaign's trials."""
        return Provenance.model_validate(self, from_attributes=True)


# By its key, the title of a crash that the harness asked a sound kernel for.
PANICS = {"nmi": "panic on request, by NMI", "sysrq": "panic on request, by SysRq"}
# Titles of stuck workloads begin so. Stores before schema 3 called them crashes.
STUCK_TITLE = "workload stuck"
# A kernel worker's name has the processor and what it is for (kernel/workqueue.c).
_WORKER = re.compile(r"(kworker|ksoftirqd|migration|swapper|rcuop|cpuhp)\b.*")
_JUDGED = "outcome NOT IN ('discard', 'infra_error')"


class TrialRow(Base):
    """One attempt at one position of a campaign's plan.

    `*_s` are seconds since injection, `phases` maps a phase's name to its seconds, `started` and `finished`
    are UTC ISO 8601, `log` is a path relative to the store's folder. `requested`, `injected` and
    `activated` count faults. `restore_checked`: restored memory was compared with the snapshot's.
    `time_to_crash_s` ends when the machine was brought down if it survived. `log_damage` says what the crash
    report on the console lacks. An infra error is a row of its own; its retry has the next `attempt`.

    Before the crash the workload reported `workload_errors` errors, the first of which was `workload_error`,
    and `workload_status` is how it ended. `workload_mismatch`: it read something other than it had written.
    `files_lost` and `bytes_lost`: of what the workload's model has, not there or wrong, None if nobody could
    count; `total_loss`: no file of it is right, or the file system cannot be mounted. `steps_lost`: of the
    `steps_done`, the newest ones that are not in the files, which are as they were before these; None if the
    files are not as after any step, or nobody could count. `seconds_lost`: in how many seconds of the trial's
    clock the harness heard of these steps. `canary_hits`: how many blocks of 4096 bytes of
    the NVDIMM's canary, in which nobody stores anything, differed after the crash, and `canary_offset` the
    offset in the NVDIMM of the first such byte; None where the mode has no canary. `lines_open`: how many
    cache lines of the NVDIMM were not durable when power was lost, and `lines_lost` how many of them it took;
    `unknown_flushes`: how many flushes since the snapshot named a line that the emulator could not tell, so
    that it may be among these. None unless the emulator watched (restart `power-lines`).

    `worker` names the guest, `snapshot` the memory that it started from (the first digits of its SHA-256),
    `boot` the boot of the production kernel that this memory comes from: the number in the registry, which
    recovery reports as `boot_id`, or without a registry the first digits of the kernel's own boot id.
    `*_guest_s` are seconds of the guest's clock since its boot: of the first injection, and of the first line
    of the crash report, which names the task `victim`. `steps_at_injection` of the `steps_done` came before
    the faults were in place. All of these are None where they are not known, as in stores before schema 3.

    `restart` is how the machine restarted: by a reset, by the parked stage 0, by `both` from a copy of the
    crash, or after a loss of `power`. After both, `restart_differs` names the fields of the two recovery
    reports and checks that differ.

    `cache_share` and `dirty_share` are what the file cache and its dirty pages had of RAM, 0 to 1: by the
    registry at the crash, or without one by the kernel's own count when the snapshot was taken, which has the
    files of programs, too. They are None in stores before schema 3.
    """

    __tablename__ = "trials"
    __table_args__ = (
        _one_of("outcome", get_args(Outcome)),
        _one_of("crash_kind", get_args(CrashKind)),
        _one_of("corruption", get_args(Corruption)),
        _one_of("corruption_where", get_args(CorruptionWhere)),
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

    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaigns.id"))
    position: Mapped[int]
    attempt: Mapped[int]
    mode: Mapped[str]
    fault_class: Mapped[str]
    seed: Mapped[str]
    outcome: Mapped[Outcome]
    started: Mapped[str]
    finished: Mapped[str]
    crash_kind: Mapped[CrashKind | None] = mapped_column(default=None)
    crash_title: Mapped[str | None] = mapped_column(default=None)
    corruption: Mapped[Corruption | None] = mapped_column(default=None)
    corruption_where: Mapped[CorruptionWhere | None] = mapped_column(default=None)
    workload_status: Mapped[str | None] = mapped_column(default=None)
    workload_error: Mapped[str | None] = mapped_column(default=None)
    workload_errors: Mapped[int | None] = mapped_column(default=None)
    workload_mismatch: Mapped[bool] = mapped_column(default=False)
    files_lost: Mapped[int | None] = mapped_column(default=None)
    bytes_lost: Mapped[int | None] = mapped_column(sa.BigInteger, default=None)
    total_loss: Mapped[bool | None] = mapped_column(default=None)
    steps_lost: Mapped[int | None] = mapped_column(default=None)
    seconds_lost: Mapped[float | None] = mapped_column(default=None)
    canary_hits: Mapped[int | None] = mapped_column(default=None)
    canary_offset: Mapped[int | None] = mapped_column(sa.BigInteger, default=None)
    lines_open: Mapped[int | None] = mapped_column(default=None)
    lines_lost: Mapped[int | None] = mapped_column(default=None)
    unknown_flushes: Mapped[int | None] = mapped_column(default=None)
    requested: Mapped[int] = mapped_column(default=0)
    injected: Mapped[int] = mapped_column(default=0)
    activated: Mapped[int] = mapped_column(default=0)
    first_activation_s: Mapped[float | None] = mapped_column(default=None)
    time_to_crash_s: Mapped[float | None] = mapped_column(default=None)
    injection_guest_s: Mapped[float | None] = mapped_column(default=None)
    crash_guest_s: Mapped[float | None] = mapped_column(default=None)
    victim: Mapped[str | None] = mapped_column(default=None)
    steps_at_injection: Mapped[int | None] = mapped_column(default=None)
    steps_done: Mapped[int] = mapped_column(default=0)
    worker: Mapped[str | None] = mapped_column(default=None)
    snapshot: Mapped[str | None] = mapped_column(default=None)
    boot: Mapped[str | None] = mapped_column(default=None)
    cache_share: Mapped[float | None] = mapped_column(default=None)
    dirty_share: Mapped[float | None] = mapped_column(default=None)
    restart: Mapped[Restart | None] = mapped_column(default=None)
    restart_differs: Mapped[str | None] = mapped_column(default=None)
    fresh_boot: Mapped[bool] = mapped_column(default=False)
    restore_checked: Mapped[bool] = mapped_column(default=False)
    detail: Mapped[str] = mapped_column(default="")
    recovery: Mapped[RecoveryReport | None] = mapped_column(default=None)
    check: Mapped[CheckReport | None] = mapped_column(default=None)
    phases: Mapped[Seconds] = mapped_column(default_factory=dict)
    log: Mapped[str | None] = mapped_column(default=None)
    log_damage: Mapped[str | None] = mapped_column(default=None)
    faults: Mapped[list["FaultRow"]] = relationship(default_factory=list, order_by="FaultRow.index")

    # A row and a Tally are counted by the same functions.
    times: ClassVar[int] = 1

    @property
    def logged(self) -> bool:
        """Whether there is a console log."""
        return bool(self.log)

    @property
    def log_damaged(self) -> bool:
        """Whether the crash report on the console lacks anything."""
        return self.log_damage is not None

    @property
    def panic_by(self) -> str | None:
        """How the harness asked for the panic, a key of PANICS; None if it did not."""
        return next((key for key, title in PANICS.items() if title == self.crash_title), None)

    @property
    def planted(self) -> str | None:
        """The kind of the planted change; None if none was planted."""
        if self.fault_class != "planted" or not self.faults:
            return None
        kind = self.faults[0].params.get("kind")
        return None if kind is None else str(kind)

    @property
    def planted_during(self) -> str | None:
        """When the change was planted, at `rest` or during a `step`; None if nothing says so."""
        return self.faults[0].params.get("during") if self.planted else None

    @property
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
    def asked(self) -> bool:
        """Whether a fault or a planted change was requested."""
        return self.requested > 0

    @property
    def used(self) -> bool:
        """Whether a fault was activated."""
        return self.faults_activated > 0

    @property
    def lost_steps(self) -> bool:
        """Whether the files are as they were some steps before the last one done."""
        return bool(self.steps_lost)

    @property
    def lost_every_step(self) -> bool:
        """Whether nothing is left of what the workload did."""
        return bool(self.total_loss) or (self.lost_steps and self.steps_lost == self.steps_done)

    @property
    def recovered(self) -> bool:
        """Whether there is a report on the recovery."""
        return self.recovery is not None

    @property
    def warm(self) -> bool:
        """Whether the registry was found and used."""
        return self.recovery is not None and self.recovery.registry == "recovered"

    @property
    def production(self) -> bool | None:
        """Whether the production kernel came up after recovery; None if it was not started."""
        return self.recovery.production if self.recovery else None

    @property
    def direct(self) -> bool | None:
        """Whether checksums show a stray store; None if no checksums were kept, or power was lost."""
        return None if self.restart in LOSSES_OF_POWER else is_direct(self.recovery)

    @property
    def canary(self) -> bool | None:
        """Whether a store hit the NVDIMM's canary; None without one."""
        return None if self.canary_hits is None else self.canary_hits > 0

    @property
    def inconsistent(self) -> bool:
        """Whether an undamaged part of the registry makes no sense."""
        return bool(self.recovery and self.recovery.inconsistent)

    @property
    def duplicates(self) -> bool:
        """Whether two dirty entries of the registry are for one page."""
        return bool(self.recovery and self.recovery.entries.duplicates)

    @property
    def cut_short(self) -> str | None:
        """The phase of the recovery that a reset interrupted; None without such a reset."""
        return cut_short(self.recovery)

    @property
    def late(self) -> bool:
        """Whether the reset in recovery came after its end, so that the trial counts for nothing."""
        return not counts(self.recovery)

    @property
    def restarts_differ(self) -> bool:
        """Whether the reports of the two ways to restart differ."""
        return bool(self.restart_differs)

    @property
    def share_known(self) -> bool:
        """Whether the file cache's share of RAM is known."""
        return self.cache_share is not None

    @property
    def checksummed(self) -> bool:
        """Whether checksums of cached pages were kept."""
        return self.mismatches is not None

    @property
    def wrong_page(self) -> bool:
        """Whether a cached page had a wrong checksum."""
        return bool(self.mismatches)

    @property
    def wrong_dirty_page(self) -> bool:
        """Whether a dirty page had a wrong checksum."""
        sums = self.recovery.checksums if self.recovery else None
        return bool(sums and any(page.dirty for page in sums.mismatches))

    @property
    def stuck(self) -> bool:
        """Whether the workload was stuck; by its title where such an end was called a crash."""
        titled = self.outcome == "crash" and (self.crash_title or "").startswith(STUCK_TITLE)
        return self.outcome == "stuck" or titled

    @property
    def met_error(self) -> bool:
        """Whether the workload met any error, or read wrong bytes."""
        if self.workload_errors is None:
            # Stores before schema 3 do not count errors; there memTest ended at the first.
            return self.workload_mismatch or self.workload_status not in (None, "running")
        return self.workload_mismatch or self.workload_errors > 0

    @property
    def met_damage(self) -> bool:
        """Whether the workload's first error was EUCLEAN, or it read wrong bytes."""
        said = self.workload_error or self.workload_status or ""
        return self.workload_mismatch or said.startswith("EUCLEAN")

    @property
    def task(self) -> str | None:
        """The name of the task that ran at the crash, of a kernel's worker without its number."""
        return self.victim and _WORKER.sub(r"\1", self.victim)

    @property
    def guest_s(self) -> float | None:
        """The guest's seconds from the first injection to the first line of the crash report.

        Of a run that was brought down this is how long it was watched. A guest that hangs without a word, or
        whose workload is stuck, writes no such line; then the seconds are those of the trial's clock. None if
        the guest did not tell of the injection.
        """
        if self.injection_guest_s is None:
            return None
        if self.crash_guest_s is None:
            return self.time_to_crash_s
        return max(self.crash_guest_s - self.injection_guest_s, 0.0)

    @property
    def latency_s(self) -> float | None:
        """The guest's seconds from the first activation of a fault to the first line of the crash report."""
        if self.crash_guest_s is None or self.guest_s is None or self.first_activation_s is None:
            return None
        return max(self.guest_s - self.first_activation_s, 0.0)

    @property
    def guest_timed(self) -> bool:
        """Whether these seconds are known."""
        return self.guest_s is not None

    @property
    def opens(self) -> bool:
        """Whether the registry says which pages were open at the crash."""
        return self.open_pages is not None

    @property
    def phase_names(self) -> tuple[str, ...]:
        """The names of the trial's phases."""
        return tuple(self.phases)

    @property
    def phase_seconds(self) -> str:
        """The seconds of these phases as text, which millions of trials leave numpy to read."""
        return " ".join(map(repr, self.phases.values()))

    @property
    def faults_injected(self) -> int:
        """The number of faults that were injected."""
        return sum(fault.injected for fault in self.faults)

    @property
    def faults_watched(self) -> int:
        """The number of injected faults of which it is known whether they were activated."""
        return sum(fault.injected and fault.activated is not None for fault in self.faults)

    @property
    def faults_activated(self) -> int:
        """The number of faults that were activated."""
        return sum(bool(fault.activated) for fault in self.faults)

    @property
    def differences(self) -> int:
        """The number of differences that the workload's check counted; 1 if it gave no number."""
        if self.check is None or self.check.all_equal:
            return 0
        counted = self.check.difference_count
        return 1 if counted is None else counted

    @property
    def mismatches(self) -> int | None:
        """The number of cached pages with a wrong checksum; None if no checksums were kept."""
        return self.recovery.checksum_mismatches if self.recovery else None

    @property
    def open_pages(self) -> int | None:
        """The number of pages that were open to stores at the crash; None where nothing says so."""
        return self.recovery.open_pages if self.recovery else None

    @property
    def listed_pages(self) -> int | None:
        """The number of pages that the registry listed."""
        return self.recovery.entries.entries - self.recovery.entries.free if self.recovery else None

    @property
    def unused_entries(self) -> int | None:
        """The number of registry entries that were damaged or inconsistent."""
        return self.recovery.unused_entries if self.recovery else None

    @property
    def restored_pages(self) -> int | None:
        """The number of pages that recovery wrote back."""
        return self.recovery.restored_pages if self.recovery else None

    @property
    def registry_dirty_bytes(self) -> int | None:
        """The bytes of dirty pages that the registry listed."""
        return self.recovery.dirty_bytes if self.recovery else None

    @property
    def registry_dirty_share(self) -> float | None:
        """The share of RAM that the registry's dirty pages had."""
        return self.recovery.dirty_share if self.recovery else None


class FaultRow(Base):
    """One fault of a trial; `activated` is None where it cannot be known.

    `address` is hexadecimal text (`0x…`), because kernel addresses exceed SQL's signed 64 bits. `old` and
    `new` are bytes as hexadecimal digits, `activated_s` is in seconds since injection.
    """

    __tablename__ = "faults"

    trial_id: Mapped[int] = mapped_column(sa.ForeignKey("trials.id"), primary_key=True, init=False)
    index: Mapped[int] = mapped_column(primary_key=True)
    fault_class: Mapped[str]
    address: Mapped[str | None] = mapped_column(default=None)
    function: Mapped[str] = mapped_column(default="")
    source: Mapped[str] = mapped_column(default="")
    old: Mapped[str] = mapped_column(default="")
    new: Mapped[str] = mapped_column(default="")
    old_asm: Mapped[str] = mapped_column(default="")
    new_asm: Mapped[str] = mapped_column(default="")
    injected: Mapped[bool] = mapped_column(default=False)
    activated: Mapped[bool | None] = mapped_column(default=None)
    activated_s: Mapped[float | None] = mapped_column(default=None)
    params: Mapped[Json] = mapped_column(default_factory=dict)


_MEASURED = "outcome = 'measured'"


class RunRow(Base):
    """One attempt at a measured run: a workload's piece of work, done once by a guest (`riobed bench`).

    `workload` and `disk` are names of the spec, `permanent` is when the mode makes data permanent, in its own
    words. `kind` says whether the run measures time or counts instructions. `seed` is the workload's, `work`
    has the commands, `operations` is how many operations on files they are, and `written_bytes` how much they
    write to files; None if the workload does not say.

    `seconds` and `parts` are of the guest's clock, which counts instructions in a run that counts them;
    `idle_s` of them the guest was idle. `host_s` is what the host's clock said, `delayed_s` how long the
    guest waited for a processor of the host. `events` is by how much counters rose, of the emulator and of
    the guest's kernel, `part_events` those of the emulator for each part.

    `disk` was used as in `disk_during` until the work ended, and from then as in `disk_after` until it had
    everything, which took `clean_s` seconds of the guest's clock.

    `sitting` is when the process of the bench that made the run was started; runs of one sitting were made on
    the same host one after the other. `times` is how many times as fast as its model the disk under test was.
    `disk_model_s` is how long the requests of the slow disks take in their models, that many times as fast,
    `disk_taken_s` how long they took; None without one. None in rows from before they were stored.

    A run whose output is wrong and an infra error have none of these but a `detail`; the retry of an infra
    error has the next `attempt`.
    """

    __tablename__ = "runs"
    __table_args__ = (
        _one_of("kind", get_args(RunKind)),
        _one_of("outcome", get_args(RunOutcome)),
        sa.CheckConstraint(f"({_MEASURED}) = (seconds IS NOT NULL)", name="only_measured_has_seconds"),
        # Neither two simultaneous runs of a bench nor a resumed one may measure anything twice.
        sa.Index(
            "one_measured_run",
            *("campaign_id", "workload", "disk", "vcpus", "kind", "mode", "round"),
            unique=True,
            sqlite_where=sa.text(_MEASURED),
            postgresql_where=sa.text(_MEASURED),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaigns.id"))
    workload: Mapped[str]
    disk: Mapped[str]
    vcpus: Mapped[int]
    kind: Mapped[RunKind]
    mode: Mapped[str]
    round: Mapped[int]
    attempt: Mapped[int]
    outcome: Mapped[RunOutcome]
    accelerator: Mapped[str]
    seed: Mapped[str]
    started: Mapped[str]
    finished: Mapped[str]
    permanent: Mapped[str | None] = mapped_column(default=None)
    work: Mapped[str | None] = mapped_column(default=None)
    operations: Mapped[int | None] = mapped_column(sa.BigInteger, default=None)
    written_bytes: Mapped[int | None] = mapped_column(sa.BigInteger, default=None)
    seconds: Mapped[float | None] = mapped_column(default=None)
    parts: Mapped[Seconds] = mapped_column(default_factory=dict)
    idle_s: Mapped[float | None] = mapped_column(default=None)
    host_s: Mapped[float | None] = mapped_column(default=None)
    delayed_s: Mapped[float | None] = mapped_column(default=None)
    events: Mapped[Events] = mapped_column(default_factory=dict)
    part_events: Mapped[PartEvents] = mapped_column(default_factory=dict)
    disk_during: Mapped[DiskCounts | None] = mapped_column(default=None)
    disk_after: Mapped[DiskCounts | None] = mapped_column(default=None)
    clean_s: Mapped[float | None] = mapped_column(default=None)
    sitting: Mapped[str | None] = mapped_column(default=None)
    times: Mapped[float | None] = mapped_column(default=None)
    disk_model_s: Mapped[float | None] = mapped_column(default=None)
    disk_taken_s: Mapped[float | None] = mapped_column(default=None)
    detail: Mapped[str] = mapped_column(default="")

    @property
    def key(self) -> tuple[str, str, int, str, str, int]:
        """What is measured: workload, disk, vcpus, kind, mode, round."""
        return self.workload, self.disk, self.vcpus, self.kind, self.mode, self.round

    @property
    def cost(self) -> float:
        """What it measures: seconds or instructions, of which a repeated string instruction is none."""
        return self.seconds or 0.0 if self.kind == "time" else _instructions(self.events)

    @property
    def part_costs(self) -> dict[str, float]:
        """The same of each part of the work; empty if it has no parts."""
        if self.kind == "time":
            return self.parts
        return {name: _instructions(events) for name, events in self.part_events.items()}


def _instructions(events: Events) -> float:
    return float(events.get("instructions", 0) - events.get("repetitions", 0))


@dataclass(eq=False, kw_only=True)
class Facts:
    """What tables count trials by. Many trials have the same; the names are those of TrialRow."""

    mode: str
    fault_class: str
    outcome: Outcome
    crash_kind: CrashKind | None = None
    corruption: Corruption | None = None
    fresh_boot: bool = False
    restore_checked: bool = False
    logged: bool = False
    log_damaged: bool = False
    panic_by: str | None = None
    planted: str | None = None
    planted_during: str | None = None
    named_by: str | None = None
    asked: bool = False
    used: bool = False
    recovered: bool = False
    warm: bool = False
    production: bool | None = None
    direct: bool | None = None
    canary: bool | None = None
    inconsistent: bool = False
    duplicates: bool = False
    cut_short: str | None = None
    late: bool = False
    share_known: bool = False
    checksummed: bool = False
    wrong_page: bool = False
    wrong_dirty_page: bool = False
    opens: bool = False
    stuck: bool = False
    workload_mismatch: bool = False
    met_error: bool = False
    met_damage: bool = False
    task: str | None = None
    guest_timed: bool = False
    total_loss: bool | None = None
    lost_steps: bool = False
    lost_every_step: bool = False
    restart: Restart | None = None
    restarts_differ: bool = False
    phase_names: tuple[str, ...] = ()


_DEFAULTS = {field.name: field.default for field in fields(Facts)}


class FactsRow(Base):
    """Facts that trials of a campaign have in common: `text` is JSON of Facts without its defaults.

    `id` is a hash of the text, so that a writer need not look for it.
    """

    __tablename__ = "facts"

    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaigns.id"), primary_key=True)
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    text: Mapped[str]


class DigestRow(Base):
    """What tables count of one trial. It is stored with the trial, in the same transaction.

    `facts_id` is that of its FactsRow. All other columns have the values that TrialRow has under the same
    names.
    """

    __tablename__ = "digests"

    trial_id: Mapped[int] = mapped_column(sa.ForeignKey("trials.id"), primary_key=True)
    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaigns.id"))
    facts_id: Mapped[int] = mapped_column(sa.BigInteger)
    position: Mapped[int]
    requested: Mapped[int]
    faults_injected: Mapped[int]
    faults_watched: Mapped[int]
    faults_activated: Mapped[int]
    differences: Mapped[int] = mapped_column(sa.BigInteger)
    mismatches: Mapped[int | None] = mapped_column(sa.BigInteger)
    open_pages: Mapped[int | None] = mapped_column(sa.BigInteger)
    listed_pages: Mapped[int | None] = mapped_column(sa.BigInteger)
    unused_entries: Mapped[int | None] = mapped_column(sa.BigInteger)
    restored_pages: Mapped[int | None] = mapped_column(sa.BigInteger)
    registry_dirty_bytes: Mapped[int | None] = mapped_column(sa.BigInteger)
    registry_dirty_share: Mapped[float | None]
    files_lost: Mapped[int | None] = mapped_column(sa.BigInteger)
    bytes_lost: Mapped[int | None] = mapped_column(sa.BigInteger)
    steps_lost: Mapped[int | None]
    seconds_lost: Mapped[float | None]
    lines_open: Mapped[int | None]
    lines_lost: Mapped[int | None]
    unknown_flushes: Mapped[int | None]
    time_to_crash_s: Mapped[float | None]
    guest_s: Mapped[float | None]
    cache_share: Mapped[float | None]
    dirty_share: Mapped[float | None]
    crash_title: Mapped[str | None]
    seed: Mapped[str]
    started: Mapped[str]
    finished: Mapped[str]
    phase_seconds: Mapped[str]


def add_digests(connection: sa.Connection, rows: Iterable[tuple[TrialRow, dict[str, Any]]]) -> None:
    """Store the digests of trials that have an `id`, each with attributes that need not be computed."""
    facts, digests = {}, []
    for row, known in rows:
        text = _facts_text(row, known)
        facts_id = int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1
        facts[row.campaign_id, facts_id] = text
        copied = {name: _stored(known[name] if name in known else getattr(row, name)) for name in _COPIED}
        digests.append({"trial_id": row.id, "facts_id": facts_id} | copied)
    for (campaign_id, facts_id), text in facts.items():
        key = (FactsRow.campaign_id == campaign_id) & (FactsRow.id == facts_id)
        if not connection.scalar(sa.select(sa.literal(1)).where(key)):
            new = {"campaign_id": campaign_id, "id": facts_id, "text": text}
            connection.execute(sa.insert(FactsRow), new)
    connection.execute(sa.insert(DigestRow), digests)


def _facts_text(row: TrialRow, known: dict[str, Any]) -> str:
    found = {name: known[name] if name in known else getattr(row, name) for name in _DEFAULTS}
    return json.dumps({name: value for name, value in found.items() if value != _DEFAULTS[name]})


def _stored(value: Any) -> Any:
    """Return the value of a digest's column: a damaged machine may report counts that no database holds."""
    return min(value, _LARGEST) if isinstance(value, int) else value


_LARGEST = (1 << 63) - 1
_COPIED = [column.name for column in columns(DigestRow) if column.name not in ("trial_id", "facts_id")]


@sa.event.listens_for(TrialRow, "after_insert")
def _add_digest(_: Any, connection: sa.Connection, row: TrialRow) -> None:
    add_digests(connection, [(row, {})])
