# SPDX-License-Identifier: Apache-2.0
"""What a bench measures, in which order, and that nothing is lost or measured twice. Guests are not real."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from harness_builders import Clock, manifest
from riobed.bench import Bench, BenchSpec, PlannedRun, load_bench, plan_runs
from riobed.bench.before import Steps
from riobed.bench.clocks import check_clocks
from riobed.bench.spec import bench_data, comparable
from riobed.bench.writeback import scale_writeback_timers
from riobed.commands.bench import Told
from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.guest import MIB, Guest, GuestSetup, Layout, MachineSpec, Throttle, disk_models
from riobed.guest import setup as making
from riobed.guest.memory.layout import ENTRY_SIZE
from riobed.guest.workload.description import load_workload
from riobed.measure import Measurement, rounds
from riobed.products import CHECKOUT
from riobed.vm import COUNTED
from riobed_results.store import RunRow, Store, open_store
from riobed_results.tables.cost.cost import ENTRY_BYTES

MODES = ["memory", "delayed", "rio", "rio-protected"]


def bench_spec(**fields: Any) -> BenchSpec:
    workloads = {name: {"path": CHECKOUT / "workloads" / name} for name in ("cp_rm", "sdet")}
    base = {"name": "small", "modes": MODES, "workloads": workloads, "disks": {"old": "disk-1996", "new": {}}}
    return BenchSpec.model_validate(base | {"rounds": 5, "counted_rounds": 2} | fields)


class World:
    """A bench whose runs give what a test says; `fails` has the errors of the next ones, last first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.fails: list[Exception | type[BaseException]] = []
        self.made: list[tuple[PlannedRun, Guest, Mapping[str, Throttle]]] = []
        # By mode, what came before the work.
        self.before: dict[str, Steps] = {}
        self.discarded = 0
        # Seconds of the work that says the pace; it fails where there are none.
        self.paces: list[float] = []
        self.found: dict[str, Any] = {"outcome": "measured", "seconds": 4.0, "parts": {"cp": 3.0, "rm": 1.0}}
        self.discard: Callable[[], object] = lambda: None
        monkeypatch.setattr(making, "qemu_version", lambda *_: "QEMU emulator version 7.2.0")
        monkeypatch.setattr(rounds, "open_guest", self._open)
        monkeypatch.setattr(rounds, "counter", lambda *_, **__: None)

    def _open(self, setup: GuestSetup, mode: Any, name: str, plugin: object) -> SimpleNamespace:
        machine = SimpleNamespace(pause=lambda: None)
        known: dict[str, Any] = {"ready": lambda: None, "discard": self._discard, "machine": machine}
        return SimpleNamespace(mode=mode, setup=setup, **known)

    def _discard(self) -> None:
        self.discarded += 1
        self.discard()

    def _make(
        self, planned: PlannedRun, guest: Guest, disks: Mapping[str, Throttle], before: Steps
    ) -> dict[str, Any]:
        self.made.append((planned, guest, disks))
        self.before[planned.mode] = before
        if self.fails:
            raise self.fails.pop()
        return self.found

    def _pace(self, guest: Any, seed: int) -> Measurement:
        if not self.paces:
            raise InfraError("QEMU died")
        took = self.paces.pop(0)
        return Measurement("work", took, {}, 0.0, {}, {}, {}, {}, 9.0, took)

    def bench(self, spec: BenchSpec, workloads: Collection[str] = ()) -> Bench:
        setup = GuestSetup(manifest(self.folder), MachineSpec(), "tcg")
        setups = {(name, vcpus): setup for name in spec.workloads for vcpus in spec.vcpus}
        setups |= {(disk, 0): setup for disk in spec.paces}
        return Bench(spec, setups, self.store(), workloads, self._make, self._pace)

    def store(self) -> Store:
        return open_store(str(self.folder / "store.sqlite"), create=True)

    def run(self, spec: BenchSpec) -> list[RunRow]:
        """Make or resume it; the rows there are then."""
        self.bench(spec).run(lambda row: None)
        return self.rows()

    def rows(self) -> list[RunRow]:
        return self.store().runs(self.store().campaign().id)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def test_each_round_of_a_series_has_every_mode_in_an_order_of_its_own() -> None:
    series = plan_runs(bench_spec(vcpus=(1, 2)))
    assert len(series) == 2 * 2 * (2 + 1)
    for each in series:
        numbers = range(5 if each.kind == "time" else 2)
        of_round = [[run.mode for run in each.runs if run.round == number] for number in numbers]
        assert all(sorted(modes) == sorted(MODES) for modes in of_round)
        assert [run.round for run in each.runs] == [number for number in numbers for _ in MODES]
    runs = [run for each in series for run in each.runs]
    assert len({tuple(run.mode for run in runs[n : n + 4]) for n in range(0, len(runs), 4)}) > 8
    assert len({run.key for run in runs}) == len(runs)
    # A ratio compares equal work.
    assert len({(run.round, run.seed) for run in runs}) == len({run.seed for run in runs}) == 5
    assert {run.disk for run in runs if run.kind == "instructions"} == {"none"}


