# SPDX-License-Identifier: Apache-2.0
"""riorecover's report on one recovery, as its report.c prints it."""

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from riobed_results.store.checkers import CHECKERS, Checker

# The phase of a reset that came after recovery had ended: it was no crash in recovery.
ENDED = "done"
_PAGE = 4096

Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    """A part of the report. It keeps keys of a newer riorecover; a count that an older one lacks is 0."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)


class Entries(_Part):
    """CellCounts of the registry's entries, one for each page of RAM; every entry is counted once.

    `rejected`: its word or its identity is damaged. `inconsistent`: it is undamaged, but no file system has
    such a page, so it was written the legal way; riorecover before 2026-11-22 counted these as rejected.
    `duplicates` counts, in addition, dirty entries for a place that another dirty entry has, too.

    Only reports of registry format 2, which kept each entry twice, have `shadowed`, `pending` and, in
    addition, `fallback`: entries of which the older copy was used.
    """

    entries: Count = Field(0, validation_alias=AliasChoices("entries", "pairs"))
    free: Count = 0
    clean: Count = 0
    dirty_data: Count = 0
    dirty_metadata: Count = 0
    rejected: Count = 0
    inconsistent: Count = Field(0, validation_alias=AliasChoices("inconsistent", "senseless"))
    foreign: Count = 0
    unreadable: Count = 0
    duplicates: Count = 0
    shadowed: Count = 0
    pending: Count = 0
    fallback: Count = 0


class Log(_Part):
    """CellCounts of what the operation log had for this file system.

    `operations` had not ended. `undone` records were put back, `superseded` ones were not, because a later
    operation had changed the same bytes. `rejected` counts damaged words and records of the whole log,
    `inconsistent` undamaged ones that make no sense, `unreadable` log pages.
    """

    operations: Count = 0
    undone: Count = 0
    superseded: Count = 0
    rejected: Count = 0
    inconsistent: Count = 0
    unreadable: Count = 0


class Mismatch(_Part):
    """A cached page with another checksum than recorded; for metadata, `index` is the device's block."""

    ino: Count
    index: Count
    dirty: bool
    metadata: bool


class Checksums(_Part):
    """CellCounts of cached pages by checksum; `changing` pages were in the middle of a legal write.

    `mismatches` lists the first of the `corrupt` pages.
    """

    intact: Count = 0
    corrupt: Count = 0
    changing: Count = 0
    mismatches: list[Mismatch] = []


class Saved(_Part):
    """The copy of old memory on the swap disk: counts of what was written, and refused when read back."""

    pages: Count = 0
    bytes: Count = 0
    refused: Count = 0
    error: str | None = None


class Metadata(_Part):
    """CellCounts of metadata blocks written to the device."""

    written: Count = 0
    failed: Count = 0


class Data(_Part):
    """CellCounts of file data written through system calls."""

    pages: Count = 0
    bytes: Count = 0
    files: Count = 0
    lost_inodes: Count = 0
    beyond_size: Count = 0
    failed: Count = 0


