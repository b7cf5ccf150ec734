# SPDX-License-Identifier: Apache-2.0
"""What a stored recovery report says: riorecover's JSON, and what the harness adds to it.

The harness adds `interrupted` when it reset the machine in the middle of recovery: the moment it
meant (`planned_s`), the moment it was (`at_s`), both in seconds since riorecover's first line, and
the `phase` that was cut short.
"""

from typing import Any

Report = dict[str, Any]

# The recovery had ended before the reset: no crash in recovery.
ENDED = "done"


def checksum_mismatches(report: Report | None) -> int | None:
    """Return how many cached pages had another checksum than recorded; None where none were kept."""
    sums = (report or {}).get("checksums") or {}
    if not any(sums.get(key) for key in ("intact", "corrupt", "changing")):
        return None
    return int(sums["corrupt"])


def rejected_entries(report: Report) -> int:
    """Return how many entries of the registry were not followed: damaged or senseless."""
    return int(report["entries"]["rejected"]) + senseless_entries(report)


def senseless_entries(report: Report | None) -> int:
    """Return how many entries have the right checksum, but tell of a page that no file system has.

    So whoever wrote them went the legal way. Reports of riorecover before 2026-11-22 count them as rejected.
    """
    return int(((report or {}).get("entries") or {}).get("senseless", 0))


def went_astray(report: Report | None) -> bool | None:
    """Return whether checksums tell of a store that went astray; None where none were kept.

    Those of cached pages, and those of the registry: a reset alone leaves a whole copy of each entry.
    """
    entries = (report or {}).get("entries") or {}
    if (report or {}).get("registry") == "damaged" or entries.get("rejected"):
        return True
    mismatches = checksum_mismatches(report)
    return None if mismatches is None else mismatches > 0


def restored_pages(report: Report) -> int:
    """Return how many pages of metadata and file data were written back."""
    return int(report["metadata"]["written"] + report["data"]["pages"])


def counts(report: Report | None) -> bool:
    """Return whether a crash counts for its cell: one to be reset in recovery does not if that had ended."""
    return cut_short(report) != ENDED


def cut_short(report: Report | None) -> str | None:
    """Return the phase a reset cut short, `ENDED` if it came too late, None if there was none."""
    interrupted = (report or {}).get("interrupted")
    return str(interrupted["phase"]) if interrupted else None
