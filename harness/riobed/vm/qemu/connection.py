# SPDX-License-Identifier: Apache-2.0
"""The connection to libvirt: by default, its QEMU driver inside this process.

qemu:///embed needs no daemon and no systemd (libvirt, docs/drvqemu, "Embedded driver"). Measured with libvirt
9.0: the event loop must be registered and running before the connection is opened, settings belong in
ROOT/etc/qemu.conf, and libvirt's own logs must be kept off stderr.
"""

import grp
import os
import pwd
import threading
from pathlib import Path

# libvirt logs to stderr from its import on. Errors reach us as exceptions, so the log is discarded.
os.environ.setdefault("LIBVIRT_LOG_OUTPUTS", "1:file:/dev/null")

import libvirt

from riobed.errors import EnvironmentFault
from riobed.products import cache_dir
from riobed.vm.host.scratch import memory_dir, scratch_dir

_QEMU_CONF = """\
# Written by riobed. No virtlogd: there is no daemon here. QEMU's user: riobed.vm.host.unprivileged.
stdio_handler = "file"
user = "{user}"
group = "{group}"
security_driver = "none"
dynamic_ownership = 0
remember_owner = 0
namespaces = []
cgroup_controllers = []
memory_backing_dir = "{memory}"
"""

_ROOT = "libvirt"

_lock = threading.Lock()
_connections: dict[str, libvirt.virConnect] = {}


def _run_event_loop() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _say_nothing(_context: object, _error: object) -> None:
    pass


def _start_event_loop() -> None:
    libvirt.virEventRegisterDefaultImpl()
    # Errors arrive as exceptions; libvirt would also print them.
    libvirt.registerErrorHandler(_say_nothing, None)
    threading.Thread(target=_run_event_loop, name="libvirt events", daemon=True).start()


def connect(uri: str | None = None) -> libvirt.virConnect:
    """Return the connection to `uri`, or to the embedded driver in this process; it is opened once.

    Raises EnvironmentFault when libvirt or its QEMU driver is not there.
    """
    with _lock:
        root = libvirt_root()
        target = uri or f"qemu:///embed?root={root}"
        if target in _connections:
            return _connections[target]
        if not uri:
            _write_settings(root)
        if not _connections:
            _start_event_loop()
        try:
            connection = libvirt.open(target)
        except libvirt.libvirtError as error:
            raise EnvironmentFault(
                f"libvirt: cannot open {target}: {error}; run 'riobed doctor' to see what is missing"
            ) from None
        _connections[target] = connection
        return connection


def embedded(connection: libvirt.virConnect) -> bool:
    """Whether this is the driver inside this process, which has our privileges."""
    return str(connection.getURI()).startswith("qemu:///embed")


def libvirt_root() -> Path:
    """Return the root folder of the embedded driver: its settings, state and logs."""
    return scratch_dir() / _ROOT


def libvirt_cache() -> Path:
    """Return the folder of what all processes' embedded drivers share; it is made if it is missing."""
    folder = cache_dir() / _ROOT
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def qemu_log(domain: str) -> Path:
    """Return the file in which the embedded driver logs the output of a domain's QEMU."""
    return libvirt_root() / "log/qemu" / f"{domain}.log"


def _write_settings(root: Path) -> None:
    # Probing an emulator takes seconds. libvirt itself probes again when QEMU, libvirt or the host changed.
    (root / "cache/qemu").mkdir(parents=True)
    (root / "cache/qemu/capabilities").symlink_to(libvirt_cache())
    (root / "etc").mkdir()
    (root / "etc/qemu.conf").write_text(
        _QEMU_CONF.format(
            user=pwd.getpwuid(os.getuid()).pw_name,
            group=grp.getgrgid(os.getgid()).gr_name,
            memory=memory_dir(),
        )
    )
