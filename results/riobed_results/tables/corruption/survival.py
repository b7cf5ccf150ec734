# SPDX-License-Identifier: Apache-2.0
"""Kaplan-Meier: the share of runs that have crashed, or are corrupted, by a time after injection."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from riobed_results.rules.endpoints import differs, result
from riobed_results.stats.proportions import CONFIDENCE
from riobed_results.store import Provenance, Results, Row, crashed, in_order, judged, numbers
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import UNKNOWN, percent
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable

SHOWN_S = (0.1, 1.0, 10.0, 60.0)
# Points of a curve that are kept; more cannot be seen.
_POINTS = 300


class Point(BaseModel):
    """By `seconds` after injection a `share` of the runs, 0 to 1, with its interval."""

    seconds: float
    share: float
    low: float
    high: float


class Curve(BaseModel):
    """One mode: of `runs` runs, `events` had the event in the time that they were watched.

    `points` has the curve at some of its steps, the last one included; it is constant between them.
    """

    mode: str
    event: str
    runs: int
    events: int
    longest_s: float
    points: list[Point]

    def at(self, seconds: float) -> Point | None:
        """Return the curve at a time; None if no run was watched so long."""
        before = [point for point in self.points if point.seconds <= seconds]
        return before[-1] if before and seconds <= self.longest_s else None


class SurvivalTable(BaseModel):
    """The curves of crash and of corruption, by mode."""

    campaign: str
    confidence: float = CONFIDENCE
    curves: list[Curve]
    environment: Provenance


def timed(row: Row) -> bool:
    """Whether this is a judged run with faults of which the guest's time is known."""
    return result(row) and judged(row) and row.guest_timed


def survival_table(results: Results) -> SurvivalTable:
    """Compute the curves of a campaign; StoreError if no run's guest time is known."""
    campaign, rows = results.campaign, results.groups("guest_s", wants=timed)
    if not rows:
        raise results.without("runs of which the guest's time is known")
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    by_mode = {mode: found for mode in modes if (found := [row for row in rows if row.mode == mode])}
    curves = [_crashes(mode, found) for mode, found in by_mode.items()]
    curves += [_corruptions(mode, found) for mode, found in by_mode.items()]
    return SurvivalTable(campaign=campaign.name, curves=curves, environment=campaign.provenance)


def _crashes(mode: str, rows: Sequence[Row]) -> Curve:
    return _curve(mode, "crash", [(end, crashed(row)) for row in rows for end in numbers([row], "guest_s")])


def _corruptions(mode: str, rows: Sequence[Row]) -> Curve:
    """Return the curve of corruption.

    A run that has crashed without one can have none later. It stays in the risk set to the end, so that the
    curve is a share of all runs (the subdistribution of Fine and Gray, Journal of the American Statistical
    Association 94, 1999, for runs that are censored at a limit).
    """
    last = max(numbers(rows, "guest_s"))
    times = [
        (last if crashed(row) and not differs(row) else end, differs(row))
        for row in rows
        for end in numbers([row], "guest_s")
    ]
    return _curve(mode, "corruption", times)


def _curve(mode: str, event: str, times: Sequence[tuple[float, bool]]) -> Curve:
    from lifelines import KaplanMeierFitter  # the import takes seconds

    ends, seen = [end for end, _ in times], [event for _, event in times]
    fit = KaplanMeierFitter(alpha=1 - CONFIDENCE).fit(ends, seen)
    return Curve(
        mode=mode,
        event=event,
        runs=len(times),
        events=sum(seen),
        longest_s=max(ends),
        points=_thinned(fit.cumulative_density_, fit.confidence_interval_cumulative_density_),
    )


def _thinned(shares: Any, intervals: Any) -> list[Point]:
    """Return the steps of a fit as points, every so many left out where there are more than can be seen."""
    times, values = list(shares.index), list(shares.iloc[:, 0])
    steps = [n for n in range(len(times)) if not n or values[n] != values[n - 1]]
    kept = steps[:: max(1, len(steps) // _POINTS)]
    kept += steps[-1:] if kept[-1] != steps[-1] else []
    ends = intervals.to_numpy()
    return [Point(seconds=times[n], share=values[n], low=min(ends[n]), high=max(ends[n])) for n in kept]


NOTE = (
    "Judged runs with faults of which the guest's clock is known. Time is in seconds of the guest from the "
    "first injection to the first line of the crash report. A hang without a word and a stuck workload have "
    "none: they end when they were noticed, by the trial's clock."
)
LEGEND = {
    "crash": "the Kaplan-Meier estimate, in which runs that were stuck or survived are censored when they "
    "were brought down.",
    "corruption": "the same of runs in which a file differs, at the time of their end, whatever it was. A "
    "run that crashed without a corruption stays at risk to the end, so that the curve is a share of all "
    "runs.",
    "by N s": "share by that time, with its 95 % interval (log-log). -: no run was watched so long.",
}


def survival_page(table: SurvivalTable) -> Page:
    """Return the page, with a line for each curve."""
    head = ["Event", "Mode", "Runs", "Events", *(f"by {time:g} s" for time in SHOWN_S), "Last event"]
    grid = Grid("By guest time", head, list(map(_cells, table.curves)), [])
    return campaign_page(table, [grid], NOTE, _csv(table), LEGEND)


def _cells(curve: Curve) -> list[str]:
    last = f"{curve.points[-1].seconds:.2f} s" if curve.events else UNKNOWN
    shares = [_share(curve.at(time)) for time in SHOWN_S]
    return [curve.event, printable(curve.mode), str(curve.runs), str(curve.events), *shares, last]


def _share(point: Point | None) -> str:
    if point is None:
        return UNKNOWN
    # Before the first event this interval has no width, which would be a claim.
    interval = f" ({100 * point.low:.1f} to {100 * point.high:.1f})" if point.share else ""
    return percent(point.share, 1) + interval


def _csv(table: SurvivalTable) -> str:
    return csv_text(
        ["event", "mode", *Point.model_fields],
        (
            [curve.event, curve.mode, *point.model_dump().values()]
            for curve in table.curves
            for point in curve.points
        ),
    )


SURVIVAL = CampaignTable(
    name="survival",
    title="Crash and corruption by time",
    help="Kaplan-Meier estimates of crash and corruption by the guest's time after injection.",
    compute=survival_table,
    page=survival_page,
    present=lambda rows: any(map(timed, rows)),
    section="times",
)
