# SPDX-License-Identifier: Apache-2.0
"""The list of all tables, in the order of the command line, published folders and the report."""

from typing import Any

from riobed_results.store import Results
from riobed_results.tables.by_mode import by_mode
from riobed_results.tables.comparison import COMPARISON
from riobed_results.tables.corruption import CORRUPTION
from riobed_results.tables.cost import COST
from riobed_results.tables.fault_classes import FAULTS
from riobed_results.tables.losses import NO_FAULT, PANIC, RECOVERY_CRASH, RESTARTS
from riobed_results.tables.oracles import ORACLES
from riobed_results.tables.phases import PHASES
from riobed_results.tables.planted import PLANTED
from riobed_results.tables.render import Page
from riobed_results.tables.replays import REPLAYS
from riobed_results.tables.resets import RESETS
from riobed_results.tables.soak import SOAK
from riobed_results.tables.starts import STARTS
from riobed_results.tables.stories import STORIES
from riobed_results.tables.table import CampaignTable, FolderTable
from riobed_results.tables.titles import TITLES
from riobed_results.tables.windows import WINDOWS

CAMPAIGN_TABLES: tuple[CampaignTable[Any], ...] = (
    CORRUPTION,
    COMPARISON,
    FAULTS,
    TITLES,
    STORIES,
    PHASES,
    by_mode(WINDOWS),
    by_mode(NO_FAULT),
    by_mode(RECOVERY_CRASH),
    by_mode(PANIC),
    by_mode(RESTARTS),
    by_mode(PLANTED),
    by_mode(ORACLES),
    by_mode(STARTS),
)
FOLDER_TABLES: tuple[FolderTable[Any], ...] = (COST, REPLAYS, RESETS, SOAK)


def campaign_pages(results: Results) -> dict[str, Page]:
    """Return the pages of a campaign that have content, by name; empty if it has no results yet.

    `results` must have the faults of all trials loaded.
    """
    if all(row.outcome == "infra_error" for row in results.rows):
        return {}
    return {table.name: table.of(results) for table in CAMPAIGN_TABLES if table.present(results.rows)}
