# SPDX-License-Identifier: Apache-2.0
"""What a campaign runs, stores and repeats, however disturbed. The store is real, the guests are not."""

import hashlib
import multiprocessing
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from campaign_world import (
    CLASSES,
    MODES,
    SPEC,
    Machine,
    Rows,
    World,
    essence,
    failing,
    result,
    results,
    undisturbed,
)
from harness_builders import PATIENCE_S, recovery, spec
from riobed.campaign import Campaign, fixed_by_tag
from riobed.campaign import workers as campaign_workers
from riobed.errors import EnvironmentFault, InfraError, RiobedError, UsageError
from riobed.guest import Guest, WarmStart, cache_mode
from riobed.plan import CampaignSpec, load_spec, plan
from riobed.products import CHECKOUT
from riobed.trial.record import TrialRecord
from riobed.trial.verdict import Verdict
from riobed_results.rules.controls import control_warnings
from riobed_results.store import CHECKS_DISAGREE, Store, TrialRow, crashed, read_results
from riobed_results.tables.corruption.protocol import Ended, protocol_table

CELLS = [(mode, fault_class) for mode in MODES for fault_class in CLASSES]
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What a campaign that nothing disturbs leaves."""
    with pytest.MonkeyPatch.context() as patch:
        return [essence(row) for row in World(patch, tmp_path_factory.mktemp("undisturbed")).run()]


def changed(**fields: Any) -> CampaignSpec:
    return spec(**(SPEC.model_dump() | fields))


# With as many crashes wanted as trials allowed, no other trial can take the place of one.
EVERY = changed(crashes_per_cell=8, max_trials_per_cell=8)


def crashes(rows: list[TrialRow]) -> Counter[tuple[str, str]]:
    return Counter((row.mode, row.fault_class) for row in rows if crashed(row))


def infra_errors(rows: list[TrialRow]) -> list[TrialRow]:
    return [row for row in rows if row.outcome == "infra_error"]


def test_a_campaign_from_start_to_end(world: World) -> None:
    rows = world.run()
    by_position = {planned.position: planned for planned in plan(SPEC)}
    assert [row.position for row in rows] == sorted({row.position for row in rows})
    for row in rows:
        planned = by_position[row.position]
        assert (row.seed, row.mode, row.fault_class) == (planned.seed, planned.mode, planned.fault_class)
        assert (row.attempt, row.requested) == (1, 3)
        assert world.console(row) == f"console of {row.seed} in {row.mode}"
    assert [row.position for row in world.reported] == [row.position for row in rows]
    assert all(machine.discards for machine in world.machines)


def test_a_cell_that_has_enough_is_skipped(world: World) -> None:
    rows = world.run()
    assert crashes(rows) == Counter(dict.fromkeys(CELLS, 2))
    # It ends with the crash that was enough.
    last = {(row.mode, row.fault_class): row.outcome for row in rows}
    assert last == dict.fromkeys(CELLS, "panic")
    sizes = Counter((row.mode, row.fault_class) for row in rows)
    assert len(set(sizes.values())) > 1, "the seeds make all cells alike, the test says nothing"


def test_a_crash_in_recovery_that_came_too_late_is_not_counted(world: World) -> None:
    def cut(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        phase = "done" if record.planned.position < 3 * len(CELLS) else "e2fsck"
        record.recovery = recovery(interrupted={"planned_s": 0.1, "at_s": 0.1, "phase": phase})
        record.verdict = Verdict("panic", "oops", "BUG at fs/inode.c", "none")

    world.trial = cut
    assert crashes(world.run()) == Counter(dict.fromkeys(CELLS, 5))
    # Nor when the campaign is taken up again.
    cells = world.campaign().cells
    assert {cell: (c.trials, c.crashes) for cell, c in cells.items()} == dict.fromkeys(CELLS, (5, 2))


def test_a_cell_that_never_gets_enough_ends_as_well(world: World) -> None:
    world.trial = lambda *_: None
    assert [row.outcome for row in world.run()] == ["survived"] * 8 * len(CELLS)


def test_a_campaign_that_is_complete_runs_nothing_more(world: World) -> None:
    # Else it would go through a plan of billions.
    endless = changed(max_trials_per_cell=10**9)
    rows, count = results(world.run(endless)), len(world.started)
    assert (results(world.run(endless)), len(world.started)) == (rows, count)


CLAIM = {"mode": "write-through", "than": "rio", "endpoint": "judged"}


def corrupts_rio(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
    found: Any = "direct" if record.planned.mode == "rio" else "none"
    record.recovery = recovery()
    record.verdict = Verdict("panic", "oops", "BUG at fs/inode.c", found)


@pytest.mark.parametrize("at", [None, 3])
def test_a_campaign_stops_when_its_protocol_is_decided(world: World, at: int | None) -> None:
    """At level 0.2 after two blocks of a pair in each class, also if it is interrupted before."""
    asked = changed(**EVERY.model_dump() | {"protocol": {"alpha": 0.2, "claims": [CLAIM]}})
    world.trial = corrupts_rio
    if at is not None:
        world.before = failing(Boom(), lambda position: position >= at)
        with pytest.raises(Boom):
            world.run(asked)
        world.before = undisturbed
    campaign = world.campaign(asked)
    campaign.run(world.workers(asked), world.reported.append)
    assert campaign.stopped == "all 1 claims are shown"
    assert len(world.rows()) == 2 * len(CELLS)
    # Nor does it run anything when it is started again.
    count = len(world.started)
    assert (len(world.run(asked)), len(world.started)) == (2 * len(CELLS), count)


def test_decisions_follow_the_plan_whatever_ends_first(world: World) -> None:
    order: list[int] = []

    def decided(row: Any) -> str:
        order.append(row.position)
        return ""

    others = threading.Event()

    def before(guest: Guest, position: int) -> None:
        if position == 0:
            others.wait(PATIENCE_S)
        elif position > 4:
            others.set()

    world.before = before
    campaign = Campaign(
        SPEC,
        world.setup(),
        dict.fromkeys(MODES),
        world.store(),
        world.folder / "logs",
        decided,  # type: ignore[arg-type]
    )
    campaign.run(world.workers(count=3), world.reported.append)
    assert world.reported[0].position != 0 and order == sorted(row.position for row in world.rows())


def test_the_campaigns_row_says_what_was_asked_and_on_what_it_ran(world: World) -> None:
    world.campaign()
    row = world.store().campaign("test")
    assert yaml.safe_load(row.spec)["crashes_per_cell"] == 2 and row.host["cpus"] >= 1
    assert (row.seed, row.kernel_release, row.kernel_build_id) == (str(SPEC.seed), "6.12.107", "0123abcd")
    assert (row.qemu_version, row.accelerator) == ("QEMU emulator version 7.2.0", "tcg")


def test_modes_share_seeds_and_faults(world: World) -> None:
    by_seed: dict[str, set[str]] = {}
    for row in world.run():
        drawn = [(fault.address, fault.activated) for fault in row.faults]
        by_seed.setdefault(row.seed, set()).add(str(drawn))
    assert {len(faults) for faults in by_seed.values()} == {1}
    assert len(set.union(*by_seed.values())) > 1


class Boom(Exception):
    """No error of ours: a bug, or Ctrl-C."""


@pytest.mark.parametrize(("at", "workers"), [(0, 1), (5, 1), (9, 1), (1, 3), (8, 3)])
def test_an_exception_leaves_whole_rows(world: World, expected: Rows, at: int, workers: int) -> None:
    world.before = failing(Boom(), lambda position: position >= at)
    with pytest.raises(Boom):
        world.run(workers=workers)
    before = results(world.rows())
    assert set(before) < set(expected) and all(row[0] < at for row in before)
    world.before = undisturbed
    assert results(world.run()) == expected


def test_ctrl_c(world: World, expected: Rows) -> None:
    def report(row: TrialRow) -> None:
        if row.position >= 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.campaign().run(world.workers(), report)
    assert max(row.position for row in world.rows()) >= 7
    assert results(world.run()) == expected


@pytest.mark.parametrize("at", [0, 7])
def test_sigkill(world: World, expected: Rows, at: int) -> None:
    world.before = lambda _, position: position >= at and os.kill(os.getpid(), signal.SIGKILL)
    child = FORK.Process(target=world.run)
    child.start()
    child.join(PATIENCE_S)
    assert child.exitcode == -signal.SIGKILL
    assert results(world.rows()) == [row for row in expected if row[0] < at]
    world.before = undisturbed
    assert results(world.run()) == expected


def test_sigkills_at_random_moments(world: World, longer: int) -> None:
    """Also between a log and its row, and in the middle of a row."""
    alone = results(world.run(EVERY.model_copy(update={"name": "alone"})))
    world.before = lambda *_: time.sleep(0.02)
    rng = random.Random(7)
    in_the_middle = 0

    def stored() -> int:
        with closing(sqlite3.connect(world.folder / "store.sqlite")) as connection:
            (count,) = connection.execute("SELECT count(*) FROM trials").fetchone()
        return int(count)

    for _ in range(10 * longer):
        child = FORK.Process(target=world.run, args=(EVERY,))
        child.start()
        if rng.random() < 0.7:
            before = stored()
            while child.is_alive() and stored() == before:
                time.sleep(0.002)
        child.join(rng.uniform(0.0, 0.05))
        child.kill()
        child.join()
        in_the_middle += child.exitcode == -signal.SIGKILL and world.store().campaign().name == "test"
    assert in_the_middle > 1, "the test says nothing"
    world.before = undisturbed
    rows = world.run(EVERY)
    assert results(rows) == alone
    assert all(map(world.console, rows))


def died_at(position: int, times: int = 1000) -> Callable[[Any, int], object]:
    return failing(InfraError("QEMU died during a trial"), lambda at: at == position, times)


@pytest.mark.parametrize("times", [1, 3])
def test_an_infra_error_is_a_row_and_the_trial_runs_again(world: World, expected: Rows, times: int) -> None:
    world.before = died_at(3, times)
    rows = world.run()
    attempts = [row for row in rows if row.position == 3]
    assert [row.outcome for row in attempts[:-1]] == ["infra_error"] * times
    assert [row.attempt for row in attempts] == list(range(1, times + 2))
    assert [row.detail for row in attempts[:-1]] == ["QEMU died during a trial"] * times
    assert len({row.log for row in attempts}) == times + 1
    assert results(rows) == expected
    assert len(infra_errors(world.reported)) == times
    (machine,) = [machine for machine in world.machines if machine.mode == cache_mode(attempts[0].mode)]
    # Each failure throws the machine away, and the end of the campaign once more.
    assert machine.discards == times + 1


@pytest.mark.parametrize("said", ["guest agent: no answer", "vm: {words}"])
def test_an_infra_error_says_what_became_of_qemu(world: World, said: str) -> None:
    words = "QEMU is not running; it wrote last: Bail out!"

    def before(guest: Any, position: int) -> None:
        died = position == 2 and guest.machine.discards == 0
        guest.machine.failure = lambda: words if died else ""
        if died:
            raise InfraError(said.format(words=words))

    world.before = before
    (error,) = infra_errors(world.run())
    assert error.detail.count(words) == 1 and error.detail.startswith(said.partition(":")[0])


def test_a_pause_that_fails_spoils_the_trial_only(world: World) -> None:
    pause = failing(InfraError("QEMU is not running"), lambda _: True, times=1)
    world.before = lambda guest, position: setattr(guest.machine, "pause", lambda: pause(guest, position))
    rows = world.run()
    assert (rows[0].position, rows[0].outcome, rows[0].crash_kind) == (0, "infra_error", None)
    assert (rows[1].position, rows[1].attempt) == (0, 2)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_trial_that_always_fails_is_replaced_by_another(world: World, expected: Rows, workers: int) -> None:
    world.before = died_at(3)
    rows = world.run(workers=workers)
    assert [row.position for row in infra_errors(rows)] == [3] * 4
    assert {row for row in expected if row[0] != 3} < set(results(rows))
    # Its cell has what it needs without it.
    assert all(2 <= crashes(rows)[cell] <= 1 + workers for cell in CELLS)


def test_what_was_given_up_is_tried_again(world: World) -> None:
    alone = results(world.run(EVERY.model_copy(update={"name": "alone"})))
    world.before = died_at(3, 4)
    with pytest.raises(EnvironmentFault, match=rf"no result: 1, the first 3; .* see {world.folder}/logs$"):
        world.run(EVERY)
    rows = world.run(EVERY)
    assert [row.attempt for row in rows if row.position == 3] == [1, 2, 3, 4, 5]
    assert results(rows) == alone


def test_of_a_fixed_size_a_trial_has_the_same_attempts_however_often_one_starts(world: World) -> None:
    """Nothing that a look at the claims shows may give a lost trial another attempt."""
    asked = changed(**EVERY.model_dump() | {"protocol": {"runs": 8, "claims": [CLAIM]}})
    met = iter([InfraError("first"), InfraError("second"), Boom()])

    def before(guest: Guest, position: int) -> None:
        if position == 3:
            raise next(met, InfraError("later"))

    def sound(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        record.verdict = Verdict("panic", "oops", "BUG at fs/inode.c", "none")

    world.before, world.trial = before, sound
    with pytest.raises(Boom):
        world.run(asked)
    assert [row.detail for row in infra_errors(world.rows())] == ["first", "second"]
    rows = world.run(asked)
    assert [row.detail for row in infra_errors(rows)] == ["first", "second", "later", "later"]
    world.before = undisturbed
    assert len(world.run(asked)) == len(rows)
    (claim,) = protocol_table(read_results(world.store())).claims
    assert isinstance(claim, Ended) and claim.tested and (claim.tested.no_result, claim.state) == (1, "open")


@pytest.mark.parametrize(("workers", "failures"), [(1, 8), (3, 8), (5, 10)])
def test_a_campaign_stops_when_nothing_works(
    world: World, expected: Rows, workers: int, failures: int
) -> None:
    world.before = failing(InfraError("QEMU does not start"), lambda position: position >= 3)
    with pytest.raises(EnvironmentFault, match=rf"^{failures} trials in a row .* QEMU does not start"):
        world.run(workers=workers)
    assert [row.outcome for row in world.reported[-failures:]] == ["infra_error"] * failures
    assert max(row.attempt for row in world.rows()) <= 4
    # They count for no cell.
    assert sum(cell.trials for cell in world.campaign().cells.values()) == len(results(world.rows()))
    world.before = undisturbed
    found = results(world.run(workers=workers))
    assert found == expected if workers == 1 else set(expected) <= set(found)


def test_a_parked_stage_0_that_differs_from_a_reset_ends_the_campaign_for_good(world: World) -> None:
    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        result(guest, spec, record)
        record.restart_differs = "check.equal" if record.planned.position == 5 else ""

    world.trial = trial
    for _ in range(2):
        with pytest.raises(EnvironmentFault, match="the parked stage 0 and a reset"):
            world.run()
    assert "otherwise: check.equal" in world.rows()[-1].detail


def test_a_check_on_the_host_that_differs_from_the_guests_ends_the_campaign_for_good(world: World) -> None:
    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        result(guest, spec, record)
        if record.planned.position == 5:
            raise InfraError(f"{CHECKS_DISAGREE}: files_lost")

    world.trial = trial
    for _ in range(2):
        with pytest.raises(EnvironmentFault, match="host's check and the guest's judged one crash different"):
            world.run()
    assert len(world.rows()) == 6
    warning = "The host's check and the guest's judged 1 crashes differently: no number counts."
    assert warning in control_warnings(read_results(world.store()))


def failing_once() -> Callable[[Guest, int], None]:
    """What each trial's first attempt fails by."""
    failed: set[int] = set()

    def before(guest: Guest, position: int) -> None:
        if position not in failed:
            failed.add(position)
            raise InfraError("agent lost")

    return before


