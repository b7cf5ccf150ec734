# SPDX-License-Identifier: Apache-2.0
"""Every entry of modes.yaml, and every one of a user's own, is one that a guest can be started with."""

from pathlib import Path

import pytest
from harness_builders import manifest
from pydantic import ValidationError
from riobed.errors import UsageError
from riobed.guest import MIB, Guest, GuestSetup, Layout, MachineSpec, check_mode
from riobed.guest.assembly import machine_config
from riobed.guest.settings.filesystems import FILE_SYSTEMS
from riobed.guest.settings.kernel import GUEST_NEEDS
from riobed.guest.settings.modes import CacheMode, all_modes, cache_mode, find_mode, read_modes
from riobed.guest.settings.promise import WRONG, Promise
from riobed.guest.workload.description import Workload
from riobed.vm import REPEATABLE
from riobed.vm.fake import FakeMachine

LAYOUT = Layout(512 * MIB)
NAMES = list(all_modes())


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_gives_kernel_parameters_that_survive_a_command_line(name: str) -> None:
    mode = cache_mode(name)
    parameters = mode.production_parameters(LAYOUT)
    assert f"riobed.mount={mode.mount}" in parameters
    for parameter in [*parameters, *mode.file_system.stage0_parameters(mode.filesystem)]:
        assert parameter and parameter.isascii() and parameter.isprintable()
        assert not set(parameter) & set(" \t\"'\\")


@pytest.mark.parametrize("name", NAMES)
def test_sysctls_arrive_in_the_guest(name: str) -> None:
    mode = cache_mode(name)
    values = [p.removeprefix("riobed.sysctl=") for p in mode.production_parameters(LAYOUT) if ".sysctl=" in p]
    parsed = {key: int(value) for text in values for key, value in (p.split("=") for p in text.split(","))}
    assert parsed == mode.sysctls


@pytest.mark.parametrize("name", NAMES)
def test_registry_and_keepout_just_where_memory_is_restored_or_the_nvdimm_closed(name: str) -> None:
    mode = cache_mode(name)
    rio = [p for p in mode.production_parameters(LAYOUT) if p.startswith(("rio.registry", "rio.keepout"))]
    wanted = [f"rio.registry={LAYOUT.registry}", f"rio.keepout={LAYOUT.keepout}"]
    assert rio == (wanted if mode.restores_memory or "rio.nvdimm=1" in mode.kernel_parameters else [])


@pytest.mark.parametrize(("name", "mechanism"), [
    ("rio-protected", "pte"), ("rio-protected-pks", "pks"), ("rio-protected-code", "code"),
])  # fmt: skip
def test_protected_modes_are_rio_and_protection(name: str, mechanism: str) -> None:
    rio, mode = cache_mode("rio"), cache_mode(name)
    more = set(mode.production_parameters(LAYOUT)) - set(rio.production_parameters(LAYOUT))
    assert more == {f"rio.protect={mechanism}"}
    alike = {"summary": "", "kernel_parameters": (), "kernel": None}
    assert mode.model_copy(update=alike) == rio.model_copy(update=alike)


@pytest.mark.parametrize(("name", "mechanism"), [("dax-protected", "pte"), ("dax-protected-pks", "pks")])
def test_protected_modes_on_an_nvdimm_are_dax_and_protection(name: str, mechanism: str) -> None:
    dax, mode = cache_mode("dax"), cache_mode(name)
    assert mode.kernel_parameters == (f"rio.protect={mechanism}", "rio.nvdimm=1")
    assert "CONFIG_RIO_CACHE_NVDIMM" in mode.kernel_needs
    alike = {"summary": "", "kernel_parameters": ()}
    assert mode.model_copy(update=alike) == dax.model_copy(update=alike)


def test_what_the_modes_stand_for() -> None:
    names = ("write-through", "write-through-matched", "delayed", "rio")
    through, matched, delayed, rio = map(cache_mode, names)
    kinds = [(mode.sync_writes, mode.restores_memory) for mode in (through, delayed, rio)]
    assert kinds == [(True, False), (False, False), (False, True)]
    assert {"rio", "nodelalloc"} <= set(rio.mount.split(","))
    assert delayed.sysctls["vm.dirty_expire_centisecs"] == 3000
    assert matched.mkfs == rio.mkfs
    assert matched.model_copy(update={"mkfs": through.mkfs, "summary": through.summary}) == through


