# SPDX-License-Identifier: Apache-2.0
"""`riobed replay`: the same trial is run again or refused; the store stays as it is. Guests are not real."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from harness_builders import campaign_row, manifest, spec, survive, text_fault
from harness_builders import trial_row as any_row
from riobed.commands import replay as replaying
from riobed.commands.replay import Request, StoredTrial, outcome_then, replay, same_fault, title_then
from riobed.crash.formats import Crash
from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.guest import GuestSetup, MachineSpec, WorkloadSpec, cache_mode, guest_setup
from riobed.plan import CampaignSpec, plan, spec_data
from riobed.trial import Evidence, TrialRecord, fault_row, trial_row
from riobed.trial.control.change import Plant
from riobed.trial.observe.watch import Observation
from riobed.trial.verdict import Verdict
from riobed_results.errors import StoreError
from riobed_results.store.store import open_store

SPEC = spec(modes=["write-through", "rio"], fault_classes=["kernel_text", "planted"], faults=2, seed=15)
FAULTS = [text_fault(0), text_fault(1, probe=False)]
EVIDENCE = Evidence({0: 5, 1: 5}, {0: 1_000_005})


def crash(record: TrialRecord, title: str = "page fault in vfs_read", corruption: Any = "none") -> None:
    record.observation = Observation("panic", Crash("oops", title), 1.5, "running")
    record.verdict = Verdict("panic", "oops", title, corruption)
    record.evidence = EVIDENCE
    record.console = b"console"


class FakeGuest:
    """Writes down what is asked of it."""

    def __init__(self, asked: list[str], folder: Path) -> None:
        self.asked = asked
        self.machine = SimpleNamespace(config=SimpleNamespace(folder=folder))
        self.mode = cache_mode("rio")

    def take_snapshot(self) -> None:
        self.asked.append("snapshot")

    def discard(self) -> None:
        self.asked.append("discard")


class World:
    """A store with a trial in it, and everything below the replay replaced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store.sqlite"
        self.build_id = "0123abcd"
        self.faults = FAULTS
        self.run = crash
        self.asked: list[str] = []
        self.with_log: list[bool] = []
        self.limits: list[float] = []
        monkeypatch.setattr(replaying, "guest_setup", self._setup)
        monkeypatch.setattr(replaying, "open_guest", self._open)
        monkeypatch.setattr(replaying, "run_trial", self._run_trial)
        catalogue = SimpleNamespace(filtered=lambda sites: None)
        monkeypatch.setattr(replaying, "catalogue_of", lambda kernel: catalogue)
        draw = SimpleNamespace(draw=lambda catalogue, rng, count: self.faults)
        monkeypatch.setattr(CampaignSpec, "fault_class", lambda spec, name: draw)
        self.fill()

    def _setup(
        self,
        machine: MachineSpec,
        uri: str | None,
        workload: WorkloadSpec,
        loses_lines: bool,
        counts_nvdimm: bool,
    ) -> GuestSetup:
        assert not loses_lines and not counts_nvdimm
        return GuestSetup(manifest(self.folder, self.build_id), machine, "kvm")

    def _open(self, setup: GuestSetup, mode: object, name: str, plugin: object) -> FakeGuest:
        assert plugin is None
        self.with_log.append(setup.propagation)
        return FakeGuest(self.asked, self.folder)

    def _run_trial(self, guest: FakeGuest, spec: CampaignSpec, record: TrialRecord) -> None:
        self.asked.append(f"trial {record.planned.position}")
        self.limits.append(spec.limit_s)
        self.run(record)

    def fill(self, name: str = "test", **changes: Any) -> None:
        """A campaign with a crash at position 1 and an infra error at position 0."""
        asked = SPEC.model_copy(update={"name": name} | changes)
        here = {"seed": "15", "accelerator": "tcg", "kernel_build_id": "0123abcd"}
        row = campaign_row(name=name, spec=yaml.safe_dump(spec_data(asked)), **here)
        open_store(str(self.store), create=True).add_campaign(row)
        for planned in list(plan(asked))[:2]:
            self.add(TrialRecord(planned, FAULTS), "" if planned.position else "QEMU died")

    def add(self, record: TrialRecord, error: str = "") -> None:
        """A crash to the latest campaign."""
        crash(record)
        store = open_store(str(self.store), create=True)
        now = "2026-01-02T03:04:05.000+00:00"
        store.add_trial(trial_row(record, store.campaign().id, 1, now, error))

    def replay(self, position: int = 1, as_json: bool = False, **words: Any) -> str:
        before = self.store.read_bytes()
        try:
            return replay(Request(position, str(self.store), **words), as_json, None)
        finally:
            assert self.store.read_bytes() == before


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def test_the_same_again(world: World) -> None:
    answer = json.loads(world.replay(as_json=True))
    (once,) = answer["replays"]
    assert once["same"] == {"outcome": True, "crash_title": True, "corruption": True}
    assert answer["then"] | {"accelerator": "kvm"} == once["now"]
    assert answer["matched"] == 1
    asked = answer["campaign"], answer["position"], answer["mode"], answer["fault_class"]
    assert asked == ("test", 1, "rio", "kernel_text")
    # From the snapshot, as in a campaign, and with nothing left behind.
    assert world.asked == ["snapshot", "trial 1", "discard"]
    assert world.with_log == [False]
    # A crash has more time to come than it had.
    assert world.limits == [2 * SPEC.limit_s]


