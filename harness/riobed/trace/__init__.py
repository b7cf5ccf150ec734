# SPDX-License-Identifier: Apache-2.0
"""Trace: shows how a fault propagated to the damaged blocks, from what SystemTap and the emulator logged."""

from riobed.trace.answer import trace_answer, trace_text
from riobed.trace.log import TraceLog, find_chunks
from riobed.trace.stores import store_plugin, stores_answer, stores_so_far
from riobed.trace.symbols import Symbols

__all__ = [
    "Symbols",
    "TraceLog",
    "find_chunks",
    "store_plugin",
    "stores_answer",
    "stores_so_far",
    "trace_answer",
    "trace_text",
]
