# SPDX-License-Identifier: Apache-2.0
"""Adjudication: two readers say of each corruption what caused it, without its mode; do they agree?"""

import csv
import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from pydantic import BaseModel
from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.rules.endpoints import differs, result
from riobed_results.stats.proportions import Share, share_of
from riobed_results.store import Provenance, Results, Row, TrialRow, in_order, judged
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import UNKNOWN, count_text, interval_text
from riobed_results.tables.framework.table import campaign_page
from riobed_results.text import printable

# What a reader may answer.
CATEGORIES = {
    "stray-store": "a store to a wrong address hit cached data, its metadata or the registry",
    "lost-write": "a write that was reported as done is missing, undone or old",
    "wrong-place": "data or a request went to another place, file or page than it was meant for",
    "wrong-metadata": "names, inodes, sizes or types are wrong or gone",
    "total-loss": "nothing of the tree is left, or the file system cannot be used",
    "no-corruption": "nothing was lost: the harness or the oracle is wrong",
    "unclear": "the evidence does not say",
}
HEAD = ["case", "category", "text"]


class Answer(BaseModel):
    """What a reader says of a case."""

    category: str
    text: str


class Revealed(BaseModel):
    """A case with what was hidden from its readers."""

    case: str
    position: int
    mode: str
    fault_class: str
    outcome: str
    corruption: str
    first: Answer
    second: Answer


class Adjudication(BaseModel):
    """How two readers agree; `kappa` is Cohen's, with its 95 % interval, None where it is not defined.

    `agreement` is the share of cases in which they agree, with its exact interval. `cases` are those that
    both have answered, `disagreed` maps a case to the two answers. `revealed` is empty before
    the modes are shown.
    """

    campaign: str
    total: int
    cases: int
    agreed: int
    agreement: Share
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    answers: dict[str, dict[str, int]]
    disagreed: dict[str, tuple[Answer, Answer]]
    modes: list[str]
    revealed: list[Revealed]
    environment: Provenance


def cases(results: Results, seed: int) -> dict[str, TrialRow]:
    """Return the corruptions by faults by the names of their cases, shuffled by the seed.

    Modes that must lose data are left out. StoreError if there is no corruption.
    """
    losing = results.campaign.vocabulary.losing

    def wanted(row: Row) -> bool:
        return result(row) and judged(row) and differs(row) and row.mode not in losing

    ids = [trial for _, trial in sorted((at, trial) for _, trial, at in results.each("position", wanted))]
    if not ids:
        raise results.without("corruption to adjudicate")
    random.Random(f"{seed}/adjudicate").shuffle(ids)
    rows = {row.id: row for row in results.rows_at(ids)}
    return {f"{number:03}": rows[trial] for number, trial in enumerate(ids, 1)}


def digest(campaign: str, found: Mapping[str, TrialRow]) -> str:
    """Return a hash that tells whether two lists of cases are the same; it does not reveal them."""
    text = "\n".join([campaign, *(f"{case} {row.position} {row.seed}" for case, row in found.items())])
    return hashlib.sha256(text.encode()).hexdigest()


def template(found: Sequence[str]) -> str:
    """Return a file of answers that are still to be given."""
    return csv_text(HEAD, ([case, "", ""] for case in found))


