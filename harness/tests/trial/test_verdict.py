# SPDX-License-Identifier: Apache-2.0
"""Every branch of what decides a trial's outcome."""

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from harness_builders import recovery
from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.guest import WRONG, Promise
from riobed.trial.observe.watch import Observation
from riobed.trial.verdict import Verdict, broken, decide, read_check
from riobed.vm.agent import ExecResult
from riobed_results.store import CheckReport, Corruption, CrashKind

CRASHED = Observation("panic", Crash("oops", "BUG at fs/inode.c"), 1.5, "running")
ON_DISK = Verdict("panic", "oops", "BUG at fs/inode.c", "unclassified", "disk")
EQUAL: tuple[str, ...] = ()
DIFFERS = ("differs",)
SYNCED = Promise(WRONG, 40.0)


def test_a_guest_that_nobody_brought_down_is_not_judged() -> None:
    with pytest.raises(InfraError, match="without a crash record"):
        decide(Observation("survived", None, 600.0, "running"), recovery(), EQUAL)


@pytest.mark.parametrize("outcome", ["panic", "hang", "stuck", "survived"])
@pytest.mark.parametrize("check", [EQUAL, DIFFERS, None])
def test_the_check_does_not_change_the_outcome(outcome: Any, check: tuple[str, ...] | None) -> None:
    ended = replace(CRASHED, outcome=outcome)
    assert decide(ended, recovery(mount_error=22 if check is None else 0), check).outcome == outcome


@pytest.mark.parametrize("kind", get_args(CrashKind))
@pytest.mark.parametrize(("found", "corruption"), [(EQUAL, "none"), (DIFFERS, "unclassified")])
def test_a_crash_and_what_the_check_found(
    kind: CrashKind, found: tuple[str, ...], corruption: Corruption
) -> None:
    ended = Observation("panic", Crash(kind, "title"), 1.5, "running")
    verdict = decide(ended, recovery(), found)
    assert verdict == Verdict("panic", kind, "title", corruption, None)


def test_with_a_hit_canary_every_corruption_is_direct_and_nothing_else_is_one() -> None:
    def judged(*given: Any) -> Corruption:
        return decide(CRASHED, *given, canary_hit=True).corruption

    assert judged(recovery(), DIFFERS) == judged(recovery(mount_error=22), None) == "direct"
    assert judged(None, None, "no report") == judged(recovery(), DIFFERS, "", True) == "direct"
    assert judged(recovery(), EQUAL) == "none"


def test_files_of_a_workload_beside_count_too() -> None:
    lost = {"difference_count": 2, "files_lost": 1, "differences": [{"path": "tree/a"}]}
    beside = [{"equal": True}, {"equal": False, "workload": "andrew", **lost}]
    check = CheckReport.model_validate({"equal": True, "difference_count": 0, "beside": beside})
    assert broken(check, None, None) == broken(check, SYNCED, None) == ("beside",)
    assert (check.difference_count, [found.path for found in check.differences]) == (2, ["andrew/tree/a"])
    # The judged workload's check does not say how many.
    assert check.files_lost is None
    weighed = check.model_copy(update={"files_lost": 1, "bytes_lost": 5})
    # The workload beside it differs and does not say how many bytes.
    assert (weighed.files_lost, weighed.bytes_lost) == (2, None)
    with_beside = read_check(ExecResult(0, b'{"beside": "anything"}', b""))
    assert with_beside.all_equal


JOURNALLED = Promise(WRONG | {"zeroed", "torn", "renamed"}, None)
UNORDERED = Promise(WRONG - {"stale"}, 40.0)


@pytest.mark.parametrize(("promise", "equal", "states", "lost_s", "found"), [
    # Each step.
    (None, True, {}, 0.0, []),
    (None, False, {"older": 1}, 3.0, ["differs"]),
    # What was synced: all that is up to the file system is lost and no more.
    (SYNCED, True, {"older": 5, "mixed": 1, "zeroed": 1, "torn": 1, "renamed": 2, "stale": 0}, 39.9, []),
    (SYNCED, False, {"older": 5, "stale": 1}, None, ["stale"]),
    (SYNCED, False, {"unsynced": 2, "damaged": 1}, None, ["damaged", "unsynced"]),
    (SYNCED, True, {"older": 1}, 40.1, ["lost too much"]),
    (SYNCED, False, {"misplaced": 1, "older": 9}, 50.0, ["misplaced", "lost too much"]),
    # What a file system permits is not broken, though the check calls it a difference.
    (UNORDERED, False, {"stale": 1}, 1.0, []),
    (UNORDERED, False, {"stale": 1, "unsynced": 1}, 1.0, ["unsynced"]),
    (JOURNALLED, True, {"older": 3, "mixed": 1}, 500.0, []),
    (JOURNALLED, True, {"torn": 1, "zeroed": 1}, None, ["torn", "zeroed"]),
    # A damaged guest's check may say anything. What it does not explain is a difference.
    (SYNCED, False, {"older": 1}, None, ["differs"]),
    (SYNCED, False, {"stale": "much", "unknown": 3}, None, ["differs"]),
    (SYNCED, False, None, None, ["differs"]),
    (SYNCED, True, [], None, []),
])  # fmt: skip
def test_what_breaks_a_promise(
    promise: Promise | None, equal: bool, states: Any, lost_s: float | None, found: list[str]
) -> None:
    check = CheckReport.model_validate({"equal": equal, "states": states})
    assert broken(check, promise, lost_s) == tuple(found)