def test_the_systems_of_table_2_differ_in_when_they_write() -> None:
    rio = cache_mode("rio")
    names = ("delayed-no-journal", "dirsync", "write-through-on-close", "write-through-on-write")
    systems = [cache_mode(name) for name in names]
    assert {(mode.filesystem, mode.mkfs) for mode in systems} == {(rio.filesystem, rio.mkfs)}
    assert [mode.mount for mode in systems] == ["defaults", "dirsync", "dirsync", "sync"]
    assert [mode.sync_on_close for mode in systems] == [False, False, True, True]
    # How much of memory may be dirty is no difference between a mode that writes later and rio.
    assert systems[0].sysctls.items() >= rio.sysctls.items()
    assert systems[1].sysctls["vm.dirty_ratio"] == rio.sysctls["vm.dirty_ratio"]


def test_the_rival_of_rio_has_its_file_system_and_writes_at_a_panic() -> None:
    rio, rival = cache_mode("rio"), cache_mode("rio-sync-at-panic")
    assert (rival.filesystem, rival.mkfs) == (rio.filesystem, rio.mkfs)
    assert {*rio.mount.split(",")} - {*rival.mount.split(",")} == {"rio"}
    assert not rival.restores_memory and "CONFIG_PANIC_SYNC" in rival.kernel_needs
    assert [word for word in rival.production_parameters(LAYOUT) if "panic" in word] == ["panic_sync=30"]
    assert "CONFIG_PANIC_SYNC" not in rio.kernel_needs


def test_where_a_program_needs_fsync_to_lose_nothing() -> None:
    without = {name for name, mode in all_modes().items() if not mode.needs_fsync}
    rio = {name for name in NAMES if cache_mode(name).restores_memory}
    assert without == rio | {"memory", "write-through-on-write"}


def test_each_shipped_mode_says_when_data_is_permanent() -> None:
    """In rio as in a mode that writes through; where the controls expect loss, no mode promises that."""
    assert cache_mode("rio-protected").permanent == cache_mode("write-through").permanent
    losing = {
        name for name, mode in all_modes().items() if "synchronous" not in (mode.permanent or "").split()
    }
    assert losing == {name for name, mode in all_modes().items() if mode.loses(power=False)} - {"dirsync"}
    assert all(mode.permanent for mode in all_modes().values())


@pytest.mark.parametrize(("keys", "states", "window_s"), [
    ({}, WRONG, 40),
    ({"mount": "noatime,commit=1", "sysctls": {"vm.dirty_expire_centisecs": 100}}, WRONG, 7),
    ({"mount": "commit=0", "sysctls": {"vm.dirty_writeback_centisecs": 0}}, WRONG, None),
    ({"mount": "data=writeback"}, WRONG - {"stale"}, 40),
    ({"mount": "data=journal"}, WRONG | {"zeroed", "torn", "renamed"}, 40),
    ({"mkfs": ("-O", "^has_journal")}, WRONG - {"stale", "misplaced"}, 40),
    ({"filesystem": "xfs", "sysctls": {"fs.xfs.xfssyncd_centisecs": 200}}, WRONG, 37),
    ({"filesystem": "btrfs", "mount": "commit=10"}, WRONG, 45),
    ({"filesystem": "f2fs"}, WRONG, 95),
    ({"filesystem": "btrfs", "loss_window_s": 3}, WRONG, 3),
    ({"sync_writes": True, "promise": "synced"}, WRONG, 40),
])  # fmt: skip
def test_what_a_file_system_promises(
    keys: dict[str, object], states: frozenset[str], window_s: float | None
) -> None:
    assert CacheMode.model_validate({"summary": "s"} | keys).promised == Promise(states, window_s)


