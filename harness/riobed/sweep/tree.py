# SPDX-License-Identifier: Apache-2.0
"""A tree as workloads/sweep prints it, in the guest and on the host."""

from riobed.errors import InfraError
from riobed.guest.workload.tree import Entry, Tree

_FIELDS = 4


def parse_tree(listing: bytes) -> Tree:
    """Return what tree.h describes; InfraError if it is cut short."""
    fields = listing.split(b"\0")
    if len(fields) % _FIELDS != 1 or fields.pop():
        raise InfraError("listing of the file system under test: cut short")
    rows = zip(*(fields[n::_FIELDS] for n in range(_FIELDS)), strict=True)
    return {
        path: Entry(kind.decode(), attributes.decode(), content.decode("latin-1"))
        for path, kind, attributes, content in rows
    }
