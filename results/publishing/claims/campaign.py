# SPDX-License-Identifier: Apache-2.0
"""Claims of a campaign: figures common to all campaigns, and those that a single README adds."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, product

from riobed_results.stats.proportions import CONFIDENCE
from riobed_results.store import (
    CONTROLS,
    Results,
    TrialRow,
    crashed,
    in_order,
    judged,
    judges_all,
    stored_spec,
)
from riobed_results.tables.controls.starts import STARTS, difference_p
from riobed_results.tables.crashes.phases import ENDINGS, ending, timed
from riobed_results.tables.crashes.titles import titled
from riobed_results.tables.framework.shares import count_text

from publishing.claims.claim import (
    Claim,
    count,
    is_result,
    number,
    part,
    probability,
    rows_of,
    seconds_of,
)
from publishing.claims.controls import CONTROL_SOURCES, CONTROL_SUMS
from publishing.claims.crashes import CRASH_SOURCES
from publishing.claims.nvdimm import nvdimm, restart_costs
from publishing.claims.protocol import protocol
from publishing.claims.special import SPECIAL

Source = Callable[[Results], Iterable[Claim]]
PAUSE_S = 60.0  # a longer gap between two trials is a pause of the campaign


def campaign_claims(results: Results) -> list[Claim]:
    """Return all claims of a campaign; StoreError if it has no trial yet."""
    if not results.rows:
        raise results.without("trials yet")
    sources = (*SOURCES, *SPECIAL.get((results.campaign.name, results.campaign.created), ()))
    return [claim for source in sources for claim in source(results)]


def plan(results: Results) -> Iterator[Claim]:
    """Return what the spec asked for."""
    spec = stored_spec(results.campaign)
    modes, classes = axes(results)
    yield Claim(key="confidence", value=CONFIDENCE, text=f"{CONFIDENCE:.0%} interval".replace("%", " %"))
    if classes:
        yield count("cells", len(modes) * len(classes), "cell")
        if isinstance(faults := spec.get("faults"), int):
            yield count("faults_a_trial", faults, "fault a trial", "faults a trial")
    if isinstance(moment := spec.get("recovery_reset_s"), list):
        yield number("recovery_reset_max_s", moment[-1], f"{moment[-1]:g} s")
    if isinstance(limit := spec.get("limit_s"), float):
        yield number("limit_s", limit, f"{limit:g} s")
    for key, noun in (("crashes_per_cell", "crashes"), ("max_trials_per_cell", "trials")):
        if isinstance(wanted := spec.get(key), int):
            yield Claim(key=key, value=wanted, text=f"{wanted} {noun} a cell")


def compared(*campaigns: Results) -> Iterator[Claim]:
    """Return what is compared: the modes and fault classes of all campaigns, and the smallest cell of any."""
    modes, classes = (dict.fromkeys(chain(*names)) for names in zip(*map(axes, campaigns), strict=True))
    yield count("modes", len(modes), "mode")
    if classes:
        yield count("fault_classes", len(classes), "fault class")
        least = min(runs for results in campaigns for runs in _judged_by_cell(results))
        yield count("judged_per_cell_min", least, "judged run in each cell", "judged runs in each cell")


def axes(results: Results) -> tuple[list[str], list[str]]:
    """Return a campaign's modes, and its fault classes without controls."""
    modes = in_order(results.campaign, "modes", (row.mode for row in results.trials))
    classes = in_order(results.campaign, "fault_classes", (row.fault_class for row in results.trials))
    return modes, [name for name in classes if name not in CONTROLS]


def _judged_by_cell(results: Results) -> list[int]:
    """Return how many judged runs each cell has, those without any included."""
    found: Counter[tuple[str, str]] = Counter()
    for row in results.trials:
        found[row.mode, row.fault_class] += row.weight * (judged(row) and not row.late)
    return [found[cell] for cell in product(*axes(results))]


def outcomes(results: Results) -> Iterator[Claim]:
    """Return the number of trials by outcome."""
    rows = rows_of(results)
    crashes = sum(map(crashed, rows))
    infra = sum(row.outcome == "infra_error" for row in results.rows)
    yield count("infra_errors", infra, "infra error")
    yield count("control_trials", sum(map(is_result, results.rows)) - len(rows), "control trial")
    if rows:
        yield count("trials", len(rows), "trial with faults", "trials with faults")
        yield count("crashes", crashes, "crash")
        yield from _others(results, rows)
        yield part("crashed", crashes, len(rows))
        if not judges_all(results.rows):
            yield part("discarded", len(rows) - crashes, len(rows))


def _others(results: Results, rows: list[TrialRow]) -> Iterator[Claim]:
    if not judges_all(results.rows):
        yield count("discards", sum(row.outcome == "discard" for row in rows), "discard")
        return
    yield count("stuck", sum(row.outcome == "stuck" for row in rows), "stuck workload")
    yield count("survived", sum(row.outcome == "survived" for row in rows), "survived trial")
    # A trial that never gave a result was begun, too.
    begun = {row.position for row in results.rows if row.fault_class not in CONTROLS}
    runs = sum(map(judged, rows))
    yield number("judged_share", runs / len(begun), count_text(runs, len(begun)))


def starts(results: Results) -> Iterator[Claim]:
    """Return how trials from power-on and trials from the snapshot ended."""
    rows = list(filter(STARTS.wants, results.rows))
    booted = [row for row in rows if row.fresh_boot]
    yield count("fresh_boots", sum(row.fresh_boot for row in results.rows), "fresh boot")
    if booted:
        others = [row for row in rows if not row.fresh_boot]
        for key, some in (("booted", booted), ("restored", others)):
            yield part(f"crashed_{key}", sum(map(crashed, some)), len(some))
        if (p := difference_p(rows)) is not None:
            yield probability("starts_p", p)


def times(results: Results) -> Iterator[Claim]:
    """Return the running time without pauses, and the rates."""
    spans = sorted((_seconds(row.started), _seconds(row.finished)) for row in results.rows)
    pauses, end = [], spans[0][1]
    for start, finish in spans:
        if start - end > PAUSE_S:
            pauses.append(start - end)
        end = max(end, finish)
    hours = (end - spans[0][0] - sum(pauses)) / 3600
    yield count("pauses", len(pauses), "pause")
    yield number("hours", hours, f"{hours:.1f} hours")
    crashes = sum(map(titled, results.rows))
    if crashes and hours:
        yield number("crashes_an_hour", crashes / hours, f"{crashes / hours:.0f} crashes an hour")
    if judges_all(results.rows) and hours and (runs := sum(map(judged, rows_of(results)))):
        yield number("judged_runs_per_hour", runs / hours, f"{runs / hours:.0f} judged runs an hour")
    for outcome in ENDINGS:
        if mine := [row for row in rows_of(results) if timed(row) and ending(row) == outcome]:
            median = statistics.median(map(seconds_of, mine))
            yield number(f"{outcome}_median_s", median, f"{median:.1f} s")


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


# What is also computed over several campaigns.
SUMS: tuple[Callable[..., Iterable[Claim]], ...] = (compared, *CONTROL_SUMS, restart_costs)
SOURCES: tuple[Source, ...] = (
    compared,
    plan,
    outcomes,
    *CRASH_SOURCES,
    nvdimm,
    *CONTROL_SOURCES,
    protocol,
    starts,
    times,
)
