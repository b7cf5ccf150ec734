# SPDX-License-Identifier: Apache-2.0
"""Which oracles found something in a trial, by the names that docs/results.md explains."""

from riobed_results.store.trial import TrialRow


def oracles(row: TrialRow) -> list[str]:
    """Return the names of the oracles that found something; `row` has the fault of a planted change."""
    report, check = row.recovery, row.check
    lost = report is None and check is None and row.corruption not in (None, "none")
    said = {
        "recovery": lost,
        "mount": bool(report and report.mount_error),
        "first-mount": row.first_mount_failed is True,
        "check": check is not None and not check.equal,
        **{f"check:{each.workload}": not each.equal for each in (check.beside if check else [])},
        "checksums": row.wrong_page,
        "registry": bool(report and (report.registry == "damaged" or report.registry_damage)),
        "fsck": bool(report and report.errors_left) or _named(row),
        "canary": bool(row.canary),
        "trap": row.crash_kind == "trap",
        "read": row.workload_mismatch,
    }
    return [name for name, found in said.items() if found]


def _named(row: TrialRow) -> bool:
    """Whether the file system's check named the planted change."""
    return row.planted is not None and bool(row.faults[0].params.get("e2fsck"))
