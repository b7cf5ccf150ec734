# SPDX-License-Identifier: Apache-2.0
"""What is done in a booted guest before its snapshot: file system, injector, the workload's files."""

from riobed.errors import BootError, InfraError, UsageError
from riobed.guest.assembly import GuestSetup
from riobed.guest.memory import registry
from riobed.guest.memory.meminfo import cache_use
from riobed.guest.settings.modes import CacheMode
from riobed.guest.snapshots import Known
from riobed.guest.workload.tree import read_listing
from riobed.vm import Machine

# Preparing a source tree file by file on a disk of 1996 takes many minutes.
_PREPARE_S = 1800.0
# A shell's words before what the file system under test becomes. mount(8) repeats the options it has. With
# `dirsync` among them the kernel's new calls are refused (fs/super.c, reconfigure_super(), MS_RMT_MASK).
REMOUNT = "LIBMOUNT_FORCE_MOUNT2=always mount /mnt/test -o remount,"
# In the Rio modes sync writes nothing. A file system that becomes read-only writes everything in every mode.
# The kernel then forgets its directories and inodes (fs/super.c, reconfigure_super()), which a tmpfs never
# does, so all are looked at again.
_SETTLE = f"{REMOUNT}ro && {REMOUNT}rw && find /mnt/test -size +0 >/dev/null"
_INJECTOR = "/lib/riobed/riobed_inject.ko"
_PROPAGATION = "/lib/riobed/riobed_propagation.ko"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# riobed-init starts the agent and says where its process id is.
_AGENT = 'ls "/proc/$(cat /run/qemu-ga.pid)/task"'


def make_file_system(machine: Machine, mode: CacheMode) -> None:
    """Use the guest's own tools; the same tools check the file system after a crash."""
    for mkfs in mode.mkfs_commands:
        made = machine.run(mkfs, timeout=_PREPARE_S)
        if made.status:
            said = (made.stderr or made.stdout).decode("utf-8", "replace").strip().splitlines()
            raise UsageError(
                f"{mkfs[0]}: {said[-1] if said else f'status {made.status}'}; correct `mkfs` of this mode"
            )


def prepare(machine: Machine, setup: GuestSetup, mode: CacheMode) -> Known:
    """Bring a guest that was just booted to where its snapshot is taken; return what is known of it then.

    BootError if that fails.
    """
    loaded = machine.run(["/sbin/insmod", _INJECTOR])
    if loaded.status:
        raise BootError(f"injector does not load: {loaded.stderr.decode('utf-8', 'replace').strip()}")
    workload = setup.workload_in(mode)
    if workload.prepare:
        _prepare_files(machine, workload.prepare)
    if setup.settled:
        settled = machine.run(["/bin/sh", "-c", _SETTLE], timeout=_PREPARE_S)
        if settled.status:
            raise BootError(f"the file system cannot be remounted: {settled.error}")
    return Known(
        cache=cache_use(machine.read_file("/proc/meminfo"), machine.config.memory),
        boot_id=read_boot_id(machine, setup, mode),
        outside=read_listing(machine, workload.list_outside, _PREPARE_S).decode("latin-1"),
        agent=_read_agent(machine),
    )


def _prepare_files(machine: Machine, command: list[str]) -> None:
    done = machine.run(command, timeout=_PREPARE_S)
    if done.status:
        error = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-200:]
        raise BootError(f"workload's prepare failed with status {done.status}: {error}")
    # A trial tests what is written after injection, not the prepared files.
    machine.run(["/bin/sync"], timeout=_PREPARE_S)


def read_boot_id(machine: Machine, setup: GuestSetup, mode: CacheMode) -> str:
    """Return what the registry says, because recovery reports that of the memory it finds.

    In modes without a registry it is the begin of the kernel's own boot id.
    """
    if mode.restores_memory:
        with registry.mapped(machine.ram_path()) as memory:
            if found := registry.boot_id(memory, setup.layout(mode)):
                return found
    return machine.read_file(_BOOT_ID).decode("ascii", "replace").replace("-", "")[:16]


def _read_agent(machine: Machine) -> tuple[int, ...]:
    """Return the process ids of the agent's threads."""
    found = machine.run(["/bin/sh", "-c", _AGENT])
    if found.status:
        raise BootError(f"the agent's process cannot be found: {found.error}")
    return tuple(int(word) for word in found.stdout.split() if word.isdigit())


def start_propagation_log(machine: Machine, kept: range) -> None:
    """Start the log in the `kept` bytes of RAM, after the snapshot, which is then the same without a log."""
    places = [f"kept_start={kept.start}", f"kept_end={kept.stop}"]
    started = machine.run(["/usr/bin/staprun", "-b", "1", "-L", _PROPAGATION, *places])
    if started.status:
        raise InfraError(f"the propagation log does not start: {started.error}")
