# SPDX-License-Identifier: Apache-2.0
"""The page of a campaign's protocol: its claims, what they rest on, and what each arm met."""

from collections.abc import Iterator
from dataclasses import replace

from riobed_results.rules.attempts import ATTEMPTS
from riobed_results.rules.endpoints import result
from riobed_results.rules.protocol import stored_protocol
from riobed_results.stats.strata import Difference
from riobed_results.tables.corruption.contrasts import Compared
from riobed_results.tables.corruption.protocol import (
    Arm,
    Claimed,
    Ended,
    Looked,
    ProtocolTable,
    Tested,
    protocol_table,
)
from riobed_results.tables.corruption.sentences import sentences
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import (
    DISPERSION,
    UNKNOWN,
    count_text,
    dispersion_text,
    p_text,
    points_text,
)
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable

_ORDER = (
    "The claims that the campaign's spec fixed before the first trial, in its order. A claim waits until "
    "those before it in its chain are shown, which keeps the probability of any false claim at alpha. "
)
_LOOKED = "It may be looked at after every run: the level holds whenever one stops."
_ENDED = "The claims are tested once, when each cell has the runs that the protocol asks for."
_NO_CLAIMS = "The protocol has no claims: the campaign describes, and nothing is tested."
_PAIRS = {"Only the first, only the other": "pairs in which one of the two modes has a hit."}
_LOOKED_LEGEND = {
    "Blocks": "one run of each of the two modes in each fault class that the claim is about, of the runs "
    "that its endpoint counts.",
    "Evidence": "the largest e-value so far for the claim; 1/level decides.",
    "Against": "the same for its contrary.",
    "Dispersion": f"of the differences in a block. {DISPERSION} The level holds only if they are.",
}
_ENDED_LEGEND = {
    "Pairs": "runs of the two modes with one seed, in the fault classes that the claim is about.",
    "No result": f"pairs with a run that gave no result in {ATTEMPTS} attempts. They count against the "
    "claim, as a hit in the first mode alone. For its contrary they count the other way.",
    "Difference": "the first mode's share minus the other's, in percentage points: the mean over fault "
    "classes, with the score interval for pairs (Tango, Statistics in Medicine 17, 1998).",
    "Interval": "each end is at the level of the claims.",
    "p": "one-sided, of the claim; near 1 its contrary is shown, and the claim is refuted.",
    "Variance of": "pairs, taken for independent of each other, or rounds, if the dispersion is above the "
    "protocol's bound: then interval and p are Student's t of the rounds' means.",
    "Dispersion": f"of the differences in a round. {DISPERSION} By pairs the level holds only if they are.",
}
_CONTRASTS_LEGEND = {
    "A minus B": "the share of mode A minus that of mode B, in percentage points, with its interval as "
    "above. A mode of no claim is compared, too, with the other mode of the first claim.",
}
_ARMS_LEGEND = {
    "Infra errors": "of the first attempts at runs and controls. With more than the protocol allows, a "
    "campaign stops if a claim names the arm.",
    "Differ": "sound runs (resets and panics without a fault) after which a file differs. Such a one, or a "
    "planted change that was missed, stops the campaign if a claim names the arm.",
    "Failed otherwise": "controls with a wrong checksum, a wrong class, or an end of their own.",
}
_CONTROLS_HEAD = ["Sound runs", "Differ", "Planted", "Missed", "Failed otherwise"]
_ARMS_HEAD = ["Arm", "In a claim", "Infra errors", *_CONTROLS_HEAD]
_HEAD = ["Claim", "Chain", "State"]
_COUNTED = ["Pairs", "Only the first", "Only the other"]
_LOOKED_HEAD = [*_HEAD, "Blocks", *_COUNTED, "Evidence", "Against", "Dispersion"]
_TESTED_HEAD = ["No result", "Difference", "Interval", "p", "Variance of"]
_ENDED_HEAD = [*_HEAD, *_COUNTED, *_TESTED_HEAD, "Dispersion"]


def protocol_page(table: ProtocolTable) -> Page:
    """Return the page: a line for each claim, whether the campaign may stop, and a line for each arm."""
    ended = any(isinstance(each, Ended) for each in table.claims)
    arms = Grid("Attempts and controls by arm", _ARMS_HEAD, list(map(_arm_cells, table.arms)), [])
    grids = [_claims_grid(table, ended), *_contrasts(table), *_sensitivity(table), arms]
    if not table.claims:
        shown = [arms] if table.stopped is None else [grids[0], arms]
        return campaign_page(table, shown, _NO_CLAIMS, _csv(table, Looked), _ARMS_LEGEND)
    when, model, legend = (_ENDED, Ended, _ENDED_LEGEND) if ended else (_LOOKED, Looked, _LOOKED_LEGEND)
    if table.contrasts:
        legend = legend | _CONTRASTS_LEGEND
    page = campaign_page(table, grids, _ORDER + when, _csv(table, model), _PAIRS | legend | _ARMS_LEGEND)
    return replace(page, says=[printable(each) for each in sentences(table)])