def test_a_file_system_that_does_not_mount_is_corruption() -> None:
    assert decide(CRASHED, recovery(mount_error=22), None) == ON_DISK


def sums(intact: int, corrupt: int, changing: int) -> dict[str, Any]:
    return {"intact": intact, "corrupt": corrupt, "changing": changing, "mismatches": []}


@pytest.mark.parametrize(
    ("sums", "corruption"),
    [
        (sums(400, 0, 2), "indirect"),
        (sums(0, 0, 1), "indirect"),
        (sums(400, 1, 0), "direct"),
        (sums(0, 400, 0), "direct"),
        # Not kept: rio.checksum=off, or a mode without a registry.
        (sums(0, 0, 0), "unclassified"),
    ],
)
def test_block_checksums_tell_direct_from_indirect(sums: dict[str, Any], corruption: str) -> None:
    report = recovery(checksums=sums)
    assert decide(CRASHED, report, DIFFERS).corruption == corruption
    assert decide(CRASHED, recovery(checksums=sums, mount_error=22), None).corruption == corruption
    # A page that mismatches while every file is right is stored, but is no corruption.
    assert decide(CRASHED, report, EQUAL).corruption == "none"


@pytest.mark.parametrize("sums", [{}, sums(400, 0, 2)])
@pytest.mark.parametrize(
    "damage",
    [{"registry": "damaged"}, {"entries": {"rejected": 1}}, {"header_damaged": 1}, {"log": {"rejected": 1}}],
)
def test_damage_to_the_registry_is_direct(damage: dict[str, Any], sums: dict[str, Any]) -> None:
    report = recovery(**damage, checksums=sums)
    assert decide(CRASHED, report, DIFFERS).corruption == "direct"
    # An entry that says nothing of a file in use costs nothing.
    assert decide(CRASHED, report, EQUAL).corruption == "none"
    # The noise of a loss of power looks like damage.
    assert decide(CRASHED, report, DIFFERS, power_lost=True).corruption == "unclassified"


@pytest.mark.parametrize(
    "parts",
    [
        {"entries": {"rejected": 0, "senseless": 3}},
        {"entries": {"duplicates": 2}, "log": {"inconsistent": 1}},
        {"entries": {"pairs": 9, "fallback": 3}},
    ],
)
def test_what_is_inconsistent_was_written_the_legal_way(parts: dict[str, Any]) -> None:
    report = recovery(**parts, checksums=sums(400, 0, 2))
    assert decide(CRASHED, report, DIFFERS).corruption == "indirect"


def test_what_cannot_be_recovered_is_corruption() -> None:
    assert decide(CRASHED, None, None, "recovery failed: panic: out of memory") == ON_DISK


def test_a_crash_without_a_report_or_check_is_our_failure() -> None:
    with pytest.raises(InfraError, match="a crash without a recovery report"):
        decide(CRASHED, None, EQUAL)
    with pytest.raises(InfraError, match="a mounted file system that was not checked"):
        decide(CRASHED, recovery(), None)


@pytest.mark.parametrize(("status", "equal"), [(0, True), (3, False)])
@pytest.mark.parametrize("output", [b"", b" \n", b"{}", b'{"differences": []}', b'{"equal": "so they say"}'])
def test_the_status_of_a_check_decides(status: int, equal: bool, output: bytes) -> None:
    check = read_check(ExecResult(status, output, b"noise"))
    assert check.model_dump() == json.loads(output.strip() or b"{}") | {"equal": equal}


@pytest.mark.parametrize("status", [1, 2, 4, 126, 127, 137, 139, 255, -1])
def test_any_other_status_is_our_failure(status: int) -> None:
    with pytest.raises(InfraError, match=rf"check failed with status {status}: not found$"):
        read_check(ExecResult(status, b"{}", b"sh: not found\n".removeprefix(b"sh: ")))


TOO_LONG = b'{"a": "' + b"x" * (1 << 20) + b'"}'
NO_JSON = [b"equal", b'{"a": ', b"\xff\xfe", b"[" * 100000, TOO_LONG]


@pytest.mark.parametrize(
    ("output", "says"),
    [*((each, "not print JSON") for each in NO_JSON), (b"[]", "JSON object"), (b"null", "JSON object")],
)
@pytest.mark.parametrize("status", [0, 3])
def test_output_that_is_none(output: bytes, says: str, status: int) -> None:
    with pytest.raises(InfraError, match=rf"^[^\n]*{says}[^\n]*$"):
        read_check(ExecResult(status, output, b""))
