# SPDX-License-Identifier: Apache-2.0
"""Non-inferiority: is a mode worse than another by no more than a margin?"""

from collections.abc import Mapping
from itertools import permutations
from operator import itemgetter
from typing import Annotated

from pydantic import BaseModel

from riobed_results.errors import StoreUsageError
from riobed_results.rules.endpoints import COMPARING, ENDPOINTS, Endpoint, result, results_of
from riobed_results.stats.proportions import CONFIDENCE
from riobed_results.stats.sequential import dispersion
from riobed_results.stats.strata import Difference, difference, score
from riobed_results.stats.two_shares import normal_p
from riobed_results.store import Provenance, Results, crashed, in_order, judges_all
from riobed_results.tables.corruption.rates import counted_share, strata
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import (
    DISPERSION,
    CountedShare,
    count_text,
    dispersion_text,
    p_text,
    points_text,
)
from riobed_results.tables.framework.table import CampaignTable, Option, campaign_page
from riobed_results.text import printable

MARGIN = 1.0
Margin = Annotated[float, Option("Margin in percentage points.")]
EndpointName = Annotated[
    str | None, Option("What counts, by the names in docs/results.md: by default the campaign's endpoint.")
]
NOTE = (
    "A mode is not worse than the other within the margin if the 95 % interval of the difference ends below "
    "it. A margin that is chosen after the data proves nothing: a spec's protocol fixes it."
)
LEGEND = {
    "Difference": "the mode's share minus the other's, in percentage points, within fault classes: each "
    "class weighs as Mantel and Haenszel have it.",
    "95 % interval": "the score interval of Miettinen and Nurminen (Statistics in Medicine 4, 1985).",
    "p": "one-sided, of being worse by the margin or more.",
    "Dispersion": f"of the differences in a round. {DISPERSION} Then interval and p promise too much.",
}
HEAD = [
    "Mode",
    "against",
    "Hits",
    "Hits of the other",
    "Difference",
    "95 % interval",
    "p",
    "Not worse",
    "Dispersion",
]


class Inferiority(BaseModel):
    """A mode against another; `difference` is the mode's share minus the other's, within fault classes.

    `p` is one-sided, of the hypothesis that the mode is worse by the margin or more. `holds` says whether the
    interval ends below the margin, which is p < 0.025. `dispersion` is that of the rounds, None if no class
    has runs that differ.
    """

    mode: str
    other: str
    hits: CountedShare
    other_hits: CountedShare
    difference: Difference
    p: float
    holds: bool
    dispersion: float | None


class InferiorityTable(BaseModel):
    """Each mode against each other; `margin` is in percentage points."""

    campaign: str
    endpoint: str
    margin: float
    confidence: float = CONFIDENCE
    lines: list[Inferiority]
    environment: Provenance


def inferiority_table(
    results: Results, margin: Margin = MARGIN, endpoint: EndpointName = None
) -> InferiorityTable:
    """Compare each mode with each other, by default by the campaign's endpoint.

    Raises StoreUsageError if an option has no such value, StoreError if no two modes have runs of one fault
    class.
    """
    if not 0 < margin < 100:
        raise StoreUsageError(f"margin {margin:g}: want a number of percentage points between 0 and 100")
    endpoint = endpoint or results.campaign.vocabulary.endpoint
    if endpoint not in COMPARING:
        raise StoreUsageError(f"endpoint {endpoint!r}: want one of {', '.join(COMPARING)}")
    counted, runs = ENDPOINTS[endpoint], results_of(results.trials)
    rounds = _hits_by_round(results, counted)
    modes = in_order(results.campaign, "modes", (run.mode for run in runs))
    lines = []
    for mode, other in permutations(modes, 2):
        of_class = strata(runs, counted, mode, other)
        if found := difference(of_class, CONFIDENCE):
            lines.append(
                Inferiority(
                    mode=mode,
                    other=other,
                    hits=counted_share(runs, counted, mode),
                    other_hits=counted_share(runs, counted, other),
                    difference=found,
                    p=normal_p(score(of_class, margin / 100)),
                    holds=found.high < margin / 100,
                    dispersion=_dispersion(rounds[mode], rounds[other]),
                )
            )
    if not lines:
        raise results.without("two modes to compare")
    return InferiorityTable(
        campaign=results.campaign.name,
        endpoint=endpoint,
        margin=margin,
        lines=lines,
        environment=results.campaign.provenance,
    )


def _hits_by_round(results: Results, endpoint: Endpoint) -> dict[str, dict[str, list[bool]]]:
    """Return by mode and fault class whether the run of each round was a hit, in the order of the plan."""
    hits: dict[str, dict[str, list[bool]]] = {}
    for run, _, _ in sorted(results.each("position", result), key=itemgetter(2)):
        of_class = hits.setdefault(run.mode, {}).setdefault(run.fault_class, [])
        of_class.append(endpoint.runs(run) and endpoint.hit(run))
    return hits


def _dispersion(mine: Mapping[str, list[bool]], theirs: Mapping[str, list[bool]]) -> float | None:
    """Return the dispersion of the rounds that each class has in both modes."""
    classes = [
        [first - other for first, other in zip(hits, theirs[name], strict=False)]
        for name, hits in mine.items()
        if name in theirs
    ]
    return dispersion(list(zip(*classes, strict=False)))


def inferiority_page(table: InferiorityTable) -> Page:
    """Return the page of the table."""
    title = f"Not worse by {table.margin:g} percentage points: {ENDPOINTS[table.endpoint].title}"
    return campaign_page(
        table, [Grid(title, HEAD, list(map(_cells, table.lines)), [])], NOTE, _csv(table), LEGEND
    )


def _cells(line: Inferiority) -> list[str]:
    return [
        printable(line.mode),
        printable(line.other),
        *(count_text(each.count, each.total) for each in (line.hits, line.other_hits)),
        *points_text(line.difference),
        p_text(line.p),
        "yes" if line.holds else "no",
        dispersion_text(line.dispersion),
    ]


def _csv(table: InferiorityTable) -> str:
    ends = ["count", "total", "other_count", "other_total", *Difference.model_fields]
    lines = []
    for line in table.lines:
        hits = [line.hits.count, line.hits.total, line.other_hits.count, line.other_hits.total]
        ends_of = line.difference.model_dump().values()
        lines.append([line.mode, line.other, *hits, *ends_of, line.p, line.holds, line.dispersion])
    return csv_text(["mode", "other", *ends, "p", "holds", "dispersion"], lines)


NONINFERIORITY = CampaignTable(
    name="noninferiority",
    title="Non-inferiority",
    help="Whether a mode is worse than another by less than a margin, within fault classes.",
    compute=inferiority_table,
    page=inferiority_page,
    present=lambda rows: judges_all(rows) and len({row.mode for row in results_of(rows) if crashed(row)}) > 1,
    section="corruptions",
)
