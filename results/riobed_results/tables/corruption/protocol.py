# SPDX-License-Identifier: Apache-2.0
"""The protocol of a campaign: the state of each claim, and whether the campaign may stop."""

from collections import deque
from collections.abc import Iterable
from operator import itemgetter
from typing import Literal

from pydantic import BaseModel

from riobed_results.rules.endpoints import ENDPOINTS, result, results_of
from riobed_results.rules.protocol import Claim, Protocol, stored_protocol
from riobed_results.stats.sequential import e_values
from riobed_results.store import CONTROLS, Provenance, Results, Row, in_order
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable

State = Literal["shown", "refuted", "open", "waiting"]


class Claimed(BaseModel):
    """One claim. `pairs` are those in complete blocks, `only_mode` and `only_than` those with one hit.

    `evidence` is the largest e-value so far for the claim, `against` the largest for its contrary: that the
    share is larger by more than the margin. `shown_at` and `refuted_at` are numbers of blocks.
    """

    claim: Claim
    text: str
    state: State
    blocks: int
    pairs: int
    only_mode: int
    only_than: int
    evidence: float
    against: float
    shown_at: int | None
    refuted_at: int | None


class ProtocolTable(BaseModel):
    """The claims in their order; `stop` says why the campaign may stop, empty if it may not."""

    campaign: str
    alpha: float
    needed: float
    claims: list[Claimed]
    stop: str
    environment: Provenance


class ClaimTest:
    """The test of one claim: it is given runs in the order in which they were stored.

    The nth run of a mode in a fault class that counts makes a pair with the nth of the other mode. A block is
    complete once it has a pair of each fault class.
    """

    def __init__(self, claim: Claim, alpha: float, classes: Iterable[str]) -> None:
        self.claim = claim
        self.blocks = self.only_mode = self.only_than = 0
        self.evidence = self.against = 1.0
        self.shown_at: int | None = None
        self.refuted_at: int | None = None
        self._needed = 1 / alpha
        self._endpoint = ENDPOINTS[claim.endpoint]
        names = claim.fault_classes or [name for name in classes if name not in CONTROLS]
        self._hits: dict[tuple[str, str], deque[bool]] = {
            (mode, name): deque() for name in names for mode in (claim.mode, claim.than)
        }

    @property
    def pairs(self) -> int:
        """The number of pairs in complete blocks."""
        return self.blocks * len(self._hits) // 2

    def add(self, row: Row) -> None:
        """Count a run, if it is one that the claim is about."""
        hits = self._hits.get((row.mode, row.fault_class))
        if hits is None or not result(row) or not self._endpoint.runs(row):
            return
        hits.append(self._endpoint.hit(row))
        if all(self._hits.values()):
            self._close_block()

    def _close_block(self) -> None:
        for (mode, name), hits in self._hits.items():
            if mode == self.claim.mode:
                first, other = hits.popleft(), self._hits[self.claim.than, name].popleft()
                self.only_mode += first and not other
                self.only_than += other and not first
        self.blocks += 1
        margin, equal = self.claim.margin / 100, self.pairs - self.only_mode - self.only_than
        self.evidence = max(self.evidence, e_values(self.only_mode, self.only_than, equal, margin))
        self.against = max(self.against, e_values(self.only_than, self.only_mode, equal, -margin))
        if self.shown_at is None and self.evidence >= self._needed:
            self.shown_at = self.blocks
        if self.refuted_at is None and self.against >= self._needed:
            self.refuted_at = self.blocks


