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
from harness_builders import spec, text_fault
from riobed.commands import replay as replaying
from riobed.commands.replay import Request, replay, same_fault, title_then
from riobed.crash.formats import Crash
from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.guest.config import MachineSpec, WorkloadSpec
from riobed.guest.guest import GuestSetup
from riobed.guest.setup import guest_setup
from riobed.plan.rounds import plan
from riobed.plan.spec import CampaignSpec
from riobed.plan.stored import spec_data, stored_spec
from riobed.products import CHECKOUT
from riobed.trial.evidence import Evidence
from riobed.trial.planting import Plant
from riobed.trial.record import TrialRecord
from riobed.trial.rows import fault_row, trial_row
from riobed.trial.verdict import Verdict
from riobed.trial.watch import Observation
from riobed_results.errors import StoreError
from riobed_results.store.models import CampaignRow
from riobed_results.store.store import open_store

SPEC = spec(modes=["write-through", "rio"], fault_classes=["kernel_text", "planted"], faults=2, seed=15)
FAULTS = [text_fault(0), text_fault(1, probe=False)]
EVIDENCE = Evidence({0: 5, 1: 5}, {0: 1_000_005})


def crash(record: TrialRecord, title: str = "page fault in vfs_read", corruption: Any = "none") -> None:
    record.observation = Observation(Crash("oops", title), 1.5, "running")
    record.verdict = Verdict("crash", "oops", title, corruption)
    record.evidence = EVIDENCE
    record.console = b"console"


