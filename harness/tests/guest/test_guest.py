# SPDX-License-Identifier: Apache-2.0
"""Where trials begin: snapshots, and which of them are kept."""

import os
import struct
import time
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from harness_builders import Kernels, booting_guest, manifest
from riobed.errors import BootError, EnvironmentFault, InfraError, UsageError
from riobed.guest import MIB, MachineSpec, cache_mode, snapshots
from riobed.guest import guest as guests
from riobed.guest.assembly import GuestSetup, machine_config
from riobed.guest.guest import Guest
from riobed.guest.memory.meminfo import CacheUse, cache_use
from riobed.guest.preparing import prepare, read_boot_id
from riobed.guest.snapshots import Known, trim
from riobed.guest.workload.description import load_workload, put_beside
from riobed.products import CHECKOUT
from riobed.vm import ExecResult, Plugin, make_nvdimm, memory_files
from riobed.vm.emulator.command import REPEATABLE
from riobed.vm.fake import FakeMachine

KNOWN = Known(boot_id="beef", outside="\xe9", cache=CacheUse(0.25, 0.125), agent=(70, 71))


class Told:
    """A machine that writes down what it is told, and saves by writing to its disk."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.told: list[str] = []
        self.progress = self.evidence = SimpleNamespace(clear=lambda: None)
        self.console = SimpleNamespace(clear=lambda: self.told.append("clear"))
        config.folder.mkdir(parents=True, exist_ok=True)

    def save(self, name: str) -> None:
        self.told.append("save")
        self.config.test_disk.write_text("disk with a snapshot")

    def load(self, name: str) -> None:
        self.told.append(f"load {self.config.test_disk.read_text()}")

    def ram_path(self) -> Path:
        return Path("/dev/null")

    def alive(self) -> bool:
        return True

    def agent_answers(self, timeout: float) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.told.append(name)


@pytest.fixture(autouse=True)
def nothing_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guest, "boot", lambda guest: guest.machine.told.append("boot"))
    monkeypatch.setattr(guests, "prepare", lambda machine, *_: machine.told.append("prepare") or KNOWN)
    monkeypatch.setattr(guests, "open_mailbox", lambda machine: machine.told.append("mailbox"))
    monkeypatch.setattr(guests, "put_command", lambda machine, argv, stdin: machine.told.append("put") or 93)
    monkeypatch.setattr(snapshots, "qemu_version", lambda *_: "QEMU 7.2")


def guest_of(tmp_path: Path, name: str, accelerator: str = REPEATABLE, **changes: Any) -> Guest:
    words: dict[str, Any] = {"machine": MachineSpec(), "snapshots": tmp_path / "snapshots"}
    words |= {"manifest": manifest(tmp_path), "accelerator": accelerator} | changes
    mode = words.pop("mode", cache_mode("rio"))
    setup = GuestSetup(**words)
    return Guest(setup, mode, cast(Any, Told(machine_config(setup, mode, tmp_path / name))))


def told(guest: Guest) -> list[str]:
    machine = cast(Told, guest.machine)
    said, machine.told = machine.told, []
    return said


SAVE = ["mailbox", "save"]
FROM_KEPT = ["destroy", "start", "load disk with a snapshot", "resume"]
BEGIN = ["load disk with a snapshot", "clear", "put", "resume"]


def test_one_snapshot_is_kept_and_all_guests_of_a_kind_begin_from_it(tmp_path: Path) -> None:
    first, second = guest_of(tmp_path, "w0"), guest_of(tmp_path, "w1")
    assert first.start(["/bin/true"], b"") == 93
    # It goes on from what it has kept.
    assert told(first) == ["boot", "prepare", *SAVE, "resume", *BEGIN]
    assert second.start(["/bin/true"], b"") == 93
    assert told(second) == [*FROM_KEPT, *BEGIN]
    assert second.known == KNOWN
    second.start(["/bin/true"], b"")
    assert told(second) == BEGIN
    (kept,) = (tmp_path / "snapshots").iterdir()
    assert sorted(path.name for path in kept.iterdir()) == ["index.json", "test.qcow2"]


@pytest.mark.parametrize("name", ["test.qcow2", "index.json"])
def test_a_snapshot_that_a_dying_host_cut_short_is_not_used(tmp_path: Path, name: str) -> None:
    guest_of(tmp_path, "w0").take_snapshot()
    (kept,) = (tmp_path / "snapshots").iterdir()
    os.truncate(kept / name, 3)
    with pytest.raises(EnvironmentFault, match=f"{kept}: this snapshot is damaged; remove it"):
        guest_of(tmp_path, "w1").take_snapshot()


def test_who_comes_second_with_a_snapshot_takes_the_first(tmp_path: Path) -> None:
    first, second = guest_of(tmp_path, "w0"), guest_of(tmp_path, "w1")

    def meanwhile(name: str) -> None:
        first.take_snapshot()
        second.machine.config.test_disk.write_text("another snapshot")

    second.machine.save = meanwhile  # type: ignore[method-assign]
    second.take_snapshot()
    assert told(second)[-2:] == ["load disk with a snapshot", "resume"]
    assert len(list((tmp_path / "snapshots").iterdir())) == 1


MEMTEST = CHECKOUT / "workloads/memtest"
LOADED, ANDREW = load_workload(MEMTEST), load_workload(CHECKOUT / "workloads/andrew")
# Each attribute of a setup, and values that make another guest of it than the first one.
DECIDES: dict[str, list[Any]] = {
    "machine": [
        MachineSpec(**{name: value})
        for name, value in {
            "memory_mib": 576, "nvdimm_mib": 64, "disk_mib": 64, "vcpus": 2, "save_memory": True,
            "throttle": {"iops": 100},
        }.items()
    ] + [MachineSpec(nvdimm_mib=64, canary_mib=16)],
    "accelerator": ["tcg", "kvm"],
    "workload": [None, LOADED.model_copy(update={"prepare": "mkdir {dir}"})],
    "workload_image": [Path("other-image")],
    "options": [{"twins": 3}],
    "beside": [tuple(put_beside(LOADED, [(ANDREW, {"processes": number})])) for number in (2, 3)],
    "settled": [True],
    "manifest": [{"build_id": "beef"}, {"image": "f" * 16}],
}  # fmt: skip
# What has no snapshot in the cache, or may share one. The accelerator is given by `icount`.
SHARES = {"parked", "loses_lines", "propagation", "snapshots", "driver"}
ELSEWHERE = {"qemu"}


def key_of(tmp_path: Path, **changes: Any) -> str:
    products = manifest(tmp_path, **changes.pop("manifest", {}))
    kept = guest_of(tmp_path, "w0", **{"workload": LOADED, "manifest": products} | changes)._kept()
    assert kept
    return kept.name


def test_guests_of_other_kinds_have_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {each.name for each in fields(GuestSetup)} == DECIDES.keys() | SHARES | ELSEWHERE
    decided = {name for each in DECIDES["machine"] for name in each.model_fields_set}
    assert decided | {"accelerator", "icount"} == MachineSpec.model_fields.keys()
    keys = [key_of(tmp_path)]
    keys += [key_of(tmp_path, **{name: value}) for name, values in DECIDES.items() for value in values]
    rio = cache_mode("rio")
    for changes in ({"sysctls": {"vm.swappiness": 1}}, {"mount": "noatime"}, {"cache_share": 0.1}):
        keys.append(key_of(tmp_path, mode=rio.model_copy(update=changes)))
    monkeypatch.setattr(snapshots, "qemu_version", lambda *_: "QEMU 10.0")
    keys.append(key_of(tmp_path))
    assert len(set(keys)) == len(keys)


def test_a_plugin_or_a_parked_stage_0_is_in_no_snapshot(tmp_path: Path) -> None:
    assert guest_of(tmp_path, "w0", parked=True)._kept() is None
    watched = guest_of(tmp_path, "w1")
    watched.machine.config = replace(watched.machine.config, plugin=Plugin(Path("x.so"), "counters"))
    assert watched._kept() is None


def test_a_snapshot_of_another_guest_is_not_used(tmp_path: Path) -> None:
    guest_of(tmp_path, "w0").take_snapshot()
    (kept,) = (tmp_path / "snapshots").iterdir()
    other = guest_of(tmp_path, "w1", settled=True)
    moved = other._kept()
    assert moved and kept != moved
    kept.rename(moved)
    with pytest.raises(EnvironmentFault, match=f"{moved}: this is the snapshot of another guest; remove it"):
        other.take_snapshot()


def aged(path: Path, hours: float) -> Path:
    """A file of 1000 bytes in a folder that was last used so long ago."""
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(1000))
    used = time.time() - hours * 3600
    os.utime(path.parent, (used, used))
    return path


def test_what_was_not_used_for_longest_makes_room(tmp_path: Path) -> None:
    code = tmp_path / ("c" * 16)
    new, old, older = (aged(code / (name * 16) / "index.json", 2 * age) for age, name in enumerate("abc"))
    half, fresh = aged(code / "half-1/test.qcow2", 2), aged(code / "half-2/test.qcow2", 0)
    # The folder may have been somebody's home.
    others = [
        aged(tmp_path / name, 9) for name in ("photos/2019/one.jpg", f"{'c' * 15}x/{'a' * 16}/index.json")
    ]
    trim(tmp_path, 2000)
    assert [path.exists() for path in (new, old, older, half, fresh)] == [True, True, False, False, True]
    # What may be in use stays, however large.
    trim(tmp_path, 10)
    assert [path.exists() for path in (new, old, fresh, *others)] == [True, False, True, True, True]


def test_a_guest_without_a_cache_keeps_none(tmp_path: Path) -> None:
    guest = guest_of(tmp_path, "w0", "tcg", snapshots=None)
    guest.ready()
    assert told(guest) == ["boot", "prepare", "save", "resume", "clear"]
    guest.ready()
    # What the guest of the trial before has said is gone before this one says anything.
    assert told(guest) == ["load disk with a snapshot", "clear", "resume"]
    assert not guest.repeatable


def test_a_fresh_boot_is_not_kept_and_trials_begin_from_its_own(tmp_path: Path) -> None:
    guest = guest_of(tmp_path, "w0")
    guest.start(["/bin/true"], b"", fresh=True)
    assert told(guest) == ["boot", "prepare", *SAVE, "resume", *BEGIN]
    assert not (tmp_path / "snapshots").exists()
    # The trial after it begins where the others do.
    guest.take_snapshot()
    told(guest)
    guest.start(["/bin/true"], b"", fresh=True)
    told(guest)
    guest.start(["/bin/true"], b"")
    assert told(guest) == [*FROM_KEPT, *BEGIN]


def test_a_place_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    guest = guest_of(tmp_path, "w0", snapshots=tmp_path / "file" / "below")
    with pytest.raises(EnvironmentFault, match="snapshots are kept there"):
        guest.take_snapshot()


def test_a_guest_with_a_propagation_log_is_not_repeatable(tmp_path: Path) -> None:
    assert guest_of(tmp_path, "w0").repeatable
    assert not guest_of(tmp_path, "w1", propagation=True).repeatable


@pytest.mark.parametrize("mib", [0, 16])
def test_all_memory_is_compared_with_the_snapshots(tmp_path: Path, mib: int) -> None:
    guest = guest_of(tmp_path, "w0", "tcg", machine=MachineSpec(nvdimm_mib=mib), snapshots=None)
    ram = tmp_path / "ram"
    ram.write_bytes(b"ram")
    cast(Any, guest.machine).ram_path = lambda: ram
    make_nvdimm(guest.machine.config)
    guest.ready()
    assert guest.snapshot == sha256(b"ram" + bytes(mib * MIB)).hexdigest()[:16]
    assert guest.ready(check=True)
    for path in memory_files(guest.machine):
        kept = path.read_bytes()
        path.write_bytes(b"\1" + kept[1:])
        with pytest.raises(InfraError, match="restored memory is not that of the snapshot"):
            guest.ready(check=True)
        path.write_bytes(kept)


def test_a_mode_may_say_which_share_of_ram_its_files_fill(tmp_path: Path) -> None:
    workload = load_workload(CHECKOUT / "workloads/memtest")
    guest = guest_of(tmp_path, "w0", workload=workload, options={"twins": 8, "max_bytes": 1 << 20})
    full = guest.mode.model_copy(update={"cache_share": 0.25})
    assert guest.setup.options_in(guest.mode)["twins"] == 8
    # 128 MiB of 512, in pairs of files of 1 to 8 pages.
    assert guest.setup.options_in(full) == {"twins": 3591, "max_bytes": 1 << 20}
    large = guest_of(tmp_path, "w2", workload=workload, options={"twin_bytes": 1 << 18})
    assert large.setup.options_in(full) == {"twins": 503, "twin_bytes": 1 << 18}
    andrew = guest_of(tmp_path, "w1", workload=load_workload(CHECKOUT / "workloads/andrew"))
    with pytest.raises(UsageError, match="workload andrew: it cannot fill"):
        andrew.setup.options_in(full)


@pytest.mark.parametrize(
    ("mode", "magic", "boot_id"),
    [
        ("rio", b"RIOREG\0\0", "1122334455667788"),
        # A kernel that makes no registry, and a mode that reads none.
        ("rio", bytes(8), "5d6f9f541aeb4952"),
        ("write-through", b"RIOREG\0\0", "5d6f9f541aeb4952"),
    ],
)
def test_which_boot_memory_comes_from(tmp_path: Path, mode: str, magic: bytes, boot_id: str) -> None:
    guest = guest_of(tmp_path, "w0")
    guest.mode = cache_mode(mode)
    with (tmp_path / "ram").open("wb") as ram:
        ram.truncate(guest.machine.config.memory)
        ram.seek(guest.setup.layout(guest.mode).registry_start)
        ram.write(magic + struct.pack("<IIQ", 3, 1, 0x1122334455667788))
    machine = cast(Any, guest.machine)
    machine.ram_path = lambda: tmp_path / "ram"
    machine.read_file = lambda path: b"5d6f9f54-1aeb-4952-9ad0-5c4791c91712\n"
    assert read_boot_id(machine, guest.setup, guest.mode) == boot_id


@pytest.mark.parametrize("status", [0, 1])
def test_who_the_agent_is_is_known_from_the_guest(tmp_path: Path, status: int) -> None:
    class Guests(Kernels):
        def execute(self, machine: FakeMachine, argv: list[str], stdin: bytes) -> ExecResult:
            asked = "qemu-ga.pid" in argv[-1]
            return ExecResult(status * asked, b"76\n77\n" if asked else b"", b"no such file")

    guest = booting_guest(tmp_path, "write-through", Guests())
    guest.machine.config.test_disk.touch()
    guest.machine.start()
    if status:
        with pytest.raises(BootError, match="no such file"):
            prepare(guest.machine, guest.setup, guest.mode)
    else:
        assert prepare(guest.machine, guest.setup, guest.mode).agent == (76, 77)


def test_the_kernels_own_count_of_its_file_cache() -> None:
    meminfo = b"MemTotal: 900 kB\nBuffers: 64 kB\nCached:   256 kB\nDirty:   32 kB\nShmem:  64 kB\n"
    assert cache_use(meminfo, 1 << 20) == CacheUse(0.25, 0.03125)
    with pytest.raises(BootError, match="Dirty"):
        cache_use(meminfo.replace(b"Dirty", b"Clean"), 1 << 20)
