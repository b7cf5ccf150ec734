# SPDX-License-Identifier: Apache-2.0
"""Which overruns of copies explain the wrong bytes of a trial: those of the same place and length."""

from collections.abc import Mapping
from typing import Any

from riobed_results.store import Difference, FaultRow, TrialRow

_PAGE = 4096
_CLASS = "copy_overrun"
# So begins what a check says of wrong bytes (workloads/memtest/compare.c, workloads/andrew/verify.c).
_BYTES = "found "


def explained_by(row: TrialRow) -> list[str] | None:
    """Return the overruns that explain a stretch of wrong bytes, as `copy_overrun 3`; 3 is the fault's index.

    An overrun explains a stretch that begins in its page where the copy should have ended and has all bytes
    behind it: to the end of the overrun or of the page. In a page behind that one it has the bytes from the
    page's start on. A stretch that is one byte shorter is not explained. The row does not say which page of
    which file lies where in memory, so an equal place is an equal offset in a page.

    None if that is not known: the row does not say where an overrun went, or no check listed differences.
    """
    overruns = [fault for fault in row.faults if fault.activated and fault.fault_class == _CLASS]
    if not overruns or row.corruption in (None, "none"):
        return []
    places = list(map(_place, overruns))
    if None in places or row.check is None or (row.check.difference_count and not row.check.differences):
        return None
    wrong = [found for found in row.check.differences if found.length and found.detail.startswith(_BYTES)]
    return [
        f"{_CLASS} {fault.index}"
        for fault, place in zip(overruns, places, strict=True)
        if place and any(_fits(found, *place) for found in wrong)
    ]


def _place(fault: FaultRow) -> tuple[int, int] | None:
    """Return where in its page the first byte behind the copy lay, and how many the overrun wrote.

    None if the row does not say so; no bytes if they went to a program's memory, which is no file's.
    """
    params: Any = fault.params
    if not isinstance(params, Mapping):
        return None
    to, length, extra = (params.get(name) for name in ("to", "length", "extra"))
    if not (isinstance(to, str) and isinstance(length, int) and isinstance(extra, int)):
        return None
    try:
        behind = (int(to, 16) + length) % _PAGE
    except ValueError:
        return None
    return behind, 0 if params.get("direction") == "to_user" else extra


def _fits(found: Difference, behind: int, extra: int) -> bool:
    """Whether a stretch of wrong bytes is what such an overrun makes of a page, or of pages in a row."""
    start, own = found.offset % _PAGE, _PAGE - behind
    if start == behind and found.length in (extra, min(extra, own)):
        return True
    rest = extra - own
    return start == 0 and rest > 0 and (found.length == rest % _PAGE or (found.length == _PAGE <= rest))
