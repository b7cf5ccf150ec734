# SPDX-License-Identifier: Apache-2.0
"""Campaign: runs the planned trials on workers, here or on other hosts, and stores one row each."""

from riobed.campaign.campaign import Campaign, Cell, draw_faults
from riobed.campaign.entry import open_campaign
from riobed.campaign.tagged import fixed_by_tag
from riobed.campaign.workers import LocalWorkers, Workers

__all__ = ["Campaign", "Cell", "LocalWorkers", "Workers", "draw_faults", "fixed_by_tag", "open_campaign"]
