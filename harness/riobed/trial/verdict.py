# SPDX-License-Identifier: Apache-2.0
"""The verdict: the only place that decides a trial's outcome."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from riobed_results.store import (
    LOST_TOO_MUCH,
    CheckReport,
    Corruption,
    CorruptionWhere,
    CrashKind,
    Outcome,
    RecoveryReport,
    is_direct,
)

from riobed.errors import InfraError
from riobed.guest import WRONG, Promise
from riobed.trial.observe.watch import Observation
from riobed.vm import ExecResult

# Exit statuses of a workload's check (docs/own-workload.md).
_EQUAL, _DIFFERS = 0, 3
_MAX_CHECK_OUTPUT = 1 << 20


@dataclass(frozen=True)
class Verdict:
    """The outcome of a trial that was not an infra error, and what its check found."""

    outcome: Outcome
    crash_kind: CrashKind
    crash_title: str
    corruption: Corruption
    corruption_where: CorruptionWhere | None = None


def read_check(result: ExecResult) -> CheckReport:
    """Parse the result of the workload's check; InfraError if the check itself failed."""
    error = result.error
    if result.status not in (_EQUAL, _DIFFERS):
        raise InfraError(f"the workload's check failed with status {result.status}: {error}")
    try:
        report = json.loads(result.stdout[:_MAX_CHECK_OUTPUT]) if result.stdout.strip() else {}
    except (ValueError, RecursionError):
        raise InfraError("the workload's check did not print JSON") from None
    if not isinstance(report, dict):
        raise InfraError("the workload's check did not print a JSON object")
    report.pop("beside", None)  # the harness adds it
    return CheckReport.model_validate(report | {"equal": result.status == _EQUAL})


def decide(
    observation: Observation,
    recovery: RecoveryReport | None,
    broken: Collection[str] | None,
    unrecovered: str = "",
    power_lost: bool = False,
    canary_hit: bool = False,
) -> Verdict:
    """Judge a trial. Its outcome was observed before the reset, so it cannot depend on what the check found.

    `recovery` is riorecover's report, None if recovery failed each time; `unrecovered` then says why.
    `broken` is what the check found. A file system that cannot be mounted or recovered counts as corruption
    of all its files. With `power_lost` recovery saw noise, so its report classifies no corruption. With
    `canary_hit` there was a stray store into the NVDIMM, which makes any corruption direct. Raises InfraError
    if a report is missing.
    """
    if observation.crash is None:
        raise InfraError("internal: a surviving guest without a crash record")
    ended = (observation.outcome, observation.crash.kind, observation.crash.title)
    if unrecovered:
        return Verdict(*ended, "direct" if canary_hit else "unclassified", "disk")
    if recovery is None:
        raise InfraError("a crash without a recovery report")
    how: Corruption = "unclassified" if power_lost else _classify(recovery)
    if canary_hit:
        how = "direct"
    if recovery.mount_error:
        return Verdict(*ended, how, "disk")
    if broken is None:
        raise InfraError("a mounted file system that was not checked")
    return Verdict(*ended, how if broken else "none")


def broken(check: CheckReport, promise: Promise | None, lost_s: float | None) -> tuple[str, ...]:
    """Return what of a mode's promise is broken after a crash; empty if it was kept.

    `lost_s` is the age in seconds of the oldest change that is lost, None if it is not known. Without a
    `promise` every difference counts, and so it does if the check does not tell of states of files.
    """
    beside = ("beside",) if not all(each.equal for each in check.beside) else ()
    states = check.states
    if promise is None or states is None:
        return (*(() if check.equal else ("differs",)), *beside)
    found = sorted(states & promise.broken)
    if not check.equal and not states & WRONG:
        found.append("differs")
    if promise.window_s is not None and lost_s is not None and lost_s > promise.window_s:
        found.append(LOST_TOO_MUCH)
    return (*found, *beside)


def _classify(recovery: RecoveryReport) -> Corruption:
    """Classify a corruption; "unclassified" without checksums.

    It is direct if a cached page has another checksum than its last legal writer left, or if a store went
    into the registry, whose entries have checksums, too. The page is not matched with the file that differs,
    because a damaged metadata block can make any file differ. The stored report lists the pages.
    """
    direct = is_direct(recovery)
    if direct is None:
        return "unclassified"
    return "direct" if direct else "indirect"
