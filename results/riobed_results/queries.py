# SPDX-License-Identifier: Apache-2.0
"""From stored rows to counts: the only place that says what a table counts."""

from collections.abc import Iterable

import sqlalchemy as sa
import yaml
from pydantic import BaseModel
from sqlalchemy.orm import selectinload

from riobed_results.models import CampaignRow, TrialRow
from riobed_results.store import Store


class Counts(BaseModel):
    """What happened in one cell: `trials` = `crashes` + `discards`, and only crashes can be `corrupted`.

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


def cell_counts(store: Store, campaign_id: int) -> dict[tuple[str, str], Counts]:
    """Return the counts by (mode, fault class), in the order in which these first appear in the store."""
    crash = TrialRow.outcome == "crash"
    discard = TrialRow.outcome == "discard"
    query = (
        sa.select(
            TrialRow.mode,
            TrialRow.fault_class,
            # The schema allows one result a position, so rows are positions here.
            sa.func.count().filter(crash | discard).label("trials"),
            sa.func.count().filter(crash).label("crashes"),
            sa.func.count().filter(crash, TrialRow.corruption != "none").label("corrupted"),
            sa.func.count().filter(discard).label("discards"),
            sa.func.count().filter(TrialRow.outcome == "infra_error").label("infra_errors"),
            sa.func.count().filter(crash, TrialRow.crash_kind == "trap").label("traps"),
        )
        .where(TrialRow.campaign_id == campaign_id)
        .group_by(TrialRow.mode, TrialRow.fault_class)
        .order_by(sa.func.min(TrialRow.id))
    )
    with store.session() as session:
        rows = session.execute(query).mappings().all()
    return {(row["mode"], row["fault_class"]): Counts.model_validate(dict(row)) for row in rows}


def trial_rows(store: Store, campaign_id: int, *, faults: bool = True) -> list[TrialRow]:
    """Return all rows of a campaign in the order they were added, with or without their faults."""
    query = sa.select(TrialRow).where(TrialRow.campaign_id == campaign_id).order_by(TrialRow.id)
    if faults:
        query = query.options(selectinload(TrialRow.faults))
    with store.session() as session:
        return list(session.scalars(query))


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


def in_order(campaign: CampaignRow, key: str, seen: Iterable[str]) -> list[str]:
    """Return names in the order of the spec's list `key`, then those only seen in rows."""
    try:
        spec = yaml.safe_load(campaign.spec)
    except yaml.YAMLError:
        spec = None
    listed = spec.get(key) if isinstance(spec, dict) else None
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return list(dict.fromkeys([*names, *seen]))