def test_failures_with_results_between_them_stop_nothing(world: World, expected: Rows) -> None:
    world.before = failing_once()
    rows = world.run()
    assert len(infra_errors(rows)) == len(expected) > 8
    assert results(rows) == expected


def test_more_infra_errors_than_its_protocol_allows_end_a_campaign_for_good(world: World) -> None:
    asked = changed(**EVERY.model_dump() | {"protocol": {"claims": [CLAIM], "infra_errors": 0.004}})
    world.before = failing_once()
    said = (
        r"3 of \d first attempts in mode (write-through|rio) are infra errors, and the protocol allows 0.4%"
    )
    with pytest.raises(EnvironmentFault, match=said):
        world.run(asked)
    started = len(world.started)
    with pytest.raises(EnvironmentFault, match=f"{said}, so no row counts"):
        world.run(asked)
    assert len(world.started) == started
    # The table says the same of the rows, and which trial it was.
    found = protocol_table(read_results(world.store()))
    assert found.stopped and re.search(said, found.stopped.reason)
    assert found.stopped.position == world.rows()[-1].position
    assert {claim.state for claim in found.claims} == {"stopped"}


def test_infra_errors_in_an_arm_of_no_claim_are_told_and_end_nothing(world: World) -> None:
    modes = [*MODES, "rio-protected"]
    asked = changed(
        **EVERY.model_dump() | {"modes": modes, "protocol": {"claims": [CLAIM], "infra_errors": 0.004}}
    )
    fails = failing_once()
    other = {planned.position for planned in plan(asked) if planned.mode not in MODES}
    world.before = lambda guest, position: fails(guest, position) if position in other else None
    world.run(asked)
    found = protocol_table(read_results(world.store()))
    infra = [(arm.claimed, arm.infra_errors, arm.first_attempts) for arm in found.arms]
    assert found.stopped is None and infra == [(True, 0, 16), (True, 0, 16), (False, 16, 16)]


