# SPDX-License-Identifier: Apache-2.0
"""Which oracle found a corruption: the workload's check, checksums, or both."""

from collections.abc import Sequence

from riobed_results.store import CONTROLS, Row, Vocabulary, crashed, how_many
from riobed_results.tables.framework.by_mode import ModeCounts, Value


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    def found(differs: bool, direct: bool) -> int:
        said = (differs, direct)
        return how_many(row for row in rows if (row.corruption != "none", bool(row.direct)) == said)

    return {
        "Crashes": how_many(rows),
        "Protection traps": how_many(row for row in rows if row.crash_kind == "trap"),
        "Wrong file and wrong checksum": found(True, True),
        "Wrong file alone": found(True, False),
        "Checksums alone": found(False, True),
        "Nothing found": found(False, False),
    }


ORACLES = ModeCounts(
    name="oracles",
    title="Which oracle found what",
    help="Which corruption the workload's check found, which the checksums, and which both.",
    section="corruptions",
    about_faults=True,
    note="Crashes by faults after which block checksums could be compared. A file system that could not be "
    "mounted counts as a file that differs.",
    legend={
        "Wrong file and wrong checksum": "a file differs and a cached page had another checksum than its "
        "last legal writer left, "
        "or the registry is damaged.",
        "Wrong file alone": "a file differs and neither is so.",
        "Checksums alone": "one is so, and yet all files are as they must be.",
    },
    wants=lambda row: crashed(row) and row.fault_class not in CONTROLS and row.direct is not None,
    lines=_lines,
)