def test_a_run_is_stored_with_what_it_gave_and_how_it_was_made(world: World) -> None:
    world.found |= {"events": {"instructions": 1100, "repetitions": 100}, "clean_s": 2.5}
    rows = world.run(bench_spec(modes=["memory"], disks={"old": "disk-1996"}))
    row = rows[0]
    assert (row.workload, row.disk, row.mode, row.permanent) == ("cp_rm", "old", "memory", "never")
    assert (row.cost, row.part_costs, row.clean_s) == (4.0, {"cp": 3.0, "rm": 1.0}, 2.5)
    counted = [row for row in rows if row.kind == "instructions"]
    assert len(counted) == 2 * 2 and {row.cost for row in counted} == {1000.0}
    assert {row.accelerator for row in counted} == {COUNTED}
    # Where instructions are counted, no disk is slow.
    limits = {"time": {"": disk_models()["disk-1996"].limits}, "instructions": {}}
    assert all(disks == limits[planned.kind] for planned, _, disks in world.made)


def test_checksums_are_measured_only_if_asked_for() -> None:
    spec = bench_spec(modes=["delayed", "rio"])
    asked = spec.model_copy(update={"checksums": True})
    parameters = [{n: m.kernel_parameters for n, m in each.cache_modes.items()} for each in (asked, spec)]
    assert parameters[1] == parameters[0] | {"rio": (*parameters[0]["rio"], "rio.checksum=0")}


def test_what_comes_before_the_work_is_done_in_the_guests_of_its_mode(world: World) -> None:
    before = {"rio": {"script": "insmod x", "batch": ["heap 0 0 slab", "heap 1 1 slab"]}}
    world.run(bench_spec(modes=["rio", "memory"], before=before))
    assert world.before == {"memory": Steps(), "rio": Steps("insmod x", "heap 0 0 slab\nheap 1 1 slab\ngo\n")}


def stopped_after(world: World, spec: BenchSpec, made: int) -> list[RunRow]:
    """Run it until it has made so many runs; the rows there are then."""
    rows: list[RunRow] = []

    def stop(row: RunRow) -> None:
        rows.append(row)
        if len(rows) == made:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.bench(spec).run(stop)
    return world.rows()


def test_it_goes_on_where_it_was_stopped(world: World) -> None:
    spec = bench_spec()
    planned = [run.key for series in plan_runs(spec) for run in series.runs]
    assert [row.key for row in stopped_after(world, spec, 8)] == planned[:8]
    assert [row.key for row in stopped_after(world, spec, 40)] == planned[:48]
    assert [row.key for row in world.run(spec)] == planned
    world.made.clear()
    assert len(world.run(spec)) == len(planned) and not world.made


def test_the_round_in_which_it_was_stopped_is_followed_by_another(world: World) -> None:
    # Seconds of two sessions are no pair, so a round of two would leave a ratio with too few.
    spec = bench_spec(workloads={"cp_rm": {"path": CHECKOUT / "workloads" / "cp_rm"}}, disks={"new": {}})
    stopped_after(world, spec, 2)
    rows = stopped_after(world, spec, 9)
    assert [row.round for row in rows] == [0] * 2 + [1] * 4 + [2] * 4 + [3]
    # What was not made in round 0 is rehearsed in the next one.
    assert sum(planned.rehearsed for planned, *_ in world.made) == 2 + 4
    rows = world.run(spec)
    timed = [row for row in rows if row.kind == "time"]
    assert Counter(row.round for row in timed) == {0: 2, 1: 4, 2: 4, 3: 1, 4: 4, 5: 4, 6: 4}
    sessions = {number: {row.session for row in timed if row.round == number} for number in range(7)}
    assert all(len(found) == 1 for found in sessions.values()) and sessions[1] != sessions[4]
    assert len([row for row in rows if row.kind == "instructions"]) == 2 * 4
    assert not world.bench(spec).missing()