def test_the_same_name_with_another_spec_is_refused(world: World) -> None:
    world.campaign()
    before = (world.folder / "store.sqlite").read_bytes()
    with pytest.raises(UsageError, match="with another spec"):
        world.campaign(changed(seed=9))
    assert (world.folder / "store.sqlite").read_bytes() == before
    world.campaign(changed(seed=9, name="other"))
    assert [row.name for row in world.store().campaigns()] == ["test", "other"]


@pytest.mark.parametrize(("field", "value", "what"), [
    ("build_id", "ffff", "kernel_build_id"), ("accelerator", "kvm", "accelerator"),
    ("qemu", "QEMU emulator version 8.0.0\n", "qemu_version"), ("image", "f" * 16, "image"),
])  # fmt: skip
def test_a_campaign_does_not_go_on_on_something_else(world: World, field: str, value: str, what: str) -> None:
    world.campaign()
    setattr(world, field, value)
    with pytest.raises(UsageError, match=rf"begun on something else: {what} is"):
        world.campaign()


def test_a_campaign_goes_on_in_a_moved_checkout(world: World, tmp_path: Path) -> None:
    memtest, moved = CHECKOUT / "workloads/memtest", tmp_path / "elsewhere/memtest"
    shutil.copytree(memtest, moved)
    world.run(changed(workload={"path": memtest}))
    count = len(world.started)
    world.run(changed(workload={"path": moved}))
    assert len(world.started) == count
    # But with a workload of that name that does something else it is no longer the same campaign.
    with (moved / "workload.yaml").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(UsageError, match="begun on something else: workload is"):
        world.run(changed(workload={"path": moved}))


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("classes", [CLASSES, ["kernel_text"]])
def test_workers_change_the_order_only(world: World, workers: int, classes: list[str]) -> None:
    """A cell may get as many trials too many as were under way when its last crash came."""
    asked = changed(fault_classes=classes, modes=MODES if classes == CLASSES else ["rio"])
    rng = random.Random(workers)
    world.before = lambda *_: time.sleep(rng.uniform(0, 0.01))
    parallel = world.run(asked, workers)
    world.before = undisturbed
    alone = world.run(asked.model_copy(update={"name": "alone"}))
    assert len(parallel) == len({row.position for row in parallel})
    assert set(results(alone)) <= set(results(parallel))
    seeds = {planned.position: planned.seed for planned in plan(asked)}
    assert all(row.seed == seeds[row.position] for row in parallel)
    most, wanted = crashes(parallel), crashes(alone)
    assert all(wanted[cell] <= most[cell] <= wanted[cell] + workers - 1 for cell in wanted)


