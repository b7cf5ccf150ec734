# SPDX-License-Identifier: Apache-2.0
"""What the file system under test has outside the folders of workloads must be as it was in the snapshot.

Names, types, modes, owners, numbers of links, sizes, times of the last write, and content are compared. What
e2fsck puts into lost+found is not: a file system without a journal may have something for it after any crash.
"""

from typing import Any

from riobed.guest import Guest
from riobed.guest.workload.tree import TreeError, changes, parse, read_listing

NAME = "outside"
_MOST = 100


def check_outside(guest: Guest, timeout: float) -> dict[str, Any]:
    """Compare, and return a report as a workload's check does (riobed_results.store.CheckReport).

    What cannot be read is a difference. AgentLost if reading takes over `timeout` seconds.
    """
    before = parse(guest.known.outside.encode("latin-1"))
    files = {path for path, entry in before.items() if entry.kind == "f"}
    try:
        found = list(
            changes(before, parse(read_listing(guest.machine, guest.workload.list_outside, timeout)))
        )
    except TreeError as error:
        found = [(path, "unreadable", str(error)) for path in sorted(before)]
    lost = [path for path, _, _ in found if path in files]
    return {
        "workload": NAME,
        "equal": not found,
        "difference_count": len(found),
        "differences": [
            {"path": path.decode("utf-8", "backslashreplace"), "kind": kind, "detail": detail}
            for path, kind, detail in found[:_MOST]
        ],
        "files_expected": len(files),
        "files_lost": len(lost),
        "bytes_lost": sum(int(before[path].attributes.split()[-1]) for path in lost),
    }
