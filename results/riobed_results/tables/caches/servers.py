# SPDX-License-Identifier: Apache-2.0
"""The tables of storage accesses (003), of segments (000, Tables 3 and 4) and of consistency (004)."""

from riobed_caches.rows import CacheRow, ConsistencyRow, SegmentRow

from riobed_results.tables.caches.grids import Column, Definition, Study, Value, Values, study_table

ACCESSES = ("nvlru", "nbm", "nv-min")


def accesses(row: CacheRow, block: int) -> int:
    """Return the storage accesses of a row (003, 2): blocks read, written, and those dirty at the end."""
    return row.read_misses + row.blocks_out + -(-row.remaining // block)


def _storage(study: Study) -> tuple[list[Values], list[str]]:
    rows, grids = study.rows(CacheRow), []
    able, why = study.able("directions of transfers")
    for trace in (trace for trace in study.traces if trace.trace in able):
        mine = [row for row in rows if row.trace == trace.trace and row.model in ACCESSES]
        of = {(row.volatile, row.safe, row.model): row for row in mine}
        lines: list[list[Value]] = []
        for volatile, safe in sorted({(v, s) for v, s, _ in of}):
            found = [of.get((volatile, safe, model)) for model in ACCESSES]
            counts = [accesses(row, trace.block) if row else None for row in found]
            first = counts[0]
            share = [count / first if first and count is not None else None for count in counts[1:]]
            lines.append([float(volatile), float(safe), first, *share])
        columns = [
            Column(name="Volatile", form="bytes"),
            Column(name="NVRAM", form="bytes"),
            Column(name="NVLRU", form="number"),
            Column(name="NBM", form="percent"),
            Column(name="NV-MIN", form="percent"),
        ]
        grids.append(Values(title=f"{trace.trace}: storage accesses", columns=columns, lines=lines))
    return grids, why


def overhead(data: int, more: int) -> float | None:
    """Return the share of metadata and summaries, `more` bytes, in segments; None if there are none."""
    return more / (more + data) if data else None


def _segments(study: Study) -> tuple[list[Values], list[str]]:
    lines: list[list[Value]] = []
    able, why = study.able("times", "directions of transfers", "fsyncs")
    for row in study.rows(SegmentRow):
        if row.trace not in able:
            continue
        partial = row.by_timer + row.by_fsync
        every = row.full + partial
        lines.append(
            [
                row.trace,
                float(row.buffer),
                every,
                partial / every if every else None,
                row.by_fsync / every if every else None,
                (row.data_by_timer + row.data_by_fsync) / partial if partial else None,
                row.data_by_fsync / row.by_fsync if row.by_fsync else None,
                overhead(
                    row.data_by_timer + row.data_by_fsync, row.overhead_by_timer + row.overhead_by_fsync
                ),
                overhead(row.data, row.overhead),
            ]
        )
    columns = [
        Column(name="Trace"),
        Column(name="Buffer", form="bytes"),
        Column(name="Segments", form="number"),
        Column(name="Partial", form="percent"),
        Column(name="By fsync", form="percent"),
        Column(name="Bytes a partial", form="bytes"),
        Column(name="Bytes by fsync", form="bytes"),
        Column(name="Overhead of partials", form="percent"),
        Column(name="Overhead", form="percent"),
    ]
    title = "Segments of a log-structured file system"
    return [Values(title=title, columns=columns, lines=lines)], why


def _consistency(study: Study) -> tuple[list[Values], list[str]]:
    able, why = study.able("opens and closes")
    alone = {trace.trace for trace in study.traces if trace.clients < 2}
    why += [f"{name} is left out: it has one client, so nothing is shared." for name in sorted(able & alone)]
    lines: list[list[Value]] = []
    for row in study.rows(ConsistencyRow):
        if row.trace in able - alone and row.opens:
            timely = row.recalls - row.late_recalls
            counts = (row.uncached, row.read_shared, row.last_writer, timely, row.recalls, row.stopped)
            lines.append([row.trace, row.opens, *(count / row.opens for count in counts)])
    shares = ("Uncached", "Read-shared", "Last writer", "Write-back", "Recall", "Stopped")
    columns = [Column(name="Trace"), Column(name="Opens", form="number")]
    columns += [Column(name=name, form="percent") for name in shares]
    return [Values(title="Opens, and what they made the server do", columns=columns, lines=lines)], why


STORAGE_ACCESSES = study_table(
    Definition(
        name="storage-accesses",
        title="Storage accesses",
        help="How many accesses to storage policies for NVRAM need, by size.",
        build=_storage,
        note="003, sections 2 to 4. NBM and NV-MIN are shares of NVLRU's accesses.",
        legend={
            "NVLRU": "gives up the dirty block that was read or written the longest ago.",
            "NBM": "gives up the dirty block that was written the longest ago.",
            "NV-MIN": "knows the future, as 003 defines it; that is not the optimum, see docs/traces.md.",
        },
    )
)
SEGMENTS = study_table(
    Definition(
        name="segments",
        title="Segments",
        help="Partial segments of a log-structured file system, with and without a write buffer.",
        build=_segments,
        note="000, Tables 3 and 4: segments of 512 KiB; data older than 30 s is written at a look each 5 s, "
        "and fsync writes what is dirty at once. The file system gets each write when it is made.",
        legend={
            "Overhead of partials": "bytes of metadata and summaries, of all bytes of partial segments.",
            "Overhead": "the same, of all segments.",
        },
    )
)
CONSISTENCY = study_table(
    Definition(
        name="consistency",
        title="Consistency",
        help="How often shared files make a server recall data or stop caching.",
        build=_consistency,
        note="Sprite's protocol (004, Tables 4 and 5), shares of opens.",
        legend={
            "Uncached": "the file was open at several clients, and at one for writing.",
            "Read-shared": "another handle was open for reading.",
            "Last writer": "opened by the client that wrote it last, in the 30 s before.",
            "Write-back": "another client had written it in the 30 s before, and sent its data.",
            "Recall": "another client had data that was never sent, however old; NVRAM keeps them.",
            "Stopped": "clients that had to stop caching a file.",
        },
    )
)
