# SPDX-License-Identifier: Apache-2.0
"""The list of all tables, in the order of the command line, published folders and the report."""

from typing import Any

from riobed_results.store import Results
from riobed_results.tables.caches.claims import CLAIMS
from riobed_results.tables.caches.clients import CLIENT_CACHES, MEMORY_PRICE
from riobed_results.tables.caches.grids import StudyTable
from riobed_results.tables.caches.lifetimes import FATES, LIFETIMES
from riobed_results.tables.caches.papers import PAPERS
from riobed_results.tables.caches.risk import RISK
from riobed_results.tables.caches.servers import CONSISTENCY, SEGMENTS, STORAGE_ACCESSES
from riobed_results.tables.controls.losses import NO_FAULT, PANIC, POWER, RECOVERY_CRASH, RESTARTS
from riobed_results.tables.controls.mounts import MOUNTS
from riobed_results.tables.controls.planted import PLANTED
from riobed_results.tables.controls.processors import PROCESSORS
from riobed_results.tables.controls.replays import REPLAYS
from riobed_results.tables.controls.resets import RESETS
from riobed_results.tables.controls.soak import SOAK
from riobed_results.tables.controls.starts import STARTS
from riobed_results.tables.controls.sweep import SWEEP
from riobed_results.tables.corruption.comparison import COMPARISON
from riobed_results.tables.corruption.corruption import CORRUPTION
from riobed_results.tables.corruption.exposure import EXPOSURE
from riobed_results.tables.corruption.noninferiority import NONINFERIORITY
from riobed_results.tables.corruption.oracles import ORACLES
from riobed_results.tables.corruption.protocol_page import PROTOCOL
from riobed_results.tables.corruption.rates import OUTCOMES, SENSITIVITY, WRONG_CHECKSUM
from riobed_results.tables.corruption.severity import SEVERITY
from riobed_results.tables.corruption.states import STATES
from riobed_results.tables.corruption.survival import SURVIVAL
from riobed_results.tables.cost.cost import COST
from riobed_results.tables.cost.performance_page import PERFORMANCE
from riobed_results.tables.crashes.activated import ACTIVATED
from riobed_results.tables.crashes.complaints import COMPLAINTS
from riobed_results.tables.crashes.fault_classes import FAULTS
from riobed_results.tables.crashes.phases import PHASES
from riobed_results.tables.crashes.stories import STORIES
from riobed_results.tables.crashes.titles import TITLES
from riobed_results.tables.crashes.victims import VICTIMS
from riobed_results.tables.crashes.windows import WINDOWS
from riobed_results.tables.framework.by_mode import by_mode
from riobed_results.tables.framework.render import Page
from riobed_results.tables.framework.table import CampaignTable, FolderTable, RunTable
from riobed_results.tables.nvdimm.nvram import NVRAM
from riobed_results.tables.nvdimm.nvram_speed import NVRAM_SPEED

CAMPAIGN_TABLES: tuple[CampaignTable[Any], ...] = (
    CORRUPTION,
    PROTOCOL,
    OUTCOMES,
    WRONG_CHECKSUM,
    NVRAM,
    by_mode(SEVERITY),
    by_mode(STATES),
    EXPOSURE,
    COMPARISON,
    NONINFERIORITY,
    SENSITIVITY,
    SURVIVAL,
    FAULTS,
    ACTIVATED,
    TITLES,
    STORIES,
    by_mode(COMPLAINTS),
    PHASES,
    by_mode(WINDOWS),
    by_mode(NO_FAULT),
    by_mode(POWER),
    by_mode(RECOVERY_CRASH),
    by_mode(PANIC),
    by_mode(RESTARTS),
    by_mode(PLANTED),
    by_mode(ORACLES),
    by_mode(STARTS),
    by_mode(RESETS),
    by_mode(MOUNTS),
    by_mode(VICTIMS),
)
RUN_TABLES: tuple[RunTable[Any], ...] = (PERFORMANCE, COST, NVRAM_SPEED)
# Of a study of traces, in the order of its page.
STUDY_TABLES: tuple[FolderTable[StudyTable], ...] = (
    RISK,
    LIFETIMES,
    FATES,
    CLIENT_CACHES,
    MEMORY_PRICE,
    STORAGE_ACCESSES,
    SEGMENTS,
    CONSISTENCY,
    CLAIMS,
    PAPERS,
)
FOLDER_TABLES: tuple[FolderTable[Any], ...] = (PROCESSORS, REPLAYS, SOAK, SWEEP, *STUDY_TABLES)


def campaign_pages(results: Results) -> dict[str, Page]:
    """Return the pages of a campaign that have content, by name; empty if it has no results yet."""
    return {table.name: table.of(results) for table in present_tables(results)}


def present_tables(results: Results) -> list[CampaignTable[Any]]:
    """Return the tables of a campaign that have content; none if it has no results yet."""
    judged = any(row.outcome != "infra_error" for row in results.trials)
    tables = (*CAMPAIGN_TABLES, *RUN_TABLES) if judged else RUN_TABLES
    return [table for table in tables if table.has(results)]
