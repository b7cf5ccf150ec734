# SPDX-License-Identifier: Apache-2.0
"""The protocol of a campaign: the state of each claim, what its arms met, and whether it may stop."""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Literal

from pydantic import BaseModel

from riobed_results.rules.controls import deceives, failed_controls, must_lose, planted, tells
from riobed_results.rules.endpoints import result, results_of
from riobed_results.rules.protocol import Claim, Protocol, stored_protocol
from riobed_results.rules.stops import Stop, attempts_of, failed_control, stopped
from riobed_results.stats.strata import Difference
from riobed_results.store import Provenance, Results, Row, Vocabulary, how_many, in_order
from riobed_results.tables.corruption.claim_tests import FixedTest, Paired, SequentialTest
from riobed_results.tables.corruption.contrasts import Contrast, Part, contrasts, part_of

State = Literal["shown", "refuted", "open", "waiting", "unfinished", "stopped"]


class Claimed(BaseModel):
    """One claim. `pairs` are those that its test counts: `both`, `only_mode` or `only_than` have a hit.

    `dispersion` is that of the differences in a block, or in a round; None if there are none.
    """

    claim: Claim
    text: str
    state: State
    pairs: int
    both: int
    only_mode: int
    only_than: int
    dispersion: float | None


class Looked(Claimed):
    """A claim whose test may be looked at after every run.

    `evidence` is the largest e-value so far for the claim, `against` the largest for its contrary: that the
    share is larger by more than the margin. `shown_at` and `refuted_at` are numbers of blocks.
    """

    blocks: int
    evidence: float
    against: float
    shown_at: int | None
    refuted_at: int | None


class Tested(BaseModel):
    """The test of pairs, of which those with `no_result` count against the claim; the `p` is one-sided."""

    no_result: int
    difference: Difference
    p: float
    variance: Literal["pairs", "rounds"]


class Ended(Claimed):
    """A claim that is tested once; `tested` is None before the campaign's end.

    There a pair has no result if one of its runs has no attempt left. In `sensitivity` it has none if the
    first attempt at one of them was an infra error. `part` is that of an earlier claim in the difference.
    """

    tested: Tested | None
    sensitivity: Tested | None
    part: Part | None


class Arm(BaseModel):
    """The attempts and controls of one mode, and whether a claim names it.

    Of `first_attempts` so many were `infra_errors`. In `differ` of `sound` runs without a fault a file
    differs, and of `planted` changes so many were `missed`. `other` counts controls that failed in another
    way, which says nothing of the claims.
    """

    mode: str
    claimed: bool
    first_attempts: int
    infra_errors: int
    sound: int
    differ: int
    planted: int
    missed: int
    other: int


class ProtocolTable(BaseModel):
    """The claims in their order, each tested at `level`; `stop` says why the campaign may stop, if it may.

    `stopped` is what stopped it for good, whatever the claims say. Claims that are tested once have `runs`:
    `fewest` is how many the cell of theirs with the fewest has, and `contrasts` are there once each has
    them, unless the campaign was stopped.
    """

    campaign: str
    alpha: float
    level: float
    claims: list[Looked] | list[Ended]
    stop: str
    stopped: Stop | None
    runs: int | None
    fewest: int | None
    contrasts: list[Contrast]
    arms: list[Arm]
    environment: Provenance

    @property
    def incomplete(self) -> str:
        """Say how far a campaign is whose claims are tested once; empty if it is complete, or of others."""
        if not self.runs or self.fewest is None or self.fewest >= self.runs:
            return ""
        return f"the cell with the fewest has {self.fewest} of {self.runs} runs"


class Monitor:
    """What a protocol says of a running campaign; give it every row in the order of the plan."""

    def __init__(self, protocol: Protocol, classes: Iterable[str], vocabulary: Vocabulary) -> None:
        self.protocol = protocol
        classes = list(classes)
        self._vocabulary = vocabulary
        self._tests = [SequentialTest(claim, protocol.level, classes) for claim in protocol.claims]

    def count(self, row: Row) -> None:
        """Count a row."""
        for test in self._tests:
            test.add(row)

    def add(self, row: Row) -> str:
        """Count a row; return why the campaign may stop, empty if it may not."""
        if failed := failed_control(row, self.protocol, self._vocabulary):
            return failed
        self.count(row)
        # Claims that are tested once stop no campaign.
        return "" if self.protocol.runs else self.stop()

    def stop(self) -> str:
        """Say why the campaign may stop; empty if it may not."""
        states = [state for _, state in self.states()]
        if "refuted" in states:
            test = self._tests[states.index("refuted")]
            return f"a claim is refuted after {test.blocks} blocks: {test.claim}"
        return f"all {len(states)} claims are shown" if set(states) == {"shown"} else ""

    def states(self) -> list[tuple[SequentialTest, State]]:
        """Return each claim's test with its state."""
        found = in_chains((test.claim, _looked(test)) for test in self._tests)
        return list(zip(self._tests, found, strict=True))


def _looked(test: SequentialTest) -> State:
    if test.shown_at is not None:
        return "shown"
    return "open" if test.refuted_at is None else "refuted"


def in_chains(claims: Iterable[tuple[Claim, State]]) -> list[State]:
    """Return the claims' states; one whose test is over waits for those before it in its chain."""
    found: list[State] = []
    waits: set[str] = set()
    for claim, state in claims:
        found.append("waiting" if claim.chain in waits and state != "unfinished" else state)
        if state != "shown":
            waits.add(claim.chain)
    return found


