# SPDX-License-Identifier: Apache-2.0
"""Propagation: shows how a fault reached the damaged blocks, from what SystemTap and the emulator logged."""

from riobed.propagation.log import EventLog
from riobed.propagation.report import propagation_report, propagation_text
from riobed.propagation.stores import store_plugin, stores_report, stores_so_far
from riobed.propagation.symbols import Symbols

__all__ = [
    "EventLog",
    "Symbols",
    "propagation_report",
    "propagation_text",
    "store_plugin",
    "stores_report",
    "stores_so_far",
]
