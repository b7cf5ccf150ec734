# SPDX-License-Identifier: Apache-2.0
"""Convert a trial's record to its row in the store, and write its console log to a file."""

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path

from riobed_results.files import write_whole
from riobed_results.store import LOST_TOO_MUCH, SYMBOL, FaultRow, TrialRow, utc_now

from riobed.errors import EnvironmentFault
from riobed.faults import Fault
from riobed.trial.control.change import Plant
from riobed.trial.control.plant import PLANTED
from riobed.trial.observe.evidence import Evidence
from riobed.trial.record import TrialRecord
from riobed.trial.verdict import Verdict

# Of what a fault hits; their digits are hexadecimal.
_RETURN_ADDRESSES = {"caller"}


def trial_row(record: TrialRecord, campaign_id: int, attempt: int, started: str, error: str) -> TrialRow:
    """Make a trial's row; a non-empty `error` makes it an infra error."""
    planned, verdict, evidence = record.planned, record.verdict, record.evidence
    observation = record.observation
    seen = (observation.detail if observation else "", record.panic_sync)
    recovered = record.recovery
    met, incomplete = (recovered.trouble, recovered.incomplete) if recovered else ("", "")
    lost = record.promise == "synced" and record.broken
    promise = f"broken: {', '.join(record.broken or ())}" if lost else ""
    differs = record.restart_differs and f"a reset recovered it otherwise: {record.restart_differs}"
    told = (*seen, record.unrecovered, promise, met, incomplete, record.not_restarted, differs)
    activations = [s for f in record.faults if (s := evidence.activated_s(f.index)) is not None]
    row = TrialRow(
        campaign_id=campaign_id,
        position=planned.position,
        attempt=attempt,
        mode=planned.mode,
        fault_class=planned.fault_class,
        seed=planned.seed,
        outcome=verdict.outcome if verdict and not error else "infra_error",
        started=started,
        finished=utc_now(),
        workload_status=observation.workload_status if observation else None,
        workload_error=record.progress.error or None,
        workload_errors=len(record.progress.errors) if observation else None,
        workload_mismatch=record.progress.mismatch,
        requested=len(record.faults) + (record.plant is not None),
        # A dying guest may have written indices of faults that this trial does not have.
        injected=sum(fault.index in evidence.injected for fault in record.faults)
        + (record.plant is not None),
        activated=sum(fault.index in evidence.activated for fault in record.faults),
        first_activation_s=min(activations, default=None),
        injection_guest_s=min(evidence.injected.values()) / 1e9 if evidence.injected else None,
        crash_guest_s=record.crash_guest_s,
        complaints=record.complaints.count if record.complaints else None,
        first_complaint=record.complaints.first if record.complaints else None,
        victim=record.victim,
        harness_victim=record.harness_victim,
        steal_s=None if record.steal_s is None else round(record.steal_s, 3),
        steps_at_injection=record.steps_at_injection,
        steps_done=record.progress.done,
        steps_after_fault=observation.steps_after_fault if observation else None,
        worker=record.worker or None,
        snapshot=record.snapshot or None,
        boot=record.boot or None,
        restart=record.restart,
        restart_differs=record.restart_differs,
        fresh_boot=planned.fresh_boot,
        restore_checked=record.restore_checked,
        detail=error or "; ".join(filter(None, told)),
        recovery=record.recovery,
        check=record.check,
        phases=record.phases,
        faults=[plant_row(record.plant)]
        if record.plant
        else [fault_row(fault, evidence) for fault in record.faults],
    )
    row.cache_share, row.dirty_share = cache_shares(record)
    if verdict and not error:
        _add_verdict(row, record, verdict)
    return row


