# SPDX-License-Identifier: Apache-2.0
"""riorecover's report on one recovery, as its report.c prints it, parsed where it comes in."""

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

# The recovery had ended before the reset: no crash in recovery.
ENDED = "done"

Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    """Keeps what a newer riorecover adds; a count that an older one did not know is 0."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)


class Entries(_Part):
    """Pairs of registry entries, by what each was found to be; every pair is counted once.

    `rejected`: neither copy has the right checksum. `inconsistent`: the checksum is right, but no file
    system has such a page, so the entry was written the legal way; riorecover before 2026-11-22 counted
    these as rejected. `fallback`, besides: the older copy was used.
    """

    pairs: Count = 0
    free: Count = 0
    clean: Count = 0
    dirty_data: Count = 0
    dirty_metadata: Count = 0
    shadowed: Count = 0
    pending: Count = 0
    rejected: Count = 0
    inconsistent: Count = Field(0, validation_alias=AliasChoices("inconsistent", "senseless"))
    fallback: Count = 0
    foreign: Count = 0
    unreadable: Count = 0


class Mismatch(_Part):
    """A cached page with another checksum than recorded; of metadata, `index` is the device's block."""

    ino: Count
    index: Count
    dirty: bool
    metadata: bool


class Checksums(_Part):
    """Cached pages by what their checksum said; `changing`: a legal write was under way.

    `mismatches` lists the first of the `corrupt` ones.
    """

    intact: Count = 0
    corrupt: Count = 0
    changing: Count = 0
    mismatches: list[Mismatch] = []


class Saved(_Part):
    """The copy of old memory on the swap disk: what was written, what of it was refused when read back."""

    pages: Count = 0
    bytes: Count = 0
    refused: Count = 0
    error: str | None = None


class Metadata(_Part):
    """Blocks of metadata written to the device."""

    written: Count = 0
    failed: Count = 0


class Data(_Part):
    """File data written through system calls."""

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
        """Seconds of all phases."""
        return self.save + self.metadata + self.e2fsck + self.data


class Interruption(_Part):
    """A reset in the middle of recovery: the moment meant, the moment it was, the phase it cut short.

    Both moments are in seconds since riorecover's first line.
    """

    planned_s: float
    at_s: float
    phase: str


class RecoveryReport(_Part):
    """What one recovery found and did.

    `registry`: recovered from it, cold start because there was none, or damaged. `source`: memory itself or
    the copy saved by an earlier run. `saved` is None where nothing is to be saved, `checksums` None for a
    riorecover that knew of none, `mount_error` an errno or 0. `interrupted` is added by the harness if it
    reset the machine during the recovery before this one.
    """

    registry: Literal["recovered", "cold", "damaged"]
    source: Literal["memory", "save"] = "memory"
    saved: Saved | None = None
    entries: Entries
    checksums: Checksums | None = None
    metadata: Metadata
    data: Data
    e2fsck_status: int
    mount_error: int
    seconds: Seconds
    interrupted: Interruption | None = None

    @property
    def checksum_mismatches(self) -> int | None:
        """How many cached pages had another checksum than recorded; None where none were kept."""
        sums = self.checksums
        return sums.corrupt if sums and (sums.intact or sums.corrupt or sums.changing) else None

    @property
    def unused_entries(self) -> int:
        """How many entries of the registry were not followed: damaged or inconsistent."""
        return self.entries.rejected + self.entries.inconsistent

    @property
    def restored_pages(self) -> int:
        """How many pages of metadata and file data were written back."""
        return self.metadata.written + self.data.pages


def is_direct(report: RecoveryReport | None) -> bool | None:
    """Return whether checksums tell of a stray store; None where none were kept.

    Those of cached pages, and those of the registry: a reset alone leaves a whole copy of each entry.
    """
    if report is None:
        return None
    if report.registry == "damaged" or report.entries.rejected:
        return True
    mismatches = report.checksum_mismatches
    return None if mismatches is None else mismatches > 0


def counts(report: RecoveryReport | None) -> bool:
    """Return whether a crash counts for its cell: one to be reset in recovery does not if that had ended."""
    return cut_short(report) != ENDED


def cut_short(report: RecoveryReport | None) -> str | None:
    """Return the phase a reset cut short, `ENDED` if it came too late, None if there was none."""
    return report.interrupted.phase if report and report.interrupted else None
