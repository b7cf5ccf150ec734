# SPDX-License-Identifier: Apache-2.0
"""Which guests are compared, in which order, and that a stopped measurement goes on."""

import itertools
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness_builders import manifest, provenance
from riobed.cost import series as cost
from riobed.cost.series import Series, run_series
from riobed.cost.variants import Variant, parts
from riobed.errors import InfraError, UsageError
from riobed.guest import MIB, GuestSetup, Layout, MachineSpec
from riobed.measure import Measurement, rounds
from riobed.measure.counter import between_marks
from riobed.measure.work import read_measurement
from riobed_results.store import Provenance
from riobed_results.tables.cost.cost_runs import CostRun, read_runs

VARIANTS = {variant.name: variant for variant in parts()}
OUTPUT = (
    "status 0\nns 1500000000\nended_us 9500000\nbefore.windows 3\nbefore.nr_written 0\nbefore.idle_ns 1000\n"
)
OUTPUT += "after.windows 8\nafter.nr_written 0\nafter.idle_ns 251000\n"


def parameters(variant: Variant) -> set[str]:
    return set(variant.mode.production_parameters(Layout(512 * MIB)))


@pytest.mark.parametrize(("name", "more", "less"), [
    ("atomic metadata", set(), {"rio.atomic_metadata=0"}), ("checksums", set(), {"rio.checksum=0"}),
    ("pte", {"rio.protect=pte"}, set()), ("pks", {"rio.protect=pks"}, set()),
    ("code", {"rio.protect=code"}, set()),
])  # fmt: skip
def test_a_variant_differs_in_one_parameter(name: str, more: set[str], less: set[str]) -> None:
    own, base = parameters(VARIANTS[name]), parameters(VARIANTS[str(VARIANTS[name].versus)])
    assert (own - base, base - own) == (more, less)


def test_the_first_is_the_same_without_rio() -> None:
    off, registry = VARIANTS["off"], VARIANTS["registry"]
    assert (VARIANTS["unpatched"].versus, off.versus, registry.versus) == (None, "unpatched", "off")
    assert not [text for text in parameters(off) if text.startswith("rio.reg")]
    assert set(registry.mode.mount.split(",")) - set(off.mode.mount.split(",")) == {"rio"}
    for variant in VARIANTS.values():
        assert (variant.mode.mkfs, variant.mode.sysctls) == (off.mode.mkfs, off.mode.sysctls)


def test_what_the_guest_printed() -> None:
    found = read_measurement("work", OUTPUT, "")
    assert (found.work, found.seconds, found.idle_s) == ("work", 1.5, 0.00025)
    assert found.ended_s == 9.5
    assert found.before == {"windows": 3, "nr_written": 0}
    assert found.after == {"windows": 8, "nr_written": 0}
    assert found.parts == {}
    parts = read_measurement("work", f"{OUTPUT}part.cp 900000000\npart.rm 600000000\n", "").parts
    assert parts == {"cp": 0.9, "rm": 0.6}
    assert read_measurement("work", f"{OUTPUT}part. 1500000000\n", "").parts == {}
    with pytest.raises(InfraError, match="status 4: cp: no room"):
        read_measurement("work", OUTPUT.replace("status 0", "status 4"), "cp: no room")
    for line in ("status 0", "ns 1500000000", "after.idle_ns 251000"):
        with pytest.raises(InfraError, match="cut short"):
            read_measurement("work", OUTPUT.replace(f"\n{line}\n", "\n").removeprefix(f"{line}\n"), "")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, int]]:
    """Modes and seeds of the measurements made."""
    made: list[tuple[object, int]] = []

    def measure(guest: Any, seed: int) -> Measurement:
        made.append((guest.mode, seed))
        return Measurement("work", 1.0, {"cp": 0.75, "rm": 0.25}, 0.0, {}, {}, {}, {})

    def opened(setup: object, mode: object, name: str, plugin: object) -> SimpleNamespace:
        nothing: dict[str, Any] = {"discard": lambda: None, "ready": lambda: None}
        nothing["workload"] = SimpleNamespace(measure_operations=500)
        machine = SimpleNamespace(pause=lambda: None)
        return SimpleNamespace(mode=mode, machine=machine, **nothing)

    monkeypatch.setattr(cost, "measure", measure)
    monkeypatch.setattr(cost, "prepare", lambda guest, variant: None)
    monkeypatch.setattr(rounds, "open_guest", opened)
    return made


def series(rounds: int, **on: str) -> Series:
    setup = GuestSetup(manifest(Path("/none")), MachineSpec(), "tcg")
    return Series("time", parts(), rounds, 1, setup, {name: made_on(name, on) for name in VARIANTS})


def made_on(variant: str, on: dict[str, str]) -> Provenance:
    """Every variant has a kernel of its own."""
    return provenance(**{"seed": "1", "kernel_build_id": f"build of {variant}"} | on)


