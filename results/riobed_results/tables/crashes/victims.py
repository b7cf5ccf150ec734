# SPDX-License-Identifier: Apache-2.0
"""Which tasks ran when the kernel crashed by faults."""

from collections import Counter
from collections.abc import Sequence

from riobed_results.store import CONTROLS, Row, Vocabulary, crashed, how_many
from riobed_results.tables.framework.by_mode import ModeCounts, Value

# Programs that only the harness runs in a guest: the agent, its shells and what they call, and init. A fault
# that kills one of them says nothing of a machine in use.
HARNESS = {"qemu-ga", "sh", "cat", "true", "init", "riobed-init"}


def of_harness(row: Row) -> bool:
    """Whether the task was one of the harness."""
    return row.task in HARNESS


def wanted(row: Row) -> bool:
    """Whether the row is a crash by faults of which the task is known."""
    return crashed(row) and row.fault_class not in CONTROLS and bool(row.task)


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    tasks: Counter[str] = Counter()
    for row in rows:
        tasks[row.task or ""] += row.weight
    ours = how_many(filter(of_harness, rows))
    return {"Crashes": how_many(rows), "Of the harness": ours, **dict(tasks.most_common())}


VICTIMS = ModeCounts(
    name="victims",
    title="Which task ran at a crash",
    help="Which tasks ran at a crash, and how many of them were the harness's.",
    section="corruptions",
    about_faults=True,
    note="Crashes by faults whose report names a task. It need not be what the fault hit. Of the "
    f"harness: {', '.join(sorted(HARNESS))}. Tasks of the kernel are named without their processor.",
    wants=wanted,
    lines=_lines,
)
