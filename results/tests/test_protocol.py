# SPDX-License-Identifier: Apache-2.0
"""The protocol of a campaign: the error rates of its test by simulation, and its state by rows."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from publishing.power import PowerPlan, power_table, read_plan
from results_builders import Invoke, fill, planted, recovered, trial
from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.rules.protocol import Protocol, stored_protocol
from riobed_results.stats.pairs import PairedStrata, paired_difference, paired_score, round_means
from riobed_results.stats.sequential import dispersion, e_values
from riobed_results.store import read_results
from riobed_results.store.store import Store
from riobed_results.tables.corruption.claim_tests import SequentialTest
from riobed_results.tables.corruption.protocol import Ended, Monitor, protocol_table
from riobed_results.tables.corruption.protocol_page import PROTOCOL
from riobed_results.tables.corruption.sentences import sentences
from scipy.stats import norm, ttest_1samp

ALPHA = 0.05
Shares = list[tuple[float, float]]


def simulated(shares: Shares, campaigns: int, blocks: int, common: float = 0.0) -> Any:
    """Hits by campaign, block, class and mode; `shares` are those of the two modes in each class.

    In a mode, the odds of all classes of a block are larger or smaller by a cause that they have in common,
    `common` being the standard deviation of its logarithm.
    """
    rng = np.random.default_rng(1996)
    drawn = rng.random((campaigns, blocks, len(shares), 2))
    odds = np.array(shares) / (1 - np.array(shares))
    odds = odds * np.exp(common * rng.standard_normal((campaigns, blocks, 1, 2)))
    return drawn < odds / (1 + odds)


def e_paths(shares: Shares, margin: float, campaigns: int, blocks: int, common: float = 0.0) -> Any:
    """E-values after each block of many campaigns."""
    hits = simulated(shares, campaigns, blocks, common)
    sums = np.cumsum([hits[..., 0] & ~hits[..., 1], hits[..., 1] & ~hits[..., 0]], axis=2).sum(axis=3)
    equal = len(shares) * np.arange(1, blocks + 1) - sums.sum(axis=0)
    return e_values(*sums, equal, margin)


# On the border of what the claim says, also where the classes differ in the sign of their difference.
BORDERS: list[tuple[Shares, float]] = [
    ([(0.3, 0.3)], 0.0),
    ([(0.02, 0.02), (0.5, 0.5), (0.1, 0.1)], 0.0),
    ([(0.4, 0.1), (0.1, 0.4)], 0.0),
    ([(0.35, 0.3)], 0.05),
    ([(0.02, 0.02), (0.3, 0.15), (0.5, 0.5)], 0.05),
]


@pytest.mark.parametrize(("shares", "margin"), BORDERS)
def test_a_false_claim_is_shown_no_oftener_than_alpha_however_often_one_looks(
    shares: Shares, margin: float
) -> None:
    shown = (e_paths(shares, margin, campaigns=1000, blocks=300) >= 1 / ALPHA).any(axis=1)
    assert shown.mean() <= ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / 1000)


def test_a_claim_that_a_fixed_test_makes_at_every_look_would_fail_this() -> None:
    """The same looks with a test for one look alone: what the others have to be compared with."""
    rng = np.random.default_rng(1996)
    first, other = (np.cumsum(rng.random((1000, 300)) < 0.3, axis=1) for _ in range(2))
    runs = np.arange(1, 301)
    pooled = (first + other) / (2 * runs)
    z = (other - first) / np.sqrt(np.maximum(2 * runs * pooled * (1 - pooled), 1e-9))
    assert (z > 1.645).any(axis=1).mean() > 4 * ALPHA


def test_classes_with_a_cause_in_common_break_the_level_and_dispersion_tells_it() -> None:
    """Nine classes of a block with a shared warm-up, say; each class alone is as on the border."""
    shares = [(0.06, 0.06)] * 9
    for common, low, high in ((0.0, 0.8, 1.2), (1.5, 1.8, 4.0)):
        differences = np.diff(simulated(shares, 1, 300, common).astype(int), axis=3)[0, ..., 0]
        found = dispersion(differences.tolist())
        assert found and low < found < high
        shown = (e_paths(shares, 0.0, 1000, 300, common) >= 1 / ALPHA).any(axis=1).mean()
        assert (shown > 2 * ALPHA) == (common > 0)


def test_dispersion_by_hand() -> None:
    # Classes that go together, that go against each other, and that do not vary.
    assert dispersion([[0, 0], [1, 1]]) == 2
    assert dispersion([[0, 1], [1, 0]]) == 0
    assert dispersion([[1, 0], [1, 0]]) is dispersion([]) is None


@pytest.mark.parametrize(("shares", "margin"), [*BORDERS, ([(0.6, 0.1), (0.2, 0.5)], 0.05)])
def test_the_expectation_of_a_block_is_at_most_1(shares: Shares, margin: float) -> None:
    """Exactly, over all results of a block; 1 with one class, less where classes differ."""

    def chances(first: float, other: float) -> dict[int, float]:
        return {1: first * (1 - other), -1: other * (1 - first), 0: 1 - first - other + 2 * first * other}

    expected = 0.0
    for results in product((1, -1, 0), repeat=len(shares)):
        chance = np.prod([chances(*each)[result] for each, result in zip(shares, results, strict=True)])
        expected += chance * e_values(*(results.count(result) for result in (1, -1, 0)), margin)
    assert expected <= 1 + 1e-12
    assert (len(shares) > 1) or expected == pytest.approx(1)


# Pairs that the median campaign needed with another e-process, simulated by an audit at level 0.025.
@pytest.mark.parametrize(
    ("share", "other", "margin", "pairs"),
    [(0.02, 0.14, 0.0, 75), (0.0005, 0.0092, 0.0, 722), (0.0184, 0.0277, 0.01, 908)],
)
def test_a_true_claim_needs_about_as_many_runs_as_foreseen(
    share: float, other: float, margin: float, pairs: int
) -> None:
    paths = e_paths([(share, other)], margin, campaigns=200, blocks=3 * pairs)
    shown = (paths >= 40).any(axis=1)
    assert np.median(np.where(shown, np.argmax(paths >= 40, axis=1), 3 * pairs)) < 1.4 * pairs


CLAIMS: list[dict[str, Any]] = [
    {"mode": "rio-protected", "than": "rio", "endpoint": "judged"},
    {"mode": "rio-protected", "than": "write-through", "endpoint": "judged", "margin": 20},
]


CLASSES = ("pointer", "allocation")


def rows(classes: tuple[str, ...] = CLASSES, **bad: int) -> list[dict[str, Any]]:
    """60 blocks, in the first of which so many runs of each mode are corrupted."""
    corrupted = {"write-through": 0, "rio": 0, "rio-protected": 0} | bad
    return [
        {"mode": mode, "fault_class": name, "corruption": "indirect" if block < corrupted[mode] else "none"}
        for block in range(60)
        for name in classes
        for mode in corrupted
    ]


def table(
    store: Store, trials: list[dict[str, Any]], claims: list[dict[str, Any]] = CLAIMS, name: str = "first"
) -> Any:
    spec = f"protocol: {{alpha: 0.05, claims: {claims}}}".replace("'", "")
    fill(store, *trials, classes=CLASSES, spec=spec, name=name)
    return protocol_table(read_results(store, name))


def test_claims_are_shown_in_their_order(store: Store) -> None:
    found = table(store, rows(rio=3))
    first, second = found.claims
    # The second has its evidence, but the first has too few runs that differ.
    assert (first.state, first.only_than, first.pairs, first.blocks) == ("open", 6, 120, 60)
    # Both classes differ in the same blocks.
    assert first.dispersion == pytest.approx(2) and second.dispersion is None
    assert (second.state, second.shown_at is not None, found.stop) == ("waiting", True, "")


def test_rows_count_in_the_order_of_the_plan(store: Store) -> None:
    """Not in that in which they were added: the evidence is the largest on the way."""
    planned = [trial | {"position": n} for n, trial in enumerate(rows(rio=30))]
    wanted = table(store, planned).claims[0].shown_at
    assert wanted and table(store, planned[::-1], name="backwards").claims[0].shown_at == wanted


def test_the_campaign_may_stop_when_all_claims_are_shown(store: Store) -> None:
    found = table(store, rows(rio=30))
    assert [claim.state for claim in found.claims] == ["shown", "shown"]
    assert found.stop == "all 2 claims are shown"
    # Shown is shown: the evidence is the largest so far.
    assert found.claims[0].evidence >= 1 / found.level == 20


def test_the_campaign_may_stop_when_a_claim_is_refuted(store: Store) -> None:
    one_class = [CLAIMS[0] | {"fault_classes": "[pointer]"}, CLAIMS[1]]
    found = table(store, rows(("pointer",), **{"rio-protected": 30}), one_class)
    assert [claim.state for claim in found.claims] == ["refuted", "waiting"]
    assert found.stop.startswith("a claim is refuted after 60 blocks: judged: rio-protected < rio in pointer")


def test_a_protocol_without_claims_describes(store: Store) -> None:
    """What is stored has an empty list of claims; a control that fails is told and stops nothing."""
    spec = f"protocol: {Protocol(tag='protocol/first').model_dump(mode='json')}"
    alarm = {"fault_class": "none", "corruption": "indirect"}
    results = fill(store, {}, alarm, spec=spec.replace("None", "null"))
    protocol, found = stored_protocol(results.campaign), protocol_table(results)
    assert protocol and not any(
        Monitor(protocol, [], results.campaign.vocabulary).add(row) for row in results.rows
    )
    assert (found.claims, found.stop, found.stopped) == ([], "", None)
    assert [(arm.claimed, arm.differ) for arm in found.arms] == [(False, 1)]
    assert [grid.title for grid in PROTOCOL.of(results).grids] == ["Attempts and controls by arm"]


def test_a_block_waits_for_each_class_and_for_runs_that_count() -> None:
    test = SequentialTest(
        Protocol.model_validate({"claims": CLAIMS}).claims[0], ALPHA, ["pointer", "allocation", "none"]
    )
    for mode in ("rio", "rio-protected"):
        test.add(trial(1, 0, mode=mode, fault_class="pointer", corruption="indirect"))
        test.add(trial(1, 0, "infra_error", mode=mode, fault_class="allocation"))
        test.add(trial(1, 0, mode=mode, fault_class="none"))
    assert test.blocks == 0
    test.add(trial(1, 0, mode="rio", fault_class="allocation", corruption="indirect"))
    test.add(trial(1, 0, mode="rio-protected", fault_class="allocation"))
    assert (test.blocks, test.pairs, test.only_than, test.only_mode) == (1, 2, 1, 0)


def test_a_campaign_without_a_protocol_or_with_one_of_another_riobed(store: Store) -> None:
    results = fill(store, {})
    with pytest.raises(StoreError, match="has no protocol"):
        protocol_table(results)
    results.campaign.spec += "protocol: {claims: [{mode: a, than: b, endpoint: moons}]}"
    with pytest.raises(
        StoreError, match=r"protocol is of another riobed.*endpoint 'moons' compares no modes"
    ):
        protocol_table(results)


def scores_at_the_end(shares: Shares, margin: float, both: float, campaigns: int) -> Any:
    """The test's statistic in many campaigns of 300 runs a cell; `both`: how alike runs of one seed are."""
    rng = np.random.default_rng(1996)
    drawn = []
    for first, other in shares:
        together = both * min(first, other) + (1 - both) * first * other
        chances = [first - together, other - together, 1 - first - other + together]
        drawn.append(rng.multinomial(300, chances, size=campaigns))
    only_first, only_other, _ = np.moveaxis(np.stack(drawn, axis=1), -1, 0)
    return paired_score(PairedStrata(only_first, only_other, np.full(len(shares), 300)), margin)


