# SPDX-License-Identifier: Apache-2.0
"""What a campaign runs, stores and repeats, however disturbed. The store is real, the guests are not."""

import gzip
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import yaml
from campaign_world import CLASSES, MODES, SPEC, Trial, World, essence, result
from harness_builders import recovery, spec
from riobed.campaign import campaign
from riobed.errors import EnvironmentFault, InfraError, RiobedError, UsageError
from riobed.guest.guest import Guest
from riobed.guest.modes import cache_mode
from riobed.plan.rounds import plan
from riobed.plan.spec import CampaignSpec
from riobed.products import CHECKOUT
from riobed.trial.record import TrialRecord
from riobed.trial.verdict import Verdict
from riobed_results.store.models import TrialRow
from riobed_results.store.queries import trial_rows
from riobed_results.store.store import Store

CELLS = [(mode, fault_class) for mode in MODES for fault_class in CLASSES]
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """What a campaign that nothing disturbs leaves."""
    with pytest.MonkeyPatch.context() as patch:
        return [essence(row) for row in World(patch, tmp_path_factory.mktemp("undisturbed")).run()]


def crashes(rows: list[TrialRow]) -> Counter[tuple[str, str]]:
    return Counter((row.mode, row.fault_class) for row in rows if row.outcome == "crash")


def test_a_campaign_from_start_to_end(world: World) -> None:
    rows = world.run()
    by_position = {planned.position: planned for planned in plan(SPEC)}
    assert [row.position for row in rows] == sorted({row.position for row in rows})
    for row in rows:
        planned = by_position[row.position]
        assert (row.seed, row.mode, row.fault_class) == (planned.seed, planned.mode, planned.fault_class)
        assert (row.attempt, row.requested) == (1, 3)
        assert row.log
        console = gzip.decompress((world.folder / row.log).read_bytes()).decode()
        assert console == f"console of {row.seed} in {row.mode}"
    assert [row.position for row in world.reported] == [row.position for row in rows]
    assert all(machine.discards for machine in world.machines)


def test_a_cell_that_has_enough_is_skipped(world: World) -> None:
    rows = world.run()
    assert crashes(rows) == Counter(dict.fromkeys(CELLS, 2))
    for cell in CELLS:
        outcomes = [row.outcome for row in rows if (row.mode, row.fault_class) == cell]
        # It ends with the crash that was enough.
        assert outcomes[-1] == "crash"
    sizes = Counter((row.mode, row.fault_class) for row in rows)
    assert len(set(sizes.values())) > 1, "the seeds make all cells alike, the test says nothing"