def test_something_else_came(world: World) -> None:
    world.run = lambda record: crash(record, "double fault in bad\x1bname", "direct")
    text = world.replay()
    assert "  then  oops 1.5 s: page fault in vfs_read; corruption none, 1 faults activated (tcg)" in text
    assert "  now   oops 1.5 s: double fault in bad\\x1bname; corruption direct" in text
    assert "  same: outcome; other: crash title, corruption\n" in text


def test_now_it_survives(world: World) -> None:
    world.run = survive
    assert "  now   survived 600.0 s: panic on request, by NMI; corruption none" in world.replay()
    assert "same: corruption; other: outcome, crash title" in world.replay()


@pytest.mark.parametrize(
    ("kind", "title", "outcome"),
    [
        ("oops", "page fault in iput", "panic"),
        ("hang", "hang in iput", "hang"),
        ("hang", "workload stuck in iput", "stuck"),
    ],
)
def test_a_crash_of_an_older_store_is_compared_by_its_outcome(kind: str, title: str, outcome: str) -> None:
    assert outcome_then(any_row(outcome="crash", crash_kind=kind, crash_title=title)) == outcome
    assert outcome_then(any_row(outcome=outcome)) == outcome


def test_what_is_kept(world: World, tmp_path: Path) -> None:
    text = world.replay()
    folder = tmp_path / "replays" / "test-00001"
    assert text.endswith(f"Logs: {folder}\n")
    assert gzip.decompress((folder / "console.log.gz").read_bytes()) == b"console"
    assert json.loads((folder / "replay.json").read_text())["position"] == 1
    world.replay(folder=tmp_path / "other")
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["console.log.gz", "replay.json"]


def test_a_fresh_boot_takes_no_snapshot_first(world: World) -> None:
    world.fill("fresh", fresh_boot_share=1.0)
    world.replay()
    assert world.asked == ["trial 1", "discard"]
    world.replay(campaign="test")
    assert world.asked[2:] == ["snapshot", "trial 1", "discard"]


def test_our_own_failure_is_no_answer(world: World, tmp_path: Path) -> None:
    failures = []

    def fail(record: TrialRecord) -> None:
        failures.append(record)
        record.console = b"as far as it came"
        raise InfraError("no agent")

    world.run = fail
    with pytest.raises(EnvironmentFault, match="trial 1: 3 replays failed for our own reasons"):
        world.replay()
    assert (world.asked[-1], len(failures)) == ("discard", 3)
    kept = tmp_path / "replays/test-00001/console.log.gz"
    assert gzip.decompress(kept.read_bytes()) == b"as far as it came"


@pytest.mark.parametrize("chunks", [0, 2])
def test_a_log_may_be_empty_but_must_be_there(
    world: World, monkeypatch: pytest.MonkeyPatch, chunks: int
) -> None:
    monkeypatch.setattr(replaying, "Vmlinux", lambda path: SimpleNamespace(functions=list))

    def run(record: TrialRecord) -> None:
        crash(record)
        record.chunks = [bytes(50)] * chunks

    world.run = run
    if chunks:
        assert "Propagation log: 0 events, 0 lines unreadable\n" in world.replay(propagation=True)
    else:
        with pytest.raises(EnvironmentFault, match="3 replays failed for our own reasons"):
            world.replay(propagation=True)


