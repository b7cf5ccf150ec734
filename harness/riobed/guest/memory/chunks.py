# SPDX-License-Identifier: Apache-2.0
"""Reads what injectors/propagation wrote into a guest's RAM: a ring of chunks, each with a header."""

import mmap
import struct

# Of riobed_propagation.stp (TRACE_CHUNK, TRACE_CHUNKS, TRACE_MAGIC): bytes of a chunk, how many there are at
# most, and the header with its own physical address.
CHUNK = 4 << 20
MOST = 8
_HEADER = struct.Struct("<8sQ")
_MAGIC = b"RBDTRACE"


def find_chunks(memory: mmap.mmap) -> list[bytes]:
    """Return the chunks of a log in a guest's RAM without their headers; none if it was not started."""
    # The kernel aligns what it allocates to its size.
    places = range(0, len(memory) - CHUNK + 1, CHUNK)
    headers = [at for at in places if _HEADER.unpack_from(memory, at) == (_MAGIC, at)]
    return [memory[at + _HEADER.size : at + CHUNK] for at in headers[:MOST]]
