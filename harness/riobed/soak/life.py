# SPDX-License-Identifier: Apache-2.0
"""One stressor's turn, step by step: run, query the kernel, list, reset, list again, compare."""

import time

from riobed_results.tables.controls.soak import SoakRow

from riobed.crash import formats
from riobed.errors import BootError, InfraError
from riobed.guest import Guest, boot_production, poll, wait_stage0
from riobed.guest.workload.tree import Tree, differences, list_tree
from riobed.soak.kernel import complaints, counters, dirty_kib, mismatches, not_settled
from riobed.soak.suite import Turn
from riobed.trial import read_recovery
from riobed.vm import ExecResult, Machine

# A stressor finishes its round when its time is up, and removes its files.
PATIENCE_S = 900.0
POLL_S = 0.2
VERIFY_S = 5.0
# Exit statuses that concern the guest, not the kernel under test: 69 is the suite's own (sysexits.h
# EX_UNAVAILABLE), 126 and 127 the shell's.
LACKING = (69, 126, 127)
_MAX_DIFFERENCES = 100
MAX_OUTPUT = 2000
_MAX_FSCK = 10000


def take_turn(guest: Guest, turn: Turn, seed: int, row: SoakRow) -> None:
    """Run a stressor in the guest's production kernel and fill in its row.

    The guest is left in stage 0 after recovery, or crashed. Raises InfraError if the harness failed; the row
    holds what was found so far.
    """
    machine = guest.machine
    start = time.monotonic()
    ended = run_stressor(machine, turn, seed, row)
    row.seconds = round(time.monotonic() - start, 1)
    look_at_kernel(machine, row)
    judge_end(row, ended)
    if row.crash:
        return
    if guest.mode.tells_fsync:
        # What is not durable may be lost, by what the mode promises.
        machine.run(["/bin/sync"], timeout=PATIENCE_S)
    before = list_tree(machine)
    row.dirty_kib = dirty_kib(machine)
    # Reading every file may have triggered a complaint too.
    look_at_kernel(machine, row)
    reset_and_compare(guest, row, before)


def run_stressor(machine: Machine, turn: Turn, seed: int, row: SoakRow) -> ExecResult | None:
    """Return how the stressor ended, None if the kernel crashed; InfraError if it does not end.

    Meanwhile the kernel compares its pages with their checksums: the next legal write hides a wrong one.
    """
    pid = spawn(machine, turn, seed, machine.config.vcpus)
    deadline = time.monotonic() + turn.seconds + PATIENCE_S
    verified = time.monotonic()
    while time.monotonic() < deadline:
        if crashed(machine):
            return None
        if ended := poll(machine, pid):
            return ended
        if time.monotonic() - verified > VERIFY_S:
            verify_meanwhile(machine, row)
            verified = time.monotonic()
        time.sleep(POLL_S)
    raise InfraError(f"{turn.name}: still running {PATIENCE_S:.0f} s after its time")


def spawn(machine: Machine, turn: Turn, seed: int, workers: int) -> int:
    """Start the stressor; return its process id in the guest."""
    argv = ["/bin/sh", "/workload/run", turn.name, str(turn.seconds), str(seed), str(workers)]
    return machine.spawn(argv)


def crashed(machine: Machine) -> bool:
    """Whether the kernel has crashed; if so, it has had time for its report."""
    if not formats.started(machine.console.text()):
        return False
    time.sleep(1)
    return True


def verify_meanwhile(machine: Machine, row: SoakRow) -> None:
    """Let the kernel compare its pages with their checksums, and add what it found to the row."""
    try:
        found = mismatches(counters(machine, "verify"))
    except InfraError:
        # A crash, or a guest too busy to answer; the caller's next look tells which.
        machine.agent_answers(30)
        return
    if found is not None:
        row.verifications += 1
        row.mismatches = max(row.mismatches or 0, found)


def judge_end(row: SoakRow, ended: ExecResult | None) -> None:
    """Record exit status and output; InfraError if the guest lacks what the stressor needs."""
    if not ended:
        return
    text = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    row.status, row.output = ended.status, text[-MAX_OUTPUT:]
    if ended.status in LACKING:
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "says nothing")
        raise InfraError(f"{row.stressor}: the guest lacks something, status {ended.status}: {last.strip()}")


def look_at_kernel(machine: Machine, row: SoakRow) -> None:
    """Record what console and counters say now."""
    console = machine.console.text()
    row.complaints = complaints(console)
    if crash := formats.recognise(console):
        row.crash = crash.title
        row.traps = int(crash.kind == "trap")
        return
    row.stats = counters(machine, "stats")
    row.verify = counters(machine, "verify")
    row.traps = (row.stats or {}).get("traps")
    known = [each for each in (row.mismatches, mismatches(row.verify)) if each is not None]
    row.mismatches = max(known, default=None)
    row.not_settled = not_settled(row.stats, row.verify)


def reset_and_compare(guest: Guest, row: SoakRow, before: Tree) -> None:
    """Reset without warning, wait for recovery, compare every file with its state before."""
    machine = guest.machine
    if not recovered(guest, row):
        return
    after = list_tree(machine)
    found = list(differences(before, after))
    row.files, row.files_different = len(before), len(found)
    row.different = found[:_MAX_DIFFERENCES]
    if found:
        row.e2fsck = fsck_log(machine)


def recovered(guest: Guest, row: SoakRow) -> bool:
    """Reset without warning and wait for recovery; return whether there is a file system to compare."""
    machine = guest.machine
    machine.console.clear()
    machine.reset()
    try:
        wait_stage0(machine)
    except BootError as error:
        # The guest was healthy, so a failure to come back is a result.
        row.recovery_error = str(error)
        return False
    row.complaints += complaints(machine.console.text())
    row.recovery = read_recovery(guest)
    if row.recovery.mount_error:
        row.recovery_error = f"the file system cannot be mounted, error {row.recovery.mount_error}"
        return False
    row.recovery_error = row.recovery.incomplete or None
    if row.recovery.checksum_mismatches is not None:
        row.recovery_mismatches = (row.recovery_mismatches or 0) + row.recovery.checksum_mismatches
    return True


def fsck_log(machine: Machine) -> str:
    """Return the beginning of what e2fsck said in recovery."""
    return machine.read_file("/run/e2fsck.log").decode("utf-8", "replace")[:_MAX_FSCK]


def go_on(guest: Guest) -> None:
    """From stage 0 to the production kernel, with the recovered file system."""
    guest.machine.console.clear()
    boot_production(guest.machine)
