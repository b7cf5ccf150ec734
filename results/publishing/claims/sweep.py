# SPDX-License-Identifier: Apache-2.0
"""Claims of sweeps: one in the folder, or one in each of its subfolders."""

from riobed_results.tables.controls.sweep import Sweep, SweepRow

from publishing.claims.claim import Claim, count, slug


def sweep_claims(sweeps: dict[str, Sweep]) -> list[Claim]:
    """Return the sums of each sweep, by its folder's name, and the sums over all sweeps."""
    every = [row for sweep in sweeps.values() for row in sweep.rows]
    named = [claim for name, sweep in sweeps.items() for claim in _sums([name], sweep.rows)]
    return [*named, *_sums([], every)]


def _sums(name: list[str], rows: list[SweepRow]) -> list[Claim]:
    operations = [row for row in rows if not row.recovery]
    recoveries = [row for row in rows if row.recovery]
    swept = len({row.operation for row in operations})
    return [
        *([count(slug(*name, "operations"), swept, "operation")] if operations else ()),
        *(_counts(name, operations) if operations else ()),
        *(_counts([*name, "recovery"], recoveries) if recoveries else ()),
    ]


def _counts(name: list[str], rows: list[SweepRow]) -> list[Claim]:
    return [
        count(slug(*name, "crash points"), sum(row.points for row in rows), "crash point"),
        count(slug(*name, "compared"), sum(row.compared for row in rows), "state"),
        count(slug(*name, "unexplained"), sum(row.unexplained for row in rows), "unexplained state"),
    ]
