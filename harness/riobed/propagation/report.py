# SPDX-License-Identifier: Apache-2.0
"""What `riobed replay --propagation` reports: the activated faults, and the events of each damaged page."""

from dataclasses import asdict
from typing import Any

from riobed_results.store import with_symbols

from riobed.faults import Fault
from riobed.guest import Guest
from riobed.guest.memory.registry import CHANGING, METADATA, STATE_MASK
from riobed.propagation.damage import Damage, damages
from riobed.propagation.follower import BlockRef, Follower, PropagationPath
from riobed.propagation.log import Event, EventLog
from riobed.propagation.stores import stores_text
from riobed.propagation.symbols import Symbols
from riobed.trial import Evidence, TrialRecord, fault_row, name_callers

# Events printed per page; the JSON answer has more.
_PRINTED = 30
_CALLERS = 5
_STATES = {0: "free", 1: "clean", 2: "dirty"}


def propagation_report(guest: Guest, record: TrialRecord, log: EventLog, symbols: Symbols) -> dict[str, Any]:
    """Return the propagation from faults to damaged pages, from the log of the trial that just ended.

    Times are seconds of guest time since injection; without faults, since the log began.
    """
    evidence, found = record.evidence, damages(guest, record)
    start_ns = min(evidence.injected.values(), default=None)
    places = [place for damage in found for place in damage.places]
    follower = Follower(places, start_ns, evidence.activated.values())
    paths = {path.place: path for path in follower.follow(log.events())}
    formatter = _Formatter(symbols, start_ns if start_ns is not None else follower.first_ns or 0)
    return {
        "log": {
            "events": len(log.lines),
            "unreadable": log.unreadable,
            "lost": log.lost,
            "begins_s": None if follower.first_ns is None else formatter.seconds(follower.first_ns),
        },
        "activated": [
            formatter.fault(fault, evidence, follower)
            for fault in record.faults
            if fault.index in evidence.activated
        ],
        "planted": record.plant.as_stored() if record.plant else None,
        "damaged": formatter.damaged(found, paths),
    }


class _Formatter:
    """Formats what was found as the answer."""

    def __init__(self, symbols: Symbols, origin_ns: int) -> None:
        self._symbols = symbols
        self._origin_ns = origin_ns

    def seconds(self, ns: int) -> float:
        return round((ns - self._origin_ns) / 1e9, 6)

    def event(self, event: Event) -> dict[str, Any]:
        """Return an event with the words of the log, with codes spelled out."""
        words: dict[str, Any] = dict(event.words)
        words |= {name: f"{words[name]:#x}" for name in ("pfn", "crc", "ip", "address") if name in words}
        if event.kind == "entry":
            words["state"] = _state(event.words["state"])
        if event.kind == "write":
            words["of"] = {"f": "file", "b": "device"}.get(chr(event.words["of"]), "other")
        if event.kind == "trap":
            words["function"] = self._symbols.name(event.words["ip"] + 1)
        return {
            "s": self.seconds(event.ns),
            "kind": event.kind,
            "cpu": event.cpu,
            "pid": event.pid,
            "task": event.task,
            **words,
            "callers": self._symbols.callers(event.callers),
        }

    def fault(self, fault: Fault, evidence: Evidence, follower: Follower) -> dict[str, Any]:
        row = fault_row(fault, evidence)
        name_callers([row], self._symbols.name)
        return {
            "index": fault.index,
            "s": row.activated_s,
            "function": row.function,
            "old": row.old_asm,
            "new": row.new_asm,
            "params": row.params,
            "changing": [
                {"ino": change.ino, "index": change.index, "begun": self.event(change.event)}
                for change in follower.changing.get(evidence.activated[fault.index], [])
            ],
        }

    def damaged(self, found: list[Damage], paths: dict[BlockRef, PropagationPath]) -> list[dict[str, Any]]:
        """Return each damaged page with what the oracles say of it, and damage that has no page."""
        without = [{"what": [damage.what], "place": None} for damage in found if not damage.places]
        return without + [
            {
                "what": [damage.what for damage in found if place in damage.places],
                "place": asdict(place),
                "events_total": path.total,
                "before": self.event(path.before) if path.before else None,
                "events": [self.event(event) for event in path.events],
            }
            for place, path in paths.items()
        ]