def test_trials_that_share_a_warm_up_follow_each_other_on_a_worker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes, classes = [*MODES, "rio-protected"], [*CLASSES, "pointer", "off_by_one", "source_reg"]
    shared = spec(
        modes=modes, fault_classes=classes, crashes_per_cell=1, max_trials_per_cell=4, run_on_s=(0, 1)
    )
    expected = results(world.run(shared))
    warmed: list[tuple[str, str]] = []
    monkeypatch.setattr(Machine, "alive", lambda machine: True)

    def trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
        planned = record.planned
        if not guest.is_warm(planned.round_seed):
            warmed.append((planned.mode, planned.round_seed))
            guest._warm = WarmStart(planned.round_seed, 1, b"", b"")
        time.sleep(0.01)
        result(guest, spec, record)

    world.trial = trial
    again = shared.model_copy(update={"name": "again"})
    assert results(world.run(again, 2)) == expected
    # In the order of the plan both workers would warm up each round of each mode.
    assert len(set(warmed)) <= len(warmed) < 1.4 * len(set(warmed))


def test_workers_work_at_the_same_time_each_with_guests_of_its_own(world: World) -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE_S)
    world.before = lambda _, position: position < 2 and meeting.wait()
    world.run(changed(modes=["rio"]), workers=2)
    assert not meeting.broken
    assert [machine.mode for machine in world.machines] == [cache_mode("rio")] * 2


