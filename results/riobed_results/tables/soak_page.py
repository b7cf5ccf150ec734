# SPDX-License-Identifier: Apache-2.0
"""A soak as a page."""

from collections.abc import Callable

from riobed_results.store.recovery_report import restored_pages
from riobed_results.tables.proportions import UNKNOWN
from riobed_results.tables.render import Grid, Page, csv_text, printable, source_text
from riobed_results.tables.soak import Soak, SoakRow

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
    "Verdict",
]
NOTE = (
    "One row a stressor: how long it ran, its exit status, protection traps, pages that did not match "
    "their checksum in the running kernel and in recovery (-: the kernel keeps none or it could not be "
    "asked), pages that the recovery after the reset wrote from memory, entries of the file system "
    "compared with what they were before the reset, and how many differed."
)


def soak_page(soak: Soak) -> Page:
    """Return the table of a soak for people and programs."""
    on = soak.environment
    asked = (
        f"mode {on.mode}, {on.memory_mib} MiB of memory, {on.disk_mib} MiB of disk, "
        f"{on.vcpus} CPUs, suite {on.suite}"
    )
    kept = "" if any(row.verify for row in soak.rows) else " No checksums kept."
    return Page(
        title=f"Soak of {printable(on.mode)}",
        source=source_text(f"soak ({asked})", on) + kept,
        grids=[Grid("Stressors", HEAD, [_cells(row) for row in soak.rows], [_total(soak.rows)])],
        note=NOTE,
        csv=_csv(soak),
        json=soak.model_dump_json(indent=2) + "\n",
    )


def verdict(row: SoakRow) -> str:
    """One or a few words: good, or what was found first."""
    if row.infra_error:
        return "infra error"
    found = [
        (row.crash, row.crash),
        (row.traps, "protection trap"),
        (row.recovery_error, "no recovery"),
        (row.files_different, "files differ"),
        (row.mismatches or row.recovery_mismatches, "checksum mismatch"),
        (row.complaints, "kernel complained"),
        (row.status, "stressor failed"),
        (row.files is None, "not compared"),
    ]
    return next((printable(str(word)) for there, word in found if there), "good")


# The columns between status and verdict.
_NUMBERS: list[Callable[[SoakRow], int | None]] = [
    lambda row: row.traps,
    lambda row: row.mismatches,
    lambda row: row.recovery_mismatches,
    lambda row: restored_pages(row.recovery) if row.recovery else None,
    lambda row: row.files,
    lambda row: row.files_different,
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