@pytest.mark.parametrize("both", [0.0, 0.8])
@pytest.mark.parametrize(("shares", "margin"), BORDERS)
def test_at_the_end_a_false_claim_is_shown_about_as_often_as_its_level(
    shares: Shares, margin: float, both: float
) -> None:
    scores = scores_at_the_end(shares, margin, both, campaigns=4000)
    for false in (scores < norm.ppf(ALPHA), scores > norm.ppf(1 - ALPHA)):
        assert false.mean() <= ALPHA + 3 * np.sqrt(ALPHA / 4000)


def test_by_rounds_the_level_holds_where_classes_have_a_cause_in_common() -> None:
    """There the test by pairs shows a false claim more than twice as often; without a cause both hold."""
    shares, campaigns = [(0.06, 0.06)] * 9, 1000
    for common in (0.0, 1.5):
        hits = simulated(shares, campaigns, 300, common)
        first, other = ((hits[..., n] & ~hits[..., 1 - n]).sum(axis=1) for n in (0, 1))
        by_pairs = paired_score(PairedStrata(first, other, np.full(9, 300)), 0.0) <= norm.ppf(ALPHA)
        by_rounds = [round_means(each).p(0.0) <= ALPHA for each in hits[..., 0] * 1.0 - hits[..., 1]]
        assert np.mean(by_rounds) <= ALPHA + 3 * np.sqrt(ALPHA / campaigns)
        assert (by_pairs.mean() > 2 * ALPHA) == (common > 0)