def _add_verdict(row: TrialRow, record: TrialRecord, verdict: Verdict) -> None:
    """Add what a result has and an infra error has not."""
    row.crash_kind = verdict.crash_kind
    row.crash_title = verdict.crash_title
    row.corruption = verdict.corruption
    row.corruption_where = verdict.corruption_where
    row.promise = record.promise
    row.total_loss = verdict.corruption_where == "disk"
    if record.check and not row.total_loss:
        row.files_lost, row.bytes_lost = record.check.files_lost, record.check.bytes_lost
        row.total_loss = record.check.total_loss
        row.steps_lost = record.check.steps_lost
        row.states = ", ".join(states_of(record)) or None
        row.seconds_lost = record.progress.seconds_lost(row.steps_lost)
    if record.canary:
        row.canary_hits, row.canary_offset = record.canary.blocks, record.canary.first
    if record.lines:
        row.lines_open, row.lines_lost = record.lines.found, record.lines.lost
        row.unknown_flushes = record.lines.unknown_flushes
    if record.observation and record.observation.crash:
        row.time_to_crash_s = round(record.observation.seconds, 3)
        row.log_damage = record.observation.crash.damage or None


def states_of(record: TrialRecord) -> list[str]:
    """Return the names of the states that files were in, other than the newest."""
    found = sorted(record.check.states or ()) if record.check else []
    return [*found, *(each for each in record.broken or () if each == LOST_TOO_MUCH)]


def cache_shares(record: TrialRecord) -> tuple[float | None, float | None]:
    """Return which shares of RAM the file cache and its dirty pages had.

    The registry says it of the moment of the crash. Without one, the kernel said it at the snapshot.
    """
    if record.recovery and record.recovery.entries.entries:
        return round(record.recovery.cache_share, 4), round(record.recovery.dirty_share, 4)
    if record.cache:
        return round(record.cache.share, 4), round(record.cache.dirty_share, 4)
    return None, None


def fault_row(fault: Fault, evidence: Evidence) -> FaultRow:
    """Make the row of one fault; `params` has what was drawn for it and what it hit."""
    seen, hit = fault.index in evidence.activated, evidence.hits.get(fault.index, {})
    # How a processor itself uses its page tables cannot be seen.
    known = seen or (fault.probe and hit.get("kind") != "page_table")
    overwritten_s = evidence.overwritten_s(fault.index)
    overwritten = {} if overwritten_s is None else {"overwritten_s": overwritten_s}
    return FaultRow(
        index=fault.index,
        fault_class=fault.fault_class,
        address=None if fault.address is None else f"{fault.address:#018x}",
        function=fault.function,
        source=fault.source,
        old=fault.old.hex(),
        new=fault.new.hex(),
        old_asm=fault.old_asm,
        new_asm=fault.new_asm,
        injected=fault.index in evidence.injected,
        activated=seen if known else None,
        activated_s=evidence.activated_s(fault.index),
        params={**fault.params, **hit, **overwritten},
    )


def plant_row(plant: Plant) -> FaultRow:
    """Make the row of a planted change, which cannot be activated."""
    return FaultRow(index=0, fault_class=PLANTED, injected=True, activated=None, params=plant.as_stored())


def name_callers(faults: Iterable[FaultRow], symbol: Callable[[int], str | None]) -> None:
    """Add to what faults hit the symbols of return addresses, as far as `symbol` knows them."""
    for fault in faults:
        if named := {
            f"{name}{SYMBOL}": found
            for name in _RETURN_ADDRESSES & fault.params.keys()
            if (found := symbol(int(str(fault.params[name]), 16)))
        }:
            fault.params = fault.params | named


def write_log(folder: Path, row: TrialRow, console: bytes) -> str | None:
    """Write a trial's console log, compressed; return its path relative to the parent of `folder`.

    It is complete and durable on return, because its row is stored next. EnvironmentFault if it cannot be
    written. Returns None for an empty log.
    """
    if not console:
        return None
    # The campaigns of a store share one folder of logs.
    name = f"{row.campaign_id}-{row.position:05d}-{row.attempt}-{row.mode}-{row.fault_class}"
    path = folder / f"{name}.log.gz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # No time stamp inside, so that equal logs are equal files.
        write_whole(path, gzip.compress(console, mtime=0), durable=True)
    except OSError as error:
        raise EnvironmentFault(
            f"log {path}: {error.strerror}; make room there or give --logs, and run the same command again"
        ) from None
    return f"{folder.name}/{path.name}"
