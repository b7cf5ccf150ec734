# SPDX-License-Identifier: Apache-2.0
"""Which of a trace's hosts, users or processes is taken for a client with a cache of its own."""

from enum import StrEnum

import numpy as np

from riobed_caches.compiled import Int32s
from riobed_caches.errors import TraceError
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Has


class Client(StrEnum):
    """Who has a cache: each host of the trace, or each user or process of a trace of one host."""

    HOST = "host"
    USER = "user"
    PROCESS = "process"


_NEEDS = {Client.USER: Has.USERS, Client.PROCESS: Has.PROCESSES}


def client_of(trace: Trace, client: Client) -> Int32s:
    """Return the client of each event; TraceError if the trace does not tell them apart."""
    need = _NEEDS.get(client)
    if need and need not in trace.header.has:
        what = f"it does not have {need}, which --client {client} needs"
        raise TraceError(trace.header.source, what, "use --client host")
    column = trace.columns["client" if client is Client.HOST else client.value]
    # An event without one is of the first: a trace of one host need not name it.
    found: Int32s = np.maximum(column.astype(np.int32), 0)
    return found
