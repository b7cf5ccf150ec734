# SPDX-License-Identifier: Apache-2.0
"""The turn of a stressor that is reset while it runs: run, reset, let its check judge, again."""

import random
import tempfile
import time
from pathlib import Path

from riobed_results.tables.controls.soak import SoakRow

from riobed.crash import formats
from riobed.errors import InfraError
from riobed.guest import Guest, copy_in, poll
from riobed.soak.kernel import complaints
from riobed.soak.life import (
    LACKING,
    MAX_OUTPUT,
    PATIENCE_S,
    POLL_S,
    crashed,
    fsck_log,
    go_on,
    judge_end,
    recovered,
    spawn,
)
from riobed.soak.suite import Turn
from riobed.vm import Machine

# How long the stressor runs before a reset, at least and at most.
_ROUND_S = (0.2, 20.0)
_CHECK_S = 900.0
_LOG_IN_GUEST = "/run/progress"


def take_random_turn(guest: Guest, turn: Turn, seed: int, row: SoakRow) -> None:
    """Reset at random moments while the stressor runs, until its time is up; judge each by its check.

    Each round begins with a seed and an empty file system of its own. Raises InfraError as take_turn does.
    """
    draws = random.Random(f"{seed} {turn.name}")
    row.resets = 0
    while row.good or not row.resets:
        if row.resets:
            go_on(guest)
        round_seed, wanted = draws.getrandbits(32), draws.uniform(*_ROUND_S)
        row.seconds = round(row.seconds + run_until(guest.machine, turn, round_seed, wanted, row), 1)
        if row.crash or not recovered(guest, row):
            return
        row.resets += 1
        run_check(guest.machine, turn, round_seed, row)
        if row.seconds >= turn.seconds:
            return


def run_until(machine: Machine, turn: Turn, seed: int, wanted: float, row: SoakRow) -> float:
    """Start the stressor and return `wanted` seconds after its first report, or when it ends or crashes.

    Returns how long it ran after its first report.
    """
    machine.progress.clear()
    pid = spawn(machine, turn, seed, machine.config.vcpus)
    begin = deadline = 0.0
    patience = time.monotonic() + PATIENCE_S
    while not begin or time.monotonic() < deadline:
        if crashed(machine):
            break
        if ended := poll(machine, pid):
            judge_end(row, ended)
            if not begin and not ended.status:
                raise InfraError(f"{turn.name}: ended without a report")
            break
        if not begin and machine.progress.text():
            begin = time.monotonic()
            deadline = begin + wanted
        if not begin and time.monotonic() > patience:
            raise InfraError(f"{turn.name}: no report within {PATIENCE_S:.0f} s")
        time.sleep(POLL_S)
    console = machine.console.text()
    row.complaints += complaints(console)
    if crash := formats.recognise(console):
        row.crash = crash.title
        row.traps = int(crash.kind == "trap")
    return time.monotonic() - begin if begin else 0


def run_check(machine: Machine, turn: Turn, seed: int, row: SoakRow) -> None:
    """Let the stressor judge the recovered file system by what it had reported."""
    log = machine.progress.text()
    if machine.progress.full:
        raise InfraError(f"{turn.name}: its log is full, so it is not known what was done")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "progress"
        path.write_bytes(log)
        copy_in(machine, path, _LOG_IN_GUEST)
    argv = [
        "/bin/sh",
        "-c",
        f'cd /workload && {turn.check} "$@"',
        "check",
        turn.name,
        str(seed),
        _LOG_IN_GUEST,
    ]
    result = machine.run(argv, timeout=_CHECK_S)
    text = (result.stdout + result.stderr).decode("utf-8", "replace")
    row.check_status, row.check_output = result.status, text[:MAX_OUTPUT]
    if result.status in LACKING:
        raise InfraError(f"{turn.name}: check: status {result.status}: {text.strip()[-200:]}")
    if result.status:
        row.e2fsck = fsck_log(machine)
