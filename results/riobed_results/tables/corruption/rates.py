# SPDX-License-Identifier: Apache-2.0
"""Tables with a line per endpoint: what each mode has by it, and whether the modes differ.

`outcomes` has the ways to end, `sensitivity` the definitions of a crash and of corruption, `wrong-checksum`
what tells how files became wrong.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

from pydantic import BaseModel

from riobed_results.rules.endpoints import (
    CANARIES,
    CANARIES_JUDGED,
    CORRUPTIONS,
    ENDS,
    WRONG_CHECKSUMS,
    WRONG_CHECKSUMS_JUDGED,
    Endpoint,
    result,
    results_of,
)
from riobed_results.stats.proportions import Share, share_of
from riobed_results.stats.strata import Stratum, exact_p
from riobed_results.stats.two_shares import fisher_p, mcnemar_p
from riobed_results.store import (
    Provenance,
    Results,
    Row,
    how_many,
    in_order,
    judges_all,
    kernel_of_faults,
)
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import UNKNOWN, CountedShare, count_text, interval_text, p_text
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable


class Pair(BaseModel):
    """Two modes; p-values are two-sided, None where there is nothing to compare.

    `p` is of Fisher's exact test, `within` of the exact test within fault classes. By an endpoint `per_seed`
    `p` is of McNemar's exact test: `only_first` and `only_second` of `pairs` runs of one seed are a hit.
    """

    first: str
    second: str
    p: float | None
    within: float | None = None
    pairs: int | None = None
    only_first: int | None = None
    only_second: int | None = None


class Rate(BaseModel):
    """One endpoint: a share by mode, and each pair of modes if it compares any."""

    name: str
    title: str
    cells: dict[str, CountedShare]
    pairs: list[Pair]


class RateTable(BaseModel):
    """The lines in the order of the endpoints."""

    campaign: str
    modes: list[str]
    rates: list[Rate]
    environment: Provenance


def rate_table(results: Results, endpoints: Sequence[Endpoint]) -> RateTable:
    """Compute the lines of some endpoints, those of ends that did not occur left out.

    Raises StoreError if no run counts by the first of them.
    """
    campaign, runs = results.campaign, results_of(results.trials)
    if not any(map(endpoints[0].runs, runs)):
        raise results.without(f"run of the kind {endpoints[0].name!r}")
    modes = in_order(campaign, "modes", (run.mode for run in runs))
    rates = []
    for endpoint in endpoints:
        if not any(map(endpoint.runs, runs)):
            continue
        cells = {mode: counted_share(runs, endpoint, mode) for mode in modes}
        compared = [mode for mode in modes if cells[mode].total] if endpoint.compares else []
        if endpoint.per_seed:
            pairs = _by_seed(results, endpoint, compared)
        else:
            pairs = [_pair(runs, endpoint, first, other) for first, other in combinations(compared, 2)]
        rates.append(Rate(name=endpoint.name, title=endpoint.title, cells=cells, pairs=pairs))
    return RateTable(campaign=campaign.name, modes=modes, rates=rates, environment=campaign.provenance)


def counted_share(runs: Sequence[Row], endpoint: Endpoint, mode: str) -> CountedShare:
    """Return how many runs of a mode are a hit, with the exact interval of the share."""
    counted = [run for run in runs if run.mode == mode and endpoint.runs(run)]
    hits, total = how_many(filter(endpoint.hit, counted)), how_many(counted)
    return CountedShare(count=hits, total=total, share=share_of(hits, total))


def strata(runs: Sequence[Row], endpoint: Endpoint, first: str, other: str) -> list[Stratum]:
    """Return the counts of two modes by fault class."""
    found: dict[str, list[int]] = {}
    for run in runs:
        if run.mode in (first, other) and endpoint.runs(run):
            counts = found.setdefault(run.fault_class, [0, 0, 0, 0])
            at = 0 if run.mode == first else 2
            counts[at] += run.weight * endpoint.hit(run)
            counts[at + 1] += run.weight
    return [Stratum(*counts) for counts in found.values()]


def _pair(runs: Sequence[Row], endpoint: Endpoint, first: str, other: str) -> Pair:
    of_class = strata(runs, endpoint, first, other)
    both = Stratum(
        hits=sum(each.hits for each in of_class),
        total=sum(each.total for each in of_class),
        other_hits=sum(each.other_hits for each in of_class),
        other_total=sum(each.other_total for each in of_class),
    )
    return Pair(first=first, second=other, p=fisher_p(both), within=exact_p(of_class))


# Whether the run of a seed was a hit, by fault class and, if faults depend on it, by the kernel's build.
_Hits = dict[tuple[str, str], dict[str, bool]]


def _by_seed(results: Results, endpoint: Endpoint, modes: Sequence[str]) -> list[Pair]:
    """Compare modes run by run; equal seeds of a class mean equal faults."""
    build = kernel_of_faults(results.campaign)
    hits: dict[str, _Hits] = {mode: {} for mode in modes}
    # There may be millions of runs, but not of different facts.
    known: dict[int, tuple[dict[str, bool], bool]] = {}
    for run, _, seed in results.each("seed", lambda row: result(row) and endpoint.runs(row)):
        if run.mode not in hits:
            continue
        if run.group_id not in known:
            seeds = hits[run.mode].setdefault((run.fault_class, build(run)), {})
            known[run.group_id] = seeds, endpoint.hit(run)
        seeds, hit = known[run.group_id]
        seeds[seed] = hit
    return [_seed_pair(hits, first, other) for first, other in combinations(modes, 2)]


def _seed_pair(hits: dict[str, _Hits], first: str, other: str) -> Pair:
    mine, theirs = hits[first], hits[other]
    both = Counter(
        (hit, theirs[faults][seed])
        for faults in mine.keys() & theirs.keys()
        for seed, hit in mine[faults].items()
        if seed in theirs[faults]
    )
    only_first, only_second = both[True, False], both[False, True]
    return Pair(
        first=first,
        second=other,
        p=mcnemar_p(only_first, only_second) if both else None,
        pairs=both.total(),
        only_first=only_first,
        only_second=only_second,
    )


def rate_page(table: RateTable, title: str, note: str, legend: dict[str, str]) -> Page:
    """Return the page: shares, and p-values if there are modes to compare.

    A report has several of these tables below each other, so the grids have the title of theirs.
    """
    shares = Grid(
        title,
        ["Counted", *(name for mode in table.modes for name in (printable(mode), "95 % interval"))],
        [[rate.title, *_cells(rate, table.modes)] for rate in table.rates],
        [],
    )
    compared = list(dict.fromkeys((pair.first, pair.second) for rate in table.rates for pair in rate.pairs))
    names = [printable(f"{first}, {second}") for first, second in compared]
    tests = Grid(
        f"{title}, modes compared: p",
        ["Counted", *(name for mode in names for name in (mode, "within classes"))],
        [[rate.title, *_p_cells(rate, compared)] for rate in table.rates],
        [],
    )
    return campaign_page(table, [shares, *([tests] if compared else [])], note, _csv(table), legend)


def _cells(rate: Rate, modes: Sequence[str]) -> list[str]:
    cells = [rate.cells[mode] for mode in modes]
    return [
        text
        for cell in cells
        for text in (
            count_text(cell.count, cell.total) if cell.total else UNKNOWN,
            interval_text(cell.share),
        )
    ]


def _p_cells(rate: Rate, compared: Sequence[tuple[str, str]]) -> list[str]:
    found = {(pair.first, pair.second): pair for pair in rate.pairs}
    return [text for key in compared for text in _p_texts(found.get(key))]


def _p_texts(pair: Pair | None) -> tuple[str, str]:
    if pair is None:
        return UNKNOWN, UNKNOWN
    if pair.pairs is not None:
        return p_text(pair.p), f"{pair.only_first} : {pair.only_second} of {pair.pairs} pairs"
    return p_text(pair.p), p_text(pair.within)


def _csv(table: RateTable) -> str:
    """Return a line per endpoint and mode, followed by one per endpoint and pair of modes."""
    head = ["endpoint", "mode", "count", "total", *Share.model_fields, *list(Pair.model_fields)[1:]]
    blank = [None] * (len(Share.model_fields) + 2)
    lines: list[list[object]] = []
    for rate in table.rates:
        for mode, cell in rate.cells.items():
            lines.append([rate.name, mode, cell.count, cell.total, *cell.share.model_dump().values()])
        for pair in rate.pairs:
            first, *rest = pair.model_dump().values()
            lines.append([rate.name, first, *blank, *rest])
    width = len(head)
    return csv_text(head, (line + [None] * (width - len(line)) for line in lines))


def outcomes(results: Results) -> RateTable:
    """Count the ways in which judged runs ended, and the corruptions after each."""
    return rate_table(results, ENDS)


def sensitivity(results: Results) -> RateTable:
    """Compute what each definition of a crash and of corruption makes of a campaign's rows."""
    return rate_table(results, CORRUPTIONS)