def read_answers(path: Path, known: Sequence[str]) -> dict[str, Answer]:
    """Read a reader's file; a case without a category is left out.

    Raises StoreError if the file cannot be read, or has a case or a category that there is not.
    """
    try:
        lines = list(csv.DictReader(StringIO(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, csv.Error) as error:
        raise StoreError(f"answers {path}: {error}; give a file that was made from answers.csv") from None
    found: dict[str, Answer] = {}
    for number, line in enumerate(lines, 2):
        case, category = (line.get("case") or "").strip(), (line.get("category") or "").strip()
        if case not in known or case in found:
            raise StoreError(f"answers {path}, line {number}: {case!r} is no case, or is there twice")
        if category and category not in CATEGORIES:
            raise StoreError(
                f"answers {path}, line {number}: unknown category {category!r}; "
                f"there are: {', '.join(CATEGORIES)}"
            )
        if category:
            found[case] = Answer(category=category, text=(line.get("text") or "").strip())
    return found


def adjudicate(
    results: Results, seed: int, first: Mapping[str, Answer], second: Mapping[str, Answer], reveal: bool
) -> Adjudication:
    """Compare the answers of two readers; `reveal` adds what was hidden from them.

    Raises StoreUsageError if it is to be revealed before both have answered every case.
    """
    found = cases(results, seed)
    if reveal and (open_cases := [case for case in found if case not in first or case not in second]):
        raise StoreUsageError(
            f"adjudication: {len(open_cases)} cases have no answer of both readers, the first "
            f"{open_cases[0]}; reveal the modes when all have one"
        )
    both = [(case, first[case], second[case]) for case in found if case in first and case in second]
    kappa = _kappa([(mine.category, yours.category) for _, mine, yours in both])
    agreed = sum(mine.category == yours.category for _, mine, yours in both)
    return Adjudication(
        campaign=results.campaign.name,
        total=len(found),
        cases=len(both),
        agreed=agreed,
        agreement=share_of(agreed, len(both)),
        kappa=kappa[0],
        kappa_low=kappa[1],
        kappa_high=kappa[2],
        answers=_crossed([(mine.category, yours.category) for _, mine, yours in both]),
        disagreed={case: (mine, yours) for case, mine, yours in both if mine.category != yours.category},
        modes=in_order(results.campaign, "modes", (row.mode for row in found.values())) if reveal else [],
        revealed=[_revealed(case, found[case], mine, yours) for case, mine, yours in both if reveal],
        environment=results.campaign.provenance,
    )


def _crossed(pairs: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return how often the first reader gave one category and the second another, those used alone."""
    count = Counter(pairs)
    used = [name for name in CATEGORIES if any(name in pair for pair in pairs)]
    return {mine: {yours: count[mine, yours] for yours in used} for mine in used}


def _kappa(pairs: Sequence[tuple[str, str]]) -> tuple[float | None, float | None, float | None]:
    """Return Cohen's kappa with its interval (Cohen, Educational and Psychological Measurement 20, 1960).

    It is not defined where both readers gave one and the same category to all cases. Its interval is not
    where they agree in all: the standard error is then 0, whatever the number of cases.
    """
    crossed = _crossed(pairs)
    if len(crossed) < 2:
        return None, None, None
    from statsmodels.stats.inter_rater import cohens_kappa  # the import takes seconds

    table = [list(line.values()) for line in crossed.values()]
    found = cohens_kappa(table)
    if all(mine == yours for mine, yours in pairs):
        return float(found.kappa), None, None
    return float(found.kappa), float(found.kappa_low), float(found.kappa_upp)


def _revealed(case: str, row: TrialRow, first: Answer, second: Answer) -> Revealed:
    return Revealed(
        case=case,
        position=row.position,
        mode=row.mode,
        fault_class=row.fault_class,
        outcome=row.outcome,
        corruption=row.corruption or "",
        first=first,
        second=second,
    )


NOTE = (
    "Two readers said of each corruption what caused it, from its faults, its log and the bytes that differ, "
    "without the mode. Agreed: with the exact 95 % interval of the share. Kappa: Cohen's, 1 if they agree in "
    "all, 0 if no oftener than by chance, with its 95 % interval, which is not defined if they agree in all. "
    "Where they disagree neither is right: they have to talk, and the first answers stay. Kernel logs tell "
    "an expert some of what was hidden: a trap, a function of the journal."
)


def adjudication_page(table: Adjudication) -> Page:
    """Return the page: agreement, answers crossed, disagreements, and the modes once they are shown."""
    agreed = count_text(table.agreed, table.cases)
    line = [str(table.total), str(table.cases), agreed, interval_text(table.agreement), *_kappa_cells(table)]
    head = ["Cases", "Answered by both", "Agreed", "95 % interval", "Kappa", "95 % interval"]
    grids = [Grid("Agreement", head, [line], [])]
    if table.answers:
        crossed = [[name, *map(str, counts.values())] for name, counts in table.answers.items()]
        grids.append(Grid("First reader by second", ["", *table.answers], crossed, []))
    if table.disagreed:
        lines = [
            [case, *map(printable, (mine.category, yours.category, mine.text, yours.text))]
            for case, (mine, yours) in table.disagreed.items()
        ]
        head = ["Case", "First", "Second", "First says", "Second says"]
        grids.append(Grid("Disagreements", head, lines, []))
    if table.revealed:
        grids += [_causes(table), _modes(table)]
    return campaign_page(table, grids, NOTE, _csv(table))


def _kappa_cells(table: Adjudication) -> tuple[str, str]:
    if table.kappa is None:
        return UNKNOWN, UNKNOWN
    if table.kappa_low is None:
        return f"{table.kappa:.2f}", UNKNOWN
    return f"{table.kappa:.2f}", f"{table.kappa_low:.2f} to {table.kappa_high:.2f}"


def _causes(table: Adjudication) -> Grid:
    """Return how many corruptions of each mode both readers put into a category."""
    count = Counter((_agreed(each), each.mode) for each in table.revealed)
    names = [name for name in (*CATEGORIES, _DISAGREED) if any(of == name for of, _ in count)]
    body = [[name, *(str(count[name, mode]) for mode in table.modes)] for name in names]
    totals = [sum(each.mode == mode for each in table.revealed) for mode in table.modes]
    return Grid("Causes by mode", ["", *map(printable, table.modes)], body, [["Total", *map(str, totals)]])


_DISAGREED = "disagreed"


def _agreed(each: Revealed) -> str:
    return each.first.category if each.first.category == each.second.category else _DISAGREED


def _modes(table: Adjudication) -> Grid:
    head = ["Case", "Position", "Mode", "Fault class", "Ended", "Corruption", "First", "Second"]
    body = [
        [each.case, str(each.position),
         *map(printable, (each.mode, each.fault_class, each.outcome, each.corruption)),
         each.first.category, each.second.category]
        for each in table.revealed
    ]  # fmt: skip
    return Grid("The cases revealed", head, body, [])


def _csv(table: Adjudication) -> str:
    names = ("position", "mode", "fault_class", "outcome", "corruption")
    if table.revealed:
        lines = [
            [each.case, *(getattr(each, name) for name in names), *_answers(each.first, each.second)]
            for each in table.revealed
        ]
        return csv_text(["case", *names, *_ANSWERS], lines)
    return csv_text(["case", *_ANSWERS], ([case, *_answers(*pair)] for case, pair in table.disagreed.items()))


_ANSWERS = ("first", "first_text", "second", "second_text")


def _answers(first: Answer, second: Answer) -> list[str]:
    return [first.category, first.text, second.category, second.text]
