# SPDX-License-Identifier: Apache-2.0
"""Trials run again: the same title for an oops that is sure to come; the way to a damaged page."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from riobed.commands.replay import Request, replay
from riobed.commands.replay_many import Many, replay_many
from riobed.commands.run import Where, run_campaign
from riobed.guest.assembly import GuestSetup
from riobed.guest.memory.chunks import MOST
from riobed.guest.memory.layout import PAGE
from riobed.guest.settings.modes import cache_mode
from riobed.plan.spec import CampaignSpec
from riobed.propagation import EventLog
from riobed.propagation.log import read_event
from riobed_results.store.queries import trial_rows
from riobed_results.store.store import open_store
from riobed_results.tables.controls.replays import read_replays

from .conftest import UD2, FaultIn, extended, opened, reset, shell

SPEC = """
name: small
seed: 3
modes: [{mode}]
fault_classes: [{fault_class}]
controls: {{}}
crashes_per_cell: {crashes}
warmup_s: [0.5, 1.0]
limit_s: 20
hang_s: 6
"""


def run(folder: Path, fault_class: str, crashes: int, more: str = "faults: 1", mode: str = "rio") -> str:
    """A campaign in a new store."""
    spec = SPEC.format(mode=mode, fault_class=fault_class, crashes=crashes)
    (folder / "spec.yaml").write_text(spec + more)
    store = str(folder / "store.sqlite")
    run_campaign(folder / "spec.yaml", store, None, Where(1))
    return store


def once(text: str) -> dict[str, Any]:
    """The answer's only replay."""
    (replayed,) = json.loads(text)["replays"]
    return dict(replayed)


@pytest.mark.parametrize("planted", [["written"], extended(["entry", "stray"])], ids=len)
def test_the_way_to_a_planted_change(tmp_path: Path, planted: list[str]) -> None:
    more = f"parameters: {{planted: {{kinds: [{', '.join(planted)}]}}}}"
    store = run(tmp_path, "planted", len(planted), more)
    opened = open_store(store)
    kinds = {row.position: row.faults[0].params["kind"] for row in trial_rows(opened, opened.campaign().id)}
    assert kinds == dict(enumerate(planted))
    for position, kind in kinds.items():
        answer = once(replay(Request(position, store, propagation=True), True, None))
        assert all(answer["same"].values()), answer
        followed = answer["propagation"]
        plant = followed["planted"]
        assert plant["kind"] == kind
        # A legal write to a twin changes its time, too, which is in no page.
        (damaged,) = [damage for damage in followed["damaged"] if damage["place"]]
        assert (damaged["place"]["ino"], damaged["place"]["index"]) == (plant["ino"], plant["offset"] // PAGE)
        # The check names the file, and of a stray change the checksums name the page.
        assert len(damaged["what"]) == (2 if kind == "stray" else 1)
        writers = [event for event in damaged["events"] if "generic_perform_write" in event["callers"]]
        # The legal writer of the wrong bytes is seen; of a stray store only the legal ones before it.
        # A page may also have got its content another way, by a mapping for example.
        tasks = [event["task"] for event in writers]
        assert tasks[-1:] == ["dd"] if kind == "written" else set(tasks) <= {"memtest"}
        # Another page may have become dirty before the log begins.
        assert damaged["events"] or kind != "written"
        # The kernel closes a written page some time later, on a busy host after the trial's end.
        for last in damaged["events"][-1:]:
            assert (last["kind"], last["ino"]) == ("entry", plant["ino"])
            assert last["state"] in ("dirty", "dirty, being changed")
        kept = gzip.decompress((tmp_path / f"replays/small-{position:05d}/propagation.log.gz").read_bytes())
        assert kept.count(b"\n") == followed["log"]["events"] > 100
        assert followed["log"]["unreadable"] <= 1


def test_the_log_outlives_a_reset_where_no_memory_is_restored(setup: GuestSetup) -> None:
    with opened(replace(setup, propagation=True), cache_mode("write-through"), "logged") as guest:
        guest.ready()
        shell(guest, "dd if=/dev/zero of=/mnt/test/new bs=4096 count=1 conv=fsync")
        reset(guest)
        chunks = guest.propagation_log()
    assert len(chunks) == MOST
    log = EventLog(chunks)
    assert {"dd"} <= {event.task for event in log.events() if event.kind == "write"}
    assert (log.unreadable, log.lost) == (0, 0)


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["write-through", "delayed", "write-through-xfs"])
def test_the_way_to_a_planted_change_in_a_mode_without_a_registry(tmp_path: Path, mode: str) -> None:
    more = "parameters: {planted: {kinds: [written]}}\nmachine: {disk_mib: 300}"
    store = run(tmp_path, "planted", 1, more, mode)
    answer = once(replay(Request(0, store, propagation=True), True, None))
    followed = answer["propagation"]
    plant = followed["planted"]
    touched = [event for damage in followed["damaged"] for event in damage.get("events", [])]
    assert followed["damaged"] and {event["kind"] for event in touched} <= {"write", "done"}
    # The legal writer of the wrong byte wrote it to the disk itself.
    kept = gzip.decompress((tmp_path / "replays/small-00000/propagation.log.gz").read_bytes())
    page = plant["offset"] // PAGE
    written = [
        event.task
        for event in map(read_event, kept.splitlines())
        if event and event.kind == "write" and event.words["ino"] == plant["ino"]
        if 0 <= page - event.words["index"] < event.words["bytes"] / PAGE
    ]
    assert written[-1:] == ["dd"]
    # Of what delayed has lost, the places that are followed need not be this one.
    assert mode == "delayed" or [event["task"] for event in touched if event["kind"] == "write"][-1:] == [
        "dd"
    ]


@pytest.mark.extended
def test_an_oops_that_is_sure_to_come_has_the_same_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault_in: FaultIn
) -> None:
    fault = fault_in("vfs_mkdir", UD2)
    drawn = SimpleNamespace(draw=lambda catalogue, rng, count: [fault], needs="")
    monkeypatch.setattr(CampaignSpec, "fault_class", lambda spec, name: drawn)
    store = run(tmp_path, "kernel_text", 1)
    before = Path(store).read_bytes()
    for propagation in (False, True):
        answer = once(replay(Request(0, store, propagation=propagation), True, None))
        assert answer["now"]["crash_title"] == "invalid opcode in vfs_mkdir"
        assert answer["same"] == {"outcome": True, "crash_title": True, "corruption": True}
    (activated,) = answer["propagation"]["activated"]
    assert (activated["index"], answer["propagation"]["damaged"]) == (0, [])
    assert Path(store).read_bytes() == before


@pytest.mark.extended
def test_a_repeatable_trial_is_the_same_to_the_instruction(tmp_path: Path) -> None:
    """Of stack and heap flips a guest that is not repeatable hardly ever hits the same bytes again."""
    store = run(tmp_path, "kernel_stack", 1, "faults: 100\nmachine: {icount: true}")
    table = json.loads(replay_many(Many(1, store), "json", None))["total"]
    (replayed,) = read_replays(tmp_path / "replays/small")
    assert replayed.same == {"outcome": True, "crash_title": True, "corruption": True}
    assert table["crash_title"] == 1
    now, then = replayed.now, replayed.then
    assert (now.first_activation_s, now.activated) == (then.first_activation_s, then.activated)
    # Both began from one snapshot.
    assert len(list((tmp_path / "snapshots").iterdir())) == 1