def monitor(results: Results, protocol: Protocol, classes: list[str]) -> Monitor:
    """Return the state of a campaign's protocol by its rows."""
    made = Monitor(protocol, classes, results.campaign.vocabulary)
    for row, _, _ in sorted(results.each("position", result), key=itemgetter(2)):
        made.count(row)
    return made


def protocol_table(results: Results) -> ProtocolTable:
    """Compute the state of each claim of a campaign; StoreError if it has no protocol, or no trial yet."""
    protocol = stored_protocol(results.campaign)
    if protocol is None:
        raise results.without("protocol")
    if not results.trials:
        raise results.without("trials yet")
    classes = in_order(
        results.campaign, "fault_classes", (row.fault_class for row in results_of(results.trials))
    )
    halt = stopped(results, protocol)
    arms = _arms(results, protocol)
    claims: list[Looked] | list[Ended]
    stop, fewest, compared = "", None, list[Contrast]()
    if protocol.runs:
        attempts = attempts_of(results)
        tests = [FixedTest(claim, protocol, results, classes, attempts) for claim in protocol.claims]
        fewest = min(test.fewest for test in tests)
        complete = not halt and fewest >= protocol.runs
        claims = _ended(tests, protocol.level, complete, halt)
        if complete:
            compared = contrasts(results, protocol, classes, [arm.mode for arm in arms], attempts)
    else:
        found = monitor(results, protocol, classes)
        claims, stop = [_as_looked(test, state, halt) for test, state in found.states()], found.stop()
    return ProtocolTable(
        campaign=results.campaign.name,
        alpha=protocol.alpha,
        level=protocol.level,
        claims=claims,
        stop="" if halt else stop,
        stopped=halt,
        runs=protocol.runs,
        fewest=fewest,
        contrasts=compared,
        arms=arms,
        environment=results.campaign.provenance,
    )


def _arms(results: Results, protocol: Protocol) -> list[Arm]:
    vocabulary = results.campaign.vocabulary
    attempts = attempts_of(results)
    told = [row for row in results.trials if tells(row, vocabulary) and not must_lose(row, vocabulary)]
    found = []
    for mode in in_order(results.campaign, "modes", (row.mode for row in results.trials)):
        controls = [row for row in told if row.mode == mode]
        changed, wrong = [list(filter(rule, controls)) for rule in (planted, _wrong(vocabulary))]
        failed = [row for row in controls if row not in wrong and failed_controls([row], vocabulary)]
        missed = how_many(filter(planted, wrong))
        found.append(
            Arm(
                mode=mode,
                claimed=mode in protocol.arms,
                first_attempts=attempts.first[mode],
                infra_errors=attempts.failed(mode),
                sound=how_many(controls) - how_many(changed),
                differ=how_many(wrong) - missed,
                planted=how_many(changed),
                missed=missed,
                other=how_many(failed),
            )
        )
    return found


def _wrong(vocabulary: Vocabulary) -> Callable[[Row], bool]:
    return lambda row: bool(deceives(row, vocabulary))


def _as_looked(test: SequentialTest, state: State, halt: Stop | None) -> Looked:
    names = Looked.model_fields.keys() - {"text", "state"}
    state = "stopped" if halt else state
    return Looked(text=str(test.claim), state=state, **{name: getattr(test, name) for name in names})


def _ended(tests: list[FixedTest], level: float, complete: bool, halt: Stop | None) -> list[Ended]:
    claims = [
        _as_ended(test, level, complete, [other.claim for other in tests[:number]])
        for number, test in enumerate(tests)
    ]
    if halt:
        return [each.model_copy(update={"state": "stopped"}) for each in claims]
    states = in_chains((each.claim, each.state) for each in claims)
    return [each.model_copy(update={"state": state}) for each, state in zip(claims, states, strict=True)]


def _as_ended(test: FixedTest, level: float, complete: bool, earlier: list[Claim]) -> Ended:
    attempts, margin = test.attempts, test.claim.margin / 100
    lost = test.lost(attempts.given_up)
    pairs = test.paired(lost)
    tested: Tested | None = None
    state: State = "unfinished"
    if complete and pairs.strata.pairs:
        tested = _tested(pairs, len(lost), level, margin)
        # What is lost must not refute the claim, either.
        contrary = test.paired(lost, against=False).p(margin)
        state = "shown" if tested.p <= level else "refuted" if contrary >= 1 - level else "open"
    failed = test.lost(attempts.failed_first)
    return Ended(
        claim=test.claim,
        text=str(test.claim),
        state=state,
        pairs=sum(pairs.strata.pairs),
        both=pairs.both,
        only_mode=sum(pairs.strata.only_first),
        only_than=sum(pairs.strata.only_other),
        dispersion=pairs.dispersion,
        tested=tested,
        sensitivity=_tested(test.paired(failed), len(failed), level, margin) if tested else None,
        part=part_of(test.claim, pairs, earlier, level) if tested else None,
    )


def _tested(pairs: Paired, lost: int, level: float, margin: float) -> Tested:
    return Tested(
        no_result=lost, difference=pairs.difference(level), p=pairs.p(margin), variance=pairs.variance
    )
