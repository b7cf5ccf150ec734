# SPDX-License-Identifier: Apache-2.0
"""What a machine is made of: its disks and what the kernels are told, by spec and mode."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from harness_builders import manifest
from riobed.guest import MIB, MachineSpec, cache_mode
from riobed.guest.assembly import GuestSetup, machine_config
from riobed.vm import REPEATABLE, MachineConfig
from riobed.vm.qemu import libvirt as driver
from riobed.vm.qemu.libvirt import LibvirtMachine


def config_of(tmp_path: Path, mode: str = "rio", accelerator: str = "tcg", **fields: Any) -> MachineConfig:
    named = {"save_memory", "nvdimm_mib", "vcpus"} & fields.keys()
    machine = MachineSpec(**{name: fields.pop(name) for name in named})
    setup = GuestSetup(manifest(tmp_path), machine, accelerator, **fields)
    return machine_config(setup, cache_mode(mode), tmp_path / "guest")


def domain_of(config: MachineConfig, qemu: int = 10_000_000) -> ElementTree.Element:
    """By a libvirt that is not this process, with that version of QEMU."""
    elsewhere: Any = SimpleNamespace(getURI=lambda: "qemu:///system", getVersion=lambda: qemu)
    return ElementTree.fromstring(LibvirtMachine(elsewhere, config).definition())


@pytest.mark.parametrize("workload", [False, True])
@pytest.mark.parametrize("save_memory", [False, True])
@pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="needs QEMU's program")
def test_disks_are_known_by_their_serial_numbers(tmp_path: Path, save_memory: bool, workload: bool) -> None:
    image = tmp_path / "workload" if workload else None
    config = config_of(tmp_path, save_memory=save_memory, workload_image=image)
    disks = domain_of(config).findall("devices/disk")
    # The first two are in fixed places: the kernel's root=, and the file system under test.
    sources = [disk.find("source") for disk in disks]
    assert [str(source.get("file")) for source in sources if source is not None] == [
        str(config.root_image),
        str(config.test_disk),
        *([str(tmp_path / "guest/swap.qcow2")] if save_memory else []),
        *([str(tmp_path / "workload")] if workload else []),
    ]
    serials = [disk.findtext("serial") for disk in disks]
    assert serials == [None, None] + ["swap"] * save_memory + ["workload"] * workload
    assert ("swap" in config.production_cmdline) == save_memory
    # Snapshots have to be possible of all that can be written.
    drivers = [disk.find("driver") for disk in disks if disk.find("readonly") is None]
    assert {driver.get("type") for driver in drivers if driver is not None} == {"qcow2"}


@pytest.mark.parametrize("mode", ["rio", "delayed", "write-through"])
def test_only_what_is_restored_is_saved(tmp_path: Path, mode: str) -> None:
    config = config_of(tmp_path, mode, save_memory=True)
    assert ("riobed.save=swap" in config.stage0_cmdline.split()) == (mode == "rio")
    assert "riobed.swap=swap" in config.production_cmdline.split()


@pytest.mark.parametrize("accelerator", ["tcg", "kvm"])
@pytest.mark.parametrize("qemu", [7_002_022, 8_000_000])
def test_an_emulator_with_wrong_flags_after_cmpxchg16b_does_not_offer_it(
    tmp_path: Path, accelerator: str, qemu: int
) -> None:
    domain = domain_of(config_of(tmp_path, accelerator=accelerator), qemu)
    disabled = {feature.get("name") for feature in domain.findall("cpu/feature")}
    assert ("cx16" in disabled) == (accelerator == "tcg" and qemu < 8_000_000)


@pytest.mark.parametrize("accelerator", ["tcg", REPEATABLE])
@pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="needs QEMU's program")
def test_a_repeatable_guest_has_nothing_of_the_hosts_time(tmp_path: Path, accelerator: str) -> None:
    config = config_of(tmp_path, accelerator=accelerator)
    domain = domain_of(config)
    repeatable = accelerator == REPEATABLE
    features = {feature.get("name") for feature in domain.findall("cpu/feature")}
    assert features == {"fsrm", "erms"} | ({"rdrand", "rdseed"} if repeatable else set())
    clock, timer = domain.find("clock"), domain.find("clock/timer")
    assert clock is not None and clock.get("offset") == ("absolute" if repeatable else "utc")
    assert (timer is not None and timer.get("track") == "guest") == repeatable
    for line in (config.stage0_cmdline, config.production_cmdline):
        assert ("idle=poll" in line.split()) == repeatable


@pytest.mark.parametrize("vcpus", [1, 4])
@pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="needs QEMU's program")
def test_non_volatile_memory_is_where_the_kernels_are_told(tmp_path: Path, vcpus: int) -> None:
    config = config_of(tmp_path, nvdimm_mib=64, vcpus=vcpus)
    domain = domain_of(config)
    assert domain.findtext("memory") == domain.findtext("maxMemory") == str((512 + 64) * MIB)
    (module,), (node,) = domain.findall("devices/memory"), domain.findall("cpu/numa/cell")
    assert (module.get("model"), module.get("access")) == ("nvdimm", "shared")
    assert module.findtext("source/path") == str(tmp_path / "guest/nvdimm")
    assert module.findtext("target/size") == str(64 * MIB)
    address = module.find("address")
    assert address is not None and int(str(address.get("base")), 16) == 4096 * MIB
    assert (node.get("cpus"), node.get("memory")) == (f"0-{vcpus - 1}", str(512 * MIB))
    for line in (config.stage0_cmdline, config.production_cmdline):
        assert "memmap=64M!4096M" in line.split()


@pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="needs QEMU's program")
def test_a_machine_without_it_has_nothing_of_it(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    domain = domain_of(config)
    assert domain.findtext("memory") == str(512 * MIB)
    for name in ("maxMemory", "devices/memory", "cpu/numa"):
        assert domain.find(name) is None
    assert not any("!" in line for line in (config.stage0_cmdline, config.production_cmdline))


def test_the_ram_of_a_machine_is_not_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt names folders by the domain's number and the first 20 characters of its name."""
    monkeypatch.setattr(driver, "memory_dir", lambda: tmp_path)
    mine = "qemu-embed-ab12-1-riobed-4242-w0-rio"
    names = [mine, "qemu-embed-ab12-11-riobed-4242-w0-rio-p", "21-riobed-4242-w0-rio"]
    for name in names:
        (tmp_path / "libvirt" / name).mkdir(parents=True)
        (tmp_path / "libvirt" / name / "pc.ram").touch()
    machine = LibvirtMachine.__new__(LibvirtMachine)
    machine.config = cast(Any, SimpleNamespace(name="riobed-4242-w0-rio"))
    monkeypatch.setattr(machine, "_running", lambda: SimpleNamespace(ID=lambda: 1))
    assert machine.ram_path() == tmp_path / "libvirt" / mine / "pc.ram"
