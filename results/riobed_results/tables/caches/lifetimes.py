# SPDX-License-Identifier: Apache-2.0
"""The tables of bytes' lifetimes and fates (000, Figure 2 and Table 2)."""

from riobed_caches.rows import FateRow, LifetimeRow

from riobed_results.tables.caches.grids import Column, Definition, Study, Value, Values, study_table

# What a byte's death needs.
DEATHS = ("times", "directions of transfers", "deletes and truncations")


def _lifetimes(study: Study) -> tuple[list[Values], list[str]]:
    able, why = study.able(*DEATHS)
    rows = [row for row in study.rows(LifetimeRow) if row.trace in able]
    names = list(dict.fromkeys(row.trace for row in rows))
    of = {(row.trace, row.delay): row for row in rows}
    delays = [row.delay for row in rows if row.trace == names[0]] if names else []
    head = [Column(name="Written back after", form="text")]
    sent: list[list[Value]] = []
    risk: list[list[Value]] = []
    for delay in delays:
        found = [of.get((name, delay)) for name in names]
        sent.append([_delay(delay), *(row.sent / max(row.written, 1) if row else None for row in found)])
        risk.append([_delay(delay), *(row.at_risk if row else None for row in found)])
    grids = [
        Values(
            title="Bytes sent, of bytes written",
            columns=[*head, *(Column(name=name, form="percent") for name in names)],
            lines=sent,
        ),
        Values(
            title="Mean bytes at risk",
            columns=[*head, *(Column(name=name, form="bytes") for name in names)],
            lines=risk,
        ),
    ]
    return grids, why


def _delay(seconds: float) -> str:
    if seconds < 0:
        return "never"
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"


def _fates(study: Study) -> tuple[list[Values], list[str]]:
    able, why = study.able(*DEATHS)
    rows = [row for row in study.rows(FateRow) if row.trace in able]
    names, fates = (
        (list(dict.fromkeys(values)) for values in zip(*((r.trace, r.fate) for r in rows), strict=True))
        if rows
        else ([], [])
    )
    of = {(row.trace, row.fate): row.bytes for row in rows}
    total = {name: sum(of.get((name, fate), 0) for fate in fates) for name in names}
    columns = [Column(name="Bytes")]
    for name in names:
        columns += [Column(name=name, form="bytes"), Column(name=f"{name}, share", form="percent")]
    lines: list[list[str | float | None]] = []
    for fate in fates:
        counts = [(of.get((name, fate)), total[name]) for name in names]
        cells = [(count, None if count is None else count / max(whole, 1)) for count, whole in counts]
        lines.append([fate.lower().replace("_", " "), *(value for pair in cells for value in pair)])
    return [Values(title="How written bytes end", columns=columns, lines=lines)], why


LIFETIMES = study_table(
    Definition(
        name="lifetimes",
        title="Lifetimes of bytes",
        help="What is written back, and at risk, if each byte is flushed after a delay.",
        build=_lifetimes,
        note="A cache without a bound, exact to the byte (000, Figure 2). Bytes that are there at the end "
        "count as sent. Bytes at risk are those not flushed yet, over the time of the trace.",
    )
)
FATES = study_table(
    Definition(
        name="fates",
        title="Fates of bytes",
        help="How written bytes end in a cache that never gives one up.",
        build=_fates,
        note="A cache without a bound, exact to the byte (000, Table 2).",
        legend={
            "called back": "sent because another client opened the file.",
            "concurrent": "never cached, because clients wrote and read the file at the same time.",
            "remaining": "in the cache at the end of the trace.",
        },
    )
)
