# SPDX-License-Identifier: Apache-2.0
"""The table of a soak: stressors run in sequence, and after each a reset without a fault and a comparison."""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from riobed_results.store import SERIES, Provenance, RecoveryReport
from riobed_results.tables.controls.rows import load_rows, save_rows
from riobed_results.tables.framework.render import Grid, Page, csv_text, json_text, source_text
from riobed_results.tables.framework.shares import UNKNOWN
from riobed_results.tables.framework.table import FolderTable
from riobed_results.text import printable

FILE = "soak.json"
# The fields that must be equal to resume a soak.
SAME_SOAK = (*SERIES, "mode", "minutes", "suite", "memory_mib", "disk_mib", "vcpus")
HEAD = [
    "Stressor",
    "Seconds",
    "Status",
    "Traps",
    "Mismatches",
    "Mismatches in recovery",
    "Pages restored",
    "Files",
    "Files different",
    "Resets",
    "Verdict",
]
NOTE = "One row a stressor."
LEGEND = {
    "Seconds": "how long it ran.",
    "Status": "its exit status.",
    "Traps": "protection traps.",
    "Mismatches": "pages that did not match their checksum in the running kernel; in recovery: the same "
    "there. -: the kernel keeps none, or it could not be asked.",
    "Pages restored": "pages that the recovery after the reset wrote from memory.",
    "Files": "entries of the file system compared with what they were before the reset; different: how many "
    "differed.",
    "Resets": "how many came while it ran, each judged by the stressor's own check. -: the one reset came "
    "when it had ended.",
}


class SoakProvenance(Provenance):
    """The provenance of a soak, and what was requested. Sizes in MiB."""

    mode: str
    minutes: float
    memory_mib: int
    disk_mib: int
    vcpus: int
    suite: str


class SoakRow(BaseModel, extra="forbid"):
    """One stressor and the reset after it. None stands for an unknown value.

    `traps` and `mismatches` come from the running kernel, `recovery_mismatches` from recovery's
    verification; they are None if the kernel keeps no checksums. `mismatches` is the most that the kernel
    found when it compared, while the stressor ran (`verifications` times) and after. `different` names at
    most 100 files; `files_different` counts all of them. `not_settled` has counters that should be 0 when
    nothing writes. A stressor that is reset while it runs has `resets` and, instead of files, the exit status
    and the output of its check after the last one.
    """

    stressor: str
    what: str
    seconds: float = 0
    status: int | None = None
    output: str = ""
    crash: str | None = None
    complaints: list[str] = []
    stats: dict[str, int] | None = None
    verify: dict[str, int] | None = None
    traps: int | None = None
    mismatches: int | None = None
    verifications: int = 0
    recovery_mismatches: int | None = None
    not_settled: dict[str, int] = {}
    dirty_kib: int | None = None
    recovery: RecoveryReport | None = None
    recovery_error: str | None = None
    files: int | None = None
    files_different: int | None = None
    different: list[str] = []
    resets: int | None = None
    check_status: int | None = None
    check_output: str = ""
    e2fsck: str | None = None
    infra_error: str | None = None
    finished: str = ""

    @property
    def good(self) -> bool:
        """Whether every check passed."""
        bad = (self.status, self.traps, self.mismatches, self.recovery_mismatches, self.files_different)
        said = (self.crash, self.complaints, self.recovery_error, self.infra_error, self.not_settled)
        return not any(bad) and not any(said) and not self.check_status and self.compared

    @property
    def compared(self) -> bool:
        """Whether the recovered file system was compared with what it should be."""
        return self.files is not None or self.check_status is not None


class Soak(BaseModel, extra="forbid"):
    """A whole soak."""

    environment: SoakProvenance
    rows: list[SoakRow] = []


def load_soak(folder: Path) -> Soak:
    """Read the soak in a folder; StoreError if there is none or it cannot be read."""
    return load_rows(folder / FILE, Soak, "soak")


def save_soak(folder: Path, soak: Soak) -> None:
    """Write the soak atomically; StoreError if it cannot be written."""
    save_rows(folder / FILE, soak, "soak")


def soak_page(soak: Soak) -> Page:
    """Return the page of a soak."""
    on = soak.environment
    asked = (
        f"mode {on.mode}, {on.memory_mib} MiB of memory, {on.disk_mib} MiB of disk, "
        f"{on.vcpus} CPUs, suite {on.suite}"
    )
    kept = "" if any(row.verify for row in soak.rows) else " No checksums kept."
    grid = Grid("Stressors", HEAD, [_cells(row) for row in soak.rows], [_total(soak.rows)])
    return Page(
        source_text(f"soak ({asked})", on) + kept, [grid], NOTE, _csv(soak), json_text(soak), legend=LEGEND
    )


def verdict(row: SoakRow) -> str:
    """Return the verdict in a few words: good, or the first finding."""
    if row.infra_error:
        return "infra error"
    found = [
        (row.crash, row.crash),
        (row.traps, "protection trap"),
        (row.recovery_error, "no recovery"),
        (row.files_different or row.check_status, "files differ"),
        (row.mismatches or row.recovery_mismatches, "checksum mismatch"),
        (row.not_settled, "kernel not settled"),
        (row.complaints, "kernel complained"),
        (row.status, "stressor failed"),
        (not row.compared, "not compared"),
    ]
    return next((printable(str(word)) for there, word in found if there), "good")


# The columns between status and verdict.
_NUMBERS: list[Callable[[SoakRow], int | None]] = [
    lambda row: row.traps,
    lambda row: row.mismatches,
    lambda row: row.recovery_mismatches,
    lambda row: row.recovery.restored_pages if row.recovery else None,
    lambda row: row.files,
    lambda row: row.files_different,
    lambda row: row.resets,
]


def _numbers(row: SoakRow) -> list[int | None]:
    return [number(row) for number in _NUMBERS]


def _cells(row: SoakRow) -> list[str]:
    head = [printable(row.stressor), f"{row.seconds:.0f}", UNKNOWN if row.status is None else str(row.status)]
    return [*head, *(UNKNOWN if n is None else str(n) for n in _numbers(row)), verdict(row)]


def _total(rows: list[SoakRow]) -> list[str]:
    columns = [[number(row) for row in rows] for number in _NUMBERS]
    known = [[value for value in column if value is not None] for column in columns]
    good = sum(row.good for row in rows)
    return [
        "Total",
        f"{sum(row.seconds for row in rows):.0f}",
        "",
        *(str(sum(numbers)) if numbers else UNKNOWN for numbers in known),
        f"{good} of {len(rows)} good",
    ]


def _csv(soak: Soak) -> str:
    lines = ([row.stressor, row.seconds, row.status, *_numbers(row), verdict(row)] for row in soak.rows)
    return csv_text([name.lower().replace(" ", "_") for name in HEAD], lines)


SOAK = FolderTable(
    name="soak",
    title="Soak",
    help="What stressors met, and whether every file was as before after a reset.",
    compute=load_soak,
    page=soak_page,
    folder_help="Folder of the soak.",
)
