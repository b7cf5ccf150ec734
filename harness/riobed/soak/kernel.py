# SPDX-License-Identifier: Apache-2.0
"""What the kernel under test reports: counters, its own verification, complaints on the console."""

import re

from riobed.crash import formats
from riobed.vm import Machine

_FOLDER = "/sys/kernel/debug/rio"
_VERIFY_S = 300.0
# Beside reports of the kernel on itself: what a file system, a disk or memory has met (fs/ext4/super.c,
# block/blk-core.c, mm/oom_kill.c).
_MET = re.compile(rb"EXT4-fs (?:error|warning)|Out of memory|I/O error")
_MAX_COMPLAINTS = 20


def counters(machine: Machine, name: str) -> dict[str, int] | None:
    """Return the `name value` lines of one of the kernel's files, or None if the kernel has no such file."""
    result = machine.run(["/bin/cat", f"{_FOLDER}/{name}"], timeout=_VERIFY_S)
    return parse_counters(result.stdout.decode("ascii", "replace")) if result.status == 0 else None


def parse_counters(text: str) -> dict[str, int]:
    """Return counters by name; other lines are ignored."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}


def dirty_kib(machine: Machine) -> int | None:
    """Return how much file data is only in memory, in KiB."""
    found = re.search(rb"^Dirty: +(\d+) kB$", machine.read_file("/proc/meminfo"), re.M)
    return int(found[1]) if found else None


def complaints(console: bytes) -> list[str]:
    """Return the first console lines that a healthy kernel does not print, and that tell of no crash."""
    return [line[:200] for line in formats.complaint_lines(console, _MET, _MAX_COMPLAINTS)]


def not_settled(stats: dict[str, int] | None, verify: dict[str, int] | None) -> dict[str, int]:
    """Return the counters that are not 0 although nothing writes any more; a kernel without them has none.

    `verify` settles what is still open before it counts, but only in kernels that count `damaged`. In older
    ones `changing` may stay.
    """
    found = {name: (stats or {}).get(name, 0) for name in ("log_misses", "changes_lost")}
    if verify and "damaged" in verify:
        found["changing"] = verify.get("changing", 0)
    return {name: count for name, count in found.items() if count}


def mismatches(counts: dict[str, int] | None) -> int | None:
    """Return how many pages failed their checksum, None if none was compared; `counts`: see verify."""
    if not counts or not counts.get("intact", 0) + counts.get("corrupt", 0):
        return None
    return counts.get("corrupt", 0)
