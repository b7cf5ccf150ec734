# SPDX-License-Identifier: Apache-2.0
"""Trace: how a fault propagated to the damaged blocks, from what SystemTap logged in the guest.

May import trial, guest, faults and vm.
"""

from riobed.trace.answer import trace_answer, trace_text
from riobed.trace.log import TraceLog, find_chunks
from riobed.trace.symbols import Symbols

__all__ = ["Symbols", "TraceLog", "find_chunks", "trace_answer", "trace_text"]
