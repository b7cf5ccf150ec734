# SPDX-License-Identifier: Apache-2.0
"""Claims of a campaign's controls: resets without a fault, resets in recovery, planted changes."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from riobed_results.rules.controls import (
    expected,
    found_by,
    kind,
    lost_something,
    powerless,
)
from riobed_results.stats.proportions import share_of
from riobed_results.store import (
    PANICS,
    Results,
    Row,
    TrialRow,
    cut_short,
    how_many,
    is_counted_crash,
    is_direct,
    judged,
    vcpus,
)
from riobed_results.tables.controls.losses import (
    MIB,
    NO_FAULT,
    PANIC,
    PHASES,
    POWER,
    RECOVERY_CRASH,
    RESTARTS,
    loss_lines,
)
from riobed_results.tables.controls.planted import PLANTED, during
from riobed_results.tables.controls.resets import RESETS
from riobed_results.tables.framework.shares import count_text

from publishing.claims.claim import Claim, count, interval, number, of, part, slug

# Dirty memory that counts as much, because a kernel was once seen not to come up after such a recovery.
_MUCH_MIB = 100


def resets(*campaigns: Results) -> Iterator[Claim]:
    """Return how many resets without a fault there were, by number of processors and by mode."""
    of_vcpus: Counter[int] = Counter()
    for results in campaigns:
        of_vcpus[vcpus(results.campaign)] += len(_resets(results))
    rows = [row for results in campaigns for row in _resets(results)]
    if not rows:
        return
    yield count("resets", len(rows), "reset without a fault", "resets without a fault")
    for processors, found in of_vcpus.items():
        yield count(f"resets_{processors}_vcpu{'s' * (processors > 1)}", found, "reset")
    for mode, found in Counter(row.mode for row in rows).items():
        yield count(slug("resets", mode), found, "reset")


def losses(*campaigns: Results) -> Iterator[Claim]:
    """Return what crashes without a fault lost, in total and by mode, but not of modes that lose data."""
    rows = [row for results in campaigns for row in (*_sound(results), *_hits(results))]
    if not rows:
        return
    yield part("false_positives", sum(map(_alarm, rows)), len(rows))
    yield from _lost("lost", rows)
    yield from _losses(rows)
    for mode in dict.fromkeys(row.mode for row in rows):
        yield from _lost(slug("lost", mode), [row for row in rows if row.mode == mode])


def _alarm(row: TrialRow) -> bool:
    return row.corruption != "none" or bool(is_direct(row.recovery))


def _resets(results: Results) -> list[TrialRow]:
    losing = results.campaign.vocabulary.losing
    return [
        row
        for row in filter(NO_FAULT.wants, results.rows)
        if row.crash_kind == "reset" and row.mode not in losing
    ]


def _sound(results: Results) -> list[TrialRow]:
    """Return the runs without a fault, those included that crashed by themselves."""
    losing = results.campaign.vocabulary.losing
    return [
        row
        for row in filter(judged, results.rows)
        if row.mode not in losing
        and (NO_FAULT.wants(row) or (row.fault_class == "panic" and not powerless(row)))
    ]


def alarms_upper(modes: Iterable[str], *campaigns: Results) -> float | None:
    """Return the largest upper end of the 95 % intervals of the modes' false alarms; None without a run.

    Runs without a fault that crashed by themselves count, too: what they lost is a false alarm.
    """
    every = [row for results in campaigns for row in _sound(results)]
    sound = [mine for mode in modes if (mine := [row for row in every if row.mode == mode])]
    return max((share_of(sum(map(_alarm, mine)), len(mine)).high or 0.0 for mine in sound), default=None)


def _hits(results: Results) -> list[TrialRow]:
    return list(filter(is_counted_crash, filter(RECOVERY_CRASH.wants, results.rows)))


def _lost(key: str, rows: list[TrialRow]) -> Iterator[Claim]:
    lost = sum(row.corruption != "none" for row in rows)
    yield part(key, lost, len(rows))
    yield interval(f"{key}_interval", lost, len(rows))


def _losses(rows: list[TrialRow]) -> Iterator[Claim]:
    lines = loss_lines(rows)
    for key, line, noun, plural in (
        ("files_lost", "Files lost or changed", "file lost or changed", "files lost or changed"),
        ("mismatches", "Checksum mismatches", "checksum mismatch", "checksum mismatches"),
        ("rejected", "Registry entries rejected", "registry entry rejected", "registry entries rejected"),
    ):
        if (value := lines[line]) is not None:
            yield count(key, int(value), noun, plural)


def _panics(results: Results) -> list[TrialRow]:
    losing = results.campaign.vocabulary.losing
    return [row for row in filter(PANIC.wants, results.rows) if row.mode not in losing]


def panics(*campaigns: Results) -> Iterator[Claim]:
    """Return how many panics on request there were, and how much was dirty then."""
    rows = [row for results in campaigns for row in _panics(results)]
    if not rows:
        return
    yield count("panics", len(rows), "panic on request", "panics on request")
    for key, title in PANICS.items():
        found = sum(row.crash_title == title for row in rows)
        yield Claim(key=slug("panics", key), value=found, text=f"{found} {title.rpartition(', ')[2]}")
    by_mode = {
        mode: [row for row in rows if row.mode == mode] for mode in dict.fromkeys(row.mode for row in rows)
    }
    for mode, mine in by_mode.items():
        yield count(slug("panics", mode), len(mine), f"panic in {mode}", f"panics in {mode}")
    yield count(
        "panics_per_mode_min", min(map(len, by_mode.values())), "panic in each mode", "panics in each mode"
    )
    if (upper := alarms_upper(by_mode, *campaigns)) is not None:
        yield number("false_positive_upper_max", upper, f"{100 * upper:.2f} %")
    # Without a registry dirty pages are not counted.
    listed = [row.recovery for row in rows if row.recovery and row.recovery.entries.entries]
    shares = [recovery.dirty_share for recovery in listed]
    for name, share in (("min", min(shares)), ("median", statistics.median(shares))) if shares else ():
        yield number(f"dirty_share_of_ram_{name}", share, f"{100 * share:.1f} % of RAM")


def power(*campaigns: Results) -> Iterator[Claim]:
    """Return what losses of power took, and of those without a fault, from which modes.

    Some modes promise every step. The others must lose what was not synced; the share is of those that lost
    every step.
    """
    if not (rows := [row for results in campaigns for row in filter(POWER.wants, results.trials)]):
        return
    yield count("power_losses", how_many(rows), "loss of power", "losses of power")
    alone = [_without_a_fault(results) for results in campaigns if not results.campaign.vocabulary.must_lose]
    sound = [row for kept, _ in alone for row in kept]
    volatile = [row for _, losing in alone for row in losing]
    yield count("power_no_fault_runs", how_many(sound), "loss without a fault", "losses without a fault")
    lost = how_many(filter(lost_something, sound))
    yield part("power_no_fault_lost", lost, how_many(sound))
    if volatile:
        gone, total = how_many(row for row in volatile if row.lost_every_step), how_many(volatile)
        yield number("volatile_power_lost_share", gone / total, count_text(gone, total))


def _without_a_fault(results: Results) -> tuple[list[Row], list[Row]]:
    """Return a campaign's losses of power without a fault in modes that promise every step, and in others."""
    losing = results.campaign.vocabulary.losing
    rows = [row for row in results.trials if POWER.wants(row) and row.fault_class == "none"]
    return [row for row in rows if row.mode not in losing], [row for row in rows if row.mode in losing]