def test_a_failure_ends_the_trials_under_way_without_a_row(world: World) -> None:
    under_way = threading.Event()

    def before(guest: Any, position: int) -> None:
        if position == 0:
            under_way.set()
            assert guest.machine.discarded.wait(PATIENCE_S)
            raise InfraError("the machine is gone")
        assert under_way.wait(PATIENCE_S)
        raise InfraError("no room")

    world.before = before
    with pytest.raises(EnvironmentFault, match=r"8 trials in a row failed .* last: trial 2 .* no room"):
        world.run(workers=2)
    assert {row.position for row in world.rows()} == {1, 2}


def test_a_result_that_comes_after_the_end_is_dropped(world: World) -> None:
    def before(guest: Any, position: int) -> None:
        if position:
            raise Boom
        assert guest.machine.discarded.wait(PATIENCE_S)

    world.before = before
    with pytest.raises(Boom):
        world.run(workers=2)
    assert world.rows() == []


def test_a_machine_that_a_trial_started_after_the_end_is_ended_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_workers, "_DISCARD_S", 0.01)

    def before(guest: Any, position: int) -> None:
        if position:
            raise Boom
        assert guest.machine.discarded.wait(PATIENCE_S)
        # It was about to start its machine when all of them were ended.
        guest.machine.discarded.clear()
        assert guest.machine.discarded.wait(PATIENCE_S), "the trial goes on for as long as it likes"

    world.before = before
    with pytest.raises(Boom):
        world.run(workers=2)
    assert world.rows() == []