def _claims_grid(table: ProtocolTable, ended: bool) -> Grid:
    title = f"Claims at alpha {table.alpha:g}, each at level {table.level:g}"
    lines = [_looked_cells(each) if isinstance(each, Looked) else _ended_cells(each) for each in table.claims]
    head = _ENDED_HEAD if ended else _LOOKED_HEAD
    may = f"It was stopped {table.stopped}" if table.stopped else table.stop or "no"
    foot = [printable(cell) for cell in ("May the campaign stop?", may, *[""] * (len(head) - 2))]
    return Grid(title, head, lines, [foot] if table.stopped or not ended else [])


def _contrasts(table: ProtocolTable) -> Iterator[Grid]:
    """Return a column for each pair of modes, and a line for each fault class."""
    if not table.contrasts:
        return
    names = list(dict.fromkeys(name for each in table.contrasts for name in each.classes))
    body = [
        [printable(name), *(_compared_cell(each.classes.get(name)) for each in table.contrasts)]
        for name in names
    ]
    together = ["All classes", *(_compared_cell(each.together) for each in table.contrasts)]
    head = ["Fault class", *(printable(f"{each.mode} minus {each.than}") for each in table.contrasts)]
    yield Grid("Differences by fault class", head, body, [together])


def _compared_cell(found: Compared | None) -> str:
    if found is None:
        return UNKNOWN
    difference, interval = points_text(found.difference)
    return f"{difference} ({interval})"


def _sensitivity(table: ProtocolTable) -> Iterator[Grid]:
    lines = [
        [_named(each), *_tested_cells(each.sensitivity)]
        for each in table.claims
        if isinstance(each, Ended) and each.sensitivity
    ]
    if lines:
        title = "If each pair with an infra error in a first attempt counts as without result"
        yield Grid(title, ["Claim", *_TESTED_HEAD], lines, [])


def _arm_cells(arm: Arm) -> list[str]:
    counts = (arm.sound, arm.differ, arm.planted, arm.missed, arm.other)
    infra = count_text(arm.infra_errors, arm.first_attempts)
    return [printable(arm.mode), "yes" if arm.claimed else "no", infra, *map(str, counts)]


def _looked_cells(each: Looked) -> list[str]:
    counts = (each.blocks, each.pairs, each.only_mode, each.only_than)
    decided = each.shown_at or each.refuted_at
    state = each.state + (f" at block {decided}" if decided and each.state in ("shown", "refuted") else "")
    evidence = (f"{each.evidence:.3g}", f"{each.against:.3g}", dispersion_text(each.dispersion))
    return [_named(each), each.claim.chain, state, *map(str, counts), *evidence]


def _named(each: Claimed) -> str:
    return printable(each.text)


def _ended_cells(each: Ended) -> list[str]:
    counts = map(str, (each.pairs, each.only_mode, each.only_than))
    found = _tested_cells(each.tested) if each.tested else ["-"] * len(_TESTED_HEAD)
    return [_named(each), each.claim.chain, each.state, *counts, *found, dispersion_text(each.dispersion)]


def _tested_cells(found: Tested) -> list[str]:
    return [str(found.no_result), *points_text(found.difference), p_text(found.p), found.variance]


def _csv(table: ProtocolTable, model: type[Claimed]) -> str:
    plain = [name for name in model.model_fields if name not in ("claim", "part", *_TESTS)]
    ends = list(Difference.model_fields)
    tests = (
        [f"{test}_{name}" for test in _TESTS for name in ("no_result", *ends, "p", "variance")]
        if model is Ended
        else []
    )

    def cells(each: Claimed) -> Iterator[object]:
        yield from (getattr(each, name) for name in plain)
        for test in _TESTS if tests else ():
            found: Tested | None = getattr(each, test)
            yield found and found.no_result
            yield from (found and getattr(found.difference, end) for end in ends)
            yield found and found.p
            yield found and found.variance

    return csv_text([*plain, *tests], map(cells, table.claims))


_TESTS = ("tested", "sensitivity")


PROTOCOL = CampaignTable(
    name="protocol",
    title="Protocol",
    help="The claims of a spec's protocol, and which of them are shown.",
    compute=protocol_table,
    page=protocol_page,
    present=lambda rows: any(map(result, rows)),
    section="protocol",
    asked=lambda campaign: stored_protocol(campaign) is not None,
)
