# SPDX-License-Identifier: Apache-2.0
"""Which oracle found a corruption: the workload's check, checksums, or both."""

from riobed_results.store import TrialRow, is_direct
from riobed_results.tables.by_mode import Design, Value
from riobed_results.tables.controls import CONTROLS


def _lines(rows: list[TrialRow]) -> dict[str, Value]:
    direct = [bool(is_direct(row.recovery)) for row in rows]
    differs = [row.corruption != "none" for row in rows]
    found = list(zip(differs, direct, strict=True))
    return {
        "Crashes": len(rows),
        "Protection traps": sum(row.crash_kind == "trap" for row in rows),
        "Direct: check and checksums": found.count((True, True)),
        "Indirect: check alone": found.count((True, False)),
        "Checksums alone": found.count((False, True)),
        "Nothing found": found.count((False, False)),
    }


ORACLES = Design(
    name="oracles",
    title="Which oracle found what",
    section="corruptions",
    about_faults=True,
    note="Crashes by faults after which block checksums could be compared. Direct corruption: a file differs "
    "and a cached page had another checksum than its last legal writer left, or the registry is damaged; "
    "indirect: a file differs and neither is so. Checksums alone: one is, and yet all files are as they must "
    "be. A file system that could not be mounted counts as a file that differs.",
    wants=lambda row: (
        row.outcome == "crash" and row.fault_class not in CONTROLS and is_direct(row.recovery) is not None
    ),
    lines=_lines,
)