def test_a_store_that_fails_stops_the_campaign(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Store, trial: TrialRow) -> TrialRow:
        raise RiobedError("store: has no room left on its disk")

    monkeypatch.setattr(Store, "add_trial", full)
    with pytest.raises(RiobedError, match="no room left"):
        world.run()
    assert (world.started, world.rows()) == ([0], [])


def test_faults_are_drawn_by_one_thread(world: World) -> None:
    """pyelftools and capstone keep state: two workers drawing at once read nonsense."""
    world.run(workers=4)
    assert world.drew == {threading.get_ident()}


PROTOCOL: dict[str, Any] = {"tag": "protocol/first", "claims": [{"mode": MODES[0], "than": MODES[1]}]}


@pytest.mark.parametrize("protocol", [PROTOCOL, {"tag": PROTOCOL["tag"]}], ids=["claims", "none"])
def test_the_seed_of_a_protocol_follows_from_its_tag(tmp_path: Path, protocol: dict[str, Any]) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        return subprocess.run(
            ["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    path = tmp_path / "spec.yaml"

    def seed() -> int:
        return fixed_by_tag(load_spec(path), path).seed

    text = {"name": "first", "modes": MODES, "fault_classes": CLASSES, "protocol": protocol}
    path.write_text(yaml.safe_dump(text))
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "protocol")
    with pytest.raises(UsageError, match="there is no tag 'protocol/first'"):
        seed()
    git("tag", "protocol/first")
    digest = hashlib.sha256(git("rev-parse", "HEAD").encode()).hexdigest()
    assert seed() == int(digest[:8], 16)
    path.write_text(path.read_text() + "seed: 3\n")
    with pytest.raises(UsageError, match=r"seed and protocol\.commit follow from it; leave them out"):
        seed()
    path.write_text(path.read_text().replace("seed: 3\n", "limit_s: 7\n"))
    with pytest.raises(UsageError, match=r"the checkout is changed \(M spec.yaml\)"):
        seed()
    git("commit", "-qam", "later")
    with pytest.raises(UsageError, match="another commit is checked out; run 'git checkout protocol/first'"):
        seed()
