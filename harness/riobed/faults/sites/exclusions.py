# SPDX-License-Identifier: Apache-2.0
"""Which kernel text is not a fault site, and where a probe must not be placed; from the kernel's own tables.

The running kernel rewrites parts of its text, at boot or later. Its bytes there differ from vmlinux, so a
fault could not be verified before it is applied, and might not stay. Exception-table sites are included: the
kernel never rewrites them, and an instruction that keeps its address keeps its table entry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from riobed.faults.sites.vmlinux import Symbol, Vmlinux

FTRACE = "ftrace"


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Addresses start <= a < end."""

    start: int
    end: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Table:
    """A kernel table of patched places: entries of `entry` bytes, which begin with the place."""

    reason: str
    start: str
    end: str
    entry: int
    absolute: bool = False  # else a 32-bit offset from the entry itself


# Only the first byte of a place is listed; the whole instruction around it is excluded.
# Sources: include/asm-generic/vmlinux.lds.h, arch/x86/kernel/vmlinux.lds.S, struct jump_entry,
# struct static_call_site.
_TABLES = (
    _Table(FTRACE, "__start_mcount_loc", "__stop_mcount_loc", 8, absolute=True),
    _Table("jump label", "__start___jump_table", "__stop___jump_table", 16),
    _Table("static call", "__start_static_call_sites", "__stop_static_call_sites", 8),
    _Table("SMP lock prefix", "__smp_locks", "__smp_locks_end", 4),
    _Table("retpoline", "__retpoline_sites", "__retpoline_sites_end", 4),
    _Table("return thunk", "__return_sites", "__return_sites_end", 4),
    _Table("IBT seal", "__ibt_endbr_seal", "__ibt_endbr_seal_end", 4),
)
_ALT_INSTR = struct.Struct("<iiIBB")  # struct alt_instr, packed: place, replacement, flags, length, length
_RUNTIME_CONST = "runtime_"  # sections of asm/runtime-const.h: 32-bit offsets of immediates set at boot
_STATIC_CALL_TRAMPOLINE = "__SCT__"  # STATIC_CALL_TRAMP_PREFIX
# Entry code of ftrace itself (ftrace_64.S) is rewritten when a tracer starts.
_FTRACE_CODE = frozenset({"ftrace_caller", "ftrace_regs_caller"})

_BLACKLISTED_AREAS = (
    ("__kprobes_text_start", "__kprobes_text_end"),
    ("__noinstr_text_start", "__noinstr_text_end"),
    ("__entry_text_start", "__entry_text_end"),
)
# They run between a breakpoint trap and the injector's notifier, and are not on the kprobe blacklist like the
# rest of that path. A breakpoint there would trap again before it is removed. The first is called by
# atomic_notifier_call_chain() in kernel/notifier.c, the second is a notifier of the same priority as ours.
_TRAP_PATH = frozenset({"__rcu_read_lock", "hw_breakpoint_exceptions_notify"})


def patched_ranges(vmlinux: Vmlinux) -> list[Range]:
    """Return the places in .text that the kernel rewrites, by address; they may overlap."""
    ranges = [*_from_tables(vmlinux), *_alternatives(vmlinux), *_runtime_constants(vmlinux)]
    for function in vmlinux.functions():
        if function.name.startswith(_STATIC_CALL_TRAMPOLINE):
            ranges.append(Range(function.address, function.end, "static call"))
        elif function.name in _FTRACE_CODE:
            ranges.append(Range(function.address, function.end, FTRACE))
    return sorted(r for r in ranges if vmlinux.text_start <= r.start < vmlinux.text_end)


def _from_tables(vmlinux: Vmlinux) -> Iterator[Range]:
    for table in _TABLES:
        address, data = vmlinux.between(table.start, table.end)
        for offset in range(0, len(data) - table.entry + 1, table.entry):
            if table.absolute:
                place = int.from_bytes(data[offset : offset + 8], "little")
            else:
                place = address + offset + int.from_bytes(data[offset : offset + 4], "little", signed=True)
            yield Range(place, place + 1, table.reason)


def _alternatives(vmlinux: Vmlinux) -> Iterator[Range]:
    address, data = vmlinux.between("__alt_instructions", "__alt_instructions_end")
    for offset in range(0, len(data) - _ALT_INSTR.size + 1, _ALT_INSTR.size):
        place, _, _, length, _ = _ALT_INSTR.unpack_from(data, offset)
        if length:
            start = address + offset + place
            yield Range(start, start + length, "alternative")


def _runtime_constants(vmlinux: Vmlinux) -> Iterator[Range]:
    for address, data in vmlinux.sections_named(_RUNTIME_CONST):
        for offset in range(0, len(data) - 3, 4):
            place = address + offset + int.from_bytes(data[offset : offset + 4], "little", signed=True)
            yield Range(place, place + 1, "runtime constant")


def unprobeable_ranges(vmlinux: Vmlinux, functions: Iterable[Symbol]) -> list[Range]:
    """Return where no activation probe may be placed, by address: what kprobes refuse, and _TRAP_PATH."""
    listed = set(_blacklisted_functions(vmlinux))
    forbidden = {f.name for f in functions if f.address in listed} | _TRAP_PATH
    ranges = [
        Range(f.address, f.end)
        for f in functions
        # within_kprobe_blacklist() in kernel/kprobes.c: f.cold and f.part.0 are as forbidden as f
        if f.name.partition(".")[0] in forbidden or f.name in forbidden or f.address in listed
    ]
    for start, end in _BLACKLISTED_AREAS:
        low, high = vmlinux.address_of(start), vmlinux.address_of(end)
        if low is not None and high is not None and low < high:
            ranges.append(Range(low, high))
    return merged(ranges)


def _blacklisted_functions(vmlinux: Vmlinux) -> list[int]:
    _, data = vmlinux.between("__start_kprobe_blacklist", "__stop_kprobe_blacklist")
    return [address for (address,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8])]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Merge ranges to as few as possible, by address; the reasons are dropped."""
    result: list[Range] = []
    for item in sorted(ranges):
        if result and item.start <= result[-1].end:
            result[-1] = Range(result[-1].start, max(result[-1].end, item.end))
        else:
            result.append(Range(item.start, item.end))
    return result