def caught(results: Results) -> Iterator[Claim]:
    """Return after how many losses of power the oracles found a bug that was planted in the workload."""
    if not results.campaign.vocabulary.must_lose:
        return
    rows = sorted(filter(judged, results.rows), key=lambda row: row.position)
    found = [number for number, row in enumerate(rows, 1) if lost_something(row)]
    yield of("caught", len(found), len(rows))
    if found:
        yield Claim(key="caught_first", value=found[0], text=f"trial {found[0]}")


def restarts(results: Results) -> Iterator[Claim]:
    """Return after how many warm recoveries the production kernel came up."""
    rows = list(filter(RESTARTS.wants, results.rows))
    if not rows:
        return
    up = sum(bool(row.recovery and row.recovery.production) for row in rows)
    much = sum(bool(row.recovery and row.recovery.dirty_bytes >= _MUCH_MIB * MIB) for row in rows)
    yield count("kexecs", len(rows), "kexec")
    yield count("kexecs_failed", len(rows) - up, "kexec failed", "kexecs failed")
    yield part("kexecs_up", up, len(rows))
    yield count(
        f"kexecs_{_MUCH_MIB}_mib", much, f"kexec after {_MUCH_MIB} MiB", f"kexecs after {_MUCH_MIB} MiB"
    )


