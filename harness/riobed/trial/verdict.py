# SPDX-License-Identifier: Apache-2.0
"""The only place that decides what a trial's outcome was."""

import json
from dataclasses import dataclass
from typing import Literal

from riobed_results.store import (
    CheckReport,
    Corruption,
    CorruptionWhere,
    CrashKind,
    RecoveryReport,
    is_direct,
)

from riobed.errors import InfraError
from riobed.trial.watch import Observation
from riobed.vm import ExecResult

# Exit status of a workload's check: the contract in riobed.guest.workload.
_EQUAL, _DIFFERS = 0, 3
_MAX_CHECK_OUTPUT = 1 << 20


@dataclass(frozen=True)
class Verdict:
    """Outcome of a trial that was not an infra error."""

    outcome: Literal["crash", "discard"]
    crash_kind: CrashKind | None = None
    crash_title: str | None = None
    corruption: Corruption | None = None
    corruption_where: CorruptionWhere | None = None


def read_check(result: ExecResult) -> CheckReport:
    """What the workload's check said; InfraError when it did not come to a judgement."""
    error = result.stderr.decode("utf-8", "replace").strip()[-200:]
    if result.status not in (_EQUAL, _DIFFERS):
        raise InfraError(f"the workload's check failed with status {result.status}: {error}")
    try:
        report = json.loads(result.stdout[:_MAX_CHECK_OUTPUT]) if result.stdout.strip() else {}
    except (ValueError, RecursionError):
        raise InfraError("the workload's check did not print JSON") from None
    if not isinstance(report, dict):
        raise InfraError("the workload's check did not print a JSON object")
    return CheckReport.model_validate(report | {"equal": result.status == _EQUAL})


def decide(
    observation: Observation,
    recovery: RecoveryReport | None,
    check: CheckReport | None,
    unrecovered: str = "",
) -> Verdict:
    """The verdict on a trial.

    `recovery` is riorecover's report and `check` the workload's; both None when there was no crash, or if
    `unrecovered` says why recovery never ended well. A file system that cannot be mounted any more is
    corruption of all its files, and so is one that cannot be recovered.
    """
    if observation.crash is None:
        return Verdict("discard")
    kind, title = observation.crash.kind, observation.crash.title
    if unrecovered:
        return Verdict("crash", kind, title, "unclassified", "disk")
    if recovery is None:
        raise InfraError("a crash without a recovery report")
    if recovery.mount_error:
        return Verdict("crash", kind, title, _classify(recovery), "disk")
    if check is None:
        raise InfraError("a mounted file system that was not checked")
    corruption = "none" if check.equal else _classify(recovery)
    return Verdict("crash", kind, title, corruption)


def _classify(recovery: RecoveryReport) -> Corruption:
    """Of a corruption: direct if any cached page had another checksum than its last legal writer left.

    Or if a store went into the registry, whose entries have checksums, too. Which page it was is not compared
    with which file differs: a damaged block of metadata can make any file differ. The pages are in the stored
    report, for whoever wants to look closer.
    """
    direct = is_direct(recovery)
    if direct is None:
        return "unclassified"
    return "direct" if direct else "indirect"