def rounds_of(runs: list[CostRun]) -> dict[int, list[str]]:
    return {n: [run.variant for run in runs if run.round == n] for n in {run.round for run in runs}}


def test_each_round_has_every_variant_in_an_order_of_its_own(measured: list[Any], tmp_path: Path) -> None:
    run_series(series(6), tmp_path)
    rounds = rounds_of(read_runs(tmp_path))
    assert [sorted(names) for names in rounds.values()] == [sorted(VARIANTS)] * 6
    assert len({tuple(names) for names in rounds.values()}) > 3
    assert all(run.on.kernel_build_id == f"build of {run.variant}" for run in read_runs(tmp_path))
    seeds = {(run.round, run.workload_seed) for run in read_runs(tmp_path)}
    assert len(seeds) == len({seed for _, seed in seeds}) == 6


def test_it_goes_on(measured: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    working: Callable[..., Measurement] = cost.measure

    def stopping(guest: Any, seed: int) -> Measurement:
        if len(measured) == len(VARIANTS) + 1:
            raise KeyboardInterrupt
        return working(guest, seed)

    monkeypatch.setattr(cost, "measure", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_series(series(3), tmp_path)
    assert len(read_runs(tmp_path)) == len(VARIANTS) + 1
    monkeypatch.setattr(cost, "measure", working)
    run_series(series(3), tmp_path)
    assert len(measured) == 3 * len(VARIANTS)
    stopped = rounds_of(read_runs(tmp_path))
    whole = tmp_path / "whole"
    whole.mkdir()
    run_series(series(3), whole)
    assert stopped == rounds_of(read_runs(whole))


def test_kvm_has_no_times_of_pks(measured: list[Any], tmp_path: Path) -> None:
    run_series(series(1, accelerator="kvm"), tmp_path)
    assert sorted(rounds_of(read_runs(tmp_path))[0]) == sorted(set(VARIANTS) - {"pks"})


@pytest.mark.parametrize("what", ["kernel_build_id", "accelerator", "qemu_version", "seed"])
def test_runs_made_on_something_else_are_not_mixed(measured: list[Any], tmp_path: Path, what: str) -> None:
    run_series(series(1), tmp_path)
    with pytest.raises(UsageError, match=f"something else: {what} is"):
        run_series(series(2, **{what: "other"}), tmp_path)
    assert len(measured) == len(VARIANTS)


def test_another_number_of_processors_has_runs_of_its_own(measured: list[Any], tmp_path: Path) -> None:
    one = series(1)
    two = replace(one, setup=replace(one.setup, machine=MachineSpec(vcpus=2)))
    for each in (one, two, one, two):
        run_series(each, tmp_path)
    assert len(measured) == 2 * len(VARIANTS)
    assert {run.label for run in read_runs(tmp_path)} == {"", ", 2 vCPUs"}


def test_what_the_emulator_counted_between_marks(tmp_path: Path) -> None:
    counters = tmp_path / "counters"

    def count(*marks: tuple[int, ...]) -> None:
        kept = [marks[n] if n < len(marks) else (0,) * 8 for n in range(16)]
        for n in range(16, len(marks)):
            kept[n % 16] = marks[n]
        counters.write_bytes(struct.pack("<129Q", len(marks), *itertools.chain(*kept)))

    count((1, 0, 0, 0, 0, 0, 0, 0), (8, 3, 2, 1, 9, 8, 7, 6), (10, 3, 2, 2, 9, 8, 7, 7))
    cp, rm = between_marks(counters, 0, 2)
    assert [*cp.values()] == [7, 3, 2, 1, 9, 8, 7, 6]
    assert [*rm.values()] == [2, 0, 0, 1, 0, 0, 0, 1]
    assert [*cp][:5] == ["instructions", "repetitions", "invlpg", "wrmsr", "nvdimm_loads"]
    count(*((n * n, 0, 0, n, 0, 0, 0, 0) for n in range(17)))
    assert [[*part.values()] for part in between_marks(counters, 15)] == [[31, 0, 0, 1, 0, 0, 0, 0]]
    with pytest.raises(InfraError, match="3 marks of the work, not 2"):
        between_marks(counters, 14)
    with pytest.raises(InfraError, match="17 marks of the work, not 17"):
        between_marks(counters, 0, 16)


def test_another_set_of_variants_wants_another_folder(measured: list[Any], tmp_path: Path) -> None:
    run_series(series(1), tmp_path)
    one = Variant("unarmed", None, parts()[0].mode)
    others = replace(series(1), variants=[one], on={one.name: made_on(one.name, {})})
    with pytest.raises(UsageError, match=r"has runs of '.*'; give --out another folder"):
        run_series(others, tmp_path)