def wrong_checksum(results: Results) -> RateTable:
    """Compute the endpoints of wrong checksums and the canary, of crashes and of all judged runs."""
    endpoints: tuple[Endpoint, ...] = (*WRONG_CHECKSUMS, *CANARIES)
    if judges_all(results.trials):
        endpoints = (*WRONG_CHECKSUMS, *WRONG_CHECKSUMS_JUDGED, *CANARIES, *CANARIES_JUDGED)
    runs = results_of(results.trials)
    found = [each for each in endpoints if any(map(each.runs, runs))]
    return rate_table(results, found or WRONG_CHECKSUMS)


def _present(*endpoints: Endpoint) -> Callable[[Sequence[Row]], bool]:
    """Say whether rows have runs that count by any of these.

    Published tables of older stores stay as they are: `riobed table` computes these for them, too.
    """
    return lambda rows: (
        judges_all(rows) and any(each.runs(run) for run in results_of(rows) for each in endpoints)
    )


_INTERVAL = {"95 % interval": "exact (Clopper and Pearson)."}
_TESTS = {
    "p": "of Fisher's exact test on the two shares. p-values are two-sided, not corrected for their number.",
    "within classes": "p of the exact conditional test within fault classes.",
}
_PAIRS = {
    "same seeds": "of the runs with one class and seed, so with the same faults planned, those in which one "
    "mode alone was a hit, and p of McNemar's exact test.",
}
_CANARY = {
    "canary": "a part of the NVDIMM that nothing uses; a hit is a stray store, even if no file differs.",
}
OUTCOMES_TITLE = "How runs ended"
OUTCOMES_NOTE = (
    "Judged runs with faults by how they ended, and how many of them had a corruption. A stuck workload "
    "waits for ever while the machine answers; stores before schema 3 called it a crash."
)
SENSITIVITY_TITLE = "Sensitivity to the definitions"
SENSITIVITY_NOTE = (
    "The same rows by other endpoints, so that a reader sees how much the choice matters. The first line is "
    "what the corruption table counts. No modes are compared where a checksum counts, because protection "
    "changes that. In stores before schema 3 a stuck workload is a crash, too, and runs without a crash were "
    "not checked. An error without a crash may be damage in memory that a reboot heals: those two lines are "
    "upper bounds, no verdicts."
)
CHECKSUM_TITLE = "Corruption with a wrong checksum or a hit canary"
CHECKSUM_NOTE = (
    "How files became wrong, of runs with faults of which checksums were kept. The first line is what rows "
    "call direct. It does not match the page with the file. Protection traps a store before it makes a "
    "checksum wrong, so no modes are compared here: `table noninferiority` does, by all judged runs."
)
OUTCOMES = CampaignTable(
    name="outcomes",
    title=OUTCOMES_TITLE,
    help="Corruptions by how the run ended: kinds of crashes, stuck, survived.",
    compute=outcomes,
    page=partial(rate_page, title=OUTCOMES_TITLE, note=OUTCOMES_NOTE, legend=_INTERVAL),
    present=_present(ENDS[0]),
    section="corruptions",
)
SENSITIVITY = CampaignTable(
    name="sensitivity",
    title=SENSITIVITY_TITLE,
    help="The same rows under each definition of a crash and of corruption.",
    compute=sensitivity,
    page=partial(
        rate_page, title=SENSITIVITY_TITLE, note=SENSITIVITY_NOTE, legend=_INTERVAL | _TESTS | _PAIRS
    ),
    present=_present(CORRUPTIONS[0]),
    section="corruptions",
)
WRONG_CHECKSUM = CampaignTable(
    name="wrong-checksum",
    title=CHECKSUM_TITLE,
    help="Wrong checksums and hits of the canary: how files became wrong.",
    compute=wrong_checksum,
    page=partial(rate_page, title=CHECKSUM_TITLE, note=CHECKSUM_NOTE, legend=_INTERVAL | _CANARY),
    present=_present(WRONG_CHECKSUMS[0], CANARIES[0]),
    section="corruptions",
)