def test_a_crash_in_recovery_that_came_too_late_is_not_counted(world: World) -> None:
    def cut(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        result(guest, spec, record)
        late = record.planned.position < 3 * len(CELLS)
        record.recovery = recovery(
            interrupted={"planned_s": 0.1, "at_s": 0.1, "phase": "done" if late else "e2fsck"}
        )
        record.verdict = Verdict("crash", "reset", "reset by the harness", "none")

    world.trial = cut
    rows = world.run(SPEC)
    assert crashes(rows) == Counter(dict.fromkeys(CELLS, 5))
    # Nor when the campaign is taken up again.
    resumed = world.campaign(SPEC)
    assert {cell: (c.trials, c.crashes) for cell, c in resumed.cells.items()} == dict.fromkeys(CELLS, (5, 2))


def test_a_cell_that_never_gets_enough_ends_as_well(world: World) -> None:
    def discard(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        record.verdict = Verdict("discard")

    world.trial = discard
    rows = world.run()
    assert len(rows) == 8 * len(CELLS)


def test_a_campaign_that_is_complete_runs_nothing_more(world: World) -> None:
    rows = [essence(row) for row in world.run()]
    count = len(world.started)
    assert [essence(row) for row in world.run()] == rows
    assert len(world.started) == count


def test_the_campaigns_row_says_what_was_asked_and_on_what_it_ran(world: World) -> None:
    world.run()
    row = world.store().campaign("test")
    assert yaml.safe_load(row.spec)["crashes_per_cell"] == 2
    assert (row.seed, row.kernel_release, row.kernel_build_id) == (str(SPEC.seed), "6.12.107", "0123abcd")
    assert (row.qemu_version, row.accelerator) == ("QEMU emulator version 7.2.0", "tcg")
    assert row.host["cpus"] >= 1


def test_modes_share_seeds_and_faults(world: World) -> None:
    rows = world.run()
    by_seed: dict[str, set[object]] = {}
    for row in rows:
        drawn = [(fault.address, fault.activated) for fault in row.faults]
        by_seed.setdefault(row.seed, set()).add(str(drawn))
    assert {len(faults) for faults in by_seed.values()} == {1}
    assert len({next(iter(faults)) for faults in by_seed.values()}) > 1


class Boom(Exception):
    """No error of ours: a bug, or Ctrl-C."""


@pytest.mark.parametrize(("at", "workers"), [(0, 1), (5, 1), (9, 1), (1, 3), (8, 3)])
def test_an_exception_leaves_complete_rows_and_the_next_run_goes_on(
    world: World, undisturbed: list[tuple[object, ...]], at: int, workers: int
) -> None:
    def explode(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        result(guest, spec, record)
        if record.planned.position >= at:
            raise Boom

    world.trial = explode
    with pytest.raises(Boom):
        world.run(workers=workers)
    before = [essence(row) for row in world.rows()]
    assert set(before) < set(undisturbed)
    assert all(row[0] < at for row in before)  # type: ignore[operator]
    world.trial = result
    assert sorted(map(essence, world.run())) == undisturbed


@pytest.mark.parametrize("at", [7])
def test_ctrl_c(world: World, undisturbed: list[tuple[object, ...]], at: int) -> None:
    def report(row: TrialRow) -> None:
        if row.position >= at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.campaign().run(world.workers(), report)
    assert max(row.position for row in world.rows()) >= at
    assert sorted(map(essence, world.run())) == undisturbed


@pytest.mark.parametrize("at", [0, 7])
def test_sigkill(world: World, undisturbed: list[tuple[object, ...]], at: int) -> None:
    def killed(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position >= at:
            os.kill(os.getpid(), signal.SIGKILL)
        result(guest, spec, record)

    world.trial = killed
    child = FORK.Process(target=world.run)
    child.start()
    child.join(20)
    assert child.exitcode == -signal.SIGKILL
    before = [essence(row) for row in world.rows()]
    assert before == [row for row in undisturbed if row[0] < at]  # type: ignore[operator]
    world.trial = result
    assert sorted(map(essence, world.run())) == undisturbed


def test_sigkills_at_random_moments(world: World) -> None:
    """Also between a log and its row, and in the middle of a row."""
    long = changed(crashes_per_cell=8, max_trials_per_cell=8)
    expected = [essence(row) for row in world.run(long.model_copy(update={"name": "alone"}))]

    def slow(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        time.sleep(0.02)
        result(guest, spec, record)

    world.trial = slow
    rng = random.Random(7)
    in_the_middle = 0
    for _ in range(10):
        child = FORK.Process(target=world.run, args=(long,))
        child.start()
        if rng.random() < 0.7:
            wait_for_a_row(world, child)
        child.join(rng.uniform(0.0, 0.05))
        child.kill()
        child.join()
        in_the_middle += child.exitcode == -signal.SIGKILL and world.store().campaign().name == "test"
    assert in_the_middle > 1, "the test says nothing"
    world.trial = result
    assert [essence(row) for row in world.run(long)] == expected
    for row in world.rows():
        assert gzip.decompress((world.folder / str(row.log)).read_bytes())


def wait_for_a_row(world: World, child: BaseProcess) -> None:
    """Until a campaign that runs in a process has stored one more."""

    def rows() -> int:
        return len(world.rows()) if len(world.store().campaigns()) > 1 else 0

    before = rows()
    while child.is_alive() and rows() == before:
        time.sleep(0.002)


def failing(times: int, position: int = 3) -> Trial:
    """One trial fails that often before it gives a result."""
    left = [times]

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        record.console = b"half a console"
        if record.planned.position == position and left[0]:
            left[0] -= 1
            record.verdict = Verdict("discard")
            raise InfraError("QEMU died during a trial")
        result(guest, spec, record)

    return trial


@pytest.mark.parametrize("times", [1, 3])
def test_an_infra_error_is_a_row_and_the_trial_runs_again(
    world: World, undisturbed: list[tuple[object, ...]], times: int
) -> None:
    world.trial = failing(times)
    rows = world.run()
    attempts = [row for row in rows if row.position == 3]
    assert [row.outcome for row in attempts[:-1]] == ["infra_error"] * times
    assert [row.attempt for row in attempts] == list(range(1, times + 2))
    assert [row.detail for row in attempts[:-1]] == ["QEMU died during a trial"] * times
    assert len({row.log for row in attempts}) == times + 1
    assert [essence(row) for row in rows if row.outcome != "infra_error"] == undisturbed
    assert Counter(row.outcome for row in world.reported)["infra_error"] == times
    (machine,) = [machine for machine in world.machines if machine.mode == cache_mode(attempts[0].mode)]
    # Each failure throws the machine away, and the end of the campaign once more.
    assert machine.discards == times + 1


@pytest.mark.parametrize("said", ["guest agent: no answer", "vm: {words}"])
def test_an_infra_error_says_what_became_of_qemu(world: World, said: str) -> None:
    words = "QEMU is not running; it wrote last: Bail out!"

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        died = record.planned.position == 2 and guest.machine.discards == 0
        guest.machine.trouble = lambda: words if died else ""
        if died:
            raise InfraError(said.format(words=words))
        result(guest, spec, record)

    world.trial = trial
    (detail,) = [row.detail for row in world.run() if row.outcome == "infra_error"]
    assert detail.count(words) == 1 and detail.startswith(said.partition(":")[0])


def test_a_pause_that_fails_spoils_the_trial_only(world: World) -> None:
    failures = [InfraError("QEMU is not running")]

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        result(guest, spec, record)

        def pause() -> None:
            if failures:
                raise failures.pop()

        guest.machine.pause = pause

    world.trial = trial
    rows = world.run()
    assert (rows[0].position, rows[0].outcome, rows[0].crash_kind) == (0, "infra_error", None)
    assert (rows[1].position, rows[1].attempt) == (0, 2)


def test_a_trial_that_always_fails_is_given_up_and_another_takes_its_place(
    world: World, undisturbed: list[tuple[object, ...]]
) -> None:
    world.trial = failing(100)
    rows = world.run()
    assert [row.outcome for row in rows if row.position == 3] == ["infra_error"] * 4
    results = {essence(row) for row in rows if row.outcome != "infra_error"}
    assert {row for row in undisturbed if row[0] != 3} < results
    # Its cell has what it needs without it.
    assert crashes(rows) == Counter(dict.fromkeys(CELLS, 2))


def test_what_was_given_up_is_tried_again(world: World) -> None:
    """With as many crashes wanted as trials allowed no other trial can take its place."""
    every = changed(crashes_per_cell=8, max_trials_per_cell=8)
    expected = [essence(row) for row in world.run(every.model_copy(update={"name": "alone"}))]
    world.trial = failing(4)
    with pytest.raises(EnvironmentFault) as caught:
        world.run(every)
    assert str(caught.value) == (
        "campaign 'test': trials that gave no result: 1, the first 3; "
        f"run the same command again to try them again; see {world.folder}/logs"
    )
    world.run(every)
    rows = trial_rows(world.store(), world.store().campaign("test").id)
    assert [row.attempt for row in rows if row.position == 3] == [1, 2, 3, 4, 5]
    assert sorted(essence(row) for row in rows if row.outcome != "infra_error") == expected


def test_one_trial_given_up_among_others_under_way(world: World) -> None:
    world.trial = failing(100)
    rows = world.run(workers=3)
    assert [row.position for row in rows if row.outcome == "infra_error"] == [3] * 4
    assert all(count >= 2 for count in crashes(rows).values())


@pytest.mark.parametrize(("workers", "failures"), [(1, 8), (3, 8), (5, 10)])
def test_a_campaign_in_which_nothing_works_any_more_stops(
    world: World, undisturbed: list[tuple[object, ...]], workers: int, failures: int
) -> None:
    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position >= 3:
            raise InfraError("QEMU does not start")
        result(guest, spec, record)

    world.trial = trial
    with pytest.raises(EnvironmentFault) as caught:
        world.run(workers=workers)
    last = world.reported[-1]
    assert str(caught.value) == (
        f"{failures} trials in a row failed for our own reasons, last: trial {last.position} "
        f"({last.mode}, {last.fault_class}): QEMU does not start; see {world.folder}/logs"
    )
    assert [row.outcome for row in world.reported[-failures:]] == ["infra_error"] * failures
    assert max(row.attempt for row in world.rows()) <= 4
    world.trial = result
    results = {essence(row) for row in world.run(workers=workers) if row.outcome != "infra_error"}
    assert set(undisturbed) <= results
    assert workers > 1 or len(results) == len(undisturbed)


def test_failures_with_results_between_them_do_not_stop_a_campaign(
    world: World, undisturbed: list[tuple[object, ...]]
) -> None:
    failed: set[int] = set()

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position not in failed:
            failed.add(record.planned.position)
            raise InfraError("agent lost")
        result(guest, spec, record)

    world.trial = trial
    rows = world.run()
    assert Counter(row.outcome for row in rows)["infra_error"] == len(undisturbed) > 8
    assert sorted(essence(row) for row in rows if row.outcome != "infra_error") == undisturbed


def test_what_was_there_counts_when_a_campaign_goes_on(world: World) -> None:
    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position >= 10:
            raise InfraError("QEMU does not start")
        result(guest, spec, record)

    world.trial = trial
    with pytest.raises(EnvironmentFault):
        world.run()
    there = world.rows()
    cells = world.campaign().cells
    for cell in CELLS:
        outcomes = [
            r.outcome for r in there if (r.mode, r.fault_class) == cell and r.outcome != "infra_error"
        ]
        assert (cells[cell].trials, cells[cell].crashes) == (len(outcomes), outcomes.count("crash"))


def changed(**fields: Any) -> CampaignSpec:
    return spec(**(SPEC.model_dump() | fields))


@pytest.mark.parametrize(
    "other",
    [
        changed(seed=9),
        changed(crashes_per_cell=3),
        changed(modes=["rio"]),
        changed(faults=4),
        changed(workload={"path": "/srv/otherload"}),
        changed(workload={"path": SPEC.workload.path, "options": {"twins": 1}}),
        changed(machine={"memory_mib": 1024}),
        changed(sites={"subsystems": ["mm"]}),
        changed(sites={"functions_file": "/some/list", "functions_listed": ["vfs_read"]}),
    ],
)
def test_the_same_name_with_another_spec_is_refused(world: World, other: CampaignSpec) -> None:
    world.campaign()
    before = (world.folder / "store.sqlite").read_bytes()
    with pytest.raises(UsageError) as caught:
        world.campaign(other)
    assert str(caught.value) == (
        "campaign 'test' is in this store with another spec; give this one another name or another store"
    )
    assert (world.folder / "store.sqlite").read_bytes() == before
    world.campaign(other.model_copy(update={"name": "other"}))
    assert [row.name for row in world.store().campaigns()] == ["test", "other"]


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("build_id", "ffff", "kernel_build_id"),
        ("accelerator", "kvm", "accelerator"),
        ("qemu", "QEMU emulator version 8.0.0\n", "qemu_version"),
    ],
)
def test_a_campaign_does_not_go_on_on_something_else(world: World, field: str, value: str, what: str) -> None:
    world.campaign()
    setattr(world, field, value)
    with pytest.raises(UsageError, match=rf"begun on something else: {what} is"):
        world.campaign()


def test_a_campaign_ends_when_all_its_cells_are_full(world: World) -> None:
    # Else it would go through a plan of billions.
    world.run(changed(max_trials_per_cell=10**9))
    count = len(world.started)
    world.run(changed(max_trials_per_cell=10**9))
    assert len(world.started) == count


def test_a_campaign_does_not_go_on_with_another_image(world: World) -> None:
    world.run()
    world.image = "f" * 16
    with pytest.raises(UsageError, match="begun on something else: image is ffffffffffffffff, not"):
        world.run()


def test_a_campaign_goes_on_in_a_moved_checkout(world: World, tmp_path: Path) -> None:
    memtest, moved = CHECKOUT / "workloads/memtest", tmp_path / "elsewhere/memtest"
    shutil.copytree(memtest, moved)
    world.run(changed(workload={"path": memtest}))
    stored = yaml.safe_load(world.store().campaign().spec)
    assert not Path(stored["workload"]["path"]).is_absolute()
    count = len(world.started)
    world.run(changed(workload={"path": moved}))
    assert len(world.started) == count
    # But with a workload of that name that does something else it is no longer the same campaign.
    with (moved / "workload.yaml").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(UsageError, match="begun on something else: workload is"):
        world.run(changed(workload={"path": moved}))


def test_a_campaign_goes_on_with_its_list_wherever_the_file_lies(world: World) -> None:
    names = ["ext4_sync_file", "vfs_read"]
    world.run(changed(sites={"functions_file": "/some/list", "functions_listed": names}))
    stored = yaml.safe_load(world.store().campaign().spec)
    assert stored["sites"]["functions_file"] == "list"
    assert stored["sites"]["functions_listed"] == names
    count = len(world.started)
    world.run(changed(sites={"functions_file": "/other/list", "functions_listed": names}))
    assert len(world.started) == count
    with pytest.raises(UsageError, match="with another spec"):
        world.run(changed(sites={"functions_file": "/other/list", "functions_listed": names[:1]}))


def test_a_campaign_from_before_there_were_sites_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_sites(spec: CampaignSpec) -> dict[str, Any]:
        return {key: value for key, value in spec.model_dump(mode="json").items() if key != "sites"}

    with monkeypatch.context() as patch:
        patch.setattr(campaign, "spec_data", without_sites)
        world.run(SPEC)
    assert "sites" not in world.store().campaign().spec
    count = len(world.started)
    world.run(SPEC)
    assert len(world.started) == count
    with pytest.raises(UsageError, match="with another spec"):
        world.run(changed(sites={"subsystems": ["mm"]}))


def test_campaigns_in_one_store_keep_their_logs_apart(world: World) -> None:
    world.run()
    world.run(changed(name="other", seed=16))
    names = [row.log for row in every_row(world)]
    assert len(set(names)) == len(names)
    for row in every_row(world):
        console = gzip.decompress((world.folder / str(row.log)).read_bytes()).decode()
        assert console == f"console of {row.seed} in {row.mode}"


def every_row(world: World) -> list[TrialRow]:
    store = world.store()
    return [row for campaign in store.campaigns() for row in trial_rows(store, campaign.id)]


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("classes", [CLASSES, ["kernel_text"]])
def test_workers_change_the_order_only(world: World, workers: int, classes: list[str]) -> None:
    """A cell may get as many trials too many as were under way when its last crash came."""
    asked = changed(fault_classes=classes, modes=MODES if classes == CLASSES else ["rio"])
    rng = random.Random(workers)

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        time.sleep(rng.uniform(0, 0.01))
        result(guest, spec, record)

    world.trial = trial
    parallel = world.run(asked, workers)
    world.trial = result
    alone = world.run(asked.model_copy(update={"name": "alone"}))
    assert len(parallel) == len({row.position for row in parallel})
    assert {essence(row) for row in alone} <= {essence(row) for row in parallel}
    by_position = {planned.position: planned for planned in plan(asked)}
    assert all(row.seed == by_position[row.position].seed for row in parallel)
    most, wanted = crashes(parallel), crashes(alone)
    assert all(wanted[cell] <= most[cell] <= wanted[cell] + workers - 1 for cell in wanted)


def test_workers_work_at_the_same_time_each_with_guests_of_its_own(world: World) -> None:
    meeting = threading.Barrier(2, timeout=10)

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position < 2:
            meeting.wait()
        result(guest, spec, record)

    world.trial = trial
    world.run(changed(modes=["rio"]), workers=2)
    assert not meeting.broken
    assert [machine.mode for machine in world.machines] == [cache_mode("rio")] * 2


def test_a_failure_ends_the_trials_under_way_without_a_row(world: World) -> None:
    under_way = threading.Event()

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        if record.planned.position == 0:
            under_way.set()
            assert guest.machine.discarded.wait(10)
            raise InfraError("the machine is gone")
        assert under_way.wait(10)
        raise InfraError("no room")

    world.trial = trial
    start = time.monotonic()
    with pytest.raises(EnvironmentFault, match=r"8 trials in a row failed .* last: trial 2 .* no room"):
        world.run(workers=2)
    assert time.monotonic() - start < 5
    assert {row.position for row in world.rows()} == {1, 2}


def test_a_result_that_comes_after_the_end_is_dropped(world: World) -> None:
    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        result(guest, spec, record)
        if record.planned.position == 0:
            assert guest.machine.discarded.wait(10)
        else:
            raise Boom

    world.trial = trial
    with pytest.raises(Boom):
        world.run(workers=2)
    assert world.rows() == []


def test_a_store_that_fails_stops_the_campaign(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Store, trial: TrialRow) -> TrialRow:
        raise RiobedError("store: has no room left on its disk")

    monkeypatch.setattr(Store, "add_trial", full)
    with pytest.raises(RiobedError, match="no room left"):
        world.run()
    assert world.started == [0]
    assert world.rows() == []


def test_faults_are_drawn_by_one_thread(world: World) -> None:
    """pyelftools and capstone keep state: two workers drawing at once read nonsense."""
    world.run(workers=4)
    assert world.drew == {threading.get_ident()}
