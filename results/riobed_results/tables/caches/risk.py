# SPDX-License-Identifier: Apache-2.0
"""The table of risk: what a crash costs against what is written, by policy and size; and its sentence."""

from riobed_caches.rows import CacheRow

from riobed_results.tables.caches.grids import (
    Column,
    Definition,
    Study,
    Values,
    losses,
    size_text,
    study_table,
)

# In the order of fewer writes and more risk.
MODELS = ("write-through", "on-close", "delayed", "delayed-files", "when-full", "never", "rio")
_NEEDS = ("times", "directions of transfers")
_COLUMNS = [
    Column(name="Memory", form="bytes"),
    Column(name="Model"),
    Column(name="Sent", form="percent"),
    Column(name="Lost in"),
    Column(name="Mean", form="bytes"),
    Column(name="Median", form="bytes"),
    Column(name="95 %", form="bytes"),
    Column(name="99 %", form="bytes"),
    Column(name="Worst", form="bytes"),
    Column(name="Busy 95 %", form="bytes"),
    Column(name="Files 95 %", form="number"),
    Column(name="Age 95 %", form="ratio"),
    Column(name="Fsync'd 95 %", form="bytes"),
]


def risk_rows(study: Study) -> list[CacheRow]:
    """Return the rows of LRU caches of the traces that have times and tell reads from writes."""
    able, _ = study.able(*_NEEDS)
    # Without closes this is when-full by another name.
    closes, _ = study.able("opens and closes")
    rows = (row for row in study.rows(CacheRow) if row.model in MODELS and row.trace in able)
    return [row for row in rows if row.model != "on-close" or row.trace in closes]


def _risk(study: Study) -> tuple[list[Values], list[str]]:
    rows = risk_rows(study)
    grids = []
    for trace in study.traces:
        mine = [row for row in rows if row.trace == trace.trace]
        sizes = sorted({row.volatile + row.safe for row in mine})
        lines = [_line(row) for size in sizes for row in mine if row.volatile + row.safe == size]
        grids.append(Values(title=f"{trace.trace}: {sentence(mine)}", columns=_COLUMNS, lines=lines))
    able, why = study.able(*_NEEDS)
    synced, _ = study.able("fsyncs")
    why += [
        f"{name} has no fsyncs: when-full is as never, and no byte is fsync'd."
        for name in sorted(able - synced)
    ]
    return grids, why


def _line(row: CacheRow) -> list[str | float | None]:
    return [
        float(row.volatile + row.safe),
        row.model,
        row.sent / row.written if row.written else None,
        row.lost_in,
        row.at_risk,
        row.at_risk_median,
        row.at_risk_95,
        row.at_risk_99,
        row.at_risk_worst,
        row.busy_95,
        row.files_95,
        row.age_95,
        row.promised_95,
    ]


def chosen(rows: list[CacheRow]) -> tuple[CacheRow, CacheRow] | None:
    """Return the smallest safe memory that avoids 90 % of the writes that any size does, and the same unsafe.

    None if no size avoids any.
    """
    safe = sorted((row for row in rows if row.model == "rio"), key=lambda row: row.safe)
    most = max((row.avoided for row in safe), default=0.0)
    if most <= 0:
        return None
    row = next(row for row in safe if row.avoided >= 0.9 * most)
    same = [other for other in rows if other.model == "never" and other.volatile == row.safe]
    return (row, same[0]) if same else None


def sentence(rows: list[CacheRow]) -> str:
    """Return what the rows of one trace say to its user."""
    found = chosen(rows)
    if not found:
        return "safe memory avoids no writes"
    safe, unsafe = found
    return (
        f"{size_text(safe.safe)} of safe memory avoid {100 * safe.avoided:.1f} % of the writes; "
        f"without it a crash costs {size_text(unsafe.at_risk)} (95 %: {size_text(unsafe.at_risk_95)})"
    )


def headlines(study: Study) -> list[str]:
    """Return which events were lost, and a line for each trace: its name and sentence, or why it has none."""
    rows, (able, why) = risk_rows(study), study.able(*_NEEDS)
    of = {name: [row for row in rows if row.trace == name] for name in able}
    said = [f"{t.trace}: {sentence(of[t.trace])}." for t in study.traces if t.trace in able]
    return losses(study.traces) + said + why


RISK = study_table(
    Definition(
        name="risk",
        title="Risk",
        help="What a crash costs, against what is written, by policy and size of the cache.",
        build=_risk,
        note="Dirty bytes in memory, over moments drawn evenly over the time of the trace. Whether Rio "
        "itself loses bytes in a crash of the kernel is not modelled here: other campaigns measure it.",
        legend={
            "Memory": "size of the cache of one client.",
            "Sent": "bytes that reach the disk or server, of bytes written.",
            "Lost in": "what ends the dirty bytes: a crash of the kernel, a loss of power.",
            "Busy 95 %": "the same as 95 %, over moments drawn evenly over the bytes written.",
            "Age 95 %": "seconds since the oldest dirty byte was written.",
            "Fsync'd 95 %": "bytes of those that the program had fsync'd.",
            "delayed": "written back when 30 s old, at the next look each 5 s; fsync writes at once.",
            "delayed-files": "as delayed, with all dirty blocks of the file, as in Sprite.",
            "when-full": "written back for room or fsync alone.",
            "never": "written back for room alone; fsync does nothing.",
            "rio": "as never, in memory that survives a crash of the kernel.",
        },
    )
)