def test_which_shipped_modes_are_judged_by_what_was_synced() -> None:
    synced = {name for name, mode in all_modes().items() if mode.promised}
    late = {name for name in NAMES if name.startswith("delayed")}
    assert synced == late | {"nv-swap", "nv-memory", "dirsync", "rio-sync-at-panic"}


@pytest.mark.parametrize("name", ["rio", "write-through", "write-through-on-close"])
def test_a_load_makes_durable_at_close_what_the_mode_promises(tmp_path: Path, name: str) -> None:
    """The workload's check and what it prepares are as in every mode."""
    mode = cache_mode(name)
    workload = Workload(
        name="w", description="d", prepare="p", start="s {fsync}", measure="m {fsync}", check="c"
    )
    setup = GuestSetup(manifest(tmp_path), MachineSpec(), "tcg", workload)
    guest = Guest(setup, mode, FakeMachine(machine_config(setup, mode, tmp_path)))
    scripts = {key: guest.workload.command(key, seed=1)[-1] for key in ("prepare", "start", "check")}
    scripts |= guest.workload.measured(1)
    assert {key for key, text in scripts.items() if "LD_PRELOAD" in text} == (
        {"start", ""} if mode.sync_on_close else set()
    )
    told = {key for key, text in scripts.items() if "--fsync" in text}
    # A measured run pays for the mode's own promise, a trial wants each step durable.
    assert told == {"rio": set(), "write-through": {"start", ""}, "write-through-on-close": {"start"}}[name]


def test_what_a_loss_of_power_takes_beside_a_reset() -> None:
    taken = {name for name, mode in all_modes().items() if mode.loses(power=True) > mode.loses(power=False)}
    assert taken == {name for name in NAMES if cache_mode(name).restores_memory}


@pytest.mark.parametrize("name", ["write-through-xfs", "rio", "dax-protected"])
def test_no_mode_sets_what_its_guests_are_given(tmp_path: Path, name: str) -> None:
    """Each word of a command line is declared with its reason, but those that the mode brought."""
    own = ["slab_debug=P", "--", "riobed.swap=more"]
    mode = CacheMode.model_validate(
        cache_mode(name).model_dump()
        | {"kernel": None, "kernel_parameters": own, "sysctls": {"vm.swappiness": 1}}
    )
    machine = MachineSpec(nvdimm_mib=64, canary_mib=16, disk_mib=300, save_memory=True)
    setup = GuestSetup(manifest(tmp_path), machine, REPEATABLE)
    line = machine_config(setup, mode, tmp_path, interactive=True).production_cmdline
    given = line.replace(" ".join(own), "").replace("riobed.swap=swap", "").split()
    assert len(given) > 18 and "memmap=48M!4096M" in line.partition(" -- ")[0]
    for word in given:
        with pytest.raises(ValidationError, match="riobed sets"):
            CacheMode(summary="s", kernel_parameters=(word,))


@pytest.mark.parametrize(("given", "name"), [
    *(("kernel_parameters", word) for word in (
        "printk.time=N", "softlockup-panic=0", "unknown_nmi-panic", "quiet", "loglevel=0", "rw", "nowatchdog",
        "sysctl.kernel.panic_on_oops=0", "sysctl/kernel/panic=5", "clock=acpi_pm", "mem=256M", "riobed.shell",
    )),
    *(("sysctls", name) for name in (
        "kernel.panic", "kernel/panic_on_oops", "kernel.printk", "vm.x=1,kernel.panic",
    )),
])  # fmt: skip
def test_other_spellings_of_it_are_refused_as_well(given: str, name: str) -> None:
    with pytest.raises(ValidationError, match=given):
        CacheMode.model_validate(
            {"summary": "s", given: [name] if given == "kernel_parameters" else {name: 0}}
        )


