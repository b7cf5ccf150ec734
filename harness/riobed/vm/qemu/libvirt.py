# SPDX-License-Identifier: Apache-2.0
"""A machine driven through libvirt.

Snapshots use QEMU's own savevm and loadvm. Measured: they take 0.1 s, libvirt's snapshot calls 2 s and more.
So one domain stays alive between trials.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import libvirt
import libvirt_qemu

from riobed.errors import BootError, InfraError
from riobed.vm.agent import AgentLost, ExecResult, GuestAgent
from riobed.vm.emulator.command import REPEATABLE, TRANSLATED_MIB, emulator
from riobed.vm.emulator.version import qemu_version, version_number
from riobed.vm.host.process import last_words, time_limit
from riobed.vm.host.scratch import SHARED_MEMORY, memory_dir
from riobed.vm.host.tools import need_room
from riobed.vm.host.unprivileged import drop_script, give, open_folder, readable, readable_program
from riobed.vm.machine import DiskUse, LogFile, LostLines, MachineConfig
from riobed.vm.nvdimm.image import check_nvdimm
from riobed.vm.nvdimm.persistence import lose_lines, mark_durable
from riobed.vm.nvdimm.power import lose_memory
from riobed.vm.qemu.connection import embedded, libvirt_cache, qemu_log
from riobed.vm.qemu.device_state import DeviceStates

_POLL_S = 0.02
_HANG_UP_S = 5.0
# Fixed start time of deterministic guests, in Unix seconds.
_START = 1767225600
# Limit of one call to QEMU. savevm takes longest: seconds on a busy host.
_CALL_S = 120.0
# QEMU pauses a guest when the host's disk is too full to write its image (werror=enospc).
_DISK_FAILED = [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR]
# libvirt's name of vdb in domain.xml.j2.
_TEST_DISK = "/machine/peripheral/virtio-disk1/virtio-backend"
# Those of domain.xml.j2 that are not under test: root, swap, the workload's.
_OTHER_DISKS = ("vda", "vdc", "vdd")
# In the order of DiskUse.
_DISK_USE = ("rd.reqs", "rd.bytes", "wr.reqs", "wr.bytes", "fl.reqs")
# libvirt's names of the file that is RAM: of a machine's, and of its only NUMA node's.
_RAM, _RAM_OF_A_NODE = "pc.ram", "ram-node0"
_template = jinja2.Environment(
    loader=jinja2.PackageLoader("riobed", "vm/qemu"), undefined=jinja2.StrictUndefined
).get_template("domain.xml.j2")


class LibvirtMachine:
    """Implements Machine, HasTerminal, WritesDisk and SavesDevices of riobed.vm.machine."""

    def __init__(self, connection: libvirt.virConnect, config: MachineConfig) -> None:
        self.config = config
        self._connection = connection
        # A QEMU that this process starts drops our privileges; one that a daemon starts never had them.
        inside = embedded(connection)
        self._drop = drop_script(SHARED_MEMORY, _RAM_OF_A_NODE if config.nvdimm else _RAM) if inside else ""
        # A daemon's QEMU may not be able to reach our cache.
        self._scripts = libvirt_cache() if inside else config.folder.parent
        self._domain: libvirt.virDomain | None = None
        # The host's threads that are its processors; empty until asked for.
        self._threads: list[int] = []
        self._device_states = DeviceStates(self._execute, config.folder / "devices.qcow2")
        open_folder(config.folder)
        self.console = LogFile(config.folder / "console.log")
        # A step takes about 60 bytes, so this holds a million steps.
        self.progress = LogFile(config.folder / "progress.log", 64 << 20)
        self.evidence = LogFile(config.folder / "evidence.log")
        self._agent = GuestAgent(config.folder / "agent.sock")

    def definition(self) -> str:
        """Return the domain's XML."""
        config = self._reachable()
        return _template.render(
            c=config,
            emulator=emulator(config, self._scripts, self._drop),
            repeatable=self.config.accelerator == REPEATABLE,
            translated=TRANSLATED_MIB,
            # The version has the form 7002022 for 7.2.22. It matters only for emulated guests.
            wrong_flags=self.config.accelerator != "kvm" and self._qemu_version() < 8_000_000,
            start=_START,
            console=self.console.path,
            progress=self.progress.path,
            evidence=self.evidence.path,
            agent=self.config.folder / "agent.sock",
        )

    def _reachable(self) -> MachineConfig:
        """Return the configuration with files that QEMU's user can read."""
        config, files = self.config, self.config.folder.parent / "files"
        if not self._drop:
            return config
        return replace(
            config,
            kernel=readable(config.kernel, files),
            initrd=readable(config.initrd, files),
            root_image=readable(config.root_image, files),
            workload_image=config.workload_image and readable(config.workload_image, files),
            plugin=config.plugin and replace(config.plugin, path=readable(config.plugin.path, files)),
            qemu=config.qemu and readable_program(config.qemu, files),
        )

    def _qemu_version(self) -> int:
        if not self.config.qemu:
            return int(self._connection.getVersion())
        major, minor = version_number(qemu_version(self.config.qemu))
        return major * 1_000_000 + minor * 1_000

    def _give(self, *files: Path) -> None:
        if self._drop:
            give(*files)

    def start(self) -> None:
        self.destroy()
        for log in (self.console, self.progress, self.evidence):
            log.clear()
        # RAM is a sparse file that grows as the guest writes; without room for it QEMU is killed.
        need_room(memory_dir(), self.config.memory)
        check_nvdimm(self.config)
        disks = (self.config.test_disk, self.config.swap_disk, *(each.path for each in self.config.devices))
        self._give(*filter(None, disks))
        if self.config.nvdimm:
            self._give(self.config.nvdimm.path)
        if self.config.plugin:
            counters = self.config.folder / self.config.plugin.counters
            counters.touch()
            self._give(counters)
        mark_durable(self.config)
        definition = self.definition()
        self._give(self._device_states.new_file())
        with self._call("QEMU does not start", BootError):
            self._domain = self._connection.createXML(definition)

    def destroy(self) -> None:
        self._agent.close()
        domain, self._domain, self._threads = self._domain, None, []
        if domain:
            try:
                domain.destroy()
            except libvirt.libvirtError as error:
                if error.get_error_code() not in (
                    libvirt.VIR_ERR_NO_DOMAIN,
                    libvirt.VIR_ERR_OPERATION_INVALID,
                ):
                    raise InfraError(f"{self.config.name}: {error}") from None

    def alive(self) -> bool:
        try:
            return bool(self._domain and self._domain.isActive())
        except libvirt.libvirtError:
            return False

    def steal_time(self) -> float:
        # libvirt's vcpu.N.delay is the same, but takes a millisecond, and this is called many times a second.
        threads = self._threads or [int(cpu["thread-id"]) for cpu in self._execute("query-cpus-fast")]
        self._threads = threads
        try:
            return max(map(_waited_ns, threads)) / 1e9
        except OSError:
            # QEMU's threads end before libvirt hears of it.
            deadline = time.monotonic() + _CALL_S
            while self.alive() and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            raise InfraError(f"{self.config.name}: {self.failure() or 'a processor of it ended'}") from None

    def disk_use(self) -> DiskUse:
        with self._call("statistics of the disks"):
            found = self._connection.domainListGetStats(
                [self._running()],
                libvirt.VIR_DOMAIN_STATS_BLOCK,
                libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT,
            )
        # A domain that ends meanwhile is left out.
        if not found:
            raise InfraError(
                f"{self.config.name}: no statistics of the disks: {self.failure() or 'it ended'}"
            )
        told = found[0][1]
        disks = [n for n in range(told.get("block.count", 0)) if told[f"block.{n}.name"] not in _OTHER_DISKS]
        return DiskUse(*(sum(int(told.get(f"block.{n}.{what}", 0)) for n in disks) for what in _DISK_USE))

    def failure(self) -> str:
        if not self.alive():
            words = last_words(qemu_log(self.config.name))
            return "QEMU is not running" + (f"; it wrote last: {words}" if words else "")
        with suppress(libvirt.libvirtError):
            if self._domain and self._domain.state() == _DISK_FAILED:
                return f"QEMU could not write the guest's disk; make room in {self.config.folder}"
        return ""

    def pause(self) -> None:
        with self._call("pause"):
            self._running().suspend()

    def resume(self) -> None:
        with self._call("resume"):
            self._running().resume()

    def reset(self) -> None:
        self._agent.close()
        with self._call("reset"):
            self._running().reset()

    def power_loss(self, seed: int) -> LostLines | None:
        # Before the pause: a port of a paused machine does not hear that its channel is closed (set_status()
        # in QEMU's hw/char/virtio-serial-bus.c). Stage 0 would wait a second for the host's word on it.
        self._hang_up()
        self.pause()
        lose_memory(self.ram_path(), seed)
        lost = lose_lines(self.config, seed)
        self.reset()
        self.resume()
        return lost

    def nmi(self) -> None:
        with self._call("NMI"):
            self._running().injectNMI()

    def save(self, name: str) -> None:
        self._hang_up()
        if not self._paused():
            self.pause()
        mark_durable(self.config)
        self._monitor(f"savevm {name}")

    def load(self, name: str) -> None:
        paused = self._paused()
        if paused and self.config.accelerator == REPEATABLE:
            # Measured: loading into a machine that is already paused shifts events by a few microseconds.
            self.resume()
            paused = False
        self._agent.close()
        if not paused:
            self.pause()
        self._hang_up()
        # loadvm leaves a paused machine paused.
        self._monitor(f"loadvm {name}")
        mark_durable(self.config)

    def save_devices(self, name: str, disks: bool = False) -> None:
        self._hang_up()
        if not self._paused():
            self.pause()
        self._device_states.save(name, disks)

    def load_devices(self, name: str, disks: bool = False) -> None:
        self._hang_up()
        self._device_states.load(name, disks)

    def tell(self, line: str) -> None:
        self._agent.tell(line)

    def write_disk(self, byte: int, value: int) -> None:
        # QEMU reports success or failure only in its own log.
        self._monitor(f'qemu-io -d {_TEST_DISK} "write -P {value} {byte} 1"')

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        return self._agent.run(argv, stdin, timeout)

    def spawn(self, argv: list[str], stdin: bytes = b"") -> int:
        return self._agent.spawn(argv, stdin, capture=True)

    def status(self, pid: int, timeout: float = 10) -> ExecResult | None:
        return self._agent.status(pid, timeout)

    def read_file(self, path: str) -> bytes:
        return self._agent.read_file(path)

    def write_file(self, path: str, data: bytes, timeout: float = 10) -> None:
        self._agent.write_file(path, data, timeout)

    def agent_answers(self, timeout: float) -> bool:
        try:
            self._agent.sync(timeout)
        except AgentLost:
            return False
        return True

    def console_device(self) -> Path:
        """Return the terminal device that is the other end of an interactive console."""
        source = ElementTree.fromstring(self._running().XMLDesc()).find("devices/serial/source")
        if source is None or "path" not in source.attrib:
            raise InfraError(f"{self.config.name}: its console is no terminal")
        return Path(source.attrib["path"])

    def ram_path(self) -> Path:
        # libvirt names the folder by the domain's number and the first 20 characters of its name.
        name = f"{self._running().ID()}-{self.config.name[:20]}"
        found = sorted(memory_dir().rglob(f"*{name}/*"))
        # Exact match: domain 1 must not match 11, nor a name that only starts like this one.
        mine = re.compile(rf"(?:^|[^0-9]){re.escape(name)}$")
        files = [path for path in found if path.is_file() and mine.search(path.parent.name)]
        if len(files) != 1:
            raise InfraError(f"{self.config.name}: found {len(files)} files for its RAM, want one: {files}")
        return files[0]

    def _paused(self) -> bool:
        return bool(self._running().state()[0] == libvirt.VIR_DOMAIN_PAUSED)

    def _hang_up(self) -> None:
        """Close the agent's channel, and wait until QEMU has noticed."""
        self._agent.close()
        deadline = time.monotonic() + _HANG_UP_S
        while "disconnected:" not in self._ask("info chardev"):
            if time.monotonic() > deadline:
                raise InfraError(f"{self.config.name}: the agent's channel stays open")
            time.sleep(_POLL_S)

    def _running(self) -> libvirt.virDomain:
        failure = self.failure()
        if failure or not self._domain:
            raise InfraError(f"{self.config.name}: {failure or 'not started'}")
        return self._domain

    @contextmanager
    def _call(self, what: str, kind: type[InfraError] = InfraError) -> Iterator[None]:
        """Bound one call to QEMU by _CALL_S seconds; raise `kind` if it fails or QEMU does not answer."""
        why = ""
        with time_limit(_CALL_S, f"guest={self.config.name},".encode()) as late:
            try:
                yield
            except libvirt.libvirtError as error:
                why = " ".join(str(error).split())
        # libvirt leaves statistics out that a killed QEMU did not give, and raises nothing.
        if late.is_set():
            why = f"no answer within {_CALL_S:.0f} s, QEMU was killed"
        if why:
            raise kind(f"{self.config.name}: {what}: {why}")

    def _monitor(self, command: str) -> None:
        """Run a human monitor command that prints nothing unless it fails; InfraError if it prints."""
        if output := self._ask(command):
            raise InfraError(f"{self.config.name}: {command}: {output.strip()}")

    def _ask(self, command: str) -> str:
        """Run a human monitor command and return its output."""
        return str(self._execute("human-monitor-command", {"command-line": command}, command))

    def _execute(self, command: str, arguments: dict[str, Any] | None = None, what: str = "") -> Any:
        """Run a command of QEMU's machine protocol and return its result; InfraError if it fails.

        Errors name `what`, or else the command.
        """
        request = json.dumps({"execute": command, "arguments": arguments or {}})
        with self._call(what or command):
            answer = json.loads(libvirt_qemu.qemuMonitorCommand(self._running(), request, 0))
        if "return" not in answer:
            raise InfraError(f"{self.config.name}: {what or command}: {answer}")
        return answer["return"]


def _waited_ns(thread: int) -> int:
    """Return how long a thread of the host has waited for a processor.

    Source: the kernel's Documentation/scheduler/sched-stats.rst.
    """
    return int(Path(f"/proc/{thread}/schedstat").read_text().split()[1])
