# SPDX-License-Identifier: Apache-2.0
"""Claims of a campaign's trials with faults: crashes, corruptions, comparisons of modes, fault classes."""

import statistics
from collections import Counter
from collections.abc import Iterator

from riobed_results.store import (
    CONTROLS,
    CellCounts,
    Results,
    TrialRow,
    crashed,
    how_many,
    in_order,
    judged,
    stored_spec,
)
from riobed_results.tables.corruption.corruption import corruption_table, ends_text
from riobed_results.tables.corruption.exposure import ALL, EXPOSURE, exposure_table
from riobed_results.tables.crashes.fault_classes import ClassLine, asked, class_line
from riobed_results.tables.crashes.stories import told
from riobed_results.tables.crashes.titles import titled
from riobed_results.tables.crashes.victims import of_harness, wanted
from riobed_results.tables.crashes.windows import WINDOWS, open_pages
from riobed_results.tables.paper.table1 import total

from publishing.claims.claim import (
    Claim,
    count,
    interval,
    number,
    of,
    part,
    probability,
    rows_of,
    slug,
)

# Limits that the paper and our texts mention, in seconds from injection to crash.
WITHIN_S = (1, 15)
PAGE = 4096


def crashes(results: Results) -> Iterator[Claim]:
    """Return the crashes by kind, and how soon after injection they came."""
    rows = list(filter(titled, results.rows))
    if not rows:
        return
    kinds = Counter(row.crash_kind for row in rows)
    yield count("titles", len({row.crash_title for row in rows}), "crash title")
    yield count("oopses", kinds["oops"], "oops")
    yield count("panics", kinds["panic"], "other panic")
    yield count("hangs", kinds["hang"], "hang")
    yield count("traps", kinds["trap"], "protection trap")
    yield count("processor_resets", kinds["reset"], "reset of the processor", "resets of the processor")
    for limit in WITHIN_S:
        soon = sum(row.time_to_crash_s is not None and row.time_to_crash_s <= limit for row in rows)
        yield count(f"within_{limit}_s", soon, f"crash within {limit} s", f"crashes within {limit} s")
    for kind in ("hang", "trap"):
        for name, found in Counter(row.fault_class for row in rows if row.crash_kind == kind).items():
            yield count(slug(kind, name), found, f"{kind} after {name}", f"{kind}s after {name}")


def corruption(results: Results) -> Iterator[Claim]:
    """Return the proportion of crashes with corruption, by mode and by cell, and each corruption."""
    if not rows_of(results):
        return
    table = corruption_table(results)
    for mode, found in table.totals.items():
        yield from _share(slug("corrupted", mode), found)
        yield _ends(slug(mode), found, table.judges_all)
    yield from _share("corrupted", sum(table.totals.values(), CellCounts()))
    for row in table.rows:
        for mode, cell in row.cells.items() if row.fault_class not in CONTROLS else ():
            key = slug(row.fault_class, mode)
            yield of(f"corrupted_{key}", cell.corrupted, cell.crashes)
            yield _ends(key, cell, table.judges_all)
    losing = results.campaign.vocabulary.losing
    for story in filter(told, results.rows):
        if story.fault_class not in CONTROLS and story.mode not in losing:
            where = f"{story.mode}, {story.fault_class}"
            yield Claim(key=f"corruption_{story.position}", value=where, text=f"{story.position} | {where}")


def _ends(key: str, found: CellCounts, judges_all: bool) -> Claim:
    key = f"{'ends' if judges_all else 'crashes_discards'}_{key}"
    return Claim(key=key, value=found.crashes, text=ends_text(found, judges_all))


def _share(key: str, found: CellCounts) -> Iterator[Claim]:
    yield part(key, found.corrupted, found.crashes)
    yield interval(f"{key}_interval", found.corrupted, found.crashes)


def comparisons(results: Results) -> Iterator[Claim]:
    """Return the tests of modes against each other and against the paper's systems."""
    if not rows_of(results):
        return
    found = corruption_table(results).statistics
    for each in found.comparisons:
        key = slug(each.first, each.second)
        if each.fisher_p is not None:
            yield probability(f"fisher_p_{key}", each.fisher_p)
        if (needed := each.crashes_needed) is not None:
            about = needed if needed < 100 else round(needed, -2)
            yield Claim(key=f"crashes_needed_{key}", value=needed, text=f"about {about} crashes")
        if each.mcnemar_p is not None:
            yield count(f"pairs_{key}", each.pairs, "pair")
            yield probability(f"mcnemar_p_{key}", each.mcnemar_p)
    if beside := found.paper:
        for mode in beside.modes:
            yield from _share(slug("paper", mode), total(beside.paper, mode))
            if (p := beside.fisher_p[mode]) is not None:
                yield probability(slug("fisher_p_paper", mode), p)


def classes(results: Results) -> Iterator[Claim]:
    """Return the effect of each fault class over all modes, and of all classes that change instructions."""
    rows = [row for row in results.rows if asked(row) and row.outcome != "infra_error"]
    by_class = {
        name: [row for row in rows if row.fault_class == name]
        for name in in_order(results.campaign, "fault_classes", (row.fault_class for row in rows))
    }
    if not rows:
        return
    line = class_line(rows)
    yield from _latency("latency_median_s", rows)
    yield count("requested", line.requested, "requested fault")
    yield count("injected", line.injected, "injected fault")
    for name, mine in by_class.items():
        if mine:
            yield from _class(slug("class", name), class_line(mine), mine)
    if isinstance(stored_spec(results.campaign).get("faults"), dict):
        near = sum(0.4 <= sum(map(crashed, mine)) / len(mine) <= 0.6 for mine in by_class.values() if mine)
        yield of("classes_with_dose_40_to_60", near, len(by_class))
    changing = {row.fault_class for row in rows if any(fault.new_asm for fault in row.faults)}
    yield from _activation("class_text", [row for row in rows if row.fault_class in changing])