@pytest.mark.parametrize("words", ["quiet", r"\"printk.time\"=0", "printk.devkmsg=on"])
def test_a_kernel_has_none_of_them_built_in(tmp_path: Path, words: str) -> None:
    setup = GuestSetup(manifest(tmp_path), MachineSpec(), "tcg")
    options = [*(f"{option}=y" for option in GUEST_NEEDS), f'CONFIG_CMDLINE="rodata=off {words}"']
    (tmp_path / "config").write_text("\n".join(options))
    if "devkmsg" in words:
        check_mode("mine", CacheMode(summary="s"), setup)
    else:
        with pytest.raises(UsageError, match=r"^mode mine: CONFIG_CMDLINE of its kernel: (quiet|printk)"):
            check_mode("mine", CacheMode(summary="s"), setup)


def test_other_parameters_are_a_modes_own() -> None:
    free = (
        "no_console_suspend",
        "panic_on_warn=1",
        "rootwait",
        "rodata=off",
        "kasan.fault=panic",
        "hung_task_panic=1",
    )
    rio = (
        "rio.checksum=0",
        "rio.atomic_metadata=0",
        "rio.protect=pte",
        "slab_debug=P,kmalloc-*",
        "riobed.swap=more",
    )
    mode = CacheMode(summary="s", kernel_parameters=(*free, *rio), sysctls={"kernel.panic_on_warn": 1})
    assert mode.production_parameters(LAYOUT)[-len(free + rio) :] == [*free, *rio]


def test_an_unknown_mode_is_told_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=f"'Rio'; there are: {', '.join(NAMES)}$"):
        cache_mode("Rio")