class Monitor:
    """The state of a protocol; give it every row in the order of the plan."""

    def __init__(self, protocol: Protocol, classes: Iterable[str]) -> None:
        self.protocol = protocol
        self._tests = [ClaimTest(claim, protocol.alpha, classes) for claim in protocol.claims]

    def count(self, row: Row) -> None:
        """Count a row."""
        for test in self._tests:
            test.add(row)

    def add(self, row: Row) -> str:
        """Count a row; return why the campaign may stop, empty if it may not."""
        self.count(row)
        return self.stop()

    def stop(self) -> str:
        """Say why the campaign may stop; empty if it may not."""
        states = [state for _, state in self.states()]
        if "refuted" in states:
            test = self._tests[states.index("refuted")]
            return f"a claim is refuted after {test.blocks} blocks: {test.claim}"
        return f"all {len(states)} claims are shown" if set(states) == {"shown"} else ""

    def states(self) -> list[tuple[ClaimTest, State]]:
        """Return each claim's test with its state; a claim waits for those before it."""
        found: list[tuple[ClaimTest, State]] = []
        for test in self._tests:
            before = all(state == "shown" for _, state in found)
            found.append((test, _state(test) if before else "waiting"))
        return found


def _state(test: ClaimTest) -> State:
    if test.shown_at is not None:
        return "shown"
    return "open" if test.refuted_at is None else "refuted"


def monitor(results: Results) -> Monitor:
    """Return the state of a campaign's protocol by its rows; StoreError if it has no protocol."""
    found = stored_protocol(results.campaign)
    if found is None:
        raise results.without("protocol")
    classes = (row.fault_class for row in results_of(results.trials))
    made = Monitor(found, in_order(results.campaign, "fault_classes", classes))
    for row, _, _ in sorted(results.each("position", result), key=itemgetter(2)):
        made.count(row)
    return made


def protocol_table(results: Results) -> ProtocolTable:
    """Compute the state of each claim of a campaign; StoreError if it has no protocol, or no trial yet."""
    if not results.trials:
        raise results.without("trials yet")
    found = monitor(results)
    alpha = found.protocol.alpha
    return ProtocolTable(
        campaign=results.campaign.name,
        alpha=alpha,
        needed=1 / alpha,
        claims=[_claimed(test, state) for test, state in found.states()],
        stop=found.stop(),
        environment=results.campaign.provenance,
    )


def _claimed(test: ClaimTest, state: State) -> Claimed:
    names = Claimed.model_fields.keys() - {"text", "state"}
    return Claimed(text=str(test.claim), state=state, **{name: getattr(test, name) for name in names})


NOTE = (
    "The claims that the campaign's spec fixed before the first trial, in its order. A claim waits until "
    "those before it are shown, which keeps the probability of any false claim at alpha. It may be looked "
    "at after every run: the level holds whenever one stops."
)
LEGEND = {
    "Blocks": "one run of each of the two modes in each fault class that the claim is about, of the runs "
    "that its endpoint counts.",
    "Evidence": "the largest e-value so far for the claim; 1/alpha decides.",
    "Against": "the same for its contrary.",
}
HEAD = ["Claim", "State", "Blocks", "Pairs", "Only the first", "Only the other", "Evidence", "Against"]


def protocol_page(table: ProtocolTable) -> Page:
    """Return the page: a line for each claim, and whether the campaign may stop."""
    title = f"Claims at alpha {table.alpha:g}: evidence of {table.needed:g} decides"
    foot = ["May the campaign stop?", table.stop or "no", *[""] * (len(HEAD) - 2)]
    grid = Grid(title, HEAD, [_cells(each) for each in table.claims], [list(map(printable, foot))])
    return campaign_page(table, [grid], NOTE, _csv(table), LEGEND)


def _cells(each: Claimed) -> list[str]:
    counts = (each.blocks, each.pairs, each.only_mode, each.only_than)
    decided = each.shown_at or each.refuted_at
    state = each.state + (f" at block {decided}" if decided and each.state != "waiting" else "")
    return [printable(each.text), state, *map(str, counts), f"{each.evidence:.3g}", f"{each.against:.3g}"]


def _csv(table: ProtocolTable) -> str:
    names = [name for name in Claimed.model_fields if name != "claim"]
    return csv_text(names, ([getattr(each, name) for name in names] for each in table.claims))


PROTOCOL = CampaignTable(
    name="protocol",
    title="Protocol",
    help="The claims of a spec's protocol, and which of them are shown.",
    compute=protocol_table,
    page=protocol_page,
    present=lambda rows: any(map(result, rows)),
    section="corruptions",
    asked=lambda campaign: stored_protocol(campaign) is not None,
)
