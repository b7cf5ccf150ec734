# SPDX-License-Identifier: Apache-2.0
"""Queries on stored rows: the only place that defines what tables count."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
import yaml
from pydantic import BaseModel
from sqlalchemy.orm import selectinload

from riobed_results.errors import StoreError
from riobed_results.store.models import CampaignRow, TrialRow
from riobed_results.store.recovery_report import counts
from riobed_results.store.store import Store


class Counts(BaseModel):
    """The counts of one cell; only crashes can be `corrupted`.

    `trials` = `crashes` + `discards` + trials whose reset in recovery came too late to tell anything.
    `traps` are the crashes that were protection traps. `infra_errors` counts attempts, not positions.
    """

    trials: int = 0
    crashes: int = 0
    corrupted: int = 0
    discards: int = 0
    infra_errors: int = 0
    traps: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        sums = {name: getattr(self, name) + getattr(other, name) for name in Counts.model_fields}
        return Counts(**sums)


# Which trials' faults to load: all, none, or those of some fault classes.
Faults = bool | Collection[str]


@dataclass(frozen=True)
class Results:
    """A campaign and its rows in the order they were added: the input of tables."""

    store: str
    campaign: CampaignRow
    rows: list[TrialRow]

    def without(self, what: str) -> StoreError:
        """Make the error for a campaign that has no `what`."""
        return StoreError(
            f"store {self.store}: campaign {self.campaign.name!r} has no {what}; "
            "choose another with --campaign"
        )


def read_results(store: Store, name: str | None = None, *, faults: Faults = True) -> Results:
    """Read a campaign (None: the latest); StoreUsageError if there is no such campaign."""
    campaign = store.campaign(name)
    return Results(store.location.name, campaign, trial_rows(store, campaign.id, faults=faults))


def counted(row: TrialRow) -> bool:
    """Whether the row is a counted crash."""
    return row.outcome == "crash" and counts(row.recovery)


def cell_counts(rows: Iterable[TrialRow]) -> dict[tuple[str, str], Counts]:
    """Return the counts by (mode, fault class), in order of first appearance.

    The schema allows one result per position, so each row except infra errors is a position.
    """
    cells: dict[tuple[str, str], Counts] = {}
    for row in rows:
        cell = cells.setdefault((row.mode, row.fault_class), Counts())
        cell.trials += row.outcome != "infra_error"
        cell.crashes += counted(row)
        cell.corrupted += counted(row) and row.corruption != "none"
        cell.discards += row.outcome == "discard"
        cell.infra_errors += row.outcome == "infra_error"
        cell.traps += counted(row) and row.crash_kind == "trap"
    return cells


# By its key, the title of a crash that the harness asked a sound kernel for.
PANICS = {"nmi": "panic on request, by NMI", "sysrq": "panic on request, by SysRq"}
# Their faults are the same in every kernel; faults of other classes are locations in one kernel's text.
RUN_TIME_CLASSES = frozenset(
    {
        "allocation",
        "copy_overrun",
        "kernel_heap",
        "kernel_stack",
        "none",
        "panic",
        "planted",
        "synchronization",
    }
)
# By mode, then by fault class, seed and kernel ("" if it does not matter): whether the crash corrupted.
CrashesBySeed = dict[str, dict[tuple[str, str, str], bool]]


def crashes_by_seed(rows: Iterable[TrialRow], kernels: Mapping[str, str]) -> CrashesBySeed:
    """Return the crashes among `rows`; equal keys in two modes mean equal faults.

    `kernels` has the build ids by mode. A plan has each seed once per mode; of duplicates the first counts.
    """
    crashes: CrashesBySeed = {}
    for row in rows:
        if counted(row):
            of_mode = crashes.setdefault(row.mode, {})
            kernel = "" if row.fault_class in RUN_TIME_CLASSES else kernels.get(row.mode, "")
            of_mode.setdefault((row.fault_class, row.seed, kernel), row.corruption != "none")
    return crashes


def kernels(campaign: CampaignRow) -> dict[str, str]:
    """Return the build id of each mode's kernel; empty if all modes ran on one."""
    if campaign.kernels:
        modes = in_order(campaign, "modes", campaign.kernels)
        return {mode: campaign.provenance.kernel_of(mode).build_id for mode in modes}
    # The form of stores with schema 1.
    found = (campaign.host or {}).get("kernels")
    return {str(mode): str(build) for mode, build in found.items()} if isinstance(found, dict) else {}


def trial_rows(store: Store, campaign_id: int, *, faults: Faults = True) -> list[TrialRow]:
    """Return all rows of a campaign in the order they were added, with or without their faults."""
    query = sa.select(TrialRow).where(TrialRow.campaign_id == campaign_id).order_by(TrialRow.id)
    if faults is True:
        query = query.options(selectinload(TrialRow.faults))
    with store.session() as session:
        rows = list(session.scalars(query))
        for row in rows:
            if not isinstance(faults, bool) and row.fault_class in faults:
                session.refresh(row, ["faults"])
    return rows


def result_at(store: Store, campaign_id: int, position: int) -> TrialRow | None:
    """Return the crash or discard at a position of the plan, with its faults; None if there is none."""
    query = (
        sa.select(TrialRow)
        .where(
            TrialRow.campaign_id == campaign_id,
            TrialRow.position == position,
            TrialRow.outcome != "infra_error",
        )
        .options(selectinload(TrialRow.faults))
    )
    with store.session() as session:
        return session.scalar(query)


def stored_spec(campaign: CampaignRow) -> dict[str, Any]:
    """Return a campaign's spec as it was stored; empty if it cannot be parsed."""
    try:
        spec = yaml.safe_load(campaign.spec)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}


def vcpus(campaign: CampaignRow) -> int:
    """Return the number of processors of a campaign's machine; 1 if its spec does not say."""
    machine = stored_spec(campaign).get("machine")
    found = machine.get("vcpus") if isinstance(machine, dict) else None
    return found if isinstance(found, int) else 1


def in_order(campaign: CampaignRow, key: str, seen: Iterable[str]) -> list[str]:
    """Return names in the order of the spec's list `key`, followed by names that occur only in `seen`."""
    listed = stored_spec(campaign).get(key)
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return list(dict.fromkeys([*names, *seen]))
