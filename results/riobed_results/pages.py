# SPDX-License-Identifier: Apache-2.0
"""Every table there is: which ones a campaign has, as pages."""

from riobed_results.by_mode import mode_page, mode_table
from riobed_results.corruption import CONTROLS, corruption_table
from riobed_results.corruption_page import corruption_page
from riobed_results.fault_classes import class_page, class_table
from riobed_results.loss import NO_FAULT, RECOVERY_CRASH
from riobed_results.oracles import ORACLES
from riobed_results.phases import phase_page, phase_table
from riobed_results.planted import PLANTED
from riobed_results.queries import trial_rows
from riobed_results.render import Page
from riobed_results.store import Store

BY_MODE = (NO_FAULT, RECOVERY_CRASH, PLANTED, ORACLES)


def campaign_pages(store: Store, name: str | None = None) -> dict[str, Page]:
    """Return the pages that say something of a campaign (None: the latest), by name.

    Raises StoreError if it has no results.
    """
    campaign = store.campaign(name)
    rows = trial_rows(store, campaign.id)
    pages = {}
    if not rows or any(row.fault_class not in CONTROLS for row in rows):
        pages["corruption"] = corruption_page(corruption_table(store, campaign.name))
    if any(row.requested for row in rows):
        pages["faults"] = class_page(class_table(store, campaign.name))
    pages["phases"] = phase_page(phase_table(store, campaign.name))
    for design in BY_MODE:
        if any(map(design.wants, rows)):
            pages[design.name] = mode_page(design, mode_table(store, design, campaign.name))
    return pages
