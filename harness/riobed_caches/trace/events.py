# SPDX-License-Identifier: Apache-2.0
"""The words of a trace: kinds of events, flags, columns."""

from enum import IntEnum, IntFlag

import numpy as np

# Stands in a column for what was not recorded or has no meaning for the event.
UNKNOWN = -1


class Event(IntEnum):
    """What happened to a file.

    `MAP` is a shared writable mapping, whose stores a recorder does not see. `MIGRATE` is a process that
    moves to another client: the event has its old client, and its next event the new one. `SYNC` is of all
    files of a client.
    """

    OPEN = 0
    CLOSE = 1
    READ = 2
    WRITE = 3
    TRUNCATE = 4
    DELETE = 5
    FSYNC = 6
    SYNC = 7
    MIGRATE = 8
    MAP = 9


class Flag(IntFlag):
    """How a file was opened, or written.

    `CREATED`: it did not exist before. `EMPTIED`: the open cut it to nothing. `DURABLE`: a write returns when
    its data is on the disk (O_SYNC, O_DSYNC).
    """

    NONE = 0
    FOR_READING = 1
    FOR_WRITING = 2
    CREATED = 4
    EMPTIED = 8
    DURABLE = 16


# Each column and its type. Times are µs since the first event; offsets, lengths and sizes are bytes. Ids of
# clients, users, processes, files and handles are dense, from 0. A deleted file's id is not used again.
# `size` is that of the file before an OPEN, and after a TRUNCATE.
COLUMNS = {
    "time": np.int64,
    "client": np.int32,
    "user": np.int32,
    "process": np.int32,
    "event": np.int8,
    "file": np.int32,
    "handle": np.int32,
    "offset": np.int64,
    "length": np.int64,
    "size": np.int64,
    "flags": np.int16,
}
IDS = ("client", "user", "process", "file", "handle")