def test_by_rounds_it_is_students_test_of_their_means() -> None:
    rng = np.random.default_rng(1996)
    values = rng.integers(-1, 2, (40, 3)) * 1.0
    found, wanted = round_means(values), ttest_1samp(values.mean(axis=1), 0.02, alternative="less")
    assert found.p(0.02) == pytest.approx(wanted.pvalue)
    interval = ttest_1samp(values.mean(axis=1), 0.0).confidence_interval(0.9)
    assert (found.difference(0.9).low, found.difference(0.9).high) == pytest.approx(tuple(interval))
    # A class with some pairs less weighs the same; with one class it is the sample of its pairs.
    values[30:, 0] = np.nan
    assert round_means(values).estimate == pytest.approx(np.nanmean(values, axis=0).mean())
    alone, whole = round_means(values[:, :1]), round_means(values[:30, :1])
    assert alone.error == pytest.approx(whole.error * np.sqrt(29 / 30 * 40 / 39))


@pytest.mark.parametrize(("bound", "variance"), [(1.15, "rounds"), (2.5, "pairs")])
def test_the_table_goes_by_rounds_above_the_protocols_bound(
    store: Store, bound: float, variance: str
) -> None:
    """In each round the two classes end alike, so the dispersion is 2."""
    spec = f"protocol: {{runs: 60, dispersion: {bound}, claims: {CLAIMS[:1]}}}".replace("'", "")
    trials = [trial | {"seed": str(number // 6)} for number, trial in enumerate(rows(rio=12))]
    (claim,) = protocol_table(fill(store, *trials, classes=CLASSES, spec=spec)).claims
    assert isinstance(claim, Ended) and claim.tested and claim.tested.variance == variance
    by_round = [-1] * 12 + [0] * 48
    p = {
        "rounds": ttest_1samp(by_round, 0, alternative="less").pvalue,
        "pairs": norm.cdf(-24 / np.sqrt(24)),
    }
    assert claim.tested.p == pytest.approx(p[variance])


def test_the_score_of_pairs_is_that_of_mcnemar_and_of_tango() -> None:
    assert paired_score(PairedStrata([9], [1], [44]), 0.0) == pytest.approx(8 / 10**0.5)
    # Tango, 1998: no pair of 14 differs.
    found = paired_difference(PairedStrata([0], [0], [14]), 0.95)
    assert (found.low, found.high) == pytest.approx((-0.2153, 0.2153), abs=1e-4)


def test_claims_of_a_fixed_size_wait_for_the_end(store: Store) -> None:
    chains = [CLAIMS[0] | {"chain": "help"}, CLAIMS[1] | {"chain": "safe"}, CLAIMS[1] | {"chain": "help"}]
    trials = [trial | {"seed": str(number // 6)} for number, trial in enumerate(rows(rio=12))]
    spec = f"protocol: {{runs: 60, claims: {chains}}}".replace("'", "")
    early: Any = protocol_table(fill(store, *trials[:-1], classes=CLASSES, spec=spec, name="early"))
    assert {(each.state, each.tested) for each in early.claims} == {("unfinished", None)}
    found: Any = protocol_table(fill(store, *trials, classes=CLASSES, spec=spec, name="whole"))
    help_, safe, _ = found.claims
    assert (found.level, help_.state, safe.state, help_.only_than) == (0.0125, "shown", "shown", 24)
    assert help_.tested.difference.estimate == pytest.approx(-0.2)
    # In each round the two classes end alike.
    assert help_.dispersion == pytest.approx(2)


NOT_WORSE = CLAIMS[1] | {"chain": "safe"}
SENTENCES: dict[str, tuple[dict[str, int], list[dict[str, Any]], list[str]]] = {
    "shown": ({"rio": 12}, CLAIMS[:1], [
        "Files were wrong in fewer of the runs with rio-protected than with rio, over all fault "
        "classes: 0 of 120 (0.0 %) against 24 of 120 (20.0 %), difference -20.00 points, 95 % "
        "interval -28.04 to -13.82."]),
    "shown and above 0": ({"rio-protected": 6}, [NOT_WORSE], [
        "Files were wrong in more of the runs with rio-protected than with write-through, but by "
        "less than 20 points, over all fault classes: 12 of 120"]),
    "shown with a margin": ({"rio-protected": 1, "write-through": 3}, [NOT_WORSE], [
        "Files were wrong in less than 20 points more of the runs with rio-protected than with"]),
    "refuted": ({"rio-protected": 30}, [CLAIMS[0], NOT_WORSE], [
        "Files were wrong in more of the runs with rio-protected than with rio, over all",
        "Files were less safe with rio-protected than with write-through, by more than 20 points"]),
    "open, waiting": ({"rio": 1}, [CLAIMS[0] | {"fault_classes": "[pointer]"}, CLAIMS[1]], [
        "It was not shown that files were wrong in fewer of the runs with rio-protected than "
        "with rio, after pointer: 0 of 60 (0.0 %) against 1 of 60",
        "It waits for a claim before it whether files were wrong in less than 20 points more of the runs",
        "This campaign cannot tell."]),
    "a sharper claim that is open": ({}, [CLAIMS[1], CLAIMS[1] | {"margin": 0}], [
        "Files were wrong in less than 20 points more of the runs"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_for_each_claim_has_its_numbers(store: Store, name: str) -> None:
    bad: Any
    bad, claims, wanted = SENTENCES[name]
    trials = [trial | {"seed": str(number // 6)} for number, trial in enumerate(rows(**bad))]
    spec = f"protocol: {{runs: 60, claims: {claims}}}".replace("'", "")
    results = fill(store, *trials, classes=CLASSES, spec=spec)
    said = sentences(protocol_table(results))
    assert [each[: len(start)] for each, start in zip(said, wanted, strict=True)] == wanted
    assert not re.search("as safe as|no difference", " ".join(said), re.IGNORECASE)
    assert PROTOCOL.of(results).says == said


def test_no_sentence_of_a_campaign_that_is_not_complete_or_stopped(store: Store) -> None:
    trials = [trial | {"seed": str(number // 6)} for number, trial in enumerate(rows(rio=12))]
    spec = f"protocol: {{runs: 60, claims: {CLAIMS}}}".replace("'", "")
    alarm = {"fault_class": "none", "corruption": "indirect"}
    early = protocol_table(fill(store, *trials[:-1], classes=CLASSES, spec=spec, name="early"))
    stopped = protocol_table(fill(store, *trials, alarm, classes=CLASSES, spec=spec, name="stopped"))
    assert early.contrasts == stopped.contrasts == []
    (said,), (other,) = sentences(early), sentences(stopped)
    assert "the cell with the fewest has 59 of 60 runs" in said
    assert "was stopped by trial 360" in other and "Control failed in mode rio" in other


def test_differences_by_class_and_the_part_of_an_earlier_claim(store: Store) -> None:
    """By hand: after pointer 12 of 60 runs of rio are corrupted, after allocation 3 more of its own."""
    trials = [trial | {"seed": str(number // 6)} for number, trial in enumerate(rows(rio=12))]
    for each in trials:
        if each["fault_class"] == "allocation" and int(each["seed"]) >= 3:
            each["corruption"] = "none"
    other = [trial | {"mode": "same-fs"} for trial in trials if trial["mode"] == "rio"]
    claims = [CLAIMS[0] | {"fault_classes": "[pointer]"}, CLAIMS[0]]
    spec = f"protocol: {{runs: 60, claims: {claims}}}".replace("'", "")
    found: Any = protocol_table(fill(store, *trials, *other, classes=CLASSES, spec=spec))
    pair = {(each.mode, each.than): each for each in found.contrasts}
    mine = pair["rio-protected", "rio"]
    assert {name: each.difference.estimate for name, each in mine.classes.items()} == {
        "pointer": pytest.approx(-12 / 60), "allocation": pytest.approx(-3 / 60)
    }  # fmt: skip
    first, every = found.claims
    assert mine.classes["pointer"].difference == first.tested.difference
    assert mine.together.difference == every.tested.difference
    assert (every.part.added, every.part.number) == (pytest.approx(-6 / 60), 1)
    assert every.part.others == mine.classes["allocation"].difference and first.part is None
    assert not pair["same-fs", "rio"].claimed and pair["same-fs", "rio"].together.both == 15


def test_a_run_that_never_gives_a_result_counts_against_a_claim_and_refutes_none(store: Store) -> None:
    claims = [CLAIMS[0], CLAIMS[0] | {"mode": "rio", "than": "rio-protected", "chain": "other"}]
    spec = f"protocol: {{runs: 60, claims: {claims}}}".replace("'", "")
    trials: list[dict[str, Any]] = [
        trial | {"seed": str(n // 6), "position": n} for n, trial in enumerate(rows(rio=12))
    ]

    def campaign(name: str, lost: int, attempts: int) -> Any:
        """One in which the last `lost` runs of rio-protected failed so often, and ended after one failure."""
        failing = [each for each in trials if each["mode"] == "rio-protected"][-lost:]
        others = [each for each in trials if each not in failing]
        failed = [
            {**each, "corruption": None, "outcome": "infra_error", "attempt": n + 1}
            for each in failing
            for n in range(attempts)
        ]
        ended = [each | {"attempt": 2} for each in failing] if attempts == 1 else []
        return protocol_table(fill(store, *others, *failed, *ended, classes=CLASSES, spec=spec, name=name))

    # A run has an attempt left.
    assert {each.state for each in campaign("early", lost=1, attempts=3).claims} == {"unfinished"}
    first, other = campaign("few", lost=1, attempts=4).claims
    assert (first.state, first.only_mode, first.only_than, first.pairs) == ("shown", 1, 24, 120)
    assert (first.tested.no_result, first.tested.difference.estimate) == (1, pytest.approx(-23 / 120))
    assert (other.state, other.only_mode, other.only_than) == ("refuted", 25, 0)
    # As many as hits: nothing is shown, and they refute nothing.
    first, other = campaign("many", lost=24, attempts=4).claims
    assert (first.state, other.state, other.only_mode) == ("open", "open", 48)
    assert first.tested == first.sensitivity and first.tested.p == pytest.approx(0.5)
    # Retries that gave a result change the sensitivity alone.
    first, _ = campaign("again", lost=24, attempts=1).claims
    assert (first.state, first.tested.no_result, first.sensitivity.no_result) == ("shown", 0, 24)
    assert first.tested.p < 1e-5 and first.sensitivity.p == pytest.approx(0.5)


# Fields of a row that is a false alarm, or a missed change.
ALARMS: list[Callable[[], dict[str, Any]]] = [
    lambda: {"fault_class": "none", "corruption": "indirect"},
    lambda: {"fault_class": "panic", "corruption": "unclassified"},
    lambda: planted("written", "none"),
]


@pytest.mark.parametrize("alarm", ALARMS)
def test_a_control_that_judges_files_wrongly_stops_a_campaign(
    store: Store, alarm: Callable[[], dict[str, Any]]
) -> None:
    """Only in an arm that a claim names; no claim is shown after it, whatever its runs say."""
    spec = f"protocol: {{runs: 60, claims: {CLAIMS}}}".replace("'", "")
    runs = [trial | {"seed": str(number // 6)} for number, trial in enumerate(rows(rio=30))]

    def told() -> list[dict[str, Any]]:
        return [
            # By chance a mode that loses what it has not written may lose nothing.
            {"mode": "delayed", "fault_class": "none"},
            {"fault_class": "none", "recovery": recovered(corrupt=2)},
            alarm() | {"mode": "write-through-same-fs"},
            planted("stray", "indirect", recovery=recovered()),
        ]

    fine: Any = protocol_table(fill(store, *runs, *told(), classes=CLASSES, spec=spec, name="fine"))
    assert fine.stopped is None and fine.claims[0].state == "shown"
    arms = {arm.mode: (arm.claimed, arm.differ + arm.missed, arm.other) for arm in fine.arms}
    assert arms["rio"] == (True, 0, 2) and arms["write-through-same-fs"] == (False, 1, 0)
    results = fill(store, *runs, *told(), alarm() | {"finished": "2026-01-09"}, classes=CLASSES, spec=spec)
    found: Any = protocol_table(results)
    assert {(claim.state, claim.tested) for claim in found.claims} == {("stopped", None)}
    assert (found.stopped.position, found.stopped.finished) == (len(runs) + len(told()), "2026-01-09")
    assert "Control failed in mode rio: a " in PROTOCOL.of(results).grids[0].foot[0][1]
    # The running campaign says the same, at the same trial.
    protocol = stored_protocol(results.campaign)
    assert protocol
    monitor = Monitor(protocol, CLASSES, results.campaign.vocabulary)
    said = [monitor.add(row) for row in results.rows]
    assert [*filter(None, said)] == [said[-1]] == [found.stopped.reason]


@pytest.mark.parametrize("endpoint", ["wrong-checksum-judged", "checksums", "canary"])
def test_no_claim_compares_modes_by_what_protection_changes(endpoint: str) -> None:
    with pytest.raises(ValueError, match=f"'{endpoint}' compares no modes; these do: corruption, .* judged"):
        Protocol.model_validate({"claims": [CLAIMS[0] | {"endpoint": endpoint}]})


def plan(runs: int = 300, **truths: tuple[float, float]) -> dict[str, Any]:
    """Runs of two modes in nine classes, not worse by 2 points and then better."""
    claims = [{"mode": "a", "than": "b", "endpoint": "judged", "margin": margin} for margin in (2, 0)]
    shares = {name: {f"class {n}": {"a": a, "b": b} for n in range(9)} for name, (a, b) in truths.items()}
    return {"protocol": {"runs": runs, "alpha": 0.0125, "claims": claims}, "truths": shares}


def test_the_power_of_one_analysis() -> None:
    found = power_table(
        PowerPlan.model_validate(plan(border=(0.08, 0.06), equal=(0.06, 0.06), less=(0.03, 0.06)))
    )
    not_worse, better = found.claims.values()
    # The level at its border; then 2 points are 3.09 standard errors of sqrt(2 * 0.06 * 0.94 / 2700), 2.24 of
    # which the level takes; then 3 points are 5.3 of its own.
    assert not_worse["border"] == pytest.approx(0.0125, abs=0.008) and better["border"] == 0
    assert not_worse["equal"] == pytest.approx(0.80, abs=0.03) and better["equal"] < 0.03
    assert not_worse["less"] >= better["less"] > 0.99


def test_the_plan_of_a_draft_has_the_protocol_of_its_spec() -> None:
    checkout = Path(__file__).parents[2]
    spec = yaml.safe_load((checkout / "harness/specs/table1-v2/spec.yaml").read_text())
    found = read_plan(checkout / "docs/protocols/table1-v2-power.yaml")
    assert found.protocol == Protocol.model_validate(spec["protocol"])
    assert {frozenset(truth) for truth in found.truths.values()} == {frozenset(spec["fault_classes"])}


def test_a_plan_is_read_and_refused(publishing: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    whole = plan(equal=(0.06, 0.06), runs=10)
    for change, said in (
        ({}, ""),
        ({"protocol": {"claims": CLAIMS}}, "protocol.runs: want a number from 2 to 3000"),
        ({"truths": {"odd": {"pointer": {"a": 0.1}}}}, "truth 'odd': 'b' is none of the modes"),
        ({"truths": {"odd": {}}}, "truth 'odd'"),
        ({"truths": {"odd": {"x": {"a": 0, "b": 0}, "y": {"a": 0}}}}, "want the same modes in each class"),
    ):
        path.write_text(str(whole | change))
        result = publishing("power", path)
        if said:
            assert isinstance(result.exception, StoreUsageError) and said in str(result.exception)
        else:
            assert "| judged: a &lt; b + 2 points | 0." in result.stdout
    path.write_text("a: [")
    assert "no YAML" in str(publishing("power", path).exception)
    assert "No such file" in str(publishing("power", tmp_path / "none").exception)