def resets_in_recovery(results: Results) -> Iterator[Claim]:
    """Return which phases resets in recovery hit."""
    every = list(filter(RECOVERY_CRASH.wants, results.rows))
    if not every:
        return
    hit = _hits(results)
    phases = Counter(cut_short(row.recovery) for row in hit)
    late = len(every) - len(hit)
    yield count("recovery_trials", len(every), "trial")
    yield count("resets_in_recovery", len(hit), "reset in recovery", "resets in recovery")
    yield count("resets_after_recovery", late, "reset after its end", "resets after its end")
    yield part("restored", sum(row.corruption == "none" for row in hit), len(hit))
    for mode, found in Counter(row.mode for row in hit).items():
        yield count(slug("resets_in_recovery", mode), found, f"in {mode}", f"in {mode}")
    for name in dict.fromkeys([*PHASES, *filter(None, phases)]):
        yield Claim(key=slug("resets_in", name), value=phases[name], text=f"{name} {phases[name]}")


Finds = Callable[[TrialRow], str | None]


def planted(*campaigns: Results) -> Iterator[Claim]:
    """Return how many planted changes were found, and how many were classified correctly."""
    rows = [row for results in campaigns for row in _planted(results)]
    if not rows:
        return
    # Campaigns that are summed up have the same kinds.
    vocabulary = campaigns[0].campaign.vocabulary
    finds = partial(found_by, vocabulary=vocabulary)
    found = list(filter(finds, rows))
    missed = len(rows) - len(found)
    yield count("planted", len(rows), "planted change")
    yield part("planted_found", len(found), len(rows))
    yield part(
        "planted_classed", sum(row.corruption == expected(row, vocabulary) for row in found), len(rows)
    )
    yield count("planted_missed", missed, "planted change missed", "planted changes missed")
    yield from _planted_by_place(rows, finds)
    # In stores of one kind after another in turn, at rest and in a step.
    if any(map(during, rows)):
        yield from _planted_by_mode(rows, finds)
        least = min(Counter((row.mode, kind(row)) for row in rows).values())
        yield count("planted_kinds", len(set(map(kind, rows))), "kind")
        yield Claim(key="planted_kinds_min", value=least, text=f"{least} of each kind in each mode")
        in_step = sum(during(row) == "step" for row in rows)
        yield count("planted_in_step", in_step, "change in a step", "changes in a step")


def _planted(results: Results) -> list[TrialRow]:
    # After a loss of power that takes everything, a change is not found but gone.
    losing = results.campaign.vocabulary.losing
    rows = filter(PLANTED.wants, results.rows)
    return [row for row in rows if not (powerless(row) and row.mode in losing)]


def _planted_by_place(rows: list[TrialRow], finds: Finds) -> Iterator[Claim]:
    """Return how many changes of each kind on each device were found; old stores do not say where."""
    places: dict[tuple[str, str], list[TrialRow]] = {}
    for row in rows:
        if where := row.faults[0].params.get("where"):
            places.setdefault((kind(row), where), []).append(row)
    for (name, where), mine in places.items():
        yield of(slug("planted_found", name, where), how_many(filter(finds, mine)), len(mine))


def _planted_by_mode(rows: list[TrialRow], finds: Finds) -> Iterator[Claim]:
    """Return how many changes of each mode and kind were found, and what share may be missed at most."""
    of_mode: dict[str, list[TrialRow]] = {}
    of_kind: dict[tuple[str, str], list[TrialRow]] = {}
    for row in rows:
        of_mode.setdefault(row.mode, []).append(row)
        of_kind.setdefault((kind(row), row.mode), []).append(row)
    for mode, mine in of_mode.items():
        yield of(slug("planted_found_in", mode), how_many(filter(finds, mine)), len(mine))
    for names, mine in of_kind.items():
        yield of(slug("planted_found", *names), how_many(filter(finds, mine)), len(mine))
    missed = ((len(mine) - how_many(filter(finds, mine)), len(mine)) for mine in of_kind.values())
    upper = max(share_of(*each).high or 0.0 for each in missed)
    yield number("planted_missed_upper_max", upper, f"{100 * upper:.1f} %")


def parked(results: Results) -> Iterator[Claim]:
    """Return how many crashes were recovered twice, by the parked stage 0 and by a reset, and differently."""
    rows = list(filter(RESETS.wants, results.rows)) if RESETS.of(results.rows) else []
    if rows:
        compared = [row for row in rows if row.restart == "both"]
        yield part("restarts_real", sum(row.restart == "reset" for row in rows), len(rows))
        yield count("restarts_compared", len(compared), "crash recovered twice", "crashes recovered twice")
        yield part("restarts_differ", sum(bool(row.restart_differs) for row in compared), len(compared))


# Those that are also computed over several campaigns.
CONTROL_SUMS = (resets, panics, losses, power, planted)
CONTROL_SOURCES = (
    parked,
    resets,
    resets_in_recovery,
    panics,
    losses,
    power,
    caught,
    restarts,
    planted,
)
