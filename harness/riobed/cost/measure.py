# SPDX-License-Identifier: Apache-2.0
"""One measurement: the workload's fixed piece of work, timed inside the guest.

The host does not query the agent meanwhile, because that would be work for the guest too. The guest reports
the end through the progress port.
"""

import time
from dataclasses import dataclass, replace

from riobed.cost.counter import COUNTERS, MARK, between_marks, marks
from riobed.cost.variants import Variant
from riobed.errors import InfraError
from riobed.guest import PROGRESS_PORT, Guest, boot_error
from riobed.trial import INJECTOR

_POLL_S = 0.1
_RUN_S = 900.0

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
start=${{EPOCHREALTIME/./}}
{MARK}
for ((part = 2; part <= $# && status == 0; part += 2)); do
	/bin/sh -c "${{!part}}" >/run/output 2>&1 || status=$?
	ends+=("${{EPOCHREALTIME/./}}")
done
{MARK}
end=${{EPOCHREALTIME/./}}
counters >/run/after
echo "status $status"
from=$start
for each in "${{ends[@]}}"; do
	echo "part.$1 $(((each - from) * 1000))"
	from=$each
	shift 2
done
echo "ns $(((end - start) * 1000))"
sed 's/^/before./' /run/before
sed 's/^/after./' /run/after
[ $status = 0 ] || tail -n 1 /run/output >&2
echo end >{PROGRESS_PORT}
"""


@dataclass(frozen=True)
class Measurement:
    """The guest time that one run of a command took, and the counters before and after it."""

    work: str
    seconds: float
    # Of the parts by name, if there is more than one.
    parts: dict[str, float]
    idle_s: float
    before: dict[str, int]
    after: dict[str, int]
    # What the emulator counted meanwhile; empty if it did not.
    events: dict[str, int]


def measure(guest: Guest, variant: Variant, seed: int) -> Measurement:
    """Do the work once, from the guest's snapshot; InfraError if it fails."""
    guest.ready()
    _prepare(guest, variant)
    work = guest.measured(seed)
    counters = guest.machine.config.folder / COUNTERS if guest.machine.config.plugin else None
    since = marks(counters) if counters else 0
    words = [word for part in work.items() for word in part]
    pid = guest.machine.spawn(["/bin/bash", "-c", _SCRIPT, "measure", *words])
    deadline = time.monotonic() + _RUN_S
    while b"end" not in guest.machine.progress.text():
        if time.monotonic() > deadline or not guest.machine.alive():
            raise boot_error(guest.machine, "no end of the work")
        time.sleep(_POLL_S)
    while (ended := guest.machine.status(pid)) is None:
        time.sleep(_POLL_S)
    guest.machine.pause()
    text = "\n".join(work.values())
    found = read_measurement(text, ended.stdout.decode(), ended.stderr.decode("utf-8", "replace").strip())
    return replace(found, events=between_marks(counters, since)) if counters else found


def _prepare(guest: Guest, variant: Variant) -> None:
    script = f"{variant.prepare}\n"
    if variant.batch:
        # One write: an open file is a batch.
        script += f"cat >/run/batch; cat /run/batch >{INJECTOR}\n"
    ended = guest.machine.run(["/bin/sh", "-ec", script], stdin=variant.batch.encode())
    if ended.status:
        error = ended.stderr.decode("utf-8", "replace").strip()[-200:]
        raise InfraError(f"{guest.machine.config.name}: {variant.name}: status {ended.status}: {error}")


def read_measurement(work: str, output: str, error: str) -> Measurement:
    """Parse the script's output; InfraError with the error output of the work if it failed."""
    values = {name: int(value) for name, _, value in (line.partition(" ") for line in output.splitlines())}
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
    return Measurement(work, values["ns"] / 1e9, parts, idle / 1e9, before, after, {})
