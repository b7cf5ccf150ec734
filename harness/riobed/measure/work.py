# SPDX-License-Identifier: Apache-2.0
"""One measurement: the workload's fixed piece of work, timed inside the guest.

The host does not query the agent meanwhile, because that would be work for the guest too. The guest reports
begin and end through the progress port, by which the host's clock times the work as well.
"""

import time
from collections import Counter
from dataclasses import dataclass, replace

from riobed.errors import InfraError
from riobed.guest import PROGRESS_PORT, Guest, boot_error
from riobed.measure.counter import COUNTERS, MARK, between_marks, marks
from riobed.vm import UNUSED, DiskUse

_POLL_S = 0.02
# Writing each file through to a disk of 1996 takes a quarter of an hour on a host that does nothing else.
_RUN_S = 7200.0

# The arguments are the parts of the work: a name and a text for sh each. Prints lines NAME VALUE: nanoseconds
# of all and of each part, and counters before and after the work.
_SCRIPT = rf"""
counters() {{
	cat /sys/kernel/debug/rio/stats 2>/dev/null
	grep -E '^(nr_dirtied|nr_written) ' /proc/vmstat
	sed -n 's/^ *\.idle_sleeptime *: \([0-9]*\) nsecs/\1/p' /proc/timer_list | total idle_ns
	for name in RES CAL TLB; do
		sed -n "s/^ *$name:\([ 0-9]*\).*/\1/p" /proc/interrupts | total ipi_$name
	done
}}
total() {{
	sum=0
	while read -r -a numbers; do
		for number in "${{numbers[@]}}"; do sum=$((sum + number)); done
	done
	echo "$1 $sum"
}}
counters >/run/before
status=0
ends=()
echo begin >{PROGRESS_PORT}
start=${{EPOCHREALTIME/./}}
{MARK}
for ((part = 2; part <= $# && status == 0; part += 2)); do
	/bin/sh -c "${{!part}}" >/run/output 2>&1 || status=$?
	ends+=("${{EPOCHREALTIME/./}}")
	{MARK}
done
end=${{EPOCHREALTIME/./}}
echo end >{PROGRESS_PORT}
counters >/run/after
echo "status $status"
from=$start
for each in "${{ends[@]}}"; do
	echo "part.$1 $(((each - from) * 1000))"
	from=$each
	shift 2
done
echo "ns $(((end - start) * 1000))"
echo "ended_us $end"
sed 's/^/before./' /run/before
sed 's/^/after./' /run/after
[ $status = 0 ] || tail -n 1 /run/output >&2
"""


@dataclass(frozen=True)
class Measurement:
    """The guest time that one run of a command took, and the counters before and after it.

    `host_s` is the time by the host's clock, of which the guest had to wait `delayed_s` for a processor of
    the host. `disk` is how the disks under test were used meanwhile, `used` how since power-on. The work
    ended at `ended_s` of the guest's clock.
    """

    work: str
    seconds: float
    # Of the parts by name, if there is more than one.
    parts: dict[str, float]
    idle_s: float
    before: dict[str, int]
    after: dict[str, int]
    # What the emulator counted meanwhile, and in each part; empty if it did not.
    events: dict[str, int]
    part_events: dict[str, dict[str, int]]
    ended_s: float = 0.0
    host_s: float = 0.0
    delayed_s: float = 0.0
    disk: DiskUse = UNUSED
    used: DiskUse = UNUSED


def measure(guest: Guest, seed: int) -> Measurement:
    """Do the work once in a guest that is ready; InfraError if it fails.

    The guest goes on running, and its disk goes on writing.
    """
    machine, work = guest.machine, guest.workload.measured(seed)
    counters = machine.config.folder / COUNTERS if machine.config.plugin else None
    since = marks(counters) if counters else 0
    words = [word for part in work.items() for word in part]
    before = machine.disk_use()
    pid = machine.spawn(["/bin/bash", "-c", _SCRIPT, "measure", *words])
    begin, delayed = _heard(guest, b"begin"), machine.steal_time()
    end = _heard(guest, b"end")
    used, delayed = machine.disk_use(), machine.steal_time() - delayed
    while (ended := machine.status(pid)) is None:
        time.sleep(_POLL_S)
    text = "\n".join(work.values())
    found = read_measurement(text, ended.stdout.decode(), ended.stderr.decode("utf-8", "replace").strip())
    found = replace(found, host_s=end - begin, delayed_s=delayed, disk=used.since(before), used=used)
    return _with_events(found, list(work), between_marks(counters, since, len(work))) if counters else found


def _heard(guest: Guest, word: bytes) -> float:
    """Return when the host's clock said that the guest had reported this word; InfraError if it does not."""
    deadline = time.monotonic() + _RUN_S
    while word not in guest.machine.progress.text():
        if time.monotonic() > deadline or not guest.machine.alive():
            raise boot_error(guest.machine, f"no {word.decode()} of the work")
        time.sleep(_POLL_S)
    return time.monotonic()


def _with_events(found: Measurement, parts: list[str], events: list[dict[str, int]]) -> Measurement:
    whole: Counter[str] = Counter()
    for each in events:
        whole.update(each)
    # The name of a whole is empty.
    of_part = {name: each for name, each in zip(parts, events, strict=True) if name}
    return replace(found, events=dict(whole), part_events=of_part)


def read_measurement(work: str, output: str, error: str) -> Measurement:
    """Parse the script's output; InfraError with what was said if the work failed or lines are missing."""
    try:
        return _read(work, {name: int(value) for name, value in map(str.split, output.splitlines())}, error)
    except (KeyError, ValueError):
        raise InfraError(f"the script that measures was cut short: {error or output[-200:]!r}") from None


def _read(work: str, values: dict[str, int], error: str) -> Measurement:
    if values["status"]:
        raise InfraError(f"the work failed with status {values['status']}: {error}")
    before, after = (
        {name.removeprefix(when): value for name, value in values.items() if name.startswith(when)}
        for when in ("before.", "after.")
    )
    idle = after.pop("idle_ns") - before.pop("idle_ns")
    parts = {name.removeprefix("part."): ns / 1e9 for name, ns in values.items() if name.startswith("part.")}
    # The name of a whole is empty.
    parts.pop("", None)
    seconds, ended_s = values["ns"] / 1e9, values["ended_us"] / 1e6
    return Measurement(work, seconds, parts, idle / 1e9, before, after, {}, {}, ended_s)