def test_a_run_that_fails_is_made_again(world: World) -> None:
    world.fails = [InfraError("QEMU died")] * 2
    rows = world.run(bench_spec())
    failed = [row for row in rows if row.outcome == "infra_error"]
    assert [(row.attempt, row.detail, row.seconds) for row in failed] == [
        (1, "QEMU died", None), (2, "QEMU died", None)
    ]  # fmt: skip
    assert rows[2].key == failed[0].key and rows[2].attempt == 3
    assert world.discarded > 2


def test_wrong_output_is_no_result_and_is_not_made_again(world: World) -> None:
    spec = bench_spec(modes=["rio"], counted_rounds=0)
    world.found = {"outcome": "wrong", "detail": "the output is wrong: u1/log: content"}
    rows = world.run(spec)
    assert {(row.outcome, row.seconds, row.detail) for row in rows} == {
        ("wrong", None, "the output is wrong: u1/log: content")
    }
    assert len(rows) == 2 * 2 * 5 and not world.bench(spec).missing()


def test_what_gave_no_result_is_said_and_tried_by_the_next_run(world: World) -> None:
    world.fails = [InfraError("QEMU died")] * 4
    with pytest.raises(EnvironmentFault, match="gave no result: 1, the first cp_rm old 1 time"):
        world.run(bench_spec())
    # With those that it is compared with.
    assert sorted(run.mode for run in world.bench(bench_spec()).missing()) == sorted(MODES)
    rows = world.run(bench_spec())
    assert {(row.workload, row.disk, row.round) for row in rows[-4:]} == {("cp_rm", "old", 5)}
    world.fails = [InfraError("no disk left")] * 100
    with pytest.raises(EnvironmentFault, match=r"8 runs in a row failed .* no disk left"):
        world.run(bench_spec(name="other"))


@pytest.mark.parametrize("change", [{"rounds": 6}, {"disks": {"old": "nvme"}}, {"modes": ["rio"]}])
def test_another_bench_of_that_name_is_refused(world: World, change: dict[str, Any]) -> None:
    world.run(bench_spec())
    with pytest.raises(UsageError, match="'small' is in this store with another spec"):
        world.bench(bench_spec(**change))


@pytest.mark.parametrize(("guest_s", "host_s", "good"), [
    (10.0, 10.0, True), (10.0, 10.25, True), (10.0, 9.8, True), (10.0, 10.4, False), (10.0, 5.0, False),
    (300.0, 305.0, True), (300.0, 310.0, False), (0.1, 0.15, True), (0.1, 0.2, False), (1.0, 1.2, False),
    (2.0, 0.1, False),
])  # fmt: skip
def test_clocks_that_differ_are_no_result(guest_s: float, host_s: float, good: bool) -> None:
    found = Measurement("work", guest_s, {}, 0.0, {}, {}, {}, {}, host_s=host_s)
    if good:
        check_clocks(found)
    else:
        with pytest.raises(InfraError, match="clocks differ"):
            check_clocks(found)
        # A host on which the guest had to wait may hear late.
        check_clocks(replace(found, delayed_s=abs(guest_s - host_s)))


PACE = {"workload": {"path": CHECKOUT / "workloads/cp_rm"}, "mode": "rio", "seconds": 8.0}
READY = {"bzimage": "bzImage", "vmlinux": "vmlinux", "modules": "modules"}
PROBES = {"fault_class": "kernel_text", "count": 1}
# What is wrong in a spec, and what is said of it.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"rounds": 4}, "rounds: .*want 0, or at least 5"), ({"disks": {}}, "disks"),
    ({"rounds": 0, "counted_rounds": 0}, "rounds: nothing is measured"),
    ({"over": {"rio": "fat"}}, "over: fat is none of the bench's modes"),
    ({"before": {"off": {"script": "true"}}}, "before: off is none of the bench's modes"),
    ({"before": {"rio": {"probes": PROBES | {"fault_class": "planted"}}}}, "'planted' is no class .*: kern"),
    ({"before": {"rio": {"batch": ["a"], "probes": PROBES}}}, "leave out one of batch and probes"),
    ({"modes": ["rio", "rio"]}, "modes: duplicate name"), ({"modes": ["fat"]}, "unknown cache mode 'fat'"),
    ({"disks": {"none": "nvme"}}, "disks: none: that name is for a disk without limits"),
    ({"disks": {"old": "drum"}}, "unknown disk model 'drum'"), ({"vcpus": [1, 1]}, "duplicate number"),
    ({"times": {"m": 2}}, "times: m: no disk of that name; there are: n"), ({"times": {"n": 0}}, "times"),
    ({"times": {"n": PACE | {"mode": "nv-cache"}}}, "times: n: nv-cache is none of the bench's modes"),
    ({"times": {"n": PACE | {"seconds": 0}}}, "times.n.*seconds.*greater than 0"),
    ({"machine": {"throttle": "nvme"}}, "machine.throttle: a bench has disks instead"),
    ({"machine": {"icount": True}}, "machine.icount"), ({"modes": ["delayed-xfs"]}, "needs a disk of 300"),
    ({"own_modes": {"slow": {"summary": "s", "throttle": "nvme"}}, "modes": ["slow"]}, "limits of its own"),
    ({"own_modes": {"k": {"summary": "s", "kernel": READY}}, "modes": ["k"]}, "kernel has no slow disks"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), WRONG)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "bench.yaml"
    base = {"name": "b", "modes": MODES, "workloads": {"cp_rm": {"path": "cp_rm"}}, "disks": {"n": "nvme"}}
    path.write_text(str(base | change))
    with pytest.raises(UsageError, match=said) as caught:
        load_bench(path)
    assert "\n" not in str(caught.value)


