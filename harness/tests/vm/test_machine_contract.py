# SPDX-License-Identifier: Apache-2.0
"""The contract of riobed.vm.machine, kept by the machine in memory and by libvirt's."""

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from riobed.errors import BootError, InfraError, UsageError
from riobed.guest import MIB, PAGE, MachineSpec, cache_mode, guest_setup, open_guest
from riobed.guest.boot import STAGE0, wait_stage0, wait_until
from riobed.guest.memory.registry import mapped
from riobed.guest.workload.images import make_empty_disk
from riobed.vm import Nvdimm, make_nvdimm, memory_files
from riobed.vm.agent import ExecResult
from riobed.vm.driver import driver, register
from riobed.vm.fake import FakeMachine, Program
from riobed.vm.machine import LogFile, Machine, MachineConfig

# Three requests, each on the disk before the next.
DIRECT = "dd if=/dev/zero of=/dev/vdb bs=4096 count=3 oflag=direct status=none"


class Shell(Program):
    """A stage 0 that knows the few commands below."""

    def boot(self, machine: FakeMachine) -> None:
        self.files.clear()
        machine.say(machine.console, b"riobed: stage 0\nriobed: stage 0 ready\n")

    def nmi(self, machine: FakeMachine) -> None:
        machine.say(machine.console, b"Kernel panic - not syncing: NMI\n")

    def execute(self, machine: FakeMachine, argv: list[str], stdin: bytes) -> ExecResult | None:
        if argv[0] == "/bin/sleep":
            return None
        if argv[-1] == "cat >/run/file":
            self.files["/run/file"] = stdin
        if argv[-1] == DIRECT:
            used = machine.used
            requests = used.write_requests + 3
            machine.used = replace(used, write_requests=requests, write_bytes=used.write_bytes + 3 * 4096)
        if argv[-1] == "cat /run/file":
            return ExecResult(0, self.files.get("/run/file", b""), b"")
        return ExecResult(3 if "exit 3" in argv[-1] else 0, b"out", b"err")


def fake(folder: Path) -> Machine:
    folder.mkdir()
    disk = folder / "disk"
    disk.touch()
    config = MachineConfig("vm", folder, 8 * MIB, 1, "", disk, disk, "", "", disk, disk)
    return FakeMachine(replace(config, nvdimm=Nvdimm(folder / "nvdimm", MIB, 4096 * MIB)), Shell())


def libvirt(folder: Path, nvdimm_mib: int = 0) -> Machine:
    spec = MachineSpec(nvdimm_mib=nvdimm_mib)
    machine = open_guest(guest_setup(spec, None), cache_mode("rio"), f"contract-{nvdimm_mib}").machine
    make_empty_disk(machine.config.test_disk, 32 * MIB)
    return machine


def libvirt_with_nvdimm(folder: Path) -> Machine:
    return libvirt(folder, 64)


WITH_NVDIMM = pytest.param(libvirt_with_nvdimm, marks=[pytest.mark.integration, pytest.mark.extended])
with_nvdimm = pytest.mark.parametrize("made", [fake, WITH_NVDIMM], indirect=True)