@pytest.mark.parametrize(("entry", "word"), [
    ({"summary": None}, "summary"), ({"mkf": []}, "mkf"), ({"sysctls": {"vm.x": "much"}}, "sysctls"),
    ({"filesystem": "zfs"}, "ext4, xfs"), ({"filesystem": "xfs", "restores_memory": True}, "ext4 only"),
    ({"filesystem": "xfs", "mount": "noatime,rio"}, "rio is an option of ext4"),
    ({"filesystem": "tmpfs", "mkfs": ["-q"]}, "mkfs"), ({"mount": "noatime rio"}, "mount"),
    ({"kernel_parameters": ["a b"]}, "kernel_parameters"), ({"cache": "some"}, "cache"),
    ({"throttle": {"iops": 0}}, "iops"), ({"throttle": {"iops": 5, "read_iops": 5}}, "leave it out"),
    ({"devices": [{"name": "swap", "size_mib": 8}]}, "disk of the machine"),
    ({"devices": [{"name": "log", "size_mib": 8}] * 2}, "twice"),
    ({"devices": [{"name": "log", "size_mib": 8, "kind": "tape"}]}, "kind"),
    ({"promise": "steps"}, "makes no step durable"), ({"promise": "all"}, "promise"),
    ({"promise": "synced", "filesystem": "tmpfs"}, "tmpfs keeps nothing"),
    ({"sync_writes": True, "loss_window_s": 5}, "may lose no step"), ({"loss_window_s": 0}, "loss_window_s"),
    ({"nvdimm": "log"}, "nvdimm"), ({"nvdimm": "journal", "filesystem": "xfs"}, "only ext4's journal"),
    ({"nvdimm": "filesystem", "filesystem": "tmpfs"}, "restored from RAM or lies in it"),
    ({"nvdimm": "filesystem", "restores_memory": True}, "restored from RAM or lies in it"),
])  # fmt: skip
def test_an_entry_with_a_mistake_is_refused(entry: dict[str, object], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        CacheMode.model_validate({"summary": "s"} | entry)


@pytest.mark.parametrize(("text", "word"), [
    ("rio: {summary: s}", "shipped"), ("My_Mode: {summary: s}", "My_Mode"), ("mine: {summary: s", "YAML"),
    ("[]", "file"), ("mine: {summary: s, mount: a, mount: b}", "twice"),
    ("mine: {like: yours, summary: s}\nyours: {summary: s}", "'yours'; there are: write-through, "),
    ("mine: {like: rio}", "mine.summary: Field required"),
    (
        "mine: {summary: s, kernel_parameters: [printk.time=0]}",
        r"mine\.kernel_parameters: printk\.time=0 would .* by printk\.time: time stamps tell .*; remove it$",
    ),
])  # fmt: skip
def test_a_file_of_modes_with_a_mistake_is_refused(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "modes.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=word) as caught:
        read_modes(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_modes_of_a_file_stand_beside_the_shipped_ones(tmp_path: Path) -> None:
    path = tmp_path / "modes.yaml"
    path.write_text("base: &base {summary: s, mount: noatime}\nmine: {<<: *base, summary: t}\n")
    assert find_mode("mine", path) == CacheMode(summary="t", mount="noatime")
    assert find_mode("rio", path) == cache_mode("rio")
    with pytest.raises(UsageError, match=r"nothing\.yaml"):
        find_mode("mine", tmp_path / "nothing.yaml")


@pytest.mark.parametrize("name", FILE_SYSTEMS)
def test_a_disk_that_is_too_small_is_refused(name: str) -> None:
    mode = CacheMode(summary="s", filesystem=name)
    mode.check_machine(mode.default_machine())
    smallest = FILE_SYSTEMS[name].smallest_mib
    mode.check_machine(MachineSpec(disk_mib=smallest))
    if smallest > 32:
        with pytest.raises(UsageError, match=f"{smallest} MiB"):
            mode.check_machine(MachineSpec(disk_mib=smallest - 1))


@pytest.mark.parametrize(("name", "mib"), [
    ("dax", 32), ("nv-journal", 16), ("nv-cache", 16), ("nv-swap", 16), ("xfs-dax", 300)
])  # fmt: skip
def test_a_mode_on_an_nvdimm_needs_one_that_is_large_enough(name: str, mib: int) -> None:
    mode = cache_mode(name)
    mode.check_machine(mode.default_machine())
    # The size of the disk does not matter to a file system that is not on it.
    mode.check_machine(MachineSpec(nvdimm_mib=mib, disk_mib=32))
    with pytest.raises(UsageError, match=r"^it needs an NVDIMM; set machine\.nvdimm_mib$"):
        mode.check_machine(MachineSpec())
    if mib > 16:
        with pytest.raises(UsageError, match=rf"an NVDIMM of {mib} MiB, .*nvdimm_mib is {mib - 2};"):
            mode.check_machine(MachineSpec(nvdimm_mib=mib - 2))
    full = mode.model_copy(update={"cache_share": 0.5})
    if mode.nvdimm == "filesystem":
        with pytest.raises(UsageError, match=rf"nvdimm_mib without canary_mib is {mib - 2};"):
            mode.check_machine(MachineSpec(nvdimm_mib=mib, canary_mib=2))
        with pytest.raises(UsageError, match=r"an NVDIMM has room for .*make machine\.nvdimm_mib larger"):
            full.check_machine(MachineSpec(nvdimm_mib=max(mib, 64), disk_mib=4096))


@pytest.mark.parametrize(("name", "device", "told"), [
    ("dax", "/dev/pmem0", ["riobed.nvdimm=filesystem"]),
    ("nv-journal", "/dev/vdb", ["riobed.nvdimm=journal"]), ("journal-data", "/dev/vdb", []),
    ("nv-cache", "/dev/dm-0", ["riobed.nvdimm=cache"]), ("nv-swap", "/dev/vdb", ["riobed.nvdimm=swap"]),
    ("nv-memory", "/dev/vdb", ["riobed.nvdimm=memory"]),
])  # fmt: skip
def test_both_stages_know_what_the_nvdimm_has(
    tmp_path: Path, name: str, device: str, told: list[str]
) -> None:
    mode = cache_mode(name)
    made = manifest(tmp_path)
    setup = GuestSetup(made, MachineSpec(nvdimm_mib=256), "tcg")
    config = machine_config(setup, mode.model_copy(update={"kernel": None}), tmp_path)
    for line in (config.stage0_cmdline, config.production_cmdline):
        assert [word for word in line.split() if "nvdimm" in word] == told
    assert mode.device == device
    *before, command = mode.mkfs_commands
    assert command[-1] == device
    last = {"nv-journal": ["/dev/pmem0"], "nv-cache": [". /usr/lib/riobed/environment.sh && join_cache"]}
    assert [each[-1] for each in before] == last.get(name, [])
    assert ("device=/dev/pmem0" in command) == (mode.nvdimm == "journal")


def test_nv_cache_is_write_through_with_a_cache_of_bounded_size() -> None:
    through, cached = cache_mode("write-through"), cache_mode("nv-cache")
    alike = {"summary": "", "nvdimm": None, "kernel": None}
    assert cached.model_copy(update=alike) == through.model_copy(update=alike)
    cached.check_machine(MachineSpec(nvdimm_mib=512))
    cached.check_machine(MachineSpec(nvdimm_mib=1024, canary_mib=512))
    with pytest.raises(UsageError, match=r"more than 512 MiB; make machine\.nvdimm_mib smaller$"):
        cached.check_machine(MachineSpec(nvdimm_mib=514))


def test_what_the_kernel_adds_to_memory_has_a_least_size() -> None:
    mode = cache_mode("nv-memory")
    mode.check_machine(mode.default_machine())
    mode.check_machine(MachineSpec(nvdimm_mib=512, canary_mib=256))
    with pytest.raises(UsageError, match=r"less than 256 MiB to memory; make machine\.nvdimm_mib larger$"):
        mode.check_machine(MachineSpec(nvdimm_mib=510, canary_mib=256))


def test_nv_journal_differs_from_journal_data_in_where_the_journal_is() -> None:
    disk, nvdimm = cache_mode("journal-data"), cache_mode("nv-journal")
    alike = {"summary": "", "nvdimm": None, "kernel": None}
    assert nvdimm.model_copy(update=alike) == disk.model_copy(update=alike)


@pytest.mark.parametrize("less", ["", "CONFIG_XFS_FS=m"])
def test_the_kernels_that_mount_a_file_system_must_have_it(tmp_path: Path, less: str) -> None:
    """Not as a module: the one that recovers has no modules."""
    setup = GuestSetup(manifest(tmp_path), MachineSpec(), "tcg")

    def check(xfs: str) -> None:
        (tmp_path / "config").write_text("\n".join([*(f"{option}=m" for option in GUEST_NEEDS), xfs]))
        check_mode("mine", CacheMode(summary="s", filesystem="xfs"), setup)

    check("CONFIG_XFS_FS=y")
    with pytest.raises(UsageError, match=r"mine.*CONFIG_XFS_FS"):
        check(less)


_PMEM = ["CONFIG_BLK_DEV_PMEM", "CONFIG_X86_PMEM_LEGACY", "CONFIG_FS_DAX"]


@pytest.mark.parametrize(("name", "lacking"), [
    *(("dax", option) for option in ["", *_PMEM]), ("nv-cache", ""), ("nv-cache", "CONFIG_DM_WRITECACHE"),
    ("nv-memory", ""), ("nv-memory", "CONFIG_DEV_DAX_KMEM"),
])  # fmt: skip
def test_the_kernel_of_a_mode_on_an_nvdimm_must_find_it(tmp_path: Path, name: str, lacking: str) -> None:
    setup = GuestSetup(manifest(tmp_path), MachineSpec(nvdimm_mib=64), "tcg")
    mode = cache_mode(name).model_copy(update={"kernel": None})
    more = {"nv-cache": ["CONFIG_DM_WRITECACHE"], "nv-memory": ["CONFIG_NVDIMM_DAX", "CONFIG_DEV_DAX_KMEM"]}
    options = [*GUEST_NEEDS, *_PMEM, *more.get(name, [])]
    (tmp_path / "config").write_text("\n".join(f"{option}=y" for option in options if option != lacking))
    if not lacking:
        check_mode("mine", mode, setup)
        return
    with pytest.raises(UsageError, match=f"mine.*{lacking}"):
        check_mode("mine", mode, setup)


def test_a_throttle_goes_by_the_clock_that_a_counting_guest_has_not() -> None:
    mode = CacheMode.model_validate({"summary": "s", "throttle": {"write_iops": 100}})
    mode.check_machine(MachineSpec())
    with pytest.raises(UsageError, match="icount"):
        mode.check_machine(MachineSpec(icount=True))