def test_with_a_faster_disk_the_kernel_writes_earlier() -> None:
    spec = bench_spec(modes=["memory", "rio"])
    assert spec.limits("rio", "old", 35) == {"": Throttle(iops=2065, bytes_per_s=189_000_000)}
    assert spec.limits("rio", "new", 35) == {}
    assert scale_writeback_timers(spec.mode("memory"), 35).sysctls == {
        "vm.dirty_expire_centisecs": 86, "vm.dirty_writeback_centisecs": 14,
    }  # fmt: skip
    assert scale_writeback_timers(spec.mode("rio"), 35).sysctls.items() > spec.mode("rio").sysctls.items()
    # Only what commits by itself is told when: no journal, no commits.
    modes = [scale_writeback_timers(bench_spec(modes=[name], machine={"disk_mib": 512}).mode(name), 3)
             for name in ("rio", "delayed", "delayed-btrfs", "delayed-xfs")]  # fmt: skip
    mounts = [mode.mount for mode in modes]
    assert mounts == ["rio,nodelalloc", "defaults,commit=2", "defaults,commit=10", "defaults"]
    assert modes[-1].sysctls["fs.xfs.xfssyncd_centisecs"] == 1000
    assert scale_writeback_timers(spec.mode("rio"), 1) == spec.mode("rio")


def test_a_disk_keeps_pace_with_the_processor_in_each_round(world: World) -> None:
    spec = bench_spec(modes=["memory", "rio"], times={"old": PACE, "new": 3}, counted_rounds=0)
    # Medians of three: one before the guests boot, then once as fast as that for which the disk was made, 2,
    # 4, 8 and 1 times.
    took = [n for seconds in (6.0, 8.0, 4.0, 2.0, 1.0, 8.0) for n in (seconds, 9.9, 0.1)]
    world.paces = [*took, *took]
    rows = world.run(spec)
    assert not world.paces
    speeds = {row.round: row.disk_speedup for row in rows if row.disk == "old"}
    assert speeds == {0: 1.0, 1: 2.0, 2: 4.0, 3: 8.0, 4: 1.0}
    assert {row.disk_speedup for row in rows if row.disk == "new"} == {3.0}
    asked = [disks[""].iops for planned, _, disks in world.made if planned.disk == "old"]
    assert asked == [59 * n for n in (1, 1, 2, 2, 4, 4, 8, 8, 1, 1)] * 2
    # A session that goes on in the middle of a round measures the pace anew.
    world.paces = [4.0] * 6
    more = spec.model_copy(update={"name": "more"})
    started = world.bench(more)

    def stop(row: RunRow) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        started.run(stop)
    with pytest.raises(EnvironmentFault, match="the processor's pace cannot be measured: QEMU died"):
        world.run(more)


def test_the_time_left_is_that_of_runs_like_those_that_are_left(world: World, clock: Clock) -> None:
    missing = world.bench(bench_spec(counted_rounds=0)).missing()
    assert [*Counter(run.key[:2] for run in missing).values()] == [20] * 4
    told = Told(missing)
    # None of these is a result, so as many are left.
    row: dict[str, Any] = dict.fromkeys(("accelerator", "seed", "started", "finished"), "")
    row |= {"outcome": "infra_error", "workload": "cp_rm", "kind": "time", "mode": "rio"}
    for disk, seconds in [("old", 100.0), ("old", 140.0), ("new", 30.0)]:
        clock.now += seconds
        told.line(RunRow(campaign_id=1, disk=disk, vcpus=1, round=0, attempt=1, **row), 80)
    # The mean of all three is 90 s.
    assert told.hours_left() == pytest.approx((20 * 120 + 20 * 30 + 2 * 20 * 90) / 3600)


