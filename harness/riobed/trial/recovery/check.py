# SPDX-License-Identifier: Apache-2.0
"""The check of a workload's files after recovery: in the guest, or with the host's help (decision 056)."""

from contextlib import suppress
from typing import Any

from riobed_results.store import CHECKS_DISAGREE, CheckReport

from riobed.errors import InfraError
from riobed.guest import DEFERRED, Check, Guest
from riobed.trial.record import TrialRecord
from riobed.trial.recovery.contents import NotMappedError, wrong_files
from riobed.trial.verdict import read_check

CHECK_S = 300.0


def check_files(guest: Guest, record: TrialRecord, check: Check) -> CheckReport:
    """Run a workload's check; the host compares bytes of files if the plan says so and it can.

    A report that has a difference is always that of the whole check in the guest, which also runs after a
    share of the crashes. InfraError if it does not say what the host found.
    """
    place = record.planned.check
    if place == "guest" or not check.deferring or not check.contents or not host_can_compare(guest, record):
        return check_in_guest(guest, record, check.argv)
    seen, wrong = check_in_guest(guest, record, check.deferring), None
    if seen.equal:
        with record.phase("compare"), suppress(NotMappedError):
            wrong = wrong_files(guest.machine, check.dir, DEFERRED, check.contents, guest.programs)
    if place == "host" and wrong == []:
        return seen
    whole = check_in_guest(guest, record, check.argv, "recheck")
    if disagreement := disagreeing(seen, wrong, whole):
        raise InfraError(f"{CHECKS_DISAGREE}: {disagreement}")
    return whole


def check_in_guest(guest: Guest, record: TrialRecord, argv: list[str], phase: str = "check") -> CheckReport:
    """Run a check in the guest and return its report; InfraError if it fails."""
    with record.phase(phase):
        return read_check(guest.machine.run(argv, timeout=CHECK_S))


def host_can_compare(guest: Guest, record: TrialRecord) -> bool:
    """Whether the disk has what the guest reads: ext4 keeps bytes as they are, and recovery wrote all."""
    on_disk = guest.mode.filesystem == "ext4" and not guest.mode.nvdimm
    return on_disk and record.promise == "steps" and not (record.recovery and record.recovery.incomplete)


def disagreeing(seen: CheckReport, wrong: list[str] | None, whole: CheckReport) -> str:
    """Say in what a whole check differs from one that left bytes out and found `wrong` files in them.

    `wrong` is None if these bytes were not compared. Empty if nothing differs.
    """
    if seen.equal and wrong is None:
        return ""
    if seen.equal and not wrong:
        return ", ".join(differing(seen.model_dump(mode="json"), whole.model_dump(mode="json")))
    if whole.equal:
        return f"only the second finds none, the first one in {wrong[0] if wrong else 'names or attributes'}"
    listed = {each.path for each in whole.differences}
    unlisted = [path for path in wrong or () if path not in listed]
    complete = whole.difference_count == len(whole.differences)
    return f"only the first finds {unlisted[0]}" if unlisted and complete else ""


def differing(one: Any, other: Any, name: str = "") -> list[str]:
    """Return the names of the fields in which two JSON values differ, as `recovery.data.pages`."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        found = [differing(one.get(key), other.get(key), f"{name}.{key}".lstrip(".")) for key in keys]
        return [path for paths in found for path in paths]
    return [] if one == other else [name]
