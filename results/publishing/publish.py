# SPDX-License-Identifier: Apache-2.0
"""Publish a campaign: write a folder with its spec, claims, compressed rows and relevant logs.

Tables and reports are made from the rows when somebody asks for them. People write the prose beside them
(README.md: when, machine, commands, what it shows); this module never changes it.
"""

import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from riobed_results.errors import StoreError
from riobed_results.store import (
    ARCHIVE,
    PACKED_FILE,
    STORE_FILE,
    SUMMARIES,
    CampaignRow,
    FaultRow,
    GroupRow,
    Logs,
    Results,
    RunRow,
    Store,
    TrialRow,
    judged,
    judges_all,
    open_store,
    pack,
    pack_store,
    read_results,
    store_in,
)
from riobed_results.tables.registry import present_tables

from publishing.claims import write_claims

_AT_ONCE = 1000  # rows copied at a time
SPEC_HEAD = (
    "# SPDX-License-Identifier: Apache-2.0\n# The spec as the campaign's store has it, defaults filled in.\n"
)


def publish(store: Store, name: str | None, logs: Path, folder: Path) -> None:
    """Write the campaign `name` (None: the latest) of `store` to `folder`.

    The rows' `log` is relative to the folder `logs`. Raises StoreError if `folder` already has a store or
    cannot be written, if the campaign has no results, or if one of its logs is missing.
    """
    results = read_results(store, name, faults=False)
    campaign = results.campaign
    if not present_tables(results):
        raise results.without("results yet")
    if there := store_in(folder):
        raise StoreError(f"{folder}: has a {there.name} already; remove it or choose another folder")
    chosen = worth_keeping(results)
    source = Logs(logs)
    missing = [log for log in chosen if log not in source]
    if missing:
        raise StoreError(f"{logs}: {len(missing)} console logs are not there ({missing[0]}); give --logs")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "spec.yaml").write_text(SPEC_HEAD + campaign.spec, encoding="utf-8")
        if chosen:
            pack(source, chosen, folder / ARCHIVE)
        with tempfile.TemporaryDirectory(dir=folder) as made:
            _copy_rows(store, campaign, Path(made) / STORE_FILE)
            pack_store(Path(made) / STORE_FILE, folder / PACKED_FILE)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}; choose another folder") from error
    write_claims(folder)


def worth_keeping(results: Results) -> list[str]:
    """Return the logs of all judged trials.

    Of stores before schema 3: of all trials with corruption or without a production kernel afterwards, and of
    the first trial with each crash title.
    """
    if judges_all(results.trials):
        return list(dict.fromkeys(row.log for row in results.stream() if judged(row) and row.log))
    logs: dict[str, None] = {}
    titles: set[str] = set()
    for row in results.stream():
        if row.outcome != "crash" or row.log is None:
            continue
        title = row.crash_title or ""
        down = row.recovery is not None and row.recovery.production is False
        if row.corruption != "none" or down or title not in titles:
            logs[row.log] = None
        titles.add(title)
    return list(logs)


def _copy_rows(store: Store, campaign: CampaignRow, path: Path) -> None:
    """Copy a campaign's rows unchanged to a new store."""
    trials = sa.select(TrialRow.id).where(TrialRow.campaign_id == campaign.id)
    wanted: list[tuple[Any, sa.ColumnElement[bool]]] = [
        (CampaignRow, CampaignRow.id == campaign.id),
        (TrialRow, TrialRow.campaign_id == campaign.id),
        (FaultRow, FaultRow.trial_id.in_(trials)),
        (GroupRow, GroupRow.campaign_id == campaign.id),
        (SUMMARIES, SUMMARIES.c.campaign_id == campaign.id),
    ]
    if store.runs(campaign.id):
        wanted.append((RunRow, RunRow.campaign_id == campaign.id))
    with store.session() as source, open_store(str(path), create=True).session() as copy:
        for model, condition in wanted:
            table = model if isinstance(model, sa.Table) else model.__table__
            found = source.execute(sa.select(table).where(condition).execution_options(yield_per=_AT_ONCE))
            for rows in found.mappings().partitions():
                copy.execute(sa.insert(table), list(map(dict, rows)))
