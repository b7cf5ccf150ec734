# SPDX-License-Identifier: Apache-2.0
"""What a page may say of a protocol's claims: a sentence for each claim and its state, with its numbers."""

from collections.abc import Iterable

from riobed_results.rules.endpoints import ENDPOINTS, differs
from riobed_results.rules.protocol import Claim
from riobed_results.tables.corruption.protocol import Claimed, Ended, ProtocolTable
from riobed_results.tables.framework.shares import count_text, points_text


def sentences(table: ProtocolTable) -> list[str]:
    """Return what may be said of a campaign's claims, in their order.

    One sentence stands for all claims of a campaign that was stopped, or is not complete.
    """
    if not table.claims:
        return []
    if table.stopped:
        return [f"The campaign was stopped {table.stopped}. Nothing is said of its claims."]
    if table.incomplete:
        return [f"The campaign is not complete: {table.incomplete}. Nothing is said of its claims before."]
    claims = [each.claim for each in table.claims]
    said = [sentence(each, table.level, claims[:number]) for number, each in enumerate(table.claims)]
    if table.runs and not any(each.state in ("shown", "refuted") for each in table.claims):
        said.append("This campaign cannot tell.")
    return list(filter(None, said))


def sentence(each: Claimed, level: float, earlier: Iterable[Claim] = ()) -> str:
    """Return what may be said of a claim that is tested at `level`, after those `earlier` in the protocol.

    It is empty for an open claim that is a sharper form of an earlier one: that one's sentence has the same
    numbers.
    """
    sharper = (each.claim.model_copy(update={"margin": other.margin, "chain": other.chain}) == other
               and other.margin > each.claim.margin for other in earlier)  # fmt: skip
    if each.state in ("unfinished", "stopped"):
        return f"Nothing is said of the claim {each.text}, because it is {each.state}."
    if each.state == "open" and any(sharper):
        return ""
    classes = each.claim.fault_classes
    where = f"after {' and '.join(classes)}" if classes else "over all fault classes"
    return f"{_statement(each)}, {where}: {_numbers(each, level)}.{_more(each)}"


def _statement(each: Claimed) -> str:
    claim = each.claim
    modes, by = f"with {claim.mode} than with {claim.than}", f"{claim.margin:g} points"
    files = ENDPOINTS[claim.endpoint].hit is differs
    what = "files were wrong" if files else f"the endpoint {claim.endpoint} was hit"
    runs = "runs" if claim.endpoint == "judged" else f"runs that {claim.endpoint} counts"
    claimed = f"{what} in {f'less than {by} more' if claim.margin else 'fewer'} of the {runs} {modes}"
    if each.state == "open":
        return f"It was not shown that {claimed}"
    if each.state == "waiting":
        return f"It waits for a claim before it whether {claimed}"
    if each.state == "shown":
        above = isinstance(each, Ended) and each.tested and each.tested.difference.low > 0
        more = f"{what} in more of the {runs} {modes}, but by less than {by}"
        return _capital(more if claim.margin and above else claimed)
    if claim.margin and files:
        return f"Files were less safe {modes}, by more than {by} of the {runs}"
    return _capital(f"{what} in more of the {runs} {modes}") + (
        f", by more than {by}" if claim.margin else ""
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _numbers(each: Claimed, level: float) -> str:
    mode, than = (count_text(each.both + only, each.pairs) for only in (each.only_mode, each.only_than))
    counts = f"{mode} against {than}"
    if not isinstance(each, Ended):
        # An interval that holds at any look is not computed.
        return counts
    if not each.tested:
        return f"{counts}, not tested"
    difference, interval = points_text(each.tested.difference)
    return f"{counts}, difference {difference} points, {100 * (1 - 2 * level):.3g} % interval {interval}"


def _more(each: Claimed) -> str:
    if not isinstance(each, Ended) or not each.tested:
        return ""
    lost, part, more = each.tested.no_result, each.part, ""
    if lost:
        more += f" Pairs without a result, which count against it: {lost}."
    if part:
        others, interval = points_text(part.others)
        more += (
            f" Of these points {100 * part.added:+.2f} are of {' and '.join(part.classes)}. In the other "
            f"fault classes alone ({part.number}) the difference is {others} points ({interval})."
        )
    return more