def test_a_full_disk_is_no_answer(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its logs ended early, as if the guest had fallen silent."""
    monkeypatch.setattr(replaying, "LEAST_ROOM", 1 << 60)
    with pytest.raises(EnvironmentFault, match=r"MiB free, \d+ MiB needed; make room there"):
        world.replay()
    assert not (tmp_path / "replays/test-00001/replay.json").exists()


def refusal(world: World, *arguments: Any, **words: Any) -> str:
    with pytest.raises((UsageError, StoreError)) as caught:
        world.replay(*arguments, **words)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert world.asked == []
    return str(caught.value)


@pytest.mark.parametrize("position", [0, 2, 10**9])
def test_a_trial_that_is_not_there_is_refused(world: World, position: int) -> None:
    assert f"trial {position} of campaign 'test': the store has no result" in refusal(world, position)
    assert "no campaign 'other'; it holds: test" in refusal(world, position, campaign="other")


def test_another_kernel_is_refused(world: World) -> None:
    world.build_id = "ffff"
    assert "kernel_build_id is ffff, not 0123abcd" in refusal(world)


def test_a_workload_that_is_gone_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill("gone", workload=WorkloadSpec(path=Path("/no/load")))
    monkeypatch.setattr(replaying, "guest_setup", guest_setup)
    assert refusal(world, campaign="gone").startswith("workload /no/load: workload.yaml: No such file")


@pytest.mark.parametrize("drawn", [
    FAULTS[:1], [*FAULTS, text_fault(2)], FAULTS[::-1], [FAULTS[0], text_fault(7)],
])  # fmt: skip
def test_other_faults_are_refused(world: World, drawn: list[Any]) -> None:
    world.faults = drawn
    assert "other faults are drawn now than are stored" in refusal(world)


def test_another_plan_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "plan", lambda spec: iter(list(plan(spec))[::-1]))
    assert "the plan has another trial there now" in refusal(world)


def test_a_folder_that_cannot_be_made(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match="choose another place with --folder"):
        world.replay(folder=tmp_path / "file" / "below")
    assert world.asked == []


def test_what_a_fault_hit_is_not_compared() -> None:
    drawn = replace(text_fault(0), address=None, old=b"", new=b"", params={"calls": 7, "extra": 1})
    seen = Evidence({0: 5}, {0: 6}, {0: 7}, {0: {"routine": "memcpy", "length": 3, "extra": 1}})
    assert same_fault(drawn, fault_row(drawn, seen))
    assert not same_fault(replace(drawn, params={"calls": 8, "extra": 1}), fault_row(drawn, seen))


def test_a_planted_change_is_drawn_in_the_guest(world: World) -> None:
    world.add(TrialRecord(list(plan(SPEC))[3], [], Plant("stray", 12, 4096, 3)))
    world.faults = []
    assert "same: outcome, crash title, corruption; other: nothing" in world.replay(3)


def test_several_times(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    titles = iter(["page fault in vfs_read", "double fault in g", "page fault in vfs_read"])

    def run(record: TrialRecord) -> None:
        with record.phase("watch"):
            crash(record, next(titles))

    world.run = run
    text = world.replay(times=3)
    # One guest, one snapshot, as in a campaign.
    assert world.asked == ["snapshot", "trial 1", "trial 1", "trial 1", "discard"]
    assert text.count("  now   ") == 3
    # How far it is, also where there is no terminal.
    begun = [line.partition(" s  ")[2] for line in capsys.readouterr().err.splitlines() if " s  " in line]
    assert begun == [
        "replay 1: booting the guest and taking its snapshot",
        *(f"replay {number}: waiting for a crash" for number in (1, 2, 3)),
    ]
    assert "Same crash title: 2 of 3 (66.7 %); 95 % interval 9.4 to 99.2 %\n" in text
    folder = tmp_path / "replays/test-00001"
    assert json.loads((folder / "replay.json").read_text())["matched"] == 2
    consoles = ["console-2.log.gz", "console-3.log.gz", "console.log.gz"]
    assert sorted(path.name for path in folder.iterdir()) == [*consoles, "replay.json"]


OLD_LOG = b"[    9.0] BUG: kernel NULL pointer dereference, address: 0\nRIP: 0010:vfs_read+0x1/0x2\n"
PACKED = gzip.compress(OLD_LOG, mtime=0)


@pytest.mark.parametrize(
    ("kind", "log", "title"),
    [
        ("oops", PACKED, "NULL pointer dereference in vfs_read"),
        # What the harness saw and the log does not tell.
        ("hang", PACKED, "as stored"),
        ("oops", gzip.compress(b"\n=== recovery ===\n" + OLD_LOG, mtime=0), "as stored"),
        ("oops", PACKED[:-9], "as stored"),
        ("oops", b"not compressed", "as stored"),
        ("oops", None, "as stored"),
    ],
)
@pytest.mark.parametrize("outside", [False, True])
def test_the_title_of_then(tmp_path: Path, kind: str, log: bytes | None, title: str, outside: bool) -> None:
    """But no log outside of its folder is read."""
    folder = tmp_path / "store"
    (folder / "logs").mkdir(parents=True)
    name = "../1.log.gz" if outside else "logs/1.log.gz"
    if log is not None:
        (folder / name).write_bytes(log)
    row = any_row(log=name, crash_kind=kind, crash_title="as stored")
    stored = StoredTrial(folder, campaign_row(), row, SPEC, next(plan(SPEC)))
    assert title_then(stored) == ("as stored" if outside else title)
