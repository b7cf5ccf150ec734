# SPDX-License-Identifier: Apache-2.0
"""Every table there is: which ones a campaign has, as pages."""

from dataclasses import replace

from riobed_results.store.queries import Results
from riobed_results.tables.by_mode import mode_page, mode_table
from riobed_results.tables.comparison import comparison_page
from riobed_results.tables.controls import CONTROLS, control_warnings
from riobed_results.tables.corruption import comparison_table, corruption_table
from riobed_results.tables.corruption_page import corruption_page
from riobed_results.tables.fault_classes import asked, class_page, class_table
from riobed_results.tables.losses import NO_FAULT, RECOVERY_CRASH
from riobed_results.tables.oracles import ORACLES
from riobed_results.tables.phases import phase_page, phase_table, timed
from riobed_results.tables.planted import PLANTED
from riobed_results.tables.render import Page
from riobed_results.tables.starts import STARTS
from riobed_results.tables.stories import story_page, story_table, told
from riobed_results.tables.titles import title_page, title_table, titled

# What controls did, and what faults did.
CONTROL_DESIGNS = (NO_FAULT, RECOVERY_CRASH, PLANTED)
FAULT_DESIGNS = (ORACLES, STARTS)
BY_MODE = (*CONTROL_DESIGNS, *FAULT_DESIGNS)
# Tables above which it stands that a control failed or is missing.
ABOUT_FAULTS = frozenset(
    {"corruption", "comparison", "faults", "titles", "stories", *(design.name for design in FAULT_DESIGNS)}
)


def warned(name: str, page: Page, results: Results) -> Page:
    """Return the page of that name with its warnings; `results` need the faults of controls."""
    return replace(page, warnings=control_warnings(results)) if name in ABOUT_FAULTS else page


def campaign_pages(results: Results) -> dict[str, Page]:
    """Return the pages that say something of a campaign, by name; none if it has no results yet."""
    rows = results.rows
    pages = {}
    if all(row.outcome == "infra_error" for row in rows):
        return {}
    if any(row.fault_class not in CONTROLS for row in rows):
        pages["corruption"] = corruption_page(corruption_table(results))
        if len({row.mode for row in rows}) > 1:
            pages["comparison"] = comparison_page(comparison_table(results))
    if any(map(asked, rows)):
        pages["faults"] = class_page(class_table(results))
    if any(map(titled, rows)):
        pages["titles"] = title_page(title_table(results))
    if any(map(told, rows)):
        pages["stories"] = story_page(story_table(results))
    if any(map(timed, rows)):
        pages["phases"] = phase_page(phase_table(results))
    for design in BY_MODE:
        if design.of(rows):
            pages[design.name] = mode_page(design, mode_table(results, design))
    return {name: warned(name, page, results) for name, page in pages.items()}