def _state(state: int) -> str:
    name = _STATES.get(state & STATE_MASK, f"state {state & STATE_MASK}")
    flags = {METADATA: "metadata", CHANGING: "being changed"}
    return ", ".join([name, *(word for flag, word in flags.items() if state & flag)])


def propagation_text(answer: dict[str, Any]) -> list[str]:
    """Return the answer as lines of text."""
    log = answer["log"]
    lines = [f"Propagation log: {log['events']} events, {log['unreadable']} lines unreadable"]
    if log["lost"]:
        lines.append(f"  It begins at {log['begins_s']:+.6f} s: {log['lost']} events before are lost")
    if answer["planted"]:
        lines.append("Planted: " + _pairs(answer["planted"]))
    else:
        lines.append(
            "Faults activated:" if answer["activated"] else "No fault is known to have been activated."
        )
    for fault in answer["activated"]:
        lines += _fault_lines(fault)
    lines += stores_text(answer["canary"]) if "canary" in answer else []
    if not answer["damaged"]:
        lines.append("Nothing is damaged.")
    for damage in answer["damaged"]:
        lines += _damage_lines(damage)
    return lines


def _fault_lines(fault: dict[str, Any]) -> list[str]:
    text_changed = f"{fault['old']} became {fault['new']}" if fault["old"] else ""
    change = text_changed or _pairs(with_symbols(fault["params"]))
    where = f" in {fault['function']}" if fault["function"] else ""
    lines = [f"  {fault['s']:+.6f} s  fault {fault['index']}{where}: {change}"]
    for page in fault["changing"]:
        page_frame = f"{_page(page)}, frame {page['begun']['pfn']}"
        lines.append(f"    while {page_frame}, was being changed, since {_event(page['begun'])}")
    return lines


def _damage_lines(damage: dict[str, Any]) -> list[str]:
    lines = [f"Damaged: {what}" for what in damage["what"]]
    place = damage["place"]
    if place is None:
        return [*lines, "  there is no page (any more) to follow"]
    block = f", block {place['block']} of the device" if place["ino"] and place["block"] else ""
    frames = [event["pfn"] for event in damage["events"] if "pfn" in event]
    frame = f", frame {frames[-1]}" if frames else ""
    lines.append(f"  {_page(place)}{block}{frame}: {damage['events_total']} events")
    if damage["before"]:
        lines.append(f"    before: {_event(damage['before'])}")
    shown = damage["events"][-_PRINTED:]
    if damage["events_total"] > len(shown):
        lines.append(f"    ... {damage['events_total'] - len(shown)} earlier")
    return lines + [f"    {_event(event)}" for event in shown]


def _page(place: dict[str, Any]) -> str:
    if place["ino"]:
        return f"page {place['index']} of inode {place['ino']}"
    return f"block {place['index']} of the device"


def _event(event: dict[str, Any]) -> str:
    """One event in one line."""
    by = " < ".join(event["callers"][:_CALLERS])
    return f"{event['s']:+.6f} s  {_happened(event)}; {event['task']}/{event['pid']}{': ' if by else ''}{by}"


def _happened(event: dict[str, Any]) -> str:
    match event["kind"]:
        case "entry":
            checksum = "" if "being changed" in event["state"] else f", checksum {event['crc']}"
            return f"entry: {event['state']}{checksum}"
        case "change":
            return f"change: {event['changes']} under way now"
        case "window":
            return f"window: {'opened' if event['open'] else 'closed'}"
        case "verify":
            return f"checksum compared: {'right' if event['intact'] else 'wrong'}"
        case "trap":
            return f"trap: store to {event['address']} by {event['function']}"
        case "write":
            return f"write: {event['bytes']} bytes from sector {event['sector']}, of {event['of']}"
        case kind:
            return f"{kind}: {event['bytes']} bytes from sector {event['sector']}, status {event['status']}"


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