@pytest.fixture(
    scope="module",
    params=[fake, pytest.param(libvirt, marks=pytest.mark.integration), WITH_NVDIMM],
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    make: Callable[[Path], Machine] = request.param
    machine = make(tmp_path_factory.mktemp("contract") / "vm")
    make_nvdimm(machine.config)
    yield machine
    machine.destroy()


@pytest.fixture
def machine(made: Machine) -> Machine:
    """In stage 0."""
    if not made.alive():
        made.start()
        wait_stage0(made)
    return made


def put(machine: Machine, value: int) -> None:
    """Set one byte in each kind of memory, which stage 0 leaves alone."""
    for path in memory_files(machine):
        with mapped(path) as memory:
            memory[len(memory) * 5 // 8] = value


def found(machine: Machine) -> set[int]:
    """What these bytes are."""
    values = set()
    for path in memory_files(machine):
        with mapped(path) as memory:
            values.add(memory[len(memory) * 5 // 8])
    return values


def sh(machine: Machine, script: str, stdin: bytes = b"") -> ExecResult:
    return machine.run(["/bin/sh", "-c", script], stdin)


def test_its_life(made: Machine) -> None:
    made.destroy()
    assert not made.alive() and made.failure()
    for call in (made.reset, made.pause, made.nmi, made.ram_path, made.disk_use, lambda: made.power_loss(1)):
        with pytest.raises(InfraError):
            call()
    made.start()
    wait_stage0(made)
    assert made.alive() and made.failure() == "" and made.agent_answers(120)


def test_commands(machine: Machine) -> None:
    delayed, start = machine.steal_time(), time.monotonic()
    assert sh(machine, "printf out; printf err >&2; exit 3") == ExecResult(3, b"out", b"err")
    pid = machine.spawn(["/bin/sleep", "1000"])
    assert machine.status(pid) is None
    sh(machine, "cat >/run/file", b"\0\xff\n")
    assert sh(machine, "cat /run/file").stdout == b"\0\xff\n"
    pid = machine.spawn(["/bin/sh", "-c", "exit 3"])
    assert wait_until(machine, lambda: (ended := machine.status(pid)) is not None and ended.status == 3, 120)
    with pytest.raises(InfraError):
        machine.status(pid)
    assert 0 <= machine.steal_time() - delayed <= time.monotonic() - start


def test_what_it_writes_to_the_disk_is_counted(machine: Machine) -> None:
    before = machine.disk_use()
    assert sh(machine, DIRECT).status == 0
    used = machine.disk_use().since(before)
    assert (used.write_requests, used.write_bytes) == (3, 3 * 4096)
    assert machine.disk_use() == machine.disk_use()


def test_files(machine: Machine) -> None:
    # More than one message of the agent.
    text = bytes(range(256)) * (6 << 10)
    for data in (text, b"\0\xff", b""):
        machine.write_file("/run/file", data)
        assert sh(machine, "cat /run/file").stdout == machine.read_file("/run/file") == data
    with pytest.raises(InfraError, match="failed to open file '/run/none'"):
        machine.read_file("/run/none")


def test_a_paused_guest_says_nothing_until_it_runs_on(machine: Machine) -> None:
    machine.pause()
    assert machine.failure() == "" and not machine.agent_answers(0.5)
    machine.resume()
    assert machine.agent_answers(120)


def test_memory_is_kept_over_a_reset_and_nothing_else(machine: Machine) -> None:
    sh(machine, "cat >/run/file", b"old")
    put(machine, 77)
    machine.console.clear()
    machine.reset()
    wait_stage0(machine)
    assert found(machine) == {77}
    assert STAGE0 in machine.console.text()
    assert b"old" not in sh(machine, "cat /run/file").stdout


def test_a_loss_of_power_leaves_noise_of_its_seed(machine: Machine) -> None:
    sh(machine, "cat >/run/file", b"old")
    noises = []
    for seed in (1, 1, 2):
        with mapped(machine.ram_path()) as memory:
            place = len(memory) * 5 // 8
            memory[place : place + 64] = bytes(64)
        if seed == 2:
            machine.pause()
        machine.console.clear()
        machine.power_loss(seed)
        wait_stage0(machine)
        with mapped(machine.ram_path()) as memory:
            noises.append(memory[place : place + 64])
    assert noises[0] == noises[1] != noises[2]
    assert all(len(set(noise)) > 32 for noise in noises)
    assert STAGE0 in machine.console.text()
    assert b"old" not in sh(machine, "cat /run/file").stdout


@with_nvdimm
def test_an_nvdimm_is_kept_over_a_loss_of_power_and_a_start(machine: Machine) -> None:
    nvdimm = machine.config.nvdimm
    assert nvdimm
    content = random.Random(1).randbytes(nvdimm.size)
    with mapped(nvdimm.path) as memory:
        memory[:] = content
    machine.power_loss(1)
    wait_stage0(machine)
    assert nvdimm.path.read_bytes() == content
    machine.start()
    wait_stage0(machine)
    assert nvdimm.path.read_bytes() == content


@pytest.mark.parametrize(
    ("size", "says"), [(None, "is missing"), (PAGE, f"has {PAGE} bytes"), (0, "has 0 bytes")]
)
@with_nvdimm
def test_a_machine_does_not_start_with_another_nvdimm(made: Machine, size: int | None, says: str) -> None:
    nvdimm = made.config.nvdimm
    assert nvdimm
    made.destroy()
    nvdimm.path.unlink()
    if size is not None:
        nvdimm.path.write_bytes(bytes(size))
    with pytest.raises(BootError, match=f"its NVDIMM {nvdimm.path} {says}, want {nvdimm.size} bytes$"):
        made.start()
    assert not made.alive()
    make_nvdimm(made.config)


def test_a_snapshot_is_of_memory_and_all_else(machine: Machine) -> None:
    sh(machine, "cat >/run/file", b"before")
    put(machine, 1)
    machine.save("one")
    machine.resume()
    sh(machine, "cat >/run/file", b"after")
    put(machine, 2)
    machine.load("one")
    assert found(machine) == {1}
    assert not machine.agent_answers(0.5)
    machine.resume()
    assert machine.agent_answers(120)
    assert sh(machine, "cat /run/file").stdout == b"before"


def test_logs_begin_anew_with_the_machine(machine: Machine) -> None:
    assert machine.console.text()
    machine.console.clear()
    assert machine.console.text() == b""
    machine.nmi()
    assert wait_until(machine, lambda: b"Kernel panic" in machine.console.text(), 120)
    machine.start()
    wait_stage0(machine)
    assert b"Kernel panic" not in machine.console.text()


def test_a_scheme_chooses_the_back_end(tmp_path: Path) -> None:
    register("mine", lambda uri, config: FakeMachine(config))
    disk = tmp_path / "disk"
    config = MachineConfig("vm", tmp_path, MIB, 1, "", disk, disk, "", "", disk, disk)
    assert isinstance(driver("mine+ssh://host/x")(config), FakeMachine)
    with pytest.raises(UsageError, match="mine, qemu"):
        driver("vmware:///")


def test_a_log_is_read_on_and_told_in_whole_lines(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    more = log.follow()
    with log.path.open("ab", buffering=0) as file:
        file.write(b"one\ntw")
        assert (log.new(), more(), more()) == (b"one\ntw", b"one\ntw", b"tw")
        file.write(b"o\n")
        assert (log.new(), more(), more(), log.text()) == (b"o\n", b"two\n", b"", b"one\ntwo\n")
        log.clear()
        file.write(b"new")
        assert (log.new(), log.text()) == (b"new", b"new")


def test_a_guest_that_writes_without_end_fills_no_disk(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", most=1 << 20)
    with subprocess.Popen(["sh", "-c", f"exec yes >>{log.path}"]) as writer:
        deadline = time.monotonic() + 240
        while not log.full and time.monotonic() < deadline:
            log.text()
        time.sleep(0.05)
        text = log.text()
        assert writer.poll() is None
        writer.kill()
    log.text()
    assert log.path.stat().st_size == 0
    assert text[1 << 20 :] == b"\n=== more than 1048576 bytes were written; the rest is dropped ===\n"
    log.clear()
    assert (log.text(), log.full) == (b"", False)