class World:
    """A store with a trial in it, and everything below the replay replaced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.store = folder / "store.sqlite"
        self.build_id = "0123abcd"
        self.faults = FAULTS
        self.run = crash
        self.asked: list[str] = []
        self.traced: list[bool] = []
        kernel = SimpleNamespace(
            build_id="0123abcd", vmlinux=folder / "vmlinux", release="6.12.107", series_commit="feed"
        )
        self.manifest = SimpleNamespace(kernel=kernel, image=SimpleNamespace(key="beef"))
        world = self

        class FakeGuest:
            def __init__(self, setup: Any, mode: Any, name: str) -> None:
                world.traced.append(setup.trace)
                self.machine = SimpleNamespace(config=SimpleNamespace(folder=folder))

            def take_snapshot(self) -> None:
                world.asked.append("snapshot")

            def discard(self) -> None:
                world.asked.append("discard")

        def run_trial(guest: FakeGuest, spec: CampaignSpec, record: TrialRecord) -> None:
            world.asked.append(f"trial {record.planned.position}")
            world.run(record)

        monkeypatch.setattr(replaying, "guest_setup", self._setup)
        monkeypatch.setattr(replaying, "open_guest", FakeGuest)
        monkeypatch.setattr(replaying, "run_trial", run_trial)
        catalogue = SimpleNamespace(filtered=lambda sites: None)
        monkeypatch.setattr(replaying, "catalogue_of", lambda kernel: catalogue)
        draw = SimpleNamespace(draw=lambda catalogue, rng, count: self.faults)
        monkeypatch.setattr(CampaignSpec, "fault_class", lambda spec, name: draw)
        self.fill()

    def _setup(self, machine: MachineSpec, uri: str | None, workload: WorkloadSpec) -> Any:
        return GuestSetup(self.manifest, machine, "kvm")  # type: ignore[arg-type]

    def fill(self, name: str = "test", asked: CampaignSpec = SPEC) -> None:
        """A campaign with a crash at position 1 and an infra error at position 0."""
        store = open_store(str(self.store), create=True)
        campaign = store.add_campaign(
            CampaignRow(
                name=name,
                spec=yaml.safe_dump(spec_data(asked)),
                seed="15",
                kernel_release="6.12.107",
                kernel_build_id=self.build_id,
                series_commit="feed",
                qemu_version="QEMU",
                accelerator="tcg",
                host={},
            )
        )
        for planned in list(plan(asked))[:2]:
            record = TrialRecord(planned, FAULTS)
            crash(record)
            error = "" if planned.position else "QEMU died"
            store.add_trial(trial_row(record, campaign.id, 1, "2026-01-02T03:04:05.000+00:00", error))

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
    assert {key: answer[key] for key in ("campaign", "position", "mode", "fault_class")} == {
        "campaign": "test",
        "position": 1,
        "mode": "rio",
        "fault_class": "kernel_text",
    }
    # From the snapshot, as in a campaign, and with nothing left behind.
    assert world.asked == ["snapshot", "trial 1", "discard"]
    assert world.traced == [False]


def test_something_else_came(world: World) -> None:
    world.run = lambda record: crash(record, "double fault in bad\x1bname", "direct")
    text = world.replay()
    assert "  then  oops 1.5 s: page fault in vfs_read; corruption none, 1 faults activated (tcg)" in text
    assert "  now   oops 1.5 s: double fault in bad\\x1bname; corruption direct" in text
    assert "  same: outcome; other: crash title, corruption\n" in text


def test_now_it_is_a_discard(world: World) -> None:
    def discard(record: TrialRecord) -> None:
        record.observation = Observation(None, 600.0, "running")
        record.verdict = Verdict("discard")

    world.run = discard
    assert "  now   discard, 0 faults activated (kvm)\n" in world.replay()
    assert "same: nothing; other: outcome, crash title, corruption" in world.replay()


def test_what_is_kept(world: World, tmp_path: Path) -> None:
    text = world.replay()
    folder = tmp_path / "replays" / "test-00001"
    assert text.endswith(f"Logs: {folder}\n")
    assert gzip.decompress((folder / "console.log.gz").read_bytes()) == b"console"
    assert json.loads((folder / "replay.json").read_text())["position"] == 1
    world.replay(folder=tmp_path / "other")
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["console.log.gz", "replay.json"]


def test_a_fresh_boot_takes_no_snapshot_first(world: World) -> None:
    world.fill("fresh", SPEC.model_copy(update={"name": "fresh", "fresh_boot_share": 1.0}))
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


def test_a_replay_on_a_full_disk_is_no_answer(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_a_position_without_a_result_is_refused(world: World, position: int) -> None:
    assert refusal(world, position) == (
        f"trial {position} of campaign 'test': the store has no result of it; "
        "'riobed trials' lists what there is"
    )


def test_another_kernel_is_refused(world: World) -> None:
    world.manifest.kernel.build_id = "ffff"
    assert "kernel_build_id is ffff, not 0123abcd" in refusal(world)


def test_a_workload_that_is_gone_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill("gone", SPEC.model_copy(update={"name": "gone", "workload": WorkloadSpec(path="/no/load")}))
    monkeypatch.setattr(replaying, "guest_setup", guest_setup)
    assert refusal(world, campaign="gone") == (
        "workload /no/load: workload.yaml: No such file or directory; a workload is a folder with that file"
    )


def test_an_unknown_campaign_is_refused(world: World) -> None:
    assert "no campaign 'other'; it holds: test" in refusal(world, campaign="other")


@pytest.mark.parametrize(
    "drawn",
    [
        FAULTS[:1],
        [*FAULTS, text_fault(2)],
        [FAULTS[1], FAULTS[0]],
        [FAULTS[0], text_fault(7)],
    ],
)
def test_other_faults_are_refused(world: World, drawn: list[Any]) -> None:
    world.faults = drawn
    assert "other faults are drawn now than are stored" in refusal(world)


def test_another_plan_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "plan", lambda spec: iter(list(plan(spec))[::-1]))
    assert "the plan has another trial there now" in refusal(world)


def test_a_spec_of_another_riobed_is_refused(world: World) -> None:
    with pytest.raises(
        UsageError, match=r"its spec is of another riobed: new: Extra inputs are not permitted"
    ):
        stored_spec("test", yaml.safe_dump(spec_data(SPEC) | {"new": 1}))
    with pytest.raises(UsageError, match="not YAML"):
        stored_spec("test", "{")


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
    store = open_store(str(world.store), create=True)
    record = TrialRecord(list(plan(SPEC))[3], [], Plant("stray", 12, 4096, 3))
    crash(record)
    store.add_trial(trial_row(record, store.campaign().id, 1, "2026-01-02T03:04:05.000+00:00", ""))
    world.faults = []
    assert "same: outcome, crash title, corruption; other: nothing" in world.replay(3)


def test_a_stored_spec_finds_its_workload_again() -> None:
    def there_and_back(path: Path) -> Path:
        asked = SPEC.model_copy(update={"workload": WorkloadSpec(path=path)})
        return stored_spec("test", yaml.safe_dump(spec_data(asked))).workload.path

    assert there_and_back(CHECKOUT / "workloads/cp_rm") == CHECKOUT / "workloads/cp_rm"
    assert there_and_back(Path("/srv/load")) == Path("/srv/load")


def test_several_times(world: World, tmp_path: Path) -> None:
    titles = iter(["page fault in vfs_read", "double fault in g", "page fault in vfs_read"])
    world.run = lambda record: crash(record, next(titles))
    text = world.replay(times=3)
    # One guest, one snapshot, as in a campaign.
    assert world.asked == ["snapshot", "trial 1", "trial 1", "trial 1", "discard"]
    assert text.count("  now   ") == 3
    assert "Same crash title: 2 of 3 (66.7 %); 95 % interval 9.4 to 99.2 %\n" in text
    answer = json.loads((tmp_path / "replays/test-00001/replay.json").read_text())
    assert answer["matched"] == 2
    assert sorted(path.name for path in (tmp_path / "replays/test-00001").iterdir()) == [
        "console-2.log.gz",
        "console-3.log.gz",
        "console.log.gz",
        "replay.json",
    ]


OLD_LOG = b"[    9.0] BUG: kernel NULL pointer dereference, address: 0\nRIP: 0010:vfs_read+0x1/0x2\n"


@pytest.mark.parametrize(
    ("kind", "log", "title"),
    [
        ("oops", gzip.compress(OLD_LOG, mtime=0), "NULL pointer dereference in vfs_read"),
        # What the harness saw and the log does not tell.
        ("hang", gzip.compress(OLD_LOG, mtime=0), "as stored"),
        ("oops", gzip.compress(b"\n=== recovery ===\n" + OLD_LOG, mtime=0), "as stored"),
        ("oops", gzip.compress(OLD_LOG, mtime=0)[:-9], "as stored"),
        ("oops", b"not compressed", "as stored"),
        ("oops", None, "as stored"),
    ],
)
def test_the_title_of_then_is_made_as_titles_are_made_now(
    tmp_path: Path, kind: str, log: bytes | None, title: str
) -> None:
    if log is not None:
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs/1.log.gz").write_bytes(log)
    row = SimpleNamespace(log="logs/1.log.gz", crash_kind=kind, crash_title="as stored")
    assert title_then(SimpleNamespace(logs=tmp_path, row=row)) == title  # type: ignore[arg-type]


def test_a_log_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "out.gz").write_bytes(gzip.compress(OLD_LOG, mtime=0))
    row = SimpleNamespace(log="../out.gz", crash_kind="oops", crash_title="as stored")
    (tmp_path / "store").mkdir()
    assert title_then(SimpleNamespace(logs=tmp_path / "store", row=row)) == "as stored"  # type: ignore[arg-type]


def test_a_crash_has_more_time_to_come_than_it_had(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    def run_trial(guest: Any, asked: CampaignSpec, record: TrialRecord) -> None:
        limits.append(asked.limit_s)
        crash(record)

    monkeypatch.setattr(replaying, "run_trial", run_trial)
    world.replay()
    assert limits == [2 * SPEC.limit_s]
