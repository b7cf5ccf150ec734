# SPDX-License-Identifier: Apache-2.0
"""Which tasks ran when the kernel crashed by faults."""

from collections import Counter
from collections.abc import Sequence

from riobed_results.store import CONTROLS, Row, Vocabulary, crashed, how_many
from riobed_results.tables.framework.by_mode import ModeCounts, Value

# What the harness runs in a guest: the agent, its shells and what they call, and init. Stores before schema 7
# have no process ids, so there a workload's own program of such a name counts, too.
_NAMES = {"qemu-ga", "sh", "cat", "true", "init", "riobed-init"}


def of_harness(row: Row) -> bool:
    """Whether the task was one of the harness, by its name where the row does not say it.

    A fault that kills such a task says nothing of a machine in use.
    """
    return row.task in _NAMES if row.harness_victim is None else row.harness_victim


def wanted(row: Row) -> bool:
    """Whether the row is a crash by faults of which the task is known."""
    return crashed(row) and row.fault_class not in CONTROLS and bool(row.task)


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    tasks: Counter[str] = Counter()
    for row in rows:
        tasks[row.task or ""] += row.weight
    ours: dict[str, Value] = {}
    for name, by_name in (("Of the harness", False), ("Of the harness, by name", True)):
        if told := [row for row in rows if (row.harness_victim is None) == by_name]:
            ours[name] = how_many(filter(of_harness, told))
    return {"Crashes": how_many(rows), **ours, **dict(tasks.most_common())}


VICTIMS = ModeCounts(
    name="victims",
    title="Which task ran at a crash",
    help="Which tasks ran at a crash, and how many of them were the harness's.",
    section="corruptions",
    about_faults=True,
    note="Crashes by faults whose report names a task. It need not be what the fault hit. Of the "
    "harness are init and the guest's agent, by their process ids. Where these are unknown, as in stores "
    f"before schema 7, each task of these names counts: {', '.join(sorted(_NAMES))}. Tasks of the kernel are "
    "named without their processor.",
    wants=wanted,
    lines=_lines,
)