def _class(key: str, line: ClassLine, rows: list[TrialRow]) -> Iterator[Claim]:
    yield part(f"{key}_crashed", line.crashed, line.trials)
    yield from _activation(key, rows)
    mean = line.activated / line.trials
    yield number(f"{key}_activated_mean", mean, f"{mean:.2f} a trial")
    yield Claim(
        key=f"{key}_activated", value=line.activated, text=f"{line.activated} of {line.watched} watched"
    )
    yield Claim(key=f"{key}_hung", value=line.hung, text=f"{line.hung} of {line.trials} hung")
    if line.median_s is not None:
        yield number(f"{key}_median_s", line.median_s, f"{line.median_s:.2f} s")
    yield from _latency(f"{key}_latency_median_s", rows)


def _latency(key: str, rows: list[TrialRow]) -> Iterator[Claim]:
    """Return the guest's time from the first activation of a fault to the crash report."""
    if found := [row.latency_s for row in rows if crashed(row) and row.latency_s is not None]:
        median = statistics.median(found)
        yield number(key, median, f"{median:.3f} s")


def _activation(key: str, rows: list[TrialRow]) -> Iterator[Claim]:
    """Return how many trials crashed with an activated fault, and how many without."""
    active = [row for row in rows if any(fault.activated for fault in row.faults)]
    idle = [row for row in rows if not any(fault.activated for fault in row.faults)]
    for end, some in (("with", active), ("without", idle)):
        yield of(f"{key}_crashed_{end}", sum(map(crashed, some)), len(some))


def unjudged(results: Results) -> Iterator[Claim]:
    """Return how many discards were not checked although the workload met an error or read wrong bytes."""
    discards = [row for row in rows_of(results) if row.outcome == "discard" and row.workload_status]
    bad = [row for row in discards if row.workload_status != "running"]
    if discards:
        yield part("discards_damaged", len(bad), len(discards))
    for mode in dict.fromkeys(row.mode for row in discards):
        found, total = (sum(row.mode == mode for row in some) for some in (bad, discards))
        text = f"{found} of {total} in {mode}"
        yield Claim(key=slug("discards_damaged", mode), value=found, text=text)


def exposure(results: Results) -> Iterator[Claim]:
    """Return the proportion of RAM that the registry listed as cached pages, if there is a registry."""
    machine = stored_spec(results.campaign).get("machine")
    mib = machine.get("memory_mib") if isinstance(machine, dict) else None
    listed: dict[str, list[int]] = {}
    for row in filter(judged, rows_of(results)):
        found = row.recovery.entries if row.recovery else None
        if found and found.entries:
            listed.setdefault(row.mode, []).append(found.entries - found.free)
    if not listed or not mib:
        return
    every = [pages for mine in listed.values() for pages in mine]
    for mode, mine in {"": every, **listed}.items():
        share = statistics.median(mine) * PAGE / (mib << 20)
        key = "_".join(filter(None, ("cache_share_of_ram_median", slug(mode))))
        yield number(key, share, f"{share * 100:.1f} % of RAM")


def doses(results: Results) -> Iterator[Claim]:
    """Return what each fault class corrupted in each arm, if the arms differ in the cache's share of RAM."""
    lines = exposure_table(results).lines if EXPOSURE.present(results.trials) else []
    for line in lines if any(line.target is not None for line in lines) else ():
        key = slug("exposure", "all" if line.fault_class == ALL else line.fault_class, line.mode)
        yield count(f"{key}_runs", line.runs, "judged run")
        for end, found in (("direct", line.wrong_checksum), ("corrupted", line.corrupted)):
            yield part(f"{key}_{end}", found.count, found.total)
            yield interval(f"{key}_{end}_interval", found.count, found.total)
        yield number(f"{key}_cache", line.cache[1], f"{100 * line.cache[1]:.1f} %")


def windows(results: Results) -> Iterator[Claim]:
    """Return how many pages were open at a crash, in all modes and in each."""
    rows = list(filter(WINDOWS.wants, results.rows))
    for mode in (None, *dict.fromkeys(row.mode for row in rows)) if rows else ():
        pages = open_pages([row for row in rows if mode in (None, row.mode)])
        mean, most = statistics.mean(pages), max(pages)
        yield number(slug("open_pages_mean", mode or "all"), mean, f"{mean:.1f} open pages")
        yield count(slug("open_pages_max", mode or "all"), most, "open page")


def victims(results: Results) -> Iterator[Claim]:
    """Return how many crashes killed a task of the harness."""
    if rows := list(filter(wanted, results.trials)):
        ours = how_many(filter(of_harness, rows))
        yield count("harness_victim_crashes", ours, "crash of the harness", "crashes of the harness")
        yield part("victims_harness", ours, how_many(rows))


CRASH_SOURCES = (crashes, corruption, comparisons, classes, unjudged, exposure, doses, windows, victims)
