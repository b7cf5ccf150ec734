# SPDX-License-Identifier: Apache-2.0
"""Additional claims that the READMEs of single campaigns make."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from riobed_results.rules.controls import kind as planted_kind
from riobed_results.store import CONTROLS, Results, TrialRow
from riobed_results.tables.controls.planted import PLANTED
from riobed_results.tables.corruption.rates import wrong_checksum
from riobed_results.tables.crashes.phases import timed
from riobed_results.tables.crashes.titles import titled

from publishing.claims.claim import (
    Claim,
    count,
    is_result,
    number,
    of,
    part,
    rows_of,
    seconds_of,
    slug,
)
from publishing.claims.hits import ends, judged_by_mode, overruns, slopes
from publishing.claims.replays import Again, corrupted


def _first(results: Results) -> Iterator[Claim]:
    rows = rows_of(results)
    text = [row for row in rows if row.outcome == "discard" and row.fault_class != "copy_overrun"]
    few = sum(sum(bool(fault.activated) for fault in row.faults) <= 1 for row in text)
    yield of("text_discards_activated_few", few, len(text))
    through, rio = (_titles(rows, mode) for mode in ("write-through", "rio"))
    both = through.keys() & rio.keys()
    yield Claim(
        key="pairs_same_title",
        value=(same := sum(through[key] == rio[key] for key in both)),
        text=f"{same} of {len(both)} pairs",
    )
    resets = [row for row in rows if timed(row) and row.mode == "rio" and row.outcome == "crash"]
    median = statistics.median(float(row.phases["reset"]) for row in resets)
    yield number("reset_rio_s", median, f"{median:.2f} s")
    recovery = statistics.median(row.recovery.seconds.total for row in resets if row.recovery)
    yield number("recovery_rio_s", recovery, f"{recovery:.2f} s")
    for key, some in (("trial_median_s", rows), ("trial_restored_median_s", list(filter(timed, rows)))):
        yield _median_s(key, some)
    for name in dict.fromkeys(row.mode for row in rows):
        for outcome in ("crash", "discard"):
            mine = [row for row in rows if timed(row) and (row.mode, row.outcome) == (name, outcome)]
            yield _median_s(slug(outcome, name, "median_s"), mine)


def _median_s(key: str, rows: list[TrialRow]) -> Claim:
    median = statistics.median(map(seconds_of, rows))
    return number(key, median, f"{median:.1f} s")


def _titles(rows: list[TrialRow], mode: str) -> dict[tuple[str, str], str | None]:
    crashes = [row for row in rows if row.mode == mode and row.outcome == "crash"]
    return {(row.fault_class, row.seed): row.crash_title for row in crashes}


def _faults(results: Results) -> Iterator[Claim]:
    crashes = [row for row in rows_of(results) if row.outcome == "crash"]
    freed = [row for row in crashes if row.fault_class == "allocation"]
    allocator = ("__kmalloc_noprof", "kfree")
    found = sum((row.crash_title or "").endswith(allocator) for row in freed)
    yield of("allocation_in_allocator", found, len(freed))
    flips = [row for row in rows_of(results) if row.fault_class in ("kernel_heap", "kernel_stack")]
    flipped = [row for row in flips if row.outcome == "crash"]
    used = sum(any(fault.activated for fault in row.faults) for row in flipped)
    yield of("flips_used", used, len(flipped))
    watched = [fault for row in flips for fault in row.faults if fault.activated is not None]
    yield of("flips_overwritten", sum("overwritten_s" in fault.params for fault in watched), len(watched))
    yield number("flips_watched", each := len(watched) / len(flips), f"{each:g} watched flips")
    overruns = [f for row in rows_of(results) if row.fault_class == "copy_overrun" for f in row.faults]
    yield part("overruns_of_one_byte", sum(f.params["extra"] == 1 for f in overruns), len(overruns))


# The time in which no other emulator ran on table1's host; read from the host, not from rows.
QUIET = ("2026-11-22T01:04", "2026-11-22T01:54")


def _table1(results: Results) -> Iterator[Claim]:
    crashes = list(filter(titled, results.rows))
    for mode, name in (("rio", "rio"), ("rio-protected", "rio_protected")):
        direct = [row for row in crashes if row.mode == mode and row.corruption == "direct"]
        overruns = sum(row.fault_class == "copy_overrun" for row in direct)
        yield of(f"direct_{name}_copy_overrun", overruns, len(direct))
    yield from _direct(results, crashes)
    bad = [row for row in crashes if row.corruption != "none"]
    common = sum(row.fault_class in ("allocation", "copy_overrun") for row in bad)
    yield Claim(key="corrupted_common", value=common, text=f"{common} of {len(bad)} corruptions")
    stuck = [row for row in crashes if (row.crash_title or "").startswith("workload stuck")]
    through = [row for row in stuck if row.mode == "write-through"]
    commit = sum("jbd2_journal_commit_transaction" in (row.crash_title or "") for row in through)
    yield count("stuck", len(stuck), "stuck workload")
    yield of("stuck_write_through", len(through), len(stuck))
    yield of("stuck_in_commit", commit, len(through))
    kinds = {planted_kind(row) for row in filter(PLANTED.wants, results.rows)}
    yield count("planted_kinds", len(kinds), "kind")
    yield from _quiet(results, crashes)
    yield from _time_shares(results)


def _direct(results: Results, crashes: list[TrialRow]) -> Iterator[Claim]:
    """Return what the table `wrong-checksum` says of rio and rio-protected."""
    for rate in wrong_checksum(results).rates:
        for mode, cell in rate.cells.items():
            if cell.total:
                yield part(slug(rate.name, mode), cell.count, cell.total)
    pages = [row for row in crashes if row.mode == "rio" and row.wrong_page]
    overruns = sum(row.fault_class == "copy_overrun" for row in pages)
    yield of("wrong_page_rio_copy_overrun", overruns, len(pages))
    read = [row for row in crashes if row.mode == "rio" and row.workload_mismatch]
    sound = [row for row in read if row.corruption == "none"]
    yield of("read_wrong_rio_no_file", len(sound), len(read))
    yield of("read_wrong_rio_no_page", sum(not row.wrong_page for row in sound), len(read))
    for mode in ("rio", "rio-protected"):
        mine = [row for row in rows_of(results) if (row.mode, row.fault_class) == (mode, "copy_overrun")]
        mean = sum(bool(fault.activated) for row in mine for fault in row.faults) / len(mine)
        yield number(slug("activated mean copy_overrun", mode), mean, f"{mean:.1f} a trial")


def _planted(results: Results) -> Iterator[Claim]:
    """Return how many changes of the journal changed no file, and were found by e2fsck alone."""
    rows = [row for row in filter(PLANTED.wants, results.rows) if planted_kind(row) == "journal"]
    yield of("journal_no_file", sum(row.corruption == "none" for row in rows), len(rows))


def _quiet(results: Results, crashes: list[TrialRow]) -> Iterator[Claim]:
    start, end = map(datetime.fromisoformat, QUIET)
    hours = (end - start).total_seconds() / 3600
    found = sum(QUIET[0] <= row.finished < QUIET[1] for row in crashes)
    controls = sum(QUIET[0] <= row.finished < QUIET[1] for row in results.rows if row.fault_class in CONTROLS)
    yield number("quiet_crashes_an_hour", found / hours, f"{found / hours:.0f} crashes an hour")
    yield count("quiet_crashes", found, "crash", f"crashes in {hours * 60:.0f} minutes")
    yield count("quiet_controls", controls, "trial of controls", "trials of controls")


def _time_shares(results: Results) -> Iterator[Claim]:
    """Return the proportion of the workers' time that each phase took, by the trials' outcome."""
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for row in filter(is_result, results.rows):
        group: str = "control" if row.fault_class in CONTROLS else row.outcome
        for phase, spent in row.phases.items():
            seconds[group, phase] += spent
            seconds[group, "all"] += spent
    whole = sum(spent for (_, phase), spent in seconds.items() if phase == "all")
    for (group, phase), spent in seconds.items():
        share = 100 * spent / whole
        yield number(slug("time_share", group, phase), share, f"{share:.1f} %")


def _twins(found: list[Again]) -> Iterator[Claim]:
    """Return the replays of the two corruptions whose classification is in doubt."""
    replays = [each["now"] for twin in found if twin.position in (847, 848) for each in twin.replays]
    hit = [now for now in replays if corrupted(now)]
    rest = [now for now in replays if not corrupted(now)]
    yield of("twins_corrupted", len(hit), len(replays))
    yield of("twins_indirect", sum(now["corruption"] == "indirect" for now in hit), len(hit))
    yield of("twins_several_faults", sum(now["activated"] > 1 for now in hit), len(hit))
    yield of("twins_sound_several_faults", sum(now["activated"] > 1 for now in rest), len(rest))


# Keyed by name and time of creation, because a user's campaign may have the same name.
SPECIAL: dict[tuple[str, str], tuple[Callable[[Results], Iterable[Claim]], ...]] = {
    ("first", "2026-11-21T06:00:34.426+00:00"): (_first,),
    ("faults", "2026-11-21T15:19:35.434+00:00"): (_faults,),
    ("table1", "2026-11-21T22:30:02.444+00:00"): (_table1,),
    ("instrument", "2026-11-25T21:20:34.811+00:00"): (ends, overruns, judged_by_mode),
    ("exposure", "2026-11-25T23:09:54.412+00:00"): (overruns, slopes),
    ("planted", "2026-11-26T03:11:16.493+00:00"): (_planted,),
    ("speed-hang", "2026-11-26T11:23:35.279+00:00"): (judged_by_mode,),
    ("pmem", "2026-11-26T20:38:31.500+00:00"): (judged_by_mode,),
}
# The same for corruptions that were replayed several times.
SPECIAL_AGAIN: dict[str, tuple[Callable[[list[Again]], Iterable[Claim]], ...]] = {"table1": (_twins,)}