class Seconds(_Part):
    """Guest seconds of each phase."""

    save: float = 0.0
    metadata: float = 0.0
    e2fsck: float = 0.0
    data: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all phases, in seconds."""
        return self.save + self.metadata + self.e2fsck + self.data


class Interruption(_Part):
    """A reset in the middle of recovery: the planned time, the actual time, and the phase it interrupted.

    Both times are in seconds since riorecover's first line.
    """

    planned_s: float
    at_s: float
    phase: str


class FirstMount(_Part):
    """The mount that replays the log of a file system other than ext4, before any check or repair.

    `error` is its errno, or 0. If it failed, `without_log` says whether the file system
    could be mounted without its log (None: not tried), and `repair_status` is the exit status of the repair
    (None: not run).
    """

    error: int
    without_log: bool | None = None
    repair_status: int | None = None


class RecoveryReport(_Part):
    """What one recovery found and did.

    `registry`: it was used, there was none (cold start), or it was damaged. `source`: memory itself, or the
    copy that an earlier run saved. `matched_by`: the device's file system is in the registry by its UUID, or
    it was the only one there; None if nothing matched. `header_damaged` counts copies of the registry's
    header that are damaged while the other holds. `boot_id` is the number that the kernel which made the
    registry drew at its boot; None if no header is valid, or riorecover is too old to say. `unrecovered`
    counts other file systems that the registry still lists. `complete` is False if something could not be
    restored and the registry stays valid, or if it is damaged; it is about memory, not about a log on the
    disk. `saved` is None if saving is off; `log`, `complete` and `checksums` are None if riorecover is too
    old for them. `file_system` is the type, None in reports of an older riorecover. `first_mount` is None for
    ext4, whose journal its check replays, and in these reports. `e2fsck_status` is the exit status of the
    file system's check, -1 if that did not run; older reports have that of the repair there if it ran.
    `mount_error` is an errno or 0, after any repair. The harness adds `interrupted` if it reset the machine
    in the previous recovery, and `production` if it then started the production kernel: whether that came up.
    """

    registry: Literal["recovered", "cold", "damaged"]
    boot_id: str | None = None
    source: Literal["memory", "save"] = "memory"
    matched_by: Literal["uuid", "only"] | None = None
    header_damaged: Count = 0
    unrecovered: Count = 0
    complete: bool | None = None
    saved: Saved | None = None
    entries: Entries
    log: Log | None = None
    checksums: Checksums | None = None
    metadata: Metadata
    data: Data
    file_system: str | None = None
    first_mount: FirstMount | None = None
    e2fsck_status: int
    mount_error: int
    seconds: Seconds
    interrupted: Interruption | None = None
    production: bool | None = None

    @property
    def checker(self) -> Checker | None:
        """The programs of the file system; those of ext4 if the report does not say what it is."""
        return CHECKERS.get(self.file_system or "ext4")

    @property
    def errors_left(self) -> bool:
        """Whether the file system's check said that errors are there after it."""
        return self.checker is not None and self.checker.finds_errors(self.e2fsck_status)

    @property
    def unchecked(self) -> str:
        """Why the file system's check did not check, in one line; empty if it did, or there is none."""
        if self.checker is None or not self.checker.fails(self.e2fsck_status):
            return ""
        return f"{' '.join(self.checker.check)} could not check: it ended with status {self.e2fsck_status}"

    @property
    def log_dropped(self) -> bool | None:
        """Whether a repair that throws the log away ran; None if that is not known."""
        if self.first_mount is None:
            return None
        if self.first_mount.repair_status is None:
            return False
        return self.checker.drops_log if self.checker else None

    @property
    def trouble(self) -> str:
        """What the file system's own recovery met, in one line; empty if that is nothing, or not known."""
        said, first, checker = [], self.first_mount, self.checker
        if first and first.error:
            log = ", but could without its log" if first.without_log else ""
            said.append(f"the file system could not be mounted (errno {first.error}){log}")
            if checker and first.repair_status is not None:
                dropped = ", which throws the log away," if self.log_dropped else ""
                ran = " ".join(checker.repair)
                said.append(f"{ran}{dropped} ended with status {first.repair_status}")
        if checker and self.errors_left:
            said.append(f"{' '.join(checker.check)} left errors: status {self.e2fsck_status}")
        return "; ".join(said)

    @property
    def checksum_mismatches(self) -> int | None:
        """The number of cached pages with a wrong checksum; None if no checksums were kept."""
        sums = self.checksums
        return sums.corrupt if sums and (sums.intact or sums.corrupt or sums.changing) else None

    @property
    def open_pages(self) -> int | None:
        """The number of pages that were open to stores at the crash.

        The kernel marks them in the registry while it keeps checksums. None without these, and of reports
        from before there was a log: then the mark had another meaning.
        """
        sums = self.checksums
        return sums.changing if sums and self.log and self.checksum_mismatches is not None else None

    @property
    def dirty_bytes(self) -> int:
        """The bytes of dirty pages at the crash, metadata included."""
        return (self.entries.dirty_data + self.entries.dirty_metadata) * _PAGE

    @property
    def dirty_share(self) -> float:
        """The dirty pages' share of all pages of RAM that the registry has entries for; 0 without entries."""
        return self.dirty_bytes / (self.entries.entries * _PAGE) if self.entries.entries else 0.0

    @property
    def cache_share(self) -> float:
        """The listed pages' share of all pages that the registry has entries for; 0 without entries."""
        entries = self.entries
        return (entries.entries - entries.free) / entries.entries if entries.entries else 0.0

    @property
    def unused_entries(self) -> int:
        """The number of registry entries that were not used: damaged or inconsistent ones."""
        return self.entries.rejected + self.entries.inconsistent

    @property
    def inconsistent(self) -> int:
        """The number of registry entries and log records that are undamaged but make no sense."""
        return self.entries.inconsistent + (self.log.inconsistent if self.log else 0)

    @property
    def registry_damage(self) -> int:
        """The number of damaged parts of a registry that could be used: entries, log, a header copy."""
        return self.entries.rejected + self.header_damaged + (self.log.rejected if self.log else 0)

    @property
    def damage(self) -> str:
        """What memory says of its own damage, in one line; empty if there is none, or nothing could say so.

        Production starts over it, unless stage 0 was told how much there may be. See `incomplete`.
        """
        wrong, refused = self.checksum_mismatches or 0, self.saved.refused if self.saved else 0
        if not (self.registry_damage or self.inconsistent or wrong or refused):
            return ""
        return (
            f"memory is damaged: {self.registry_damage} parts of the registry rejected and "
            f"{self.inconsistent} inconsistent, what they listed is not restored; {wrong} pages with a wrong "
            f"checksum; {refused} pages of the save refused"
        )

    @property
    def incomplete(self) -> str:
        """What could not be restored, in one line; empty if that is nothing, or not known."""
        if self.complete is not False:
            return ""
        if self.registry == "damaged":
            return "recovery incomplete: the registry is damaged"
        if self.mount_error:
            return f"recovery incomplete: the file system cannot be mounted (errno {self.mount_error})"
        unreadable = self.entries.unreadable + (self.log.unreadable if self.log else 0)
        damaged = f", {self.registry_damage} parts of the registry damaged" if self.registry_damage else ""
        return (
            f"recovery incomplete: {self.metadata.failed} blocks and {self.data.failed} pages of files not "
            f"written, {unreadable} pages not read, {self.unrecovered} other file systems not recovered"
            f"{damaged}"
        )

    @property
    def restored_pages(self) -> int:
        """The number of pages of metadata and file data that were written back."""
        return self.metadata.written + self.data.pages


def is_direct(report: RecoveryReport | None) -> bool | None:
    """Return whether checksums show a stray store; None if no checksums were kept.

    The registry's own checks count, too: a reset alone damages no entry, no log record and no copy of the
    header. Duplicates do not count: both entries are undamaged, so somebody with a wrong idea of what a page
    holds listed it the legal way. Neither does the `fallback` of old reports, which a reset in the middle of
    an update leaves as well.
    """
    if report is None:
        return None
    if report.registry == "damaged" or report.registry_damage:
        return True
    mismatches = report.checksum_mismatches
    return None if mismatches is None else mismatches > 0


def came_in_time(report: RecoveryReport | None) -> bool:
    """Return whether a crash counts for its cell: not if its reset in recovery came after recovery's end."""
    return cut_short(report) != ENDED


def cut_short(report: RecoveryReport | None) -> str | None:
    """Return the phase that a reset interrupted, `ENDED` if it came too late, None without such a reset."""
    return report.interrupted.phase if report and report.interrupted else None
