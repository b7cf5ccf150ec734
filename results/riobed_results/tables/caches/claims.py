# SPDX-License-Identifier: Apache-2.0
"""The table of claims of papers: sentences as rules, tried on every trace."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from riobed_caches.rows import CacheRow, ConsistencyRow, LifetimeRow

from riobed_results.tables.caches.clients import MIB, STARTS, by_extra, equal_volatile, net, ratio, total
from riobed_results.tables.caches.grids import Column, Definition, Study, Value, Values, study_table
from riobed_results.tables.caches.lifetimes import DEATHS
from riobed_results.tables.caches.papers import GENERATOR
from riobed_results.tables.caches.servers import accesses

HOLDS, REFUTED, UNKNOWN = "holds", "does not hold", "cannot be told"
# The generator was given what the sentence says.
INPUT = "is an input"


@dataclass(frozen=True)
class Facts:
    """What a study has of one trace."""

    lifetimes: Mapping[float, LifetimeRow]
    caches: list[CacheRow]
    opens: ConsistencyRow | None
    block: int

    def net(self, model: str, size: int, start: int = STARTS[0]) -> float | None:
        """Return the share of written bytes that is sent with `size` bytes of NVRAM."""
        row = by_extra(self.caches, model, start).get(size)
        return net(row) if row else None

    def total(self, model: str, size: int, start: int = STARTS[0]) -> float | None:
        """Return the share of moved bytes that goes to or from the server with `size` bytes added."""
        row = by_extra(self.caches, model, start).get(size)
        return total(row) if row else None


OPENS = ("opens and closes", "clients")
# What a rule found, as people read it, and whether it holds; None if the trace cannot tell.
Found = tuple[str, bool] | None


@dataclass(frozen=True)
class Rule:
    """A sentence of a paper, where it stands, how a trace is asked, and what the trace must have.

    `given`: generated traces were fitted to it.
    """

    paper: str
    says: str
    ask: Callable[[Facts], Found]
    needs: tuple[str, ...] = DEATHS
    given: bool = False


def _die_young(facts: Facts) -> Found:
    row = facts.lifetimes.get(30.0)
    if not row or not row.written:
        return None
    die = 1 - row.sent / row.written
    return f"{100 * die:.0f} %", 0.35 <= die <= 0.50


def _small_nvram(facts: Facts) -> Found:
    sent = facts.net("omniscient", MIB // 8, 0)
    return None if sent is None else (f"{100 * (1 - sent):.0f} %", 0.30 <= 1 - sent <= 0.50)


def _random_near_lru(facts: Facts) -> Found:
    lru, random = facts.net("unified", MIB), facts.net("unified-random", MIB)
    # Nothing was replaced if both are equal.
    if lru is None or random is None or lru == random:
        return None
    return f"{100 * (random - lru):+.2f} points", abs(random - lru) <= 0.05


def _omniscient(facts: Facts) -> Found:
    pairs = [
        (facts.net("unified", size), facts.net("omniscient", size, 0))
        for size in by_extra(facts.caches, "omniscient", 0)
    ]
    gaps = [lru - best for lru, best in pairs if lru is not None and best is not None]
    return (f"{100 * max(gaps):.1f} points at most", max(gaps) <= 0.22) if any(gaps) else None


def _unified_first(facts: Facts) -> Found:
    unified, aside = facts.total("unified", 4 * MIB), facts.total("write-aside", 4 * MIB)
    # A workload that fits into either has the same traffic in both, which says nothing of them.
    if unified is None or aside is None or unified == aside:
        return None
    return f"{100 * unified:.0f} and {100 * aside:.0f} %", unified < aside


def _little_is_worse(facts: Facts) -> Found:
    sizes = [size for size in by_extra(facts.caches, "unified", STARTS[0]) if size < MIB // 2]
    pairs = [(facts.total("volatile", size), facts.total("unified", size)) for size in sizes]
    told = [(plain, nv) for plain, nv in pairs if plain is not None and nv is not None]
    if not told:
        return None
    worse = sum(nv > plain for plain, nv in told)
    return f"at {worse} of {len(told)} sizes", worse == len(told)


def _half_is_six(facts: Facts) -> Found:
    sent = facts.total("unified", MIB // 2, STARTS[1])
    volatile = by_extra(facts.caches, "volatile", STARTS[1])
    if sent is None or len(volatile) < 2:
        return None
    same = equal_volatile(volatile, sent)
    if same is None:
        return f"more than {max(volatile) / MIB:.0f} MB", True
    return f"{same / MIB:.1f} MB", same >= 6 * MIB


def _versus(facts: Facts, size: int, value: Callable[[CacheRow], int]) -> float | None:
    models = ("write-aside", "unified")
    aside, unified = (by_extra(facts.caches, model, STARTS[0]).get(size) for model in models)
    return ratio(value(unified), value(aside)) if aside and unified else None


def _less_bus(facts: Facts) -> Found:
    over = _versus(facts, MIB, lambda row: row.bus)
    return None if over is None else (f"{100 * (1 - over):.0f} % less", over <= 0.75)


def _more_accesses(facts: Facts) -> Found:
    over = _versus(facts, 8 * MIB, lambda row: row.safe_reads + row.safe_writes)
    return None if over is None else (f"{over:.2f} times", 2.0 <= over <= 2.5)


def _few_recalls(facts: Facts) -> Found:
    if not facts.opens or not facts.opens.opens:
        return None
    share = (facts.opens.recalls - facts.opens.late_recalls + facts.opens.stopped) / facts.opens.opens
    return f"{100 * share:.2f} %", share < 0.01


def _storage(facts: Facts, better: str, worse: tuple[str, ...]) -> Found:
    of = {(r.model, r.volatile, r.safe): accesses(r, facts.block) for r in facts.caches}
    places = sorted({(v, s) for model, v, s in of if model == better})
    all_told = [(of[better, v, s], [of[m, v, s] for m in worse if (m, v, s) in of]) for v, s in places]
    # Where all need as many accesses, the workload fits in, and nothing is told.
    told = [(first, others) for first, others in all_told if set(others) - {first}]
    if not told:
        return None
    good = sum(first <= min(others) for first, others in told)
    return f"at {good} of {len(told)} sizes that differ", good == len(told)


RULES = (
    Rule("000, 2.3", "35 to 50 % of bytes die within 30 s", _die_young, given=True),
    Rule("000, 2.4", "⅛ MB of omniscient NVRAM avoids 30 to 50 % of the writes", _small_nvram),
    Rule("000, 2.5", "random replacement is nearly as good as LRU (5 points, 1 MB)", _random_near_lru),
    Rule("000, 2.5", "omniscient is at most 22 % better than LRU", _omniscient),
    Rule("000, 2.6", "unified has less traffic than write-aside (4 MB added)", _unified_first),
    Rule("000, 2.6", "below ½ MB, NVRAM is worse than volatile memory", _little_is_worse),
    Rule("000, 2.7", "½ MB of NVRAM on 16 MB is worth 6 MB of volatile memory", _half_is_six),
    Rule("000, 2.6", "unified moves 25 % less on the memory bus (1 MB)", _less_bus),
    Rule("000, 2.6", "unified accesses NVRAM 2 to 2½ times as often (8 MB)", _more_accesses),
    Rule("004, 7", "less than 1 % of opens make the server act", _few_recalls, OPENS, given=True),
    Rule("003, 4", "NBM needs no more accesses than NVLRU", lambda facts: _storage(facts, "nbm", ("nvlru",))),
    Rule(
        "003, 2",
        "NV-MIN needs the fewest accesses",
        lambda facts: _storage(facts, "nv-min", ("nvlru", "nbm")),
    ),
)


def verdicts(study: Study) -> list[tuple[Rule, str, str, str]]:
    """Return for each rule and trace: the rule, the trace, what was found, and the verdict."""
    lifetimes, caches, opens = study.rows(LifetimeRow), study.rows(CacheRow), study.rows(ConsistencyRow)
    out = []
    for trace in study.traces:
        name = trace.trace
        facts = Facts(
            {row.delay: row for row in lifetimes if row.trace == name},
            [row for row in caches if row.trace == name],
            next((row for row in opens if row.trace == name and trace.clients > 1), None),
            trace.block,
        )
        for rule in RULES:
            found = rule.ask(facts) if name in study.able(*rule.needs)[0] else None
            what, verdict = (found[0], HOLDS if found[1] else REFUTED) if found else ("-", UNKNOWN)
            if rule.given and trace.recorder == GENERATOR:
                verdict = INPUT
            out.append((rule, name, what, verdict))
    return out


def _claims(study: Study) -> tuple[list[Values], list[str]]:
    columns = [Column(name=name) for name in ("Paper", "It says", "Trace", "Found", "Verdict")]
    lines: list[list[Value]] = [
        [rule.paper, rule.says, trace, what, verdict] for rule, trace, what, verdict in verdicts(study)
    ]
    lines.sort(key=lambda line: [rule.says for rule in RULES].index(str(line[1])))
    return [Values(title="Sentences of papers", columns=columns, lines=lines)], []


CLAIMS = study_table(
    Definition(
        name="claims-of-papers",
        title="Claims of papers",
        help="Sentences of the papers as rules, tried on every trace.",
        build=_claims,
        note="A rule holds for one workload or does not; it is not refuted for another. Where all models "
        "have the same value, the workload fits into memory, and nothing is told.",
    )
)