def test_a_line_has_the_time_left_however_long_its_text_is(world: World) -> None:
    spec = bench_spec(modes=["memory"], counted_rounds=0)
    world.fails = [InfraError("QEMU died " * 20)]
    started, lines = world.bench(spec), list[str]()
    told = Told(started.missing())
    started.run(lambda row: lines.append(told.line(row, 100)))
    assert all(len(line) <= 100 for line in lines) and len(lines) == 21
    assert "attempt 1: QEMU died" in lines[0] and "20 runs left" in lines[0]
    assert "4.00 s (3.00 + 1.00)" in lines[1] and "19 runs left" in lines[1]


def test_two_commands_share_a_bench(world: World) -> None:
    spec = bench_spec(counted_rounds=0)
    # Both begin before either has made a run.
    started = [world.bench(spec, [name]) for name in spec.workloads]
    for each in started:
        each.run(lambda row: None)
    assert Counter(row.workload for row in world.rows()) == {"cp_rm": 40, "sdet": 40}
    assert len({row.key for row in world.rows()}) == 80 and not world.bench(spec).missing()


def test_the_parts_of_rio_differ_in_one_thing_each() -> None:
    spec = load_bench(CHECKOUT / "harness/specs/cost.yaml")
    modes = spec.cache_modes
    assert [name for name in modes if name not in spec.over] == [next(iter(modes))]
    parameters = {name: {*mode.production_parameters(Layout(512 * MIB))} for name, mode in modes.items()}
    less = {"atomic-metadata": {"rio.atomic_metadata=0"}, "checksums": {"rio.checksum=0"}}
    for name, over in spec.over.items():
        assert modes[name].mkfs == modes[over].mkfs and modes[name].sysctls == modes[over].sysctls
        assert {*modes[over].mount.split(",")} <= {*modes[name].mount.split(",")}
        if over in ("registry", "atomic-metadata"):
            more = {f"rio.protect={name}"} if name in ("pte", "pks", "code") else set()
            found = parameters[name] - parameters[over], parameters[over] - parameters[name]
            assert found == (more, less.get(name, set()))
    kernels = {name: mode.kernel for name, mode in modes.items() if mode.kernel}
    assert kernels.keys() == {"unpatched", "code"}
    # It stands in the store as it would on another host.
    stored = bench_data(spec)["own_modes"]["unpatched"]["kernel"]["series"]
    assert stored == "guest-kernel-patches/unpatched"


def test_the_table_of_cost_has_the_size_of_an_entry_of_the_registry() -> None:
    assert ENTRY_BYTES == ENTRY_SIZE


def test_a_bench_that_began_before_a_key_goes_on(world: World) -> None:
    data = bench_data(bench_spec())
    text = yaml.safe_dump({key: value for key, value in data.items() if key not in ("over", "before")})
    assert comparable(text) == comparable(yaml.safe_dump(data))


@pytest.mark.parametrize("name", ["cost", "cost-faults"])
def test_the_costs_are_those_of_work_that_is_counted(name: str) -> None:
    spec = load_bench(CHECKOUT / f"harness/specs/{name}.yaml")
    assert all(load_workload(each.path).measured for each in spec.workloads.values())
    assert {run.kind for series in plan_runs(spec) for run in series.runs} == {"instructions"}


@pytest.mark.parametrize("name", ["table2", "table2-more"])
def test_what_the_shipped_specs_measure_can_be_measured(name: str) -> None:
    spec = load_bench(CHECKOUT / f"harness/specs/{name}.yaml")
    assert all(load_workload(each.path).measured for each in spec.workloads.values())
    # An emulated processor beside a disk in its own time says nothing about either, and hosts differ.
    assert spec.paces.keys() == spec.disks.keys()
    assert all(load_workload(each.workload.path).measured for each in spec.paces.values())


def test_every_guest_is_discarded_if_the_user_stops_it_meanwhile(world: World) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    world.discard = stopped
    setup = GuestSetup(manifest(world.folder), MachineSpec(), "tcg")
    with pytest.raises(KeyboardInterrupt), rounds.guests(setup, bench_spec().cache_modes, "time", "x"):
        pass
    assert world.discarded == len(MODES)
